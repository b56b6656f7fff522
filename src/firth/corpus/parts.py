"""The pieces a corpus is made of while it is being prepared: one file a block of documents.

A part depends only on its block, so any number of workers gives the same parts, and a part that
is on disk need not be made again after a kill.
"""

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.core.files import atomic_file
from firth.text.chunks import block_encoder
from firth.text.document import Document
from firth.text.encoded import EncodedBlock
from firth.text.pieces import Pieces
from firth.text.word_blocks import WordEncoder, WordRules

SPLITS = ("train", "heldout")


def hash_bytes(data: bytes) -> int:
    """64 bits that tell contents apart, the same everywhere."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def part_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.npz"


class Block(NamedTuple):
    """Documents as UTF-8, their sentences where the file gave them, and which are held out."""

    texts: list[bytes]
    sentences: list[list[tuple[int, int]] | None]
    heldout: list[bool]


class PartMaker:
    """Turns numbered blocks of documents into part files."""

    def __init__(self, rules: WordRules | Path, folder: Path) -> None:
        """``rules``: those of words, or where the tokenizer of pieces is."""
        self.folder = folder
        self.words: WordEncoder | None = None
        if isinstance(rules, WordRules):
            self.words = WordEncoder(rules)
        else:
            self.pieces = Pieces.load(rules)
            self.encoder = block_encoder(self.pieces)

    def make(self, number: int, block: Block) -> None:
        arrays: dict[str, NDArray[Any]] = {}
        for split, wanted in zip(SPLITS, (False, True), strict=True):
            rows = [row[:2] for row in zip(*block, strict=True) if row[2] == wanted]
            chosen = [Document(text.decode(), sentences) for text, sentences in rows]
            size = sum(len(text) for text, _ in rows)
            if self.words:
                found = self.words.encode(chosen)
                encoded, unknown = found.block, 0
                spellings = [word.encode() for word in found.types]
                arrays[f"{split}_types"] = np.frombuffer(b"\n".join(spellings), np.uint8)
                arrays[f"{split}_hashes"] = np.asarray([hash_bytes(word) for word in spellings], np.uint64)
            else:
                encoded = self.encoder.encode(chosen)
                unknown = int((encoded.ids == self.pieces.unk_id).sum()) if self.pieces.unk_id is not None else 0
            arrays |= _arrays(split, encoded)
            arrays[f"{split}_counts"] = np.asarray([unknown, size], np.int64)
        with atomic_file(part_path(self.folder, number), durable=False) as handle:
            np.savez(handle, allow_pickle=False, **arrays)


def _arrays(split: str, block: EncodedBlock) -> dict[str, NDArray[Any]]:
    return {
        f"{split}_ids": block.ids,
        f"{split}_starts": block.word_starts,
        f"{split}_sentences": block.sentence_lens,
        f"{split}_documents": block.document_lens,
    }


def read_part(folder: Path, number: int) -> dict[str, NDArray[Any]]:
    with np.load(part_path(folder, number), allow_pickle=False) as part:
        return dict(part)


def has_part(folder: Path, number: int) -> bool:
    """Whether an earlier try left this part, and left it whole."""
    try:
        with zipfile.ZipFile(part_path(folder, number)) as part:
            return part.testzip() is None
    except (FileNotFoundError, zipfile.BadZipFile):
        return False


class SplitWriter:
    """Appends parts to the arrays of one split."""

    def __init__(self, folder: Path, dtype: str) -> None:
        folder.mkdir(parents=True)
        self.dtype = dtype
        self.files: dict[str, BinaryIO] = {
            name: open(folder / f"{name}.bin", "wb") for name in ("tokens", "sentences", "documents", "words")
        }
        self.totals = dict.fromkeys(("tokens", "sentences", "documents", "unknown", "bytes"), 0)
        self.bits = np.zeros(0, np.bool_)
        for name in ("sentences", "documents"):
            self.files[name].write(np.zeros(1, np.int64).tobytes())

    def add(self, part: dict[str, NDArray[Any]], split: str, ids: NDArray[Any]) -> None:
        sentence_lens, document_lens = part[f"{split}_sentences"], part[f"{split}_documents"]
        self.files["tokens"].write(ids.astype(self.dtype).tobytes())
        self.files["sentences"].write((self.totals["tokens"] + np.cumsum(sentence_lens)).astype(np.int64).tobytes())
        self.files["documents"].write((self.totals["sentences"] + np.cumsum(document_lens)).astype(np.int64).tobytes())
        bits = np.concatenate((self.bits, part[f"{split}_starts"]))
        whole = len(bits) // 8 * 8
        self.files["words"].write(np.packbits(bits[:whole], bitorder="little").tobytes())
        self.bits = bits[whole:]
        unknown, size = part[f"{split}_counts"].tolist()
        for name, more in (
            ("tokens", len(ids)),
            ("sentences", len(sentence_lens)),
            ("documents", len(document_lens)),
            ("unknown", unknown),
            ("bytes", size),
        ):
            self.totals[name] += more

    def close(self) -> None:
        self.files["words"].write(np.packbits(self.bits, bitorder="little").tobytes())
        for file in self.files.values():
            file.close()


def merge_parts(
    parts: Path, num_parts: int, out: Path, dtype: str, remap: Iterator[dict[str, NDArray[Any]]] | None = None
) -> dict[str, dict[str, int]]:
    """All parts in order; ``remap`` gives for each part new ids for its own (words)."""
    writers = {split: SplitWriter(out / split, dtype) for split in SPLITS}
    try:
        for number in range(num_parts):
            part = read_part(parts, number)
            maps = next(remap) if remap is not None else None
            for split, writer in writers.items():
                ids = part[f"{split}_ids"]
                writer.add(part, split, maps[split][ids] if maps is not None else ids)
    finally:
        for writer in writers.values():
            writer.close()
    return {split: writer.totals for split, writer in writers.items()}
