"""What libraries read in C++ is read by Firth first: graphs and parts of an index with checksums that fit, translators for
CTranslate2. Whatever is changed in them, they are read or refused."""

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import attack_files
import attack_native
import attack_seeds
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import firth
from firth.core.errors import FirthError
from firth.exporters.ctranslate2 import load_ctranslate2
from firth.retrieval.checking import check_graph
from firth.retrieval.store import open_state


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native")
    attack_seeds.build(folder)
    return folder


@pytest.fixture
def index(seeds: Path, tmp_path: Path) -> Path:
    shutil.copytree(attack_native.index(seeds), tmp_path / "index")
    return tmp_path / "index"


def put(place: int, kind: str, number: int) -> Callable[[bytearray], None]:
    return lambda raw: struct.pack_into(kind, raw, place, number)


HEAD = 8 + 600 * 16  # behind the vectors: 600 of 8 numbers in half precision
LEVELS = HEAD + 104
GRAPHS = {
    "one row more": (put(0, "<I", 601), "not a graph of usearch|not the vectors"),
    "other numbers": (put(HEAD + 14, "<B", 11), "not the vectors of its parts"),
    "deleted rows": (put(HEAD + 17, "<Q", 10**12), "not the vectors of its parts"),
    "rows of the graph": (put(HEAD + 64, "<Q", 10**9), "not a graph of its rows"),
    "neighbours": (put(HEAD + 80, "<Q", 10**6), "not a graph of its rows"),
    "a beginning outside": (put(HEAD + 96, "<Q", 600), "without a beginning"),
    "a highest level": (put(HEAD + 88, "<Q", 30), "without a beginning"),
    "a level below zero": (put(LEVELS, "<h", -1), "not a graph of its rows"),
    "another level": (put(LEVELS, "<h", 7), "without a beginning|longer or shorter"),
    "a key outside": (put(LEVELS + 1200, "<Q", 600), "a row with another number or level"),
    "a level in the row": (put(LEVELS + 1200 + 8, "<h", 5), "a row with another number or level"),
    "a long list": (put(LEVELS + 1200 + 10, "<I", 33), "a list of neighbours that is too long"),
    "a neighbour outside": (put(LEVELS + 1200 + 14, "<I", 600), "'neighbours' leads outside"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_that_leads_outside(name: str, index: Path) -> None:
    damage, reason = GRAPHS[name]
    path = index / "graph-000001.usearch"
    check_graph(path, 600, 8)
    raw = bytearray(path.read_bytes())
    damage(raw)
    path.write_bytes(raw)
    attack_native.seal(index, path)
    with pytest.raises(FirthError, match=reason):
        open_state(index)


def test_a_neighbour_of_a_lower_level(index: Path) -> None:
    """On the upper levels, too: the row that it leads to has no list there."""
    path = index / "graph-000001.usearch"
    raw = bytearray(path.read_bytes())
    levels = np.frombuffer(raw, "<i2", 600, LEVELS).astype(np.int64)
    sizes = 10 + 4 + 32 * 4 + levels * (4 + 16 * 4)
    row, low = int(np.flatnonzero(levels > 0)[0]), int(np.flatnonzero(levels == 0)[0])
    place = LEVELS + 1200 + int(sizes[:row].sum()) + 10 + 4 + 32 * 4
    assert struct.unpack_from("<I", raw, place)[0] > 0
    struct.pack_into("<I", raw, place + 4, low)
    path.write_bytes(raw)
    with pytest.raises(FirthError, match="a neighbour that is not on that level"):
        check_graph(path, 600, 8)


PARTS: dict[str, tuple[int, int]] = {
    "text_starts": (5, 10**9),
    "row_starts": (0, 3),
    "passages": (7, -1),
    "postings": (3, 10**6),
    "posting_starts": (2, -5),
    "term_starts": (1, 10**9),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_leads_outside(name: str, index: Path) -> None:
    path = index / "part-000001.safetensors"
    arrays = {key: array.copy() for key, array in load_file(path).items()}
    place, number = PARTS[name]
    arrays[name].reshape(-1)[place] = number
    save_file(arrays, path)
    attack_native.seal(index, path)
    with pytest.raises(FirthError, match=r"damaged .*; make the index again"):
        open_state(index)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("encoder/num_heads", "another number"),
        ("encoder/layer_0/ffn/linear_0/weight", "is \\[16, 16\\], not \\[32, 16\\]"),
        ("none", "a variable 'none'"),
    ],
)
def test_a_translator_with_other_variables(name: str, reason: str, seeds: Path, tmp_path: Path) -> None:
    shutil.copytree(attack_native.translator(seeds), tmp_path / "model")
    path = tmp_path / "model" / "model.bin"
    file = attack_native.Variables(path.read_bytes())
    assert file.packed() == path.read_bytes()
    for place, (raw_name, dims, kind, size, data) in enumerate(file.found):
        if raw_name.decode() == f"{name}\0":
            changed = bytes(len(data)) if not dims else data[: size // 2]
            file.found[place] = (raw_name, [dims[0] // 2, *dims[1:]] if dims else [], kind, len(changed), changed)
    if name == "none":
        file.found.append((b"none\0", [], 1, 1, b"\0"))
    path.write_bytes(file.packed())
    with pytest.raises(FirthError, match=reason):
        load_ctranslate2(tmp_path / "model")


def test_a_layer_behind_a_sentence_model_is_not_made_before_it_fits(seeds: Path, tmp_path: Path) -> None:
    attack_files.sentence_folder(seeds, tmp_path / "model")
    path = tmp_path / "model" / "2_Dense" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "out_features": 10**9}))
    with pytest.raises(FirthError, match="asks for 17,000,000,000 numbers, the weights are 136"):
        firth.load(tmp_path / "model")


def test_random_changes_are_read_or_refused(seeds: Path, index: Path, tmp_path: Path) -> None:
    raw = (index / "graph-000001.usearch").read_bytes()
    for seed in range(300):
        path = tmp_path / "graph"
        path.write_bytes(raw)
        attack_native.damage_graph(path, random.Random(seed))
        try:
            check_graph(path, 600, 8)
        except FirthError:
            continue
