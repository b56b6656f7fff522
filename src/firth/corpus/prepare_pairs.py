"""Parallel text to a parallel corpus: filter, learn the pieces, write the ids.

A pair is left out, and counted, where a side is empty, longer than ``max_len`` tokens, or more
than ``max_ratio`` times as long as the other; given test files are never filtered.
"""

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import behind_link, checksum, disk_errors, replace_folder, write_json
from firth.core.registry import TokensConfig
from firth.core.storage import Cluster
from firth.core.types import Progress
from firth.corpus.format import SourceInfo
from firth.corpus.loss import LossInfo, Sample, loss_warnings, measure_loss, pieces_round_trip
from firth.corpus.pairs import SIDES, PairsInfo, PairSplitInfo
from firth.corpus.parts import PackedFolder, check_goal, hash_bytes, pack_folder, unpack_pieces, working_folder
from firth.corpus.prepare import described
from firth.data.parallel import Pair, PairsReadingConfig, find_pair_sources, read_pairs
from firth.data.readers import CASE_KEPT, has_dotless_i
from firth.data.sources import Source, require_unchanged, stamps
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.vocabulary import train_pieces

_TOGETHER = 2000
Columns = list[list[list[int]]]
_HASHES = 2.0**64


class PairFilters(Config):
    """Which pairs are left out of training."""

    max_len: int = 250
    max_ratio: float = 5.0


def prepare_pairs(
    inputs: list[str],
    out: Path,
    tokens: TokensConfig,
    reading: PairsReadingConfig | None = None,
    dev: list[str] | None = None,
    tokenizer: Path | None = None,
    separate: bool = False,
    heldout: float | None = None,
    filters: PairFilters | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    cluster: Cluster | None = None,
) -> PairsInfo:
    """Makes the corpus ``out``; ``dev`` are files for testing, otherwise a share of the pairs is held out. A cluster encodes;
    the files are read and written here."""
    out = behind_link(out)
    check_goal(out, overwrite)
    if tokens.kind == "words":
        raise FirthError("sentence pairs are made of pieces: choose --tokens bpe, unigram or wordpiece")
    if heldout is not None and not 0 <= heldout < 1:
        raise FirthError(f"heldout is {heldout}: it is a share of the pairs, at least 0 and below 1")
    if tokenizer is not None and separate:
        raise FirthError("a given tokenizer serves both sides: leave out --separate or --tokenizer")
    sources, dev_sources = find_pair_sources(inputs), find_pair_sources(dev) if dev else []
    share = 0.0 if dev else (0.02 if heldout is None else heldout)
    with working_folder(out) as staging:
        for old in staging.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        job = _Job(staging / "corpus", sources, dev_sources, tokens, reading or PairsReadingConfig(), share)
        job.progress = progress or (lambda event: None)
        job.filters, job.cluster = filters or PairFilters(), cluster
        files, before = [*sources, *dev_sources], stamps([*sources, *dev_sources])
        job.learn(tokenizer, separate)
        info = job.write()
        require_unchanged(files, before)
        replace_folder(job.goal, out)
        shutil.rmtree(staging, ignore_errors=True)
        return info


class _Writer:
    """The growing files of one split."""

    def __init__(self, folder: Path, dtype: str, with_text: bool) -> None:
        folder.mkdir(parents=True)
        self.dtype = np.dtype(dtype)
        self.files: dict[str, BinaryIO] = {side: open(folder / f"{side}.bin", "wb") for side in SIDES}
        self.texts: dict[str, BinaryIO] = (
            {side: open(folder / f"{side}.txt", "wb") for side in SIDES} if with_text else {}
        )
        self.folder = folder
        self.lens: dict[str, list[int]] = {side: [] for side in SIDES}
        self.unknown = 0

    def add(self, pair: Pair, ids: tuple[list[int], list[int]], unknown: int) -> None:
        self.unknown += unknown
        for side, text, numbers in zip(SIDES, pair, ids, strict=True):
            self.files[side].write(np.asarray(numbers, self.dtype).tobytes())
            self.lens[side].append(len(numbers))
            if self.texts:
                self.texts[side].write(f"{' '.join(text.split())}\n".encode())

    def close(self) -> PairSplitInfo:
        for handle in (*self.files.values(), *self.texts.values()):
            handle.close()
        for side in SIDES:
            starts = np.concatenate(([0], np.cumsum(np.asarray(self.lens[side], np.int64))))
            starts.astype(np.int64).tofile(self.folder / f"{side}_starts.bin")
        return PairSplitInfo(
            pairs=len(self.lens["source"]),
            source_tokens=sum(self.lens["source"]),
            target_tokens=sum(self.lens["target"]),
            unknown=self.unknown,
        )


