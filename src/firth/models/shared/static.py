"""A lookup table as a model: one vector a word, whatever stands around it (word2vec, fastText, GloVe, or random vectors).

B batch, T tokens, D width, V words.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, Later
from firth.core.files import read_json, write_json
from firth.core.run import Run
from firth.core.types import Encoding, TextReader, generator
from firth.models.shared.model import Found, Model, TextLayers, require_pool
from firth.tokenizers.pieces import READ, UNKNOWN_WORDS, Pieces, sample_texts, word_share
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.word_tokens import AnyTokens, WordTokens, white_spans
from firth.tokenizers.words import without_invisible
from firth.vectors.formats import load_vectors
from firth.vectors.trainer import load_run
from firth.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from firth.nn import lookup
else:
    lookup = Later("firth.nn.lookup")

_UNKNOWN = 1  # the number of words without a row


def words_of(
    text: str | list[str], whitespace_only: bool = False, segmentation: Segmentation = PLAIN
) -> tuple[list[str], NDArray[np.int64]]:
    """The words of a text (or those given) with their characters in it; given ones as if a space stood between."""
    if not isinstance(text, list):
        spans = white_spans(text) if whitespace_only else segmentation.split(text)
        words = [text[start:end] for start, end in spans]
        return words if whitespace_only else list(map(without_invisible, words)), np.asarray(spans, np.int64).reshape(
            -1, 2
        )
    ends = np.cumsum([len(word) + 1 for word in text]) - 1 if text else np.zeros(0, np.int64)
    starts = ends - np.asarray([len(word) for word in text], np.int64)
    return text, np.stack((starts, ends), axis=1).astype(np.int64)


class StaticModel(Model):
    """What ``firth.load`` gives for word2vec, fastText, GloVe and files of vectors."""

    kind = "static vectors"
    spec_name = "word2vec"
    text_loss = "sif"
    unknown_limit = UNKNOWN_WORDS

    def __init__(
        self,
        vectors: WordVectors,
        whitespace_only: bool = False,
        pieces: Pieces | None = None,
        segmentation: Segmentation = PLAIN,
    ) -> None:
        """``whitespace_only``, ``pieces``, ``segmentation``: texts are parted as those that the vectors were learned from."""
        self._segmentation = segmentation
        self._words: WordTokens | None = None
        self.vectors, self.whitespace_only, self.pieces = vectors, whitespace_only, pieces
        self.dim = vectors.dim

    def _cut(self, text: str | list[str]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """The words or pieces of a text, their characters in it, and which word of the text each belongs to."""
        if self.pieces is not None:
            found = self.pieces.encode(text, add_special=False, read_special=False)
            return found.tokens, found.offsets, found.words
        words, offsets = words_of(text, self.whitespace_only, self.segmentation)
        return words, offsets, np.arange(len(words))

    @property
    def num_parameters(self) -> int:
        """Of the words and, where there are any, of their n-grams."""
        return len(self.vectors) * self.vectors.dim + self.subword_parameters

    @property
    def subword_parameters(self) -> int:
        subwords = self.vectors.subwords
        return 0 if subwords is None else int(subwords.rows.size)

    @property
    def vocab_size(self) -> int:
        return len(self.vectors)

    def _abilities(self) -> set[str]:
        return super()._abilities() | {"nearest", "analogy"}

    @property
    def tokenizer(self) -> AnyTokens:
        """Its words as tokens, numbered as its vectors are, after two marks."""
        if self.pieces is not None:
            return self.pieces
        if self._words is None:
            self._words = WordTokens(list(self.vectors.words), False, self.whitespace_only, self._segmentation)
        return self._words

    @property
    def segmentation(self) -> Segmentation:
        return self._segmentation if self.pieces is None else self.pieces.segmentation

    def _row(self, word: str) -> NDArray[np.float32] | None:
        """The word's vector as it is written, else in lower case, else made of its n-grams."""
        for form in (word, word.lower()):
            if form in self.vectors:
                return self.vectors[form]
        return self.vectors[word] if self.vectors.subwords is not None else None

    def layers(self, text: str | list[str]) -> TextLayers:
        """One layer; zeros for words that nobody knows."""
        words, offsets, places = self._cut(text)
        hidden = np.zeros((1, len(words), self.dim), np.float32)
        for place, word in enumerate(words):
            row = self._row(word)
            if row is not None:
                hidden[0, place] = row
        return TextLayers(words, offsets, places, hidden)

    def reader(self) -> TextReader:
        """The table for a task. Words that the table lacks but n-grams can spell get rows as they are met."""

        known = self.vectors
        table = np.zeros((len(known) + 2, self.dim), np.float32)
        table[2:] = known.rows(0, len(known))
        module = lookup.Lookup(table)
        numbers = {word: place + 2 for place, word in enumerate(known.words)}

        def number_of(word: str) -> int:
            for form in (word, word.lower()):
                if form in numbers:
                    return numbers[form]
            if known.subwords is None:
                return _UNKNOWN
            numbers[word] = module.add(known[word])
            return numbers[word]

        def tokenize(text: str | list[str]) -> Encoding:
            words, offsets, places = self._cut(text)
            ids = np.asarray([number_of(word) for word in words], np.int64)
            READ.add(ids, _UNKNOWN, UNKNOWN_WORDS)
            return Encoding(ids, offsets, places, words, np.zeros(len(words), np.int64))

        return TextReader(self.kind, module, tokenize, self.dim, num_layers=1, max_len=None, unk_id=_UNKNOWN)

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        """The mean (or largest) of the vectors of the known words of each text."""
        require_pool(pool, self.pools)
        if layer not in (-1, 0):
            raise FirthError(f"layer {layer} does not exist: static vectors have layer 0 only")
        found = np.zeros((len(texts), self.dim), np.float32)
        for place, text in enumerate(texts):
            words, _, _ = self._cut(text)
            rows = [row for word in words if (row := self._row(word)) is not None]
            if rows:
                found[place] = np.mean(rows, axis=0) if pool == "mean" else np.max(rows, axis=0)
        return found

    def unknown_share(self, texts: Sequence[str]) -> float:
        if self.vectors.subwords is not None:
            return 0.0
        words = [word for text in sample_texts(texts) for word in self._cut(text)[0]]
        return word_share(words, lambda word: word in self.vectors or word.lower() in self.vectors)

    def nearest(self, word: str, top: int = 10) -> list[Found]:
        return self.vectors.nearest(word, top)

    def similarity(self, first: str, second: str) -> float:
        return self.vectors.similarity(first, second)

    def analogy(self, first: str, second: str, third: str, top: int = 10, method: Any = "add") -> list[Found]:
        return self.vectors.analogy(first, second, third, top, method)

    def sentence_base(self, texts: Callable[[], list[str]], normalize: bool) -> Model:
        """A table of its words, and of those in the texts where it can spell words."""
        from firth.models.shared.token_table import table_of_words

        met: Counter[str] = Counter()
        if self.pieces is None and self.vectors.subwords is not None:
            met.update(word for text in texts() for word in words_of(text, self.whitespace_only, self.segmentation)[0])
        return table_of_words(self.vectors, self.pieces, met, normalize)


