"""Documents into a search index: read, cut into passages, encoded, and added some thousand passages at a time.

A document that the index has already is left alone, a changed one is replaced; so the same command goes on where it was
stopped. How much vectors count against words is chosen by questions that the documents themselves give
(``choose_weight``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firth.core.config import address_of
from firth.core.errors import FirthError, nearest
from firth.core.files import fingerprint
from firth.core.storage import Cluster
from firth.core.types import Floats, Progress, generator, hashed, unit_rows
from firth.data.readers import Document, Place, ReadingConfig, read_places
from firth.data.sources import Source, find_sources, shown_name
from firth.retrieval.exact import Encode, WeightSample, choose_weight
from firth.retrieval.parts import Entry, content_key
from firth.retrieval.passages import cut_passages, unit_spans
from firth.retrieval.store import IndexConfig, IndexRecord, ModelRecord, Writer, is_index, writing

if TYPE_CHECKING:
    from firth.models.shared.model import Model

_COMMITTED = 4096  # passages that are added at a time
_ENCODED = 128  # passages that are encoded at a time, then their number is told
_SENT = 512  # to a cluster
_MAX_COLUMNS = 200
_SAMPLE, _ASKED = 1000, 150  # passages and questions by which the weight is chosen
_QUESTION_UNITS = 16


@dataclass
class Changes:
    """What an indexing did."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    deleted: int = 0
    passages: int = 0  # of the index, at the end
    documents: int = 0
    note: str = ""


@dataclass
class _Batch:
    """Documents that are not written yet, and which of them replace others."""

    entries: dict[str, Entry] = field(default_factory=dict)
    num_passages: int = 0
    replacing: set[str] = field(default_factory=set)
    done_bytes: int = 0  # of the files before

    def texts(self, size: int) -> Iterator[list[str]]:
        """The passages, so many together; at least one list, which may be empty."""
        every = [entry.text[start:end] for entry in self.entries.values() for start, end in entry.passages]
        for start in range(0, max(1, len(every)), size):
            yield every[start : start + size]


@dataclass(frozen=True)
class Remote:
    """A cluster that encodes passages; the model is at the same path on every node, where ``load`` reads it."""

    cluster: Cluster
    load: Callable[[str], Model]


def index_documents(
    inputs: Sequence[str],
    out: Path,
    config: IndexConfig,
    reading: ReadingConfig,
    model: tuple[Path, Model] | None = None,
    id_column: str | None = None,
    progress: Progress | None = None,
    remote: Remote | None = None,
) -> Changes:
    """Adds documents to an index, or replaces those that have changed. Those of files that are empty now, or not there any
    more in a folder that is named, go."""
    record = None if model is None else _model_record(*model)
    changes = Changes()
    with writing(out, IndexRecord(config=config, model=record)) as writer:
        if is_index(out):
            _require_same(out, writer.record, record, config)
        sources, gone = _read_again(writer, inputs, reading.format)
        similarity = "cosine" if writer.record.model is None else writer.record.model.similarity
        encode = None if model is None else passage_encoder(model[1], similarity)
        adding = _Adding(writer, changes, id_column)
        batches = adding.batches(sources, reading)
        for batch, vectors in _encoded(batches, model, encode, remote, similarity, progress):
            adding.commit(batch, vectors)
            if progress is not None:
                total = sum(source.size for source in sources) if len(sources) > 1 else 0
                done, passages = changes.added + changes.replaced, writer.record.num_passages
                event = {"event": "indexed", "documents": done, "passages": passages}
                progress({**event, "bytes": batch.done_bytes, "total": total})
        for name in gone:
            adding.remove_file(name)
        if writer.gone or not is_index(out):
            writer.commit()
        if encode is not None and model is not None:
            _weigh(writer, encode, question_encoder(model[1], similarity))
        changes.passages, changes.documents = writer.record.num_passages, writer.record.num_documents
    return changes


def _read_again(writer: Writer, inputs: Sequence[str], format: str) -> tuple[list[Source], list[str]]:
    """The files to read, and those that the index has documents from but that are empty now, or not there any more."""
    known = sorted(writer.state.sources())
    gone = {word: [name for name in known if _is_gone(name, word)] for word in inputs}
    left = [word for word in inputs if not (gone[word] and _has_nothing(Path(word)))]
    sources = find_sources(left, format, skip_empty=True) if left or not inputs else []
    return sources, sorted({name for some in gone.values() for name in some})


