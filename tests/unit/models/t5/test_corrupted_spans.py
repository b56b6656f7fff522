"""Corrupted spans: worked examples, lengths as published, a plain twin, statistics, and nothing lost."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.core.errors import FirthError
from firth.corpus.format import Corpus
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.t5.config import CorruptedSpansConfig
from firth.models.t5.model import spans_of
from firth.models.t5.objective import (
    CorruptedSpans,
    choose_spans,
    corrupt,
    corrupted_lens,
    count_taken,
    cut,
    text_len,
    with_sentinels,
)
from firth.tokenizers.pieces import sentinel_ids

CONFIG = CorruptedSpansConfig()
EOS, SENTINELS = 1, np.arange(999, 899, -1)


def merged(ids: Sequence[int], spans: Mapping[int, Sequence[int]], sentinels: Sequence[int]) -> list[int]:
    """A text with every sentinel replaced by its span."""
    number_of = {token: number for number, token in enumerate(sentinels)}
    found: list[int] = []
    for token in ids:
        found += spans.get(number_of[token], ()) if token in number_of else (token,)
    return found


def test_the_example_of_the_paper() -> None:
    """Raffel et al. 2020, figure 2."""
    words = "Thank you for inviting me to your party last week".split()
    ids = np.arange(10, 20)[None]
    taken = np.isin(words, ["for", "inviting", "last"])[None]
    inputs, targets = corrupt(ids, taken, SENTINELS, EOS)
    spelled = dict(zip(range(10, 20), words, strict=True)) | {999: "<X>", 998: "<Y>", 997: "<Z>", EOS: "."}
    assert " ".join(spelled[int(number)] for number in inputs[0]) == "Thank you <X> me to your party <Y> week ."
    assert " ".join(spelled[int(number)] for number in targets[0]) == "<X> for inviting <Y> last <Z> ."


@pytest.mark.parametrize(
    ("seq_len", "num_tokens", "target_len"),
    [(512, 568, 114), (128, 141, 29), (8, 7, 3)],  # the first as in the published code
)
def test_a_row_is_filled(seq_len: int, num_tokens: int, target_len: int) -> None:
    config = CorruptedSpansConfig(seq_len=seq_len)
    assert text_len(config) == num_tokens
    assert corrupted_lens(num_tokens, config) == (seq_len, target_len)


def test_counts_of_short_texts() -> None:
    """At least one token is taken and one stays; 15 of 100 are 5 spans."""
    assert [count_taken(number, CONFIG) for number in (2, 3, 10, 100)] == [(1, 1), (1, 1), (2, 1), (15, 5)]
    assert count_taken(10, CorruptedSpansConfig(noise_density=0.9, mean_span_len=1)) == (9, 1)


def twin(num_tokens: int, starts: list[int], ends: list[int], tokens: list[int]) -> tuple[list[int], list[int]]:
    """Inputs and targets token by token."""
    inputs, targets, place = [], [], 0
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        inputs += [*tokens[place:start], int(SENTINELS[number])]
        targets += [int(SENTINELS[number]), *tokens[start:end]]
        place = end
    return [*inputs, *tokens[place:num_tokens], EOS], [*targets, EOS]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 200), st.integers(0, 2**40), st.floats(0.02, 0.9), st.floats(1, 8))
def test_nothing_is_lost(num_tokens: int, seed: int, share: float, mean: float) -> None:
    """The rows are what a plain twin writes, and inputs and targets together are the text again."""
    config = CorruptedSpansConfig(noise_density=share, mean_span_len=mean)
    taken = choose_spans(num_tokens, config, seed, np.arange(3))
    num_taken, num_spans = count_taken(num_tokens, config)
    if num_spans > len(SENTINELS):
        return
    tokens = np.random.default_rng(seed).integers(2, 800, (3, num_tokens))
    inputs, targets = corrupt(tokens, taken, SENTINELS, EOS)
    assert (inputs.shape[1], targets.shape[1]) == corrupted_lens(num_tokens, config)
    for row in range(3):
        edges = np.diff(np.concatenate(([0], taken[row].astype(int), [0])))
        starts, ends = np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist()
        assert (int(taken[row].sum()), len(starts)) == (num_taken, num_spans)
        assert taken[row, -1]
        wanted = twin(num_tokens, starts, ends, tokens[row].tolist())
        assert (inputs[row].tolist(), targets[row].tolist()) == wanted
        spans = spans_of(targets[row, :-1].tolist(), SENTINELS.tolist())
        assert merged(inputs[row, :-1].tolist(), spans, SENTINELS.tolist()) == tokens[row].tolist()


def test_every_way_to_cut_is_equally_likely() -> None:
    """5 items in 3 parts: 6 ways, each in a sixth of the rows within four standard deviations."""
    num_rows = 6000
    lens = cut(5, 3, (7, np.arange(num_rows)[:, None]))
    assert (lens.sum(1) == 5).all()
    assert (lens >= 1).all()
    ways, counts = np.unique(lens, axis=0, return_counts=True)
    assert len(ways) == 6
    assert np.abs(counts - num_rows / 6).max() < 4 * np.sqrt(num_rows * 5 / 36)


def test_shares_and_lengths_of_spans() -> None:
    """15 % of the tokens in spans of 3; the length of a span has mean 3 and the variance of a random cut."""
    num_tokens, num_rows = 568, 400
    taken = choose_spans(num_tokens, CONFIG, 3, np.arange(num_rows))
    assert abs(taken.mean() - 0.15) < 0.5 / num_tokens
    assert taken.sum() / (taken[:, 1:] & ~taken[:, :-1]).sum() == pytest.approx(3, abs=0.05)
    first = (~taken).argmin(1)  # of the kept part before the first span
    kept, spans = num_tokens - 85, 28
    mean = kept / spans
    variance = (kept - spans) * kept * (spans - 1) / (spans**2 * (spans + 1))
    assert abs(first.mean() - mean) < 4 * np.sqrt(variance / num_rows)
    # every place but the ends is taken equally often
    middle = taken[:, 100:468].mean(0)
    assert abs(middle.mean() - 0.15) < 0.01
    assert np.abs(middle - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / num_rows)


@pytest.fixture
def objective(corpus: Corpus) -> CorruptedSpans:
    pieces = with_sentinels(corpus.pieces, 100)
    assert pieces.pad_id is not None
    assert pieces.eos_id is not None
    return CorruptedSpans(CorruptedSpansConfig(seq_len=32), pieces.pad_id, pieces.eos_id, sentinel_ids(pieces))


def test_batches_are_pure(objective: CorruptedSpans, corpus: Corpus) -> None:
    rows = objective.rows(corpus.train, 5)
    whole = objective.batch(corpus.train, rows, 5, 10, 6)
    parts = [objective.batch(corpus.train, objective.rows(corpus.train, 5), 5, first, 3) for first in (10, 13)]
    for name in ("source", "target"):
        np.testing.assert_array_equal(whole.arrays[name], np.concatenate([part.arrays[name] for part in parts]))
    assert whole.arrays["source"].shape == (6, 32)
    assert whole.num_tokens == 6 * objective.text_len
    assert whole.counts["spans"] == len(whole.arrays["labels"])
    other = objective.batch(corpus.train, rows, 5, 10 + len(rows), 6)
    assert (other.arrays["source"] != whole.arrays["source"]).any()  # another epoch, other spans


def test_an_epoch_reads_the_corpus(objective: CorruptedSpans, corpus: Corpus) -> None:
    """Inputs and targets together are stretches of the corpus, each once."""
    rows = objective.rows(corpus.train, 5)
    batch = objective.batch(corpus.train, rows, 5, 0, len(rows))
    sentinels = objective.sentinels.tolist()
    labels = batch.arrays["labels"].reshape(len(rows), -1)
    texts = {
        tuple(merged(source[:-1], spans_of(target[:-1], sentinels), sentinels))
        for source, target in zip(batch.arrays["source"].tolist(), labels.tolist(), strict=True)
    }
    stream, length = rows.text.read(np.arange(len(rows.text))).tolist(), objective.text_len
    wanted = {tuple(stream[row * length : (row + 1) * length]) for row in range(len(rows))}
    assert texts == wanted
    np.testing.assert_array_equal(batch.arrays["target"][:, 1:], labels[:, :-1])
    assert (batch.arrays["target"][:, 0] == objective.start_id).all()


def test_the_loss_is_that_of_all_targets(objective: CorruptedSpans, corpus: Corpus) -> None:
    vocab_size = int(objective.sentinels[0]) + 1
    config = EncoderDecoderConfig(vocab_size=vocab_size, hidden_dim=16, num_layers=1, num_decoder_layers=1, num_heads=2)
    model = EncoderDecoder(config.replace(ffn_dim=16, dropout_prob=0.0))
    model.initialize(torch.Generator().manual_seed(0))
    batch = objective.batch(corpus.train, objective.rows(corpus.train, 5), 5, 0, 2).to("cpu")
    scores = model.scores(model.hidden(batch.tensors["source"], None, batch.tensors["target"]).flatten(0, 1))
    wanted = torch.nn.functional.cross_entropy(scores, batch.tensors["labels"], reduction="sum")
    torch.testing.assert_close(objective.loss(model, batch).sums["spans"], wanted)
    tested = objective.eval().loss(model.eval(), batch)
    torch.testing.assert_close(tested.sums["spans"], wanted)
    assert tested.metrics["accuracy"][1] == batch.counts["spans"]
    known = {*objective.sentinels.tolist(), objective.eos_id}
    text = [place for place, label in enumerate(batch.tensors["labels"].tolist()) if label not in known]
    assert 0 < len(text) < batch.counts["spans"]
    losses = -scores.log_softmax(-1)[torch.arange(len(scores)), batch.tensors["labels"]]
    assert tested.metrics["text_loss"] == (pytest.approx(float(losses[text].sum()), rel=1e-5), len(text))
    right = (scores.argmax(-1) == batch.tensors["labels"])[text]
    assert tested.metrics["text_accuracy"] == (float(right.sum()), len(text))


def test_too_few_sentinels() -> None:
    with pytest.raises(FirthError, match="28 spans but there are 9 sentinels: raise num_sentinels"):
        CorruptedSpans(CorruptedSpansConfig(seq_len=512), 0, 1, list(range(9)))


def test_nothing_to_train_on(objective: CorruptedSpans, tmp_path: Path) -> None:
    class Nothing:
        tokens = np.zeros(0, np.uint16)
        document_starts = np.zeros(1, np.int64)
        num_documents = 0
        folder = tmp_path

    with pytest.raises(FirthError, match="no text to train on"):
        objective.rows(Nothing(), 0)  # type: ignore[arg-type]
