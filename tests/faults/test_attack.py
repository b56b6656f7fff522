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


def attack(folder: Path, kind: str, cases: int, step: int = 1) -> list[dict[str, object]]:
    command = [sys.executable, str(SCRIPT), str(folder), "--kinds", kind, "--cases", str(cases), "--step", str(step)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("kind", "cases", "step"),
    [
        ("model", 120, 1),
        ("vectors", 120, 1),
        ("text", 80, 1),
        ("named-model", 2000, 10),
        ("named-vectors", 200, 2),
        ("named-text", 200, 1),
        ("request", 200, 1),
    ],
)
def test_no_finding(kind: str, cases: int, step: int, attack_folder: Path) -> None:
    found = [one for one in attack(attack_folder, kind, cases, step) if str(one["name"]).startswith(f"{kind}:")]
    assert len(found) >= 15
    assert any(one["verdict"] == "refused" for one in found)


def test_eight_threads_and_a_fork_get_the_right_answers(attack_folder: Path) -> None:
    """Every ability of the models that the attack begins with."""
    attack(attack_folder, "named-text", 1)  # makes them, if this test runs alone
    command = [sys.executable, str(SCRIPT.with_name("thread_abilities.py")), str(attack_folder / "seeds")]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 1000
