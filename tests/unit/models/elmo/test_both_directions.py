"""Both directions: what is read and predicted by hand, the loss against a plain one, the carried state."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.core.registry import RunConfig, find_run_recipe
from firth.corpus.format import Corpus
from firth.corpus.streams import Spellings
from firth.models.elmo.objective import ElmoPretraining
from firth.models.elmo.scoring import read_both_directions
from firth.nn.character_cnn import TableSoftmax

SMALL = ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=6", "batch_size=3", "max_vocab=40"]


def family(folder: Path, *settings: str) -> ElmoPretraining:
    config = find_run_recipe("elmo-tiny").override([*SMALL, "steps=2", *settings])
    return ElmoPretraining(config, Corpus.open(folder))


def test_a_sentence_by_hand(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one two three\n")
    firth.prepare(text, tmp_path / "corpus", tokens="words", layout="line", heldout=0.0, workers=1)
    trainable = family(tmp_path / "corpus", "batch_size=1", "seq_len=4")
    words = trainable.objective.spellings
    sentence = trainable.rows.text.locate(trainable.rows.window(0).positions)
    inputs, targets = read_both_directions(trainable.corpus.train, sentence, words)
    names = [*words.words, "<S>", "</S>", "<UNK>"]
    assert [names[number] for number in inputs[0, 0]] == ["<S>", "one", "two", "three"]
    assert [names[number] for number in targets[0, 0]] == ["one", "two", "three", "</S>"]
    assert [names[number] for number in inputs[1, 0]] == ["</S>", "three", "two", "one"]
    assert [names[number] for number in targets[1, 0]] == ["three", "two", "one", "<S>"]


@pytest.fixture
def trainable(words_folder: Path, request: pytest.FixtureRequest) -> ElmoPretraining:
    return family(words_folder, *getattr(request, "param", []))


KINDS = pytest.mark.parametrize(
    "trainable",
    [
        ["num_samples=0"],
        ["num_samples=0", "softmax=characters"],
        ["num_samples=0", "softmax=characters", "softmax_network=shared"],
    ],
    indirect=True,
    ids=["table", "characters", "shared"],
)


@KINDS
def test_scores_start_at_how_often_words_occur(trainable: ElmoPretraining) -> None:
    softmax, words = trainable.objective.softmax, trainable.objective.spellings
    targets = np.bincount(words.known(np.asarray(trainable.corpus.train.tokens, np.int64)), minlength=words.num_known)
    sentences = trainable.corpus.info.train.sentences
    shares = np.maximum([sentences, sentences, *targets[2:]], 1)
    np.testing.assert_allclose(softmax.bias.detach().exp(), shares / shares.sum(), rtol=1e-5)


def plain_loss(trainable: ElmoPretraining, number: int, states: Any) -> tuple[list[float], Any]:
    """Word by word, with every word's characters looked at on its own."""
    model, objective = trainable.model, trainable.objective
    words: Spellings = objective.spellings
    window = trainable.rows.window(number)
    sentence = trainable.rows.text.locate(window.positions, window.epoch)
    inputs, targets = read_both_directions(trainable.corpus.train, sentence, words)
    live = window.inside
    sums = []
    rows = torch.cat([_row(objective, model, word) for word in range(words.num_known)])
    bias = objective.softmax.bias
    ids = words.characters(inputs.reshape(-1), 50)
    vectors = model.tokens(torch.from_numpy(ids)).view(*inputs.shape, -1).transpose(1, 2)
    outputs, after = model.read(vectors, states)
    for way in range(2):
        scores = (outputs[way].transpose(0, 1) @ rows.T + bias).log_softmax(-1)
        goals = torch.from_numpy(words.known(targets[way]))
        sums.append(-float(scores.gather(-1, goals[..., None])[..., 0][torch.from_numpy(live)].sum()))
    return sums, after


def _row(objective: Any, model: Any, word: int) -> torch.Tensor:
    if isinstance(objective.softmax, TableSoftmax):
        return objective.softmax.rows.weight[word : word + 1]
    ids = objective.spellings.characters(objective.spellings.types(np.asarray([word])), 50)
    spelt = (objective.softmax.network or model.tokens)(torch.from_numpy(ids))
    return spelt + objective.softmax.correction.weight[word : word + 1] @ objective.softmax.widen.weight.T


@KINDS
def test_loss_equals_the_plain_one_and_the_state_goes_on(trainable: ElmoPretraining) -> None:
    trainable.module.train()
    states = None
    for number in range(3):
        batch = trainable.batch(number)
        found = trainable.loss(batch.to("cpu")).sums
        with torch.no_grad():
            wanted, states = plain_loss(trainable, number, states)
        np.testing.assert_allclose([found[name].item() for name in ("forward", "backward")], wanted, rtol=1e-4)
    torch.testing.assert_close(trainable.objective.cell_1, states[1][1], atol=1e-5, rtol=1e-4)


