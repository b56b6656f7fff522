"""Hostile files of the kinds that a library reads in C++: graphs and parts of a search index, with checksums that fit, and
translators for CTranslate2. An honest one is damaged in one place, often a number that leads outside.
"""

import hashlib
import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from attack_models import hostile_bytes, hostile_json
from attack_runner import Case
from safetensors.numpy import load_file, save_file

import firth
from firth.retrieval import store

NUMBERS = (-1, 0, 1, 3, 10**4, 10**6, 2**31 - 1, 2**31, 2**32 - 1)


# -- a search index


def index(seeds: Path) -> Path:
    """With a graph, which else only large ones have."""
    out = seeds / "native" / "index"
    if not out.is_dir():
        out.parent.mkdir(parents=True, exist_ok=True)
        texts = [f"the old doctor number {number} found a clock in town {7 * number}.\n" for number in range(600)]
        (out.parent / "texts.txt").write_text("".join(texts))
        kept, store._SMALL = store._SMALL, 100
        try:
            firth.index(out.parent / "texts.txt", out, model=seeds / "vectors" / "text.vec", exact_up_to=100)
        finally:
            store._SMALL = kept
    return out


def seal(folder: Path, path: Path) -> None:
    """Writes the checksum of a changed file into the index, as whoever made it could."""
    raw = path.read_bytes()
    record = json.loads((folder / "index.json").read_text())

    def renew(value: object) -> None:
        if isinstance(value, dict) and value.get("name") == path.name:
            value.update(bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest())
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            renew(one)

    renew(record)
    (folder / "index.json").write_text(json.dumps(record))


def damage_graph(path: Path, pick: random.Random) -> None:
    """A word of the file replaced, mostly behind the vectors."""
    raw = bytearray(path.read_bytes())
    rows, width = struct.unpack_from("<2I", raw, 0)
    start = 8 + rows * width
    areas = ((0, 8), (start, start + 64), (start + 64, start + 104), (start + 104, start + 104 + 2 * rows))
    first, end = pick.choice([*areas, *[(start + 104 + 2 * rows, len(raw))] * 4])
    for _ in range(pick.choice([1, 1, 40])):
        struct.pack_into("<I", raw, pick.randrange(first, max(first + 1, end - 4)), pick.choice(NUMBERS) & 0xFFFFFFFF)
    path.write_bytes(raw)


def damage_part(path: Path, pick: random.Random) -> None:
    """A number, a shape or an array of the file."""
    arrays = load_file(path)
    name = pick.choice(sorted(arrays))
    array, way = arrays[name].copy(), pick.randrange(4)
    if way == 0 and array.size:
        flat = array.reshape(-1)
        flat[pick.randrange(len(flat))] = np.asarray(pick.choice(NUMBERS)).astype(array.dtype)
        arrays[name] = array
    elif way == 1:
        arrays[name] = array[: len(array) // 2]
    elif way == 2:
        arrays[name] = array.astype(pick.choice(["u1", "i4", "i8", "f4", "f8"]))
    else:
        arrays.pop(name)
    save_file({key: np.ascontiguousarray(one) for key, one in arrays.items()}, path)


def index_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"index {seed}")
    place.mkdir(parents=True)
    folder = place / "model"
    shutil.copytree(index(seeds), folder)
    name = pick.choice(["graph-000001.usearch", "graph-000001.usearch", "part-000001.safetensors", "index.json"])
    path = folder / name
    if name == "index.json":
        path.write_bytes(hostile_json(json.loads(path.read_bytes()), pick))
    else:
        if pick.random() < 0.3:
            path.write_bytes(hostile_bytes(path.read_bytes(), pick))
        else:
            (damage_graph if name.startswith("graph") else damage_part)(path, pick)
        seal(folder, path)
    words = ["search", "model", "old doctor", "--mode", pick.choice(["vectors", "both", "words"])]
    return Case(f"index:{seed} ({name})", words, place)


# -- a translator for CTranslate2


def translator(seeds: Path) -> Path:
    out = seeds / "native" / "translator"
    if not out.is_dir():
        firth.export(seeds / "runs" / "marian", out, to="ctranslate2")
    return out


class Variables:
    """model.bin: a version, a name, and variables (name, dimensions, kind, bytes), then other names of some."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.place = raw, 0
        self.head = (self._take("I"), self._name(), self._take("I"))
        self.found: list[tuple[bytes, list[int], int, int, bytes]] = []
        for _ in range(self._take("I")):
            name, dims = self._name(), [self._take("I") for _ in range(self._take("B"))]
            kind, size = self._take("B"), self._take("I")
            self.found.append((name, dims, kind, size, self._bytes(size)))
        self.others = [(self._name(), self._name()) for _ in range(self._take("I"))]
        assert self.place == len(raw)

    def _bytes(self, size: int) -> bytes:
        self.place += size
        return self.raw[self.place - size : self.place]

    def _take(self, kind: str) -> int:
        found: int = struct.unpack("<" + kind, self._bytes(struct.calcsize("<" + kind)))[0]
        return found

    def _name(self) -> bytes:
        return self._bytes(self._take("H"))

    def packed(self, count: int | None = None) -> bytes:
        def named(text: bytes) -> bytes:
            return struct.pack("<H", len(text)) + text

        version, name, revision = self.head
        out = struct.pack("<I", version) + named(name) + struct.pack("<I", revision)
        out += struct.pack("<I", len(self.found) if count is None else count)
        for name, dims, kind, size, data in self.found:
            out += named(name) + struct.pack(f"<B{len(dims)}IBI", len(dims), *dims, kind, size) + data
        return out + struct.pack("<I", len(self.others)) + b"".join(named(a) + named(b) for a, b in self.others)


def damage_variables(raw: bytes, pick: random.Random) -> bytes:
    """A shape, a kind, a size, a name or a number changed, some so that the file is whole still."""
    file, count = Variables(raw), None
    place, way = pick.randrange(len(file.found)), pick.randrange(7)
    name, dims, kind, size, data = file.found[place]
    if way == 0 and dims:
        dims = [*dims[:-1], pick.choice(NUMBERS) & 0xFFFFFFFF]
    elif way == 1:
        kind = pick.choice([0, 1, 2, 3, 4, 5, 200])
    elif way == 2:
        size = pick.choice([0, 1, 2**31, 2**32 - 1])
    elif way == 3:
        name = pick.choice([b"x\0", b"", pick.choice(file.found)[0]])
    elif way == 4:
        count = pick.choice([0, len(file.found) - 1, 2**32 - 1])
    elif way == 5 and dims:  # half of it
        size = size // dims[0] * max(1, dims[0] // 2)
        dims, data = [max(1, dims[0] // 2), *dims[1:]], data[:size]
    else:
        data = bytes(pick.choice([0, 1, 127, 255]) for _ in data)
    file.found[place] = (name, dims, kind, size, data)
    return file.packed(count)


def translator_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"translator {seed}")
    place.mkdir(parents=True)
    shutil.copytree(translator(seeds), place / "model")
    name = pick.choice([*["model.bin"] * 4, "config.json", "shared_vocabulary.json", "firth.json"])
    path = place / "model" / name
    raw = path.read_bytes()
    if name == "model.bin":
        changed = damage_variables(raw, pick) if pick.random() < 0.8 else hostile_bytes(raw, pick)
    else:
        changed = hostile_json(json.loads(raw), pick)
    path.write_bytes(changed)
    return Case(f"translator:{seed} ({name})", ["translate", "model", "dog cat"], place)


MAKERS: dict[str, Callable[[Path, int, Path], Case]] = {"index": index_case, "translator": translator_case}
