"""Halves of passages: rows by hand, scores by a NumPy twin, and no half sees the other."""

from pathlib import Path

import numpy as np
import pytest
import torch

from firth.core.errors import FirthError
from firth.core.types import Batch, Inputs
from firth.models.bert.config import MaskedTokensConfig
from firth.models.bert.objective import MaskedTokens, half_scores
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.rows import Specials

PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB = 300
CONFIG = EncoderConfig(
    vocab_size=VOCAB,
    hidden_dim=16,
    num_layers=2,
    num_heads=2,
    ffn_dim=32,
    dropout_prob=0.0,
    attention_dropout_prob=0.0,
    positions="rotary",
)
SPECIALS = Specials(CLS, SEP, MASK, PAD, np.arange(5, VOCAB))


def build_objective(**options: object) -> MaskedTokens:
    return MaskedTokens(MaskedTokensConfig.build({"half_weight": 0.5} | options, "test"), CONFIG, SPECIALS)


def build_batch(folder: Path, objective: MaskedTokens, documents: list[list[int]], word_starts: list[bool]) -> Batch:
    from test_masked_tokens import build_split

    split = build_split(folder, documents, word_starts)
    rows = objective.rows(split, seed=0)
    return objective.batch(split, rows, seed=0, first=0, count=len(rows)).to("cpu")


def test_rows_by_hand(tmp_path: Path) -> None:
    """15 tokens are cut at the word nearest to the middle, 11 stay whole, and what is longer than a row falls into several."""
    objective = build_objective(seq_len=24, mask_prob=0.01, mask_token_prob=0.0, random_token_prob=0.0)
    long, short = list(range(100, 115)), list(range(200, 211))
    starts = [True] * 6 + [False, False, True] + [True] * 6 + [True] * 11
    batch = build_batch(tmp_path, objective, [long, short], starts)
    row = int(np.flatnonzero((batch.arrays["ids"] == 100).any(1))[0])
    assert batch.arrays["ids"][row].tolist()[:19] == [CLS, *long[:8], SEP, CLS, *long[8:], SEP]
    assert batch.arrays["positions"][row].tolist()[:19] == [*range(10), *range(9)]
    assert batch.arrays["doc_ids"][row].tolist()[:19] == [1] * 10 + [2] * 9
    assert batch.arrays["halves"].tolist() == [[row, 1]]
    assert batch.counts["halves"] == 2


def test_the_middle_is_cut_where_a_word_begins(tmp_path: Path) -> None:
    objective = build_objective(seq_len=24, mask_prob=0.01, mask_token_prob=0.0, random_token_prob=0.0)
    tokens = list(range(100, 116))
    batch = build_batch(tmp_path, objective, [tokens], [place in (0, 6, 11) for place in range(16)])
    assert batch.arrays["ids"][0].tolist()[:8] == [CLS, *tokens[:6], SEP]  # 6 is nearer to 8 than 11
    whole = build_batch(tmp_path, objective, [tokens], [place in (0, 2, 14) for place in range(16)])
    assert whole.counts["halves"] == 0  # no half may have fewer than six tokens


