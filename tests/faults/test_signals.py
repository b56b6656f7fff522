"""SIGTERM and SIGHUP to a job: one sentence, exit codes 143 and 129, no process left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_prepare_is_told_to_end(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The old doctor found a broken clock near the river.\n" * 120_000)
    command = [sys.executable, "-m", "firth", "prepare", "a.txt", "--out", "corpus", "--workers", "2"]
    before = signal.signal(number, signal.SIG_DFL)  # a child inherits what is ignored, SIGHUP under nohup
    try:
        job = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env={**os.environ})
    finally:
        signal.signal(number, before)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".corpus*/parts")) and time.monotonic() < deadline and job.poll() is None:
        time.sleep(0.02)
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    job.send_signal(number)
    told = job.communicate(timeout=60)[1]
    assert job.returncode == 128 + number, told
    assert "firth: stopped; run the same command again" in told
    assert "Traceback" not in told
    deadline = time.monotonic() + 20  # one that was just starting sees the end of its input
    while (left := [child for child in children if Path(f"/proc/{child}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_training_is_told_to_end(number: signal.Signals, tmp_path: Path, corpus_folder: Path) -> None:
    """It saves its step, and more signals do not disturb that."""
    words = ["pretrain", "bert-tiny", "--corpus", str(corpus_folder), "--out", "run", "steps=100000", "num_layers=1"]
    command = [sys.executable, "-m", "firth", *words, "batch_size=2", "seq_len=16"]
    before = signal.signal(number, signal.SIG_DFL)
    try:
        job = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(number, before)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "metrics.jsonl").is_file() and time.monotonic() < deadline and job.poll() is None:
        time.sleep(0.02)
    job.send_signal(number)
    told = job.communicate(timeout=60)[1]
    assert job.returncode == 128 + number, told
    assert "go on with: firth pretrain --resume run" in told
    assert "Traceback" not in told
    assert not list(tmp_path.rglob(".*"))


def test_a_mapped_file_that_is_cut_ends_with_a_sentence(tmp_path: Path) -> None:
    """As a corpus is that another program writes to while a model learns from it."""
    program = (
        "import mmap, os, sys; from firth.cli.main import _say_cut_files; _say_cut_files()\n"
        "handle = open('file', 'r+b'); content = mmap.mmap(handle.fileno(), 0)\n"
        "os.truncate('file', 0); sys.exit(content[100_000])\n"
    )
    (tmp_path / "file").write_bytes(b"\1" * 200_000)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("firth: a file was cut while it was read")
