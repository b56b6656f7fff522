"""A split as one stream of tokens, and the ways to read it: side by side with a carried state, or in single rows.

``TokenStream``  all text of a split in the order of an epoch, each document (or sentence) followed by its end tokens
``Streams``      its parts, one for each row of a batch, read side by side in windows of ``seq_len`` tokens
``StreamRows``   rows cut from it one after another, in random order, for models that carry no state

A model that carries a state (or a memory) must be given text in order: batch k is window k of every part, and the
next batch continues where it ended. Everything is a pure function of (seed, number), so what a model carries is all
that a checkpoint has to keep.

``TokenView`` maps token ids of the corpus to those of the model: pieces as they are, words by frequency (a corpus of
words keeps all types; a model chooses how many it knows).

B streams, T positions of a window, U units of text.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firth.core.errors import FirthError
from firth.core.types import generator, hashed, uniform
from firth.corpus.format import Corpus, Split, each_epoch
from firth.tokenizers.segmentation import Segmentation
from firth.tokenizers.word_tokens import AnyTokens, WordTokens
from firth.tokenizers.words import border_ids, character_ids, trimmed

_ROW_SHIFT, _ROW_ORDER = 41, 42  # what the random numbers here are for
_WHOLE_PROB, _LEN_DEVIATION, _SHORTEST = 0.95, 5.0, 5
Ids = NDArray[np.int64]
MARKS = ["<S>", "</S>", "<UNK>"]


class Located(NamedTuple):
    """The unit of text at each position of a stream, and the place in it; all of the same shape."""

    unit: Ids  # its number in the order of the epoch
    start: Ids  # where it begins among the tokens of the split
    len: Ids  # its tokens
    offset: Ids  # the place in it; from ``len`` on there are its end tokens

    @property
    def is_end(self) -> NDArray[np.bool_]:
        return self.offset >= self.len


class TokenStream:
    """All tokens of a split, ``ends`` behind each unit of text; nothing is copied before it is read."""

    def __init__(
        self,
        split: Split,
        ends: tuple[int, ...],
        unit: Literal["document", "sentence"] = "document",
        shuffle_key: tuple[int, ...] | None = None,
        lookup: Ids | None = None,
    ) -> None:
        """With a ``shuffle_key`` documents are in a new order in every epoch, else always in that of the corpus.
        ``lookup`` turns tokens of the corpus into those of the model, where they are numbered otherwise."""
        self.tokens = split.tokens
        self.ends = np.asarray(ends, np.int64)
        self.shuffle_key, self.lookup = shuffle_key, lookup
        self.starts = np.asarray(split.sentences if unit == "sentence" else split.document_starts)
        self._documents = np.asarray(split.documents) if unit == "sentence" else np.arange(len(self.starts))  # in units
        self._layout = each_epoch(self._draw_layout)

    def __len__(self) -> int:
        return int(self.starts[-1]) + len(self.ends) * (len(self.starts) - 1) if len(self.starts) else 0

    def borders(self, epoch: int = 0) -> Ids:
        """[U+1] where each unit begins in the stream of an epoch, and where the last one ends."""
        return self._layout(epoch if self.shuffle_key else 0)[1]

    def locate(self, positions: Ids, epoch: int = 0) -> Located:
        order, borders = self._layout(epoch if self.shuffle_key else 0)
        number = np.searchsorted(borders, positions, side="right") - 1
        unit = order[number]
        start = self.starts[unit]
        return Located(number, start, self.starts[unit + 1] - start, positions - borders[number])

    def read(self, positions: Ids, epoch: int = 0) -> Ids:
        """The tokens at these positions, of any shape; position -1 is an end before the first unit."""
        at = self.locate(np.maximum(positions, 0), epoch)
        is_text = ~at.is_end & (positions >= 0)
        found = self.ends[np.where(is_text | (positions < 0), -1, at.offset - at.len)]
        text = self.tokens[(at.start + at.offset)[is_text]]
        found[is_text] = text if self.lookup is None else self.lookup[text]
        return found

    def _draw_layout(self, epoch: int) -> tuple[Ids, Ids]:
        """The order of the units, those of a document together, and where each begins and the last one ends."""
        order = np.arange(len(self.starts) - 1)
        if self.shuffle_key:
            documents = generator(*self.shuffle_key, epoch).permutation(len(self._documents) - 1)
            counts = np.diff(self._documents)[documents]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            order = np.repeat(self._documents[:-1][documents], counts) + within
        return order, np.concatenate(([0], np.cumsum(np.diff(self.starts)[order] + len(self.ends))))


def cut_evenly(num_tokens: int, num_streams: int) -> Ids:
    """[B+1] borders of streams whose lengths differ by one at most."""
    return np.arange(num_streams + 1) * num_tokens // num_streams


def cut_equally(num_tokens: int, num_streams: int, multiple_of: int = 1) -> Ids:
    """[B+1] borders of streams of one length, a multiple of a number; the last ones may be shorter, or empty."""
    size = -(-num_tokens // (num_streams * multiple_of)) * multiple_of
    return np.minimum(np.arange(num_streams + 1) * size, num_tokens)


@dataclass(frozen=True)
class Window:
    """Where streams are in one step."""

    epoch: int
    number: int  # in its epoch; what was read before window 0 is other text
    positions: Ids  # [B, T] in the token stream
    inside: NDArray[np.bool_]  # [B, T] whether the stream reaches so far


class Streams:
    """Parts of a token stream that are read side by side, epoch after epoch; ``len`` counts windows times streams."""

    def __init__(self, text: TokenStream, borders: Ids, seq_len: int) -> None:
        """``borders`` [B+1] are where the streams begin and the last one ends."""
        self.text, self.borders, self.seq_len = text, borders, seq_len
        self.num_streams = len(borders) - 1
        self.longest = int(np.diff(borders).max())
        self.num_windows = -(-self.longest // seq_len)

    def __len__(self) -> int:
        return self.num_windows * self.num_streams

    def window(self, number: int, streams: slice = slice(None), backward: bool = False) -> Window:
        """Window ``number`` of the endless sequence of epochs, of some of the streams; backward: from their ends."""
        epoch, within, start, end = self._span(number)
        steps = np.arange(start, end)
        begins, ends = self.borders[:-1][streams, None], self.borders[1:][streams, None]
        positions = ends - 1 - steps if backward else begins + steps
        inside = (begins <= positions) & (positions < ends)
        return Window(epoch, within, np.clip(positions, 0, len(self.text) - 1), inside)

    def _span(self, number: int) -> tuple[int, int, int, int]:
        """The epoch of a window, its number there, and which steps of a stream it covers."""
        epoch, within = divmod(number, self.num_windows)
        return epoch, within, within * self.seq_len, (within + 1) * self.seq_len


class RandomStreams(Streams):
    """Streams with windows of random lengths, others in every epoch, so that gradients are cut elsewhere in each (Merity
    et al. 2018, §5). ``len`` counts the windows of the first epoch."""

    def __init__(self, text: TokenStream, borders: Ids, seq_len: int, seed: int) -> None:
        super().__init__(text, borders, seq_len)
        self.seed = seed
        self._drawn: list[Ids] = []
        self.num_windows = len(self._borders(0)) - 1

    def _borders(self, epoch: int) -> Ids:
        """Where the windows of an epoch begin and the last one ends; each epoch's are drawn once."""
        while len(self._drawn) <= epoch:
            most = np.arange(-(-self.longest // min(_SHORTEST, self.seq_len)))
            ends = np.cumsum(random_len(self.seq_len, self.seed, len(self._drawn), most))
            self._drawn.append(np.concatenate(([0], ends[ends < self.longest], [self.longest])))
        return self._drawn[epoch]

    def _span(self, number: int) -> tuple[int, int, int, int]:
        epoch = 0
        while number >= len(self._borders(epoch)) - 1:
            number -= len(self._borders(epoch)) - 1
            epoch += 1
        start, end = self._borders(epoch)[number : number + 2].tolist()
        return epoch, number, start, end


def random_len(seq_len: int, *keys: ArrayLike) -> Ids:
    """Lengths of windows (Merity et al. 2018, §5): about ``seq_len``, one in twenty about half of it, spread by a normal
    distribution of deviation 5, never below 5. A pure function of the keys."""
    middle = np.where(uniform(*keys, 0) < _WHOLE_PROB, seq_len, seq_len / 2)
    radius = np.sqrt(-2 * np.log(1 - uniform(*keys, 1)))  # Box and Muller (1958)
    found = middle + _LEN_DEVIATION * radius * np.cos(2 * np.pi * uniform(*keys, 2))
    return np.maximum(found.astype(np.int64), min(_SHORTEST, seq_len))


class StreamRows:
    """Rows of equal length cut from a stream one after another, across documents; every epoch in
    another order, and from the second on cut at other places."""

    def __init__(self, text: TokenStream, seq_len: int, seed: int) -> None:
        self.text, self.seq_len, self.seed = text, min(seq_len, len(text)), seed
        # One row is left out so that the cuts can move; a stream shorter than two rows is one row, which moves as far
        # as it can.
        moves = len(text) >= 2 * seq_len
        self.num_rows = len(text) // seq_len - 1 if moves else min(1, len(text))
        self.shifts = seq_len + 1 if moves else max(1, len(text) - seq_len + 1)
        self._order = each_epoch(lambda epoch: generator(seed, _ROW_ORDER, epoch).permutation(self.num_rows))

    def __len__(self) -> int:
        return self.num_rows

    def positions(self, first: int, count: int) -> Ids:
        """[B, T] of rows ``first`` to ``first + count`` of the endless sequence in the stream."""
        begins = np.empty(count, np.int64)
        numbers = np.arange(first, first + count)
        for epoch in np.unique(numbers // self.num_rows).tolist():
            mine = numbers // self.num_rows == epoch
            shift = int(hashed(self.seed, _ROW_SHIFT, epoch)) % self.shifts if epoch else 0
            begins[mine] = shift + self._order(epoch)[numbers[mine] % self.num_rows] * self.seq_len
        return begins[:, None] + np.arange(self.seq_len)


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
    how = Segmentation.load(corpus.folder / "tokenizer")
    tokens = WordTokens(types[:size], rules.lowercase, rules.word_split == "whitespace", how)
    return view_as(corpus, tokens)


def view_as(corpus: Corpus, tokens: WordTokens) -> TokenView:
    """A corpus of words in the numbers of a list that exists already."""
    return TokenView(corpus, tokens, tokens.eos_id, tokens.numbers(read_types(corpus)))


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
        """The inverse of ``known``."""
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
