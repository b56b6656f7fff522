"""The tokens of a corpus as a language model numbers them: pieces as they are, words as a view by frequency.

A corpus of words keeps all types; how many of them a model knows is decided when it is trained.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.corpus.format import Corpus, Split
from firth.tokenizers.characters import border_ids, character_ids, trimmed
from firth.tokenizers.word_tokens import AnyTokens, WordTokens


@dataclass(frozen=True)
class TokenView:
    """Token ids of a model, from those of a corpus."""

    corpus: Corpus
    tokens: AnyTokens
    eos_id: int  # ends a text
    lookup: NDArray[np.int64] | None = None  # id in the corpus to id in the model; none where they are the same

    def ids(self, found: NDArray[np.integer]) -> NDArray[np.int64]:
        numbers = np.asarray(found, np.int64)
        return numbers if self.lookup is None else self.lookup[numbers]

    def counts(self, unit: str = "document") -> NDArray[np.int64]:
        """How often each token occurs in the training text, the end once a unit (document or sentence)."""
        size = self.tokens.vocab_size
        if self.lookup is None:
            total = _count(self.corpus.train, size)
        else:
            total = np.zeros(size, np.int64)
            types = np.fromfile(self.corpus.folder / "tokenizer" / "counts.bin", np.int64)
            np.add.at(total, self.lookup, types)
        train = self.corpus.info.train
        total[self.eos_id] += train.sentences if unit == "sentence" else train.documents
        return total


def _count(split: Split, size: int) -> NDArray[np.int64]:
    total = np.zeros(size, np.int64)
    for start in range(0, len(split.tokens), 1 << 22):
        total += np.bincount(split.tokens[start : start + (1 << 22)], minlength=size)
    return total


def read_types(corpus: Corpus) -> list[str]:
    """Every type of a corpus of words; only a line feed ends one."""
    return (corpus.folder / "tokenizer" / "words.txt").read_bytes().decode().split("\n")[:-1]


def view_tokens(corpus: Corpus, min_count: int, max_vocab: int | None) -> TokenView:
    """``min_count`` and ``max_vocab`` (marks not counted) choose among words; pieces are all taken."""
    if corpus.info.tokens.kind != "words":
        pieces = corpus.pieces
        if pieces.eos_id is None:
            raise FirthError(
                f"{corpus.folder}: its tokenizer has no token that ends a text; prepare it with --tokens bpe, unigram or wordpiece"
            )
        return TokenView(corpus, pieces, pieces.eos_id)
    counts = np.fromfile(corpus.folder / "tokenizer" / "counts.bin", np.int64)
    size = int(np.searchsorted(-counts, -max(min_count, 1), side="right"))
    size = size if max_vocab is None else min(size, max_vocab)
    if not size:
        most = int(counts[0]) if len(counts) else 0
        raise FirthError(
            f"{corpus.folder}: no word occurs {min_count} times (the most frequent one {most} times); lower min_count or give more text"
        )
    types, rules = read_types(corpus), corpus.info.tokens
    tokens = WordTokens(types[:size], rules.lowercase, rules.word_split == "whitespace")
    return view_as(corpus, tokens)


def view_as(corpus: Corpus, tokens: WordTokens) -> TokenView:
    """A corpus of words in the numbers of a list that exists already."""
    return TokenView(corpus, tokens, tokens.eos_id, tokens.numbers(read_types(corpus)))


MARKS = ["<S>", "</S>", "<UNK>"]


class Spellings:
    """All types of a corpus, and the words that a softmax knows (most of them types, but not all need be)."""

    def __init__(self, words: list[str], known: list[str], max_chars: int) -> None:
        """``known`` is without the marks."""
        self.max_chars = max_chars
        self.known_words = MARKS + known
        place = {word: number for number, word in enumerate(words)}
        more = [word for word in known if word not in place]
        self.words = words + more
        place |= {word: len(words) + number for number, word in enumerate(more)}
        self.begin, self.end, self.unknown = range(len(self.words), len(self.words) + 3)
        self._type_of = np.asarray([self.begin, self.end, self.unknown, *(place[word] for word in known)], np.int64)
        self._known_of = np.full(len(self.words) + 3, 2, np.int64)
        self._known_of[self._type_of] = np.arange(len(self._type_of))

    @property
    def num_known(self) -> int:
        return len(self.known_words)

    def known(self, types: NDArray[np.int64]) -> NDArray[np.int64]:
        """Types to what a softmax predicts."""
        return self._known_of[types]

    def types(self, known: NDArray[np.int64]) -> NDArray[np.int64]:
        """And back."""
        return self._type_of[known]

    @cached_property
    def _table(self) -> NDArray[np.uint16]:
        spelt = np.empty((len(self.words) + 3, self.max_chars), np.uint16)
        for start in range(0, len(self.words), 65536):
            some = self.words[start : start + 65536]
            spelt[start : start + len(some)] = character_ids(some, self.max_chars)
        spelt[self.begin : self.unknown] = border_ids(self.max_chars)
        spelt[self.unknown] = character_ids([MARKS[2]], self.max_chars)[0]
        return spelt

    def characters(self, types: NDArray[np.int64], widest: int) -> NDArray[np.int64]:
        """[N, M] as published, with no more padding than a convolution of that width can tell apart."""
        return trimmed(self._table[types], widest).astype(np.int64)
