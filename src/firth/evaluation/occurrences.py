"""Words in context: the occurrences in a corpus that are most similar to a word in its sentence, and maps of words.

Vectors of words in context separate the senses of a word (Peters et al. 2018, table 4). Sentences are
read one after another and only the best are kept, so the corpus may be of any size.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.corpus.format import Corpus
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import find_sources
from firth.models.shared.model import Model, TextLayers, require_layer
from firth.reports.page import principal_plane
from firth.tokenizers.sentences import split_sentences
from firth.tokenizers.word_tokens import join_words
from firth.vectors.vocabulary import read_words

_BLOCK = 64


@dataclass(frozen=True)
class Occurrence:
    """A word in its sentence, and its cosine similarity to the query."""

    word: str
    score: float
    sentence: str
    start: int  # characters of the sentence
    end: int


@dataclass(frozen=True)
class SentenceWords:
    """The words of a sentence with a unit vector each."""

    sentence: str
    spans: list[tuple[int, int]]
    units: NDArray[np.float32]  # [words, D]

    def word(self, place: int) -> str:
        start, end = self.spans[place]
        return self.sentence[start:end]

    def find(self, word: str) -> int:
        """The index of the first occurrence of a word."""
        for place in range(len(self.spans)):
            if self.word(place).lower() == word.lower():
                return place
        words = ", ".join(dict.fromkeys(self.word(place) for place in range(len(self.spans))))
        raise FirthError(f"the word '{word}' is not in the sentence; its words are: {words}")

    def key(self) -> int:
        """A hash of the words, to find repeated sentences."""
        return hash(tuple(self.word(place).lower() for place in range(len(self.spans))))


def find_occurrences(
    model: Model,
    source: Path,
    sentence: str,
    word: str,
    top: int = 10,
    layer: int = -1,
    num_sentences: int = 2000,
    same_word: bool = False,
) -> list[Occurrence]:
    """The most similar occurrences, best first; with ``same_word`` only those of the word itself."""
    read = model.layers(sentence)
    require_layer(layer, len(read.hidden))
    return _nearest(model, source, sentence, read, word, top, [layer], num_sentences, same_word)[0]


def neighbours_by_layer(
    model: Model, source: Path, sentence: str, word: str, top: int = 5, num_sentences: int = 500
) -> list[list[Occurrence]]:
    """The most similar occurrences in each layer, from the token layer to the last: how the meaning of a word in its
    sentence becomes clear. No word is named twice in a layer."""
    read = model.layers(sentence)
    layers = list(range(len(read.hidden)))
    found = _nearest(model, source, sentence, read, word, 10 * top, layers, num_sentences)
    return [_distinct(some)[:top] for some in found]


def _distinct(found: list[Occurrence]) -> list[Occurrence]:
    """The best occurrence of each word."""
    first: dict[str, Occurrence] = {}
    for one in found:
        first.setdefault(one.word.lower(), one)
    return list(first.values())


def _nearest(
    model: Model,
    source: Path,
    sentence: str,
    read: TextLayers,
    word: str,
    top: int,
    layers: Sequence[int],
    num_sentences: int,
    same_word: bool = False,
) -> list[list[Occurrence]]:
    """For each of some layers; every sentence is read once."""
    asked = [words_in(sentence, read, layer) for layer in layers]
    units = [one.units[one.find(word)] for one in asked]
    best: list[list[tuple[float, int, Occurrence]]] = [[] for _ in layers]
    number = 0
    seen = {asked[0].key()}  # repeated sentences are skipped
    for by_layer in _read(model, islice(read_sentences(source), num_sentences), layers):
        if by_layer[0].key() in seen:
            continue
        seen.add(by_layer[0].key())
        for found, unit, kept in zip(by_layer, units, best, strict=True):
            for place, score in enumerate((found.units @ unit).tolist()):
                name = found.word(place)
                if name.lower() != word.lower() if same_word else not any(map(str.isalnum, name)):
                    continue
                if len(kept) < top or score > kept[0][0]:
                    number -= 1  # ties: the first one stays
                    entry = (score, number, Occurrence(name, score, found.sentence, *found.spans[place]))
                    (heapq.heappush if len(kept) < top else heapq.heapreplace)(kept, entry)
    return [[occurrence for _, _, occurrence in sorted(kept, reverse=True)] for kept in best]


def read_sentences(source: Path) -> Iterator[str | list[str]]:
    """The sentences of a corpus (held-out ones first) or of files of text; those of a word corpus as words."""
    if not (source / "corpus.json").is_file():
        for document in read_documents(find_sources([str(source)]), ReadingConfig(), "rename the column"):
            spans = document.sentences if document.sentences is not None else split_sentences(document.text)
            yield from (document.text[start:end] for start, end in spans)
        return
    corpus = Corpus.open(source, verify=False)
    types = np.asarray(read_words(source / "tokenizer" / "words.txt")) if corpus.info.tokens.kind == "words" else None
    for split in (corpus.heldout, corpus.train):
        for first, last in zip(split.sentences[:-1].tolist(), split.sentences[1:].tolist(), strict=True):
            ids = split.tokens[first:last]
            yield corpus.pieces.decode(ids.tolist()) if types is None else types[ids].tolist()


def _read(model: Model, texts: Iterator[str | list[str]], layers: Sequence[int]) -> Iterator[list[SentenceWords]]:
    """The words of each sentence in each of some layers, computed in blocks."""
    while some := list(islice(texts, _BLOCK)):
        for text, found in zip(some, model.layers_of(some), strict=True):
            yield [words_in(text, found, layer) for layer in layers]


def words_in(text: str | list[str], layers: TextLayers, layer: int) -> SentenceWords:
    require_layer(layer, len(layers.hidden))
    numbers, units = _word_vectors(layers, layer)
    if isinstance(text, str):
        spans = [_trimmed(text, *_span(layers, number)) for number in numbers]
        return SentenceWords(text, spans, units)
    sentence = join_words(text)
    starts, at = [], 0
    for word in text:
        starts.append(sentence.index(word, at))
        at = starts[-1] + len(word)
    return SentenceWords(sentence, [(starts[number], starts[number] + len(text[number])) for number in numbers], units)


def _word_vectors(layers: TextLayers, layer: int) -> tuple[list[int], NDArray[np.float32]]:
    """The indices of the words, and the normalised mean of each word's tokens."""
    inside = layers.words >= 0
    numbers, places = np.unique(layers.words[inside], return_inverse=True)
    sums = np.zeros((len(numbers), layers.hidden.shape[-1]), np.float64)
    np.add.at(sums, places, layers.hidden[layer][inside])
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return numbers.tolist(), (sums / np.maximum(lengths, 1e-12)).astype(np.float32)


