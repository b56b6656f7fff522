"""A corpus on disk: a folder of plain arrays, memory-mapped, each with its checksum.

``corpus.json``   what it is, how it was made, checksums
``tokenizer/``    the tokenizer's own files (``words.txt`` and ``counts.bin`` for words)
``train/`` and ``heldout/``, each with
    ``tokens.bin``     uint16 or uint32 ids, one after another
    ``sentences.bin``  int64 [S+1]: where each sentence begins among the tokens
    ``documents.bin``  int64 [N+1]: where each document begins among the sentences
    ``words.bin``      one bit a token, lowest first: it starts a word

Also here: ``PackedRows``, documents packed into rows of equal length; their order is drawn again in every epoch.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.config import Config, local_path
from firth.core.errors import FirthError
from firth.core.files import check_files, read_json
from firth.core.registry import TokensConfig
from firth.core.types import generator
from firth.corpus.loss import LossInfo
from firth.data.readers import ReadingConfig
from firth.tokenizers.pieces import PATTERN, Pieces, sentinel_ids
from firth.tokenizers.word_tokens import join_words

FORMAT = 1
Number = TypeVar("Number", bound=np.generic)
_Drawn = TypeVar("_Drawn")


class SplitInfo(Config):
    documents: int
    sentences: int
    tokens: int
    unknown: int
    bytes: int


class SourceInfo(Config):
    name: str
    bytes: int


class CorpusInfo(Config):
    """The content of ``corpus.json``."""

    format: int = FORMAT
    kind: Literal["text"] = "text"
    tokens: TokensConfig
    tokenizer: str  # fingerprint
    vocab_size: int
    dtype: str
    reading: ReadingConfig
    sources: list[SourceInfo]
    layouts: dict[str, int] = Field(default_factory=dict)  # how text files were cut into documents, and how many so
    heldout_share: float
    duplicates_removed: int | None
    loss: LossInfo | None = None  # not in corpora of earlier versions
    unsegmented: dict[str, str] = Field(
        default_factory=dict
    )  # scripts without spaces, and by what their words were found
    dictionary: int = 0  # words of the user for the Chinese segmenter (tokenizer/segmentation.json)
    simplified: bool = False  # whether it looks up traditional characters by simplified ones
    warnings: list[str] = Field(default_factory=list)
    train: SplitInfo
    heldout: SplitInfo
    checksums: dict[str, str]

    def __repr__(self) -> str:
        documents = f"{self.train.documents:,} documents, {self.heldout.documents:,} held out"
        return f"<corpus: {documents}, {self.train.tokens:,} tokens, {self.vocab_size:,} {self.tokens.kind}>"

    __str__ = __repr__


class MappedFiles:
    """A folder of memory-mapped arrays; ``dtype`` is that of token ids."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self.folder = folder
        self.dtype = np.dtype(dtype)

    def _map(self, name: str, dtype: np.dtype[Number]) -> NDArray[Number]:
        path = self.folder / name
        return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)


