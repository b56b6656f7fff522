"""Texts to vectors: ``encode``, in memory, into a file, or on a cluster."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from firth.api.using import loaded
from firth.core.config import AnyPath, check_engine
from firth.core.errors import FirthError
from firth.core.storage import Cluster

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from firth.models.shared.model import Model

_BLOCK = 512  # texts that are encoded before their vectors are written


def encode(
    model: AnyPath | Model,
    texts: str | Iterable[str],
    *,
    layer: int = -1,
    pool: str | None = None,
    prompt: str | None = None,
    all_layers: bool = False,
    out: AnyPath | None = None,
    engine: str = "local",
    address: str | None = None,
) -> NDArray[np.float32]:
    """Turns texts into vectors.

    Args:
        model: A run, a model directory, a file of word vectors, or a loaded model.
        texts: One text or several; with ``out`` they are read as they are needed.
        layer: Which layer: 0 is the token layer, -1 the last.
        pool: ``mean``, ``cls``, ``max`` or ``last``; a model supports some of these (``model.pools``). By default what a
            sentence model's modules say, for all other models ``mean``.
        prompt: Written before each text: a prompt of the model by its name (``query``), or any words.
        all_layers: Whether to return every layer instead of one.
        out: A ``.npy`` file to write block by block; the array is then memory-mapped from it.
        engine: ``local``, or ``ray`` for a cluster, where the model lies at the same path on every node; needs ``out``.
            Blocks that are done are kept beside ``out`` until all are: the same command goes on after them.
        address: Of the Ray cluster; without it one is started on this machine.

    Returns:
        float32 [texts, dimensions]; with ``all_layers`` [texts, layers, dimensions].

    Example::

        firth.encode("runs/bert", ["A sentence.", "Another one."]).shape
    """
    from firth.core.files import atomic_file

    remote = check_engine(engine, address)
    if remote and (out is None or not isinstance(model, str | Path)):
        raise FirthError("a cluster writes to a file and loads models by their path: name both (--out)")
    of_model = loaded(model)
    asked = [texts] if isinstance(texts, str) else texts
    chosen = None if all_layers else layer
    if out is None:
        return _encode(of_model, list(asked), chosen, pool, prompt)
    import numpy as np

    goal = Path(out)
    if goal.suffix != ".npy":
        raise FirthError(f"{out}: vectors are written as NumPy arrays; choose a name that ends in .npy")
    if not goal.parent.is_dir():
        raise FirthError(f"{out}: the folder {goal.parent} does not exist; make it first")
    layers = (len(of_model.layers("a").hidden),) if all_layers else ()
    dim = of_model.dim if all_layers else of_model.vector_dim(layer, pool)
    count, shape = 0, (*layers, dim)
    with ExitStack() as stack, atomic_file(goal) as handle:  # finished parts go after the file is there
        np.lib.format.write_array_header_1_0(handle, {"descr": "<f4", "fortran_order": False, "shape": (0, *shape)})
        if remote:
            found = stack.enter_context(
                _encoded_remotely(Path(str(model)), asked, goal, (chosen, pool, prompt), address)
            )
        else:
            found = (_encode(of_model, some, chosen, pool, prompt) for some in _blocks(asked))
        for vectors in found:
            handle.write(vectors.astype("<f4").tobytes())
            count += len(vectors)
        handle.seek(0)  # the header has room for any number
        np.lib.format.write_array_header_1_0(handle, {"descr": "<f4", "fortran_order": False, "shape": (count, *shape)})
    mapped: NDArray[np.float32] = np.load(goal, mmap_mode="r" if count else None)
    return mapped


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    left = iter(texts)
    while some := list(islice(left, _BLOCK)):
        yield some


@contextmanager
def _encoded_remotely(
    model: Path,
    texts: Iterable[str],
    goal: Path,
    settings: tuple[int | None, str | None, str | None],
    address: str | None,
) -> Iterator[Iterator[NDArray[np.float32]]]:
    """The vectors of all blocks in their order, from a cluster. What is done is kept beside the goal until all is; a block
    is known by the hash of its texts, the model and the settings."""
    import numpy as np

    from firth.core.files import atomic_file, fingerprint

    cluster, parts = Cluster(address), goal.with_name(f".{goal.name}.parts")
    parts.mkdir(exist_ok=True)
    base = f"{fingerprint(model)} {settings}".encode()

    def paths_and_blocks() -> Iterator[tuple[Path, list[str]]]:
        for number, some in enumerate(_blocks(texts)):
            key = hashlib.sha256(base + json.dumps([number, some]).encode()).hexdigest()[:32]
            yield parts / f"{key}.npy", some

    waiting: deque[Path] = deque()  # in the order of the blocks; done before or given to the cluster

    def jobs() -> Iterator[tuple[object, ...]]:
        for path, some in paths_and_blocks():
            waiting.append(path)
            if not path.is_file():
                yield str(model.absolute()), some, *settings

    def take(path: Path) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = np.load(path, allow_pickle=False)
        return vectors

    def results() -> Iterator[NDArray[np.float32]]:
        for vectors in cluster.ordered(_encode_there, jobs()):
            while waiting[0].is_file():
                yield take(waiting.popleft())
            with atomic_file(waiting.popleft(), durable=False) as handle:
                np.save(handle, vectors, allow_pickle=False)
            yield vectors
        while waiting:
            yield take(waiting.popleft())

    yield results()
    shutil.rmtree(parts)


@lru_cache(maxsize=1)
def _model_there(path: str) -> Model:
    return loaded(path)


def _encode_there(
    path: str, texts: list[str], layer: int | None, pool: str | None, prompt: str | None
) -> NDArray[np.float32]:
    """One job of a cluster; a worker keeps the model for the next."""
    return _encode(_model_there(path), texts, layer, pool, prompt)


def _encode(
    model: Model, texts: list[str], layer: int | None, pool: str | None, prompt: str | None
) -> NDArray[np.float32]:
    """[N, D], or without a layer all of them, [N, L+1, D]."""
    import numpy as np

    if layer is not None:
        return model.encode(texts, layer, pool, prompt)
    num_layers = len(model.layers("a").hidden)
    return np.stack([model.encode(texts, number, pool or "mean", prompt) for number in range(num_layers)], axis=1)
