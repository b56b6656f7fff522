"""Where a representation enters a task: below the body, above it or both, with word vectors beside it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.core.errors import FirthError
from firth.core.run import Run
from firth.core.types import Inputs, TextReader
from firth.models.shared.model import load_model
from firth.models.shared.static import read_with_vectors
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.finetune import default_settings
from firth.tasks.model import load_extra_vectors
from firth.tasks.network import TaskNetwork
from firth.tasks.training import Finetuning, collate, frame_row
from task_text import files, texts, write_vectors

DIM = 8


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vectors(tmp_path_factory.mktemp("vectors") / "words.vec", DIM)


@pytest.fixture
def both(bert_reader: TextReader, vectors: Path) -> TextReader:
    return read_with_vectors(bert_reader, load_extra_vectors(vectors).vectors)


def tensors(reader: TextReader, some: list[str]) -> dict[str, torch.Tensor]:
    ids = [reader.tokenize(text).ids for text in some]
    rows = [frame_row(reader.frame, one, None, np.arange(len(one))) for one in ids]
    return {name: torch.from_numpy(array) for name, array in collate(rows, reader.pad_id).items()}


def mixed(hidden_LBTD: np.ndarray, scalars: list[float], gamma: float) -> np.ndarray:
    """γ Σ s_j h_j, written out."""
    raised = np.exp(np.asarray(scalars) - max(scalars))
    shares = raised / raised.sum()
    return gamma * sum(share * layer for share, layer in zip(shares, hidden_LBTD, strict=True))


TEXTS = ["The doctor found a boat.", "a map"]


@pytest.mark.parametrize("place", ["input", "output", "both"])
@pytest.mark.parametrize("extra_vectors", [False, True])
def test_what_stands_where(place: str, extra_vectors: bool, bert_reader: TextReader, both: TextReader) -> None:
    reader = both if extra_vectors else bert_reader
    config = TaskConfig.build({"layers": "mix", "place": place, "body": "bilstm", "body_dim": 3, "tune": False}, "test")
    network = TaskNetwork(config, reader, 2).eval()
    assert sorted(network.mixes) == (["input", "output"] if place == "both" else [place])
    learned = {"input": ([0.3, -1.0, 2.0], 1.5), "output": ([1.0, 0.0, 0.5], 0.7)}
    for name, mix in network.mixes.items():
        mix.scalars.data = torch.tensor(learned[name][0])  # type: ignore[union-attr]
        mix.gamma.data = torch.tensor(learned[name][1])  # type: ignore[union-attr]
    batch = tensors(reader, TEXTS[:1])
    with torch.no_grad():
        found = network.tokens(batch).numpy()
        hidden = reader.module(Inputs.of(batch)).hidden.numpy()
        below = [reader.module.vectors(batch["ids"]).numpy()] if extra_vectors else []  # type: ignore[operator]
        if place != "output":
            below.append(mixed(hidden, *learned["input"]))
        assert network.body is not None
        inputs = np.concatenate(below or [hidden[0]], -1)  # with nothing below, the body reads the token layer
        wanted = network.body(torch.from_numpy(inputs.astype(np.float32)))[0].numpy()
    if place != "input":
        wanted = np.concatenate((wanted, mixed(hidden, *learned["output"])), -1)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert found.shape[-1] == network.dim
    shares = network.learned_mixes()
    assert {name: found.gamma for name, found in shares.items()} == pytest.approx(
        {name: learned[name][1] for name in shares}
    )
    assert all(sum(found.weights) == pytest.approx(1) for found in shares.values())


def test_the_last_layer_may_enter_above(both: TextReader) -> None:
    network = TaskNetwork(TaskConfig(place="output", body="bilstm", body_dim=3), both, 2).eval()
    batch = tensors(both, TEXTS)
    last = both.module.last(Inputs.of(batch))
    assert network.body is not None
    assert network.body.input_size == DIM
    torch.testing.assert_close(network.tokens(batch)[..., 6:], last)


def test_without_a_body_there_is_one_place(run_folder: Path, tmp_path: Path) -> None:
    """So there is one, unless it is told not to be there."""
    config = TaskConfig(place="both", labels=("en", "zh"))
    base = load_model(run_folder)
    assert default_settings(config, base, 20, {"place"}).body == "bilstm"
    with pytest.raises(FirthError, match="place=both is behind a body, and there is none: set body=bilstm"):
        firth.finetune(
            "classify",
            base=run_folder,
            **files(tmp_path, "classify", 12, 6),  # type: ignore[arg-type]
            out=tmp_path / "run",
            place="both",
            body="none",
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["The doctor found ¿ boats.", ["The", "doctor", "found", "¿", "boats"]])
def test_every_piece_has_the_vector_of_its_word(text: Any, both: TextReader, vectors: Path) -> None:
    static = load_extra_vectors(vectors).vectors
    encoding = both.tokenize(text)
    row = frame_row(both.frame, encoding.ids, None, np.arange(len(encoding.ids)))
    found = both.module.vectors(torch.from_numpy(row.ids)[None])[0].numpy()  # type: ignore[operator]
    words = ["The", "doctor", "found", "¿", "boats"]
    wanted = np.stack([static.layers([words[min(number, 4)]]).hidden[0, 0] for number in encoding.words.tolist()])
    if isinstance(text, str):
        wanted[encoding.words == 5] = 0  # the full stop
    np.testing.assert_array_equal(found[1:-1], wanted)
    assert len(encoding.words) > len(set(encoding.words.tolist()))  # some word has several pieces
    np.testing.assert_array_equal(found[[0, -1]], 0)  # no word
    assert not any(parameter.requires_grad for parameter in both.module.extra_vectors.parameters())  # type: ignore[union-attr]


def test_layers_are_those_of_the_base(bert_reader: TextReader, both: TextReader) -> None:
    first, second = tensors(bert_reader, TEXTS), tensors(both, TEXTS)
    hidden = [reader.module(Inputs.of(batch)).hidden for reader, batch in ((bert_reader, first), (both, second))]
    torch.testing.assert_close(hidden[0], hidden[1])


def test_no_words_at_all(both: TextReader) -> None:
    assert both.tokenize("").ids.shape == (0,)
    assert both.tokenize([]).ids.shape == (0,)


def test_the_penalty_is_added_once_to_the_mean(bert_reader: TextReader) -> None:
    """Peters et al. 2018, §3.4: λ |w|² on the scalars before the softmax."""

    def loss(l2: float) -> float:
        settings = {
            "layers": "mix",
            "mix_l2": l2,
            "place": "both",
            "body": "bilstm",
            "body_dim": 3,
            "labels": ["en", "zh"],
        }
        config = TaskConfig.build({**settings, "batch_size": 4, "tune": False}, "test")
        task = Classify(config, bert_reader)
        trainable = Finetuning(config, task, task.build(False), texts(8), [])
        trainable.network.start(torch.Generator().manual_seed(0))
        trainable.network.eval()
        for number, mix in enumerate(trainable.network.mixes.values()):
            mix.scalars.data = torch.tensor([1.0, -2.0, 0.5 + number])  # type: ignore[union-attr]
        batch = trainable.batch(0).to("cpu")
        return float(trainable.loss(batch).sums["task"].detach()) / batch.counts["task"]

    try:
        wanted = (1 + 4 + 0.25) + (1 + 4 + 2.25)
        assert loss(0.1) - loss(0.0) == pytest.approx(0.1 * wanted, abs=1e-5)
    finally:
        bert_reader.module.requires_grad_(True)


def test_a_large_penalty_keeps_the_mean(run_folder: Path, tmp_path: Path) -> None:
    spread = {}
    for l2 in (1.0, 0.001):
        out = tmp_path / str(l2)
        firth.finetune(
            "classify",
            base=run_folder,
            train=files(tmp_path, "classify", 24, 6)["train"],
            out=out,
            layers="mix",
            tune=False,
            body="bilstm",
            body_dim=8,
            place="both",
            epochs=8,
            mix_l2=l2,
            learning_rate=0.03,
        )
        task = Run.open(out).record.task
        assert task is not None
        spread[l2] = max(max(mix.weights) - min(mix.weights) for mix in task.mixes.values())
    assert spread[1.0] < 0.5 * spread[0.001]


@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_stored_shown_and_read_again(
    place: str, run_folder: Path, vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from firth.cli.main import main

    copied = tmp_path / "copied.vec"
    copied.write_bytes(vectors.read_bytes())
    data = files(tmp_path, "tag", 12, 6)
    words = ["finetune", "tag", f"place={place}", "layers=mix", "body=bilstm", "body_dim=6", "tune=false"]
    named = {"base": run_folder, "extra-vectors": copied, "out": tmp_path / "run", "epochs": 1, **data}
    assert not main([*words, *(part for name, value in named.items() for part in (f"--{name}", str(value)))])
    places = ["input", "output"] if place == "both" else [place]
    shown = capsys.readouterr().out
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    task = Run.open(tmp_path / "run").record.task
    assert task is not None
    assert list(task.mixes) == places
    for name in places:
        assert len(task.mixes[name].weights) == 3
        assert f"layers at the {name}" in shown
        assert f"at the {name}" in report
    copied.unlink()
    model = firth.load(tmp_path / "run")
    assert model.extra_vectors is not None  # type: ignore[attr-defined]
    assert len(model.predict([["the", "old", "nurse"]])[0]["tags"]) == 3


def test_estimators_take_vectors_beside(vectors: Path) -> None:
    some = texts(12)
    found = firth.Classifier(extra_vectors=str(vectors), epochs=1, settings={"body_dim": 4}).fit(
        [one.text for one in some], [one.label for one in some]
    )
    assert found.model_.network.body is not None
    assert found.model_.network.body.input_size == 100 + DIM
    assert len(found.predict(["The doctor."])) == 1


def test_only_vectors_stand_beside(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match=r"no word vectors \(encoder\); --extra-vectors takes"):
        firth.finetune(
            "classify",
            base=run_folder,
            extra_vectors=run_folder,
            **files(tmp_path, "classify", 12, 6),  # type: ignore[arg-type]
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_elmo_places_on_a_static_base(vectors: Path) -> None:
    """A table has one layer: the mix is that layer times γ."""
    reader = load_model(vectors).reader()
    network = TaskNetwork(TaskConfig(layers="mix"), reader, 2).eval()
    batch = tensors(reader, TEXTS)
    torch.testing.assert_close(network.tokens(batch), reader.module.last(Inputs(batch["ids"])))
