"""The folder of a search index: parts that never change, and ``index.json``, which names those that count.

A change writes new files first and ``index.json`` last, so that a killed process or a full disk leaves the index as it was, and
whoever reads meanwhile sees the old state or the new one. Files of the state before stay until the next change, for
readers that are just opening them. Small parts are merged, so that there are never many.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import atomic_file, checksum, disk_errors, lock_folder, read_json, write_json
from firth.core.types import Arrays
from firth.retrieval.checking import AGAIN, check_graph, check_part
from firth.retrieval.parts import (
    Entry,
    Graph,
    OpenGraph,
    Part,
    build_arrays,
    grow_graph,
    key_of,
    map_arrays,
    merge_arrays,
    write_part,
)

INDEX = "index.json"
EXACT_UP_TO = 200_000  # passages
_SMALL = 32_768  # passages: parts that have fewer are merged ...
_TOGETHER = 8  # ... so many at a time
_GRAPHED = 8 * _SMALL  # passages from which a graph is large enough
_TRIES = 20
FileKey: TypeAlias = tuple[str, str]
_BUSY = "another process is changing this index; wait for it or stop it"


class FileRecord(Config):
    """A file of the index, with what it must contain."""

    name: str
    bytes: int
    sha256: str

    @property
    def key(self) -> FileKey:
        """By which an open file is known: an index that is made again uses the same names."""
        return self.name, self.sha256


class PartRecord(Config):
    file: FileRecord
    documents: int
    passages: int
    gone: FileRecord | None = None  # which documents were deleted or replaced since
    num_gone: int = 0

    @property
    def files(self) -> list[FileRecord]:
        return [one for one in (self.file, self.gone) if one is not None]


class GraphRecord(Config):
    """A graph of usearch over the vectors of some parts, which are numbered one part after the other."""

    file: FileRecord
    parts: tuple[str, ...]  # their files
    passages: int


class ModelRecord(Config):
    """The model that made the vectors."""

    path: str
    fingerprint: str
    dim: int
    images: bool = False  # documents and questions are paths of images
    similarity: Literal["cosine", "dot"] = "cosine"  # by which its vectors are compared


class IndexConfig(Config):
    """How documents become passages."""

    passage_size: int = Field(default=160, ge=8, le=100_000)  # words, or Chinese characters
    overlap: int = Field(default=1, ge=0, le=100)  # sentences that a passage repeats of the one before
    exact_up_to: int = Field(default=EXACT_UP_TO, ge=0)  # passages; with more, vectors are found by usearch


class IndexRecord(Config):
    """``index.json``."""

    format: Literal[2] = 2
    kind: Literal["search index"] = "search index"
    generation: int = 0
    config: IndexConfig = IndexConfig()
    model: ModelRecord | None = None
    weight: Annotated[float, Field(ge=0, le=1)] = 0.5  # of vectors against words
    weighed: int = 0  # passages when the weight was chosen
    parts: tuple[PartRecord, ...] = ()
    graphs: tuple[GraphRecord, ...] = ()

    @property
    def num_passages(self) -> int:
        return sum(part.passages for part in self.parts)

    @property
    def num_documents(self) -> int:
        """Without those that were deleted."""
        return sum(part.documents - part.num_gone for part in self.parts)

    @property
    def files(self) -> list[FileRecord]:
        return [one for part in self.parts for one in part.files] + [one.file for one in self.graphs]

    @property
    def names(self) -> set[str]:
        return {one.name for one in self.files}

    @property
    def file_keys(self) -> set[FileKey]:
        return {one.key for one in self.files}


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
    if data.get("format") != 2:
        raise FirthError(f"{path}: made by another version of Firth (format {data.get('format')}); {AGAIN}")
    return IndexRecord.build(data, path)


class State:
    """What an index holds at one moment. Files that another state has open are taken from it."""

    def __init__(self, folder: Path, record: IndexRecord, verify: bool = True, before: State | None = None) -> None:
        self.folder, self.record = folder, record
        for one in record.files:
            if verify and (before is None or one.key not in before.record.file_keys):
                _check(folder, one)
        known = {} if before is None else before.arrays
        self.arrays: dict[FileKey, Arrays] = {}
        self.parts: list[Part] = []
        for part in record.parts:
            arrays = known.get(part.file.key) or map_arrays(folder / part.file.name)
            self.arrays[part.file.key] = arrays
            gone = None if part.gone is None else _gone(folder / part.gone.name, part.documents)
            if verify and part.file.key not in known:
                dim = None if record.model is None else record.model.dim
                check_part(folder / part.file.name, arrays, part.documents, part.passages, dim)
            self.parts.append(Part(arrays, gone, folder / part.file.name))
        opened: dict[FileKey, OpenGraph] = {} if before is None else {one.key: one for one in before.graphs}
        found = [opened.get(one.file.key) or _open_graph(folder, record, one, verify) for one in record.graphs]
        self.graphs: list[OpenGraph] = [one for one in found if one is not None]

    def places(self, graph: OpenGraph) -> list[int]:
        """Which parts a graph covers, in its order."""
        where = {part.file.name: place for place, part in enumerate(self.record.parts)}
        return [where[name] for name in graph.parts]

    def sources(self) -> set[str]:
        """The files that documents are from."""
        found: set[str] = set()
        for part in self.parts:
            live = np.flatnonzero(~part.gone_K)
            _, first = np.unique(part.arrays["keys"][live, 1], return_index=True)
            found |= {str(part.row(number)["source"]) for number in live[first].tolist()}
        return found

    def holds(self, id: str) -> bool:
        """Whether there is a document with this id."""
        return any(part.find(id) is not None for part in self.parts)

    def num_of_id(self, id: str) -> int:
        """Documents that ever had an id, about: other ids may share its key."""
        return _count(self._keys[0], id)

    def num_of_source(self, source: str) -> int:
        return _count(self._keys[1], source)

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        """The keys of all documents' ids and sources, both sorted."""
        parts = [part.arrays["keys"][:, :2].T for part in self.parts]
        return np.sort(np.concatenate([np.zeros((2, 0), np.uint64), *parts], 1), 1)


