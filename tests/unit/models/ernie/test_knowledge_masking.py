"""Knowledge masking: phrases by a plain count, units by hand, levels, questions, losses."""

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.corpus.format import Corpus, Split
from firth.models.ernie.config import KnowledgeMaskingConfig
from firth.models.ernie.objective import (
    ADJACENT,
    BASIC,
    ENTITY,
    NUM_TASKS,
    OTHER_DOCUMENT,
    PHRASE,
    SAME_DOCUMENT,
    Entities,
    KnowledgeMasking,
    _inside,
    draw_distance,
    find_phrases,
    join_phrases,
    pair_hashes,
    read_entities,
    word_hashes,
)
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.rows import PairRows, Specials, Turns

PAD, UNK, CLS, SEP, MASK = range(5)


def words_of(split: Split, sentence: int) -> list[tuple[int, ...]]:
    start, stop = int(split.sentences[sentence]), int(split.sentences[sentence + 1])
    words: list[tuple[int, ...]] = []
    for token, begins in zip(split.tokens[start:stop].tolist(), split.word_starts(start, stop), strict=True):
        if begins or not words:
            words.append(())
        words[-1] += (token,)
    return words


def test_phrases_by_a_plain_count(corpus: Corpus) -> None:
    split = corpus.train
    sentences = [words_of(split, number) for number in range(len(split.sentences) - 1)]
    words = Counter(word for sentence in sentences for word in sentence)
    pairs = Counter(pair for sentence in sentences for pair in itertools.pairwise(sentence))
    num_words, num_pairs = sum(words.values()), sum(pairs.values())
    wanted = set()
    for (first, second), count in pairs.items():
        share = count / num_pairs
        score = math.log(share / (words[first] / num_words * words[second] / num_words)) / -math.log(share)
        if count >= 5 and score >= 0.5:
            tokens = np.asarray([*first, *second])
            begins = np.isin(np.arange(len(tokens)), (0, len(first)))
            one, other = word_hashes(tokens, begins)
            wanted.add(int(pair_hashes(one[None], other[None])[0]))
    found = find_phrases(split, 1 << 40, 5, 0.5)
    assert set(found.tolist()) == wanted
    assert 5 < len(wanted) < len(pairs)
    assert (np.diff(found.astype(object)) > 0).all()


def phrase(*words: int) -> list[int]:
    """The pairs of a phrase whose words are single tokens."""
    hashes = word_hashes(np.asarray(words), np.ones(len(words), bool))
    return pair_hashes(hashes[:-1], hashes[1:]).tolist()


def test_phrases_joined_by_hand() -> None:
    """Words 11 12 13 are a chain, 21 22 a pair; what is special parts them; no phrase is longer than asked."""
    phrases = np.sort(np.asarray(phrase(11, 12, 13) + phrase(21, 22), np.uint64))
    ids = np.asarray([CLS, 11, 12, 13, 9, 21, SEP, 22, 21, 22, SEP, PAD])
    words = np.asarray([-1, 0, 1, 2, 3, 4, -1, 5, 6, 7, -1, -1])
    assert join_phrases(ids, words, phrases, 4).tolist() == [-1, 0, 0, 0, 1, 2, -1, 3, 4, 4, -1, -1]
    assert join_phrases(ids, words, phrases, 2).tolist() == [-1, 0, 0, 1, 2, 3, -1, 4, 5, 5, -1, -1]
    assert join_phrases(ids, words, np.zeros(0, np.uint64), 4) is words
    whole = np.asarray([-1, 0, 0, 1, 2, 2, -1, 3, 4, 4, -1, -1])  # words of two tokens are other words
    assert join_phrases(ids, whole, phrases, 4).tolist() == [-1, 0, 0, 1, 2, 2, -1, 3, 4, 4, -1, -1]


