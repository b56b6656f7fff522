"""Named NumPy arrays in one safetensors file, written as a stream and read as memory maps.

(The safetensors library makes a copy of everything on both ways; the format is simple enough:
the length of a JSON header in 8 bytes, the header, the arrays one after another.)
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import atomic_file

_TYPES = {"F32": "<f4", "F64": "<f8", "I8": "i1", "U8": "u1", "I32": "<i4", "I64": "<i8"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_BLOCK = 1 << 24


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> None:
    """Writes the file whole or not at all; the widest numbers first, so that all are aligned."""
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.size * array.dtype.itemsize
        header[name] = {
            "dtype": _NAMES[array.dtype.newbyteorder("<")],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as handle:
        handle.write(len(text).to_bytes(8, "little"))
        handle.write(text)
        for name in names:
            array = arrays[name]
            step = max(1, _BLOCK // max(1, array[:1].nbytes))
            for first in range(0, len(array), step):
                handle.write(np.ascontiguousarray(array[first : first + step]).data)


def is_arrays(path: Path) -> bool:
    """Whether the file begins like safetensors."""
    with open(path, "rb") as handle:
        head = handle.read(9)
    return len(head) == 9 and head[8:] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size


def map_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays as read-only memory maps, and the metadata."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            if not 0 < length <= size - 8:
                raise ValueError("its header is cut off")
            header = json.loads(handle.read(length))
        metadata = header.pop("__metadata__", {})
        found = {name: _mapped(path, 8 + length, size, entry) for name, entry in header.items()}
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FirthError(f"{path}: not a whole safetensors file ({error}); copy it again") from None
    return found, metadata


def _mapped(path: Path, start: int, size: int, entry: dict[str, Any]) -> NDArray[Any]:
    begin, end = entry["data_offsets"]
    if entry["dtype"] not in _TYPES:
        raise ValueError(f"its type {entry['dtype']} is not one of {', '.join(_TYPES)}")
    dtype, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"])
    if start + end > size or int(np.prod(shape, dtype=np.int64)) * dtype.itemsize != end - begin:
        raise ValueError("its arrays are cut off")
    if begin == end:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start + begin, shape)
