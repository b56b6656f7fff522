"""A forked process computes with one thread, or refuses where it might wait without end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import firth
from image_samples import make_folder
from pair_text import sentence_pairs, write_sides
from sample_text import write_documents

pytestmark = pytest.mark.slow

LOOP = {"steps": 1, "evaluations": 1, "evaluation_batches": 1, "checkpoints": 1}
SMALL = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "ffn_dim": 32, **LOOP}
PROGRAM = """
import os, signal, sys, threading
from multiprocessing import get_context
from pathlib import Path
import torch
import firth

torch.set_num_threads(2)
runs = Path(sys.argv[1])

def forked(work):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os.write(write, f"{work()}".encode())
        except firth.FirthError as error:
            os.write(write, f"refused: {error}".encode())
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    os.close(write)
    print(os.read(read, 4096).decode() if status == 0 else f"signal {os.WTERMSIG(status)}", flush=True)

def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

def encode(model, texts=["The old doctor."] * 40):
    return f"{model.encode(texts).shape[0]} vectors, {torch.get_num_threads()} threads"
"""
ALONE = """
model = firth.load(runs / "bert")
forked(lambda: encode(model))
encode(model)
forked(lambda: encode(model))
forked(lambda: firth.finetune("classify", train=runs / "labels.tsv", base=runs / "bert", out=runs / "task", epochs=1).path.name)
def encode_one(text):
    return encode(model, [text])
with get_context("fork").Pool(2) as pool:
    print(pool.map(encode_one, ["a dog", "a cat"]))
"""
SEVERAL = """
images = [str(next((runs / "images").rglob("*.png")))]
models = {name: firth.load(runs / name) for name in sys.argv[2:]}
in_thread(lambda: encode(models["bert"]))
for name, model in models.items():
    if name == "vit":
        forked(lambda: encode(model, images))
    elif "translate" in model.abilities:
        forked(lambda: model.translate(["dog cat"]))
    else:
        forked(lambda: encode(model))
forked(lambda: firth.pretrain("bert-tiny", corpus=runs / "corpus", out=runs / "more", steps=1))
forked(lambda: forked(lambda: encode(models["bert"])))
print(encode(models["bert"]))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fork")
    text = write_documents(folder / "news.txt", 60)
    firth.prepare(text, folder / "corpus", vocab_size=300, heldout=0.1, workers=1)
    firth.prepare(text, folder / "words", tokens="words", heldout=0.1, workers=1)
    firth.prepare_pairs(write_sides(folder, sentence_pairs(60)), folder / "pairs", vocab_size=300, heldout=0.1)
    firth.prepare_images(make_folder(folder / "images", 16), folder / "pixels", image_size=16, heldout=0.2)
    for name, recipe, corpus, settings in (
        ("bert", "bert-tiny", "corpus", {**SMALL, "max_positions": 32, "seq_len": 32}),
        ("lstm", "lstm-lm", "corpus", {"num_layers": 1, "hidden_dim": 16, "embedding_dim": 12, "seq_len": 8, **LOOP}),
        ("elmo", "elmo-tiny", "words", {"filters": [[1, 4]], "projection_dim": 8, "cell_dim": 8, "seq_len": 8, **LOOP}),
        ("marian", "transformer-tiny", "pairs", {**SMALL, "num_decoder_layers": 1, "average": 1}),
        ("seq2seq", "seq2seq", "pairs", {"hidden_dim": 16, **LOOP}),
        ("vit", "vit-tiny-masked", "pixels", SMALL),
        ("static", "word2vec", "words", {"dim": 8, "min_count": 1, "epochs": 1}),
    ):
        firth.pretrain(recipe, corpus=folder / corpus, out=folder / name, settings=settings)
    rows = [f"{'good' if number % 2 else 'bad'} film {number}\t{number % 2}" for number in range(12)]
    (folder / "labels.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return folder


def told(program: str, runs: Path, *names: str) -> list[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-c", PROGRAM + program, str(runs), *names]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_thread_where_only_the_thread_that_forked_had_computed(runs: Path) -> None:
    """Before anything was computed the child has all threads."""
    assert told(ALONE, runs) == [
        "40 vectors, 2 threads",
        "40 vectors, 1 threads",
        "task",
        "['1 vectors, 1 threads', '1 vectors, 1 threads']",
    ]


def test_refused_where_several_threads_had_computed(runs: Path) -> None:
    """Every network, training and the child of the child; the parent goes on, and vectors need no network."""
    networks = ["bert", "lstm", "elmo", "marian", "seq2seq", "vit"]
    *found, trained, twice, _, parent = told(SEVERAL, runs, *networks, "static")
    told_by = dict(zip([*networks, "training", "grandchild"], [*found[:-1], trained, twice], strict=True))
    refusal = "refused: this process was forked from one in which several threads had computed"
    assert {name: one for name, one in told_by.items() if not (one.startswith(refusal) and "spawn" in one)} == {}
    assert found[-1] == "40 vectors, 1 threads"
    assert parent == "40 vectors, 2 threads"


def test_engines_with_threads_of_their_own(runs: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ctranslate2")
    firth.export(runs / "bert", runs / "onnx", to="onnx")
    firth.export(runs / "marian", runs / "engine", to="ctranslate2")
    bert, onnx, engine, *_ = told(SEVERAL.replace('in_thread(lambda: encode(models["bert"]))', ""), runs, *EXPORTED)
    assert bert == "40 vectors, 2 threads"
    assert "onnxruntime had started its threads" in onnx
    assert "CTranslate2 had started its threads" in engine


EXPORTED = ("bert", "onnx", "engine")
