"""The folder of a search index: parts that never change, and ``index.json``, which names those that count.

A change writes new files first and ``index.json`` last, so that a killed process or a full disk leaves the index as it was, and
whoever reads meanwhile sees the old state or the new one. Files of the state before stay until the next change, for
readers that are just opening them. Small parts are merged, so that there are never many.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import atomic_file, checksum, disk_errors, lock_folder, read_json, write_json
from firth.core.types import Arrays
from firth.retrieval.parts import Entry, Graph, Part, build_arrays, map_arrays, merge_arrays, write_part

INDEX = "index.json"
EXACT_UP_TO = 200_000  # passages
_SMALL = 32_768  # passages: parts that have fewer are merged ...
_TOGETHER = 8  # ... so many at a time
_TRIES = 20
_AGAIN = "make the index again"
_BUSY = "another process is changing this index; wait for it or stop it"


class FileRecord(Config):
    """A file of the index, with what it must contain."""

    name: str
    bytes: int
    sha256: str


class PartRecord(Config):
    file: FileRecord
    documents: int
    passages: int
    gone: FileRecord | None = None  # which documents were deleted or replaced since
    num_gone: int = 0
    graph: FileRecord | None = None  # of usearch

    @property
    def files(self) -> list[FileRecord]:
        return [one for one in (self.file, self.gone, self.graph) if one is not None]


class ModelRecord(Config):
    """The model that made the vectors."""

    path: str
    fingerprint: str
    dim: int
    images: bool = False  # documents and questions are paths of images


class IndexConfig(Config):
    """How documents become passages."""

    passage_size: int = Field(default=160, ge=8, le=100_000)  # words, or Chinese characters
    overlap: int = Field(default=1, ge=0, le=100)  # sentences that a passage repeats of the one before
    exact_up_to: int = Field(default=EXACT_UP_TO, ge=0)  # passages; with more, vectors are found by usearch


class IndexRecord(Config):
    """``index.json``."""

    format: Literal[1] = 1
    kind: Literal["search index"] = "search index"
    generation: int = 0
    config: IndexConfig = IndexConfig()
    model: ModelRecord | None = None
    weight: float = 0.5  # of vectors against words
    weighed: int = 0  # passages when the weight was chosen
    parts: tuple[PartRecord, ...] = ()

    @property
    def num_passages(self) -> int:
        return sum(part.passages for part in self.parts)

    @property
    def num_documents(self) -> int:
        """Without those that were deleted."""
        return sum(part.documents - part.num_gone for part in self.parts)

    @property
    def names(self) -> set[str]:
        return {one.name for part in self.parts for one in part.files}


def is_index(folder: Path) -> bool:
    return (folder / INDEX).is_file()


def read_record(folder: Path) -> IndexRecord:
    path = folder / INDEX
    if not folder.exists():
        raise FirthError(f"{folder}: no such index; make one with: firth index DOCUMENTS --out {folder}")
    if not path.is_file():
        raise FirthError(f"{folder}: not a search index (no {INDEX} in it); name a folder that firth index made")
    data = read_json(path, dict)
    if data.get("kind") != "search index":
        raise FirthError(f"{path}: not that of a search index; name a folder that firth index made")
    if data.get("format") != 1:
        raise FirthError(f"{path}: made by another version of Firth (format {data.get('format')}); {_AGAIN}")
    return IndexRecord.build(data, path)


class State:
    """What an index holds at one moment. Parts that another state has open are taken from it."""

    def __init__(self, folder: Path, record: IndexRecord, verify: bool = True, before: State | None = None) -> None:
        self.folder, self.record = folder, record
        known = {} if before is None else before.arrays
        self.arrays: dict[str, Arrays] = {}
        self.graphs: dict[str, Graph | None] = {}
        self.parts: list[Part] = []
        for part in record.parts:
            for one in part.files:
                if verify and (before is None or one.name not in before.record.names):
                    _check(folder, one)
            arrays = known.get(part.file.name) or map_arrays(folder / part.file.name)
            self.arrays[part.file.name] = arrays
            gone = None if part.gone is None else map_arrays(folder / part.gone.name)["gone"].astype(np.bool_)
            found = Part(arrays, gone, folder / part.file.name)
            if part.graph is not None:
                found.graph = self._graph(part.graph.name, before)
            self.parts.append(found)

    def _graph(self, name: str, before: State | None) -> Graph | None:
        """The graph of a part, memory-mapped; none where usearch is not installed, and the search is exact then."""
        if before is not None and name in before.graphs:
            self.graphs[name] = before.graphs[name]
            return before.graphs[name]
        try:
            from usearch.index import Index
        except ModuleNotFoundError:
            return None
        self.graphs[name] = Index.restore(str(self.folder / name), view=True)
        return self.graphs[name]


def open_state(folder: Path, verify: bool = True, before: State | None = None) -> State:
    """The index as it is now. A file that is not there any more means that it has just changed: it is read again."""
    for _ in range(_TRIES):
        record = read_record(folder)
        try:
            return State(folder, record, verify, before)
        except FileNotFoundError:
            if read_record(folder).generation == record.generation:
                break
    missing = next((name for name in sorted(record.names) if not (folder / name).is_file()), INDEX)
    raise FirthError(f"{folder / missing}: missing; {_AGAIN}")


def _check(folder: Path, one: FileRecord) -> None:
    path = folder / one.name
    if Path(one.name).name != one.name:
        raise FirthError(f"{folder / INDEX}: '{one.name}' lies outside the folder; {_AGAIN}")
    if path.stat().st_size != one.bytes or checksum(path) != one.sha256:
        raise FirthError(f"{path}: damaged (its checksum is not the one it was written with); {_AGAIN}")


class Writer:
    """Changes an index; only one at a time. Nothing counts before ``commit``."""

    def __init__(self, folder: Path, record: IndexRecord) -> None:
        self.folder = folder
        self.state = State(folder, record) if is_index(folder) else State(folder, record, verify=False)
        self.gone: dict[int, set[int]] = {}  # part -> documents
        self._kept: set[str] = set(record.names)
        self._clean()

    @property
    def record(self) -> IndexRecord:
        return self.state.record

    def find(self, id: str) -> tuple[int, int] | None:
        """(part, number) of the document with an id."""
        for place, part in enumerate(self.state.parts):
            number = part.find(id)
            if number is not None and number not in self.gone.get(place, ()):
                return place, number
        return None

    def remove(self, place: int, number: int) -> None:
        self.gone.setdefault(place, set()).add(number)

    def commit(self, entries: Sequence[Entry] = (), **changes: object) -> None:
        """Adds documents, takes out those that were removed, and makes this the state of the index."""
        parts = [self._with_gone(place, part) for place, part in enumerate(self.record.parts)]
        parts = [part for part in parts if part.num_gone < part.documents]
        if entries:
            parts.append(self._write(build_arrays(entries)))
        record = self.record.replace(parts=tuple(parts), generation=self.record.generation + 1, **changes)
        record = self._with_graphs(self._merged(record))
        self._kept |= record.names
        write_json(self.folder / INDEX, record.model_dump(mode="json"))
        self._kept = self.record.names | record.names
        self.state, self.gone = State(self.folder, record, verify=False, before=self.state), {}
        self._clean()

    def _with_gone(self, place: int, part: PartRecord) -> PartRecord:
        if place not in self.gone:
            return part
        gone_K = self.state.parts[place].gone_K.copy()
        gone_K[list(self.gone[place])] = True
        file = self._save("gone", {"gone": gone_K.astype(np.uint8)})
        return part.replace(gone=file, num_gone=int(gone_K.sum()))

    def _write(self, arrays: Arrays) -> PartRecord:
        file = self._save("part", arrays)
        return PartRecord(file=file, documents=len(arrays["keys"]), passages=len(arrays["passages"]))

    def _save(self, kind: str, arrays: Arrays) -> FileRecord:
        path = self._free(kind, ".safetensors")
        write_part(path, arrays)
        return self._described(path)

    def _free(self, kind: str, ending: str) -> Path:
        """A name that no file has, for a file that the next cleaning removes unless it is committed."""
        for number in range(self.record.generation + 1, 1 << 62):
            path = self.folder / f"{kind}-{number:06d}{ending}"
            if path.name not in self._kept and not path.exists():
                return path
        raise AssertionError

    def _described(self, path: Path) -> FileRecord:
        self._kept.add(path.name)
        return FileRecord(name=path.name, bytes=path.stat().st_size, sha256=checksum(path))

    def _merged(self, record: IndexRecord) -> IndexRecord:
        """Small parts become one where there are many, and parts of which more than half is gone are written again."""
        small = [part for part in record.parts if part.passages < _SMALL]
        chosen = small if len(small) >= _TOGETHER else []
        chosen = [
            *chosen,
            *(part for part in record.parts if 2 * part.num_gone > part.documents and part not in chosen),
        ]
        if not chosen:
            return record
        kept = tuple(part for part in record.parts if part not in chosen)
        opened = State(self.folder, record.replace(parts=tuple(chosen)), verify=False, before=self.state)
        return record.replace(parts=(*kept, self._write(merge_arrays(opened.parts))))

    def _with_graphs(self, record: IndexRecord) -> IndexRecord:
        """Graphs for parts of an index that is too large for exact search, where usearch is installed."""
        wanted = record.model is not None and record.num_passages > record.config.exact_up_to
        missing = [part for part in record.parts if wanted and part.graph is None]
        if not missing:
            return record
        try:
            from usearch.index import Index
        except ModuleNotFoundError:
            return record
        made: dict[str, FileRecord] = {}
        for part in missing:
            vectors_PD = map_arrays(self.folder / part.file.name)["vectors"]
            graph = Index(ndim=vectors_PD.shape[1], metric="ip", dtype="f16", connectivity=16, expansion_add=128)
            graph.add(np.arange(len(vectors_PD)), vectors_PD, threads=0)
            path = self._free("graph", ".usearch")
            with atomic_file(path) as handle:
                handle.write(graph.save() or b"")
            made[part.file.name] = self._described(path)
        return record.replace(
            parts=tuple(
                part.replace(graph=made[part.file.name]) if part.file.name in made else part for part in record.parts
            )
        )

    def _clean(self) -> None:
        """Removes files that no state needs: what a killed process left, and what was replaced twice."""
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if _is_ours(path) and path.name not in self._kept:
                with contextlib.suppress(OSError):  # Windows keeps what a reader has open: next time
                    path.unlink()


def _is_ours(path: Path) -> bool:
    """Whether a file was written by a ``Writer``, or half of it."""
    return path.name.lstrip(".").startswith(("part-", "gone-", "graph-")) or path.name.startswith(f".{INDEX}.")


@contextlib.contextmanager
def writing(folder: Path, new: IndexRecord | None) -> Iterator[Writer]:
    """A writer for the index of a folder; for a ``new`` one where there is none."""
    if new is not None and not is_index(folder):
        if folder.exists() and not (folder.is_dir() and all(map(_is_ours, folder.iterdir()))):
            raise FirthError(f"{folder}: exists already and is not a search index; choose another --out")
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder, _BUSY):
        try:
            yield Writer(folder, read_record(folder) if new is None or is_index(folder) else new)
        finally:
            if not is_index(folder):
                with contextlib.suppress(OSError):  # nothing was committed: an empty folder goes again
                    folder.rmdir()


def usearch_is_missing() -> bool:
    from importlib.util import find_spec

    return find_spec("usearch") is None
