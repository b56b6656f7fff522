"""The working folder of ``prepare``: hidden, next to the output, locked, kept so that a killed run can continue;
the part files in it (one for each block of documents), and how they are merged into a corpus.

Errors of the input or the disk leave nothing behind, not even parent folders that were made.

``SeenHashes`` finds documents and words seen before: 64-bit hashes in sorted runs, small ones in memory, large ones
on disk. A run is merged with the one before it when it has grown to half its size, so there are few runs.
"""

import contextlib
import hashlib
import itertools
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import SAME_COMMAND, FirthError, Interrupted
from firth.core.files import atomic_file, atomic_folder, disk_errors, lock_folder, read_json, write_json
from firth.core.storage import Cluster
from firth.core.types import Array, Arrays
from firth.corpus.chunks import block_encoder
from firth.corpus.encoded import EncodedBlock, WordEncoder, WordRules
from firth.data.readers import Document
from firth.tokenizers.pieces import Pieces

SPLITS = ("train", "heldout")
_IN_MEMORY = 1 << 21  # hashes
_PIECES = 256


def check_goal(out: Path, overwrite: bool) -> None:
    """Refuses an output folder that exists, unless it is a corpus that may be replaced."""
    if not out.exists():
        return
    _sweep(out)
    if not overwrite:
        raise FirthError(f"{out}: exists already; choose another --out, or replace it with --overwrite")
    if not out.is_dir() or not ((out / "corpus.json").is_file() or not any(out.iterdir())):
        raise FirthError(f"{out}: not a corpus, so --overwrite does not touch it; choose another --out")


def _sweep(out: Path) -> None:
    """Removes what a process left that was killed after its corpus was whole, unless another one is at work."""
    left = [out.with_name(f".{out.name}.{ending}") for ending in ("partial", "old")]
    if any(path.is_dir() for path in left):
        with suppress(FirthError), lock_folder(left[0], ""):
            for path in left:
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def working_folder(out: Path) -> Iterator[Path]:
    """Only an interruption leaves the folder there, so that the same command can continue."""
    folder = out.with_name(f".{out.name}.partial")
    made = [parent for parent in folder.parents if not parent.exists()]
    with disk_errors(out):
        folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(
        folder, "another firth prepare is writing this corpus now; wait for it or choose another --out", out
    ):
        try:
            with disk_errors(out):
                yield folder
        except Interrupted:
            raise
        except Exception as error:  # a missing package and too little memory, too
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, FirthError):
                error.args = (str(error).replace(str(folder), str(out)),)
            for parent in made:  # the deepest first; one that is no longer empty stays
                with suppress(OSError):
                    parent.rmdir()
            raise


def begin(folder: Path, settings: Mapping[str, object]) -> None:
    """Keeps the results of an earlier run with the same settings, and removes everything else."""
    path = folder / "settings.json"
    if path.is_file() and read_json(path) == settings:
        return
    for old in folder.iterdir():
        if old.name != "stdin":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    write_json(path, settings)


def hash_bytes(data: bytes) -> int:
    """A 64-bit hash of the content, the same on every machine."""
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

    def __init__(self, rules: WordRules | Path | Pieces, folder: Path) -> None:
        """``rules``: those of words, or the tokenizer of pieces."""
        self.folder = folder
        self.words: WordEncoder | None = None
        if isinstance(rules, WordRules):
            self.words = WordEncoder(rules)
        else:
            self.pieces = Pieces.load(rules) if isinstance(rules, Path) else rules
            self.encoder = block_encoder(self.pieces)

    def make(self, number: int, block: Block) -> None:
        write_part(self.folder, number, self.encode(block))

    def encode(self, block: Block) -> Arrays:
        """The arrays of a part."""
        arrays: Arrays = {}
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
        return arrays


def write_part(folder: Path, number: int, arrays: Arrays) -> None:
    with atomic_file(part_path(folder, number), durable=False) as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def _arrays(split: str, block: EncodedBlock) -> Arrays:
    return {
        f"{split}_ids": block.ids,
        f"{split}_starts": block.word_starts,
        f"{split}_sentences": block.sentence_lens,
        f"{split}_documents": block.document_lens,
    }


def read_part(folder: Path, number: int) -> Arrays:
    with np.load(part_path(folder, number), allow_pickle=False) as part:
        return dict(part)


def has_part(folder: Path, number: int) -> bool:
    """Whether an earlier run left this part whole."""
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

    def add(self, part: Arrays, split: str, ids: Array) -> None:
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
    parts: Path, num_parts: int, out: Path, dtype: str, remap: Iterator[Arrays] | None = None
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


