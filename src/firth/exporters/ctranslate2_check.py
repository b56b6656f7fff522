"""A folder for CTranslate2 that others made, before CTranslate2 opens it: it believes the sizes in its file.

Variables must be those of the model that firth.json describes, with its shapes, and their numbers must be in the file; single
numbers (heads, switches), the settings and the vocabulary must be equal to what an export of that model has.
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import read_json

_KINDS = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
_BYTES = (4, 1, 2, 4, 2, 2)
_VERSION = 6
_SCALE = "_scale"  # of the rows of a matrix in int8
_AGAIN = "export it again"


class Variable(NamedTuple):
    kind: str
    shape: tuple[int, ...]
    raw: bytes  # of a single number; else empty


def check_translator(
    folder: Path,
    expected: Mapping[str, NDArray[np.generic]],
    config: Mapping[str, object],
    vocabularies: tuple[list[str], list[str]],
) -> None:
    """``expected``: an array of the right shape for each variable, and the number itself where it is one."""
    path = folder / "model.bin"
    try:
        found, others = _variables(np.memmap(path, np.uint8, "r").data)
        for name, one in found.items():
            _check_variable(name, one, found, expected)
        for name, one in others.items():  # they are checked under their own names, too
            if name not in expected or expected[name].shape != one.shape:
                raise ValueError(f"'{name[:100]}' is another name of something else")
    except (ValueError, OSError, struct.error, UnicodeDecodeError) as error:
        reason = "it ends too early" if isinstance(error, struct.error) else error
        raise FirthError(f"{path}: not the model that its firth.json describes ({reason}); {_AGAIN}") from None
    for name, value in read_json(folder / "config.json", dict).items():
        if name not in config or type(value) is not type(config[name]) or value != config[name]:
            raise FirthError(f"{folder / 'config.json'}: '{name}' is not that of its firth.json; {_AGAIN}")
    for side, wanted in zip(("source", "target"), vocabularies, strict=True):
        shared = folder / "shared_vocabulary.json"
        listed = shared if shared.is_file() else folder / f"{side}_vocabulary.json"
        if read_json(listed, list) != wanted:
            raise FirthError(f"{listed}: not the tokens of its tokenizer; {_AGAIN}")


def _check_variable(
    name: str, one: Variable, found: Mapping[str, Variable], expected: Mapping[str, NDArray[np.generic]]
) -> None:
    owner = name.removesuffix(_SCALE)
    if name not in expected and not (owner in expected and expected[owner].ndim == 2 and name != owner):
        raise ValueError(f"a variable '{name[:100]}'")
    wanted = expected[name].shape if name in expected else expected[owner].shape[:1]
    if one.shape != wanted:
        raise ValueError(f"'{name}' is {list(one.shape)}, not {list(wanted)}")
    kind = "float32" if name not in expected or expected[name].ndim else str(expected[name].dtype)
    if name in expected and expected[name].ndim == 2 and f"{name}{_SCALE}" in found:
        kind = "int8"
    if one.kind != kind:
        raise ValueError(f"'{name}' has numbers of another kind")
    if not wanted and one.raw != expected[name].tobytes():
        raise ValueError(f"'{name}' is another number")


def _variables(data: memoryview) -> tuple[dict[str, Variable], dict[str, Variable]]:
    """What the file has, by name and by other names."""
    found: dict[str, Variable] = {}
    reader = _Reader(data)
    if reader.number("I") != _VERSION:
        raise ValueError("written by another version of CTranslate2")
    reader.name()
    reader.number("I")
    for _ in range(reader.number("I")):
        name = reader.name()
        shape = tuple(reader.number("I") for _ in range(reader.number("B")))
        kind, size = reader.number("B"), reader.number("I")
        if kind >= len(_KINDS) or math.prod(shape) * _BYTES[kind] != size:
            raise ValueError(f"the numbers of '{name[:100]}' are not in the file")
        raw = reader.take(size)
        found[name] = Variable(_KINDS[kind], shape, b"" if shape else bytes(raw))
    others = dict[str, Variable]()
    for _ in range(reader.number("I")):
        name, other = reader.name(), reader.name()
        if other not in found:
            raise ValueError(f"'{name[:100]}' is another name of nothing")
        others[name] = found[other]
    if reader.place != len(data):
        raise ValueError("it is longer than what it lists")
    return found, others


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.data, self.place = data, 0

    def take(self, size: int) -> memoryview:
        if size > len(self.data) - self.place:
            raise ValueError("it ends too early")
        self.place += size
        return self.data[self.place - size : self.place]

    def number(self, kind: str) -> int:
        (found,) = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))
        return int(found)

    def name(self) -> str:
        return bytes(self.take(self.number("H"))).removesuffix(b"\0").decode()