class Split(MappedFiles):
    """One part of a corpus."""

    @cached_property
    def tokens(self) -> NDArray[np.integer]:
        return self._map("tokens.bin", self.dtype)

    @cached_property
    def sentences(self) -> NDArray[np.int64]:
        return self._map("sentences.bin", np.dtype(np.int64))

    @cached_property
    def documents(self) -> NDArray[np.int64]:
        return self._map("documents.bin", np.dtype(np.int64))

    @cached_property
    def _bits(self) -> NDArray[np.uint8]:
        return self._map("words.bin", np.dtype(np.uint8))

    @property
    def num_documents(self) -> int:
        return len(self.documents) - 1

    @property
    def document_starts(self) -> NDArray[np.int64]:
        """[N+1] where each document begins among the tokens."""
        starts: NDArray[np.int64] = self.sentences[self.documents]
        return starts

    def word_starts(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Whether each of the tokens [start, stop) starts a word."""
        first = start // 8
        bits = np.unpackbits(self._bits[first : (stop + 7) // 8], bitorder="little")
        return bits[start - 8 * first : stop - 8 * first].astype(np.bool_)


class Corpus:
    """A prepared corpus, opened for reading."""

    def __init__(self, folder: Path, info: CorpusInfo) -> None:
        self.folder = folder
        self.info = info
        self.train = Split(folder / "train", info.dtype)
        self.heldout = Split(folder / "heldout", info.dtype)

    def texts(self) -> Iterator[str]:
        """The documents for training as their tokens spell them."""
        starts = self.train.document_starts
        words = None
        if self.info.tokens.kind == "words":
            words = (self.folder / "tokenizer" / "words.txt").read_bytes().decode().split("\n")
        for first, last in pairwise(starts.tolist()):
            ids = self.train.tokens[first:last].tolist()
            yield self.pieces.decode(ids) if words is None else join_words([words[number] for number in ids])

    @classmethod
    def open(cls, folder: str | Path, verify: bool = True) -> "Corpus":
        """``verify`` reads every file once and compares checksums; a damaged one is named."""
        folder = local_path(folder)
        if not folder.exists():
            raise FirthError(f"{folder}: no such corpus; make one with: firth prepare FILE... --out {folder}")
        if not (folder / "corpus.json").is_file():
            raise FirthError(
                f"{folder}: not a corpus (no corpus.json in it); make one with: firth prepare FILE... --out NEW_FOLDER"
            )
        data = read_facts(folder)
        if isinstance(data, dict) and data.get("kind") == "pairs":
            raise FirthError(
                f"{folder}: a corpus of sentence pairs, which only translation recipes read; prepare plain text"
            )
        info = CorpusInfo.build(data, folder / "corpus.json")
        if verify:
            check_files(folder, info.checksums, "prepare the corpus again")
        return cls(folder, info)

    @cached_property
    def pieces(self) -> Pieces:
        if self.info.tokens.kind == "words":
            raise FirthError(
                f"{self.folder}: a corpus of words, which has no pieces; prepare one with --tokens wordpiece, bpe or unigram"
            )
        return Pieces.load(self.folder / "tokenizer")

    @property
    def fingerprint(self) -> str:
        """Equal for corpora with equal content."""
        return fingerprint_of(self.info.checksums)


def read_facts(folder: Path) -> object:
    """What ``corpus.json`` says, of any kind of corpus that this version reads."""
    data = read_json(folder / "corpus.json")
    if isinstance(data, dict) and data.get("format") != FORMAT:
        raise FirthError(
            f"{folder / 'corpus.json'}: made by another version of Firth (format {data.get('format')}, expected {FORMAT}); prepare it again"
        )
    return data


def fingerprint_of(checksums: dict[str, str]) -> str:
    """One hash over all files of a corpus."""
    import hashlib
    import json

    return hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()[:16]


def same_tokens(first: Pieces, second: Pieces) -> bool:
    """Whether two tokenizers give the same tokens the same ids. One of them may have sentinels after these."""
    vocabs = [pieces.backend.get_vocab(with_added_tokens=True) for pieces in (first, second)]
    if [bool(sentinel_ids(pieces)) for pieces in (first, second)] in ([True, False], [False, True]):
        vocabs = [{token: number for token, number in one.items() if not PATTERN.fullmatch(token)} for one in vocabs]
    return vocabs[0] == vocabs[1]


def require_same_tokens(pieces: Pieces, corpus: Corpus, model: Path) -> None:
    if not same_tokens(pieces, corpus.pieces):
        raise FirthError(
            f"{corpus.folder}: made with another tokenizer than {model}; prepare it again with --tokenizer {model}"
        )


def each_epoch(draw: Callable[[int], _Drawn]) -> Callable[[int], _Drawn]:
    """Draws once an epoch; two are kept, since batches are read ahead across a border."""
    return lru_cache(2)(draw)


def need_text(split: Split, size: int, least: int = 1) -> None:
    """Refuses a split that gives fewer than ``least`` rows, or tokens, to train on."""
    if size < least:
        raise FirthError(f"{split.folder}: no text to train on; prepare a corpus with more documents")


def cut_documents(document_starts: NDArray[np.int64], max_len: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(start, length) of the sequences of at most ``max_len`` tokens that the documents fall into."""
    lens = np.diff(document_starts)
    counts = -(-lens // max_len)
    document = np.repeat(np.arange(len(lens)), counts)
    place = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = document_starts[:-1][document] + place * max_len
    return starts, np.minimum(max_len, lens[document] - place * max_len)


def pack(lens: NDArray[np.int64], seq_len: int) -> list[tuple[list[int], int]]:
    """Which lengths share a row, and how many such rows: the longest first, filled up with the
    longest that still fits (Krell et al. 2021). Works on the histogram, so its cost does not
    grow with the corpus."""
    left = np.bincount(lens, minlength=seq_len + 1)
    rows: list[tuple[list[int], int]] = []
    while left.any():
        room, combination = seq_len, []
        taken = np.zeros_like(left)
        while room > 0:
            fitting = np.flatnonzero(left[: room + 1] - taken[: room + 1] > 0)
            if not len(fitting) or fitting[-1] == 0:
                break
            combination.append(int(fitting[-1]))
            taken[fitting[-1]] += 1
            room -= int(fitting[-1])
        times = int((left[taken > 0] // taken[taken > 0]).min())
        left -= times * taken
        rows.append((combination, times))
    return rows


class PackedRows:
    """The rows of a split: row r holds the sequences ``members[first[r]:first[r + 1]]``."""

    def __init__(
        self, starts: NDArray[np.int64], lens: NDArray[np.int64], seq_len: int, num_special: int, seed: int
    ) -> None:
        """Sequences by (start, length); ``num_special`` tokens are added to each."""
        self.seed = seed
        self.starts, self.lens = starts, lens
        full = lens + num_special
        order = generator(seed, 1).permutation(len(full))
        by_len = order[np.argsort(full[order], kind="stable")]
        next_of = np.concatenate(([0], np.cumsum(np.bincount(full, minlength=seq_len + 1))))[:-1]
        members: list[NDArray[np.int64]] = []
        sizes: list[NDArray[np.int64]] = []
        for combination, times in pack(full, seq_len):
            block = np.empty((times, len(combination)), np.int64)
            for column, length in enumerate(combination):
                block[:, column] = by_len[next_of[length] : next_of[length] + times]
                next_of[length] += times
            members.append(block.reshape(-1))
            sizes.append(np.full(times, len(combination)))
        self.members = np.concatenate(members) if members else np.zeros(0, np.int64)
        self.first = np.concatenate(([0], np.cumsum(np.concatenate(sizes)))) if sizes else np.zeros(1, np.int64)
        self._order = each_epoch(lambda epoch: generator(seed, 2, epoch).permutation(len(self)))

    @classmethod
    def of_documents(cls, split: Split, seq_len: int, num_special: int, seed: int) -> "PackedRows":
        """The documents of a split, cut where they are longer than a row."""
        return cls(*cut_documents(split.document_starts, seq_len - num_special), seq_len, num_special, seed)

    def __len__(self) -> int:
        return len(self.first) - 1

    def numbers(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(row, epoch) of ``count`` rows from place ``first`` of the endless sequence of epochs."""
        places = np.arange(first, first + count)
        epochs = places // len(self)
        rows = np.empty(count, np.int64)
        for epoch in np.unique(epochs).tolist():
            rows[epochs == epoch] = self._order(epoch)[places[epochs == epoch] % len(self)]
        return rows, epochs

    def sequences(self, row: int) -> NDArray[np.int64]:
        """The sequences that share a row."""
        return self.members[self.first[row] : self.first[row + 1]]