def _count(sorted_keys: NDArray[np.uint64], name: str) -> int:
    key = np.uint64(key_of(name))
    return int(sorted_keys.searchsorted(key, "right") - sorted_keys.searchsorted(key))


def _gone(path: Path, num_documents: int) -> NDArray[np.bool_]:
    found = map_arrays(path).get("gone")
    if found is None or found.shape != (num_documents,):
        raise FirthError(f"{path}: damaged; {AGAIN}")
    return found.astype(np.bool_)


def _open_graph(folder: Path, record: IndexRecord, one: GraphRecord, verify: bool) -> OpenGraph | None:
    """A graph, memory-mapped; none where usearch is not installed, and the search is exact then."""
    try:
        from usearch.index import Index
    except ModuleNotFoundError:
        return None
    path, sizes = folder / one.file.name, {part.file.name: part.passages for part in record.parts}
    if record.model is None or not sizes.keys() >= set(one.parts):
        raise FirthError(f"{folder / INDEX}: a graph of parts that it does not have; {AGAIN}")
    if verify:
        check_graph(path, sum(sizes[name] for name in one.parts), record.model.dim)
    try:
        graph = Index.restore(str(path), view=True)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise FirthError(f"{path}: damaged ({error}); {AGAIN}") from None
    if graph is None:
        raise FirthError(f"{path}: damaged; {AGAIN}")
    return OpenGraph(one.file.key, one.parts, cast(Graph, graph))


def open_state(folder: Path, verify: bool = True, before: State | None = None) -> State:
    """The index as it is now. A file that is not there any more means that it has just changed: it is read again."""
    for _ in range(_TRIES):
        record = read_record(folder)
        try:
            return State(folder, record, verify, before)
        except FileNotFoundError:
            if read_record(folder) == record:
                break
    missing = next((name for name in sorted(record.names) if not (folder / name).is_file()), INDEX)
    raise FirthError(f"{folder / missing}: missing; {AGAIN}")


def _check(folder: Path, one: FileRecord) -> None:
    path = folder / one.name
    if Path(one.name).name != one.name:
        raise FirthError(f"{folder / INDEX}: '{one.name}' lies outside the folder; {AGAIN}")
    if path.stat().st_size != one.bytes or checksum(path) != one.sha256:
        raise FirthError(f"{path}: damaged (its checksum is not the one it was written with); {AGAIN}")


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
        if not self.state.num_of_id(id):
            return None
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
        """Graphs over the large parts of an index that is too large for exact search, where usearch is installed. A graph
        grows to some parts, then another begins, so that memory does not depend on the size of the index."""
        there = {part.file.name for part in record.parts}
        graphs = [one for one in record.graphs if there.issuperset(one.parts)]
        known = {name for one in graphs for name in one.parts}
        wanted = record.model is not None and record.num_passages > record.config.exact_up_to
        missing = [part for part in record.parts if part.file.name not in known and part.passages >= _SMALL]
        if wanted and missing and not usearch_is_missing():
            last = graphs.pop() if graphs and graphs[-1].passages < _GRAPHED else None
            while missing:
                size = 0 if last is None else last.passages
                some = [missing.pop(0)]
                while missing and size + sum(part.passages for part in some) < _GRAPHED:
                    some.append(missing.pop(0))
                graphs.append(self._grown(last, some))
                last = None
        return record.replace(graphs=tuple(graphs))

    def _grown(self, graph: GraphRecord | None, parts: Sequence[PartRecord]) -> GraphRecord:
        """A new file with the passages of some parts behind those of a graph."""
        names = tuple(part.file.name for part in parts)
        vectors = [map_arrays(self.folder / name)["vectors"] for name in names]
        data = grow_graph(None if graph is None else self.folder / graph.file.name, vectors)
        path = self._free("graph", ".usearch")
        with atomic_file(path) as handle:
            handle.write(data)
        before = () if graph is None else graph.parts
        size = sum(part.passages for part in parts) + (0 if graph is None else graph.passages)
        return GraphRecord(file=self._described(path), parts=(*before, *names), passages=size)

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
