"""From raw text to a corpus: streaming, parallel, resumable, the same bytes on any number of workers.

Work happens in a hidden folder next to the output: the tokenizer first, then one part file a block
of documents, then the merged arrays, which get the final name in one rename. After a kill the
same command continues from what is there; what is wrong with the input leaves nothing behind.
"""

import ctypes
import gc
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from firth.core.config import check_engine, usable_cores
from firth.core.errors import FirthError
from firth.core.files import atomic_folder, behind_link, checksum, read_json, replace_folder, write_json
from firth.core.registry import TokensConfig
from firth.core.storage import Cluster
from firth.core.types import Progress
from firth.corpus.encoded import WordRules
from firth.corpus.format import CorpusInfo, SourceInfo, SplitInfo
from firth.corpus.loss import Sample, loss_warnings, measure_loss, pieces_round_trip, unsegmented, words_round_trip
from firth.corpus.near import LEAST_SIMILARITY, NearDuplicates, Signatures, signatures
from firth.corpus.parts import (
    Block,
    ClusterWorker,
    PartMaker,
    SeenHashes,
    Worker,
    begin,
    check_goal,
    has_part,
    hash_bytes,
    merge_parts,
    merge_types,
    working_folder,
)
from firth.data.readers import (
    CASE_KEPT,
    Document,
    ReadingConfig,
    find_layouts,
    has_dotless_i,
    read_dictionary,
    read_documents,
    script_sample,
)
from firth.data.sources import Source, find_sources, require_unchanged, stamps
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.segmentation import PLAIN, Segmentation, choose_segmentation
from firth.tokenizers.vocabulary import train_pieces

_BLOCK_BYTES = 1_000_000
_HASHES = 2.0**64
Sentences = list[list[tuple[int, int]] | None]


def prepare(
    inputs: list[str],
    out: Path,
    tokens: TokensConfig,
    reading: ReadingConfig | None = None,
    tokenizer: Path | None = None,
    heldout: float | None = None,
    deduplicate: bool = False,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    engine: str = "local",
    address: str | None = None,
    near_duplicates: float | None = None,
    dictionary: Path | None = None,
    segmenter: str = "auto",
    segmentation: Segmentation | None = None,
) -> CorpusInfo:
    """Makes the corpus ``out``. ``tokenizer`` uses one that exists instead of training one; words are found as ``segmentation``
    or that tokenizer says, or else as fits the text, the user's ``dictionary`` and what is installed. With ``engine="ray"``
    blocks are tokenized on a cluster. ``near_duplicates`` is the similarity from which on a document repeats an earlier one."""
    remote = check_engine(engine, address)
    out = behind_link(out)
    check_goal(out, overwrite)
    if heldout is not None and not 0 <= heldout < 1:
        raise FirthError(f"heldout is {heldout}: it is a share of the documents, at least 0 and below 1")
    if workers is not None and workers < 1:
        raise FirthError(f"workers is {workers}: at least 1 is needed")
    if near_duplicates is not None and not LEAST_SIMILARITY <= near_duplicates <= 1:
        raise FirthError(
            f"near_duplicates is {near_duplicates}: it is a similarity from {LEAST_SIMILARITY} (below it pairs are missed) to 1"
        )
    reading = reading or ReadingConfig()
    pieces = None if tokenizer is None else _given_pieces(tokenizer, tokens)
    tokens = tokens if pieces is None else described(pieces, tokens)
    with working_folder(out) as staging:
        sources = _spool_stdin(inputs, staging, reading)
        share = (
            heldout if heldout is not None else (0.05 if sum(source.size for source in sources) < 20_000_000 else 0.01)
        )
        given = pieces.segmentation if pieces is not None and segmentation is None else PLAIN
        sample = list(script_sample(sources, reading)) if pieces is None or given.plain else []
        how, advice = _segmentation(sample, given, dictionary, segmenter, tokens)
        how, advice = (how, advice) if segmentation is None else (segmentation, [])
        if pieces is None and tokens.lowercase and has_dotless_i(sample):
            tokens, advice = tokens.replace(lowercase=False), [*advice, CASE_KEPT]
        settings, before = _settings(sources, tokens, reading, pieces, share, deduplicate), stamps(sources)
        settings |= {"near_duplicates": near_duplicates}
        begin(staging, settings | ({} if how.plain else {"segmentation": how.model_dump(mode="json")}))
        job = _Job(staging, sources, tokens, reading, share, deduplicate, progress or (lambda event: None), how, advice)
        job.given = pieces is not None
        job.near = None if near_duplicates is None else NearDuplicates(near_duplicates)
        job.cluster = Cluster(address, workers) if remote else None
        job.check()
        job.tokenizer(pieces)
        del pieces
        num_parts = job.parts(workers or usable_cores())
        require_unchanged(sources, before)
        return job.finish(num_parts, out)


