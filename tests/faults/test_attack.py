"""The standing attack, some hundred cases of each kind: done or refused in one sentence, in time, nothing left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("attack.py")


@pytest.fixture(scope="module")
def attack_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attack")


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def attack(folder: Path, kind: str, cases: int, step: int = 1, *more: str) -> list[dict[str, object]]:
    given = ["--kinds", kind, "--cases", str(cases), "--step", str(step), *more]
    command = [sys.executable, str(SCRIPT), str(folder), *given]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    notes = folder / ("results-runtime.jsonl" if "--runtime" in more else "results.jsonl")
    found = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    return [one for one in found if str(one["name"]).startswith(f"{kind}:")]


@pytest.mark.parametrize(
    ("kind", "cases", "step"),
    [
        ("model", 120, 1),
        ("vectors", 120, 1),
        ("text", 80, 1),
        ("named-model", 2000, 10),
        ("named-vectors", 200, 2),
        ("named-text", 200, 1),
        *((kind, 60, 1) for kind in ("document", "image", "sentence", "labelled", "classifier")),
        ("index", 40, 1),
        ("translator", 40, 1),
        ("resumed", 20, 1),
        ("request", 200, 1),
    ],
)
def test_no_finding(kind: str, cases: int, step: int, attack_folder: Path) -> None:
    found = attack(attack_folder, kind, cases, step)
    assert len(found) >= 15
    assert any(one["verdict"] == "refused" for one in found)


@pytest.mark.parametrize(
    ("kind", "cases", "step"),
    [
        ("graph", 160, 2),
        ("runtime", 60, 1),
        ("vectors", 40, 1),
        ("classifier", 20, 1),
        ("document", 20, 1),
        ("labelled", 20, 1),
        ("sentence", 20, 1),
        ("named-model", 2000, 80),
        ("request", 100, 1),
    ],
)
def test_no_finding_without_torch(kind: str, cases: int, step: int, attack_folder: Path) -> None:
    """The runtime: what it loads is read as safely, what it does not is refused."""
    found = attack(attack_folder, kind, cases, step, "--runtime")
    assert len(found) >= 15
    assert any(one["verdict"] == "refused" for one in found)


def test_eight_threads_and_a_fork_get_the_right_answers(attack_folder: Path) -> None:
    """Every ability of the models that the attack begins with."""
    attack(attack_folder, "named-text", 1)  # makes them, if this test runs alone
    command = [sys.executable, str(SCRIPT.with_name("thread_abilities.py")), str(attack_folder / "seeds")]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 1000