def _is_gone(name: str, word: str) -> bool:
    """Whether a file of the index is one of those that an input stands for, and has nothing any more."""
    if address_of(word) is not None or address_of(name) is not None:
        return False
    path, asked = Path(name), Path(word).resolve()
    inside = path.is_relative_to(asked) or (not asked.exists() and fnmatchcase(name, shown_name(asked)))
    return inside and (path != asked or asked.exists()) and _has_nothing(path)


def _has_nothing(path: Path) -> bool:
    """Neither a file with something in it nor a folder with one."""
    files = path.rglob("*") if path.is_dir() else [path]
    return not any(one.is_file() and one.stat().st_size for one in files)


def delete_documents(out: Path, names: Sequence[str]) -> Changes:
    """Takes documents out by their ids, or all documents of a file by its name."""
    changes = Changes()
    with writing(out, None) as writer:
        for name in names:
            file = full_name(name)
            place = writer.find(name) or writer.find(file)
            found = (
                [(number, one) for number, part in enumerate(writer.state.parts) for one in part.of_source(file)]
                if place is None
                else [place]
            )
            if not found:
                raise FirthError(f"{out}: no document with the id '{name}', and none from a file of this name")
            for part, number in found:
                writer.remove(part, number)
            changes.deleted += len(found)
        writer.commit()
        changes.passages, changes.documents = writer.record.num_passages, writer.record.num_documents
    return changes


def _model_record(path: Path, model: Model) -> ModelRecord:
    dots = model.sentence is not None and model.sentence.config.similarity == "dot"
    return ModelRecord(
        path=str(path.resolve()),
        fingerprint=fingerprint(path),
        dim=model.vector_dim(),
        images=model.describe().images,
        similarity="dot" if dots else "cosine",
    )


def _require_same(out: Path, old: IndexRecord, model: ModelRecord | None, config: IndexConfig) -> None:
    """An index keeps its model and its way of cutting passages."""
    if old.model is None and model is not None:
        raise FirthError(f"{out}: an index without vectors; make a new one to add a model")
    if old.model is not None and (model is None or model.fingerprint != old.model.fingerprint):
        raise FirthError(f"{out}: its vectors were made by {old.model.path}; give this --model, or make a new index")
    if config != old.config:
        name = next(name for name in IndexConfig.model_fields if getattr(config, name) != getattr(old.config, name))
        raise FirthError(
            f"{out}: was made with {name} {getattr(old.config, name)}, not {getattr(config, name)}; make a new index"
        )


def passage_encoder(model: Model, similarity: str) -> Encode:
    """Vectors of passages, with the model's prompt for these; of length 1 where cosines are compared."""
    return _encoder(model, None if model.sentence is None else model.sentence.config.passage_prompt, similarity)


def question_encoder(model: Model, similarity: str) -> Encode:
    return _encoder(model, None if model.sentence is None else model.sentence.config.question_prompt, similarity)


def _encoder(model: Model, prompt: str | None, similarity: str) -> Encode:
    if similarity == "dot":
        return lambda texts: np.asarray(model.encode(list(texts), prompt=prompt), np.float32)
    return lambda texts: unit_rows(model.encode(list(texts), prompt=prompt))


