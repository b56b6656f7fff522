"""What only whole processes show: signals, and several ranks."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

import firth
from firth.core.registry import find_run_recipe

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "from firth.cli.main import main; main()", "pretrain"]


def start(*words: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *map(str, words)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(number: signal.Signals, tiny_settings: list[str], corpus_folder: Path, tmp_path: Path) -> None:
    """The step is finished and saved; the message says how to go on; the code is 128 and the signal."""
    out = tmp_path / "run"
    process = start("bert-tiny", "--corpus", corpus_folder, "--out", out, "--steps", 1_000_000, *tiny_settings)
    metrics = out / "metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and metrics.stat().st_size):
        time.sleep(0.05)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number, told
    last = told.splitlines()[-1]
    assert last.startswith("firth: stopped at step ")
    assert last.endswith(f"of 1000000, which is saved; go on with: firth pretrain --resume {out}")
    assert "Traceback" not in told
    step = int(last.split("step ")[1].split(" ")[0])
    assert json.loads((out / "checkpoints" / f"step-{step}" / "state.json").read_text())["step"] == step
    assert json.loads((out / "firth.json").read_text())["status"] == "started"


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run_ranks(*words: object) -> None:
    """The same command on two ranks, to their end."""
    port = free_port()
    environment = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    for rank in [start(*words, RANK=str(rank), **environment) for rank in range(2)]:
        _, told = rank.communicate(timeout=120)
        assert rank.returncode == 0, told


def test_two_ranks_agree_on_a_budget(tiny_settings: list[str], corpus_folder: Path, tmp_path: Path) -> None:
    """Their clocks differ, yet they time as many steps and train as many."""
    out = tmp_path / "run"
    run_ranks("bert-tiny", "--corpus", corpus_folder, "--out", out, "--budget", "1s", *tiny_settings)
    facts = json.loads((out / "firth.json").read_text())
    assert facts["status"] == "finished"
    assert (out / "checkpoints" / f"step-{facts['steps']}").is_dir()


@pytest.mark.parametrize(
    ("recipe", "more"),
    [("bert-tiny", []), ("bert-tiny", ["optimizer=muon", "learning_rate=5e-4", "embeddings=auto"]), ("t5-tiny", [])],
)
def test_two_ranks_equal_accumulation(
    recipe: str, more: list[str], tiny_settings: list[str], corpus_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "ranks"
    settings = [*tiny_settings, *more]
    run_ranks(recipe, "--corpus", corpus_folder, "--out", out, "--steps", 6, *settings)
    config = find_run_recipe(recipe).override([*settings, "steps=6", "gradient_accumulation=2"])
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "alone")
    together, alone = (load_file(folder / "model.safetensors") for folder in (out, tmp_path / "alone"))
    assert together.keys() == alone.keys()
    for name, value in alone.items():
        assert float((together[name] - value).abs().max()) < (1e-6 if recipe == "bert-tiny" else 1e-5), name
    facts = json.loads((out / "firth.json").read_text())
    assert facts["status"] == "finished"
    assert facts["processes"] == 2
    assert facts["tokens"] == json.loads((tmp_path / "alone" / "firth.json").read_text())["tokens"]


def test_two_ranks_of_a_recurrent_model(words_folder: Path, tmp_path: Path) -> None:
    """Windows of different lengths have other rates, and a cluster of rare words may occur on one rank alone."""
    settings = "embed_dim=16 hidden_dim=16 num_layers=1 dropout_prob=0 output_dropout_prob=0 tied=false output=adaptive"
    settings += (
        " carry_state=false random_windows=true seq_len=3 batch_size=2 evaluations=1 evaluation_batches=2 checkpoints=1"
    )
    words = settings.split()
    run_ranks("lstm-lm", "--corpus", words_folder, "--out", tmp_path / "ranks", "--steps", 8, *words)
    config = find_run_recipe("lstm-lm").override([*words, "steps=8", "gradient_accumulation=2"])
    firth.pretrain(config, corpus=words_folder, out=tmp_path / "alone")
    together, alone = (load_file(tmp_path / name / "model.safetensors") for name in ("ranks", "alone"))
    for name, value in alone.items():
        assert float((together[name] - value).abs().max()) < 1e-5, name
