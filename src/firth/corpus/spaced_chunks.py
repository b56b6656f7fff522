"""A fast encoder for byte-level BPE and Unigram: text is cut into *chunks* that these treat independently, each distinct
chunk is tokenized once, and the rest is NumPy on their numbers.

A chunk begins where white space follows a character that is certainly none, so it is white space and what stands behind
it: " dog", "\n\nThe". Both tokenizers cut there whatever stands around, and neither looks back; Unigram's marks of spaces
come from that white space. The pattern of GPT-2 also cuts between an ASCII letter and an ASCII mark or digit: "dog" and
"'s" are two chunks. The first chunk of a document is another one than the same letters inside. Where characters
(controls, rare spaces) or documents (scripts without spaces) make anything uncertain, the chunk is tokenized for itself,
or the document in the plain way.
"""

import itertools
from collections.abc import Mapping
from functools import cache
from operator import itemgetter

import numpy as np
import regex
from numpy.typing import NDArray

from firth.corpus.encoded import EncodedBlock, PlainEncoder, joined, keep_full
from firth.corpus.run_numbers import RunNumbers
from firth.corpus.text_block import TextBlock, in_groups
from firth.data.readers import Document
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.words import EVERY, ascii_word_starts, find_word_spans, has_han, has_unspaced

_SURE, _LETTER, _MARK, _SPACE, _DOUBT = range(5)
_BEGIN = b"\xff"  # stands before a document; UTF-8 has no such byte
_MAX_CHUNKS = 500_000
_UNKNOWN = 1 << 32  # more than any text has characters
_SPACES = b" \t\n\r"
# White space to some version of Unicode or to some library, and what nobody sees.
_DOUBTFUL = (0x85, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x2010), *range(0x2028, 0x2030), *range(0x205F, 0x2070), 0x3000)
_PREPENDED = regex.compile(r"\p{Grapheme_Cluster_Break=Prepend}")  # one character with what follows, be it a space
_STEPS = (
    {"type": "NFC"},
    {"type": "Lowercase"},
    {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "},
    {"type": "Strip", "strip_left": True, "strip_right": True},
)


@cache
def _kinds() -> NDArray[np.uint8]:
    """What each byte is to a border; of a longer character the last one stands for it, if there is no doubt."""
    kinds = np.full(256, _SURE, np.uint8)
    kinds[:0x80] = [
        _LETTER if chr(code).isalpha() else _MARK if chr(code).isprintable() else _DOUBT for code in range(0x80)
    ]
    kinds[list(_SPACES)] = _SPACE
    kinds[_BEGIN[0]] = _DOUBT
    return kinds


@cache
def _doubtful() -> NDArray[np.bool_]:
    """Which characters below U+10000 are."""
    found = np.zeros(0x10000, np.bool_)
    found[[*_DOUBTFUL, 0xFEFF, *(code for char in _PREPENDED.findall(EVERY) if (code := ord(char)) < 0x10000)]] = True
    return found


def _kinds_of(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    kind = _kinds()[data]
    high = np.flatnonzero(data >= 0xC2)
    leads = data[high]
    two, three, four = (
        high[(leads >= first) & (leads < end)] for first, end in ((0, 0xE0), (0xE0, 0xF0), (0xF0, 0xFF))
    )
    code = (data[two].astype(np.uint16) & 0x1F) << 6 | data[two + 1] & 0x3F
    kind[two[_doubtful()[code]] + 1] = _DOUBT
    code = (
        data[three].astype(np.uint16) << 12 | (data[three + 1].astype(np.uint16) & 0x3F) << 6 | data[three + 2] & 0x3F
    )
    kind[three[_doubtful()[code]] + 2] = _DOUBT
    kind[four[data[four + 1] != 0x9F] + 3] = _DOUBT  # emoji alone are known
    return kind


class _ChunkTable:
    """The pieces of every numbered chunk, and what of them decides sentences and words."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.lens = np.asarray([len(pieces.token(number)) for number in range(pieces.vocab_size)], np.int64)
        if pieces.unk_id is not None:
            self.lens[pieces.unk_id] = _UNKNOWN
        self.runs = RunNumbers()
        self.ids = np.zeros(0, np.uint32)  # the pieces of all chunks, one after another
        self.starts = np.zeros(0, np.bool_)  # whether each starts a word
        self.first = np.zeros(0, np.int64)  # where those of a chunk begin,
        self.count = np.zeros(0, np.int64)  # how many they are,
        self.lead = np.zeros(0, np.int64)  # and how many of them stand for the white space before its text
        self.body = np.zeros(0, np.int64)  # the byte where its text begins
        self.good = np.zeros(0, np.bool_)  # whether its words are known whatever stands around

    def numbers(self, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        found = self.runs.numbers(data.tobytes(), starts, ends)
        new = self.runs.take_new()
        if new:
            self._learn(new)
        return found

    def expand(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.bool_], NDArray[np.int64]]:
        """The pieces of each chunk in turn, whether each starts a word, and how many each chunk has."""
        counts = self.count[numbers]
        begins = np.cumsum(counts) - counts
        index = np.repeat(self.first[numbers] - begins, counts)
        index += np.arange(len(index))
        return self.ids[index], self.starts[index], counts

    def _learn(self, new: list[bytes]) -> None:
        """Chunks without doubts go through the tokenizer as one text, of which each is a part."""
        size, old = len(new), len(self.first)
        for name in ("first", "count", "lead", "body"):
            setattr(self, name, np.append(getattr(self, name), np.zeros(size, np.int64)))
        self.good = np.append(self.good, np.ones(size, np.bool_))
        lens = np.fromiter(map(len, new), np.int64, size)
        data = np.frombuffer(b"".join(new), np.uint8)
        kind, firsts = _kinds_of(data), np.cumsum(lens) - lens
        simple = (np.maximum.reduceat(kind, firsts) < _DOUBT) & (kind[firsts + lens - 1] != _SPACE)
        self.body[old:] = np.add.reduceat(kind == _SPACE, firsts, dtype=np.int64)
        spaced = kind[firsts] == _SPACE
        # Unigram makes one mark of several spaces, so that lengths do not add up.
        usual = (np.maximum.reduceat(data, firsts) < 0x80) & (self.body[old:] <= 1)
        for some in (simple & usual, simple & ~usual):
            self._learn_parts(new, np.flatnonzero(some & spaced), np.flatnonzero(some & ~spaced), old)
        alone = np.flatnonzero(~simple)
        self._learn_alone([new[place] for place in alone.tolist()], old + alone)

    def _learn_parts(self, new: list[bytes], spaced: NDArray[np.int64], others: NDArray[np.int64], old: int) -> None:
        """``others`` begin with a mark or digit and stand behind a letter."""
        places = np.concatenate((spaced, others))
        if not len(places):
            return
        chunks = [new[place].decode() for place in places.tolist()]
        parts = [" a", *chunks[: len(spaced)]]
        for chunk in chunks[len(spaced) :]:
            parts += " a", chunk
        of_chunk = np.append(1 + np.arange(len(spaced)), len(spaced) + 2 + 2 * np.arange(len(others)))
        text = "".join(parts)
        part_ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
        ids, ends = self._encode(text, lengths=True)
        assert (ends[1:] >= ends[:-1]).all()
        words = _word_starts(text)
        after = np.searchsorted(ends, part_ends, side="right")  # pieces up to the end of each part
        words_before = np.searchsorted(words, ends)
        words_there = np.searchsorted(words, part_ends)  # words that begin before the end of each part
        first, count = after[of_chunk - 1], after[of_chunk] - after[of_chunk - 1]
        starts = np.diff(words_before, prepend=0) > 0
        filled = np.flatnonzero(count > 0)
        starts[first[filled]] = words_before[first[filled]] > words_there[of_chunk[filled] - 1]
        known = words_there[of_chunk - 1]
        known[filled] = words_before[first[filled] + count[filled] - 1]
        number = old + places
        self.good[number] = known == words_there[of_chunk]
        bodies = part_ends[of_chunk - 1] + self.body[number]  # white space is one byte a character
        self.lead[number] = np.minimum(np.searchsorted(ends, bodies, side="right") - first, count)
        self.first[number], self.count[number] = len(self.ids) + first, count
        self.ids, self.starts = np.append(self.ids, ids), np.append(self.starts, starts)

    def _learn_alone(self, runs: list[bytes], numbers: NDArray[np.int64]) -> None:
        """First chunks of documents, and those with characters of doubt; such a one ends where its document does."""
        all_ids, all_starts, size = [self.ids], [self.starts], len(self.ids)
        for run, number in zip(runs, numbers.tolist(), strict=True):
            before = "" if run[:1] == _BEGIN else "a"
            chunk = run.lstrip(_BEGIN).decode()
            text = before + chunk
            ids, ends = self._encode(text, lengths=False)
            inside = int(np.searchsorted(ends, len(before), side="right")) if before else 0
            ids, ends = ids[inside:], ends[inside:]
            words = [start for start, _ in find_word_spans(text) if start >= len(before)]
            words_before = np.searchsorted(words, ends)
            body = len(chunk) - len(chunk.lstrip())
            known = (words_before[-1] if len(ids) else 0) == len(words) and not (ends[1:] < ends[:-1]).any()
            self.good[number] = known and (chunk.isascii() or not _PREPENDED.search(chunk))
            self.first[number], self.count[number] = size, len(ids)
            self.lead[number] = np.count_nonzero(ends <= len(before) + body) if body else 0
            self.body[number] = len(run) - len(chunk.encode()) + len(chunk[:body].encode())
            all_ids.append(ids)
            all_starts.append(np.diff(words_before, prepend=0) > 0)
            size += len(ids)
        self.ids, self.starts = np.concatenate(all_ids), np.concatenate(all_starts)

    def _encode(self, text: str, lengths: bool) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Ids, and where in the text each piece ends: in ASCII ``lengths`` of the pieces tell, if they add up to the
        text's, for none is given as shorter than what it stands for."""
        with self.pieces.reading(special=False) as backend:
            if lengths and text.isascii():
                ids = np.asarray(backend.encode_batch_fast([text], add_special_tokens=False)[0].ids, np.uint32)
                ends = np.cumsum(self.lens[ids])
                if len(ids) and ends[-1] == len(text):
                    return ids, ends
            raw = backend.encode(text, add_special_tokens=False)
        offsets = np.fromiter(itertools.chain.from_iterable(raw.offsets), np.int64, 2 * len(raw.ids))
        return np.asarray(raw.ids, np.uint32), offsets[1::2]


def _word_starts(text: str) -> NDArray[np.int64]:
    if text.isascii():
        return ascii_word_starts(np.frombuffer(text.encode(), np.uint8))
    return np.asarray([start for start, _ in find_word_spans(text)], np.int64)


class SpacedEncoder:
    """The fast path for BPE by the pattern of GPT-2, and for Unigram or BPE of words marked by the space before them."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self.plain = PlainEncoder(pieces)
        self.table = _ChunkTable(pieces)
        self.cuts_words = pieces.description["pre_tokenizer"]["type"] == "ByteLevel"

    @staticmethod
    def fits(pieces: Pieces) -> bool:
        """Whether chunks are independent for this tokenizer."""
        description = pieces.description
        normalizer = description.get("normalizer") or {"type": "Sequence", "normalizers": []}
        steps = normalizer.get("normalizers", [normalizer])
        splitter = description.get("pre_tokenizer") or {}
        if not all(token["special"] for token in description["added_tokens"]) or any(
            step not in _STEPS for step in steps
        ):
            return False
        if splitter.get("type") == "ByteLevel":
            known = (
                pieces.kind == "bpe" and bool(splitter.get("use_regex")) and all(step in _STEPS[:2] for step in steps)
            )
        else:
            known = pieces.kind in ("bpe", "unigram") and _STEPS[2] in steps and _parts_at_spaces(splitter)
        return known and not description["model"].get("dropout") and _keeps_places(description.get("post_processor"))

    def encode(self, documents: list[Document]) -> EncodedBlock:
        """In the plain way, or by chunks."""
        plainly = list(map(self._needs_segmenter, documents))
        return joined(
            [
                *(
                    self.plain.encode(some) if plain else self._by_chunks(some)
                    for plain, some in _grouped(documents, plainly)
                ),
                self.plain.encode([]),
            ]
        )

    def _needs_segmenter(self, document: Document) -> bool:
        """Whether words of the document may be parted by something else than what is written."""
        text, how = document.text, self.pieces.segmentation
        if text.isascii():
            return False
        if has_han(text) and (how.kanji or bool(how.segmenters) or how.is_chinese(text)):
            return True
        return has_unspaced(text)

    def _by_chunks(self, documents: list[Document]) -> EncodedBlock:
        return joined([self._encode(group) for group in in_groups(documents) if group])

    def _encode(self, documents: list[Document]) -> EncodedBlock:
        if len(self.table.runs) > _MAX_CHUNKS:
            self.table = _ChunkTable(self.pieces)
        block = TextBlock(documents, self.pieces.segmentation)
        data, begins, ends = _marked(block)
        starts, stops = self._cut(data, begins, ends)
        if self.pieces.lowercase:
            _fold(data)
        kept = np.repeat(
            block.sentences_a_document > 0, np.diff(np.append(np.searchsorted(starts, begins), len(starts)))
        )
        starts, stops = starts[kept], stops[kept]
        numbers = self.table.numbers(data, starts, stops)
        first_chunk = np.searchsorted(starts, begins)
        sentences = block.sentence_starts + 1
        chunk = np.searchsorted(starts, sentences, side="right") - 1
        strange = self._strange(
            documents, block, first_chunk, numbers, sentences != starts[chunk] + self.table.body[numbers[chunk]]
        )
        if any(strange):
            return joined(
                [
                    self.plain.encode(some) if plain else self._encode(some)
                    for plain, some in _grouped(documents, strange)
                ]
            )
        ids, word_starts, counts = self.table.expand(numbers)
        before = np.append(0, np.cumsum(counts))
        border = before[chunk] + self.table.lead[numbers[chunk]]
        has_some = block.sentences_a_document > 0
        first_sentence = np.cumsum(block.sentences_a_document) - block.sentences_a_document
        border[first_sentence[has_some]] = before[first_chunk[has_some]]
        lens = np.diff(np.append(border, len(ids)))
        word_starts[border[lens > 0]] = True
        return keep_full(ids, word_starts, lens, block.sentences_a_document)

    def _cut(
        self, data: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the chunks of all documents begin and end."""
        kind = _kinds_of(data)
        cuts = np.zeros(len(data) + 1, np.bool_)
        cuts[1:-1] = (kind[1:] == _SPACE) & (kind[:-1] < _SPACE)
        if self.cuts_words:
            cuts[1:-1] |= (kind[1:] == _MARK) & (kind[:-1] == _LETTER)
        cuts[begins] = cuts[ends] = True
        borders = np.flatnonzero(cuts)
        between = np.zeros(len(data) + 1, np.bool_)
        between[ends] = True
        inside = ~between[borders[:-1]]
        return borders[:-1][inside], borders[1:][inside]

    def _strange(
        self,
        documents: list[Document],
        block: TextBlock,
        first_chunk: NDArray[np.int64],
        numbers: NDArray[np.int64],
        cut: NDArray[np.bool_],
    ) -> list[bool]:
        """Which documents have chunks of unknown words, sentences that begin inside a chunk, or text between sentences."""
        found = np.zeros(len(documents), np.bool_)
        bad = np.flatnonzero(~self.table.good[numbers])
        found[np.searchsorted(first_chunk, bad, side="right") - 1] = True
        found[np.repeat(np.arange(len(documents)), block.sentences_a_document)[cut]] = True
        for number, document in enumerate(documents):
            if document.sentences is not None and not _covers(document.text, document.sentences):
                found[number] = True
        strange: list[bool] = found.tolist()
        return strange


def _parts_at_spaces(splitter: Mapping[str, object]) -> bool:
    return splitter.get("type") == "Metaspace" and splitter.get("split", True) is True


def _keeps_places(processor: Mapping[str, object] | None) -> bool:
    """Whether pieces of a text without special tokens end where the tokenizer said, wherever they stand."""
    if processor is None or processor.get("type") == "TemplateProcessing":
        return True
    return processor.get("type") in ("ByteLevel", "RobertaProcessing") and not (
        processor.get("trim_offsets") and processor.get("add_prefix_space")
    )


def _covers(text: str, sentences: list[tuple[int, int]]) -> bool:
    """Whether only white space stands between the sentences, which are in order."""
    places = [0, *itertools.chain.from_iterable(sentences), len(text)]
    return all(start <= end for start, end in itertools.pairwise(places)) and all(
        not text[start:end].strip() for start, end in zip(places[::2], places[1::2], strict=True)
    )


def _marked(block: TextBlock) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The bytes of all documents, each behind a mark, and where each begins (with its mark) and ends."""
    data = np.concatenate((np.zeros(1, np.uint8), block.bytes))
    begins, ends = block.byte_spans()
    data[begins] = _BEGIN[0]
    return data, begins, ends + 1


def _fold(data: NDArray[np.uint8]) -> None:
    """Makes small letters of capitals of ASCII, as the tokenizer does, unless a mark may follow, with which they may be
    composed before."""
    capitals = data[:-1] - np.uint8(0x41) < 26
    capitals &= data[1:] < 0x80
    data[:-1] |= capitals.view(np.uint8) << 5


def _grouped(documents: list[Document], flags: list[bool]) -> list[tuple[bool, list[Document]]]:
    """Documents in order, those of one kind together."""
    found = itertools.groupby(zip(documents, flags, strict=True), itemgetter(1))
    return [(flag, [document for document, _ in some]) for flag, some in found]