def _given_pieces(tokenizer: Path, tokens: TokensConfig) -> Pieces:
    if tokens.kind == "words":
        raise FirthError(f"{tokenizer}: a corpus of words has no tokenizer; leave it out or choose other --tokens")
    pieces = Pieces.load(tokenizer)
    if tokens.strip_accents and not pieces.strip_accents:
        raise FirthError(
            f"{tokenizer}: this tokenizer keeps accents; leave out --strip-accents, or leave out --tokenizer"
        )
    return pieces


def described(pieces: Pieces, tokens: TokensConfig) -> TokensConfig:
    """The settings of tokens as the given tokenizer has them."""
    kind = pieces.kind if pieces.kind != "other" else tokens.kind
    return tokens.replace(
        kind=kind,
        lowercase=pieces.lowercase,
        strip_accents=pieces.strip_accents and kind == "wordpiece",
        byte_fallback=pieces.byte_fallback,
    )


def _segmentation(
    sample: list[str],
    given: Segmentation,
    dictionary: Path | None,
    segmenter: str,
    tokens: TokensConfig,
) -> tuple[Segmentation, list[str]]:
    """The given one, else what fits a sample of the text; the user's words come after those of the given one."""
    words = read_dictionary(dictionary) if dictionary is not None else []
    if words and tokens.word_split == "whitespace":
        raise FirthError(f"{dictionary}: words are split at white space only; leave out --dictionary or --word-split")
    if not given.plain:
        return given.replace(dictionary=tuple(dict.fromkeys((*given.dictionary, *words)))), []
    if tokens.word_split == "whitespace":
        return PLAIN, []
    return choose_segmentation(sample, words, segmenter)


def _spool_stdin(inputs: list[str], staging: Path, reading: ReadingConfig) -> list[Source]:
    """Standard input is read more than once, so it is kept in the working folder first."""
    if "-" not in inputs:
        return find_sources(inputs, reading.format)
    spool = staging / "stdin"
    with open(spool, "wb") as handle:
        shutil.copyfileobj(sys.stdin.buffer, handle, 1 << 20)
    if spool.stat().st_size == 0:
        raise FirthError("standard input is empty: pipe some text into it or name a file")
    format = reading.format if reading.format != "auto" else "txt"
    others = [word for word in inputs if word != "-"]
    return [Source(spool, format, "", "-"), *(find_sources(others, reading.format) if others else [])]


def _settings(
    sources: list[Source],
    tokens: TokensConfig,
    reading: ReadingConfig,
    pieces: Pieces | None,
    share: float,
    deduplicate: bool,
) -> dict[str, object]:
    """All that decides the result; a working folder with other settings is not used."""
    files = [
        [
            str(source.path.absolute()),
            source.size,
            source.path.stat().st_mtime_ns if source.name != "-" else checksum(source.path),
        ]
        for source in sources
    ]
    return {
        "files": files,
        "tokens": tokens.model_dump(),
        "reading": reading.model_dump(),
        "tokenizer": None if pieces is None else pieces.fingerprint,
        "heldout": share,
        "deduplicate": deduplicate,
    }


