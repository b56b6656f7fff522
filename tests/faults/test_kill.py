"""A job that is killed and begun again ends with the same bytes; a full disk loses nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("kill_scenarios.py")


def play(scenario: str, folder: Path, kills: int) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (os.environ.get("PYTHONPATH"), str(SCRIPT.parents[1])))
    )  # what tests share
    command = [sys.executable, str(SCRIPT), scenario, str(folder), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_training_killed_at_many_moments_ends_with_the_same_model(tmp_path: Path) -> None:
    result = play("train", tmp_path, 24)
    assert result["repeatable"]
    assert result["killed"] >= 20
    assert result["failures"] == []
    assert result["equal"] == 24


def test_prepare_killed_at_many_moments_ends_with_the_same_corpus(tmp_path: Path) -> None:
    result = play("prepare", tmp_path, 24)
    assert result["repeatable"]
    assert result["killed"] >= 20
    assert result["failures"] == []
    assert result["equal"] == 24


def test_images_killed_at_many_moments_end_with_the_same_model(tmp_path: Path) -> None:
    """From the corpus over masked patches to fine-tuned classes."""
    result = play("images", tmp_path, 12)
    assert result["repeatable"]
    assert result["killed"] >= 9
    assert result["failures"] == []
    assert result["equal"] == 12


def test_full_disk_is_told_in_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    result = play("full_disk", tmp_path, 0)
    assert result["killed"]
    assert result["message"].startswith("DiskFull: ")
    assert "; free some space and go on with: firth pretrain --resume" in result["message"]
    assert result["before"]
    assert result["kept"]
    assert result["resumed"] == 0
    assert result["equal"]
    assert "disk is full" in result["prepare_message"]
    assert result["prepare_left"] == []


def test_indexing_killed_at_many_moments_finds_the_same(tmp_path: Path) -> None:
    result = play("index", tmp_path, 16)
    assert result["repeatable"]
    assert result["killed"] >= 10
    assert result["failures"] == []
    assert result["equal"] == 16


def test_full_disk_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    result = play("index_full_disk", tmp_path, 0)
    assert "disk is full" in result["message"]
    assert "disk is full" in result["fresh_message"]
    assert result["kept"]
    assert result["resumed"] == 0
    assert result["equal"]


@pytest.mark.parametrize("scenario", ["pairs", "classify", "export", "sweep", "pretrain-seq2seq", "pretrain-glove"])
def test_other_jobs_killed_end_with_the_same_bytes(scenario: str, tmp_path: Path) -> None:
    """By hand many more: ``python tests/faults/kill_scenarios.py SCENARIO FOLDER KILLS``."""
    result = play(scenario, tmp_path, 6)
    assert result["repeatable"]
    assert result["killed"] >= 3
    assert result["failures"] == []


@pytest.mark.parametrize("job", ["gpt", "glove", "classify", "sweep"])
def test_the_advice_after_a_full_disk_is_true(job: str, tmp_path: Path) -> None:
    """Followed to the letter, at moments from the first file to the last. By hand also the other jobs."""
    result = play(f"full-{job}", tmp_path, 5)
    assert result["failures"] == []
    advice = [
        message.partition("the disk is full or a size limit was reached; free some space and ")[2]
        for message in result["messages"]
    ]
    assert advice.count("") <= 1  # a moment after the last file: how often progress is noted depends on the clock
    assert advice[0] == "run the same command again"
    resumed = "go on with: firth pretrain --resume OUT" if job in ("gpt", "glove") else "go on with: the same command"
    assert resumed in advice