def test_scores_are_cosines(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    hidden = random.normal(size=(2, 9, 4)).astype(np.float32)
    doc_ids = np.asarray([[1, 1, 2, 2, 2, 3, 3, 0, 0], [1, 1, 1, 1, 2, 2, 2, 2, 0]])
    pairs = np.asarray([[0, 1], [1, 1]])
    scores, labels = half_scores(*map(torch.from_numpy, (hidden, doc_ids, pairs)))
    means = [hidden[row][doc_ids[row] == block].mean(0) for row, block in [(0, 1), (1, 1), (0, 2), (1, 2)]]
    units = np.asarray([mean / np.linalg.norm(mean) for mean in means])
    wanted = units @ units.T / 0.1
    apart = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(scores.numpy()[apart], wanted[apart], atol=1e-5)
    assert (scores.diagonal() < -1e3).all()
    assert labels.tolist() == [2, 3, 0, 1]


def test_the_loss_is_that_of_the_formula(tmp_path: Path) -> None:
    torch.manual_seed(0)
    objective, model = build_objective(seq_len=40), Encoder(CONFIG)
    random = np.random.default_rng(1)
    documents = [random.integers(5, VOCAB, 30).tolist() for _ in range(5)]
    batch = build_batch(tmp_path, objective, documents, [True] * 150)
    assert batch.counts["halves"] == 10
    tensors = batch.tensors
    layers = model(Inputs.of(tensors)).hidden
    scores, labels = half_scores(layers[-2], tensors["doc_ids"], tensors["halves"])
    chances = torch.log_softmax(scores, -1)[torch.arange(10), labels]
    losses = objective.eval().loss(model, batch)
    assert float(losses.sums["halves"].detach()) == pytest.approx(-float(chances.sum().detach()), rel=1e-5)
    training = objective.train().loss(model, batch)
    for name in ("masked", "halves"):
        assert float(training.sums[name].detach()) == pytest.approx(float(losses.sums[name].detach()), rel=1e-5)
    assert objective.weights["halves"] == 0.5
    training.sums["halves"].backward()
    used = {
        name for name, weight in model.named_parameters() if weight.grad is not None and weight.grad.abs().sum() > 0
    }
    assert any(name.startswith("blocks.0.") for name in used)
    assert not any(name.startswith("blocks.1.") for name in used)  # the layer below the last


def test_short_passages_alone_have_no_halves(tmp_path: Path) -> None:
    objective, model = build_objective(seq_len=40), Encoder(CONFIG)
    batch = build_batch(tmp_path, objective, [list(range(100, 108)), list(range(200, 205))], [True] * 13)
    assert batch.counts["halves"] == 0
    losses = objective.loss(model, batch)
    assert float(losses.sums["halves"].detach()) == 0.0
    sum(losses.sums.values(), torch.zeros(())).backward()
    tested = objective.eval().loss(model, batch)
    assert tested.metrics["halves_accuracy"] == (0.0, 0.0)
    assert float(tested.sums["halves"].detach()) == 0.0


def test_a_half_does_not_see_the_other(tmp_path: Path) -> None:
    torch.manual_seed(0)
    objective, model = build_objective(seq_len=40), Encoder(CONFIG).eval()
    batch = build_batch(tmp_path, objective, [list(range(100, 130))], [True] * 30)
    inputs = Inputs.of(batch.tensors)
    second = inputs.doc_ids == 2
    assert second is not None
    changed = torch.where(second, inputs.ids + 50, inputs.ids)
    before = model(inputs).hidden
    after = model(Inputs(changed, doc_ids=inputs.doc_ids, positions=inputs.positions)).hidden
    first = inputs.doc_ids == 1
    assert torch.allclose(before[:, first], after[:, first], atol=1e-6)
    assert not torch.allclose(before[:, second], after[:, second], atol=1e-2)


@pytest.mark.parametrize("positions", ["rotary", "learned", "disentangled"])
def test_the_layer_below_and_the_last_at_some_tokens(positions: str) -> None:
    torch.manual_seed(0)
    model = Encoder(CONFIG.replace(positions=positions)).eval()
    inputs, picks = Inputs(torch.randint(5, VOCAB, (3, 12))), torch.tensor([[0, 3], [5, 5], [11, 2]])
    last, below = model.picked_above(inputs, picks)
    layers = model(inputs).hidden
    assert torch.allclose(below, layers[-2], atol=1e-6)
    assert torch.allclose(last, layers[-1].gather(1, picks[:, :, None].expand(-1, -1, 16)), atol=1e-5)
    assert torch.equal(last, model.picked(inputs, picks))


def test_pairs_and_halves_exclude_each_other() -> None:
    with pytest.raises(FirthError, match="half_weight cannot go with pairs=next_sentence"):
        build_objective(pairs="next_sentence")
