"""What an index that others made must hold before it is asked: borders, numbers and graphs that lie within its arrays.

Checksums say that a file is the one that was written, not who wrote it. A graph is followed by usearch in C++ without a
look at its numbers, so one that leads outside its file would end the process.

K documents, P passages, V terms, C columns, N rows of a graph, L their levels.
"""

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.types import Array, Ints

AGAIN = "make the index again"
_BORDERS = {"texts": "text_starts", "rows": "row_starts", "columns": "column_starts", "terms": "term_starts"}
_KINDS = {
    "keys": "u8",
    "values": "u8",
    "numbers": "f8",
    "passages": "i8",
    "postings": "i4",
    "counts": "i4",
    "lens": "i4",
}
_DENSE = struct.Struct(
    "<7s3H4B3QB"
)  # usearch 2: name, version, kinds of metric, number, key and slot, counts, dimensions
_GRAPH = struct.Struct("<5Q")  # rows, neighbours, neighbours on the ground, highest level, where a search begins
_F16, _U32 = 12, 15  # usearch's numbers of kinds
_DENSE_BYTES, _NODE_BYTES, _LIST_BYTES, _SLOT = (
    64,
    10,
    4,
    4,
)  # of a head; a row's key and level; a list's length; a neighbour


def check_part(path: Path, arrays: Mapping[str, Array], num_documents: int, num_passages: int, dim: int | None) -> None:
    """That nothing in the arrays of a part leads outside them. ``dim``: the width of its vectors; none: it has none."""
    try:
        _check_arrays(arrays, num_documents, num_passages, dim)
    except (ValueError, KeyError, IndexError) as error:
        raise FirthError(f"{path}: damaged ({error}); {AGAIN}") from None


def _check_arrays(arrays: Mapping[str, Array], num_documents: int, num_passages: int, dim: int | None) -> None:
    for name, borders in _BORDERS.items():
        _check_borders(borders, arrays[borders], len(arrays[name]))
    columns = len(arrays["column_starts"]) - 1
    shapes = {
        "text_starts": (num_documents + 1,),
        "row_starts": (num_documents + 1,),
        "keys": (num_documents, 3),
        "values": (num_documents, columns),
        "numbers": (num_documents, columns),
        "passages": (num_passages, 3),
        "posting_starts": arrays["term_starts"].shape,
        "counts": arrays["postings"].shape,
        "lens": (num_passages,),
        **({} if dim is None else {"vectors": (num_passages, dim)}),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"'{name}' is {list(arrays[name].shape)}, not {list(shape)}")
    for name, kind in {**_KINDS, **({} if dim is None else {"vectors": "f4"})}.items():
        if arrays[name].dtype != np.dtype(kind):
            raise ValueError(f"'{name}' has numbers of another kind")
    _check_borders("posting_starts", arrays["posting_starts"], len(arrays["postings"]))
    _check_range("postings", arrays["postings"], num_passages)
    document_P, start_P, end_P = arrays["passages"].T
    _check_range("passages", document_P, num_documents)
    starts = arrays["text_starts"]
    if (start_P < starts[document_P]).any() or (end_P < start_P).any() or (end_P > starts[document_P + 1]).any():
        raise ValueError("a passage lies outside its document")


def _check_borders(name: str, borders: Array, size: int) -> None:
    """They begin at 0, end at the end, and never fall."""
    if borders.ndim != 1 or borders.dtype != np.dtype("i8") or not len(borders):
        raise ValueError(f"'{name}' has another form")
    if borders[0] != 0 or borders[-1] != size or (borders[1:] < borders[:-1]).any():
        raise ValueError(f"'{name}' does not cut its bytes")


def _check_range(name: str, numbers: Array, end: int) -> None:
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < end:
        raise ValueError(f"'{name}' leads outside")


