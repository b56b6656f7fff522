"""Words for search by words: lower case, Chinese segmented, without punctuation; and BM25 over texts in memory.

BM25 (Robertson & Zaragoza 2009) with Lucene's form of the inverse document frequency, which is never negative:
idf(t) = ln(1 + (N - n_t + ½) / (n_t + ½)); a text d scores Σ_t idf(t) · tf (k₁ + 1) / (tf + k₁ (1 - b + b |d| / mean)).

N texts, V terms.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from firth.core.types import Floats, Ints
from firth.tokenizers.words import HAN_CLASS, has_han, is_han, split_words, without_invisible

K1, B = 1.2, 0.75
_HAN_RUN = re.compile(f"[{HAN_CLASS}]{{2,}}")
_ENDINGS = (("sses", "ss"), ("ies", "y"), ("ss", "ss"), ("us", "us"), ("is", "is"), ("s", ""))


def stem(word: str) -> str:
    """An English word without the plural's s (Harman 1991); all others as they are."""
    if len(word) < 4 or not word.isascii():
        return word
    for ending, other in _ENDINGS:
        if word.endswith(ending):
            return word[: len(word) - len(ending)] + other
    return word


def whole_words(text: str) -> list[str]:
    """The words of a text, folded and without the plural's s."""
    folded = without_invisible(text.casefold())
    words = (folded[start:end] for start, end in split_words(folded))
    return [stem(word) for word in words if any(char.isalnum() for char in word)]


def terms(text: str) -> list[str]:
    """The words of a text as they are looked up. Of Chinese also every pair of neighbouring characters, because segmentation
    depends on what stands around."""
    found, folded = whole_words(text), without_invisible(text.casefold())
    if has_han(folded):
        for run in _HAN_RUN.findall(folded):
            found += [run[place : place + 2] for place in range(len(run) - 1)]
    return found


def marked_words(text: str, asked: Collection[str]) -> list[tuple[int, int]]:
    """Where terms of a question stand in a text, as (start, end)."""
    found = []
    for start, end in split_words(text):
        word = without_invisible(text[start:end])
        if stem(word.casefold()) in asked:
            found.append((start, end))
        elif len(word) > 2 and is_han(word[0]):
            pairs = [place for place in range(start, end - 1) if text[place : place + 2] in asked]
            found += [(place, place + 2) for place in pairs if place - 1 not in pairs]
    return found


def inverse_frequencies(num_texts: int, found_in: NDArray[np.integer]) -> Floats:
    """idf of terms that are found in so many texts."""
    return np.log1p((num_texts - found_in + 0.5) / (found_in + 0.5)).astype(np.float32)


def term_weights(counts: NDArray[np.integer], lens: NDArray[np.integer], mean_len: float) -> Floats:
    """What an occurrence is worth, apart from idf: for terms that occur ``counts`` times in texts of such length."""
    return (counts * (K1 + 1) / (counts + K1 * (1 - B + B * lens / max(mean_len, 1e-9)))).astype(np.float32)


class Bm25:
    """Postings of texts that fit into memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.vocabulary: dict[str, int] = {}
        rows: list[Ints] = []
        columns: list[Ints] = []
        counts: list[Ints] = []
        lens = np.zeros(len(texts), np.int64)
        for number, text in enumerate(texts):
            found = Counter(terms(text))
            lens[number] = found.total()
            ids = [self.vocabulary.setdefault(word, len(self.vocabulary)) for word in found]
            rows.append(np.full(len(ids), number, np.int64))
            columns.append(np.asarray(ids, np.int64))
            counts.append(np.asarray(list(found.values()), np.int64))
        self.size, size = len(texts), len(self.vocabulary)
        text_P, term_P, count_P = (
            np.concatenate(parts) if parts else np.zeros(0, np.int64) for parts in (rows, columns, counts)
        )
        order = np.argsort(term_P, kind="stable")
        self.texts_P = text_P[order]
        found_in = np.bincount(term_P, minlength=size)
        self.starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(found_in)))
        weights_P = term_weights(count_P[order], lens[self.texts_P], float(lens.mean()) if len(lens) else 0.0)
        self.weights_P = weights_P * inverse_frequencies(self.size, found_in)[term_P[order]]

    def scores(self, question: str | Mapping[str, int]) -> Floats:
        """The score of every text."""
        asked = Counter(terms(question)) if isinstance(question, str) else question
        found = np.zeros(self.size, np.float32)
        for word, times in asked.items():
            number = self.vocabulary.get(word)
            if number is not None:
                some = slice(int(self.starts[number]), int(self.starts[number + 1]))
                found[self.texts_P[some]] += times * self.weights_P[some]
        return found