def test_entities_joined_by_hand() -> None:
    """The longest name wins, a name does not end inside a word of pieces, and may cut a segmented word."""
    entities = Entities([[11, 12], [11, 12, 13], [21], [31, 32], []], inner_ids=[99])
    assert len(entities) == 4
    ids = np.asarray([CLS, 11, 12, 13, 11, 12, 99, 21, SEP, 31, 32, 33])
    units = np.asarray([-1, 0, 1, 2, 3, 4, 4, 5, -1, 6, 6, 6])
    found = entities.join(ids, units).tolist()
    assert found[1] == found[2] == found[3]
    assert found[4:7] == [3, 4, 4]
    assert len({found[9], found[10]}) == 1
    assert found[11] != found[10]
    assert [number == -1 for number in found] == (units == -1).tolist()
    assert len({found[1], found[4], found[5], found[7], found[9], found[11]}) == 6


def build(
    corpus: Corpus, entities: Entities | None = None, num_tasks: int = 0, **options: object
) -> tuple[Encoder, KnowledgeMasking]:
    torch.manual_seed(0)
    shape = EncoderConfig(
        vocab_size=corpus.info.vocab_size,
        hidden_dim=32,
        num_layers=2,
        num_heads=4,
        ffn_dim=64,
        max_positions=48,
        num_tasks=num_tasks,
        dropout_prob=0.0,
        attention_dropout_prob=0.0,
    )
    specials = Specials(CLS, SEP, MASK, PAD, np.arange(5, corpus.info.vocab_size))
    config = KnowledgeMaskingConfig.build({"seq_len": 40, "phrase_score": 0.5, **options}, "test")
    phrases = find_phrases(corpus.train, config.sample_tokens, config.phrase_count, config.phrase_score)
    return Encoder(shape), KnowledgeMasking(config, shape, specials, phrases, entities)