class _Adding:
    """Documents on their way into the index. On a cluster some batches are read before the ones before them are written."""

    def __init__(self, writer: Writer, changes: Changes, id_column: str | None) -> None:
        self.writer, self.changes, self.id_column = writer, changes, id_column
        self.batch, self.done_bytes = _Batch(), 0
        self.sent: dict[str, Entry] = {}  # in batches that are not written yet
        self.waiting: Counter[str] = Counter()  # documents of each file that are not written yet
        self.moved: set[str] = set()  # ids of unchanged documents that stand in another file now

    def batches(self, sources: Sequence[Source], reading: ReadingConfig) -> Iterator[_Batch]:
        """The documents that are new or have changed."""
        num_texts = sum(source.format == "txt" for source in sources)
        for source in sources:
            name, seen = _file_of(source), _Seen()
            for place, document in read_places(source, reading, num_texts, fields=True):
                seen.add(place)
                self._add(source, place, document)
                if self.batch.num_passages >= _COMMITTED:
                    yield self._taken()
            if self.id_column is None and self._num_of_source(name) > seen.count:
                _remove_unseen(self.writer, name, seen, self.changes)
            self.done_bytes += source.size
        if self.batch.entries:
            yield self._taken()

    def _taken(self) -> _Batch:
        found, self.batch = self.batch, _Batch()
        found.done_bytes = self.done_bytes
        self.sent |= found.entries
        return found

    def _add(self, source: Source, place: Place, document: Document) -> None:
        fields = {name: value for name, value in (document.fields or {}).items() if value is not None}
        if len(fields) > _MAX_COLUMNS:
            raise FirthError(f"{source.name}: {len(fields)} columns, more than the {_MAX_COLUMNS} that an index keeps")
        file = _file_of(source)
        id = f"{file}{place}" if self.id_column is None else _id_of(source, place, document, self.id_column)
        text = document.text.encode("utf-8", "replace").decode()
        waiting = self.batch.entries.get(id)
        if waiting is not None:
            self.batch.num_passages -= len(waiting.passages)
            self.changes.replaced += 1
        else:
            known = self._known_key(id)
            if known == content_key(text, fields):
                self.changes.unchanged += 1
                if self.id_column is not None and self._source_of(id) != file:
                    self.moved.add(id)
                return
            if known is None:
                self.changes.added += 1
            else:
                self.batch.replacing.add(id)
                self.changes.replaced += 1
        config = self.writer.record.config
        passages = cut_passages(text, document.sentences, config.passage_size, config.overlap)
        self.batch.entries[id] = Entry(id, file, text, fields, passages, None)
        self.waiting[file] += waiting is None
        self.batch.num_passages += len(passages)

    def _source_of(self, id: str) -> str:
        """The file that the index has a document from."""
        place = self.writer.find(id)
        return "" if place is None else str(self.writer.state.parts[place[0]].row(place[1])["source"])

    def remove_file(self, name: str) -> None:
        """Takes out the documents of a file, but not those that stand in another one now."""
        for place, part in enumerate(self.writer.state.parts):
            for number in part.of_source(name):
                if str(part.row(number)["id"]) not in self.moved:
                    self.writer.remove(place, number)
                    self.changes.deleted += 1

    def _num_of_source(self, name: str) -> int:
        """Documents of a file, those that were replaced or deleted too."""
        return self.writer.state.num_of_source(name) + self.waiting[name]

    def _known_key(self, id: str) -> int | None:
        """The content of a document that the index has or is about to have."""
        if id in self.sent:
            return content_key(self.sent[id].text, self.sent[id].fields)
        place = self.writer.find(id)
        return None if place is None else self.writer.state.parts[place[0]].content_key(place[1])

    def commit(self, batch: _Batch, vectors: Floats | None) -> None:
        """Writes a batch; from here on it is in the index."""
        for id in batch.replacing:
            place = self.writer.find(id)
            if place is not None:
                self.writer.remove(*place)
        entries, row = [], 0
        for id, entry in batch.entries.items():
            some = None if vectors is None else vectors[row : row + len(entry.passages)]
            row += len(entry.passages)
            entries.append(replace(entry, vectors_PD=some))
            self.waiting[entry.source] -= 1
            if self.sent[id] is entry:
                del self.sent[id]
        self.writer.commit(entries)


def _encoded(
    batches: Iterator[_Batch],
    model: tuple[Path, Model] | None,
    encode: Encode | None,
    remote: Remote | None,
    similarity: str,
    progress: Progress | None = None,
) -> Iterator[tuple[_Batch, Floats | None]]:
    """Every batch with the vectors of its passages."""
    if model is None or encode is None:
        for batch in batches:
            yield batch, None
        return
    size = _ENCODED if remote is None else _SENT
    path, chunks = str(model[0].absolute()), ((batch, texts) for batch in batches for texts in batch.texts(size))
    found: Iterator[tuple[tuple[_Batch, list[str]], Floats]]
    if remote is None:
        found = ((chunk, _rows_of(encode, chunk[1])) for chunk in chunks)
    else:
        load = remote.load
        found = remote.cluster.paired(_encode_there, chunks, lambda chunk: (load, path, similarity, chunk[1]))
    rows: list[Floats] = []
    for (batch, _), some in found:
        if not np.isfinite(some).all():
            raise FirthError("the model gives vectors that are not numbers; check it with: firth info MODEL")
        rows.append(some)
        if progress is not None:
            progress({"event": "encoded", "passages": sum(map(len, rows)), "total": batch.num_passages})
        if sum(map(len, rows)) == batch.num_passages:
            yield batch, np.concatenate(rows)
            rows = []


def _rows_of(encode: Encode, texts: Sequence[str]) -> Floats:
    return encode(texts) if texts else np.zeros((0, 0), np.float32)


@lru_cache(maxsize=1)
def _encoder_there(load: Callable[[str], Model], path: str, similarity: str) -> Encode:
    return passage_encoder(load(path), similarity)


