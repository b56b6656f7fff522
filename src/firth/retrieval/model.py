"""A search index as a model, so that ``firth.load`` opens it and ``firth serve`` serves it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.models.shared.model import Model
from firth.retrieval.search import Hit, Mode, SearchIndex, Where


class IndexModel(Model):
    """What ``firth.load`` gives for a folder that ``firth index`` made."""

    kind = "search index"

    def __init__(self, folder: Path, load: Callable[[Path], Model]) -> None:
        self.index = SearchIndex(folder, load)
        self.dim = 0 if self.index.record.model is None else self.index.record.model.dim

    def _abilities(self) -> set[str]:
        return {"search"}

    def describe(self) -> dict[str, Any]:
        record = self.index.refresh().record
        counts = {"documents": record.num_documents, "passages": record.num_passages}
        return {**super().describe(), **counts, "vectors": record.model is not None}

    def search(
        self,
        question: str,
        top: int = 10,
        mode: Mode = "auto",
        where: Where = (),
        weight: float | None = None,
        passages: bool = False,
    ) -> list[Hit]:
        """The best passages for a question, see ``firth.search``. Questions to a server are never taken for paths."""
        if self.index.record.model is not None and self.index.record.model.images:
            raise FirthError("an index of images is asked with the path of an image: use firth search, not a server")
        return self.index.search(question, top, mode, where, weight, passages)

    def __repr__(self) -> str:
        record = self.index.record
        return f"<search index, {record.num_documents:,} documents, {record.num_passages:,} passages, from {self.path}>"