@pytest.mark.parametrize("level", [BASIC, PHRASE, ENTITY])
def test_units_are_hidden_whole(corpus: Corpus, level: int) -> None:
    """In stages of an epoch: tokens one by one, then words and phrases, then names, each hidden whole or not at all."""
    tokens = corpus.train.tokens.tolist()
    pairs = Counter(pair for pair in itertools.pairwise(tokens) if min(pair) >= 5)
    names = [list(pair) for pair, _ in pairs.most_common(40)]
    inner = [number for number in range(corpus.info.vocab_size) if corpus.pieces.token(number).startswith("##")]
    _, objective = build(corpus, Entities(names, inner), schedule="stages", stage_epochs=1)
    rows = objective.rows(corpus.train, 0)
    first, count = level * len(rows), len(rows)
    batch = objective.batch(corpus.train, rows, 0, first, count)
    plain, _ = objective._plain(corpus.train, rows, Turns.of(rows, objective.config, 0, first, count))
    phrases = [join_phrases(*row, objective.phrases, 4) for row in zip(plain.ids, plain.units, strict=True)]
    units = {
        BASIC: [np.where(words >= 0, np.arange(len(words)), -1) for words in plain.units],
        PHRASE: phrases,
        ENTITY: [Entities(names, inner).join(*row) for row in zip(plain.ids, phrases, strict=True)],
    }
    chosen = np.zeros(plain.ids.shape, bool)
    masked, picks = batch.arrays["masked"], batch.arrays["picks"]
    chosen[masked // picks.shape[1], picks.ravel()[masked]] = True
    np.testing.assert_array_equal(plain.ids[chosen], batch.arrays["labels"])

    def num_parted(all_units: list[NDArray[np.int64]]) -> int:
        found = 0
        for of_row, hidden in zip(all_units, chosen, strict=True):
            sizes = np.bincount(of_row[of_row >= 0])
            found += int(
                ((taken := np.bincount(of_row[hidden], minlength=len(sizes))) % np.maximum(sizes, 1) > 0).sum()
            )
            assert (taken <= sizes).all()
        return found

    parted = {name: num_parted(of_rows) for name, of_rows in units.items()}
    assert parted[level] == 0
    assert all(parted[other] > 0 for other in (PHRASE, ENTITY) if other > level)
    if level == BASIC:
        assert num_parted(list(plain.units)) > 0


def test_levels(corpus: Corpus) -> None:
    """Mixed by share; or one after the other, the last one to the end. Without a list there are no entities."""
    entities = Entities([[10, 11]], [])
    key = (0, np.arange(6000)[:, None], np.zeros((6000, 1), int))
    places = np.arange(6000) / 1000
    mixed = np.bincount(build(corpus, entities, basic_weight=2)[1]._levels(key, places), minlength=3) / 6000
    assert np.abs(mixed - [0.5, 0.25, 0.25]).max() < 0.03
    assert set(build(corpus)[1]._levels(key, places).tolist()) == {BASIC, PHRASE}
    staged = build(corpus, entities, schedule="stages", stage_epochs=1.5)[1]._levels(key, places)
    assert staged.tolist() == [BASIC] * 1500 + [PHRASE] * 1500 + [ENTITY] * 3000
    staged = build(corpus, schedule="stages")[1]._levels(key, places)
    assert staged.tolist() == [BASIC] * 1000 + [PHRASE] * 5000


def test_distances(corpus: Corpus) -> None:
    """What the label says of two parts is true of where they come from; a third each where a document allows it."""
    rows = PairRows(corpus.train, 24, 0.1, 0)
    borders = corpus.train.document_starts
    seen: Counter[int] = Counter()
    random = np.random.default_rng(0)
    for chunk in np.flatnonzero(rows.chunk_last - rows.chunk_first > 1).tolist():
        for _ in range(5):
            label, ((start_a, len_a), (start_b, len_b)) = draw_distance(rows, chunk, random.random(6).tolist())
            assert len_a > 0
            assert len_b > 0
            assert len_a + len_b <= rows.room
            documents = [int(np.searchsorted(borders, start, side="right")) for start in (start_a, start_b)]
            gap = start_b - start_a - len_a if start_b > start_a else start_a - start_b - len_b
            if label == OTHER_DOCUMENT:
                assert documents[0] != documents[1]
            else:
                assert documents[0] == documents[1]
            if label == ADJACENT:
                assert start_b > start_a
            if label == SAME_DOCUMENT:
                assert gap > 0
            seen[label] += 1
    assert min(seen[ADJACENT], seen[SAME_DOCUMENT], seen[OTHER_DOCUMENT]) > 50


def test_any_other_document_may_be_drawn(corpus: Corpus) -> None:
    """Also where a document of one chunk leaves two choices: the draw that decides between them is not used again."""
    rows = PairRows(corpus.train, 24, 0.1, 0)
    borders, num = corpus.train.document_starts, corpus.train.num_documents
    alone = [
        chunk
        for chunk in np.flatnonzero(rows.chunk_last - rows.chunk_first > 1).tolist()
        if np.diff(rows.document_segments[[rows.chunk_document[chunk], rows.chunk_document[chunk] + 1]])[0]
        == rows.chunk_last[chunk] - rows.chunk_first[chunk]
    ]
    assert alone
    seen = set()
    for other in np.linspace(
        0, 1, 4 * num, endpoint=False
    ).tolist():  # draw 1: the same document, which has nothing else
        label, (_, (start, _)) = draw_distance(rows, alone[0], [0.5, 0.5, other, 0.5, 0.5, 0.5])
        if label == OTHER_DOCUMENT:
            seen.add(int(np.searchsorted(borders, start, side="right")))
    assert len(seen) > 0.9 * num


def test_ends_do_not_tell_distances(corpus: Corpus) -> None:
    """B ends where a sentence does about as often in each of the three."""
    rows = PairRows(corpus.train, 24, 0.1, 0)
    borders = set(corpus.train.sentences.tolist())
    random = np.random.default_rng(0)
    ends: dict[int, list[bool]] = {ADJACENT: [], SAME_DOCUMENT: [], OTHER_DOCUMENT: []}
    for chunk in np.flatnonzero(rows.chunk_last - rows.chunk_first > 1).tolist():
        for _ in range(20):
            label, (_, (start, size)) = draw_distance(rows, chunk, random.random(6).tolist())
            ends[label].append(start + size in borders)
    shares = [np.mean(found) for found in ends.values()]
    assert max(shares) - min(shares) < 0.15


def test_ngrams_are_left_to_phrases(corpus: Corpus) -> None:
    """Phrases are made of words: a setting for masks of n-grams does not join them before."""
    batches = [
        objective.batch(corpus.train, objective.rows(corpus.train, 0), 0, 0, 8)
        for objective in (build(corpus)[1], build(corpus, max_ngram=3)[1])
    ]
    np.testing.assert_array_equal(batches[0].arrays["ids"], batches[1].arrays["ids"])


@pytest.mark.parametrize("num_tasks", [0, NUM_TASKS])
def test_the_loss_is_the_plain_one(corpus: Corpus, num_tasks: int) -> None:
    model, objective = build(corpus, num_tasks=num_tasks)
    batch = objective.batch(corpus.train, objective.rows(corpus.train, 0), 0, 0, 12).to("cpu")
    losses = objective.eval().loss(model, batch)
    tensors = batch.tensors
    hidden = model.last(Inputs.of(tensors))
    picks = tensors["picks"]

    def at(places: torch.Tensor) -> torch.Tensor:
        return hidden[places // picks.shape[1], picks.flatten()[places]]

    scores = objective.head(at(tensors["masked"]), model.embeddings.tokens.weight)
    wanted = {"masked": functional.cross_entropy(scores, tensors["labels"], reduction="sum")}
    for name in ("next_sentence", "sentence_order", "sentence_distance"):
        places = tensors[f"{name}_places"]
        assert (picks.flatten()[places] == 0).any()
        assert (tensors["ids"][places // picks.shape[1], picks.flatten()[places]] == CLS).all()
        scores = objective.answers[name](torch.tanh(objective.pooler.dense(at(places))))
        wanted[name] = functional.cross_entropy(scores, tensors[f"{name}_labels"], reduction="sum")
        assert batch.counts[name] == len(places) > 0
    assert losses.sums.keys() == wanted.keys() == batch.counts.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(losses.sums[name], value, rtol=1e-5, atol=1e-4)
    if num_tasks:  # the whole block of a question knows which it is, and no other
        asked = torch.zeros_like(tensors["tasks"])
        for number, name in enumerate(("next_sentence", "sentence_order", "sentence_distance")):
            for place in tensors[f"{name}_places"].tolist():
                row, column = place // picks.shape[1], int(picks.flatten()[place])
                asked[row][tensors["doc_ids"][row] == tensors["doc_ids"][row, column]] = number
        assert torch.equal(tensors["tasks"], asked)
        assert set(asked.unique().tolist()) == set(range(NUM_TASKS))


def test_a_batch_is_pure(corpus: Corpus) -> None:
    _, objective = build(corpus)
    rows = objective.rows(corpus.train, 0)
    one, other = (objective.batch(corpus.train, rows, 3, 8, 6) for _ in range(2))
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)
    parts = [objective.batch(corpus.train, rows, 3, first, 2) for first in (8, 10, 12)]
    for name in ("labels", "sentence_distance_labels"):
        assert np.array_equal(one.arrays[name], np.concatenate([part.arrays[name] for part in parts]))


def test_a_list_of_entities(corpus: Corpus, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("the old doctor\n\n红色的船\n", encoding="utf-8")
    found = read_entities(names, corpus.pieces)
    assert len(found) == 2
    ids = corpus.pieces.encode("The old doctor watched 红色的船。", add_special=False).ids
    units = found.join(ids, np.arange(len(ids)))
    assert len(set(units[:3].tolist())) == 1
    names.write_text("\n", encoding="utf-8")
    with pytest.raises(FirthError, match=r"names\.txt: no entity in it"):
        read_entities(names, corpus.pieces)
    with pytest.raises(FirthError, match="no such file"):
        read_entities(tmp_path / "none.txt", corpus.pieces)
    with pytest.raises(FirthError, match="nothing would be hidden"):
        KnowledgeMaskingConfig.build({"basic_weight": 0, "phrase_weight": 0}, "settings")


def test_names_without_a_space_before_them(unigram_folder: Path) -> None:
    """Unigram's first piece has the space in it; inside Chinese there is none."""
    pieces = Corpus.open(unigram_folder).pieces
    vocabulary = pieces.backend.get_vocab()
    bare = next(token for token in sorted(vocabulary) if token and f"▁{token}" in vocabulary)
    space, spaced, plain = (vocabulary[token] for token in ("▁", f"▁{bare}", bare))
    assert _inside(pieces, [spaced, 7]) == [plain, 7]
    assert _inside(pieces, [space, plain, 7]) == [plain, 7]
    assert _inside(pieces, [plain, 7]) == []
    assert _inside(pieces, []) == []
