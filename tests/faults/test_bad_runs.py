"""Pre-training that cannot begin, or cannot go on."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused

import firth
from firth.cli.main import main
from firth.core.errors import FirthError, Interrupted
from firth.core.registry import RunConfig, find_recipe
from firth.core.run import Run
from sample_text import write_documents

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def corpus_here(work: Path, corpus_folder: Path) -> Path:
    """The corpus as ``corpus`` in the working folder."""
    return shutil.copytree(corpus_folder, work / "corpus")


SETTINGS: dict[str, tuple[list[str], list[str]]] = {
    "unknown key with a near miss": (["hiden_dim=32"], ["unknown setting 'hiden_dim'", "did you mean 'hidden_dim'?"]),
    "unknown full key": (
        ["model.num_layer=2"],
        ["unknown setting 'model.num_layer'", "did you mean 'model.num_layers'?"],
    ),
    "unknown key": (["colour=red"], ["unknown setting 'colour'", "known: "]),
    "no value": (["num_layers"], ["'num_layers' is not a setting", "write it as key=value"]),
    "wrong type": (["num_layers=two"], ["'model.num_layers' cannot be 'two'", "valid integer"]),
    "nested": (["num_layers=" + "[" * 5000], ["'model.num_layers' cannot be", "valid integer"]),
    "fraction": (["num_layers=2.5"], ["'model.num_layers' cannot be 2.5"]),
    "out of range": (["num_layers=0"], ["'model.num_layers' cannot be 0", "greater than 0"]),
    "steps and budget": (["--steps", "5", "--budget", "5m"], ["steps and budget were given", "in one way only"]),
    "steps and epochs": (["steps=5", "epochs=2"], ["steps and epochs were given", "in one way only"]),
    "bad duration": (["--budget", "soon"], ["'soon' is not a duration", "90s, 20m or 1h30m"]),
    "no duration at all": (["--budget", "0s"], ["'0s' is not a duration", "greater than zero"]),
    "negative steps": (["--steps", "-5"], ["'training.steps' cannot be -5", "greater than 0"]),
    "no steps": (["--steps", "0"], ["'training.steps' cannot be 0", "greater than 0"]),
    "negative epochs": (["--epochs", "-1"], ["'training.epochs' cannot be -1.0", "greater than 0"]),
    "heads that do not divide": (
        ["num_heads=5"],
        ["num_heads (5) does not divide hidden_dim (128)", "choose heads that do"],
    ),
    "rows longer than positions": (
        ["seq_len=1000"],
        ["seq_len (1000) is longer than model.max_positions (512)", "lower one or raise the other"],
    ),
    "masks above one": (["mask_token_prob=0.95"], ["add up to more than 1", "lower one of them"]),
    "mask share of one": (["mask_prob=1"], ["'objective.mask_prob' cannot be 1", "less than 1"]),
    "probability above one": (["dropout_prob=1.5"], ["'model.dropout_prob' cannot be 1.5", "less than 1"]),
    "rate that is no number": (["learning_rate=NaN"], ["'training.learning_rate' cannot be nan", "finite"]),
    "unknown schedule": (["schedule=triangle"], ["'training.schedule' cannot be 'triangle'", "'linear'"]),
    "negative seed": (["--seed", "-1"], ["'training.seed' cannot be -1", "greater than or equal to 0"]),
    "huge seed": (["seed=99999999999999999999999"], ["'training.seed' cannot be", "less than"]),
    "unknown device": (["--device", "gpu9", "--steps", "1"], ["device 'gpu9' cannot be used", "try device=cpu"]),
    "unknown device and precision": (
        ["--device", "gpu9", "precision=bfloat16", "--steps", "1"],
        ["device 'gpu9' cannot be used", "try device=cpu"],
    ),
    "absent device": (["--device", "cuda:7", "--steps", "1"], ["device 'cuda:7' cannot be used", "try device=cpu"]),
    "precision not possible": (["precision=float16", "--steps", "1"], ["float16 needs a GPU", "use float32"]),
    "unknown precision": (["precision=int4"], ["'training.precision' cannot be 'int4'", "'float32'"]),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name: str, corpus_here: Path, capsys: Capture) -> None:
    words, said = SETTINGS[name]
    refused(["pretrain", "bert-tiny", "--corpus", "corpus", "--out", "run", *words], capsys, *said)


def test_bfloat16_without_units(corpus_here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    words = ["pretrain", "bert-tiny", "--corpus", "corpus", "--out", "run", "precision=bfloat16"]
    refused(words, capsys, "this CPU has no bfloat16 units", "use precision=float32")


def test_unknown_recipe(corpus_here: Path, capsys: Capture) -> None:
    words = ["--corpus", "corpus", "--out", "run"]
    refused(["pretrain", "bert-tinny", *words], capsys, "unknown recipe 'bert-tinny'", "did you mean 'bert-tiny'?")
    refused(["pretrain", "word3vec", *words], capsys, "unknown recipe 'word3vec'")


@pytest.mark.parametrize(
    "words", [[], ["bert-tiny"], ["bert-tiny", "--out", "run"], ["--corpus", "corpus", "--out", "run"]]
)
def test_something_missing(words: list[str], corpus_here: Path, capsys: Capture) -> None:
    refused(["pretrain", *words], capsys, "needs a recipe, a corpus and a place to put the run", "resume=RUN")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def change_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "missing": (shutil.rmtree, ["corpus: no such corpus", "firth prepare"]),
    "not a corpus": (
        lambda corpus: (corpus / "corpus.json").unlink(),
        ["corpus: not a corpus (no corpus.json in it)", "firth prepare"],
    ),
    "flipped byte of tokens": (
        lambda corpus: flip(corpus / "train" / "tokens.bin"),
        ["corpus/train/tokens.bin: damaged", "prepare the corpus again"],
    ),
    "flipped byte of words": (
        lambda corpus: flip(corpus / "heldout" / "words.bin"),
        ["corpus/heldout/words.bin: damaged", "prepare the corpus again"],
    ),
    "flipped byte of the tokenizer": (
        lambda corpus: flip(corpus / "tokenizer" / "tokenizer.json"),
        ["corpus/tokenizer/tokenizer.json: damaged", "prepare the corpus again"],
    ),
    "missing shard": (
        lambda corpus: (corpus / "train" / "tokens.bin").unlink(),
        ["corpus/train/tokens.bin: missing", "prepare the corpus again"],
    ),
    "another format": (
        lambda corpus: change_json(corpus / "corpus.json", format=99),
        ["corpus/corpus.json: made by another version", "prepare it again"],
    ),
    "broken description": (
        lambda corpus: (corpus / "corpus.json").write_text("{"),
        ["corpus/corpus.json: not valid JSON", "damaged"],
    ),
    "foreign description": (lambda corpus: (corpus / "corpus.json").write_text("[]"), ["corpus/corpus.json"]),
    "unknown key in the description": (
        lambda corpus: change_json(corpus / "corpus.json", colour=1),
        ["corpus/corpus.json: unknown setting 'colour'"],
    ),
    "a file instead": (
        lambda corpus: (shutil.rmtree(corpus), corpus.write_text("text")),
        ["corpus: not a corpus", "firth prepare"],
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_corpus(name: str, corpus_here: Path, capsys: Capture) -> None:
    damage, said = DAMAGES[name]
    damage(corpus_here)
    refused(["pretrain", "bert-tiny", "--corpus", "corpus", "--out", "run", "--steps", "1"], capsys, *said)
    if "missing" not in name:
        refused(["info", "corpus"], capsys, "corpus")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("words", ["corpus: a corpus of words, which has no pieces", "--tokens wordpiece"]),
        ("bpe", ["corpus: its tokenizer has no token for cls, sep", "--tokens wordpiece"]),
    ],
)
def test_a_corpus_of_another_kind(kind: str, said: list[str], work: Path, capsys: Capture) -> None:
    firth.prepare(write_documents(work / "a.txt", 50), "corpus", tokens=kind, vocab_size=400, layout="line", workers=1)
    refused(["pretrain", "bert-tiny", "--corpus", "corpus", "--out", "run", "--steps", "1"], capsys, *said)


def test_run_that_exists(corpus_here: Path, work: Path, run_folder: Path, capsys: Capture) -> None:
    shutil.copytree(run_folder, work / "run")
    (work / "photos").mkdir()
    (work / "photos" / "cat.jpg").write_text("precious")
    words = ["pretrain", "bert-tiny", "--corpus", "corpus", "--steps", "1"]
    refused([*words, "--out", "run"], capsys, "run: exists already", "--resume run", "--overwrite")
    refused([*words, "--out", "photos"], capsys, "photos: exists already", "choose another --out")
    refused([*words, "--out", "photos", "--overwrite"], capsys, "photos: not a run of Firth, so it is not overwritten")
    refused([*words, "--out", "run", "--overwrite", "--device", "gpu9"], capsys, "device 'gpu9' cannot be used")
    refused([*words, "--out", "run/firth.json/x"], capsys, "run/firth.json/x: cannot be created", "choose another path")


def test_out_that_may_not_be_written(corpus_here: Path, capsys: Capture) -> None:
    words = ["pretrain", "bert-tiny", "--corpus", "corpus", "--steps", "1"]
    refused([*words, "--out", "/sys/run"], capsys, "/sys/run: no permission to write there", "choose another path")


def test_base_that_is_none(corpus_here: Path, work: Path, run_folder: Path, capsys: Capture) -> None:
    words = ["pretrain", "bert-continue", "--corpus", "corpus", "--out", "run", "--steps", "1"]
    refused([*words, "--base", "none"], capsys, "none")
    refused([*words, "--base", "corpus"], capsys, "corpus")
    firth.prepare(write_documents(work / "a.txt", 50), "other", vocab_size=500, layout="line", workers=1)
    words[3] = "other"
    refused([*words, "--base", run_folder], capsys, "other: made with another tokenizer", "--tokenizer")


def test_resume_of_what_is_no_run(corpus_here: Path, work: Path, run_folder: Path, capsys: Capture) -> None:
    refused(["pretrain", "--resume", "none"], capsys, "none: no such run", "check the path")
    refused(
        ["pretrain", "--resume", "corpus"],
        capsys,
        "corpus: not a run of Firth (no firth.json in it)",
        "firth pretrain made",
    )
    shutil.copytree(run_folder, work / "run")
    refused(["pretrain", "--resume", "run", "--steps", "9"], capsys, "run: a resumed run keeps all its settings")
    refused(["pretrain", "bert-mini", "--resume", "run"], capsys, "run: a resumed run keeps all its settings")
    change_json(work / "run" / "firth.json", kind="task", task={"cells": 1}, status="started")
    refused(["pretrain", "--resume", "run"], capsys, "run: not a pre-training run", "firth pretrain made")
    change_json(work / "run" / "firth.json", kind="finetune")
    refused(["pretrain", "--resume", "run"], capsys, "run/firth.json: damaged ('kind'", "train it again")
    (work / "run" / "firth.json").write_text("{")
    refused(["pretrain", "--resume", "run"], capsys, "run/firth.json: not valid JSON")
    (work / "run" / "firth.json").write_text('{"format": 1}')
    refused(["pretrain", "--resume", "run"], capsys, "run/firth.json: made by an older Firth", "train it again")
    (work / "run" / "firth.json").write_text('{"format": 2}')
    refused(["pretrain", "--resume", "run"], capsys, "run/firth.json: damaged ('kind' is missing)")


@pytest.fixture
def stopped_run(corpus_here: Path, work: Path, tiny_config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of the corpus in the working folder that was stopped after a step."""
    import signal

    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    with pytest.raises(Interrupted):
        firth.pretrain(
            tiny_config, corpus="corpus", out="run", progress=lambda event: signal.raise_signal(signal.SIGTERM)
        )
    return work / "run"