def check_graph(path: Path, num_rows: int, dim: int) -> None:
    """That a file of usearch is whole, has these rows, and that every neighbour in it is a row of that level."""
    try:
        _Graph(np.asarray(np.memmap(path, np.uint8, "r")), num_rows, dim)
    except FileNotFoundError:
        raise
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        reason = "it ends too early" if isinstance(error, struct.error) else error
        raise FirthError(f"{path}: damaged ({reason}); {AGAIN}") from None


class _Graph:
    """A file: vectors, a head, a second head, the level of each row, and for each row its key, its level, and a list of
    neighbours for each level."""

    def __init__(self, data: NDArray[np.uint8], num_rows: int, dim: int) -> None:
        rows, width = struct.unpack_from("<2I", data.data, 0)
        head = 8 + rows * width
        self._check_head(data, head, num_rows, dim)
        if (rows, width) != (num_rows, 2 * dim):  # half precision
            raise ValueError("not the vectors of its parts")
        size, self.upper, self.ground, top, first = _GRAPH.unpack_from(data.data, head + _DENSE_BYTES)
        levels = head + _DENSE_BYTES + _GRAPH.size
        nodes = levels + 2 * num_rows
        self.level_N = np.frombuffer(data, "<i2", num_rows, levels).astype(np.int64)
        if size != num_rows or not 0 < max(self.upper, self.ground) <= 4096 or (self.level_N < 0).any():
            raise ValueError("not a graph of its rows")
        if num_rows and (first >= num_rows or top != self.level_N[first] or top != self.level_N.max()):
            raise ValueError("a graph without a beginning")
        ends = nodes + np.cumsum(_NODE_BYTES + self._list(self.ground) + self.level_N * self._list(self.upper))
        if num_rows and ends[-1] != len(data):
            raise ValueError("it is longer or shorter than its rows")
        self.data, self.start_N = data, np.concatenate(([nodes], ends[:-1]))
        for level in range(int(self.level_N.max(initial=-1)) + 1):
            self._check_level(level)

    @staticmethod
    def _check_head(data: NDArray[np.uint8], place: int, num_rows: int, dim: int) -> None:
        name, version, _, _, _, number, _, slot, present, _, dims, _ = _DENSE.unpack_from(data.data, place)
        if name != b"usearch" or version != 2:
            raise ValueError("not a graph of usearch 2")
        if (present, dims) != (num_rows, dim) or (number, slot) != (_F16, _U32):
            raise ValueError("not the vectors of its parts")

    @staticmethod
    def _list(neighbours: int) -> int:
        return _LIST_BYTES + neighbours * _SLOT

    def _check_level(self, level: int) -> None:
        """The lists of one level: as long as they may be, and of rows that have this level."""
        rows = np.flatnonzero(self.level_N >= level)
        most = self.upper if level else self.ground
        before = _NODE_BYTES + (self._list(self.ground) + (level - 1) * self._list(self.upper) if level else 0)
        for some in np.array_split(rows, max(1, len(rows) // 8192)):
            if level == 0:
                heads = self._read(self.start_N[some], _NODE_BYTES)
                keys, levels = heads[:, :8].copy().view("<u8")[:, 0], heads[:, 8:].copy().view("<i2")[:, 0]
                if (keys >= len(self.level_N)).any() or (levels != self.level_N[some]).any():
                    raise ValueError("a row with another number or level")
            lists = self._read(self.start_N[some] + before, self._list(most)).view("<u4")
            counts, neighbours = lists[:, 0], lists[:, 1:].astype(np.int64)
            if (counts > most).any():
                raise ValueError("a list of neighbours that is too long")
            used = neighbours[np.arange(most) < counts[:, None]]
            _check_range("neighbours", used, len(self.level_N))
            if (self.level_N[used] < level).any():
                raise ValueError("a neighbour that is not on that level")

    def _read(self, places: Ints, size: int) -> NDArray[np.uint8]:
        """Bytes at each of these places, [N, size]."""
        found: NDArray[np.uint8] = np.lib.stride_tricks.sliding_window_view(self.data, size)[places]
        return found
