"""Permuted order: what is predicted, who sees whom, the memory, and that no target sees itself."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from firth.corpus.format import Corpus
from firth.models.shared.rows import Specials
from firth.models.xlnet.config import PermutedOrderConfig, TwoStreamConfig
from firth.models.xlnet.network import TwoStream
from firth.models.xlnet.objective import PermutedOrder, choose_spans

PAD, UNK, CLS, SEP, MASK = range(5)
LANES = 4


def build(corpus: Corpus, **options: object) -> tuple[TwoStream, PermutedOrder]:
    torch.manual_seed(0)
    shape = TwoStreamConfig(
        vocab_size=corpus.info.vocab_size, hidden_dim=16, num_layers=2, num_heads=2, ffn_dim=32, dropout_prob=0.0
    )
    model = TwoStream(shape)
    model.start(0.3, torch.Generator().manual_seed(0))
    specials = Specials(CLS, SEP, MASK, PAD, np.arange(5, corpus.info.vocab_size))
    config = PermutedOrderConfig.build({"seq_len": 24, "memory_len": 8, **options}, "test")
    return model, PermutedOrder(config, shape, specials, LANES)


def test_spans_by_hand() -> None:
    """Lengths of 1 to 5 by the first draw; the place within six times that by the second."""
    draws = np.asarray([[0.0, 0.0], [0.2, 0.999], [0.99, 0.5], [0.5, 0.5]])
    found = np.flatnonzero(choose_spans(40, 6, 5, draws)).tolist()
    assert found == [0, 6 + 10, 6 + 11, 18 + 13, 18 + 14, 18 + 15, 18 + 16, 18 + 17]


def test_one_token_in_six_is_a_target() -> None:
    random = np.random.default_rng(0)
    chosen = np.stack([choose_spans(600, 6, 5, random.random((101, 2))) for _ in range(400)])
    assert abs(chosen.mean() - 1 / 6) < 0.002


def test_who_sees_whom(corpus: Corpus) -> None:
    """Against the definition, token by token: what is not predicted is seen by all, a target or special
    token only by those that come later, and targets do not see themselves."""
    _, objective = build(corpus)
    arrays = objective.batch(corpus.train, objective.rows(corpus.train, 0), 0, 0, 8).arrays
    seen = arrays["order"][:, None, :] < arrays["limit"][:, :, None]
    targets = np.zeros(arrays["ids"].shape, bool)
    flat = arrays["picks"].ravel()[arrays["targets"]]
    targets[arrays["targets"] // arrays["picks"].shape[1], flat] = True
    assert np.array_equal(arrays["ids"][targets], arrays["labels"])
    assert not np.isin(arrays["labels"], (CLS, SEP, PAD)).any()
    special = np.isin(arrays["ids"], (CLS, SEP))
    for row in range(8):
        ranks = arrays["order"][row]
        late = targets[row] | special[row]
        assert len(set(ranks[late].tolist())) == late.sum()
        for i in range(24):
            for j in range(24):
                wanted = not late[j] or (late[i] and ranks[j] < ranks[i]) or (special[row, i] and i == j)
                assert seen[row, i, j] == wanted, (row, i, j)


@torch.inference_mode()
def test_no_target_sees_itself_nor_what_comes_later(corpus: Corpus) -> None:
    """Over random permutations: another token at place j moves the prediction at place i only if j comes
    before i in the order; through all layers of both streams."""
    model, _ = build(corpus)
    length = 10
    draw = torch.Generator().manual_seed(3)
    for _ in range(5):
        rank = torch.randperm(length, generator=draw)
        seen = (rank[None, :] < rank[:, None])[None]
        ids = torch.randint(5, corpus.info.vocab_size, (1, length), generator=draw)
        picks = torch.arange(length)[None]
        before, _ = model.eval().predicted(picks, ids, seen)
        for place in range(length):
            other = ids.clone()
            other[0, place] = 5 + (ids[0, place] - 4) % (corpus.info.vocab_size - 5)
            after, _ = model.predicted(picks, other, seen)
            changed = (after - before).abs().amax(-1)[0] > 0
            assert changed.tolist() == (rank > rank[place]).tolist()


@torch.inference_mode()
def test_read_backward_gives_the_same_numbers(corpus: Corpus) -> None:
    """Distances keep their sign when a row is turned round."""
    model, _ = build(corpus)
    ids = torch.randint(5, corpus.info.vocab_size, (2, 12))
    seen = torch.rand(2, 12, 12) < 0.7
    picks = torch.tensor([[3, 5], [0, 11]])
    one, _ = model.predicted(picks, ids, seen, backward_B=torch.tensor([False, False]))
    other, _ = model.predicted(11 - picks, ids.flip(1), seen.flip(1, 2), backward_B=torch.tensor([True, True]))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_a_memory_is_what_was_read_before(corpus: Corpus) -> None:
    """With everything seen left to right and a memory as long as the text, two halves give what the whole gives."""
    model, _ = build(corpus)
    ids = torch.randint(5, corpus.info.vocab_size, (2, 12))
    left = torch.ones(12, 12, dtype=torch.bool).tril(-1)
    picks = torch.arange(6, 12).expand(2, -1)
    whole, _ = model.predicted(picks, ids, left.expand(2, -1, -1))
    _, given = model.predicted(picks[:, :1] - 6, ids[:, :6], left[:6, :6].expand(2, -1, -1))
    half, _ = model.predicted(picks - 6, ids[:, 6:], left[6:, 6:].expand(2, -1, -1), memory_LBMD=given)
    torch.testing.assert_close(whole, half, rtol=1e-4, atol=1e-5)


def test_lanes_remember(corpus: Corpus) -> None:
    """Each lane its own rows; forgotten where an epoch begins; a test leaves the memory of training alone."""
    model, objective = build(corpus)
    rows = objective.rows(corpus.train, 0)
    batches = [objective.batch(corpus.train, rows, 0, first, 2).to("cpu") for first in (0, 2, 4, 6)]
    objective.train()
    objective.memory.fill_(7.0)
    for batch in batches[:2]:
        objective.loss(model, batch)
    big = build(corpus)[1].train()
    big.loss(model, objective.batch(corpus.train, rows, 0, 0, 4).to("cpu"))
    torch.testing.assert_close(objective.memory, big.memory)
    ids = batches[0].tensors["ids"]
    torch.testing.assert_close(objective.memory[0, :2], model.embeddings.tokens(ids)[:, -8:])
    before = objective.memory.clone()
    objective.eval().loss(model, batches[2])
    assert torch.equal(objective.memory, before)
    first = [float(objective.loss(model, batch).sums["targets"].detach()) for batch in batches]
    again = [float(objective.loss(model, batch).sums["targets"].detach()) for batch in batches]
    assert first == again
    assert "memory" in objective.state_dict()


def test_the_loss_is_the_plain_one(corpus: Corpus) -> None:
    """Cross-entropy of the query stream at the targets, here of every place at once."""
    model, objective = build(corpus, memory_len=0, bidirectional_data=False)
    batch = objective.batch(corpus.train, objective.rows(corpus.train, 0), 0, 0, 8).to("cpu")
    losses = objective.eval().loss(model, batch)
    tensors = batch.tensors
    seen = tensors["order"][:, None, :] < tensors["limit"][:, :, None]
    every = torch.arange(24).expand(8, -1)
    hidden, _ = model.predicted(every, tensors["ids"], seen, tensors["segments"])
    scores = functional.linear(hidden, model.embeddings.tokens.weight, objective.bias)
    labels = torch.full((8, 24), -100)
    width = tensors["picks"].shape[1]
    labels[tensors["targets"] // width, tensors["picks"].flatten()[tensors["targets"]]] = tensors["labels"]
    wanted = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum")
    torch.testing.assert_close(losses.sums["targets"], wanted, rtol=1e-5, atol=1e-4)


@torch.inference_mode()
def test_the_loss_reads_the_memory_and_the_direction(corpus: Corpus) -> None:
    """The second row of each lane, against the query stream given what the first row's blocks were given."""
    model, objective = build(corpus)
    rows = objective.rows(corpus.train, 0)
    batches = [objective.batch(corpus.train, rows, 0, first, LANES).to("cpu").tensors for first in (0, LANES)]
    given = torch.zeros(2, LANES, 8, 16)  # as published, nothing was read before the first row
    for tensors in batches:
        seen = tensors["order"][:, None, :] < tensors["limit"][:, :, None]
        hidden, found = model.predicted(
            tensors["picks"], tensors["ids"], seen, tensors["segments"], given, tensors["backward"]
        )
        given = found[:, :, -8:]
        scores = functional.linear(hidden.flatten(0, 1)[tensors["targets"]], model.embeddings.tokens.weight)
        wanted = functional.cross_entropy(scores, tensors["labels"], reduction="sum")
    losses = [
        objective.loss(model, objective.batch(corpus.train, rows, 0, first, LANES).to("cpu")).sums["targets"]
        for first in (0, LANES)
    ]
    torch.testing.assert_close(losses[1], wanted, rtol=1e-5, atol=1e-4)