_FILE = "words.json"
_SPREAD = 0.1


class ScratchModel(Model):
    """What every other one has to beat."""

    kind = "scratch"
    spec_name = "scratch"

    def __init__(self, words: list[str], dim: int, seed: int = 0) -> None:
        self.words, self.dim, self.seed = words, dim, seed

    @classmethod
    def of_texts(
        cls, texts: Iterable[str | list[str]], dim: int = 100, seed: int = 0, max_words: int = 50_000
    ) -> "ScratchModel":
        """Words that occur at least twice, the most frequent first."""
        counts = Counter(word.lower() for text in texts for word in words_of(text)[0])
        often = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
        return cls(often[:max_words], dim, seed)

    @property
    def num_parameters(self) -> int:
        return (len(self.words) + 2) * self.dim

    @property
    def vocab_size(self) -> int:
        return len(self.words)

    def _abilities(self) -> set[str]:
        return set()  # it knows nothing yet

    def reader(self) -> TextReader:
        random = generator(self.seed, 0x5C7A)
        table = (_SPREAD * random.standard_normal((len(self.words) + 2, self.dim))).astype(np.float32)
        table[0] = 0
        numbers = {word: place + 2 for place, word in enumerate(self.words)}

        def tokenize(text: str | list[str]) -> Encoding:
            words, offsets = words_of(text)
            ids = np.asarray([numbers.get(word.lower(), _UNKNOWN) for word in words], np.int64)
            READ.add(ids, _UNKNOWN, UNKNOWN_WORDS)
            return Encoding(ids, offsets, np.arange(len(words)), words, np.zeros(len(words), np.int64))

        return TextReader(
            self.kind, lookup.Lookup(table), tokenize, self.dim, num_layers=1, max_len=None, unk_id=_UNKNOWN
        )

    def save(self, folder: Path) -> None:
        write_json(folder / _FILE, {"dim": self.dim, "seed": self.seed, "words": self.words})

    @classmethod
    def load(cls, folder: Path) -> "ScratchModel":
        data = read_json(folder / _FILE)
        if not isinstance(data, dict) or not isinstance(data.get("words"), list):
            raise FirthError(f"{folder / _FILE}: not a list of words; train the task again")
        return cls([str(word) for word in data["words"]], int(data["dim"]), int(data["seed"]))


def load_static(path: Path) -> StaticModel:
    """A finished run of static vectors, or a file of vectors."""
    if not path.is_dir():
        return StaticModel(load_vectors(path))
    pieces = Pieces.load(path) if (path / "tokenizer.json").is_file() else None
    whitespace_only = Run.open(path).record.word_split == "whitespace"
    return StaticModel(load_run(path), whitespace_only, pieces, Segmentation.load(path))


class ExtraVectors(NamedTuple):
    """Word vectors, and where they were read from."""

    vectors: StaticModel
    path: Path


def read_with_vectors(reader: TextReader, vectors: StaticModel) -> TextReader:
    """The reader with a word's vector for each of its tokens; the vectors do not learn."""
    words = vectors.reader()
    assert isinstance(words.module, lookup.Lookup)

    def tokenize(text: str | list[str]) -> Encoding:
        found = reader.tokenize(text)
        spelt = words.tokenize(_spelt(found, text)).ids
        return replace(found, ids=lookup.join_ids(found.ids, spelt[np.cumsum(_first(found.words)) - 1]))

    module = lookup.WithExtraVectors(reader.module, words.module)
    return replace(reader, module=module, tokenize=tokenize, pooler=None, extra_dim=vectors.dim)


def _first(words_T: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a word begins."""
    found = np.ones(len(words_T), np.bool_)
    found[1:] = words_T[1:] != words_T[:-1]
    return found


def _spelt(encoding: Encoding, text: str | list[str]) -> list[str]:
    """The words that tokens belong to, as they stand in the text."""
    starts = np.flatnonzero(_first(encoding.words)).tolist()
    if isinstance(text, list):
        return [text[int(encoding.words[start])] for start in starts]
    ends = [*starts[1:], len(encoding.words)] if starts else []
    return [
        text[int(encoding.offsets[start, 0]) : int(encoding.offsets[end - 1, 1])].strip()
        for start, end in zip(starts, ends, strict=True)
    ]
