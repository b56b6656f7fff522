"""Unified masks: the four tables by hand, nothing leaks, shares, segments."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.corpus.format import Corpus
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.rows import Specials, Turns
from firth.models.unilm.config import UnifiedMasksConfig
from firth.models.unilm.objective import (
    BIDIRECTIONAL,
    KINDS,
    LEFT_TO_RIGHT,
    RIGHT_TO_LEFT,
    SEQ2SEQ,
    UnifiedMasks,
    order_of,
)

PAD, UNK, CLS, SEP, MASK = range(5)
ONLY = {
    BIDIRECTIONAL: {"left_to_right_weight": 0, "right_to_left_weight": 0, "seq2seq_weight": 0},
    LEFT_TO_RIGHT: {"bidirectional_weight": 0, "right_to_left_weight": 0, "seq2seq_weight": 0},
    RIGHT_TO_LEFT: {"bidirectional_weight": 0, "left_to_right_weight": 0, "seq2seq_weight": 0},
    SEQ2SEQ: {"bidirectional_weight": 0, "left_to_right_weight": 0, "right_to_left_weight": 0},
}


def build(corpus: Corpus, **options: object) -> tuple[Encoder, UnifiedMasks]:
    torch.manual_seed(0)
    shape = EncoderConfig(
        vocab_size=corpus.info.vocab_size,
        hidden_dim=32,
        num_layers=3,
        num_heads=4,
        ffn_dim=64,
        max_positions=48,
        num_segments=6,
        dropout_prob=0.0,
        attention_dropout_prob=0.0,
    )
    specials = Specials(CLS, SEP, MASK, PAD, np.arange(5, corpus.info.vocab_size))
    return Encoder(shape).eval(), UnifiedMasks(
        UnifiedMasksConfig.build({"seq_len": 32, **options}, "test"), shape, specials
    )


# who (row) sees whom (column): [CLS] a b [SEP] c [SEP], the second segment from c on
TABLES = {
    BIDIRECTIONAL: ["111111", "111111", "111111", "111111", "111111", "111111"],
    LEFT_TO_RIGHT: ["100000", "110000", "111000", "111100", "111110", "111111"],
    RIGHT_TO_LEFT: ["111111", "011111", "001111", "000111", "000011", "000001"],
    SEQ2SEQ: ["111100", "111100", "111100", "111100", "111110", "111111"],
}


@pytest.mark.parametrize("kind", sorted(TABLES), ids=KINDS)
def test_the_masks_by_hand(kind: int, corpus: Corpus) -> None:
    """As the attention itself says, in a row where another sequence stands behind."""
    segments = np.asarray([[0, 0, 0, 0, 1, 1, 0, 0]])
    positions = np.asarray([[0, 1, 2, 3, 4, 5, 0, 1]])
    order = order_of(np.asarray([kind]), positions, segments)
    encoder, _ = build(corpus)
    blocks = torch.tensor([[1, 1, 1, 1, 1, 1, 2, 2]])
    _, views = encoder._prepare(Inputs(torch.zeros(1, 8, dtype=torch.long), blocks, order=torch.from_numpy(order)))
    mask = views[0][0]
    assert mask is not None
    found = ["".join(str(int(seen)) for seen in row) for row in mask[0, 0, :6, :6]]
    assert found == TABLES[kind]
    assert not mask[0, 0, :6, 6:].any()
    assert not mask[0, 0, 6:, :6].any()


@pytest.mark.parametrize("kind", [LEFT_TO_RIGHT, RIGHT_TO_LEFT, SEQ2SEQ])
@torch.inference_mode()
def test_nothing_leaks(kind: int, corpus: Corpus) -> None:
    """Another token at place j changes the output at place i if and only if i may see j, through all layers."""
    encoder, _ = build(corpus)
    length, middle = 9, 4
    positions = np.arange(length)[None]
    segments = (positions >= middle).astype(np.int64)
    order = torch.from_numpy(order_of(np.asarray([kind]), positions, segments))
    ids = torch.randint(5, corpus.info.vocab_size, (1, length))
    before = encoder.last(Inputs(ids, order=order))[0]
    for place in range(length):
        other = ids.clone()
        other[0, place] = 5 + (ids[0, place] - 4) % (corpus.info.vocab_size - 5)
        changed = (encoder.last(Inputs(other, order=order))[0] - before).abs().amax(-1) > 0
        wanted = {
            LEFT_TO_RIGHT: [place <= i for i in range(length)],
            RIGHT_TO_LEFT: [place >= i for i in range(length)],
            SEQ2SEQ: [place < middle or (i >= middle and place <= i) for i in range(length)],
        }[kind]
        assert changed.tolist() == wanted


@torch.inference_mode()
def test_order_changes_nothing_where_all_are_equal(corpus: Corpus) -> None:
    encoder, _ = build(corpus)
    ids = torch.randint(5, corpus.info.vocab_size, (3, 12))
    torch.testing.assert_close(
        encoder.last(Inputs(ids)), encoder.last(Inputs(ids, order=torch.zeros_like(ids))), rtol=1e-5, atol=1e-5
    )


def test_rows_and_segments(corpus: Corpus) -> None:
    """One segment where the kind goes one way, two where it does not; each kind has numbers of its own."""
    wanted = {BIDIRECTIONAL: {0, 1}, LEFT_TO_RIGHT: {2}, RIGHT_TO_LEFT: {3}, SEQ2SEQ: {4, 5}}
    for kind, options in ONLY.items():
        _, objective = build(corpus, **options)
        rows = objective.rows(corpus.train, 0)
        batch = objective.batch(corpus.train, rows, 0, 0, 8)
        real = batch.arrays["doc_ids"] > 0
        assert set(batch.arrays["segments"][real].tolist()) == wanted[kind]
        assert (batch.arrays["kinds"] == kind).all()
        for row, blocks in enumerate(batch.arrays["doc_ids"]):
            for number in range(1, blocks.max() + 1):
                mine = blocks == number
                ids = batch.arrays["ids"][row][mine]
                assert ids[0] == CLS
                assert ids[-1] == SEP
                num_parts = len(set(batch.arrays["segments"][row][mine].tolist()))
                assert int((ids == SEP).sum()) == num_parts
                assert num_parts == (1 if kind in (LEFT_TO_RIGHT, RIGHT_TO_LEFT) else 2)
        if kind == SEQ2SEQ:
            second = batch.arrays["segments"] == 5
            assert (batch.arrays["order"][real & ~second] == 0).all()
            assert np.array_equal(batch.arrays["order"][second], batch.arrays["positions"][second])


def test_shares(corpus: Corpus) -> None:
    """A third in both directions, a sixth each left to right and right to left, a third from source to target."""
    _, objective = build(corpus)
    rows = objective.rows(corpus.train, 0)
    kinds = []
    for epoch in range(40):
        batch = objective.batch(corpus.train, rows, 0, epoch * len(rows), len(rows))
        first = batch.arrays["segments"][:, 0]
        kinds += first.tolist()
    found = np.bincount(kinds, minlength=6)[[0, 2, 3, 4]] / len(kinds)
    sigma = np.sqrt(np.asarray([1 / 3, 1 / 6, 1 / 6, 1 / 3]) * (2 / 3) / len(kinds))
    assert (np.abs(found - [1 / 3, 1 / 6, 1 / 6, 1 / 3]) < 4.5 * sigma).all()


def test_a_batch_is_pure_and_a_big_one_its_small_ones(corpus: Corpus) -> None:
    _, objective = build(corpus)
    rows = objective.rows(corpus.train, 0)
    big = objective.batch(corpus.train, rows, 3, 8, 6)
    again = objective.batch(corpus.train, rows, 3, 8, 6)
    assert all(np.array_equal(big.arrays[name], again.arrays[name]) for name in big.arrays)
    parts = [objective.batch(corpus.train, rows, 3, first, 2) for first in (8, 10, 12)]
    for name in ("labels", "kinds"):
        assert np.array_equal(big.arrays[name], np.concatenate([part.arrays[name] for part in parts]))


def test_the_loss_is_the_plain_one(corpus: Corpus) -> None:
    model, objective = build(corpus, mask_prob=0.3)
    batch = objective.batch(corpus.train, objective.rows(corpus.train, 0), 0, 0, 8).to("cpu")
    losses = objective.eval().loss(model, batch)
    tensors = batch.tensors
    hidden = model.last(Inputs.of(tensors))
    picks, masked = tensors["picks"], tensors["masked"]
    rows, columns = masked // picks.shape[1], picks.flatten()[masked]
    scores = objective.head(hidden[rows, columns], model.embeddings.tokens.weight)
    wanted = functional.cross_entropy(scores, tensors["labels"], reduction="sum")
    torch.testing.assert_close(losses.sums["masked"], wanted, rtol=1e-5, atol=1e-4)
    by_kind = [losses.metrics[f"{name}_loss"] for name in KINDS]
    assert sum(total for total, _ in by_kind) == pytest.approx(float(wanted), rel=1e-5)
    assert sum(count for _, count in by_kind) == batch.counts["masked"]


def test_no_share_at_all_is_refused() -> None:
    with pytest.raises(FirthError, match="all four weights of masks are 0"):
        UnifiedMasksConfig.build({f"{name}_weight": 0 for name in KINDS}, "settings")


def test_a_cut_lies_between_sentences(corpus: Corpus, tmp_path: Path) -> None:
    """Wherever a sequence has more than one sentence."""
    _, objective = build(corpus, **ONLY[SEQ2SEQ])
    rows = objective.rows(corpus.train, 0)
    borders = set(np.asarray(corpus.train.sentences).tolist())
    turns = Turns(np.arange(len(rows)), np.zeros(len(rows), np.int64), 0)
    plain = objective._plain(corpus.train, rows, turns, np.full(len(rows), SEQ2SEQ))
    several = 0
    for row in range(len(rows)):
        for block, sequence in enumerate(rows.sequences(row).tolist(), start=1):
            start, length = int(rows.starts[sequence]), int(rows.lens[sequence])
            first = int(((plain.blocks[row] == block) & (plain.segments[row] == 0)).sum()) - 2
            if any(start < border < start + length for border in borders):
                several += 1
                assert start + first in borders
    assert several > 20
