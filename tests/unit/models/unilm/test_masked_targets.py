"""Masked targets: a row by hand, what is hidden, who sees whom, what is cut; masks of their own see what writing sees."""

from pathlib import Path

import numpy as np
import pytest
import torch

from firth.core.errors import FirthError
from firth.core.types import Batch, Inputs
from firth.corpus.pairs import PairSplit
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.rows import Specials
from firth.models.unilm.config import MaskedTargetsConfig
from firth.models.unilm.model import ClozeStepper
from firth.models.unilm.objective import MaskedTargets, fit_lens

PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB = 300


def build(folder: Path, pairs: list[tuple[list[int], list[int]]], **options: object) -> tuple[PairSplit, MaskedTargets]:
    for place, side in enumerate(("source", "target")):
        rows = [pair[place] for pair in pairs]
        np.asarray([token for row in rows for token in row], np.uint16).tofile(folder / f"{side}.bin")
        starts = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
        starts.tofile(folder / f"{side}_starts.bin")
    shape = EncoderConfig(vocab_size=VOCAB, hidden_dim=16, num_layers=1, num_heads=2, ffn_dim=32, num_segments=6)
    specials = Specials(CLS, SEP, MASK, PAD, np.arange(5, VOCAB))
    return PairSplit(folder, "uint16"), MaskedTargets(MaskedTargetsConfig.build(options, "test"), shape, specials)


def test_a_row_by_hand(tmp_path: Path) -> None:
    split, objective = build(tmp_path, [([11, 12, 13], [21, 22]), ([31], [41])], seq_len=16, targets="masked")
    rows = objective.rows(split, 0)
    assert len(rows) == 1
    plain = objective._plain(split, rows, np.asarray([0]))
    assert plain.ids.tolist() == [[CLS, 11, 12, 13, SEP, 21, 22, SEP, CLS, 31, SEP, 41, SEP, PAD, PAD, PAD]]
    assert plain.blocks.tolist() == [[1] * 8 + [2] * 5 + [0] * 3]
    assert plain.segments.tolist() == [[0] * 5 + [1] * 3 + [0] * 3 + [1] * 2 + [0] * 3]
    assert (plain.units >= 0).tolist() == [[False] * 5 + [True] * 3 + [False] * 3 + [True] * 2 + [False] * 3]
    batch = objective.batch(split, rows, 0, 0, 1)
    assert batch.arrays["order"].tolist() == [[0] * 5 + [5, 6, 7] + [0] * 3 + [3, 4]]
    assert set(batch.arrays["segments"][0].tolist()) == {4, 5}
    assert batch.num_tokens == 13


