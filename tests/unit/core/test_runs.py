"""Run directories: made once, replaced only when asked, trained by one process at a time."""

from pathlib import Path

import pytest

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.run import Run

FACTS = {"kind": "pretrain", "recipe": "bert-tiny", "config": {}, "corpus": {}}


def test_create_open_save(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "deep" / "run", FACTS)
    run.save(steps=5)
    found = Run.open(tmp_path / "deep" / "run").facts
    assert found["steps"] == 5
    assert found["status"] == "started"
    assert {"python", "torch", "firth"} <= set(found["versions"])


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    Run.create(tmp_path, FACTS)
    assert (tmp_path / "firth.json").is_file()


def test_exists(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", FACTS).save(steps=5)
    with pytest.raises(
        FirthError, match=r"exists already; choose another --out, go on with --resume .*run, or replace"
    ):
        Run.create(tmp_path / "run", FACTS)
    assert Run.open(tmp_path / "run").facts["steps"] == 5
    (tmp_path / "run" / "model.safetensors").write_text("old")
    Run.create(tmp_path / "run", FACTS, overwrite=True)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert "steps" not in Run.open(tmp_path / "run").facts


def test_what_is_no_run_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("precious")
    (tmp_path / "letter").write_text("precious")
    for name in ("photos", "letter"):
        with pytest.raises(FirthError, match="exists already; choose another --out or"):
            Run.create(tmp_path / name, FACTS)
        with pytest.raises(FirthError, match="not a run of Firth, so it is not overwritten"):
            Run.create(tmp_path / name, FACTS, overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "precious"


def test_open_tells_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="no such run"):
        Run.open(tmp_path / "no")
    with pytest.raises(FirthError, match=r"not a run of Firth \(no firth.json in it\)"):
        Run.open(tmp_path)
    Run.create(tmp_path, FACTS)
    facts = read_json(tmp_path / "firth.json")
    for wrong, said in (
        ({**facts, "format": 99}, "another version"),
        ([], "another version"),
        ({"format": 1}, "damaged"),
    ):
        write_json(tmp_path / "firth.json", wrong)
        with pytest.raises(FirthError, match=rf"firth\.json: .*{said}"):
            Run.open(tmp_path)


def test_lock(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", FACTS)
    with run.lock():
        with pytest.raises(FirthError, match="another process is training this run"), Run.open(run.folder).lock():
            pass
        with pytest.raises(FirthError, match="another process is training this run"):
            Run.create(run.folder, FACTS, overwrite=True)
        assert (run.folder / "firth.json").is_file()
    with run.lock():
        pass


def test_an_error_inside_the_lock_is_not_mistaken(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", FACTS)
    with pytest.raises(BlockingIOError), run.lock():
        raise BlockingIOError("of another kind")
