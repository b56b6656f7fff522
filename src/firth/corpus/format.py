"""A corpus on disk: a folder of plain arrays, memory-mapped, each with its checksum.

``corpus.json``   what it is, how it was made, checksums
``tokenizer/``    the tokenizer's own files (``words.txt`` and ``counts.bin`` for words)
``train/`` and ``heldout/``, each with
    ``tokens.bin``     uint16 or uint32 ids, one after another
    ``sentences.bin``  int64 [S+1]: where each sentence begins among the tokens
    ``documents.bin``  int64 [N+1]: where each document begins among the sentences
    ``words.bin``      one bit a token, lowest first: it starts a word
"""

from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from firth.core.config import Config
from firth.core.configs import TokensConfig
from firth.core.errors import FirthError
from firth.core.files import check_files, read_json
from firth.data.readers import ReadingConfig
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.sentinels import PATTERN, sentinel_ids

FORMAT = 1


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
    heldout_share: float
    duplicates_removed: int | None
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

    def _map(self, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
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

    @classmethod
    def open(cls, folder: str | Path, verify: bool = True) -> "Corpus":
        """``verify`` reads every file once and compares checksums; a damaged one is named."""
        folder = Path(folder)
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


def read_facts(folder: Path) -> Any:
    """What ``corpus.json`` says, of any kind of corpus that this version reads."""
    data = read_json(folder / "corpus.json")
    if isinstance(data, dict) and data.get("format") != FORMAT:
        raise FirthError(
            f"{folder / 'corpus.json'}: made by another version of Firth (format {data.get('format')}, wanted {FORMAT}); prepare it again"
        )
    return data


def fingerprint_of(checksums: dict[str, str]) -> str:
    """One word for all files of a corpus."""
    import hashlib
    import json

    return hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()[:16]


def same_tokens(first: Pieces, second: Pieces) -> bool:
    """Whether two tokenizers number the same tokens alike. Sentinels may stand behind those of one alone."""
    vocabs = [pieces.backend.get_vocab(with_added_tokens=True) for pieces in (first, second)]
    if [bool(sentinel_ids(pieces)) for pieces in (first, second)] in ([True, False], [False, True]):
        vocabs = [{token: number for token, number in one.items() if not PATTERN.fullmatch(token)} for one in vocabs]
    return vocabs[0] == vocabs[1]


def require_same_tokens(pieces: Pieces, corpus: Corpus, model: Path) -> None:
    if not same_tokens(pieces, corpus.pieces):
        raise FirthError(
            f"{corpus.folder}: made with another tokenizer than {model}; prepare it again with --tokenizer {model}"
        )
