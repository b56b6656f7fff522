"""Encoding a block of documents for the corpus, fast: each distinct run of text is tokenized once.

BERT's pieces of a run (see ``runs``) do not depend on its neighbours, so a table from run to
pieces gives exactly what the tokenizer gives for the whole text, several times faster. Chinese
words come from the segmenter and only say which pieces start a word. Other tokenizers take
the plain path.
"""

import numpy as np
from numpy.typing import NDArray

from firth.text.document import Document
from firth.text.encoded import EncodedBlock, PlainEncoder, joined, keep_full, sentences_of
from firth.text.pieces import Pieces
from firth.text.runs import RunNumbers, find_runs
from firth.text.sentences import split_sentences
from firth.text.words import cut, has_han

_MAX_RUNS = 300_000
_GROUP_CHARS = 200_000
_BETWEEN = "\n\n"
_MAX_WORD = 100  # letters; longer words are unknown to WordPiece


class _PieceTable:
    """The pieces of every numbered run."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.runs = RunNumbers()
        self.outer = np.asarray(
            [not pieces.token(number).startswith("##") for number in range(pieces.vocab_size)], np.bool_
        )
        self.ids = np.zeros(0, np.uint32)  # the pieces of all runs, one after another
        self.starts = np.zeros(0, np.bool_)  # whether each starts a word
        self.first = np.zeros(0, np.int64)  # where those of a run begin, and how many they are
        self.count = np.zeros(0, np.int64)

    def expand(
        self, text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.int64]]:
        """The pieces of each run in turn, whether each starts a word, and how many each run has."""
        numbers = self.runs.numbers(text, starts, ends)
        self._learn([run.decode() for run in self.runs.take_new()])
        counts = self.count[numbers]
        begins = np.cumsum(counts) - counts
        index = np.repeat(self.first[numbers] - begins, counts)
        index += np.arange(len(index))
        return self.ids[index], self.starts[index], counts

    def _learn(self, new: list[str]) -> None:
        """Plain words go through the tokenizer as one text, whose pieces fall apart at the words."""
        if not new:
            return
        backend = self.pieces.backend
        backend.encode_special_tokens = True
        is_plain = [word.isascii() and word.isalnum() and len(word) <= _MAX_WORD for word in new]
        plain = np.flatnonzero(is_plain)
        text = " ".join(new[place] for place in plain)
        (encoding,) = backend.encode_batch_fast([text], add_special_tokens=False)  # fast: without places
        ids = np.asarray(encoding.ids, np.uint32)
        starts = self.outer[ids]
        borders = np.append(np.flatnonzero(starts), len(ids))
        assert len(borders) == len(plain) + 1
        count = np.zeros(len(new), np.int64)
        count[plain] = np.diff(borders)
        first = np.zeros(len(new), np.int64)
        first[plain] = borders[:-1]
        others = np.flatnonzero(~np.asarray(is_plain))
        found_ids, found_starts = [ids], [starts]
        for place, encoding in zip(
            others, backend.encode_batch_fast([new[place] for place in others], add_special_tokens=False), strict=True
        ):
            more = np.asarray(encoding.ids, np.uint32)
            found_ids.append(more)
            found_starts.append(self.outer[more])
            count[place] = len(more)
        first[others] = len(ids) + np.cumsum(count[others]) - count[others]
        self._append(np.concatenate(found_ids), np.concatenate(found_starts), first, count)
        if self.pieces.byte_ids is not None:
            self._spell_unknown(new)

    def _append(
        self,
        ids: NDArray[np.uint32],
        starts: NDArray[np.bool_],
        first: NDArray[np.int64],
        count: NDArray[np.int64],
    ) -> None:
        self.first = np.concatenate((self.first, first + len(self.ids)))
        self.count = np.concatenate((self.count, count))
        self.ids = np.concatenate((self.ids, ids))
        self.starts = np.concatenate((self.starts, starts))

    def _spell_unknown(self, new: list[str]) -> None:
        """Byte fallback: the newest runs with [UNK] in them get the pieces of the slow way."""
        base = len(self.count) - len(new)
        for number, run in enumerate(new, base):
            first, count = self.first[number], self.count[number]
            if self.pieces.unk_id in self.ids[first : first + count]:
                encoding = self.pieces.encode(run, add_special=False, read_special=False)
                self.first[number], self.count[number] = len(self.ids), len(encoding.ids)
                self.ids = np.concatenate((self.ids, encoding.ids.astype(np.uint32)))
                self.starts = np.concatenate((self.starts, self.pieces.outer_pieces(encoding)))


class ChunkEncoder:
    """The fast path for WordPiece with BERT's normalisation."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.table = _PieceTable(pieces)

    @staticmethod
    def fits(pieces: Pieces) -> bool:
        """Whether runs are independent for this tokenizer."""
        normalizer = pieces.description.get("normalizer") or {}
        splitter = pieces.description.get("pre_tokenizer") or {}
        return (
            pieces.kind == "wordpiece"
            and pieces.description["model"]["continuing_subword_prefix"] == "##"
            and normalizer.get("type") == "BertNormalizer"
            and bool(normalizer.get("clean_text"))
            and bool(normalizer.get("handle_chinese_chars"))
            and splitter.get("type") == "BertPreTokenizer"
            and all(token["special"] for token in pieces.description["added_tokens"])
        )

    def encode(self, documents: list[Document]) -> EncodedBlock:
        """In small groups, whose arrays stay in the processor's cache."""
        groups: list[list[Document]] = [[]]
        size = 0
        for document in documents:
            groups[-1].append(document)
            size += len(document.text)
            if size > _GROUP_CHARS:
                groups.append([])
                size = 0
        return joined([self._encode(group) for group in groups])

    def _encode(self, documents: list[Document]) -> EncodedBlock:
        if len(self.table.runs) > _MAX_RUNS:
            self.table = _PieceTable(self.pieces)
        block = _Block(documents)
        starts, ends = find_runs(block.bytes, block.is_ascii)
        ids, word_starts, counts = self.table.expand(block.data, starts, ends)
        if block.word_at is not None:
            self._segmented(word_starts, block.word_at, ends, counts)
        # A run belongs to the last sentence that begins before the run's end.
        border = np.append(np.searchsorted(ends, block.sentence_starts, side="right"), len(ends))
        border[0] = 0
        before = np.append(0, np.cumsum(counts))
        return keep_full(ids, word_starts, np.diff(before[border]), block.sentences_a_document)

    @staticmethod
    def _segmented(
        word_starts: NDArray[np.bool_],
        word_at: NDArray[np.bool_],
        ends: NDArray[np.int64],
        counts: NDArray[np.int64],
    ) -> None:
        """A run starts a word only if the segmenter began one since the end of the run before."""
        words_before = np.append(0, np.cumsum(word_at))[ends]
        begins_word = np.diff(words_before, prepend=0) > 0
        first = (np.cumsum(counts) - counts)[counts > 0]
        word_starts[first] &= begins_word[counts > 0]


