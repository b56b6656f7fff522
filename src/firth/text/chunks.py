"""Encoding a block of documents for the corpus, fast: each distinct chunk is tokenized once.

BERT's pieces of a chunk between white spaces do not depend on its neighbours, so a table from
chunk to pieces gives exactly what the tokenizer gives for the whole text, several times faster.
In Chinese the chunks are the segmented words; where two of them meet inside what BERT takes for
one word ("iPhone" + "6s") they are joined first. Other tokenizers take the plain path.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.core.types import Encoding
from firth.text.characters import DELETED_SPACES, HAN_CLASS, joins
from firth.text.pieces import Pieces
from firth.text.readers import Document
from firth.text.sentences import split_sentences
from firth.text.words import cut, has_han, split_words

_MAX_CHUNKS = 300_000
_MAX_WORD = 100  # letters; longer words are unknown to WordPiece
_VANISHING = dict.fromkeys(map(ord, DELETED_SPACES), "\u200b")
_ONLY_HAN = re.compile(f"[{HAN_CLASS}]+")
_PLAIN = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9\s]")


@dataclass(frozen=True)
class EncodedBlock:
    """Documents as arrays: ids, whether a token starts a word, tokens a sentence, sentences a document."""

    ids: NDArray[np.uint32]
    word_starts: NDArray[np.bool_]
    sentence_lens: NDArray[np.int64]
    document_lens: NDArray[np.int64]


def keep_full(
    ids: NDArray[np.uint32], starts: NDArray[np.bool_], lens: NDArray[np.int64], per_document: list[int]
) -> EncodedBlock:
    """Leaves out sentences without tokens and documents without sentences."""
    document_of = np.repeat(np.arange(len(per_document)), per_document)
    kept = lens > 0
    documents = np.bincount(document_of[kept], minlength=len(per_document))
    return EncodedBlock(ids, starts, lens[kept], documents[documents > 0].astype(np.int64))


def sentences_of(document: Document) -> list[tuple[int, int]]:
    return split_sentences(document.text) if document.sentences is None else document.sentences


class PlainEncoder:
    """Any tokenizer: each document whole, sentences and words found by the places of the pieces."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces

    def encode(self, documents: list[Document]) -> EncodedBlock:
        ids, starts, lens, per_document = [], [], [], []
        for document in documents:
            encoding = self.pieces.encode(document.text, add_special=False, read_special=False)
            sentences = sentences_of(document)
            place = np.searchsorted([start for start, _ in sentences], encoding.offsets[:, 1], side="left") - 1
            place = np.clip(place, 0, None)
            lens.append(np.bincount(place, minlength=len(sentences)))
            per_document.append(len(sentences))
            ids.append(encoding.ids.astype(np.uint32))
            starts.append(self._word_starts(encoding, document.text, sentences, place))
        if not ids:
            return keep_full(np.zeros(0, np.uint32), np.zeros(0, np.bool_), np.zeros(0, np.int64), [])
        return keep_full(
            np.concatenate(ids), np.concatenate(starts), np.concatenate(lens).astype(np.int64), per_document
        )

    def _word_starts(
        self, encoding: Encoding, text: str, sentences: list[tuple[int, int]], place: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """The first piece of each word; words are sought sentence by sentence."""
        if self.pieces.kind == "wordpiece" and not has_han(text):
            return np.asarray([not token.startswith("##") for token in encoding.tokens], np.bool_)
        words = [start + word for start, end in sentences for word, _ in split_words(text[start:end])]
        word_of = np.searchsorted(words, encoding.offsets[:, 1], side="left")
        first = np.ones(len(word_of), np.bool_)
        first[1:] = (word_of[1:] != word_of[:-1]) | (place[1:] != place[:-1])
        return first


def _parts(chunk: str) -> list[str]:
    """Where BERT surely cuts a chunk: between ideographs, and around the marks of plain ASCII."""
    if chunk.isascii():
        return _PLAIN.findall(chunk) if chunk.isprintable() else [chunk]
    return list(chunk) if _ONLY_HAN.fullmatch(chunk) else [chunk]


class _Store:
    """string -> number -> pieces. New strings get a number at once and their pieces soon after."""

    def __init__(self) -> None:
        self.table = Table()
        self.ids = np.zeros(0, np.uint32)  # the pieces of all strings, one after another
        self.first = np.zeros(1, np.int64)  # where those of a string begin

    def numbers(self, strings: list[str]) -> NDArray[np.int64]:
        return np.fromiter(map(self.table.__getitem__, strings), np.int64, len(strings))

    def add(self, ids: NDArray[np.uint32], lens: NDArray[np.int64]) -> None:
        self.ids = np.concatenate((self.ids, ids))
        self.first = np.concatenate((self.first, self.first[-1] + np.cumsum(lens)))

    def expand(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The pieces of each string in turn, and how many each has."""
        lens = (self.first[1:] - self.first[:-1])[numbers]
        begins = np.cumsum(lens) - lens
        return self.ids[np.repeat(self.first[:-1][numbers] - begins, lens) + np.arange(lens.sum())], lens


class Table(dict[str, int]):
    """Numbers its keys as they come and remembers which are new."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, key: str) -> int:
        number = len(self)
        self[key] = number
        self.new.append(key)
        return number

    def take_new(self) -> list[str]:
        new, self.new = self.new, []
        return new


class ChunkEncoder:
    """The fast path for WordPiece with BERT's normalisation."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.outer = np.asarray(
            [not pieces.token(number).startswith("##") for number in range(pieces.vocab_size)], np.bool_
        )
        self._forget()

    @staticmethod
    def fits(pieces: Pieces) -> bool:
        """Whether chunks are independent for this tokenizer."""
        normalizer = pieces.description.get("normalizer") or {}
        splitter = pieces.description.get("pre_tokenizer") or {}
        return (
            pieces.kind == "wordpiece"
            and normalizer.get("type") == "BertNormalizer"
            and bool(normalizer.get("clean_text"))
            and bool(normalizer.get("handle_chinese_chars"))
            and splitter.get("type") == "BertPreTokenizer"
        )

    def _forget(self) -> None:
        self.chunks = _Store()
        self.words = _Store()
        self.joins_left = np.zeros(0, np.bool_)  # whether a border before / after a chunk may be inside a word
        self.joins_right = np.zeros(0, np.bool_)

    def encode(self, documents: list[Document]) -> EncodedBlock:
        if len(self.chunks.table) > _MAX_CHUNKS:
            self._forget()
        chunks: list[str] = []
        counts: list[int] = []
        per_document: list[int] = []
        chinese: list[bool] = []
        for document in documents:
            text = document.text
            sentences = sentences_of(document)
            han = has_han(text)
            if any(space in text for space in DELETED_SPACES):
                text = text.translate(_VANISHING)
            for start, end in sentences:
                found = cut(text[start:end]) if han else text[start:end].split()
                chunks += found
                counts.append(len(found))
            chinese += [han] * len(sentences)
            per_document.append(len(sentences))
        return self._assemble(chunks, np.asarray(counts, np.int64), np.asarray(chinese, np.bool_), per_document)

    def _assemble(
        self, chunks: list[str], counts: NDArray[np.int64], chinese: NDArray[np.bool_], per_document: list[int]
    ) -> EncodedBlock:
        numbers = self.chunks.numbers(chunks)
        sentence_of = np.repeat(np.arange(len(counts)), counts)
        self._learn()
        if chinese.any():
            numbers, sentence_of = self._join(chunks, numbers, sentence_of, chinese)
            self._learn()
        ids, lens = self.chunks.expand(numbers)
        starts = self.outer[ids]
        if chinese.any():
            whole = np.zeros(len(ids), np.bool_)
            whole[(np.cumsum(lens) - lens)[lens > 0]] = True
            starts = np.where(np.repeat(chinese[sentence_of], lens), whole, starts)
        sentence_lens = np.bincount(sentence_of, lens, len(counts)) if len(counts) else np.zeros(0)
        return keep_full(ids, starts, sentence_lens.astype(np.int64), per_document)

    def _join(
        self, chunks: list[str], numbers: NDArray[np.int64], sentence_of: NDArray[np.int64], chinese: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Puts together segmented words of a sentence whose border may be inside a word for BERT."""
        border = self.joins_right[numbers[:-1]] & self.joins_left[numbers[1:]]
        border &= (sentence_of[1:] == sentence_of[:-1]) & chinese[sentence_of[1:]]
        group_starts = np.flatnonzero(np.concatenate(([True], ~border)))
        group_ends = np.append(group_starts[1:], len(numbers))
        joined = numbers[group_starts].copy()
        for group in np.flatnonzero(group_ends - group_starts > 1):
            joined[group] = self.chunks.table["".join(chunks[group_starts[group] : group_ends[group]])]
        return joined, sentence_of[group_starts]

    def _learn(self) -> None:
        """Makes the pieces of the chunks that were new."""
        new = self.chunks.table.take_new()
        if not new:
            return
        parts = [_parts(chunk) for chunk in new]
        numbers = self.words.numbers([part for found in parts for part in found])
        self._learn_words()
        ids, lens = self.words.expand(numbers)
        part_of = np.repeat(np.arange(len(new)), [len(found) for found in parts])
        self.chunks.add(ids, np.bincount(part_of, lens, len(new)).astype(np.int64))
        self.joins_left = np.concatenate((self.joins_left, np.asarray([joins(chunk[0]) for chunk in new], np.bool_)))
        self.joins_right = np.concatenate((self.joins_right, np.asarray([joins(chunk[-1]) for chunk in new], np.bool_)))

    def _learn_words(self) -> None:
        """Plain words go through the tokenizer as one text, whose pieces fall apart at the words."""
        new = self.words.table.take_new()
        backend = self.pieces.backend
        backend.encode_special_tokens = True
        plain = np.asarray([word.isascii() and word.isalnum() and len(word) <= _MAX_WORD for word in new], np.bool_)
        found: list[NDArray[np.uint32]] = [np.zeros(0, np.uint32)] * len(new)
        together = np.asarray(
            backend.encode(
                " ".join(word for word, is_plain in zip(new, plain, strict=True) if is_plain), add_special_tokens=False
            ).ids,
            np.uint32,
        )
        borders = np.flatnonzero(self.outer[together])
        assert len(borders) == plain.sum()
        for place, ids in zip(np.flatnonzero(plain), np.split(together, borders[1:]), strict=False):
            found[place] = ids
        others = np.flatnonzero(~plain)
        for place, encoding in zip(
            others, backend.encode_batch_fast([new[place] for place in others], add_special_tokens=False), strict=True
        ):
            found[place] = np.asarray(encoding.ids, np.uint32)
        if self.pieces.byte_ids is not None:
            for index, ids in enumerate(found):
                if self.pieces.unk_id in ids:
                    found[index] = self.pieces.encode(new[index], add_special=False, read_special=False).ids.astype(
                        np.uint32
                    )
        self.words.add(
            np.concatenate(found) if found else np.zeros(0, np.uint32),
            np.asarray([len(ids) for ids in found], np.int64),
        )


def block_encoder(pieces: Pieces) -> ChunkEncoder | PlainEncoder:
    """The fastest encoder that is exact for this tokenizer."""
    return ChunkEncoder(pieces) if ChunkEncoder.fits(pieces) else PlainEncoder(pieces)