class SeenHashes:
    """A set of hashes that grows block by block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[NDArray[np.uint64]] = []
        self.num_files = 0

    def add(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Remembers the hashes; whether each was there already, or earlier in the same array."""
        fresh, first = np.unique(hashes, return_index=True)
        seen = np.ones(len(hashes), np.bool_)
        seen[first] = False
        for run in self.runs:
            seen |= _contains(run, hashes)
        new = fresh[~seen[first]]
        if len(new):
            self.runs.append(new)
            while len(self.runs) > 1 and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
                self.runs.append(self._merge(self.runs.pop(), self.runs.pop()))
        return seen

    def _merge(self, one: NDArray[np.uint64], two: NDArray[np.uint64]) -> NDArray[np.uint64]:
        size = len(one) + len(two)
        if size <= _IN_MEMORY:
            return np.sort(np.concatenate((one, two)))
        merged = np.memmap(self.folder / f"hashes-{self.num_files}", np.uint64, "w+", shape=size)
        self.num_files += 1
        borders = np.linspace(0, 2.0**64, _PIECES, endpoint=False).astype(np.uint64)
        ones = [*np.searchsorted(one, borders).tolist(), len(one)]
        twos = [*np.searchsorted(two, borders).tolist(), len(two)]
        for place in range(_PIECES):
            part = np.concatenate((one[ones[place] : ones[place + 1]], two[twos[place] : twos[place + 1]]))
            merged[ones[place] + twos[place] :][: len(part)] = np.sort(part)
        for old in (one, two):
            if isinstance(old, np.memmap):
                Path(str(old.filename)).unlink()
        return merged