class _Job:
    """One preparation, step by step."""

    filters: PairFilters
    progress: Progress
    cluster: Cluster | None

    def __init__(
        self,
        goal: Path,
        sources: list[Source],
        dev: list[Source],
        tokens: TokensConfig,
        reading: PairsReadingConfig,
        share: float,
    ) -> None:
        self.goal, self.sources, self.dev = goal, sources, dev
        self.tokens, self.reading, self.share = tokens, reading, share
        self.left_out = {"empty": 0, "long": 0, "ratio": 0}
        self.pieces: list[Pieces] = []
        self.given, self.notes = False, list[str]()
        self.samples = {side: Sample() for side in SIDES}
        self.counts = {side: [0, 0] for side in SIDES}  # tokens of each side, and those of them that are unknown

    def learn(self, given: Path | None, separate: bool) -> None:
        """One tokenizer for both sides, or one for each; a large corpus is sampled."""
        self.progress({"event": "vocabulary"})
        size = sum(source.size * (4 if source.packing else 1) for source in self.sources)
        limit = int(min(1.0, self.tokens.vocabulary_bytes / max(size, 1)) * (_HASHES - 1))
        notes: list[str] = []

        def sample(*sides: int) -> Iterator[str]:
            for pair in read_pairs(self.sources, self.reading):
                if limit >= _HASHES - 2 or hash_bytes(b"sample" + pair.source.encode()) <= limit:
                    yield from (pair[side] for side in sides)

        if given is None and self.tokens.lowercase and has_dotless_i(islice(sample(0, 1), _TOGETHER)):
            self.tokens, notes = self.tokens.replace(lowercase=False), [CASE_KEPT]
        if given is not None:
            self.pieces = [Pieces.load(given)]
            self.given, self.tokens = True, described(self.pieces[0], self.tokens)
        elif separate:
            self.pieces = [train_pieces(partial(sample, side), self.tokens, notes) for side in (0, 1)]
        else:
            self.pieces = [train_pieces(lambda: sample(0, 1), self.tokens, notes)]
        self.notes = notes
        if notes:
            self.progress({"event": "examples", "lines": notes})
        for pieces in self.pieces:
            if pieces.pad_id is None or pieces.eos_id is None:
                raise FirthError(
                    f"{given}: its tokenizer has no token for padding or for the end, which translation needs; choose another"
                )
        for pieces, name in zip(self.pieces, ("tokenizer", "tokenizer-target"), strict=False):
            (self.goal / name).mkdir(parents=True)
            pieces.save(self.goal / name)

    def write(self) -> PairsInfo:
        """Encodes every pair, writes both splits and ``corpus.json``."""
        vocab_sizes = [pieces.vocab_size for pieces in self.pieces]
        dtype = "uint16" if max(vocab_sizes) <= 1 << 16 else "uint32"
        writers = {name: _Writer(self.goal / name, dtype, name == "heldout") for name in ("train", "heldout")}
        for number, (pair, ids, unknown) in enumerate(self._encoded(read_pairs(self.sources, self.reading))):
            if number % 10_000 == 0:
                self.progress({"event": "pairs", "pairs": number})
            reason = self._reason(len(ids[0]), len(ids[1]))
            if reason:
                self.left_out[reason] += 1
                continue
            key = hash_bytes(f"{pair.source}\t{pair.target}".encode())
            writers["heldout" if key < self.share * (_HASHES - 1) else "train"].add(pair, ids, unknown)
        if self.dev:
            for pair, ids, unknown in self._encoded(read_pairs(self.dev, self.reading)):
                writers["heldout"].add(pair, ids, unknown)
        with disk_errors(self.goal):
            splits = {name: writer.close() for name, writer in writers.items()}
        if not splits["train"].pairs:
            counts = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
            raise FirthError(f"{self.sources[0].name}: no pair is left for training ({counts}); check the files")
        names, languages, loss = self.sources + self.dev, self._languages(), self._loss()
        info = PairsInfo(
            tokens=self.tokens,
            separate=len(self.pieces) > 1,
            tokenizers=[pieces.fingerprint for pieces in self.pieces],
            vocab_size=vocab_sizes[0],
            target_vocab_size=vocab_sizes[-1],
            dtype=dtype,
            sources=[SourceInfo(name=source.name, bytes=source.size) for source in names],
            languages=languages,
            left_out=self.left_out,
            loss=loss,
            warnings=[*self._warnings(loss, languages), *self.notes],
            checksums={
                str(file.relative_to(self.goal)): checksum(file)
                for file in sorted(self.goal.rglob("*"))
                if file.is_file()
            },
            train=splits["train"],
            heldout=splits["heldout"],
        )
        write_json(self.goal / "corpus.json", info.model_dump())
        return info

    def _encoded(self, pairs: Iterable[Pair]) -> Iterator[tuple[Pair, tuple[list[int], list[int]], int]]:
        """Pairs with the ids of both sides and how many of them are unknown."""
        stream = iter(pairs)
        blocks = iter(lambda: list(islice(stream, _TOGETHER)), [])
        for block, columns in self._encoded_blocks(blocks):
            self._take_sample(block)
            for pair, source, target in zip(block, *columns, strict=True):
                found = 0
                for side, ids, pieces in zip(SIDES, (source, target), (self.pieces[0], self.pieces[-1]), strict=True):
                    unknown = 0 if pieces.unk_id is None else ids.count(pieces.unk_id)
                    self.counts[side][0] += len(ids)
                    self.counts[side][1] += unknown
                    found += unknown
                yield pair, (source, target), found

    def _take_sample(self, block: list[Pair]) -> None:
        """Also of pairs that will be left out: nothing may be left of a side because nothing of it is known."""
        for place, side in enumerate(SIDES):
            texts = [pair[place].strip().encode() for pair in block]
            self.samples[side].add(np.asarray([hash_bytes(text) for text in texts], np.uint64), texts)

    def _loss(self) -> dict[str, LossInfo]:
        """What of each side cannot be got back from its tokens."""
        return {
            side: measure_loss(self.samples[side].texts(), pieces_round_trip(pieces), self.tokens.lowercase)
            for side, pieces in zip(SIDES, (self.pieces[0], self.pieces[-1]), strict=True)
        }

    def _warnings(self, loss: dict[str, LossInfo], languages: list[str]) -> list[str]:
        found: list[str] = []
        for side, language in zip(SIDES, languages, strict=True):
            tokens, unknown = self.counts[side]
            where = f"{side}{f' ({language})' if language else ''}: "
            found += loss_warnings(loss[side], unknown / max(tokens, 1), self.tokens, self.given, where)
        return found

    def _encoded_blocks(self, blocks: Iterator[list[Pair]]) -> Iterator[tuple[list[Pair], Columns]]:
        if self.cluster is None:
            return ((block, _encode_sides(self.pieces, block)) for block in blocks)
        folders = (self.goal / name for name in ("tokenizer", "tokenizer-target")[: len(self.pieces)])
        packed = self.cluster.put(tuple(pack_folder(folder) for folder in folders))
        return self.cluster.paired(_encode_there, blocks, lambda block: (packed, block))

    def _reason(self, source_len: int, target_len: int) -> str:
        """Why a pair is left out; one is added to both lengths so that a word may become a few."""
        shorter, longer = sorted((source_len, target_len))
        if not shorter:
            return "empty"
        if longer > self.filters.max_len:
            return "long"
        return "ratio" if longer + 1 > self.filters.max_ratio * (shorter + 1) else ""

    def _languages(self) -> list[str]:
        """What the settings or the endings of two files say: ``train.en.gz`` is English."""
        if self.reading.source and self.reading.target:
            return [self.reading.source, self.reading.target]
        if self.sources[0].format != "txt":
            return ["", ""]
        endings = [Path(source.name.removesuffix(source.packing)).suffix.lstrip(".").lower() for source in self.sources]
        return [
            ending if re.fullmatch(r"[a-z]{2,3}([-_][a-z]+)?", ending) and ending != "txt" else "" for ending in endings
        ]


def _encode_sides(pieces: Sequence[Pieces], block: Sequence[Pair]) -> Columns:
    """The ids of the source and of the target of each pair."""
    return [encode_ids(one, [pair[side].strip() for pair in block]) for side, one in enumerate((pieces[0], pieces[-1]))]


def _encode_there(packed: tuple[PackedFolder, ...], block: list[Pair]) -> Columns:
    """One job of a cluster."""
    return _encode_sides([unpack_pieces(one) for one in packed], block)


def encode_ids(pieces: Pieces, texts: list[str]) -> list[list[int]]:
    """The ids of many texts without any special token; what is written in a text is never special."""
    if pieces.byte_ids is not None:
        return [pieces.encode(text, add_special=False, read_special=False).ids.tolist() for text in texts]
    with pieces.reading(special=False) as backend:
        return [encoding.ids for encoding in backend.encode_batch_fast(texts, add_special_tokens=False)]