class _Job:
    """One preparation, step by step."""

    def __init__(
        self,
        staging: Path,
        sources: list[Source],
        tokens: TokensConfig,
        reading: ReadingConfig,
        share: float,
        deduplicate: bool,
        progress: Progress,
        segmentation: Segmentation,
        advice: list[str],
    ) -> None:
        self.staging = staging
        self.sources = sources
        self.tokens = tokens
        self.reading = reading
        self.share = share
        self.progress = progress
        self.segmentation, self.advice = segmentation, advice
        self.seen = SeenHashes(staging) if deduplicate else None
        self.near: NearDuplicates | None = None
        self.cluster: Cluster | None = None
        self.given = False  # whether the tokenizer was learned elsewhere
        self.pieces: Pieces | None = None  # the given ones, as long as this process needs them
        self.removed = 0
        self.sample = Sample()
        self.total_bytes = sum(source.size for source in sources)
        self.unpacked_bytes = sum(
            source.size * (4 if source.packing or source.format in ("parquet", "docx", "pdf") else 1)
            for source in sources
        )

    def documents(self) -> Iterator[Document]:
        return read_documents(self.sources, self.reading)

    def check(self) -> None:
        """There is at least one document."""
        if next(self.documents(), None) is None:
            raise FirthError(
                f"{self.sources[0].name}: no document in it, only white space or empty fields; check the file and its --column"
            )

    def tokenizer(self, given: Pieces | None) -> None:
        """Trains or copies the tokenizer, unless an earlier run did."""
        goal = self.staging / "tokenizer"
        if self.tokens.kind == "words" or goal.is_dir():
            return
        self.progress({"event": "vocabulary"})
        limit = int(min(1.0, self.tokens.vocabulary_bytes / max(self.unpacked_bytes, 1)) * (_HASHES - 1))

        def sample() -> Iterator[str]:
            left_out = None
            for document in self.documents():
                if limit >= _HASHES - 2 or hash_bytes(b"sample" + document.text.encode()) <= limit:
                    left_out = ""
                    yield document.text
                elif left_out is None:
                    left_out = document.text
            if left_out:  # a few large documents, none of them drawn
                yield left_out

        notes: list[str] = []
        pieces = given or train_pieces(sample, self.tokens, notes)
        pieces.segmentation = self.segmentation
        write_json(self.staging / "notes.json", notes)
        with atomic_folder(goal) as folder:
            pieces.save(folder)
        self.pieces = given
        if given is None:
            del pieces
            release_memory()

    def _notes(self) -> list[str]:
        """What was to be said when the vocabulary was learned, in this run or an earlier one."""
        path = self.staging / "notes.json"
        return read_json(path, list) if path.is_file() else []

    def blocks(self) -> Iterator[Block]:
        """Documents in blocks of about equal size, whatever the workers; held-out ones marked."""
        if self.near is None:
            yield from (self._block(texts, sentences) for texts, sentences in self._read())
            return
        found: Iterable[tuple[tuple[list[bytes], Sentences], Signatures]]
        if self.cluster is None:
            found = ((one, signatures(one[0])) for one in self._read())
        else:
            found = self.cluster.paired(signatures, self._read(), lambda one: one[:1])
        for (texts, sentences), some in found:
            fresh = np.flatnonzero(~self.near.add(some)).tolist()
            self.removed += len(texts) - len(fresh)
            yield self._block([texts[place] for place in fresh], [sentences[place] for place in fresh])

    def _read(self) -> Iterator[tuple[list[bytes], Sentences]]:
        """The documents of each block, and their sentences where the file gave them."""
        texts: list[bytes] = []
        sentences: Sentences = []
        size = 0
        for document in self.documents():
            texts.append(document.text.encode())
            sentences.append(document.sentences)
            size += len(texts[-1])
            if size >= _BLOCK_BYTES:
                yield texts, sentences
                texts, sentences, size = [], [], 0
        if texts:
            yield texts, sentences

    def _block(self, texts: list[bytes], sentences: Sentences) -> Block:
        hashes = np.asarray([hash_bytes(text) for text in texts], np.uint64)
        if self.seen is not None:
            new = np.flatnonzero(~self.seen.add(hashes))
            self.removed += len(hashes) - len(new)
            texts, sentences = [texts[place] for place in new], [sentences[place] for place in new]
            hashes = hashes[new]
        self.sample.add(hashes, texts)
        return Block(texts, sentences, (hashes < np.uint64(self.share * (_HASHES - 1))).tolist())

    def parts(self, num_workers: int) -> int:
        """Writes every part that is not there yet."""
        folder = self.staging / "parts"
        folder.mkdir(exist_ok=True)
        rules: WordRules | Path = self._word_rules() if self.tokens.kind == "words" else self.staging / "tokenizer"
        wanted = min(num_workers, 1 + self.unpacked_bytes // (2 * _BLOCK_BYTES))
        if wanted > 1 or self.cluster is not None:
            self.pieces = None
            release_memory()
        if self.cluster is not None:
            remote = ClusterWorker(self.cluster, rules, folder)
            return self._run_parts(folder, remote.make, 2 * self.cluster.num_cpus)  # one is ready when another is done
        makers: list[Worker | PartMaker] = []
        idle: SimpleQueue[Worker | PartMaker] = SimpleQueue()

        def make(number: int, block: Block) -> None:
            maker = idle.get()
            try:
                maker.make(number, block)
            finally:
                idle.put(maker)

        try:  # a signal may come while they start
            for _ in range(wanted):
                makers.append(PartMaker(self.pieces or rules, folder) if wanted == 1 else Worker(rules, folder))
                idle.put(makers[-1])
            return self._run_parts(folder, make, wanted)
        finally:
            for maker in makers:
                if isinstance(maker, Worker):
                    maker.close()

    def _word_rules(self) -> WordRules:
        return WordRules(
            lowercase=self.tokens.lowercase,
            whitespace_only=self.tokens.word_split == "whitespace",
            segmentation=self.segmentation,
        )

    def _run_parts(self, folder: Path, make: Callable[[int, Block], None], num_workers: int) -> int:
        pending: set[Future[None]] = set()
        number = 0
        for source in self.sources:
            source.meter.done = False
        with ThreadPoolExecutor(num_workers) as pool:
            try:
                for number, block in enumerate(self.blocks(), 1):
                    if not has_part(folder, number - 1):
                        pending.add(pool.submit(make, number - 1, block))
                    while len(pending) > num_workers:
                        pending = _finish(pending)
                    done = sum(source.meter.place(source.size) for source in self.sources)
                    self.progress({"event": "block", "bytes": done, "total": self.total_bytes})
                while pending:
                    pending = _finish(pending)
            finally:
                for future in pending:
                    future.cancel()
        return number

    def finish(self, num_parts: int, out: Path) -> CorpusInfo:
        """Merges the parts, writes ``corpus.json`` and gives the folder its name."""
        self.progress({"event": "merge"})
        goal = self.staging / "corpus"
        shutil.rmtree(goal, ignore_errors=True)
        goal.mkdir()
        parts = self.staging / "parts"
        remap = None
        if self.tokens.kind == "words":
            shutil.rmtree(self.staging / "tokenizer", ignore_errors=True)
            vocab_size, remap = merge_types(parts, num_parts, self.staging / "tokenizer")
            self.segmentation.save(self.staging / "tokenizer")
            fingerprint = checksum(self.staging / "tokenizer" / "words.txt")[:16]
            round_trip = words_round_trip(self._word_rules())
        else:
            pieces = self.pieces or Pieces.load(self.staging / "tokenizer")
            vocab_size, fingerprint = pieces.vocab_size, pieces.fingerprint
            round_trip = pieces_round_trip(pieces)
        shutil.copytree(self.staging / "tokenizer", goal / "tokenizer")
        dtype = "uint16" if vocab_size <= 1 << 16 else "uint32"
        totals = merge_parts(parts, num_parts, goal, dtype, remap)
        if not totals["train"]["tokens"]:
            raise FirthError(
                f"{self.sources[0].name}: no token of text was found for training; give more text or a smaller --heldout"
            )
        sample = self.sample.texts()
        loss = measure_loss(sample, round_trip, self.tokens.lowercase)
        unknown, tokens = (sum(totals[split][name] for split in totals) for name in ("unknown", "tokens"))
        info = CorpusInfo(
            tokens=self.tokens,
            tokenizer=fingerprint,
            vocab_size=vocab_size,
            dtype=dtype,
            reading=self.reading,
            sources=[SourceInfo(name=source.name, bytes=source.size) for source in self.sources],
            layouts=find_layouts(self.sources, self.reading),
            heldout_share=self.share,
            duplicates_removed=None if self.seen is None and self.near is None else self.removed,
            loss=loss,
            unsegmented=unsegmented(sample, self.segmentation) if self.tokens.word_split == "words" else {},
            dictionary=len(self.segmentation.dictionary),
            simplified=bool(self.segmentation.traditional),
            warnings=[
                *loss_warnings(loss, unknown / max(tokens, 1), self.tokens, self.given),
                *self.advice,
                *self._notes(),
                *_repeated(totals, self.share),
            ],
            checksums={
                str(file.relative_to(goal)): checksum(file) for file in sorted(goal.rglob("*")) if file.is_file()
            },
            train=SplitInfo(**totals["train"]),
            heldout=SplitInfo(**totals["heldout"]),
        )
        write_json(goal / "corpus.json", info.model_dump())
        replace_folder(goal, out)
        shutil.rmtree(self.staging, ignore_errors=True)
        return info


def _repeated(totals: dict[str, dict[str, int]], share: float) -> list[str]:
    """A sentence where so many documents are held out that some must be repeated many times: equal ones stay together."""
    held, documents = (totals["heldout"]["documents"], sum(found["documents"] for found in totals.values()))
    if held <= share * documents + 6 * (share * documents) ** 0.5 + 6:
        return []
    return [
        f"{held / documents:.0%} of the documents are held out, not {share:.0%}: some are repeated many times, and equal ones are "
        "held out together; --deduplicate keeps one of each"
    ]


def _finish(pending: Iterable[Future[None]]) -> set[Future[None]]:
    done, rest = wait(pending, return_when=FIRST_COMPLETED)
    for future in done:
        future.result()
    return rest


def release_memory() -> None:
    """Returns freed heap memory to the system (glibc's malloc_trim); does nothing elsewhere."""
    gc.collect()
    if sys.platform != "linux":  # Windows cannot even open itself as a library
        return
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
