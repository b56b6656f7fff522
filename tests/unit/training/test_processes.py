"""What only whole processes show: signals, and several ranks."""

import contextlib
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


Job = dict[str, object]
SCRIPT = str(Path(__file__).with_name("ranks_script.py"))


def run_ranks(num_ranks: int, jobs: list[Job], folder: Path) -> list[str]:
    """What each rank printed, all of them at their end."""
    (folder / "jobs.json").write_text(json.dumps(jobs))
    command = [sys.executable, SCRIPT, str(folder / "jobs.json")]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(num_ranks)}
    shared |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    files = [open(folder / f"rank-{rank}.txt", "w+") for rank in range(num_ranks)]
    ranks = [
        subprocess.Popen(command, stdout=file, stderr=file, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank, file in enumerate(files)
    ]
    try:
        ranks[0].wait(timeout=280)
        for rank in ranks[1:]:
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that sleeps on
                rank.wait(timeout=20)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
        for file in files:
            file.close()
    return [(folder / f"rank-{rank}.txt").read_text() for rank in range(num_ranks)]


def job(recipe: str, settings: list[str], corpus: Path, out: Path, **more: object) -> Job:
    return {"recipe": recipe, "settings": settings, "corpus": str(corpus), "out": str(out), **more}


def difference(one: Path, two: Path) -> float:
    """The largest of two files of tensors."""
    first, second = load_file(one), load_file(two)
    assert first.keys() == second.keys()
    return max(float((first[name].double() - second[name].double()).abs().max()) for name in first)


LSTM = [
    "embedding_dim=16",
    "hidden_dim=16",
    "num_layers=1",
    "dropout_prob=0",
    "output_dropout_prob=0",
    "tied_output=false",
]
LSTM += ["seq_len=3", "evaluations=1", "evaluation_batches=2", "checkpoints=1", "steps=8"]
ADAPTIVE = [*LSTM, "output=adaptive", "carry_state=false", "random_windows=true", "batch_size=2"]
ELMO = ["char_dim=4", "filters=[[1,4],[2,8]]", "cell_dim=16", "projection_dim=8", "num_layers=1", "dropout_prob=0"]
ELMO += ["seq_len=5", "evaluations=1", "evaluation_batches=2", "checkpoints=1", "steps=6"]
MEANS = ["optimizer=averaged_sgd", "average_patience=1", "evaluations=8", "learning_rate=5"]
TWICE = ["gradient_accumulation=2"]


def test_ranks_equal_one_process(
    tiny_settings: list[str], corpus_folder: Path, words_folder: Path, tmp_path: Path
) -> None:
    """Two ranks learn what one process learns from their batches: whole models and models in shards, all optimizers, weights
    that only one rank needs, and models that carry a state, whose lanes are shared out."""
    tiny = [*tiny_settings, "steps=6"]
    muon = ["optimizer=muon", "learning_rate=5e-4"]
    cases = {  # recipe, corpus, settings of both, of two ranks, of one process
        "bert": ("bert-tiny", corpus_folder, tiny, TWICE, ["gradient_accumulation=4"]),
        "bert-fsdp": ("bert-tiny", corpus_folder, tiny, [*TWICE, "parallel=fsdp"], ["gradient_accumulation=4"]),
        "muon": ("bert-tiny", corpus_folder, [*tiny, *muon, "embeddings=auto"], ["parallel=fsdp"], TWICE),
        "t5": ("t5-tiny", corpus_folder, tiny, ["parallel=fsdp"], TWICE),
        "adaptive": ("lstm-lm", words_folder, ADAPTIVE, [], TWICE),
        "lstm": ("lstm-lm", words_folder, LSTM, ["batch_size=3"], ["batch_size=6"]),
        "means": ("lstm-lm", words_folder, [*LSTM, *MEANS], ["batch_size=3", "parallel=fsdp"], ["batch_size=6"]),
        "elmo": ("elmo-tiny", words_folder, ELMO, ["batch_size=3"], ["batch_size=6"]),
        "xlnet": ("xlnet-tiny", corpus_folder, [*tiny, "memory_len=8"], [], TWICE),
    }
    jobs = [
        job(recipe, [*both, *two], corpus, tmp_path / name) for name, (recipe, corpus, both, two, _) in cases.items()
    ]
    jobs.append(job("bert-tiny", [*tiny_settings, "budget=1s"], corpus_folder, tmp_path / "budget"))
    printed = run_ranks(2, jobs, tmp_path)
    facts = json.loads((tmp_path / "budget" / "firth.json").read_text())  # their clocks differ, yet they agree
    assert facts["status"] == "finished", printed
    assert (tmp_path / "budget" / "checkpoints" / f"step-{facts['steps']}").is_dir()
    for name, (recipe, corpus, both, _, one) in cases.items():
        together, alone = tmp_path / name, tmp_path / f"{name}-alone"
        firth.pretrain(find_run_recipe(recipe).override([*both, *one]), corpus=corpus, out=alone)
        assert (together / "firth.json").is_file(), (name, printed)
        facts, wanted = (json.loads((folder / "firth.json").read_text()) for folder in (together, alone))
        assert (facts["status"], facts["processes"]) == ("finished", 2), (name, printed)
        assert (facts["tokens"], facts["steps"]) == (wanted["tokens"], wanted["steps"])
        published = next(file for file in ("model", "softmax") if (alone / f"{file}.safetensors").is_file())
        assert difference(together / f"{published}.safetensors", alone / f"{published}.safetensors") < 1e-5, name
        last = f"checkpoints/step-{facts['steps']}"
        if name == "adaptive":
            continue  # a state that is not carried is that of the last batch, which one rank has read
        for file in ("model.safetensors", "optimizer.safetensors"):
            assert difference(together / last / file, alone / last / file) < 1e-5, (name, file)


def test_ranks_tune_what_one_process_tunes(run_folder: Path, tmp_path: Path) -> None:
    """They share out its batches; a batch smaller than the number of ranks leaves some without an example."""
    rows = [(f"The {word} is {mood}.", mood) for word in ("map", "sea", "tree") for mood in ("good", "bad", "dull")]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    common = {"train": str(tmp_path / "train.tsv"), "dev": str(tmp_path / "train.tsv"), "base": str(run_folder)}
    common |= {
        "epochs": 2,
        "batch_size": 8,
        "settings": {"candidates": ["tuned"], "dropout_prob": 0.0, "precision": "float32"},
    }
    together, alone = tmp_path / "together", tmp_path / "alone"
    told = run_ranks(2, [{"task": "classify", "out": str(together), **common}], tmp_path)
    firth.finetune("classify", out=alone, **common)  # type: ignore[arg-type]
    assert (together / "firth.json").is_file(), told
    found, wanted = (json.loads((folder / "firth.json").read_text()) for folder in (together, alone))
    assert found["status"] == "finished", told
    assert found["metrics"] == pytest.approx(wanted["metrics"])
    for path in alone.glob("*.safetensors"):
        assert difference(together / path.name, path) < 1e-5, path.name


def test_a_run_goes_on_with_other_numbers_of_processes(
    tiny_settings: list[str], corpus_folder: Path, words_folder: Path, tmp_path: Path
) -> None:
    """From two to one to four; a signal to one rank stops all of them, and what was reached is saved."""
    settings, out, lanes = [*tiny_settings, "steps=9"], tmp_path / "run", tmp_path / "lanes"
    jobs = [
        job("lstm-lm", [*LSTM, "batch_size=3"], words_folder, lanes, fault=(0, 3, "SIGTERM")),
        job("bert-tiny", settings, corpus_folder, out, fault=(1, 3, "SIGTERM")),
    ]
    told = run_ranks(2, jobs, tmp_path)
    assert all("stopped at step 3 of 9, which is saved" in text for text in told), told
    told = run_ranks(1, [{"resume": str(out), "fault": (0, 6, "SIGTERM")}, {"resume": str(lanes)}], tmp_path)
    assert "stopped at step 6 of 9" in told[0]
    (refused, *_) = run_ranks(3, [{"resume": str(out)}], tmp_path)
    assert "go on with a number of processes that divides 8" in refused
    told = run_ranks(4, [{"resume": str(out)}], tmp_path)
    assert json.loads((out / "firth.json").read_text())["status"] == "finished", told
    config = find_run_recipe("bert-tiny").override([*settings, *TWICE])
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "alone")
    assert difference(out / "model.safetensors", tmp_path / "alone" / "model.safetensors") < 1e-6
    config = find_run_recipe("lstm-lm").override([*LSTM, "batch_size=6"])
    firth.pretrain(config, corpus=words_folder, out=tmp_path / "lanes alone")
    assert difference(lanes / "model.safetensors", tmp_path / "lanes alone" / "model.safetensors") < 1e-6


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_killed_rank_comes_back(tiny_settings: list[str], corpus_folder: Path, tmp_path: Path, parallel: str) -> None:
    """torchrun starts all ranks again; they go on from the last checkpoint, and the end is the same to the byte."""
    settings = [*tiny_settings, "steps=8", "checkpoints=4", f"parallel={parallel}"]
    whole, killed = (tmp_path / name for name in ("whole", "killed"))
    jobs = [
        job("bert-tiny", settings, corpus_folder, whole),
        job("bert-tiny", settings, corpus_folder, killed, fault=(1, 5, "SIGKILL")),
    ]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1"]
    command += [f"--master-port={free_port()}", "--master-addr=127.0.0.1", SCRIPT, str(tmp_path / "jobs.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr
    assert "exitcode: -9" in done.stderr
    for name in ("model.safetensors", "checkpoints/step-8/optimizer.safetensors"):
        assert (whole / name).read_bytes() == (killed / name).read_bytes(), name


def test_ranks_that_fail(
    tiny_settings: list[str], corpus_folder: Path, run_folder: Path, text_file: Path, tmp_path: Path
) -> None:
    """Other text on one rank is refused; a slow rank and a full disk are told in one sentence that names the rank."""
    settings = [*tiny_settings, "steps=6", "rank_timeout_s=5"]
    other = tmp_path / "other"
    firth.prepare(text_file, other, vocab_size=400, layout="line", heldout=0.2, workers=1)
    differing = job("bert-tiny", settings, corpus_folder, tmp_path / "differing")
    differing["corpus"] = [str(corpus_folder), str(other)]
    slow = job("bert-tiny", settings, corpus_folder, tmp_path / "slow", fault=(1, 3, "slow"))
    full = job("bert-tiny", settings, corpus_folder, tmp_path / "full", fault=(0, 2, "full disk"))
    pairs = [tmp_path / f"pairs-{rank}.tsv" for rank in range(2)]
    for rank, path in enumerate(pairs):
        path.write_text("anchor\tpositive\n" + f"A text of rank {rank}.\tAnother text.\n" * 4, encoding="utf-8")
    embed: Job = {"task": "embed", "train": [*map(str, pairs)], "base": str(run_folder), "out": str(tmp_path / "embed")}
    first, _ = run_ranks(2, [differing, embed, full], tmp_path)
    late, _ = run_ranks(2, [slow], tmp_path)
    refused, embedded, disk = first.splitlines()[:3]
    assert embedded == "rank 1 has another data than rank 0: give all ranks the same and start again"
    assert not (tmp_path / "embed").exists()
    assert refused == "rank 1 has another corpus than rank 0: give all ranks the same and start again"
    assert "the disk is full or a size limit was reached" in disk
    assert not (tmp_path / "differing").exists()
    assert "rank 1 on" in late
    assert "did not answer (not beyond step 2); waited 5 s in vain" in late, late
