"""Exported runs: the same answers as the original, verified, refused in one sentence where they cannot be."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firth
from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.core.run import Run
from task_text import files

LONG = "The doctor found a map and the nurse sold a book. " * 12
TEXTS = ["The doctor found a map.", "老师看见了书。", "", "🙂 unheard of", LONG]
KINDS = {
    "classify": [*TEXTS],
    "pair": [("The doctor slept.", "A doctor found a map."), ("", "")],
    "score": TEXTS,
    "tag": [["the", "old", "nurse", "found", "a", "map"], "The old nurse.", "", LONG],
    "crf": [["the", "old", "nurse", "found", "a", "map"], "The old nurse.", ""],
    "answer": [("What did the nurse find?", "The nurse found a map."), ("What?", ""), ("What?", LONG)],
}
SETTINGS: dict[str, dict[str, Any]] = {
    "classify": {},
    "pair": {"pool": "max", "layers": "all"},
    "score": {"long_text": "windows", "window_pool": "max", "pool": "mean", "layers": "mix"},
    "tag": {"layers": "mix", "tune": False},
    "crf": {"crf": True},
    "answer": {},
}


@pytest.fixture(scope="module")
def exported(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The small BERT in float32 and int8."""
    folder = tmp_path_factory.mktemp("exported")
    for int8 in (False, True):
        firth.export(run_folder, folder / str(int8), to="onnx", int8=int8)
    return {int8: folder / str(int8) for int8 in (False, True)}


@pytest.mark.parametrize("pool", ["mean", "cls", "max"])
@pytest.mark.parametrize("layer", [-1, 0, 1])
def test_encode_is_the_original(run_folder: Path, exported: dict[bool, Path], layer: int, pool: str) -> None:
    model, found = firth.load(run_folder), firth.load(exported[False])
    np.testing.assert_allclose(found.encode(TEXTS, layer, pool), model.encode(TEXTS, layer, pool), atol=2e-5)
    assert found.encode([]).shape == (0, model.dim)
    assert found.num_parameters == model.num_parameters
    assert found.engine == "onnxruntime"


def test_an_export_knows_its_model(exported: dict[bool, Path], tmp_path: Path) -> None:
    shutil.copytree(exported[False], tmp_path / "roberta")
    Run.open(tmp_path / "roberta").save(model="roberta")
    assert firth.load(tmp_path / "roberta").spec_name == "roberta"
    assert firth.load(exported[False]).spec_name == "bert"


def test_layers_are_the_original(run_folder: Path, exported: dict[bool, Path]) -> None:
    model, found = firth.load(run_folder), firth.load(exported[False])
    for text in ("The doctor.", ["The", "doctor", "slept"], LONG):
        ours, theirs = found.layers(text), model.layers(text)
        assert ours.tokens == theirs.tokens
        np.testing.assert_allclose(ours.hidden, theirs.hidden, atol=2e-5)


def test_int8_is_near_and_small(run_folder: Path, exported: dict[bool, Path]) -> None:
    ours, theirs = firth.load(exported[True]).encode(TEXTS), firth.load(run_folder).encode(TEXTS)
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.min() > 0.99
    sizes = [(exported[int8] / "model.onnx").stat().st_size for int8 in (True, False)]
    assert sizes[0] < 0.5 * sizes[1]


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_predict_the_same(kind: str, run_folder: Path, tmp_path: Path) -> None:
    task = {"pair": "classify", "crf": "tag"}.get(kind, kind)
    given = files(tmp_path, kind, 12, 6)
    run = tmp_path / "run"
    firth.finetune(task, base=run_folder, **given, out=run, epochs=1, **SETTINGS[kind])  # type: ignore[arg-type]
    verified = firth.export(run, tmp_path / "small", to="onnx", verify=True, data=given["dev"])["export"]["verified"]
    assert verified["largest_difference"] < 1e-4
    assert verified["largest_output_difference"] < 1e-4
    assert _near(verified["before"], verified["after"])
    assert read_json(tmp_path / "small" / "firth.json")["export"]["verified"] == verified
    ours, theirs = (firth.load(path) for path in (tmp_path / "small", run))
    for one, other in zip(ours.predict(KINDS[kind]), theirs.predict(KINDS[kind]), strict=True):
        assert _near(one, other)
    if kind == "classify":
        (tmp_path / "texts.txt").write_text("The doctor found a map.\n", encoding="utf-8")
        assert len(list(firth.predict(tmp_path / "small", file=str(tmp_path / "texts.txt")))) == 1
        assert firth.evaluate(tmp_path / "small", data=given["dev"])["examples"] == 6


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return one == pytest.approx(other, abs=1e-4)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_near(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(_near(*both) for both in zip(one, other, strict=True))
    return bool(one == other)


def test_an_exported_model_is_not_a_base(exported: dict[bool, Path], tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="does not learn"):
        firth.finetune("classify", base=exported[False], **files(tmp_path, "classify"), out=tmp_path / "run")  # type: ignore[arg-type]


def test_what_is_not_exported(run_folder: Path, gpt_folder: Path, exported: dict[bool, Path], tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="kind 'decoder', which is not exported"):
        firth.export(gpt_folder, tmp_path / "out", to="onnx")
    with pytest.raises(FirthError, match="kind 'exported encoder', which is not exported"):
        firth.export(exported[False], tmp_path / "out", to="onnx")
    with pytest.raises(FirthError, match="leave out --data"):
        firth.export(run_folder, tmp_path / "out", to="onnx", data="dev.tsv")
    with pytest.raises(FirthError, match="exists already"):
        firth.export(run_folder, exported[False], to="onnx")
    with pytest.raises(FirthError, match="write it with --to onnx"):
        firth.export(run_folder, tmp_path / "out.vec")
    with pytest.raises(FirthError, match="add --to onnx"):
        firth.export(run_folder, tmp_path / "out.vec", verify=True)
    given = files(tmp_path, "classify")
    firth.finetune("classify", base=run_folder, **given, out=tmp_path / "lstm", epochs=1, body="bilstm")  # type: ignore[arg-type]
    with pytest.raises(FirthError, match="body=bilstm or extra_vectors cannot be exported"):
        firth.export(tmp_path / "lstm", tmp_path / "out", to="onnx")
    assert not (tmp_path / "out").exists()


def damaged(folder: Path, goal: Path, **changes: Any) -> Path:
    shutil.copytree(folder, goal)
    run = Run.open(goal)
    run.save(config=run.record.config | changes)
    return goal


def test_damaged_exports(exported: dict[bool, Path], tmp_path: Path) -> None:
    wider = damaged(exported[False], tmp_path / "a", hidden_dim=64)
    with pytest.raises(FirthError, match="'layer_0' has the shape"):
        firth.load(wider)
    deeper = damaged(exported[False], tmp_path / "b", num_layers=3)
    with pytest.raises(FirthError, match="not the graph that its"):
        firth.load(deeper)
    (deeper / "model.onnx").write_bytes((exported[False] / "model.onnx").read_bytes()[:1000])
    with pytest.raises(FirthError, match=r"not a graph that Firth writes .*ends too early"):
        firth.load(deeper)
    (wider / "tokenizer.json").unlink()
    (wider / "vocab.txt").unlink()
    with pytest.raises(FirthError, match="no tokenizer here"):
        firth.load(wider)