def test_every_other_lane_is_read_backward(corpus: Corpus) -> None:
    _, objective = build(corpus)
    rows = objective.rows(corpus.train, 0)
    arrays = objective.batch(corpus.train, rows, 0, 0, 2 * LANES).arrays
    assert arrays["backward"].tolist() == [False, True] * LANES
    for number in range(2):
        forward, backward = (rows.text.read(rows.window(number, backward=turned).positions) for turned in (False, True))
        assert (forward != backward).any(1).all()
        for lane in range(LANES):
            wanted = backward[lane] if lane % 2 else forward[lane]
            assert arrays["ids"][number * LANES + lane].tolist() == wanted.tolist()
    plain = build(corpus, bidirectional_data=False)[1]
    assert not plain.batch(corpus.train, plain.rows(corpus.train, 0), 0, 0, LANES).arrays["backward"].any()


@pytest.mark.parametrize("memory_len", [0, 8])
def test_a_big_batch_is_its_small_ones(corpus: Corpus, memory_len: int) -> None:
    _, objective = build(corpus, memory_len=memory_len)
    rows = objective.rows(corpus.train, 0)
    start = len(rows) - 4
    big = objective.batch(corpus.train, rows, 3, start, 8)
    parts = [objective.batch(corpus.train, rows, 3, start + at, 2) for at in (0, 2, 4, 6)]
    for name in ("ids", "order", "limit", "segments", "labels", "lanes", "fresh", "backward"):
        assert np.array_equal(big.arrays[name], np.concatenate([part.arrays[name] for part in parts])), name


def test_dropout_inside_the_feed_forward() -> None:
    """As published, behind the activation, too."""
    shape = TwoStreamConfig(vocab_size=20, hidden_dim=16, num_layers=1, num_heads=2, ffn_dim=32, dropout_prob=0.5)
    block: Any = TwoStream(shape).blocks[0]
    hidden = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    assert not torch.equal(block.train().ffn(hidden), block.ffn(hidden))
    assert torch.equal(block.eval().ffn(hidden), block.ffn(hidden))
