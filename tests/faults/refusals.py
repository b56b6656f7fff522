"""How a mistake must be refused: one sentence, exit code 2, and nothing on the disk is other than before."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from firth.cli.main import main


def snapshot(folder: Path) -> dict[str, str]:
    """Everything below a folder, files with their checksums."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


def sentence(told: str) -> str:
    """The one line of what was told on standard error that is not progress."""
    lines = told.splitlines()
    found = [line for line in lines if line.startswith("firth: ")]
    assert len(found) == 1, told
    assert lines[-1] == found[0], told
    assert all(
        line.startswith(
            (
                "prepare: ",
                "prepare-pairs: ",
                "bert-tiny: ",
                "transformer-tiny: ",
                "classify: ",
                "answer: ",
                "elmo-tiny: ",
            )
        )
        for line in lines[:-1]
    ), told
    return found[0]


def refused(words: Sequence[object], capsys: pytest.CaptureFixture[str], *said: str) -> str:
    """Runs a command in the working folder; returns the sentence, in which all of ``said`` occurs."""
    before = snapshot(Path.cwd())
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    told = sentence(capsys.readouterr().err)
    assert left.value.code == 2
    for part in said:
        assert part in told, told
    after = snapshot(Path.cwd())
    assert after == before, f"changed: {sorted(set(after.items()) ^ set(before.items()))}"
    return told
