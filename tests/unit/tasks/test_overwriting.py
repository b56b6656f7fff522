"""A run is replaced only after everything about the new one was looked at."""

import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import firth
from firth.core.config import parse_settings
from firth.core.errors import FirthError, Interrupted
from firth.core.run import Run
from firth.tasks import finetune as finetune_file
from firth.tasks.model import TaskModel
from task_text import files


@pytest.fixture
def old(run_folder: Path, tmp_path: Path) -> Path:
    firth.finetune(
        "classify",
        base=run_folder,
        **files(tmp_path, "classify", 12, 6),  # type: ignore[arg-type]
        out=tmp_path / "run",
        epochs=1,
    )
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["metric=acuracy"], "'acuracy' is no score of this task"),
        (["place=output", "body=none"], "is behind a body, and there is none"),
        (["device=nowhere"], "device 'nowhere' cannot be used"),
        (["long_text=windows", "stride=900", "max_len=8"], "stride 900 is not between"),
    ],
)
def test_bad_settings_leave_the_old_run(
    settings: list[str], message: str, old: Path, run_folder: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    with pytest.raises(FirthError, match=message):
        firth.finetune(
            "classify",
            base=run_folder,
            **files(tmp_path, "classify", 12, 6),  # type: ignore[arg-type]
            out=old,
            settings=parse_settings(settings),
            overwrite=True,
        )
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


def test_what_lies_in_the_run_is_not_removed(old: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="lies in the run that is to be replaced"):
        firth.finetune(
            "classify",
            base=old,
            **files(tmp_path, "classify", 12, 6),  # type: ignore[arg-type]
            out=old,
            overwrite=True,
        )
    assert firth.load(old).predict(["The map."])


def test_a_run_is_replaced(old: Path, run_folder: Path, tmp_path: Path) -> None:
    again = files(tmp_path, "classify", 12, 6)
    firth.finetune("classify", base=run_folder, **again, out=old, epochs=2, overwrite=True)  # type: ignore[arg-type]
    assert firth.load(old).config.epochs == 2  # type: ignore[attr-defined]


def test_a_base_is_read_no_oftener_than_needed(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for all trainings where it stays as it is, once for each where it is tuned."""
    loaded: list[str] = []
    load = finetune_file.load_base

    def noted(base: str, *more: Any) -> Any:
        loaded.append(base)
        return load(base, *more)

    monkeypatch.setattr("firth.tasks.run.load_base", noted)
    for number, tune in enumerate((False, True)):
        firth.finetune(
            "classify",
            base=run_folder,
            **files(tmp_path, "classify", 12, 6),  # type: ignore[arg-type]
            out=tmp_path / str(number),
            epochs=1,
            seeds=2,
            tune=tune,
        )
        assert len(loaded) == (3 if tune else 1)


@pytest.mark.parametrize("tune", [False, True])
def test_everything_is_read_and_written_once(
    tune: bool, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are read and checked once, the model is written once, and read once by who wants to use it."""
    calls: Counter[str] = Counter()

    def count(name: str, function: Any) -> Any:
        def counted(*given: Any, **more: Any) -> Any:
            calls[name] += 1
            return function(*given, **more)

        return counted

    from firth.tasks import data as data_file

    monkeypatch.setattr(data_file, "read_examples", count("files", data_file.read_examples))
    monkeypatch.setattr(data_file, "check_examples", count("checks", data_file.check_examples))
    monkeypatch.setattr(finetune_file, "load_base_model", count("bases", finetune_file.load_base_model))
    monkeypatch.setattr(TaskModel, "save", count("saved", TaskModel.save))
    monkeypatch.setattr(TaskModel, "load", count("loaded", TaskModel.load))
    given = files(tmp_path, "classify", 12, 6)
    firth.finetune("classify", base=run_folder, **given, out=tmp_path / "run", epochs=1, tune=tune)  # type: ignore[arg-type]
    assert calls == {"files": 2, "checks": 1, "bases": 1, "saved": 1, "loaded": 1}
    assert sorted(path.name for path in (tmp_path / "run" / "seeds" / "0").iterdir()) == [
        "metrics.jsonl",
        "result.json",
    ]


@pytest.mark.parametrize("tune", [False, True])
def test_a_kill_while_the_model_is_moved(
    tune: bool, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some files lie in the run already, some still where they were trained: the same command finishes the run."""
    given = files(tmp_path, "classify", 12, 6)
    wish: dict[str, Any] = {"base": run_folder, **given, "epochs": 1, "seeds": 2, "tune": tune}
    firth.finetune("classify", **wish, out=tmp_path / "whole")
    moved: list[Path] = []

    def killed(source: Path, goal: Path) -> None:
        if len(moved) == 2:
            raise Interrupted("killed")
        moved.append(goal)
        os.replace(source, goal)

    with monkeypatch.context() as patch:
        patch.setattr("firth.tasks.run.os", SimpleNamespace(replace=killed, environ=os.environ))
        with pytest.raises(Interrupted):
            firth.finetune("classify", **wish, out=tmp_path / "run")
    assert all(path.exists() for path in moved)
    monkeypatch.setattr("firth.tasks.candidates.train_model", None)  # nothing is trained again
    firth.finetune("classify", **wish, out=tmp_path / "run")
    found, whole = Run.open(tmp_path / "run").record, Run.open(tmp_path / "whole").record
    assert found.checksums == whole.checksums
    assert found.metrics == whole.metrics
    assert (tmp_path / "run" / "report.html").is_file()
    assert firth.load(tmp_path / "run").predict(["The map."]) == firth.load(tmp_path / "whole").predict(["The map."])


def test_other_examples_are_another_run(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted one goes on only with what it was begun with."""

    def stopped(*words: Any) -> Any:
        raise Interrupted("stopped")

    given = files(tmp_path, "classify", 12, 6)
    wish: dict[str, Any] = {"base": run_folder, **given, "out": tmp_path / "run", "epochs": 1}
    with monkeypatch.context() as patch:
        patch.setattr("firth.tasks.candidates.train_model", stopped)
        with pytest.raises(Interrupted):
            firth.finetune("classify", **wish)
    train = Path(str(given["train"]))
    before = train.read_bytes()
    train.write_bytes(before + b"One more clock.\ten\n")
    with pytest.raises(FirthError, match="exists already"):
        firth.finetune("classify", **wish)
    train.write_bytes(before)
    firth.finetune("classify", **wish)


def test_a_stride_that_only_long_texts_show(old: Path, run_folder: Path, tmp_path: Path) -> None:
    given = files(tmp_path, "classify", 12, 6)
    with Path(str(given["dev"])).open("a", encoding="utf-8") as handle:
        handle.write("clock " * 300 + "\ten\n")
    with pytest.raises(FirthError, match="stride 40 is not between"):
        firth.finetune(
            "classify",
            base=run_folder,
            **given,  # type: ignore[arg-type]
            out=old,
            long_text="windows",
            stride=40,
            max_len=32,
            overwrite=True,
        )
    assert firth.load(old).predict(["The map."])


def test_what_only_one_process_does(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(FirthError, match="several processes tune a model together, and nothing else"):
        firth.finetune(
            "classify",
            base=run_folder,
            **files(tmp_path, "classify", 12, 6),  # type: ignore[arg-type]
            out=tmp_path / "run",
            folds=2,
        )
