"""Counting as a representation. TF-IDF of words and of characters: one sparse row per text, and how two rows are compared.

Words and characters are two blocks. In each a row is (1 + ln tf) · idf with idf = ln((1 + n) / (1 + df)) + 1, of length 1
(scikit-learn's TfidfVectorizer with sublinear_tf); then words weigh 0.7 of what characters do, and 0.4 in a text with Chinese
in it. Two texts u, v are compared as |u - v| and u * v and, for each block, their cosine.

For tags every word has a row of its own: what is seen of the word and of its neighbours.

N texts, F n-grams or features, W words.
"""

import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.models.shared.model import Model
from firth.tokenizers.pieces import sample_texts, word_share
from firth.tokenizers.words import find_words, has_han, split_words, without_invisible

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


_UNKNOWN = 0.9  # only words that several examples have are counted, so that most words of a text may be missing
_SEEN_CHARS = 500  # of a text, by which it is known whether its words are
SPACED = (2, 5)  # characters in an n-gram, from and to
CHINESE = (1, 2)


def cut_text(text: str) -> tuple[list[str], list[str]]:
    """The words in lower case, and the chunks inside of which n-grams of characters are taken."""
    text = text.lower()
    if text.isascii():
        words = find_words(text)
        return words, words
    words = [without_invisible(text[start:end]) for start, end in split_words(text)]
    if not has_han(text):
        return words, words
    return words, [" ".join(text.split())]


def word_ngrams(words: Sequence[str]) -> list[str]:
    """Every word, and every two that stand together unless both are Chinese: characters say those better."""
    pairs = list(map(" ".join, pairwise(words)))
    if "".join(words).isascii():
        return [*words, *pairs]
    return [*words, *(pair for pair in pairs if pair.isascii() or not _both_han(pair))]


def _both_han(pair: str) -> bool:
    return all(map(has_han, pair.split(" ", 1)))


def chunk_ngrams(chunk: str) -> list[str]:
    """The n-grams of characters of a word with a space on either side, or of a text with Chinese in it. A word that is
    shorter than an n-gram counts once, whole."""
    if has_han(chunk):
        shortest, longest, text = *CHINESE, chunk
    else:
        shortest, longest, text = *SPACED, f" {chunk} "
    found = []
    for size in range(shortest, longest + 1):
        if len(text) <= size:
            found.append(text)
            break
        found += [text[start : start + size] for start in range(len(text) - size + 1)]
    return found


VOCABULARY = "ngrams.json"
_MAX_NGRAMS = 200_000  # of a block; the rarest go
_MANY = 2000  # texts: beyond, an n-gram must occur in two of them
_CACHED = 200_000  # words whose n-grams are remembered
_MAX_CACHED = 2_000_000  # n-grams of theirs
_MAX_CHARS = 8_000_000  # characters of all of them
_FEW = 8  # outputs of a linear model
_VERSION = 2  # of the rules by which n-grams are taken
WORDS_WEIGHT, CHINESE_WORDS_WEIGHT = 0.7, 0.4
_COSINE = 4.0  # its weight among the features of a pair: one feature that counts as much as many

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """The n-grams of one kind, and in how many texts each occurs."""

    ngrams: list[str]
    counts: list[int]
    num_texts: int

    @classmethod
    def of_texts(cls, texts: Iterable[Sequence[str]]) -> "Block":
        """``texts`` as their n-grams."""
        counts: Counter[str] = Counter()
        num_texts = 0
        for ngrams in texts:
            counts.update(set(ngrams))
            num_texts += 1
        least = 2 if num_texts > _MANY else 1
        kept = sorted((ngram for ngram, count in counts.items() if count >= least), key=lambda one: (-counts[one], one))
        kept = kept[:_MAX_NGRAMS]
        return cls(kept, [counts[ngram] for ngram in kept], num_texts)

    def idf(self) -> Floats:
        return np.asarray(np.log((1 + self.num_texts) / (1 + np.asarray(self.counts, np.float64))) + 1)


