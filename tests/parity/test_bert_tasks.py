"""Task heads on BERT: directories of transformers read here, and ours read there, with the same scores."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

import firth
from firth.core.errors import FirthError
from firth.corpus.format import Corpus
from firth.data.labelled import AnswerExample, TagExample, TextExample
from firth.tasks.model import TaskModel

CLASSES = {
    "classify": BertForSequenceClassification,
    "tag": BertForTokenClassification,
    "answer": BertForQuestionAnswering,
}
EXAMPLES = {
    "classify": [TextExample("The old doctor found a clock."), TextExample("An apple!")],
    "tag": [TagExample(["The", "old", "doctor"]), TagExample(["apples"])],
    "answer": [AnswerExample("1", "Who found it?", "The old doctor found a clock near the river.")],
}


@pytest.fixture
def directory(request: pytest.FixtureRequest, corpus: Corpus, tmp_path: Path) -> Path:
    """A tiny random model of transformers with a task head."""
    kind = request.param
    pieces = corpus.pieces
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=pieces.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        id2label=dict(enumerate(["0", "1"] if kind == "answer" else ["O", "B-X", "I-X"])),
        initializer_range=0.5,
    )
    CLASSES[kind](config).save_pretrained(tmp_path / kind)
    pieces.save(tmp_path / kind)
    return tmp_path / kind


def theirs(folder: Path, arrays: dict[str, torch.Tensor]) -> list[np.ndarray]:
    model = CLASSES[folder.name].from_pretrained(folder).eval()
    with torch.inference_mode():
        out = model(arrays["ids"], attention_mask=arrays["doc_ids"], token_type_ids=arrays["segments"])
    if folder.name == "answer":
        return [out.start_logits.numpy(), out.end_logits.numpy()]
    return [out.logits.numpy()]


def ours(model: TaskModel, arrays: dict[str, torch.Tensor], num: int) -> list[np.ndarray]:
    with torch.inference_mode():
        if model.config.task == "classify":
            return [model.network.text_scores(arrays, num).numpy()]
        scores = model.network.token_scores(arrays)
    return list(scores.unbind(-1)) if model.config.task == "answer" else [scores.numpy()]


def compare(model: TaskModel, folder: Path, kind: str) -> None:
    examples = EXAMPLES[kind]
    items = [model.task.item(example, number) for number, example in enumerate(examples)]
    batch = model.task.batch(items).to("cpu")
    real = batch.tensors["doc_ids"].bool().numpy()
    for left, right in zip(
        theirs(folder, dict(batch.tensors)), ours(model, dict(batch.tensors), len(examples)), strict=True
    ):
        mask = np.ones(len(left), bool) if kind == "classify" else real
        np.testing.assert_allclose(np.asarray(right)[mask], left[mask], atol=1e-4)


@pytest.mark.parametrize("directory", list(CLASSES), indirect=True)
def test_read_here(directory: Path) -> None:
    model = firth.load(directory)
    assert isinstance(model, TaskModel)
    assert model.config.task == directory.name
    compare(model, directory, directory.name)
    assert len(model.predict_examples(EXAMPLES[directory.name])) == len(EXAMPLES[directory.name])


@pytest.mark.parametrize("directory", list(CLASSES), indirect=True)
def test_written_here_read_there(directory: Path, tmp_path: Path) -> None:
    model = firth.load(directory)
    assert isinstance(model, TaskModel)
    out = tmp_path / "again" / directory.name
    out.mkdir(parents=True)
    model.save(out, None)
    loaded = firth.load(out)
    assert isinstance(loaded, TaskModel)
    compare(loaded, out, directory.name)


@pytest.mark.parametrize("directory", ["tag"], indirect=True)
def test_a_tagger_that_was_saved_with_a_pooler(directory: Path) -> None:
    """As older versions of transformers did: the class that wrote it says what it is."""
    weights = load_file(directory / "model.safetensors")
    weights |= {"bert.pooler.dense.weight": torch.randn(32, 32), "bert.pooler.dense.bias": torch.randn(32)}
    save_file(weights, directory / "model.safetensors")
    model = firth.load(directory)
    assert isinstance(model, TaskModel)
    assert (model.config.task, model.config.scheme) == ("tag", "bio")
    compare(model, directory, "tag")


@pytest.mark.parametrize("directory", ["classify"], indirect=True)
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"problem_type": "regression"}, "scores per text .* it gives a text one score"),
        ({"architectures": ["BertForQuestionAnswering"]}, "a BertForQuestionAnswering whose head is missing"),
        ({"is_decoder": True}, "reads from left to right"),
        ({"architectures": ["BertForMultipleChoice"]}, "a BertForMultipleChoice, a task that Firth does not know"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(directory: Path, setting: dict[str, object], said: str) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | setting))
    with pytest.raises(FirthError, match=said):
        firth.load(directory)


@pytest.mark.parametrize("directory", ["classify"], indirect=True)
def test_an_ernie_with_a_task(directory: Path) -> None:
    """The same weights by their names there."""
    weights = load_file(directory / "model.safetensors")
    before = firth.load(directory).predict_examples(EXAMPLES["classify"])
    save_file({name.replace("bert.", "ernie."): one for name, one in weights.items()}, directory / "model.safetensors")
    config = json.loads((directory / "config.json").read_text())
    config |= {"model_type": "ernie", "architectures": ["ErnieForSequenceClassification"]}
    (directory / "config.json").write_text(json.dumps(config))
    assert firth.load(directory).predict_examples(EXAMPLES["classify"]) == before


@pytest.mark.parametrize("directory", ["classify"], indirect=True)
def test_texts_or_pairs(directory: Path, tmp_path: Path) -> None:
    """Such a directory does not say which it was taught, so it takes both, as transformers does."""
    model = firth.load(directory)
    assert isinstance(model, TaskModel)
    one, two = model.predict(["An apple!", ("An apple!", "A clock.")])
    assert one["probabilities"] != two["probabilities"]
    (tmp_path / "a.tsv").write_text("text\tsecond\nAn apple!\tA clock.\n")
    (tmp_path / "a.txt").write_text("An apple!\tA clock.\nAn apple!\n")
    for name, wanted in (("a.tsv", [two]), ("a.txt", [two, one])):
        found = list(firth.predict(directory, file=str(tmp_path / name)))
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours["probabilities"] == pytest.approx(theirs["probabilities"], abs=1e-5)
    with pytest.raises(FirthError, match="for each example"):
        model.predict([("a", "b", "c")])