def test_corpus_changed_before_resume(stopped_run: Path, work: Path, capsys: Capture) -> None:
    shutil.rmtree(work / "corpus")
    refused(["pretrain", "--resume", "run"], capsys, "corpus: no such corpus", "firth prepare")
    firth.prepare(write_documents(work / "a.txt", 50), "corpus", vocab_size=500, layout="line", workers=1)
    refused(
        ["pretrain", "--resume", "run"], capsys, "corpus: not the corpus this run was started with", "start a new run"
    )


def test_damaged_checkpoint(stopped_run: Path, capsys: Capture) -> None:
    flip(stopped_run / "checkpoints" / "step-1" / "model.safetensors")
    refused(
        ["pretrain", "--resume", "run"],
        capsys,
        "run/checkpoints/step-1/model.safetensors: damaged",
        "remove this checkpoint",
    )


def test_changed_config(stopped_run: Path, capsys: Capture) -> None:
    facts = json.loads((stopped_run / "firth.json").read_text())
    facts["config"]["model"]["ffn_dim"] = 96
    (stopped_run / "firth.json").write_text(json.dumps(facts))
    refused(
        ["pretrain", "--resume", "run"],
        capsys,
        "step-1/model.safetensors: does not fit this model",
        "was the config changed?",
    )
    facts["config"]["model"]["fnn_dim"] = 64
    (stopped_run / "firth.json").write_text(json.dumps(facts))
    refused(
        ["pretrain", "--resume", "run"],
        capsys,
        "run/firth.json: unknown setting 'model.fnn_dim'",
        "did you mean 'ffn_dim'?",
    )