@dataclass(frozen=True)
class Counted:
    """Sparse rows: the number of the row, the feature and its value, entry after entry in the order of the rows."""

    owner_E: Ints
    ids_E: Ints
    values_E: Floats
    num_rows: int
    unknown_N: Sequence[float] = ()  # of texts: the share of what is unknown

    def __len__(self) -> int:
        return self.num_rows

    def matrix(self, width: int) -> "csr_matrix":
        """The same for scipy; the features of a row have to be in rising order."""
        from scipy.sparse import csr_matrix

        starts = np.concatenate(([0], np.cumsum(np.bincount(self.owner_E, minlength=self.num_rows))))
        return csr_matrix((self.values_E, self.ids_E, starts), shape=(self.num_rows, width))

    def scores(self, weights_KF: Floats, bias_K: Floats) -> Floats:
        """[N, K]: what a linear model says of each row, without scipy."""
        found_NK = np.zeros((self.num_rows, len(weights_KF)))
        if len(weights_KF) <= _FEW:
            for place, weights_F in enumerate(weights_KF):
                products_E = self.values_E * weights_F[self.ids_E]
                found_NK[:, place] = np.bincount(self.owner_E, products_E, self.num_rows)
            return found_NK + bias_K
        rows, starts = np.unique(self.owner_E, return_index=True)
        borders = [*starts.tolist(), len(self.owner_E)]
        weights_FK = np.ascontiguousarray(weights_KF.T)
        for row, first, last in zip(rows.tolist(), borders, borders[1:], strict=False):
            found_NK[row] = self.values_E[first:last] @ weights_FK[self.ids_E[first:last]]
        return found_NK + bias_K


