"""``WordVectors``: words with their vectors, nearest neighbours and analogies.

The search is exact: products with blocks of rows, the best few kept from block to block. Q queries, V words, D
dimensions.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.types import Array, unit_rows
from firth.vectors.vocabulary import word_buckets

Matrix = NDArray[np.float32]
Found = tuple[str, float]
_BLOCK = 16_384
_QUERIES = 512


class Rows(Protocol):
    """A matrix that is read block by block."""

    @property
    def norms(self) -> Matrix: ...

    def __len__(self) -> int: ...

    def rows(self, first: int, last: int) -> Matrix: ...


def best_cosines(
    rows: Rows, units: Matrix, top: int, left_out: list[list[int]] | None, limit: int | None
) -> list[list[tuple[int, float]]]:
    """For each unit query [Q, D] the rows with the highest cosine, highest first."""
    return _best(rows, units, lambda block, some: some @ block.T, top, left_out, limit)


def best_products(
    rows: Rows, units: Matrix, top: int, left_out: list[list[int]] | None, limit: int | None
) -> list[list[tuple[int, float]]]:
    """3CosMul over questions [Q, 3, D] (a, b, c): cos(x, b) cos(x, c) / (cos(x, a) + 0.001)."""

    def scores(block: Matrix, some: Matrix) -> Matrix:
        a, b, c = ((some[:, one] @ block.T + 1) / 2 for one in range(3))
        return np.asarray(b * c / (a + 0.001), np.float32)

    return _best(rows, units, scores, top, left_out, limit)


def _best(
    rows: Rows,
    queries: Matrix,
    scores: Callable[[Matrix, Matrix], Matrix],
    top: int,
    left_out: list[list[int]] | None,
    limit: int | None,
) -> list[list[tuple[int, float]]]:
    size = len(rows) if limit is None else min(limit, len(rows))
    found: list[list[tuple[int, float]]] = []
    for start in range(0, len(queries), _QUERIES):
        some = queries[start : start + _QUERIES]
        out = None if left_out is None else left_out[start : start + _QUERIES]
        found += _best_of(rows, some, scores, min(top, size), out, size)
    return found


def _best_of(
    rows: Rows,
    queries: Matrix,
    scores: Callable[[Matrix, Matrix], Matrix],
    top: int,
    left_out: list[list[int]] | None,
    size: int,
) -> list[list[tuple[int, float]]]:
    best = np.full((len(queries), 0), -np.inf, np.float32)
    numbers = np.zeros((len(queries), 0), np.int64)
    for first in range(0, size, _BLOCK):
        last = min(first + _BLOCK, size)
        block = rows.rows(first, last) / rows.norms[first:last, None]
        here = scores(block, queries)
        for query, numbers_out in enumerate(left_out or []):
            for number in numbers_out:
                if first <= number < last:
                    here[query, number - first] = -np.inf
        if here.shape[1] > top:
            place = np.argpartition(-here, top - 1, axis=1)[:, :top] if top else np.zeros((len(queries), 0), np.int64)
        else:
            place = np.broadcast_to(np.arange(here.shape[1]), here.shape)
        best = np.concatenate((best, np.take_along_axis(here, place, 1)), 1)
        numbers = np.concatenate((numbers, place + first), 1)
        if best.shape[1] > top:
            order = np.lexsort((numbers, -best), axis=1)[:, :top]
            best, numbers = np.take_along_axis(best, order, 1), np.take_along_axis(numbers, order, 1)
    order = np.lexsort((numbers, -best), axis=1)
    best, numbers = np.take_along_axis(best, order, 1), np.take_along_axis(numbers, order, 1)
    return [
        [(int(number), float(score)) for number, score in zip(some, values, strict=True) if np.isfinite(score)]
        for some, values in zip(numbers, best, strict=True)
    ]


def near_spellings(word: str, words: Sequence[str], count: int = 3) -> list[str]:
    """Known words with almost the same spelling, among the most frequent ones."""
    import difflib

    span = max(1, len(word) // 3)
    letters = set(word.lower())
    near = [
        other for other in words[:200_000] if abs(len(other) - len(word)) <= span and letters & set(other[:3].lower())
    ]
    folded = [other for other in near if other.lower() == word.lower()]
    return (folded + [one for one in difflib.get_close_matches(word, near, count, 0.7) if one not in folded])[:count]


class Subwords:
    """The n-gram rows of a fastText model: bucket number -> row."""

    def __init__(self, rows: NDArray[np.floating], shortest: int, longest: int, bucket: int) -> None:
        self.rows, self.shortest, self.longest, self.bucket = rows, shortest, longest, bucket

    def vector(self, word: str) -> Matrix | None:
        """The mean of the word's n-gram rows (for a word without a row of its own), or None."""
        buckets = word_buckets(word, self.shortest, self.longest, self.bucket)
        return np.asarray(self.rows[buckets], np.float32).mean(0) if buckets else None