def test_run_in_use(stopped_run: Path, capsys: Capture) -> None:
    with Run.open(stopped_run).lock():
        refused(
            ["pretrain", "--resume", "run"],
            capsys,
            "run: another process is training this run",
            "wait for it or stop it",
        )


def test_unfinished_run_is_not_loaded(stopped_run: Path, capsys: Capture) -> None:
    refused(["fill", "run", "a [MASK]"], capsys, "run: this run is not finished", "firth pretrain --resume run")


def test_a_run_is_not_replaced_by_what_begins_with_it(corpus_here: Path, run_folder: Path, capsys: Capture) -> None:
    shutil.copytree(run_folder, "run")
    words = ["pretrain", "bert-continue", "--corpus", "corpus", "--out", "run", "--base", "run", "--steps", "1"]
    refused([*words, "--overwrite"], capsys, "run: lies in the run that is to be replaced")
    assert firth.load("run").encode("A map.").shape == (1, 32)
    firth.prepare(write_documents(Path("a.txt"), 50), "words", tokens="words", layout="line", workers=1)
    firth.pretrain("word2vec", corpus="words", out="vectors", dim=8, min_count=1, epochs=1)
    words = [
        "pretrain",
        "word2vec",
        "dim=8",
        "min_count=1",
        "--corpus",
        "words",
        "--base",
        "vectors",
        "--out",
        "vectors",
    ]
    refused([*words, "--overwrite"], capsys, "vectors: lies in the run that is to be replaced")
    assert firth.load("vectors").dim == 8


