"""A fast encoder for BERT's tokenizer: text is cut into *runs* (chunks that the tokenizer treats independently),
each distinct run is tokenized once, and the rest is NumPy on their numbers.

A run is one ideograph or one punctuation mark, or all text between those and white space. Where it is not certain
that BERT cuts, nothing is cut: a run may hold several words, never a part of one. Control characters, which BERT
deletes, are inside runs for the same reason.
"""

import itertools
import unicodedata
from functools import cache
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from firth.corpus.document_scripts import document_scripts
from firth.corpus.encoded import EncodedBlock, PlainEncoder, joined, keep_full
from firth.corpus.run_numbers import RunNumbers
from firth.corpus.spaced_chunks import SpacedEncoder
from firth.corpus.text_block import BETWEEN, TextBlock, in_groups
from firth.data.readers import Document
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.words import has_han, joins, may_lack_spaces

_INSIDE, _SPACE, _ALONE, _REST = 0, 1, 2, 3
_MAX_RUNS = 300_000
_MAX_WORD = 100  # letters; longer words are unknown to WordPiece
_LETTERS = (0x30, 0x3A), (0x41, 0x5B), (0x61, 0x7B), (0xC0, 0x2000)  # of scripts with spaces
_OTHER = 0xD7A4
# Old punctuation of other scripts, which every version of Unicode knows: dandas, shads, Ethiopic, Khmer.
_MARKS = (0x964, 0x965, 0x970, 0xF0D, 0xF0E, *range(0x1361, 0x1369), 0x17D4, 0x17D5)


@cache
def _kinds() -> NDArray[np.uint8]:
    """What each character below U+10000 does to a run."""
    kinds = np.zeros(0x10000, np.uint8)
    settled = [*range(0x80), *_MARKS, *range(0x2000, 0x2070), *range(0x3000, 0x3040), *range(0xFF00, 0xFFF0)]
    for code in settled:
        if not joins(chr(code)):
            kinds[code] = _SPACE if chr(code).isspace() else _ALONE
    for first, last in ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF)):
        kinds[first : last + 1] = _ALONE
    return kinds


@cache
def _parts_of_words() -> NDArray[np.uint8]:
    """Which characters are letters and digits (1) or marks (2) to every version of Unicode since that of 2002; others are 4.
    Of the first ones alone it is certain that BERT's tokenizer neither deletes them nor cuts there."""
    known, found = unicodedata.ucd_3_2_0, np.full(_OTHER + 1, 4, np.uint8)
    for code in itertools.chain(*(range(first, end) for first, end in _LETTERS)):
        found[code] = {"L": 1, "N": 1, "M": 2}.get(known.category(chr(code))[0], 4)
    found[0xAC00:_OTHER] = 1  # syllables of Korean
    return found


def _are_one_word(runs: list[str]) -> NDArray[np.bool_]:
    """Which runs are certainly one word."""
    lens = np.fromiter(map(len, runs), np.int64, len(runs))
    codes = np.frombuffer("".join(runs).encode("utf-32-le"), np.uint32)
    parts = np.bitwise_or.reduceat(_parts_of_words()[np.minimum(codes, _OTHER)], np.cumsum(lens) - lens)
    return ((parts == 1) | (parts == 3)) & (lens <= _MAX_WORD)