class WordVectors:
    """Vectors of words, by falling frequency where the file says so.

    ``scales`` given means int8 storage: row = codes * scale. It takes a quarter of the space; a test holds
    that on random vectors cosines move by less than 0.01 and 19 of 20 nearest words stay the same.
    """

    def __init__(
        self,
        words: Sequence[str],
        matrix: Array,
        scales: Matrix | None = None,
        subwords: Subwords | None = None,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        assert len(words) == len(matrix)
        self.words, self.matrix, self.scales, self.subwords, self.counts = words, matrix, scales, subwords, counts

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.index

    @property
    def dim(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        return dict(zip(self.words, range(len(self.words)), strict=True))

    @cached_property
    def norms(self) -> Matrix:
        """The length of each row; 1 for a row of zeros, so that it is near to nothing."""
        found = np.empty(len(self), np.float32)
        for first in range(0, len(self), 65_536):
            found[first : first + 65_536] = np.linalg.norm(self.rows(first, first + 65_536), axis=1)
        found[found == 0] = 1
        return found

    def rows(self, first: int, last: int) -> Matrix:
        """Rows [first, last) as float32."""
        part = np.asarray(self.matrix[first:last], np.float32)
        return part if self.scales is None else part * self.scales[first:last, None]

    # -- vectors

    def vectors(self, words: Sequence[str]) -> Matrix:
        """[N, D]; a word that is unknown and has no n-grams is an error that offers near spellings."""
        found = np.empty((len(words), self.dim), np.float32)
        for place, word in enumerate(words):
            number = self.index.get(word)
            if number is not None:
                found[place] = self.rows(number, number + 1)[0]
                continue
            made = self.subwords.vector(word) if self.subwords else None
            if made is None:
                raise FirthError(self._unknown(word))
            found[place] = made
        return found

    def __getitem__(self, word: str) -> Matrix:
        return np.asarray(self.vectors([word])[0])

    def _unknown(self, word: str) -> str:
        close = near_spellings(word, self.words)
        hint = "did you mean " + ", ".join(f"'{one}'" for one in close) + "?" if close else "no known word is near it"
        return f"'{word}' is not among the {len(self):,} words: {hint}"

    # -- questions

    @overload
    def nearest(  # type: ignore[overload-overlap]
        self, query: str, top: int = 10, limit: int | None = None
    ) -> list[Found]: ...

    @overload
    def nearest(self, query: Sequence[str] | Matrix, top: int = 10, limit: int | None = None) -> list[list[Found]]: ...

    def nearest(
        self, query: str | Sequence[str] | Matrix, top: int = 10, limit: int | None = None
    ) -> list[Found] | list[list[Found]]:
        """The words with the highest cosine to a word, each of several words, or each row of a
        matrix; a word is not its own neighbour. ``limit`` looks at the first so many words only."""
        if isinstance(query, str):
            return self.nearest([query], top, limit)[0]
        if isinstance(query, np.ndarray):
            queries, left_out = np.atleast_2d(np.asarray(query, np.float32)), None
        else:
            queries, left_out = self.vectors(query), [[self.index.get(word, -1)] for word in query]
        return self._named(best_cosines(self, unit_rows(queries), top, left_out, limit))

    @overload
    def similarity(self, first: str, second: str) -> float: ...  # type: ignore[overload-overlap]

    @overload
    def similarity(self, first: Sequence[str], second: Sequence[str]) -> Matrix: ...

    def similarity(self, first: str | Sequence[str], second: str | Sequence[str]) -> float | Matrix:
        """The cosine of two words, or of each pair from two lists."""
        if isinstance(first, str) and isinstance(second, str):
            return float(self.similarity([first], [second])[0])
        one, other = unit_rows(self.vectors(list(first))), unit_rows(self.vectors(list(second)))
        return np.asarray(np.einsum("nd,nd->n", one, other), np.float32)

    def analogy(
        self,
        first: str,
        second: str,
        third: str,
        top: int = 10,
        method: Literal["add", "mul"] = "add",
        limit: int | None = None,
    ) -> list[Found]:
        """What is to ``third`` as ``second`` is to ``first``: man, king, woman -> queen."""
        return self.analogies([(first, second, third)], top, method, limit)[0]

    def analogies(
        self,
        questions: Sequence[tuple[str, str, str]],
        top: int = 1,
        method: Literal["add", "mul"] = "add",
        limit: int | None = None,
    ) -> list[list[Found]]:
        """Many at once. ``add`` is 3CosAdd (Mikolov et al. 2013), ``mul`` 3CosMul (Levy and Goldberg
        2014, eps 0.001, cosines moved to 0..1). The three words of a question are no answers."""
        if method not in ("add", "mul"):
            raise FirthError(f"analogy method '{method}' is not known: choose add (3CosAdd) or mul (3CosMul)")
        flat = [word for question in questions for word in question]
        units = unit_rows(self.vectors(flat)).reshape(len(questions), 3, self.dim)
        left_out = [[self.index.get(word, -1) for word in question] for question in questions]
        if method == "add":
            goals = unit_rows(units[:, 1] - units[:, 0] + units[:, 2])
            return self._named(best_cosines(self, goals, top, left_out, limit))
        return self._named(best_products(self, units, top, left_out, limit))

    def doesnt_match(self, words: Sequence[str]) -> str:
        """The word whose cosine with the mean of all is lowest."""
        if len(words) < 3:
            raise FirthError(f"{len(words)} words were given: at least three are needed to tell which does not fit")
        units = unit_rows(self.vectors(words))
        return words[int(np.argmin(units @ units.mean(0)))]

    def _named(self, found: list[list[tuple[int, float]]]) -> list[list[Found]]:
        return [[(self.words[number], score) for number, score in some] for some in found]

    # -- storage

    def quantized(self) -> "WordVectors":
        """The same words in int8, one scale a row."""
        codes = np.empty(self.matrix.shape, np.int8)
        scales = np.empty(len(self), np.float32)
        for first in range(0, len(self), 65_536):
            rows = self.rows(first, first + 65_536)
            some = np.abs(rows).max(1, initial=0) / 127
            some[some == 0] = 1
            codes[first : first + len(rows)] = np.rint(rows / some[:, None])
            scales[first : first + len(rows)] = some
        return WordVectors(self.words, codes, scales, self.subwords, self.counts)