def test_a_run_that_was_killed_before_its_first_file_begins(corpus_here: Path, work: Path, capsys: Capture) -> None:
    (work / "run").mkdir()
    (work / "run" / ".firth.json.tmp").write_text("{")
    refused(["pretrain", "--resume", "run"], capsys, "run: not a run of Firth", "begin the run again, without --resume")
    words = ["pretrain", "bert-tiny", "--corpus", "corpus", "--out", "run", "--steps", "1"]
    main([*words, "num_layers=1", "hidden_dim=16", "num_heads=2", "ffn_dim=32", "seq_len=16", "batch_size=2"])
    assert Run.open(work / "run").record.finished
    assert not list((work / "run").glob(".*"))


def test_a_run_is_replaced_through_a_link(corpus_here: Path, work: Path, run_folder: Path) -> None:
    shutil.copytree(run_folder, work / "real")
    (work / "run").symlink_to(work / "real")
    before = Run.open(work / "run").record
    words = ["pretrain", "bert-tiny", "--corpus", "corpus", "--out", "run", "--steps", "1", "--overwrite"]
    main([*words, "num_layers=1", "hidden_dim=16", "num_heads=2", "ffn_dim=32", "seq_len=16", "batch_size=2"])
    assert (work / "run").is_symlink()
    assert Run.open(work / "real").record != before


_ELMO = "filters=[[1,4],[3,8]] projection_dim=8 cell_dim=16 seq_len=12 num_samples=16 steps=1 max_vocab=1".split()
_VECTORS = "dim=8 min_count=1 epochs=1".split()
LATE: dict[str, tuple[list[str], str]] = {  # refused after the run has begun
    "no vector fits": (["elmo-tiny", *_ELMO], "none of the model's tokens is among the vectors"),
    "too little memory": (
        ["lstm-lm", "hidden_dim=8", "embedding_dim=8", "steps=2", "embeddings=none"],
        "not enough memory",
    ),
    "no finite vectors": (["word2vec", *_VECTORS], "became NaN or infinite"),
}


@pytest.mark.parametrize("name", LATE)
def test_a_refusal_before_anything_was_learned_leaves_nothing(
    name: str, work: Path, words_folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run that was to be replaced is there again, also behind a link."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    firth.pretrain("word2vec", corpus=words_folder, out="old", dim=8, min_count=1, epochs=1)
    (work / "link").symlink_to("old")
    words, said = LATE[name]
    with monkeypatch.context() as broken:
        if name == "too little memory":
            broken.setattr("firth.training.loop.Loop._step", no_memory)
        if name == "no finite vectors":
            broken.setattr("firth.vectors.trainer.np.isfinite", lambda array: np.zeros(1, bool))
        for out in (["run"], ["old", "--overwrite"], ["link", "--overwrite"]):
            refused(["pretrain", *words, "--corpus", words_folder, "--out", *out], capsys, said)
    assert firth.load("link").dim == 8


def test_a_replaced_run_is_gone_in_the_end(work: Path, words_folder: Path) -> None:
    for dim in (8, 9):
        firth.pretrain("word2vec", corpus=words_folder, out="run", dim=dim, min_count=1, epochs=1, overwrite=True)
    assert firth.load("run").dim == 9
    assert [path.name for path in work.iterdir()] == ["run"]


def test_no_network_has_a_billion_layers(work: Path) -> None:
    """Not in any recipe: building the names of so many weights would take all time and memory."""
    for name in firth.recipes():
        config = find_recipe(name)
        for key in config.keys() if isinstance(config, RunConfig) else ():
            if key.endswith(("_layers", ".depths")) and key != "model.share_layers":
                value = "[1000000000]" if key.endswith("depths") else "1000000000"
                with pytest.raises(FirthError, match="less than or equal to 1000"):
                    config.override([f"{key}={value}"])