class CountsModel(Model):
    """The n-grams of a task's own texts; nothing is learned before the task."""

    unknown_limit = _UNKNOWN
    kind = "counts"
    spec_name = "counts"

    def __init__(self, words: Block, characters: Block) -> None:
        self.words, self.characters = words, characters
        self.dim = len(words.ngrams) + len(characters.ngrams)
        self._word_ids = {ngram: place for place, ngram in enumerate(words.ngrams)}
        first = len(words.ngrams)
        self._character_ids = {ngram: first + place for place, ngram in enumerate(characters.ngrams)}
        self._idf = np.concatenate((words.idf(), characters.idf()))
        self._chunks = _Chunks(self._character_ids)

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> "CountsModel":
        cut = [cut_text(text) for text in texts]
        words = Block.of_texts(word_ngrams(words) for words, _ in cut)
        return cls(words, Block.of_texts([one for chunk in chunks for one in chunk_ngrams(chunk)] for _, chunks in cut))

    @property
    def vocab_size(self) -> int:
        return self.dim

    def _abilities(self) -> set[str]:
        return set()  # what it says of a text is for a task to read

    # -- texts to rows

    def matrix(self, texts: Sequence[str]) -> "csr_matrix":
        """[N, F], sparse."""
        return self.count(texts).matrix(self.dim)

    def count(self, texts: Sequence[str]) -> Counted:
        """The rows of texts, features in rising order."""
        found, owner, unknown = self._occurrences(texts)
        every = np.sort(owner * self.dim + found, kind="stable")  # half sorted already, which this kind makes use of
        first = np.flatnonzero(np.concatenate((np.ones(min(len(every), 1), np.bool_), every[1:] != every[:-1])))
        keys, counts = every[first], np.diff(np.append(first, len(every)))
        owner, ids = np.divmod(keys, max(self.dim, 1))
        values = (1 + np.log(counts.astype(np.float64))) * self._idf[ids]
        part = 2 * owner + (ids >= len(self.words.ngrams))  # words and characters have a length each
        squares = np.bincount(part, values**2, 2 * len(texts))
        weights = [CHINESE_WORDS_WEIGHT if has_han(text) else WORDS_WEIGHT for text in texts]
        lengths = np.stack((np.asarray(weights, np.float64), np.ones(len(texts))), 1).reshape(-1)
        values *= (lengths / np.sqrt(np.maximum(squares, 1e-300)))[part]
        return Counted(owner, ids, values, len(texts), unknown)

    def _occurrences(self, texts: Sequence[str]) -> tuple[Ints, Ints, list[float]]:
        """Every known n-gram as often as it occurs, the number of its text, and what share of each text is unknown."""
        number_of, characters = self._word_ids.get, self._character_ids
        ids, num_ids, unknown = list[int](), list[int](), list[float]()
        chunks_all, num_chunks = list[str](), list[int]()
        for text in texts:
            words, chunks = cut_text(text)
            numbers = list(map(number_of, word_ngrams(words)))
            found = [number for number in numbers if number is not None] if None in numbers else numbers
            ids += cast(list[int], found)
            num_ids.append(len(found))
            chunks_all += chunks
            num_chunks.append(len(chunks))
            if chunks is not words or len(text) > _SEEN_CHARS:
                unknown.append(self.unknown_share([text]))
            elif None not in numbers[: len(words)]:
                unknown.append(0.0)
            else:
                lacking = [word for word, number in zip(words, numbers, strict=False) if number is None]
                unknown.append(sum(word not in characters for word in lacking) / len(words))
        texts_N = np.arange(len(texts))
        parts, lens = self._chunks.rows(chunks_all)
        owners = np.repeat(texts_N, num_ids), np.repeat(np.repeat(texts_N, num_chunks), lens)
        return np.concatenate((np.asarray(ids, np.int64), parts)), np.concatenate(owners), unknown

    def unknown_share(self, texts: Sequence[str]) -> float:
        """Of words; of single characters in Chinese, whose words are not what it counts."""
        units: list[str] = []
        for text in sample_texts(texts):
            words, chunks = cut_text(text[:_SEEN_CHARS])
            units += words if chunks is words else [char for char in chunks[0] if not char.isspace()]
        return word_share(units, lambda unit: unit in self._word_ids or unit in self._character_ids)

    @property
    def pair_dim(self) -> int:
        return 2 * self.dim + 2

    def pair_matrix(self, first: Sequence[str], second: Sequence[str]) -> "csr_matrix":
        """[N, 2 F + 2]: |u - v|, u * v, and the two cosines."""
        from scipy.sparse import csr_matrix, hstack

        one, other = self.matrix(first), self.matrix(second)
        shared = one.multiply(other).tocsr()
        border = len(self.words.ngrams)
        cosines = np.concatenate((shared[:, :border].sum(1), shared[:, border:].sum(1)), 1)
        return hstack([abs(one - other), shared, csr_matrix(_COSINE * np.asarray(cosines))]).tocsr()

    def count_pairs(self, first: Sequence[str], second: Sequence[str]) -> Counted:
        """The rows of ``pair_matrix`` without scipy."""
        one, other, size = self.count(first), self.count(second), max(self.dim, 1)
        sides = [side.owner_E * size + side.ids_E for side in (one, other)]
        keys = np.union1d(*sides)
        values_2E = np.zeros((2, len(keys)))
        for side, own, counted in zip(values_2E, sides, (one, other), strict=True):
            side[np.searchsorted(keys, own)] = counted.values_E
        owner, ids = np.divmod(keys, size)
        product = values_2E[0] * values_2E[1]
        words = ids < len(self.words.ngrams)
        rows = np.arange(len(first))
        cosines = [_COSINE * np.bincount(owner, product * some, len(first)) for some in (words, ~words)]
        features = np.concatenate((ids, self.dim + ids, *(np.full(len(rows), 2 * self.dim + one) for one in (0, 1))))
        owners, values = np.concatenate((owner, owner, rows, rows)), (np.abs(values_2E[0] - values_2E[1]), product)
        order = np.argsort(owners, kind="stable")
        every = np.concatenate((*values, *cosines))
        return Counted(owners[order], features[order], every[order], len(first), one.unknown_N)

    # -- on disk

    def save(self, folder: Path) -> None:
        blocks = {"words": self.words, "characters": self.characters}
        written = {name: vars(block) for name, block in blocks.items()}
        write_json(folder / VOCABULARY, {"version": _VERSION, **written})

    @classmethod
    def load(cls, folder: Path) -> "CountsModel":
        path = folder / VOCABULARY
        data = read_json(path)
        blocks = [_read_block(data.get(name) if isinstance(data, dict) else None) for name in ("words", "characters")]
        words, characters = blocks
        if words is None or characters is None:
            raise FirthError(f"{path}: not a list of n-grams and their counts; train the task again")
        if data.get("version") != _VERSION:
            raise FirthError(f"{path}: n-grams by the rules of another version of Firth; train the task again")
        return cls(words, characters)


