"""Tables of token vectors for whole texts: directories of model2vec, and StaticEmbedding of sentence-transformers."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec

if TYPE_CHECKING:
    from firth.models.shared.model import Model


def _load(folder: Path) -> "Model":
    from firth.models.shared.token_table import load_token_table

    return load_token_table(folder)


def _recognizes(path: Path) -> bool:
    from firth.models.shared.token_table import is_token_table

    return is_token_table(path)


SPEC = ModelSpec(
    name="model2vec",
    load=_load,
    recognizes=_recognizes,
    model_types=("model2vec",),
    tokens=("wordpiece",),
    is_table=True,
    abilities=("nearest", "analogy"),
)