@KINDS
def test_everything_learns(trainable: ElmoPretraining) -> None:
    """Each parameter gets a gradient, and a few steps make the loss smaller."""
    optimizer = torch.optim.Adam(trainable.module.parameters(), 5e-3)
    trainable.module.train()
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        losses.append(sum(trainable.loss(trainable.batch(0).to("cpu")).sums.values()))
        losses[-1].backward()
        optimizer.step()
    assert all(parameter.grad is not None for parameter in trainable.module.parameters())
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    "trainable",
    [["num_samples=30"], ["num_samples=30", "softmax=characters"], ["num_samples=30", "softmax=characters", "softmax_network=shared"]],
    indirect=True,
)  # fmt: skip
def test_sampled_candidates(trainable: ElmoPretraining) -> None:
    """Their rows are those of the whole vocabulary; distinct words are spelt once."""
    objective, batch = trainable.objective, trainable.batch(1)
    again = trainable.batch(1)
    assert all(np.array_equal(batch.arrays[name], again.arrays[name]) for name in batch.arrays)
    arrays = batch.arrays
    np.testing.assert_array_equal(arrays["candidates"][arrays["target_places"]], arrays["targets"])
    assert len(set(arrays["candidates"][arrays["samples"]].tolist())) == 30
    assert arrays["num_inputs"] == arrays["inputs"].max() + 1
    if "spelt" in arrays:
        spelt = objective.spellings.characters(objective.spellings.types(arrays["candidates"]), 50)
        width = min(spelt.shape[1], arrays["characters"].shape[1])
        np.testing.assert_array_equal(arrays["characters"][arrays["spelt"]][:, :width], spelt[:, :width])
    trainable.module.train()
    sampled = trainable.loss(batch.to("cpu")).sums
    trainable.module.eval()
    with torch.inference_mode():
        full = trainable.loss(batch.to("cpu")).sums
    for name in ("forward", "backward"):
        assert abs(float(sampled[name]) / float(full[name]) - 1) < 0.25
    with torch.no_grad():
        _check_sampled_sums(trainable, batch.to("cpu").tensors)


def _check_sampled_sums(trainable: ElmoPretraining, tensors: Any) -> None:
    """Position by position: scores with their bias, less the log of the expected count; no target is its own noise."""
    objective, model = trainable.objective, trainable.model
    candidates, log_expected = tensors["candidates"], tensors["log_expected"]
    rows = torch.cat([_row(objective, model, word) for word in candidates.tolist()])
    hidden = torch.randn(2, tensors["targets"][0].numel(), rows.shape[1], generator=torch.Generator().manual_seed(0))
    scores = hidden @ rows.T + objective.softmax.bias[candidates] - log_expected
    wanted = []
    for way in range(2):
        total = 0.0
        for place, target in enumerate(tensors["target_places"][way].flatten().tolist()):
            others = [noise for noise in tensors["samples"].tolist() if noise != target]
            own = scores[way, place, [target, *others]]
            lives = "live" not in tensors or bool(tensors["live"][way].flatten()[place])
            total -= float(own.log_softmax(0)[0]) * lives
        wanted.append(total)
    found = objective._against_samples(tensors, hidden, model.tokens(tensors["characters"]))
    np.testing.assert_allclose([part.item() for part in found], wanted, rtol=1e-4)


def test_a_test_leaves_the_carried_state_alone(trainable: ElmoPretraining) -> None:
    trainable.module.train()
    trainable.loss(trainable.batch(0).to("cpu"))
    before = trainable.objective.hidden_0.clone()
    first = trainable.evaluate()
    assert torch.equal(trainable.objective.hidden_0, before)
    assert trainable.evaluate() == first
    assert first["perplexity"] == pytest.approx(np.exp((first["forward"] + first["backward"]) / 2))


@pytest.mark.parametrize("trainable", [["reset_between_sentences=true"]], indirect=True)
def test_forgetting_between_sentences(trainable: ElmoPretraining) -> None:
    batch, window = trainable.batch(1), trainable.rows.window(1)
    sentence = trainable.rows.text.locate(window.positions)
    np.testing.assert_array_equal(batch.arrays["fresh"][0], sentence.offset.T == 0)


def test_begins_with_another_run_and_tests_on_other_text(words_folder: Path, tmp_path: Path) -> None:
    """Rows of words that the base knew come along; a run is tested with its own words on any corpus."""
    config = find_run_recipe("elmo-tiny").override([*SMALL, "steps=2"])
    firth.pretrain(config, corpus=words_folder, out=tmp_path / "base")
    page = (tmp_path / "base" / "report.html").read_text(encoding="utf-8")
    assert all(said in page for said in ("Held-out perplexity", "forward perplexity", "backward perplexity"))
    assert "held-out text is scored over all" in page
    text = tmp_path / "more.txt"
    text.write_text("".join(f"The old doctor sold {number} zebras near the river.\n" for number in range(40)))
    firth.prepare(text, tmp_path / "more", tokens="words", layout="line", heldout=0.3, workers=1)
    firth.pretrain(config, corpus=tmp_path / "more", base=tmp_path / "base", out=tmp_path / "tuned")
    tuned = ElmoPretraining(_config(tmp_path / "tuned"), Corpus.open(tmp_path / "more"))
    tuned.start_from(tmp_path / "base")
    base = ElmoPretraining(_config(tmp_path / "base"), Corpus.open(words_folder))
    base.restore(tmp_path / "base")
    rows = [
        one.objective.softmax.rows.weight[one.objective.spellings.known_words.index("river")] for one in (tuned, base)
    ]
    assert torch.equal(*rows)
    found = firth.evaluate(tmp_path / "base", tmp_path / "more")
    assert found["perplexity"] > 1
    assert firth.evaluate(tmp_path / "base")["loss"] == pytest.approx(firth.core.run.Run.open(tmp_path / "base").record.metrics["loss"], rel=1e-5)  # fmt: skip


def _config(run: Path) -> RunConfig:
    return RunConfig.build(firth.core.run.Run.open(run).record.config, run)


def test_pieces_are_refused(corpus_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(firth.FirthError, match="ELMo reads words: firth prepare --tokens words"):
        firth.pretrain("elmo-tiny", corpus=corpus_folder, out=tmp_path / "run", steps=1)
