"""The documents of an index as a whole, with a vector each. Topics: clusters of documents with the words that set them apart; and
documents that say nearly the same.

Clusters by HDBSCAN (Campello et al. 2013) over vectors that are first reduced by principal components; a topic's words by
class-based TF-IDF (Grootendorst 2022): tf(t, c) · ln(1 + mean words of a topic / tf(t)). The map is the plane of the first two
components.

N documents, P passages, D dimensions.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from firth.core.errors import FirthError
from firth.core.types import Floats, Ints, unit_rows
from firth.retrieval.exact import BLOCK
from firth.retrieval.store import State
from firth.retrieval.words import whole_words

_COMPONENTS = 15  # dimensions in which densities are compared
_MOST = 50_000  # documents
_SHORTEST = 2  # letters of a word that names a topic


@dataclass(frozen=True)
class Collection:
    """Documents that count, in the order of the index; a vector is the mean of those of the passages."""

    ids: Sequence[str]
    texts: Sequence[str]
    vectors_ND: Floats


def live_texts(state: State) -> Iterator[tuple[str, str]]:
    """(id, text) of every document that was not deleted."""
    for part in state.parts:
        for number in np.flatnonzero(~part.gone_K).tolist():
            yield str(part.row(number)["id"]), part.text(number)


def read_collection(state: State, most: int) -> Collection:
    """All documents with their vectors; more than ``most`` are refused."""
    count = state.record.num_documents
    if state.record.model is None:
        raise FirthError("an index without vectors: make one with --model to group its documents")
    if count > most:
        raise FirthError(
            f"{count:,} documents: at most {most:,} are grouped at once; take a part of them with firth topics"
        )
    rows = [np.zeros((0, state.record.model.dim), np.float32)]
    for part in state.parts:
        assert part.vectors_PD is not None
        sums_KD = np.zeros((part.num_documents, part.vectors_PD.shape[1]), np.float32)
        np.add.at(sums_KD, part.passages[:, 0], part.vectors_PD)
        rows.append(sums_KD[~part.gone_K])
    found = list(live_texts(state))
    return Collection([id for id, _ in found], [text for _, text in found], unit_rows(np.concatenate(rows)))


@dataclass(frozen=True)
class Topic:
    """A cluster; number -1 holds the documents that belong to none."""

    number: int
    words: Sequence[str]
    documents: Sequence[int]
    example: int  # the document in the middle


@dataclass(frozen=True)
class TopicMap:
    topics: Sequence[Topic]
    places_N2: Floats  # in the plane
    numbers_N: Ints  # of the topic of each document
    ids: Sequence[str] = ()  # of the documents, where they have some


def find_topics(texts: Sequence[str], vectors_ND: Floats, min_size: int | None = None, num_words: int = 8) -> TopicMap:
    """Topics, largest first. ``min_size`` is the smallest cluster, by default a hundredth of the documents, at least 5."""
    from sklearn.cluster import HDBSCAN

    if len(texts) > _MOST:
        raise FirthError(f"{len(texts):,} documents: topics are found among {_MOST:,} at most; take a part of them")
    size = max(5, len(texts) // 100) if min_size is None else min_size
    if size < 2 or len(texts) < 2 * size:
        raise FirthError(
            f"{len(texts):,} documents are too few for topics of {size}; give more, or a smaller --min-size"
        )
    rows_ND = unit_rows(vectors_ND)
    reduced = _components(rows_ND, _COMPONENTS)
    clusters = HDBSCAN(min_cluster_size=size, min_samples=min(5, size), copy=True).fit_predict(unit_rows(reduced))
    order = [number for number, _ in Counter(clusters[clusters >= 0].tolist()).most_common()]
    renamed = {number: place for place, number in enumerate(order)} | {-1: -1}
    numbers_N = np.asarray([renamed[number] for number in clusters.tolist()], np.int64)
    words = topic_words([whole_words(text) for text in texts], numbers_N, num_words)
    topics = []
    for number in (*range(len(order)), *([-1] if (numbers_N < 0).any() else [])):
        inside = np.flatnonzero(numbers_N == number)
        middle = rows_ND[inside].mean(0)
        example = int(inside[int(np.argmax(rows_ND[inside] @ middle))])
        topics.append(Topic(number, words.get(number, []), inside.tolist(), example))
    return TopicMap(topics, reduced[:, :2], numbers_N)


def _components(rows_ND: Floats, num: int) -> Floats:
    """The first principal components of the rows; the sign is fixed by the largest value."""
    centred = rows_ND - rows_ND.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    found = centred @ directions[:, ::-1][:, :num]
    signs = np.sign(found[np.abs(found).argmax(0), np.arange(found.shape[1])])
    return np.asarray(found * np.where(signs == 0, 1, signs), np.float32)


def topic_words(documents: Sequence[Sequence[str]], numbers_N: Ints, num: int) -> dict[int, list[str]]:
    """The words with the largest class-based TF-IDF of each topic, -1 left out."""
    counts: dict[int, Counter[str]] = {}
    for words, number in zip(documents, numbers_N.tolist(), strict=True):
        if number >= 0:
            counts.setdefault(number, Counter()).update(words)
    total: Counter[str] = Counter()
    for one in counts.values():
        total.update(one)
    mean = sum(total.values()) / max(1, len(counts))
    found = {}
    for number, one in counts.items():
        all_words = one.total()
        scores = {word: count / all_words * np.log1p(mean / total[word]) for word, count in one.items() if _names(word)}
        found[number] = sorted(scores, key=lambda word: (-scores[word], word))[:num]
    return found


def _names(word: str) -> bool:
    """Whether a word can stand for a topic: no number, no single letter, none of the most common English words."""
    return len(word) >= _SHORTEST and not any(char.isdigit() for char in word) and word not in _COMMON_WORDS


_COMMON_WORDS = frozenset(
    """a about after all also an and any are as at be been but by can could did do does for from had has have he her him his how i
    if in into is it it's its just like me more most my no not of on one only or other our out over she so some such than that the
    their them then there these they this thi those to too up us very wa was we were what when which who will with would you your ha
    的 了 在 是 我 有 和 就 不 人 都 一 一个 上 也 很 到 说 要 去 你 会 着 没有 看 好 自己 这 那 与 及 等 对 为 以 而 或""".split()
)


# -- near duplicates


def find_duplicates(vectors_ND: Floats, least: float = 0.95) -> list[tuple[int, int, float]]:
    """Pairs (earlier, later, cosine) of rows whose cosine is at least so large, most similar first; every later row is
    named once, beside the most similar earlier one."""
    if not 0 < least <= 1:
        raise FirthError(f"cosine {least}: choose one above 0, and at most 1")
    rows_ND = unit_rows(vectors_ND)
    found = []
    for start in range(0, len(rows_ND), BLOCK // 16):
        block = rows_ND[start : start + BLOCK // 16]
        cosines = block @ rows_ND[: start + len(block)].T
        later = np.arange(start, start + len(block))
        cosines[np.arange(cosines.shape[1])[None, :] >= later[:, None]] = -1
        if cosines.shape[1]:
            best = cosines.argmax(1)
            close = cosines[np.arange(len(block)), best]
            found += [
                (int(best[place]), int(later[place]), float(close[place]))
                for place in np.flatnonzero(close >= least - 1e-6)
            ]
    return sorted(found, key=lambda pair: (-pair[2], pair[1]))