def _read_block(data: object) -> Block | None:
    if not isinstance(data, dict):
        return None
    ngrams, counts, num_texts = (data.get(name) for name in ("ngrams", "counts", "num_texts"))
    if not isinstance(ngrams, list) or not isinstance(counts, list) or not isinstance(num_texts, int):
        return None
    sound = len(ngrams) == len(counts) and all(isinstance(one, str) for one in ngrams)
    return Block(ngrams, counts, num_texts) if sound and all(type(count) is int for count in counts) else None


# -- words of a sentence

_MAX_FEATURES = 400_000  # the rarest go
_MANY_WORDS = 20_000  # beyond, a feature must be seen twice
_AFFIXES = (1, 2, 3, 4)  # characters
_SHAPES = str.maketrans("0123456789", "0" * 10)


def word_shape(word: str) -> str:
    """Capitals as X, small letters as x, digits as 0, runs of more than two cut: ``McDonald's`` is ``XxXxx'x``."""
    found = ""
    for char in word.translate(_SHAPES):
        one = "X" if char.isupper() else "x" if char.islower() else char
        found += "" if found[-2:] == one + one else one
    return found


def word_features(words: Sequence[str]) -> list[list[str]]:
    """Of each word: itself, its affixes and shape, the two words on either side, pairs and shapes of neighbours; of Chinese
    characters longer n-grams in the place of affixes."""
    lower = ["<<", "<", *(word.lower() for word in words), ">", ">>"]
    shapes = ["<", *map(word_shape, words), ">"]
    found = []
    for place, word in enumerate(words):
        before2, before, own, after, after2 = lower[place : place + 5]
        left, shape, right = shapes[place : place + 3]
        one = [f"w{word}", f"l{own}", f"h{shape}", f"-{before}", f"+{after}", f"--{before2}", f"++{after2}"]
        one += [f"b{before} {own}", f"a{own} {after}", f"H{left} {shape} {right}"]
        if len(own) == 1 and has_han(own):
            one += [f"B{before2} {before}", f"A{after} {after2}", f"T{before} {own} {after}"]
        else:
            one += [f"p{own[:size]}" for size in _AFFIXES if size < len(own)]
            one += [f"s{own[-size:]}" for size in _AFFIXES if size < len(own)]
        found.append(one)
    return found