def find_runs(data: NDArray[np.uint8], ascii_only: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each run of the text begins and ends, in bytes."""
    kinds = _kinds()
    kind = kinds[data]
    finish = kind == _ALONE
    if not ascii_only:
        leads = np.flatnonzero((data & 0xF0) == 0xE0)  # characters of three bytes
        first, second, third = (data[leads + place].astype(np.uint16) for place in range(3))
        found = kinds[first << 12 | (second & 0x3F) << 6 | third & 0x3F]
        alone, spaces = leads[found == _ALONE], leads[found == _SPACE]
        kind[alone] = _ALONE
        kind[alone + 1] = kind[alone + 2] = _REST
        kind[spaces] = kind[spaces + 1] = kind[spaces + 2] = _SPACE
        finish = (kind == _ALONE) & (data < 0x80)
        finish[alone + 2] = True
    inside = kind == _INSIDE
    begin = kind == _ALONE
    begin[:1] |= inside[:1]
    begin[1:] |= inside[1:] & ~inside[:-1]
    finish[-1:] |= inside[-1:]
    finish[:-1] |= inside[:-1] & ~inside[1:]
    return np.flatnonzero(begin), np.flatnonzero(finish) + 1


class _PieceTable:
    """The pieces of every numbered run."""

    def __init__(self, pieces: Pieces, outer: NDArray[np.bool_]) -> None:
        """``outer``: which pieces begin a word."""
        self.pieces, self.outer = pieces, outer
        self.runs = RunNumbers()
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
        """Runs of one word go through the tokenizer as one text, whose pieces fall apart at the words."""
        if not new:
            return
        is_plain = _are_one_word(new)
        plain = np.flatnonzero(is_plain)
        text = " ".join(new[place] for place in plain.tolist())
        (ids,) = self._encode([text])
        starts = self.outer[ids]
        borders = np.append(np.flatnonzero(starts), len(ids))
        assert len(borders) == len(plain) + 1
        count = np.zeros(len(new), np.int64)
        count[plain] = np.diff(borders)
        first = np.zeros(len(new), np.int64)
        first[plain] = borders[:-1]
        others = np.flatnonzero(~is_plain)
        found_ids, found_starts = [ids], [starts]
        for place, more in zip(others, self._encode([new[place] for place in others]), strict=True):
            found_ids.append(more)
            found_starts.append(self.outer[more])
            count[place] = len(more)
        first[others] = len(ids) + np.cumsum(count[others]) - count[others]
        self._append(np.concatenate(found_ids), np.concatenate(found_starts), first, count)
        if self.pieces.byte_ids is not None:
            self._spell_unknown(new)

    def _encode(self, texts: list[str]) -> list[NDArray[np.uint32]]:
        """The ids of each text; fast, without places."""
        with self.pieces.reading(special=False) as backend:
            found = backend.encode_batch_fast(texts, add_special_tokens=False)
        return [np.asarray(encoding.ids, np.uint32) for encoding in found]

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
        self.plain = PlainEncoder(pieces)
        self.table = _PieceTable(pieces, self.plain.outer)

    @staticmethod
    def fits(pieces: Pieces) -> bool:
        """Whether runs are independent for this tokenizer."""
        splitter = pieces.description.get("pre_tokenizer") or {}
        return (
            pieces.kind == "wordpiece"
            and pieces.description["model"]["continuing_subword_prefix"] == "##"
            and bool(pieces.bert_normalizer.get("handle_chinese_chars"))
            and splitter.get("type") == "BertPreTokenizer"
            and all(token["special"] for token in pieces.description["added_tokens"])
        )

    def encode(self, documents: list[Document]) -> EncodedBlock:
        return joined([self._encode(group) for group in in_groups(documents)])

    def _encode(self, documents: list[Document]) -> EncodedBlock:
        text = BETWEEN.join(document.text for document in documents)
        data = text.encode()
        how = self.pieces.segmentation
        if len(text) == len(data) or not (has_han(text) or may_lack_spaces(data)):
            return self._runs(TextBlock(documents, how, text, data))
        # Where no space parts words, a run holds several: they are sought document by document.
        scripts = document_scripts(text, [len(one.text) + len(BETWEEN) for one in documents])
        lacking = scripts.lack_spaces(how).tolist()
        if any(lacking):
            return self._parted(documents, lacking)
        return self._runs(TextBlock(documents, how, text, data, scripts))

    def _parted(self, documents: list[Document], plainly: list[bool]) -> EncodedBlock:
        """Some documents in the plain way, all others by runs."""
        how, parts = self.pieces.segmentation, itertools.groupby(zip(documents, plainly, strict=True), itemgetter(1))
        return joined(
            [
                self.plain.encode([one for one, _ in some])
                if plain
                else self._runs(TextBlock([one for one, _ in some], how))
                for plain, some in parts
            ]
        )

    def _runs(self, block: TextBlock) -> EncodedBlock:
        if len(self.table.runs) > _MAX_RUNS:
            self.table = _PieceTable(self.pieces, self.plain.outer)
        starts, ends = find_runs(block.bytes, block.is_ascii)
        cut = block.cuts_runs(starts, ends)
        if any(cut):
            return self._parted(block.documents, cut)
        ids, word_starts, counts = self.table.expand(block.data, starts, ends)
        if block.word_at is not None:
            self._segmented(block, block.word_at, (starts, ends), word_starts, counts)
        # A run belongs to the last sentence that begins before the run's end.
        border = np.append(np.searchsorted(ends, block.sentence_starts, side="right"), len(ends))
        border[0] = 0
        before = np.append(0, np.cumsum(counts))
        return keep_full(ids, word_starts, np.diff(before[border]), block.sentences_a_document)

    def _segmented(
        self,
        block: TextBlock,
        word_at: NDArray[np.bool_],
        runs: tuple[NDArray[np.int64], NDArray[np.int64]],
        word_starts: NDArray[np.bool_],
        counts: NDArray[np.int64],
    ) -> None:
        """A run starts a word only if the segmenter began one since the end of the last run with a piece. Where it is several words, to
        the segmenter or to the tokenizer (rare ideographs, Latin letters with marks), its pieces are looked at one by one."""
        words_before = np.append(0, np.cumsum(word_at))
        full = counts > 0  # a run of invisible characters has no piece
        starts, ends, counts = runs[0][full], runs[1][full].copy(), counts[full]
        first = np.cumsum(counts) - counts
        outer_before = np.append(0, np.cumsum(word_starts))
        several = (outer_before[first + counts] - outer_before[first] > 1) & (counts > 1)
        several |= words_before[ends] > words_before[starts + 1]
        several &= block.segmented[starts]
        piece_ends: dict[int, NDArray[np.int64]] = {}
        for run in np.flatnonzero(several).tolist():
            data = block.bytes[starts[run] : ends[run]]
            place = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))  # of every character
            piece_ends[run] = starts[run] + place[self.plain.find_pieces(data.tobytes().decode())[1]]
            ends[run] = piece_ends[run][-1]  # invisible characters after it may be the next word's
        word_starts[first] &= np.diff(words_before[ends], prepend=0) > 0
        for run, found in piece_ends.items():
            before = words_before[np.append(ends[run - 1] if run else 0, found)]
            word_starts[first[run] : first[run] + counts[run]] = before[1:] > before[:-1]


def block_encoder(pieces: Pieces) -> ChunkEncoder | SpacedEncoder | PlainEncoder:
    """The fastest encoder that is exact for this tokenizer."""
    if ChunkEncoder.fits(pieces):
        return ChunkEncoder(pieces)
    return SpacedEncoder(pieces) if SpacedEncoder.fits(pieces) else PlainEncoder(pieces)
