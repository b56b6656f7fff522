"""Models that cannot be loaded, and questions they cannot answer."""

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from refusals import refused
from safetensors.torch import load_file, save_file

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(work: Path, run_folder: Path) -> Path:
    """The run as a plain Hugging Face directory ``model`` in the working folder."""
    names = ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "tokenizer_config.json")
    (work / "model").mkdir()
    for name in names:
        shutil.copy(run_folder / name, work / "model" / name)
    return work / "model"


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    """Changes the weights of a model directory."""

    def apply(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        change(found)
        save_file(found, folder / "model.safetensors")

    return apply


def config(**changes: object) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        data = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**data, **changes}))

    return apply


def write(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


def remove(*names: str) -> Callable[[Path], object]:
    return lambda folder: [(folder / name).unlink() for name in names]


QUERY = "bert.encoder.layer.0.attention.self.query.weight"
NORM = "bert.encoder.layer.1.output.LayerNorm.weight"
DAMAGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a weight is missing": (
        tensors(lambda found: found.pop(NORM)),
        ["model/model.safetensors", f"'{NORM}' is missing"],
    ),
    "part of a head is missing": (
        tensors(lambda found: found.pop("cls.predictions.transform.dense.bias")),
        ["model/model.safetensors", "'cls.predictions.transform.dense.bias' is missing"],
    ),
    "a weight too many": (
        tensors(lambda found: found.update(extra=torch.zeros(2))),
        ["model/model.safetensors", "not part of a BERT (extra)"],
    ),
    "a layer too many": (
        config(num_hidden_layers=1),
        ["model/model.safetensors", "not part of a BERT (bert.encoder.layer.1"],
    ),
    "a layer too few": (
        config(num_hidden_layers=3),
        ["model/model.safetensors", "'bert.encoder.layer.2", "is missing"],
    ),
    "a weight of another shape": (
        tensors(lambda found: found.update({NORM: torch.zeros(7)})),
        ["model", "do not fit", "are the files of one model?"],
    ),
    "a query of another shape": (
        tensors(lambda found: found.update({QUERY: torch.zeros(7, 3)})),
        ["model/model.safetensors", "query", "differ in shape"],
    ),
    "a config of another size": (config(hidden_size=64), ["model", "do not fit", "are the files of one model?"]),
    "heads that do not divide": (config(num_attention_heads=5), ["model/config.json", "num_heads (5) does not divide"]),
    "a config with a wrong type": (config(hidden_size="wide"), ["model/config.json", "'hidden_dim' cannot be 'wide'"]),
    "another model type": (
        config(model_type="mamba"),
        ["model/config.json", "a model of type 'mamba', which Firth does not read"],
    ),
    "an unknown activation": (config(hidden_act="swish"), ["model/config.json", "swish"]),
    "relative positions": (config(position_embedding_type="relative_key"), ["model/config.json", "positions"]),
    "a config that is a list": (write("config.json", "[]"), ["model/config.json: not the description of a model"]),
    "a config that is no json": (write("config.json", "{"), ["model/config.json: not valid JSON"]),
    "no config": (remove("config.json"), ["model: no model here (no config.json)"]),
    "no weights": (remove("model.safetensors"), ["model: no weights here", "copy them into the folder of config.json"]),
    "cut-off weights": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-9]),
        ["model/model.safetensors: not a complete weights file", "copy it again"],
    ),
    "empty weights": (
        write("model.safetensors", ""),
        ["model/model.safetensors: not a complete weights file", "copy it again"],
    ),
    "no tokenizer": (remove("tokenizer.json", "vocab.txt"), ["model: no tokenizer here", "copy the tokenizer's files"]),
    "a broken tokenizer": (write("tokenizer.json", "{}"), ["model/tokenizer.json: not a tokenizer", "check the file"]),
    "a tokenizer of another model": (
        lambda folder: (
            remove("tokenizer.json")(folder),
            write("vocab.txt", "[PAD]\n[UNK]\n" + "".join(f"w{number}\n" for number in range(900)))(folder),
        ),
        ["the tokenizer has 902 tokens but the model only"],
    ),
    "a list in pytorch_model.bin": (
        lambda folder: (
            remove("model.safetensors")(folder),
            torch.save([torch.zeros(2)], folder / "pytorch_model.bin"),
        ),
        ["model/pytorch_model.bin: not a plain dict", "convert it to safetensors"],
    ),
    "a cut-off pytorch_model.bin": (
        lambda folder: (
            remove("model.safetensors")(folder),
            (folder / "pytorch_model.bin").write_bytes(b"PK\3\4 half"),
        ),
        ["model/pytorch_model.bin", "again"],
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_model(name: str, model: Path, capsys: Capture) -> None:
    damage, said = DAMAGES[name]
    damage(model)
    refused(["fill", "model", "The [MASK] sold an apple."], capsys, *said)


class Bomb:
    """Unpickled, it would leave a file."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, ("exploded", "w")


@pytest.mark.parametrize("new_format", [True, False])
def test_pickles_are_not_executed(new_format: bool, model: Path, work: Path, capsys: Capture) -> None:
    (model / "model.safetensors").unlink()
    torch.save({"a": Bomb()}, model / "pytorch_model.bin", _use_new_zipfile_serialization=new_format)
    refused(
        ["fill", "model", "a [MASK]"],
        capsys,
        "model/pytorch_model.bin: contains more than plain tensors",
        "convert it to safetensors",
    )
    assert not (work / "exploded").exists()


QUESTIONS: dict[str, tuple[list[str], list[str]]] = {
    "no such model": (["fill", "none", "a [MASK]"], ["none: no such run or model", "check the path"]),
    "no mask": (["fill", "model", "no mask here"], ["there is no [MASK] in 'no mask here'", "put [MASK] where"]),
    "no mask on two lines": (["fill", "model", "two\nlines"], ["there is no [MASK] in 'two lines'"]),
    "nothing to fill": (["fill", "model", "  "], ["no sentence given", "write one with [MASK]"]),
    "text too long": (["fill", "model", "word " * 100 + "[MASK]"], ["more than the model's 48", "shorten it"]),
    "no guesses wanted": (["fill", "model", "a [MASK]", "--top", "0"], ["--top", "firth --help"]),
    "no text": (["fill", "model"], ["Missing argument", "firth --help"]),
    "encode a missing file": (["encode", "model", "none.txt"], ["none.txt: no such file", "check the path"]),
    "encode an empty file": (["encode", "model", "empty.txt"], ["empty.txt: the file is empty"]),
    "encode white space": (["encode", "model", "white.txt"], ["white.txt: no text in it", "one text per line"]),
    "encode bad bytes": (["encode", "model", "bad.txt", "--out", "v.npy"], ["bad.txt:2: not utf-8"]),
    "unknown pool": (
        ["encode", "model", "good.txt", "--pool", "median"],
        ["unknown pool 'median'", "choose mean, cls or max"],
    ),
    "unknown pool with out": (
        ["encode", "model", "good.txt", "--pool", "median", "--out", "v.npy"],
        ["unknown pool 'median'"],
    ),
    "layer out of range": (
        ["encode", "model", "good.txt", "--layer", "3"],
        ["layer 3 does not exist", "layers 0 to 2"],
    ),
    "negative layer out of range": (
        ["encode", "model", "good.txt", "--layer", "-4", "--out", "v.npy"],
        ["layer -4 does not exist", "layers 0 to 2"],
    ),
    "layer that is no number": (["encode", "model", "good.txt", "--layer", "last"], ["--layer", "firth --help"]),
    "out that is no npy": (
        ["encode", "model", "good.txt", "--out", "v.txt"],
        ["v.txt: vectors are written as NumPy arrays", "ends in .npy"],
    ),
    "out in no folder": (
        ["encode", "model", "good.txt", "--out", "none/v.npy"],
        ["none/v.npy: the folder none does not exist", "make it first"],
    ),
    "out that is a folder": (
        ["encode", "model", "good.txt", "--out", "folder.npy"],
        ["folder.npy", "choose another path"],
    ),
    "encode without the column": (
        ["encode", "model", "a.jsonl", "--column", "body"],
        ["a.jsonl:1: no column 'body'", "--column"],
    ),
    "info on nothing": (["info", "none"], ["none: no such corpus, run or model", "check the path"]),
    "info on a file": (["info", "good.txt"], ["good.txt: neither a corpus", "check the path"]),
    "info on a folder": (["info", "folder.npy"], ["folder.npy: neither a corpus", "check the path"]),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(name: str, model: Path, work: Path, capsys: Capture) -> None:
    (work / "folder.npy").mkdir()
    (work / "empty.txt").write_text("")
    (work / "white.txt").write_text(" \n \n")
    (work / "bad.txt").write_bytes(b"good.\nb\xffd.\n")
    (work / "good.txt").write_text("One text.\nAnother.\n")
    (work / "a.jsonl").write_text('{"text": "x"}\n')
    words, said = QUESTIONS[name]
    refused(words, capsys, *said)


def test_a_model_without_a_head(model: Path, capsys: Capture) -> None:
    tensors(lambda found: [found.pop(name) for name in list(found) if name.startswith("cls.")])(model)
    refused(
        ["fill", "model", "a [MASK]"], capsys, "this model has no masked-token head", "pre-trained with masked tokens"
    )


@pytest.mark.parametrize("words", [["fill", "model", "-"], ["encode", "model", "-"]], ids=["fill", "encode"])
def test_standard_input(words: list[str], model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"good.\nb\xffd [MASK]\n")))
    refused(words, capsys, "standard input:2: not utf-8", "convert it")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    refused(words, capsys, "one")


def test_half_a_character(model: Path, capsys: Capture) -> None:
    """Arguments that are not UTF-8 arrive as lone surrogates."""
    for words in (
        ["fill", "model", "a \udcff [MASK]"],
        ["similarity", "model", "a", "\udcff"],
        ["translate", "model", "\udcff"],
    ):
        refused(words, capsys, "an argument is not UTF-8")


@pytest.mark.parametrize("content", ["[]", "5", "{"])
def test_info_on_a_foreign_config(content: str, work: Path, capsys: Capture) -> None:
    (work / "model").mkdir()
    (work / "model" / "config.json").write_text(content)
    refused(["info", "model"], capsys, "model/config.json: not")


OWN = {"model_type": "firth-encoder"}


@pytest.mark.parametrize(
    "content", [OWN, {**OWN, "encoder": 5}, {**OWN, "encoder": {"hiden_dim": 8}}, {**OWN, "encoder": {}}]
)
def test_a_damaged_directory_of_our_own(content: dict[str, object], model: Path, capsys: Capture) -> None:
    (model / "config.json").write_text(json.dumps(content))
    refused(["fill", "model", "a [MASK]"], capsys, "model/")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "none"], ["none: no such run", "check the path"]),
        (["evaluate", "model"], ["model: not a run of Firth"]),
        (["plan", "bert-tinny", "--corpus", "none"], ["unknown recipe 'bert-tinny'", "did you mean 'bert-tiny'?"]),
        (["plan", "bert-tiny", "--corpus", "none"], ["none: no such corpus", "firth prepare"]),
        (["plan", "bert-tiny", "--corpus", "none", "--budget", "soon"], ["'soon' is not a duration"]),
        (["plan", "bert-tiny", "--corpus", "none", "hiden_dim=2"], ["did you mean 'hidden_dim'?"]),
    ],
    ids=lambda value: " ".join(value[:3]),
)
def test_evaluate_and_plan(words: list[str], said: list[str], model: Path, capsys: Capture) -> None:
    refused(words, capsys, *said)


def test_out_that_may_not_be_written(model: Path, work: Path, capsys: Capture) -> None:
    """Nobody may make folders in /sys, not even root."""
    (work / "good.txt").write_text("One text.\n" * 30)
    remedy = "choose another path"
    refused(
        ["encode", "model", "good.txt", "--out", "/sys/v.npy"],
        capsys,
        "/sys/v.npy: no permission to write there",
        remedy,
    )
    refused(
        ["prepare", "good.txt", "--out", "/sys/corpus"], capsys, "/sys/corpus: no permission to write there", remedy
    )