class WordCounts(Model):
    """The features of the words of a task's own sentences, as their CRC-32; nothing is learned before the task."""

    unknown_limit = _UNKNOWN
    kind = "counts"
    spec_name = "counts"

    def __init__(self, keys: Ints) -> None:
        """``keys`` in rising order."""
        self.keys = keys
        self.dim = len(keys)

    @classmethod
    def of_sentences(cls, sentences: Sequence[Sequence[str]]) -> "WordCounts":
        keys = np.concatenate([np.zeros(0, np.int64), *(_feature_keys(words)[0] for words in sentences)])
        found, counts = np.unique(keys, return_counts=True)
        kept = counts >= (2 if sum(map(len, sentences)) > _MANY_WORDS else 1)
        found, counts = found[kept], counts[kept]
        common = np.argsort(-counts, kind="stable")[:_MAX_FEATURES]
        return cls(np.sort(found[common]))

    @property
    def vocab_size(self) -> int:
        return self.dim

    def _abilities(self) -> set[str]:
        return set()

    def matrix(self, sentences: Sequence[Sequence[str]]) -> "csr_matrix":
        """[W, F], sparse: 1 for each feature of each word, sentence after sentence."""
        return self.count(sentences).matrix(self.dim)

    def count(self, sentences: Sequence[Sequence[str]]) -> Counted:
        """The same rows, of words."""
        read = [_feature_keys(words) for words in sentences]
        keys = np.concatenate([np.zeros(0, np.int64), *(keys for keys, _ in read)])
        lens = np.concatenate([np.zeros(0, np.int64), *(lens for _, lens in read)])
        owner = np.repeat(np.arange(len(lens)), lens)
        places = np.minimum(np.searchsorted(self.keys, keys), max(self.dim - 1, 0))
        known = self.keys[places] == keys if self.dim else np.zeros(len(keys), bool)
        found = np.unique(owner[known] * max(self.dim, 1) + places[known])
        owner, ids = np.divmod(found, max(self.dim, 1))
        return Counted(owner, ids, np.ones(len(found)), len(lens))

    def knows(self, word: str) -> bool:
        """Whether the word itself was there."""
        key = zlib.crc32(f"l{word.lower()}".encode("utf-8", "surrogatepass"))
        place = int(np.searchsorted(self.keys, key))
        return place < self.dim and int(self.keys[place]) == key


def _feature_keys(words: Sequence[str]) -> tuple[Ints, Ints]:
    """The features of all words one after the other, and how many each word has."""
    read = word_features(words)
    keys = [zlib.crc32(one.encode("utf-8", "surrogatepass")) for found in read for one in found]
    return np.asarray(keys, np.int64), np.asarray([len(found) for found in read], np.int64)


class _Chunks:
    """The known n-grams of characters of chunks, each looked up once: they stand one chunk after another in one array."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self.known, self._lock = known, threading.Lock()
        self._clear()

    def __reduce__(self) -> tuple[type["_Chunks"], tuple[Mapping[str, int]]]:
        return _Chunks, (self.known,)

    def _clear(self) -> None:
        self.numbers: dict[str, int] = {}
        self.num_ngrams = self.num_chars = 0
        self.flat, self.starts, self.lens = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)

    def rows(self, chunks: Sequence[str]) -> tuple[Ints, Ints]:
        """The n-grams of all chunks one after another, and how many each has."""
        with self._lock:
            found = list(map(self.numbers.get, chunks))
            if None in found:
                self._add([chunk for chunk in dict.fromkeys(chunks) if chunk not in self.numbers])
                found = list(map(self.numbers.get, chunks))
            which = np.asarray(found, np.int64)
            starts, lens, flat = self.starts[which], self.lens[which], self.flat
            if len(self.numbers) > _CACHED or self.num_ngrams > _MAX_CACHED or self.num_chars > _MAX_CHARS:
                self._clear()
        within = np.arange(int(lens.sum())) - np.repeat(np.cumsum(lens) - lens, lens)
        return flat[np.repeat(starts, lens) + within], lens

    def _add(self, chunks: Sequence[str]) -> None:
        rows = [[self.known[one] for one in chunk_ngrams(chunk) if one in self.known] for chunk in chunks]
        lens, first = np.asarray([len(row) for row in rows], np.int64), len(self.numbers)
        self.numbers.update(zip(chunks, range(first, first + len(chunks)), strict=True))
        self.starts = _appended(self.starts, first, self.num_ngrams + np.cumsum(lens) - lens)
        self.lens = _appended(self.lens, first, lens)
        added = np.asarray([number for row in rows for number in row], np.int64)
        self.flat = _appended(self.flat, self.num_ngrams, added)
        self.num_ngrams += len(added)
        self.num_chars += sum(map(len, chunks))


def _appended(array: Ints, used: int, more: Ints) -> Ints:
    """The array with more values after those that are used; where there is no room, twice as large."""
    if used + len(more) > len(array):
        array = np.concatenate((array[:used], np.zeros(used + 2 * len(more), np.int64)))
    array[used : used + len(more)] = more
    return array
