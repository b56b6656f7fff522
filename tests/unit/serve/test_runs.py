"""What a run measured while it learned, wherever it lies."""

import json
from pathlib import Path

from firth.core.run import CellSettings, CorpusRecord, Run, RunRecord, TaskRecord, TaskResult
from firth.serve.runs import run_summary

RECORD = RunRecord(
    kind="pretrain",
    model="bert",
    recipe="bert-tiny",
    versions={},
    config={},
    corpus=CorpusRecord(path="news"),
    metrics={"loss": 0.5},
)


def result(seed: int) -> TaskResult:
    return TaskResult(
        seed=seed,
        share=1.0,
        examples=8,
        settings=CellSettings(batch_size=8, learning_rate=0.1, epochs=1),
        metric="f1",
        scores={"f1": 0.5},
        interval=None,
        train_s=1.0,
        seconds=1.0,
        trained_parameters=1,
        parameters=1,
        mixes={},
    )


def write(path: Path, losses: list[float]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"event": "train", "step": step, "steps": 9, "loss": loss} for step, loss in enumerate(losses)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_a_task_shows_the_curve_of_its_best_seed(tmp_path: Path) -> None:
    task = TaskRecord(cells=2, results=(result(0), result(1)), best=1)
    Run.create(tmp_path / "run", RECORD.replace(kind="task", recipe="classify", metrics={"f1": 0.5}, task=task))
    write(tmp_path / "run" / "seeds" / "0" / "metrics.jsonl", [9.0])
    write(tmp_path / "run" / "seeds" / "1" / "metrics.jsonl", [3.0, 2.0])
    found = run_summary(tmp_path / "run")
    assert found["curve"] == [{"step": 0, "loss": 3.0}, {"step": 1, "loss": 2.0}]
    assert (found["recipe"], found["kind"], found["scores"]) == ("classify", "task", {"f1": 0.5})


def test_other_runs_show_their_own_and_long_ones_fewer_points(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", RECORD)
    write(tmp_path / "run" / "metrics.jsonl", [float(step) for step in range(100)])
    assert run_summary(tmp_path / "run")["corpus"] == "news"
    found = run_summary(tmp_path / "run", most=10)["curve"]
    assert 10 <= len(found) <= 12
    assert (found[0]["step"], found[-1]["step"]) == (0, 99)
    assert run_summary(tmp_path / "nothing")["curve"] == []
