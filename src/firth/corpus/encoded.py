"""Documents as arrays of ids: the encoder for every tokenizer (``PlainEncoder``) and the one for words
(``WordEncoder``).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.core.config import Config
from firth.data.readers import Document
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.sentences import split_sentences
from firth.tokenizers.words import find_words, without_invisible

_PARTS_WORDS = "\u200b"  # unseen, and no word itself


@dataclass(frozen=True)
class EncodedBlock:
    """Documents as arrays: ids, whether a token starts a word, tokens a sentence, sentences a document."""

    ids: NDArray[np.uint32]
    word_starts: NDArray[np.bool_]
    sentence_lens: NDArray[np.int64]
    document_lens: NDArray[np.int64]


def keep_full(
    ids: NDArray[np.uint32],
    starts: NDArray[np.bool_],
    lens: NDArray[np.int64],
    per_document: list[int] | NDArray[np.int64],
) -> EncodedBlock:
    """Leaves out sentences without tokens and documents without sentences."""
    document_of = np.repeat(np.arange(len(per_document)), per_document)
    kept = lens > 0
    documents = np.bincount(document_of[kept], minlength=len(per_document))
    return EncodedBlock(ids, starts, lens[kept], documents[documents > 0].astype(np.int64))


def joined(blocks: list[EncodedBlock]) -> EncodedBlock:
    """Blocks concatenated."""
    columns = zip(
        *((block.ids, block.word_starts, block.sentence_lens, block.document_lens) for block in blocks), strict=True
    )
    return EncodedBlock(*map(np.concatenate, columns))


def sentences_of(document: Document) -> list[tuple[int, int]]:
    return split_sentences(document.text) if document.sentences is None else document.sentences


class PlainEncoder:
    """For every tokenizer: each document whole, sentences and words found by the places of the pieces."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.outer = np.asarray(
            [not pieces.token(number).startswith("##") for number in range(pieces.vocab_size)], np.bool_
        )

    def encode(self, documents: list[Document]) -> EncodedBlock:
        ids, starts, lens, per_document = [], [], [], []
        for document in documents:
            sentences = sentences_of(document)
            found, ends, outer = self.find_pieces(
                document.text if sentences else ""
            )  # white space alone is no sentence
            place = np.searchsorted([start for start, _ in sentences], ends, side="left") - 1
            place = np.clip(place, 0, None)
            lens.append(np.bincount(place, minlength=len(sentences)))
            per_document.append(len(sentences))
            ids.append(found)
            starts.append(self._word_starts(ends, outer, document.text, sentences, place))
        if not ids:
            return keep_full(np.zeros(0, np.uint32), np.zeros(0, np.bool_), np.zeros(0, np.int64), [])
        return keep_full(
            np.concatenate(ids), np.concatenate(starts), np.concatenate(lens).astype(np.int64), per_document
        )

    def find_pieces(self, text: str) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.bool_]]:
        """Ids, where each piece ends in the text, and whether it is an outer one (WordPiece)."""
        if self.pieces.byte_ids is not None:
            encoding = self.pieces.encode(text, add_special=False, read_special=False)
            return encoding.ids.astype(np.uint32), encoding.offsets[:, 1], self.pieces.outer_pieces(encoding)
        with self.pieces.reading(special=False) as backend:
            raw = backend.encode(text, add_special_tokens=False)
        ids = np.asarray(raw.ids, np.uint32)
        return ids, np.asarray([end for _, end in raw.offsets], np.int64), self.outer[ids]

    def _word_starts(
        self,
        ends: NDArray[np.int64],
        outer: NDArray[np.bool_],
        text: str,
        sentences: list[tuple[int, int]],
        place: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """The first piece of each word; words are sought sentence by sentence."""
        how = self.pieces.segmentation
        chinese = how.is_chinese(text)
        if self.pieces.kind == "wordpiece" and not (chinese or how.lacks_spaces(text)):
            return outer
        words = [start + word for start, end in sentences for word, _ in how.split(text[start:end], chinese)]
        word_of = np.searchsorted(words, ends, side="left")
        first = np.ones(len(word_of), np.bool_)
        first[1:] = (word_of[1:] != word_of[:-1]) | (place[1:] != place[:-1])
        return first


class Table(dict[str, int]):
    """Numbers its keys in order of first use."""

    def __missing__(self, key: str) -> int:
        number = self[key] = len(self)
        return number


class WordRules(Config):
    """What a word is: folded or not, split by the segmenter and letters or at white space only."""

    lowercase: bool
    whitespace_only: bool
    segmentation: Segmentation = PLAIN


@dataclass(frozen=True)
class WordBlock:
    """A block whose ids count through ``types``, which are sorted."""

    block: EncodedBlock
    types: list[str]


class WordEncoder:
    """Splits text into words, where a token is a word; Chinese is segmented first."""

    def __init__(self, rules: WordRules) -> None:
        self.rules = rules

    def words(self, sentence: str, chinese: bool) -> list[str]:
        if chinese and not self.rules.whitespace_only:
            # cut as it is written, as texts are when a model reads them: the dictionary knows some words by capitals
            found = [word for word in self.rules.segmentation.cut(without_invisible(sentence)) if not word.isspace()]
            if _PARTS_WORDS in sentence:
                found = [word for word in found if word != _PARTS_WORDS]
            return [word.lower() for word in found] if self.rules.lowercase else found
        if self.rules.lowercase:
            sentence = sentence.lower()
        if self.rules.whitespace_only:
            return sentence.split()
        how = self.rules.segmentation
        return how.find_words(sentence, False) if how.segmenters else find_words(sentence)

    def encode(self, documents: list[Document]) -> WordBlock:
        table = Table()
        ids: list[NDArray[np.int64]] = []
        lens: list[int] = []
        per_document: list[int] = []
        for document in documents:
            chinese = self.rules.segmentation.is_chinese(document.text)
            sentences = sentences_of(document)
            words: list[str] = []
            for start, end in sentences:
                found = self.words(document.text[start:end], chinese)
                words += found
                lens.append(len(found))
            ids.append(np.fromiter(map(table.__getitem__, words), np.int64, len(words)))
            per_document.append(len(sentences))
        types = sorted(table)
        rank = np.empty(len(types), np.uint32)
        rank[[table[word] for word in types]] = np.arange(len(types), dtype=np.uint32)
        flat = rank[np.concatenate(ids)] if ids else np.zeros(0, np.uint32)
        block = keep_full(flat, np.ones(len(flat), np.bool_), np.asarray(lens, np.int64), per_document)
        return WordBlock(block, types)
