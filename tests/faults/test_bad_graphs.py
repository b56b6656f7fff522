"""Hostile ONNX graphs: refused by what they contain and by how large their values would be, before onnxruntime sees them."""

import shutil
from pathlib import Path

import onnx
import pytest
from attack_graphs import NAMED

import firth
from firth.core.errors import FirthError
from firth.exporters.onnx_check import check_graph

REASONS = {
    "loop without end": "operator 'Loop'|not in the file",
    "expanded to 300000000": "becomes 300000000 x",
    "expanded to 1000000000000": "becomes 1000000000000 x",
    "filled with 2000000000": "operator 'ConstantOfShape'",
    "doubled forty times": "which its settings do not need",
    "outer sums": "which its settings do not need|has the shape",
    "200000 operators": "more than 10000 operators",
    "weights in /proc/self/mem": "a constant with a field of number 13",
    "weights in ../../../../etc/passwd": "a constant with a field of number 13",
    "a function of its own": "a model with a field of number 25|operator 'Twice'",
    "a shape without bytes": "are not in the file",
    "unknown operator": "operator 'NoSuch'",
    "random operator": "operator 'RandomNormalLike'",
    "no nodes": "do not fit together",
    "turned around": "do not fit together",
    "opset of the future": "not a whole ONNX file",
}


@pytest.fixture(scope="module")
def exported(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs") / "run"
    firth.export(run_folder, folder, to="onnx")
    return folder


@pytest.mark.parametrize("name", REASONS)
def test_refused_with_a_reason(name: str, exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path / "run")
    path = tmp_path / "run" / "model.onnx"
    model = onnx.load(str(path))
    NAMED[name](model)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FirthError, match=REASONS[name]):
        firth.load(tmp_path / "run")


def test_what_fails_while_it_is_computed(exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path / "run")
    path = tmp_path / "run" / "model.onnx"
    model = onnx.load(str(path))
    NAMED["rows outside the table"](model)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FirthError, match=r"its graph cannot be computed .* export the model again"):
        firth.load(tmp_path / "run").encode(["A map."])


def test_shapes(exported: Path) -> None:
    """Of the outputs, for any text; values beyond the room are refused."""
    path, dim = exported / "model.onnx", firth.load(exported).dim
    for rows, length in ((1, 1), (2, 5), (3, 24)):
        found = check_graph(path, {"B": rows, "T": length})
        assert set(found.values()) == {(rows, length, dim)}
    with pytest.raises(FirthError, match="which its settings do not need"):
        check_graph(path, {"B": 1, "T": 24}, room=24 * dim - 1)
    with pytest.raises(FirthError, match="or it is damaged"):  # longer than its table of positions
        check_graph(path, {"B": 1, "T": 10**6}, room=10**12)


def test_any_cut_or_bit(exported: Path, tmp_path: Path) -> None:
    """A damaged file is read or refused, whatever the damage."""
    raw, path = (exported / "model.onnx").read_bytes(), tmp_path / "model.onnx"
    sizes = {"B": 1, "T": 8}
    for cut in range(0, len(raw), max(1, len(raw) // 60)):
        path.write_bytes(raw[:cut])
        with pytest.raises(FirthError):
            check_graph(path, sizes)
    for place in range(0, 3000, 7):
        changed = bytearray(raw)
        changed[-place - 1] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            check_graph(path, sizes)
        except FirthError:
            continue
