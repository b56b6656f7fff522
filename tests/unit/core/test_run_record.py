"""Run directories: made once, replaced only when asked, trained by one process at a time."""

import math
from pathlib import Path
from typing import Any

import pytest

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.run import (
    CellSettings,
    CorpusRecord,
    ExportRecord,
    LayerMix,
    OutputCheck,
    Run,
    RunRecord,
    ScoreInterval,
    SharePoint,
    TaskRecord,
    TaskResult,
    TranslationCheck,
    versions,
)

RECORD = RunRecord(
    kind="pretrain",
    model="bert",
    recipe="bert-tiny",
    versions=versions(),
    config={"seed": 3, "filters": [[1, 4]]},
    corpus=CorpusRecord(path="/corpus", fingerprint="abc"),
)
RESULT = TaskResult(
    seed=0,
    share=1.0,
    examples=12,
    settings=CellSettings(batch_size=8, learning_rate=1e-3, epochs=2),
    metric="accuracy",
    scores={"accuracy": 0.5},
    interval=ScoreInterval(metric="accuracy", low=0.25, high=0.75),
    train_s=1.0,
    seconds=2.0,
    trained_parameters=3,
    parameters=4,
    mixes={"input": LayerMix(weights=(0.25, 0.75), gamma=1.0)},
)


def test_create_open_save(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "deep" / "run", RECORD)
    run.save(steps=5)
    found = Run.open(tmp_path / "deep" / "run").record
    assert found == RECORD.replace(steps=5)
    assert not found.finished
    assert {"python", "torch", "firth"} <= set(found.versions)


def test_changes_go_through_the_schema(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", RECORD)
    for wrong in ({"steps": "many"}, {"colour": 1}, {"metrics": {"loss": "low"}}, {"kind": "task"}):
        with pytest.raises(FirthError):
            run.save(**wrong)
    assert Run.open(run.folder).record == run.record == RECORD
    run.change(steps=5)
    assert Run.open(run.folder).record.steps is None  # not written yet
    run.save(status="finished", metrics={"loss": 1, "spearman": math.nan, "perplexity": math.inf})
    found = Run.open(run.folder).record
    assert found.steps == 5
    assert found.metrics["loss"] == 1.0
    assert math.isnan(found.metrics["spearman"])
    assert math.isinf(found.metrics["perplexity"])


def test_parts_of_a_task_and_of_an_export(tmp_path: Path) -> None:
    point = SharePoint(share=1.0, examples=12, scores=(0.5,), mean=0.5, deviation=0.0)
    task = TaskRecord(cells=1, shares=(0.5, 1.0), results=(RESULT,), best=0, efficiency=(point,))
    record = RunRecord.build(RECORD.model_dump() | {"kind": "task", "task": task, "status": "finished"}, "test")
    Run(tmp_path, record).save()
    found = Run.open(tmp_path).record
    assert found == record
    assert found.task is not None
    assert found.task.metric == "accuracy"
    assert found.task.mixes["input"].weights == (0.25, 0.75)
    assert found.task.interval == RESULT.interval
    for check in (
        OutputCheck(texts=2, largest_difference=0.1, smallest_cosine=0.9),
        TranslationCheck(translations=5, equal=4),
    ):
        export = ExportRecord(source="/run", int8=True, verified=check)
        record = RunRecord.build(RECORD.model_dump() | {"kind": "onnx", "export": export, "corpus": None}, "test")
        Run(tmp_path, record).save()
        assert Run.open(tmp_path).record == record


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "task"}, "'task' is missing"),
        ({"task": TaskRecord(cells=1)}, "'task' is not for"),
        ({"kind": "onnx"}, "'export' does not fit"),
        ({"corpus": None}, "'corpus' is missing"),
        ({"kind": "task", "task": TaskRecord(cells=1), "status": "finished"}, "'task.best' is missing"),
        ({"kind": "task", "task": {"cells": 1, "best": 0}}, "best is 0, but there are 0 results"),
    ],
)
def test_parts_that_do_not_fit(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(FirthError, match=said):
        RunRecord.build(RECORD.model_dump() | changes, "test")


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    Run.create(tmp_path, RECORD)
    assert (tmp_path / "firth.json").is_file()


def test_exists(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", RECORD).save(steps=5)
    with pytest.raises(
        FirthError, match=r"exists already; choose another --out, go on with --resume .*run, or replace"
    ):
        Run.create(tmp_path / "run", RECORD)
    assert Run.open(tmp_path / "run").record.steps == 5
    (tmp_path / "run" / "model.safetensors").write_text("old")
    Run.create(tmp_path / "run", RECORD, overwrite=True)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert Run.open(tmp_path / "run").record.steps is None


def test_what_is_no_run_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("precious")
    (tmp_path / "letter").write_text("precious")
    for name in ("photos", "letter"):
        with pytest.raises(FirthError, match="exists already; choose another --out or"):
            Run.create(tmp_path / name, RECORD)
        with pytest.raises(FirthError, match="not a run of Firth, so it is not overwritten"):
            Run.create(tmp_path / name, RECORD, overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "precious"


def test_open_tells_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="no such run"):
        Run.open(tmp_path / "no")
    with pytest.raises(FirthError, match=r"not a run of Firth \(no firth.json in it\)"):
        Run.open(tmp_path)
    assert Run.find(tmp_path) is None
    Run.create(tmp_path, RECORD)
    assert Run.find(tmp_path) is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 99}, "made by a newer Firth .* update Firth"),
        ({"format": 1}, "made by an older Firth .* train it again"),
        ({"format": "2"}, r"damaged \(it says no format\)"),
        ({"format": True}, r"damaged \(it says no format\)"),
        ({"kind": None}, r"damaged \('kind' is missing\)"),
        ({"checksums": None}, r"damaged \('checksums' is missing\)"),
        ({"kind": "dance"}, r"damaged \('kind': "),
        ({"status": 5}, r"damaged \('status': "),
        ({"model": 5}, r"damaged \('model': "),
        ({"config": []}, r"damaged \('config': "),
        ({"corpus": {"fingerprint": "abc"}}, r"damaged \('corpus.path': "),
        ({"metrics": {"loss": "low"}}, r"damaged \('metrics.loss': "),
        ({"charts": [{"title": "x"}]}, r"damaged \('charts.0.note': "),
        ({"colour": 1}, r"damaged \('colour': "),
        ({"kind": "task"}, r"damaged \('task' is missing"),
    ],
)
def test_a_damaged_record_is_one_sentence(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    Run.create(tmp_path, RECORD)
    data = read_json(tmp_path / "firth.json") | changes
    write_json(
        tmp_path / "firth.json", {name: value for name, value in data.items() if changes.get(name, 0) is not None}
    )
    with pytest.raises(FirthError, match=rf"firth\.json: {said}") as error:
        Run.open(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '"run"', "\x00", "[" * 100_000, '{"format": 1e999}'])
def test_what_is_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "firth.json").write_text(text)
    with pytest.raises(FirthError, match=r"firth\.json: (damaged|not valid JSON)"):
        Run.open(tmp_path)


def test_lock(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", RECORD)
    with run.lock():
        with pytest.raises(FirthError, match="another process is training this run"), Run.open(run.folder).lock():
            pass
        with pytest.raises(FirthError, match="another process is training this run"):
            Run.create(run.folder, RECORD, overwrite=True)
        assert (run.folder / "firth.json").is_file()
    with run.lock():
        pass


def test_an_error_inside_the_lock_is_not_mistaken(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", RECORD)
    with pytest.raises(BlockingIOError), run.lock():
        raise BlockingIOError("of another kind")