def test_only_targets_are_hidden_and_their_end_too(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    pairs = [
        (
            random.integers(5, VOCAB, random.integers(1, 12)).tolist(),
            random.integers(5, VOCAB, random.integers(1, 9)).tolist(),
        )
        for _ in range(300)
    ]
    split, objective = build(tmp_path, pairs, seq_len=32, targets="masked")
    rows = objective.rows(split, 0)
    batch = objective.batch(split, rows, 0, 0, len(rows))
    num_targets = sum(len(target) + 1 for _, target in pairs)
    assert abs(batch.counts["masked"] / num_targets - 0.7) < 0.03
    labels = batch.arrays["labels"]
    assert abs((labels == SEP).sum() / 300 - 0.7) < 0.1
    assert not np.isin(labels, (PAD, CLS, MASK)).any()
    width = batch.arrays["picks"].shape[1]
    row, column = batch.arrays["masked"] // width, batch.arrays["picks"].ravel()[batch.arrays["masked"]]
    assert (batch.arrays["segments"][row, column] == 5).all()
    again = objective.batch(split, rows, 0, 0, len(rows))
    assert all(np.array_equal(batch.arrays[name], again.arrays[name]) for name in batch.arrays)


def test_long_pairs_lose_the_end_of_the_source(tmp_path: Path) -> None:
    source, target = fit_lens(np.asarray([5, 30, 30, 3]), np.asarray([5, 4, 30, 40]), 20)
    assert source.tolist() == [5, 16, 10, 3]
    assert target.tolist() == [5, 4, 10, 17]
    split, objective = build(tmp_path, [(list(range(10, 60)), [70, 71])], seq_len=16)
    plain = objective._plain(split, objective.rows(split, 0), np.asarray([0]))
    assert plain.ids.tolist() == [[CLS, *range(10, 21), SEP, 70, 71, SEP]]


def test_no_pairs_at_all(tmp_path: Path) -> None:
    split, objective = build(tmp_path, [])
    with pytest.raises(FirthError, match="no pairs to train on"):
        objective.rows(split, 0)


def test_masks_of_their_own_by_hand(tmp_path: Path) -> None:
    split, objective = build(tmp_path, [([11, 12, 13], [21, 22]), ([31], [41])], seq_len=16)
    batch = objective.batch(split, objective.rows(split, 0), 0, 0, 1)
    row = [CLS, 11, 12, 13, SEP, 21, 22, SEP, CLS, 31, SEP, 41, SEP]
    found = {name: array.tolist() for name, array in batch.arrays.items()}
    assert found["ids"] == [row + [MASK] * 5]
    assert found["positions"] == [[*range(8), *range(5), 5, 6, 7, 3, 4]]
    assert found["doc_ids"] == [[1] * 8 + [2] * 5 + [1] * 3 + [2] * 2]
    assert found["segments"] == [[4] * 5 + [5] * 3 + [4] * 3 + [5] * 2 + [5] * 5]
    assert found["order"] == [[0] * 5 + [5, 6, 7] + [0] * 3 + [3, 4] + [4, 5, 6, 2, 3]]
    assert found["alone"] == [[False] * 13 + [True] * 5]
    assert found["labels"] == [21, 22, SEP, 41, SEP]
    assert found["picks"] == [[13, 14, 15, 16, 17]]
    assert found["masked"] == [0, 1, 2, 3, 4]
    assert batch.counts == {"masked": 5}
    assert batch.num_tokens == 13


def test_rows_with_fewer_masks_are_filled_up(tmp_path: Path) -> None:
    split, objective = build(tmp_path, [([11] * 9, [21]), ([31] * 5, [41, 42, 43, 44])], seq_len=12)
    rows = objective.rows(split, 0)
    batch = objective.batch(split, rows, 0, 0, 2)
    short = int(np.flatnonzero((batch.arrays["ids"] == 11).any(1))[0])
    assert batch.arrays["ids"][short].tolist() == [CLS, *[11] * 8, SEP, 21, SEP, MASK, MASK, PAD, PAD, PAD]
    masks = batch.arrays["alone"]
    assert masks.sum(1).tolist() == ([2, 5] if short == 0 else [5, 2])
    assert (batch.arrays["ids"][masks] == MASK).all()
    assert (batch.arrays["doc_ids"][masks] == 1).all()
    assert (batch.arrays["doc_ids"][short, 14:] == 0).all()
    labels = [[21, SEP], [41, 42, 43, 44, SEP]]
    assert batch.arrays["labels"].tolist() == (labels[0] + labels[1] if short == 0 else labels[1] + labels[0])


def guesses(objective: MaskedTargets, encoder: Encoder, batch: Batch) -> torch.Tensor:
    """Log-probabilities at the masks, in the order of the labels."""
    tensors = batch.to("cpu").tensors
    hidden = encoder.picked(Inputs.of(tensors), tensors["picks"]).flatten(0, 1)[tensors["masked"]]
    return objective.head(hidden, encoder.embeddings.tokens.weight).log_softmax(-1)


def encoder_for(objective: MaskedTargets, **shape: object) -> Encoder:
    torch.manual_seed(3)
    config = EncoderConfig.build(
        {"vocab_size": VOCAB, "hidden_dim": 16, "num_layers": 3, "num_heads": 2, "ffn_dim": 32, "num_segments": 6}
        | {"dropout_prob": 0.0, "attention_dropout_prob": 0.0}
        | shape,
        "test",
    )
    encoder = Encoder(config).eval()
    for module in (encoder, objective):
        for weight in module.parameters():
            torch.nn.init.normal_(weight, std=0.3)
    return encoder


@pytest.mark.parametrize("shape", [{"positions": "learned"}, {"positions": "rotary", "norm_first": True}])
@torch.no_grad()
def test_a_mask_sees_what_writing_sees(tmp_path: Path, shape: dict[str, object]) -> None:
    """Two pairs in one row, all masks at once, beside writing each target step by step."""
    pairs = [([11, 12, 13], [21, 22, 23]), ([31, 32], [41])]
    split, objective = build(tmp_path, pairs, seq_len=32)
    encoder = encoder_for(objective, **shape)
    batch = objective.batch(split, objective.rows(split, 0), 0, 0, 1)
    expected = []
    for source, target in pairs:
        ids = torch.tensor([[CLS, *source, SEP]])
        stepper = ClozeStepper(
            encoder,
            lambda hidden: objective.head(hidden, encoder.embeddings.tokens.weight),
            MASK,
            5,
            source=(ids, torch.ones_like(ids, dtype=torch.bool), 4),
        )
        state = stepper.start(1)
        for token in [SEP, *target]:
            scores, state = stepper.step(torch.tensor([token]), state)
            expected.append(scores)
    order = [*range(4), 4, 5] if batch.arrays["ids"][0, 1] == 11 else [4, 5, *range(4)]
    torch.testing.assert_close(guesses(objective, encoder, batch), torch.cat([expected[n] for n in order]))


@torch.no_grad()
def test_nothing_that_comes_later_is_seen(tmp_path: Path) -> None:
    target = [21, 22, 23, 24, 25]
    split, objective = build(tmp_path, [([11, 12], target)], seq_len=16)
    encoder = encoder_for(objective)
    batch = objective.batch(split, objective.rows(split, 0), 0, 0, 1)
    before = guesses(objective, encoder, batch)
    for place in range(5):
        batch.arrays["ids"][0, 4 + place] = 99  # the target itself; its masks stay
        after = guesses(objective, encoder, batch)
        same = (after - before).abs().amax(1) < 1e-5
        assert same.tolist() == [number <= place for number in range(6)]
        batch.arrays["ids"][0, 4 + place] = target[place]


def test_settings_of_chance_do_nothing_with_masks_of_their_own() -> None:
    with pytest.raises(FirthError, match="mask_prob is for targets=masked"):
        MaskedTargetsConfig.build({"mask_prob": 0.5}, "test")
    assert MaskedTargetsConfig.build({"mask_prob": 0.5, "targets": "masked"}, "test").mask_prob == 0.5
