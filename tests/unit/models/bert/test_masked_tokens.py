"""Masked tokens: by hand, by statistics, and as a pure function."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.types import Batch, Inputs
from firth.corpus.format import Corpus, PackedRows, Split
from firth.models.bert.config import MaskedTokensConfig
from firth.models.bert.objective import MaskedTokens
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.rows import Rows, Specials, Turns, build_rows, choose, hide

PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB = 1000
CONFIG = EncoderConfig(
    vocab_size=VOCAB,
    hidden_dim=16,
    num_layers=2,
    num_heads=2,
    ffn_dim=32,
    max_positions=128,
    dropout_prob=0.0,
    attention_dropout_prob=0.0,
)
SPECIALS = Specials(CLS, SEP, MASK, PAD, np.arange(5, VOCAB))


def build_split(folder: Path, documents: list[list[int]], word_starts: list[bool] | None = None) -> Split:
    tokens = np.asarray([token for document in documents for token in document], np.uint16)
    tokens.tofile(folder / "tokens.bin")
    np.concatenate(([0], np.cumsum([len(document) for document in documents]))).astype(np.int64).tofile(
        folder / "sentences.bin"
    )
    np.arange(len(documents) + 1).tofile(folder / "documents.bin")
    starts = np.asarray(word_starts) if word_starts else np.ones(len(tokens), bool)
    np.packbits(starts, bitorder="little").tofile(folder / "words.bin")
    return Split(folder, "uint16")


def build_objective(**options: object) -> MaskedTokens:
    return MaskedTokens(MaskedTokensConfig.build(options, "test"), CONFIG, SPECIALS)


def plain_rows(objective: MaskedTokens, split: Split, rows: PackedRows, numbers: list[int] | None = None) -> Rows:
    """All rows, or those of the numbers, before anything is hidden."""
    wanted = np.arange(len(rows)) if numbers is None else np.asarray(numbers)
    return build_rows(split, rows, Turns(wanted, np.zeros_like(wanted), 0), objective.config, SPECIALS)


def test_rows_by_hand(tmp_path: Path) -> None:
    """Two documents of 3 and 2 tokens share a row of 10; one token of 9 falls into 8 and 1."""
    split = build_split(
        tmp_path, [[11, 12, 13], [21, 22], list(range(31, 40))], [True, False, True, True, False, *[True] * 9]
    )
    objective = build_objective(seq_len=10, whole_word_mask=True)
    rows = objective.rows(split, seed=0)
    assert len(rows) == 3
    found = plain_rows(objective, split, rows)
    assert found.ids.tolist() == [
        [CLS, *range(31, 39), SEP],
        [CLS, 11, 12, 13, SEP, CLS, 21, 22, SEP, PAD],
        [CLS, 39, SEP, *[PAD] * 7],
    ]
    assert found.positions.tolist() == [list(range(10)), [0, 1, 2, 3, 4, 0, 1, 2, 3, 0], [0, 1, 2, *[0] * 7]]
    assert found.blocks.tolist() == [[1] * 10, [1] * 5 + [2] * 4 + [0], [1] * 3 + [0] * 7]
    assert found.units[0].tolist() == [-1, *range(8), -1]
    assert found.units[1].tolist() == [-1, 0, 0, 1, -1, -1, 2, 2, -1, -1]
    assert found.units[2].tolist() == [-1, 0, *[-1] * 8]
    plain = plain_rows(build_objective(seq_len=10), split, rows, [1])
    assert plain.units.tolist() == [[-1, 0, 1, 2, -1, -1, 3, 4, -1, -1]]


def test_batch_by_hand(tmp_path: Path) -> None:
    """What is seen differs from what was there only at the picks, and the labels are what was there."""
    objective = build_objective(seq_len=16, mask_prob=0.5, mask_token_prob=1.0, random_token_prob=0.0)
    split = build_split(tmp_path, [list(range(100, 114)), list(range(200, 206))])
    batch = objective.batch(split, objective.rows(split, 0), seed=0, first=0, count=2)
    ids, picks, blocks = (batch.arrays[name] for name in ("ids", "picks", "doc_ids"))
    long = 0 if blocks[0, -1] else 1
    restored = ids.copy()
    flat = picks.ravel()[batch.arrays["masked"]]
    of_row = batch.arrays["masked"] // picks.shape[1]
    assert (ids[of_row, flat] == MASK).all()
    restored[of_row, flat] = batch.arrays["labels"]
    assert restored[long].tolist() == [CLS, *range(100, 114), SEP]
    assert restored[1 - long].tolist() == [CLS, *range(200, 206), SEP, *[PAD] * 8]
    assert batch.counts == {"masked": 7 + 3}
    assert batch.num_tokens == 16 + 8


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """1.2 million tokens in documents of 1 to 300, words of 1 to 4 tokens."""
    random = np.random.default_rng(0)
    lens = random.integers(1, 300, 8000)
    documents = [random.integers(5, VOCAB, length).tolist() for length in lens]
    return build_split(tmp_path_factory.mktemp("many"), documents, (random.random(lens.sum()) < 0.5).tolist())


def sigmas(hits: int, trials: int, prob: float) -> float:
    return abs(hits - trials * prob) / np.sqrt(trials * prob * (1 - prob))


@pytest.mark.parametrize("whole_word_mask", [False, True], ids=["tokens", "words"])
def test_shares(many: Split, whole_word_mask: bool) -> None:
    objective = build_objective(seq_len=128, whole_word_mask=whole_word_mask)
    rows = objective.rows(many, 0)
    plain = plain_rows(objective, many, rows)
    key = (7, np.arange(len(rows))[:, None], np.zeros((len(rows), 1), np.int64))
    chosen = choose(plain.units, 0.15, key)
    able = plain.ids >= 5
    assert able.sum() > 1_000_000
    assert not chosen[~able].any()
    assert sigmas(int(chosen.sum()), int(able.sum()), 0.15) < 4
    longest = max(int(np.bincount(row[row >= 0]).max()) for row in plain.units)
    assert abs(chosen.sum(1) - 0.15 * able.sum(1)).max() <= longest / 2 + 1  # every row carries its share

    seen = hide(plain.ids, chosen, objective.config, SPECIALS, key)
    assert (seen[~chosen] == plain.ids[~chosen]).all()
    trials = int(chosen.sum())
    masked, changed = seen[chosen] == MASK, seen[chosen] != plain.ids[chosen]
    assert sigmas(int(masked.sum()), trials, 0.8) < 4
    same_by_chance = 0.1 / len(SPECIALS.ordinary)
    assert sigmas(int((changed & ~masked).sum()), trials, 0.1 - same_by_chance) < 4
    assert sigmas(int((~changed).sum()), trials, 0.1 + same_by_chance) < 4
    random_tokens = seen[chosen][changed & ~masked]
    assert random_tokens.min() >= 5
    assert random_tokens.max() == VOCAB - 1
    counts = np.bincount(random_tokens, minlength=VOCAB)[5:]
    mean = counts.mean()
    assert abs(((counts - mean) ** 2 / mean).sum() - len(counts)) < 4 * np.sqrt(2 * len(counts))
    if whole_word_mask:
        for row in range(0, len(rows), 50):
            for unit in range(plain.units[row].max() + 1):
                assert len(set(chosen[row][plain.units[row] == unit])) == 1


def test_every_place_is_chosen_alike(many: Split) -> None:
    objective = build_objective(seq_len=128)
    rows = objective.rows(many, 0)
    plain = plain_rows(objective, many, rows)
    able = plain.units >= 0
    times = sum(
        choose(plain.units, 0.15, (0, np.arange(len(rows))[:, None], turn)) for turn in np.arange(5)[:, None, None]
    )
    hits, trials = times.sum(0)[1:127], 5 * able.sum(0)[1:127]
    worst = max(sigmas(int(hit), int(trial), 0.15) for hit, trial in zip(hits, trials, strict=True))
    assert worst < 5  # of 126 places


def same(one: Batch, other: Batch) -> bool:
    return (
        one.counts == other.counts
        and one.num_tokens == other.num_tokens
        and all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)
    )


def test_pure(many: Split) -> None:
    objective = build_objective(seq_len=64, whole_word_mask=True)
    rows = objective.rows(many, 0)
    places = [0, 400, 10 * len(rows) + 5, 8]
    first = [objective.batch(many, rows, 3, place, 8) for place in places]
    fresh = build_objective(seq_len=64, whole_word_mask=True)
    again = [fresh.batch(many, fresh.rows(many, 0), 3, place, 8) for place in reversed(places)]
    assert all(same(one, other) for one, other in zip(first, reversed(again), strict=True))
    assert not same(first[0], objective.batch(many, rows, 4, 0, 8))


def unfolded(batch: Batch, seq_len: int) -> dict[str, np.ndarray]:
    """The arrays of a batch row by row at full width, with the labels at their places."""
    ids, picks = batch.arrays["ids"], batch.arrays["picks"]
    room = ((0, 0), (0, seq_len - ids.shape[1]))
    labels = np.full((len(ids), seq_len), -100)
    masked = batch.arrays["masked"]
    labels[masked // picks.shape[1], picks.ravel()[masked]] = batch.arrays["labels"]
    names = ("ids", "positions", "doc_ids")
    return {**{name: np.pad(batch.arrays[name], room) for name in names}, "labels": labels}


def test_a_big_batch_is_its_small_ones(many: Split) -> None:
    objective = build_objective(seq_len=64)
    rows = objective.rows(many, 0)
    start = len(rows) - 10  # over the border of an epoch
    big = unfolded(objective.batch(many, rows, 3, start, 24), 64)
    small = [unfolded(objective.batch(many, rows, 3, start + first, 8), 64) for first in (0, 8, 16)]
    for name, array in big.items():
        assert np.array_equal(array, np.concatenate([part[name] for part in small])), name


@pytest.mark.parametrize("dupe_factor", [0, 1, 3])
def test_dupe_factor(tmp_path: Path, dupe_factor: int) -> None:
    """The masks of a row come back every ``dupe_factor`` epochs; with 0 they never do."""
    objective = build_objective(seq_len=32, dupe_factor=dupe_factor)
    split = build_split(tmp_path, [list(range(100 + 30 * row, 130 + 30 * row)) for row in range(20)])
    rows = objective.rows(split, 0)
    masks = []
    for epoch in range(7):
        numbers, _ = rows.numbers(epoch * 20, 20)
        labels = unfolded(objective.batch(split, rows, 0, epoch * 20, 20), 32)["labels"]
        masks.append(labels[np.argsort(numbers)])
    for one in range(7):
        for other in range(one):
            assert np.array_equal(masks[one], masks[other]) == bool(dupe_factor and (one - other) % dupe_factor == 0)


def test_loss_is_the_plain_one(many: Split) -> None:
    """Against scores of the whole vocabulary at all places, the chosen ones counted by ignore_index."""
    objective = build_objective(seq_len=64)
    torch.manual_seed(0)
    model = Encoder(
        EncoderConfig(
            vocab_size=VOCAB,
            hidden_dim=16,
            num_layers=2,
            num_heads=2,
            ffn_dim=32,
            max_positions=128,
            dropout_prob=0.0,
            attention_dropout_prob=0.0,
        )
    )
    batch = objective.batch(many, objective.rows(many, 0), 0, 0, 8).to("cpu")
    losses = objective.eval().loss(model, batch)
    hidden = model.last(Inputs.of(batch.tensors))
    scores = objective.head(hidden, model.embeddings.tokens.weight)
    labels = torch.from_numpy(unfolded(batch, 64)["labels"])[:, : scores.shape[1]]
    wanted = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    torch.testing.assert_close(losses.sums["masked"], wanted, atol=1e-3, rtol=1e-6)
    hits = int((scores.argmax(-1) == labels).sum())
    assert losses.metrics["masked_accuracy"] == (hits, batch.counts["masked"])
    parameters = [*model.parameters(), *objective.parameters()]
    for mine, plain in zip(
        torch.autograd.grad(losses.sums["masked"], parameters, retain_graph=True),
        torch.autograd.grad(wanted, parameters),
        strict=True,
    ):
        torch.testing.assert_close(mine, plain, atol=2e-4, rtol=1e-4)


def test_a_batch_with_nothing_chosen(tmp_path: Path) -> None:
    objective = build_objective(seq_len=8, mask_prob=0.001)
    split = build_split(tmp_path, [[7, 8, 9]] * 4)
    batch = objective.batch(split, objective.rows(split, 0), 0, 0, 1)
    assert batch.counts == {"masked": 0}
    losses = objective.loss(
        Encoder(EncoderConfig(vocab_size=VOCAB, hidden_dim=16, num_layers=1, num_heads=2, ffn_dim=32)), batch.to("cpu")
    )
    assert losses.sums["masked"].item() == 0
    losses.sums["masked"].backward()


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="no text to train on"):
        build_objective(seq_len=8).rows(build_split(tmp_path, []), 0)


def test_special_ids_of_a_real_corpus(corpus: Corpus) -> None:
    from firth.models.shared.rows import specials_of

    specials = specials_of(corpus.pieces, corpus.folder)
    assert len(specials.ordinary) == corpus.info.vocab_size - 5
    assert not set(specials.ordinary.tolist()) & {specials.cls_id, specials.sep_id, specials.mask_id, specials.pad_id}


def test_training_and_tests_have_the_same_loss(tmp_path: Path) -> None:
    """Training never has the scores of the whole vocabulary; the loss and its gradients are those of the plain softmax."""
    split = build_split(tmp_path, [list(range(100, 114)), list(range(200, 206))])
    objective = build_objective(seq_len=16, mask_prob=0.5)
    batch = objective.batch(split, objective.rows(split, 0), seed=0, first=0, count=2).to("cpu")
    torch.manual_seed(0)
    model = Encoder(CONFIG)
    found: list[tuple[float, torch.Tensor]] = []
    for training in (True, False):
        objective.train(training)
        model.zero_grad()
        loss = objective.loss(model, batch).sums["masked"]
        loss.backward()
        gradient = model.embeddings.tokens.weight.grad
        assert gradient is not None
        found.append((loss.item(), gradient.clone()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-4, atol=1e-5)