def _span(layers: TextLayers, number: int) -> tuple[int, int]:
    offsets = layers.offsets[layers.words == number]
    return int(offsets[:, 0].min()), int(offsets[:, 1].max())


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the white space that some tokenizers include in a word."""
    word = text[start:end]
    return start + len(word) - len(word.lstrip()), end - len(word) + len(word.rstrip())


@dataclass(frozen=True)
class WordMap:
    """Known words with their coordinates in the plane, and words without a vector."""

    words: list[str]
    places: NDArray[np.float64]  # [N, 2]
    missing: list[str]


@dataclass(frozen=True)
class ContextMap:
    """One word of each sentence: its span, its coordinates in the plane, and its cosine similarities to the others."""

    spans: list[tuple[int, int]]
    places: NDArray[np.float64]  # [N, 2]
    similarity: NDArray[np.float64]  # [N, N]


def map_words(model: Model, words: Sequence[str]) -> WordMap:
    """Words in the plane of the first two principal components of their normalised vectors."""
    distinct = list(dict.fromkeys(words))
    vectors = model.encode(distinct)
    lengths = np.linalg.norm(vectors, axis=1)
    known = np.flatnonzero(lengths > 0)
    if len(known) < 2:
        raise FirthError("a map needs at least two words that the model knows: give other words")
    units = vectors[known] / lengths[known, None]
    missing = [distinct[place] for place in np.flatnonzero(lengths == 0)]
    return WordMap([distinct[place] for place in known], principal_plane(units), missing)


def map_context(model: Model, sentences: Sequence[tuple[str, str]], layer: int = -1) -> ContextMap:
    """The same or different words in several sentences, given as (text, word)."""
    spans, units = [], []
    for (text, word), layers in zip(sentences, model.layers_of([text for text, _ in sentences]), strict=True):
        found = words_in(text, layers, layer)
        place = found.find(word)
        spans.append(found.spans[place])
        units.append(found.units[place])
    units_ND = np.stack(units)
    similarity = units_ND.astype(np.float64) @ units_ND.T.astype(np.float64)
    return ContextMap(spans, principal_plane(units_ND), similarity)
