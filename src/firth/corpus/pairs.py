"""A parallel corpus on disk: like a corpus, with two sides.

``corpus.json``   what it is (``kind`` is ``pairs``), how it was made, checksums
``tokenizer/``    of both sides, or of the source; ``tokenizer-target/`` where the target has its own
``train/`` and ``heldout/``, each with
    ``source.bin``, ``target.bin``                uint16 or uint32 ids, one sentence after another
    ``source_starts.bin``, ``target_starts.bin``  int64 [N+1]: where each sentence begins
``heldout/source.txt``, ``heldout/target.txt``    the same as text, to score translations with

``PairBatches`` reads it in batches of bounded size; ``corpus_info`` reads the ``corpus.json`` of either kind of
corpus.
"""

from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.config import Config, local_path
from firth.core.errors import FirthError
from firth.core.files import check_files, read_json
from firth.core.registry import TokensConfig
from firth.core.types import cut_batches, generator
from firth.corpus.format import (
    FORMAT,
    Corpus,
    CorpusInfo,
    MappedFiles,
    SourceInfo,
    each_epoch,
    fingerprint_of,
    read_facts,
)
from firth.corpus.loss import LossInfo
from firth.tokenizers.pieces import Pieces

SIDES = ("source", "target")
_ROUND = 4  # pairs whose lengths agree up to this are alike


class PairSplitInfo(Config):
    pairs: int
    source_tokens: int
    target_tokens: int
    unknown: int

    @property
    def documents(self) -> int:
        """Each pair is a document of its own."""
        return self.pairs


class PairsInfo(Config):
    """The content of ``corpus.json`` of a parallel corpus."""

    format: int = FORMAT
    kind: Literal["pairs"] = "pairs"
    tokens: TokensConfig
    separate: bool  # each side has a tokenizer of its own
    tokenizers: list[str]  # fingerprints
    vocab_size: int
    target_vocab_size: int
    dtype: str
    sources: list[SourceInfo]
    languages: list[str]  # as the names of the files say; "" where they do not
    left_out: dict[str, int]  # pairs, by reason
    loss: dict[str, LossInfo] = Field(default_factory=dict)  # of each side; not in corpora of earlier versions
    warnings: list[str] = Field(default_factory=list)
    train: PairSplitInfo
    heldout: PairSplitInfo
    checksums: dict[str, str]

    @property
    def tokenizer(self) -> str:
        return "+".join(self.tokenizers)

    def __repr__(self) -> str:
        pairs = f"{self.train.pairs:,} sentence pairs, {self.heldout.pairs:,} held out"
        return f"<corpus: {pairs}, {self.vocab_size:,} {self.tokens.kind}>"

    __str__ = __repr__


class PairSplit(MappedFiles):
    """One part of a parallel corpus."""

    @cached_property
    def ids(self) -> dict[str, NDArray[np.integer]]:
        return {side: self._map(f"{side}.bin", self.dtype) for side in SIDES}

    @cached_property
    def starts(self) -> dict[str, NDArray[np.int64]]:
        return {side: self._map(f"{side}_starts.bin", np.dtype(np.int64)) for side in SIDES}

    @property
    def num_pairs(self) -> int:
        return len(self.starts["source"]) - 1

    def lens(self, side: str) -> NDArray[np.int64]:
        """Tokens of every sentence of a side, [N]."""
        return np.diff(self.starts[side])

    def sentence(self, side: str, number: int) -> NDArray[np.integer]:
        starts = self.starts[side]
        return self.ids[side][starts[number] : starts[number + 1]]

    def texts(self, side: str) -> list[str]:
        """The sentences as they were written (held-out part)."""
        return (self.folder / f"{side}.txt").read_text(encoding="utf-8").split("\n")[:-1]


class PairsCorpus:
    """A prepared parallel corpus, opened for reading."""

    def __init__(self, folder: Path, info: PairsInfo) -> None:
        self.folder = folder
        self.info = info
        self.train = PairSplit(folder / "train", info.dtype)
        self.heldout = PairSplit(folder / "heldout", info.dtype)

    @classmethod
    def open(cls, folder: str | Path, verify: bool = True) -> "PairsCorpus":
        """``verify`` reads every file once and compares checksums; a damaged one is named."""
        folder = local_path(folder)
        make = "firth prepare-pairs SOURCE TARGET --out"
        if not folder.exists():
            raise FirthError(f"{folder}: no such corpus; make one with: {make} {folder}")
        if not is_pairs(folder):
            raise FirthError(f"{folder}: not a corpus of sentence pairs; make one with: {make} NEW_FOLDER")
        info = PairsInfo.build(read_facts(folder), folder / "corpus.json")
        if verify:
            check_files(folder, info.checksums, "prepare the corpus again")
        return cls(folder, info)

    @cached_property
    def pieces(self) -> Pieces:
        """The tokenizer of the source (and of the target, where they share one)."""
        return Pieces.load(self.folder / "tokenizer")

    @cached_property
    def target_pieces(self) -> Pieces:
        return Pieces.load(self.folder / "tokenizer-target") if self.info.separate else self.pieces

    @property
    def fingerprint(self) -> str:
        """Equal for corpora with equal content."""
        return fingerprint_of(self.info.checksums)


def as_pairs(corpus: object) -> PairsCorpus:
    """The corpus of a training that reads pairs, whose ``open_corpus`` opens nothing else."""
    assert isinstance(corpus, PairsCorpus)
    return corpus


def is_pairs(folder: Path) -> bool:
    """Whether a folder is a parallel corpus."""
    if not (folder / "corpus.json").is_file():
        return False
    data = read_json(folder / "corpus.json")
    return isinstance(data, dict) and data.get("kind") == "pairs"


class PairBatches:
    """The pairs of a split in batches of at most ``batch_tokens`` tokens of each side, padding counted."""

    def __init__(
        self, source_lens: NDArray[np.int64], target_lens: NDArray[np.int64], batch_tokens: int, seed: int
    ) -> None:
        self.seed = seed
        self._rounded = -(-np.stack([target_lens, source_lens]) // _ROUND) * _ROUND
        order = np.lexsort((self._rounded[1], self._rounded[0]))
        self.first = cut_batches(self._rounded.max(0)[order], batch_tokens)
        self._order = each_epoch(self._draw_order)

    def __len__(self) -> int:
        return len(self.first) - 1

    def _draw_order(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(pairs in sorted order, order of the batches) of an epoch."""
        random = generator(self.seed, 3, epoch)
        pairs = random.permutation(self._rounded.shape[1])
        pairs = pairs[np.lexsort((self._rounded[1, pairs], self._rounded[0, pairs]))]
        return pairs, random.permutation(len(self))

    def pairs(self, number: int) -> NDArray[np.int64]:
        """The pairs of batch ``number`` of the endless sequence of epochs."""
        epoch, place = divmod(number, len(self))
        pairs, batches = self._order(epoch)
        batch = batches[place]
        return pairs[self.first[batch] : self.first[batch + 1]]


def corpus_info(path: Path, verify: bool = True) -> CorpusInfo | PairsInfo:
    """The content of ``corpus.json``; ``verify`` compares every file with its checksum."""
    if is_pairs(path):
        return PairsCorpus.open(path, verify).info
    return Corpus.open(path, verify).info