def _encode_there(load: Callable[[str], Model], path: str, similarity: str, texts: list[str]) -> Floats:
    """One job of a cluster; a worker keeps the model for the next."""
    return _rows_of(_encoder_there(load, path, similarity), texts)


def full_name(name: str) -> str:
    """A file, or a document of it, as the index names it: the same for every spelling of its path."""
    return name if address_of(name) is not None else shown_name(Path(name).resolve())


def _file_of(source: Source) -> str:
    return source.name if address_of(source.name) is not None else full_name(str(source.path))


def _id_of(source: Source, place: Place, document: Document, column: str) -> str:
    fields: Mapping[str, object] = document.fields or {}
    if fields.get(column) in (None, ""):
        reason = "empty" if column in fields else nearest(column, list(fields)) if fields else "there are no columns"
        raise FirthError(f"{source.name}{place}: no id in column '{column}' ({reason}); choose another --id")
    return str(fields[column])


class _Seen:
    """The places of a file that have a document, in little memory: they come in the order of their numbers."""

    def __init__(self) -> None:
        self.count, self.mark, self.most = 0, "", 0
        self.empty: set[int] = set()  # numbers that were passed over
        self.parts: dict[int, int] = {}  # of documents that were cut

    def add(self, place: Place) -> None:
        self.empty.update(range(self.most + 1, place.number))
        self.count, self.mark, self.most = self.count + 1, place.mark, place.number
        if place.part > 1:
            self.parts[place.number] = place.part

    def has(self, mark: str, number: int, part: int) -> bool:
        inside = mark == self.mark and number <= self.most and number not in self.empty
        return inside and part <= self.parts.get(number, 1)


_PLACE = re.compile(r"([:#])(\d+)(?:-(\d+))?")


def _remove_unseen(writer: Writer, source: str, seen: _Seen, changes: Changes) -> None:
    """Documents whose rows or lines are empty now, or not there any more, go; so do those that were numbered in another
    way. Ids that the user gave stay."""
    for place, part in enumerate(writer.state.parts):
        for number in part.of_source(source):
            id = str(part.row(number)["id"])
            match = _PLACE.fullmatch(id.removeprefix(source)) if id.startswith(source) else None
            if match is not None and not seen.has(match[1], int(match[2]), int(match[3] or 1)):
                writer.remove(place, number)
                changes.deleted += 1


# -- the weight


def _weigh(writer: Writer, encode: Encode, encode_question: Encode) -> None:
    """Chooses the weight of vectors anew when the index has doubled since."""
    record = writer.record
    if record.num_passages >= 2 * max(1, record.weighed):
        sample = _weight_sample(writer)
        weight = choose_weight(sample, encode, encode_question)
        writer.commit(weight=weight, weighed=record.num_passages)


def _weight_sample(writer: Writer) -> WeightSample:
    """Passages from all over the index; of some a few words are the question."""
    borders = np.cumsum([0, *(part.num_passages for part in writer.state.parts)])
    size = min(2 * _SAMPLE, int(borders[-1]))
    order = generator(0x5EED).choice(int(borders[-1]), size, replace=False)
    texts: list[str] = []
    rows: list[Floats] = []
    documents: list[tuple[int, int]] = []
    asked: dict[int, tuple[str, str]] = {}
    for number in order.tolist():
        which = int(np.searchsorted(borders, number, side="right")) - 1
        part, place = writer.state.parts[which], number - int(borders[which])
        if len(texts) == _SAMPLE or (part.live_P is not None and not part.live_P[place]):
            continue
        document, _, text = part.passage(place)
        assert part.vectors_PD is not None
        cut = _without_words(text, number) if len(asked) < _ASKED else None
        if cut is not None:
            asked[len(texts)] = cut
        texts.append(text)
        rows.append(part.vectors_PD[place])
        documents.append((which, document))
    owners = {document: number for number, document in enumerate(dict.fromkeys(documents))}
    owner_N = np.asarray([owners[document] for document in documents], np.int64)
    return WeightSample(texts, np.stack(rows) if rows else np.zeros((0, 1), np.float32), owner_N, asked)


def _without_words(text: str, key: int) -> tuple[str, str] | None:
    """(some words of a passage in a row, the rest of it), where there is enough of both."""
    units = unit_spans(text)
    if len(units) < 3 * _QUESTION_UNITS:
        return None
    first = int(hashed(0xC10E, key) % np.uint64(len(units) - _QUESTION_UNITS))
    start, end = units[first][0], units[first + _QUESTION_UNITS - 1][1]
    return text[start:end], f"{text[:start]} {text[end:]}"
