"""Pairs: by hand, by statistics, and never across the border of a document."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import firth
from firth.core.config import parse_settings
from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.corpus.format import Corpus, Split
from firth.models.bert.config import MaskedTokensConfig
from firth.models.bert.objective import MaskedTokens
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.rows import FOLLOWS, OTHER, PairRows, Rows, Specials, Turns, build_pairs, trim

PAD, UNK, CLS, SEP, MASK = range(5)
VOCAB = 60_000
SPECIALS = Specials(CLS, SEP, MASK, PAD, np.arange(5, VOCAB))


def write_split(folder: Path, documents: list[list[int]]) -> Split:
    """Documents as lists of sentence lengths; token ids count up through the whole split from 10."""
    sentences = [length for document in documents for length in document]
    np.arange(10, 10 + sum(sentences)).astype(np.uint16).tofile(folder / "tokens.bin")
    np.concatenate(([0], np.cumsum(sentences))).astype(np.int64).tofile(folder / "sentences.bin")
    np.concatenate(([0], np.cumsum([len(document) for document in documents]))).astype(np.int64).tofile(
        folder / "documents.bin"
    )
    np.packbits(np.ones(sum(sentences), bool), bitorder="little").tofile(folder / "words.bin")
    return Split(folder, "uint16")


def config(**options: object) -> MaskedTokensConfig:
    return MaskedTokensConfig.build({"pairs": "next_sentence", "seq_len": 32, **options}, "test")


def parts_of(rows: Rows) -> list[tuple[int, list[int], list[int]]]:
    """(label, tokens of A, tokens of B) of every pair."""
    found = []
    for row, column, label in zip(rows.pair_rows, rows.pair_columns, rows.pair_labels, strict=True):
        mine = rows.blocks[row] == rows.blocks[row, column]
        ids, segments = rows.ids[row][mine], rows.segments[row][mine]
        assert ids[0] == CLS
        assert ids[-1] == SEP
        assert segments.tolist() == sorted(segments.tolist())
        part_a, part_b = ids[segments == 0][1:-1].tolist(), ids[segments == 1][:-1].tolist()
        assert SEP not in part_a + part_b
        found.append((label, part_a, part_b))
    return found


def many_documents(seed: int = 0) -> list[list[int]]:
    chance = np.random.default_rng(seed)
    return [chance.integers(2, 15, chance.integers(2, 12)).tolist() for _ in range(800)]


def all_pairs(split: Split, options: MaskedTokensConfig, turn: int = 0) -> tuple[PairRows, Rows]:
    rows = PairRows(split, options.seq_len, options.short_prob, 0)
    numbers = np.arange(len(rows))
    turns = Turns(numbers, np.full_like(numbers, turn), 0)
    return rows, build_pairs(split, rows, turns, options, SPECIALS, options.pairs)


def test_pairs_by_hand(tmp_path: Path) -> None:
    """Two documents of two sentences: A is always the first sentence, B the second or one of the other document."""
    split = write_split(tmp_path, [[3, 4], [5, 2]])
    first, second = [10, 11, 12], [13, 14, 15, 16]
    third, fourth = [17, 18, 19, 20, 21], [22, 23]
    options = config(seq_len=16, short_prob=0.0)
    seen = set()
    for turn in range(40):
        _, rows = all_pairs(split, options, turn)
        for label, part_a, part_b in parts_of(rows):
            ours = first if part_a[0] < third[0] else third
            if label == FOLLOWS:
                assert (part_a, part_b) in ((first, second), (third, fourth))
            elif ours == first:  # four tokens of room: the third sentence is too long, the fourth fits
                assert (part_a, part_b) == (first, fourth)
            else:  # two tokens of room, and both sentences are longer: the longer part gives way
                assert len(part_a) + len(part_b) == 7
                assert " ".join(map(str, part_a)) in " ".join(map(str, third))
                assert any(" ".join(map(str, part_b)) in " ".join(map(str, other)) for other in (first, second))
            seen.add((ours[0], label))
    assert seen == {(10, FOLLOWS), (10, OTHER), (17, FOLLOWS), (17, OTHER)}


def test_nothing_but_the_words_tells_pairs_apart(tmp_path: Path) -> None:
    """Where parts begin and end, and how long they are: hardly different whether B follows or not."""
    split = write_split(tmp_path, many_documents())
    borders = set((10 + np.asarray(split.sentences)).tolist())
    seen: dict[int, list[tuple[float, ...]]] = {FOLLOWS: [], OTHER: []}
    for turn in range(6):
        for label, part_a, part_b in parts_of(all_pairs(split, config(), turn)[1]):
            edges = (part_a[0], part_a[-1] + 1, part_b[0], part_b[-1] + 1)
            seen[label].append((*(edge in borders for edge in edges), len(part_a) / 29, len(part_b) / 29))
    follows, other = (np.mean(seen[label], axis=0) for label in (FOLLOWS, OTHER))
    assert np.abs(follows - other).max() < 0.06


def test_half_follow_and_no_pair_crosses_a_border(tmp_path: Path) -> None:
    documents = many_documents()
    split = write_split(tmp_path, documents)
    borders = 10 + np.asarray(split.document_starts)
    follow = total = 0
    for turn in range(6):
        _, rows = all_pairs(split, config(), turn)
        for label, part_a, part_b in parts_of(rows):
            assert len(part_a) >= 1
            assert len(part_b) >= 1
            assert len(part_a) + len(part_b) <= 29
            owner_a = set(np.searchsorted(borders, part_a, side="right"))
            owner_b = set(np.searchsorted(borders, part_b, side="right"))
            assert len(owner_a) == len(owner_b) == 1
            assert (owner_a == owner_b) == (label == FOLLOWS)
            assert part_a == list(range(part_a[0], part_a[0] + len(part_a)))
            assert part_b == list(range(part_b[0], part_b[0] + len(part_b)))
            follow += label == FOLLOWS
            total += 1
    assert total > 5000
    assert abs(follow - total / 2) < 4 * np.sqrt(total / 4)


def test_untrimmed_true_pairs_touch(tmp_path: Path) -> None:
    split = write_split(tmp_path, [[5, 5, 5], [4, 4]] * 20)
    _, rows = all_pairs(split, config(short_prob=0.0))
    true = [(part_a, part_b) for label, part_a, part_b in parts_of(rows) if label == FOLLOWS]
    assert true
    assert all(part_b[0] == part_a[-1] + 1 for part_a, part_b in true)


def test_chunks_use_every_sentence_once(tmp_path: Path) -> None:
    split = write_split(tmp_path, [*many_documents(), [100, 3]])
    rows = PairRows(split, 32, 0.1, 0)
    assert rows.chunk_first[0] == 0
    assert rows.chunk_last[-1] == len(rows.segments) - 1
    assert (rows.chunk_first[1:] == rows.chunk_last[:-1]).all()
    assert np.diff(rows.segments).max() <= 29  # the sentence of 100 is cut, nothing of it is lost
    lens = np.minimum(rows.segments[rows.chunk_last] - rows.segments[rows.chunk_first], 29)
    inside = rows.chunk_document[1:] == rows.chunk_document[:-1]
    short = (lens[:-1][inside] < 20).mean()
    assert 0.02 < short < 0.12  # one in ten aims at a random shorter length


def test_single_sentences_carry_no_label(tmp_path: Path) -> None:
    split = write_split(tmp_path, [[6], [7], [8]])
    _, rows = all_pairs(split, config())
    assert rows.pair_labels == []
    assert sorted(rows.ids[rows.units >= 0].tolist()) == list(range(10, 31))


def test_sentence_order_swaps(tmp_path: Path) -> None:
    split = write_split(tmp_path, many_documents())
    _, rows = all_pairs(split, config(pairs="sentence_order", short_prob=0.0))
    pairs = parts_of(rows)
    assert {label for label, _, _ in pairs} == {FOLLOWS, OTHER}
    assert all((part_a[0] < part_b[0]) == (label == FOLLOWS) for label, part_a, part_b in pairs)


@pytest.mark.parametrize(
    ("lens", "room"), [((10, 4), 9), ((4, 10), 9), ((9, 9), 7), ((20, 1), 12), ((3, 3), 6), ((5, 6), 2)]
)
def test_trimming_takes_from_the_longer(lens: tuple[int, int], room: int) -> None:
    for draw in (0.0, 0.5, 0.999):
        (start_a, len_a), (start_b, len_b) = trim((100, lens[0]), (200, lens[1]), room, draw, draw)
        assert len_a + len_b == min(sum(lens), room)
        assert abs(len_a - len_b) <= max(1, abs(lens[0] - lens[1]))
        assert 100 <= start_a <= 100 + lens[0] - len_a
        assert 200 <= start_b <= 200 + lens[1] - len_b
        if sum(lens) > room and lens[0] > lens[1] + 1:
            assert len_b == lens[1] or abs(len_a - len_b) <= 1


def test_one_document_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="two documents"):
        PairRows(write_split(tmp_path, [[3, 3]]), 32, 0.1, 0)


def test_both_losses_are_the_plain_ones(corpus: Corpus) -> None:
    """Against the whole model and the whole vocabulary at every position."""
    model = EncoderConfig(vocab_size=400, hidden_dim=16, num_layers=2, num_heads=2, ffn_dim=32, max_positions=48)
    torch.manual_seed(0)
    encoder = Encoder(model).eval()
    pieces = corpus.pieces
    assert pieces.cls_id is not None
    assert pieces.sep_id is not None
    assert pieces.mask_id is not None
    specials = Specials(pieces.cls_id, pieces.sep_id, pieces.mask_id, 0, np.arange(5, 400))
    objective = MaskedTokens(config(), model, specials).eval()
    batch = objective.batch(corpus.train, objective.rows(corpus.train, 0), 0, 0, 8).to("cpu")
    losses = objective.loss(encoder, batch)
    tensors = batch.tensors
    hidden = encoder.last(Inputs.of(tensors))
    scores = objective.head(hidden, encoder.embeddings.tokens.weight)
    flat = tensors["picks"] + torch.arange(8)[:, None] * tensors["ids"].shape[1]
    wanted = functional.cross_entropy(
        scores.flatten(0, 1)[flat.flatten()[tensors["masked"]]], tensors["labels"], reduction="sum"
    )
    torch.testing.assert_close(losses.sums["masked"], wanted)
    assert objective.pair_head is not None
    firsts = hidden.flatten(0, 1)[flat.flatten()[tensors["pairs"]]]
    assert (tensors["ids"].flatten()[flat.flatten()[tensors["pairs"]]] == pieces.cls_id).all()
    wanted = functional.cross_entropy(objective.pair_head(firsts), tensors["pair_labels"], reduction="sum")
    torch.testing.assert_close(losses.sums["pairs"], wanted)
    assert losses.metrics["pairs_accuracy"][1] == batch.counts["pairs"] > 0


def test_ngrams_are_runs_of_whole_words(tmp_path: Path) -> None:
    split = write_split(tmp_path, [[20] * 4] * 400)
    bits = np.random.default_rng(1).random(len(split.tokens)) < 0.6
    np.packbits(bits, bitorder="little").tofile(tmp_path / "words.bin")
    split = Split(tmp_path, "uint16")
    _, rows = all_pairs(split, config(max_ngram=4, seq_len=64))
    sizes = []
    for row in range(len(rows.ids)):
        for unit in np.unique(rows.units[row][rows.units[row] >= 0]):
            places = np.flatnonzero(rows.units[row] == unit)
            assert (np.diff(places) == 1).all()
            starts = bits[rows.ids[row][places] - 10]
            if rows.ids[row][places[0] - 1] not in (CLS, SEP):
                assert starts[0]
                if rows.ids[row][places[-1] + 1] not in (CLS, SEP):
                    sizes.append(int(starts.sum()))
    shares = np.bincount(sizes, minlength=5)[1:5] / len(sizes)
    assert np.allclose(shares, [0.4, 0.3, 0.2, 0.1], atol=0.06)


@pytest.mark.slow
def test_a_tiny_bert_learns_a_hundred_sentences_by_heart(tmp_path: Path) -> None:
    """Static masks and pairs: more than 99 % of masked tokens, more than 98 % of pairs."""
    words = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("a", "e", "i", "o", "u", "an", "en", "in")]
    chance = np.random.default_rng(0)
    lines = [" ".join(" ".join(chance.choice(words, 6)).capitalize() + "." for _ in range(4)) for _ in range(25)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    firth.prepare(tmp_path / "text.txt", tmp_path / "corpus", vocab_size=300, layout="line", heldout=0.0)
    settings = [
        "hidden_dim=64",
        "num_heads=2",
        "ffn_dim=128",
        "max_positions=48",
        "seq_len=40",
        "dupe_factor=1",
        "batch_size=8",
    ]
    settings += ["evaluations=0", "checkpoints=1", "schedule=cosine", "mask_token_prob=1", "random_token_prob=0"]
    firth.pretrain(
        "bert-tiny",
        corpus=tmp_path / "corpus",
        out=tmp_path / "run",
        steps=900,
        settings=parse_settings([*settings, "learning_rate=3e-3"]),
    )
    from firth.core.registry import RunConfig
    from firth.core.run import Run
    from firth.models.bert.objective import BertPretraining

    trainable = BertPretraining(
        RunConfig.build(Run.open(tmp_path / "run").record.config, "test"), Corpus.open(tmp_path / "corpus")
    )
    trainable.start_from(tmp_path / "run")
    trainable.module.eval()
    hits: dict[str, list[tuple[float, float]]] = {}
    with torch.inference_mode():
        for number in range(-(-len(trainable.rows) // 8)):
            for name, pair in trainable.loss(trainable.batch(number).to("cpu")).metrics.items():
                hits.setdefault(name, []).append(pair)
    shares = {name: sum(hit for hit, _ in pairs) / sum(count for _, count in pairs) for name, pairs in hits.items()}
    assert shares["masked_accuracy"] > 0.99
    assert shares["pairs_accuracy"] > 0.98
