"""Images that the page shows: the first examples of models of images, and the images of an index or of dev examples. They are sent
as PNG files of a small square, whatever they were."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.errors import FirthError
from firth.core.run import Run
from firth.corpus.images import ImageCorpus
from firth.corpus.pictures import first_image, png, small_image
from firth.retrieval.topics import live_texts

if TYPE_CHECKING:
    from firth.retrieval.search import IndexModel

EXAMPLE_SIZE, SMALL_SIZE = 224, 96  # pixels along the edge
_TRIED = 100  # documents of an index, until one is still there


def small_file(path: str, size: int = SMALL_SIZE) -> str | None:
    """A small square of an image in base64."""
    found = small_image(path, size)
    return None if found is None else base64.b64encode(found).decode()


def short_name(path: str) -> str:
    """The file and its folder: paths of this machine are private."""
    return "/".join(Path(path).parts[-2:])


def run_example(folder: Path) -> dict[str, str]:
    """An image for the form of a run: a held-out one of a prepared corpus, or the first one of the labelled files of a task."""
    with contextlib.suppress(FirthError, OSError, IndexError):
        run = Run.find(folder)
        corpus = None if run is None else run.record.corpus
        if corpus is None:
            return {}
        if (Path(corpus.path) / "corpus.json").is_file():
            held = ImageCorpus.open(corpus.path, verify=False).heldout.pixels[0]
            return {"image": base64.b64encode(png(held)).decode()}
        found = first_image(Path(corpus.dev or corpus.path), EXAMPLE_SIZE)
        return {} if found is None else {"image": base64.b64encode(found).decode()}
    return {}


def index_example(model: IndexModel) -> dict[str, str]:
    """One of the indexed images that is still there."""
    for (_, path), _ in zip(live_texts(model.index.refresh()), range(_TRIED), strict=False):
        if (found := small_file(path.strip(), EXAMPLE_SIZE)) is not None:
            return {"image": found}
    return {}