def _contains(run: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    place = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
    return np.asarray(run[place] == hashes, np.bool_)


class _Types:
    """All types seen so far: hash -> index of first appearance, spelling on disk, count."""

    def __init__(self, spool: Path) -> None:
        self.hashes = np.zeros(0, np.uint64)
        self.index = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)
        self.ends = np.zeros(1, np.int64)
        self.spool = open(spool, "w+b")

    def add(self, spellings: list[bytes], hashes: NDArray[np.uint64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts the types of a part; returns the index of each."""
        place = np.searchsorted(self.hashes, hashes)
        known = np.zeros(len(hashes), np.bool_)
        inside = place < len(self.hashes)
        known[inside] = self.hashes[place[inside]] == hashes[inside]
        fresh = np.flatnonzero(~known)
        fresh_index = len(self.counts) + np.arange(len(fresh))
        lens = [self.spool.write(spellings[one] + b"\n") for one in fresh]
        self.ends = np.concatenate((self.ends, self.ends[-1] + np.cumsum(lens, dtype=np.int64)))
        index = np.empty(len(hashes), np.int64)
        index[known] = self.index[place[known]]
        index[fresh] = fresh_index
        order = np.argsort(hashes[fresh])
        where = np.searchsorted(self.hashes, hashes[fresh][order])
        self.hashes = np.insert(self.hashes, where, hashes[fresh][order])
        self.index = np.insert(self.index, where, fresh_index[order])
        self.counts = np.concatenate((self.counts, np.zeros(len(fresh), np.int64)))
        self.counts[index] += counts
        return index

    def write(self, folder: Path) -> NDArray[np.uint32]:
        """``words.txt`` and ``counts.bin`` by falling frequency; returns index -> id."""
        order = np.argsort(-self.counts, kind="stable")
        new_id = np.empty(len(order), np.uint32)
        new_id[order] = np.arange(len(order), dtype=np.uint32)
        self.spool.flush()
        with open(folder / "words.txt", "wb") as handle:
            if len(order):
                with mmap.mmap(self.spool.fileno(), 0, access=mmap.ACCESS_READ) as spellings:
                    for start, end in zip(self.ends[:-1][order].tolist(), self.ends[1:][order].tolist(), strict=True):
                        handle.write(spellings[start:end])
        self.counts[order].tofile(folder / "counts.bin")
        self.spool.close()
        return new_id


def merge_types(parts: Path, num_parts: int, tokenizer: Path) -> tuple[int, Iterator[Arrays]]:
    """Writes the words and their counts; returns the number of types and, part by part, the new
    ids of its types."""
    types = _Types(parts / "spellings")
    for number in range(num_parts):
        part = read_part(parts, number)
        found = {}
        for split in SPLITS:
            joined = part[f"{split}_types"].tobytes()
            spellings = joined.split(b"\n") if joined else []
            counts = (
                np.bincount(part[f"{split}_ids"], minlength=len(spellings))
                if split == "train"
                else np.zeros(len(spellings), np.int64)
            )
            found[split] = types.add(spellings, part[f"{split}_hashes"], counts)
        np.savez(parts / f"{number:06d}.map.npz", allow_pickle=False, **found)
    num_types = len(types.counts)
    with atomic_folder(tokenizer) as folder:
        new_id = types.write(folder)

    def remap() -> Iterator[Arrays]:
        for number in range(num_parts):
            with np.load(parts / f"{number:06d}.map.npz", allow_pickle=False) as found:
                yield {split: new_id[found[split]] for split in SPLITS}

    return num_types, remap()


# A worker is one of many: it starts no threads, and keeps the memory of one block for the next
# instead of giving it back to the system and asking again (a fifth of the time).
_FRUGAL = {
    "TOKENIZERS_PARALLELISM": "false",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


def send_block(stream: BinaryIO, number: int, block: Block) -> None:
    head = {
        "number": number,
        "lengths": [len(text) for text in block.texts],
        "heldout": block.heldout,
        "sentences": block.sentences,
    }
    stream.write(json.dumps(head).encode() + b"\n")
    stream.write(b"".join(block.texts))
    stream.flush()


def receive_block(stream: BinaryIO) -> tuple[int, Block] | None:
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    head = json.loads(line)
    ends = list(itertools.accumulate(head["lengths"], initial=0))
    text = stream.read(ends[-1])
    if len(text) < ends[-1]:
        return None
    texts = [text[start:end] for start, end in itertools.pairwise(ends)]
    return head["number"], Block(texts, head["sentences"], head["heldout"])


class Worker:
    """The parent's side: sends a block, waits until its part is written."""

    def __init__(self, rules: WordRules | Path, parts: Path) -> None:
        words = rules.model_dump() if isinstance(rules, WordRules) else None
        settings = {"words": words, "tokenizer": None if words else str(rules), "parts": str(parts)}
        environment = {**_FRUGAL, **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "firth.corpus.parts", json.dumps(settings)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def make(self, number: int, block: Block) -> None:
        try:
            send_block(cast(BinaryIO, self.process.stdin), number, block)
            answer = cast(BinaryIO, self.process.stdout).readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise Interrupted(
                f"a worker process ended unexpectedly (exit code {self.process.poll()})",
                f"{SAME_COMMAND} to go on where it stopped, with fewer --workers if memory is short",
            )
        error = json.loads(answer).get("error")
        if error:
            raise FirthError(error)

    def close(self) -> None:
        cast(BinaryIO, self.process.stdin).close()
        self.process.wait()
        cast(BinaryIO, self.process.stdout).close()


PackedFolder = tuple[tuple[str, bytes], ...]
"""The files of a tokenizer on their way to other machines."""


def pack_folder(folder: Path) -> PackedFolder:
    return tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()))


@lru_cache(maxsize=2)  # of both sides of a pair
def unpack_pieces(packed: PackedFolder) -> Pieces:
    """A worker keeps what it has loaded for the next job."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in packed:
            (Path(folder) / name).write_bytes(content)
        return Pieces.load(Path(folder))


class ClusterWorker:
    """The same on a Ray cluster: blocks go out as jobs, arrays come back and are written here. Nothing need be shared but
    what Ray carries; the tokenizer goes to each node once."""

    def __init__(self, cluster: Cluster, rules: WordRules | Path, parts: Path) -> None:
        self.cluster, self.parts = cluster, parts
        self.rules = cluster.put(rules.model_dump_json() if isinstance(rules, WordRules) else pack_folder(rules))

    def make(self, number: int, block: Block) -> None:
        write_part(self.parts, number, self.cluster.call(_encode_block, self.rules, block))


@lru_cache(maxsize=1)
def _maker_there(rules: str | PackedFolder) -> PartMaker:
    known = WordRules.model_validate_json(rules) if isinstance(rules, str) else unpack_pieces(rules)
    return PartMaker(known, Path())


def _encode_block(rules: str | PackedFolder, block: Block) -> Arrays:
    """One job of a cluster."""
    return _maker_there(rules).encode(block)


def main() -> None:
    """The child's side."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.argv[1])
    rules = WordRules.model_validate(settings["words"]) if settings["words"] else Path(settings["tokenizer"])
    maker = PartMaker(rules, Path(settings["parts"]))
    while (block := receive_block(sys.stdin.buffer)) is not None:
        answer = {"error": ""}
        try:
            maker.make(*block)
        except FirthError as error:
            answer["error"] = str(error)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the parent process has ended
        main()