class _Block:
    """Documents as one UTF-8 text, with what is known of sentences and words in it.

    Between documents stands an empty line, which ends a sentence and a word, so both can be
    sought in the whole.
    """

    def __init__(self, documents: list[Document]) -> None:
        text = _BETWEEN.join(document.text for document in documents)
        sizes = np.asarray([len(document.text) + len(_BETWEEN) for document in documents], np.int64)
        self.bases = np.cumsum(sizes) - sizes
        self.data = text.encode()
        self.bytes = np.frombuffer(self.data, np.uint8)
        self.is_ascii = text.isascii()
        self.sentence_starts = self._sentence_starts(text, documents)
        border = np.append(np.searchsorted(self.sentence_starts, self.bases), len(self.sentence_starts))
        self.sentences_a_document = np.diff(border)
        self.word_at: NDArray[np.bool_] | None = None
        if not self.is_ascii:
            place = np.append(np.flatnonzero((self.bytes & 0xC0) != 0x80), len(self.bytes))  # of every character
            self.sentence_starts = place[self.sentence_starts]
            self.word_at = self._words(text, documents, place)

    def _sentence_starts(self, text: str, documents: list[Document]) -> NDArray[np.int64]:
        if all(document.sentences is None for document in documents):
            return np.asarray([start for start, _ in split_sentences(text)], np.int64)
        return np.asarray(
            [
                base + start
                for base, document in zip(self.bases.tolist(), documents, strict=True)
                for start, _ in sentences_of(document)
            ],
            np.int64,
        )

    def _words(self, text: str, documents: list[Document], place: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """At which bytes words begin for the segmenter; everywhere in documents without Chinese."""
        is_chinese = np.asarray([has_han(document.text) for document in documents], np.bool_)
        chinese = np.flatnonzero(is_chinese)
        if not len(chinese):
            return None
        word_at = np.repeat(~is_chinese, np.diff(np.append(place[self.bases], len(self.bytes))))
        words = cut(_BETWEEN.join(documents[number].text for number in chinese))
        lens = np.fromiter(map(len, words), np.int64, len(words))
        starts = np.cumsum(lens) - lens
        sizes = np.asarray([len(documents[number].text) + len(_BETWEEN) for number in chinese], np.int64)
        bases = np.cumsum(sizes) - sizes
        shift = self.bases[chinese] - bases
        word_at[place[starts + shift[np.searchsorted(bases, starts, side="right") - 1]]] = True
        return word_at


def block_encoder(pieces: Pieces) -> ChunkEncoder | PlainEncoder:
    """The fastest encoder that is exact for this tokenizer."""
    return ChunkEncoder(pieces) if ChunkEncoder.fits(pieces) else PlainEncoder(pieces)
