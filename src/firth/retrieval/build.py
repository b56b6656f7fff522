"""Documents into a search index: read, cut into passages, encoded, and added some thousand passages at a time.

A document that the index has already is left alone, a changed one is replaced; so the same command goes on where it was
stopped. How much vectors count against words is chosen by questions that the documents themselves give
(``choose_weight``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firth.core.errors import FirthError, nearest
from firth.core.files import fingerprint
from firth.core.types import Floats, Progress, generator, hashed
from firth.data.readers import Document, ReadingConfig, read_source
from firth.data.sources import Source, find_sources
from firth.retrieval.exact import Encode, WeightSample, choose_weight, unit_rows
from firth.retrieval.parts import Entry, content_key
from firth.retrieval.passages import cut_passages, unit_spans
from firth.retrieval.store import IndexConfig, IndexRecord, ModelRecord, Writer, is_index, writing

if TYPE_CHECKING:
    from firth.models.shared.model import Model

_COMMITTED = 4096  # passages that are added at a time
_ENCODED = 512  # passages that are encoded at a time
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
class _Pending:
    """Documents that are not written yet."""

    entries: dict[str, Entry] = field(default_factory=dict)
    num_passages: int = 0


def index_documents(
    inputs: Sequence[str],
    out: Path,
    config: IndexConfig,
    reading: ReadingConfig,
    model: tuple[Path, Model] | None = None,
    id_column: str | None = None,
    progress: Progress | None = None,
) -> Changes:
    """Adds documents to an index, or replaces those that have changed."""
    sources = find_sources(list(inputs), reading.format)
    record = None if model is None else _model_record(*model)
    changes = Changes()
    with writing(out, IndexRecord(config=config, model=record)) as writer:
        if is_index(out):
            _require_same(out, writer.record, record, config)
        encode = None if model is None else passage_encoder(model[1])
        adding = _Adding(writer, encode, changes, progress or (lambda event: None))
        adding.total_bytes = sum(source.size for source in sources) if len(sources) > 1 else 0
        num_texts = sum(source.format == "txt" for source in sources)
        for source in sources:
            number = 0
            for number, document in enumerate(read_source(source, reading, num_texts, fields=True), 1):
                adding.add(source, number, document, id_column)
            if id_column is None:
                _remove_behind(writer, source.name, number, changes)
            adding.done_bytes += source.size
        adding.flush()
        if writer.gone or not is_index(out):
            writer.commit()
        if encode is not None and model is not None:
            _weigh(writer, encode, question_encoder(model[1]))
        changes.passages, changes.documents = writer.record.num_passages, writer.record.num_documents
    return changes


def delete_documents(out: Path, names: Sequence[str]) -> Changes:
    """Takes documents out by their ids, or all documents of a file by its name."""
    changes = Changes()
    with writing(out, None) as writer:
        for name in names:
            place = writer.find(name)
            found = (
                [(number, one) for number, part in enumerate(writer.state.parts) for one in part.of_source(name)]
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
    images = bool(model.describe()["images"])
    return ModelRecord(path=str(path.resolve()), fingerprint=fingerprint(path), dim=model.vector_dim(), images=images)


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


def passage_encoder(model: Model) -> Encode:
    """Unit vectors of passages, with the model's prompt for these."""
    prompt = None if model.sentence is None else model.sentence.config.passage_prompt
    return lambda texts: unit_rows(model.encode(list(texts), prompt=prompt))


def question_encoder(model: Model) -> Encode:
    prompt = None if model.sentence is None else model.sentence.config.question_prompt
    return lambda texts: unit_rows(model.encode(list(texts), prompt=prompt))


class _Adding:
    """Documents on their way into the index."""

    def __init__(self, writer: Writer, encode: Encode | None, changes: Changes, progress: Progress) -> None:
        self.writer, self.encode, self.changes, self.progress = writer, encode, changes, progress
        self.pending = _Pending()
        self.done_bytes = self.total_bytes = 0  # of the files

    def add(self, source: Source, number: int, document: Document, id_column: str | None) -> None:
        fields = {name: value for name, value in (document.fields or {}).items() if value is not None}
        if len(fields) > _MAX_COLUMNS:
            raise FirthError(f"{source.name}: {len(fields)} columns, more than the {_MAX_COLUMNS} that an index keeps")
        id = f"{source.name}:{number}" if id_column is None else _id_of(source, number, document, id_column)
        text = document.text.encode("utf-8", "replace").decode()
        known = self.writer.find(id)
        waiting = self.pending.entries.get(id)
        if waiting is None and known is not None:
            place, old = known
            if self.writer.state.parts[place].content_key(old) == content_key(text, fields):
                self.changes.unchanged += 1
                return
            self.writer.remove(place, old)
            self.changes.replaced += 1
        elif waiting is not None:
            self.pending.num_passages -= len(waiting.passages)
            self.changes.replaced += 1
        else:
            self.changes.added += 1
        config = self.writer.record.config
        passages = cut_passages(text, document.sentences, config.passage_size, config.overlap)
        self.pending.entries[id] = Entry(id, source.name, text, fields, passages, None)
        self.pending.num_passages += len(passages)
        if self.pending.num_passages >= _COMMITTED:
            self.flush()

    def flush(self) -> None:
        """Writes what waits; from here on it is in the index."""
        entries = list(self.pending.entries.values())
        self.pending = _Pending()
        if not entries:
            return
        if self.encode is not None:
            entries = self._encoded(entries, self.encode)
        self.writer.commit(entries)
        done = self.changes.added + self.changes.replaced
        sizes = {"bytes": self.done_bytes, "total": self.total_bytes}
        self.progress({"event": "indexed", "documents": done, "passages": self.writer.record.num_passages, **sizes})

    def _encoded(self, entries: Sequence[Entry], encode: Encode) -> list[Entry]:
        texts = [entry.text[start:end] for entry in entries for start, end in entry.passages]
        rows = [encode(texts[start : start + _ENCODED]) for start in range(0, len(texts), _ENCODED)]
        vectors = np.concatenate(rows) if rows else np.zeros((0, 0), np.float32)
        if not np.isfinite(vectors).all():
            raise FirthError("the model gives vectors that are not numbers; check it with: firth info MODEL")
        found, place = [], 0
        for entry in entries:
            some = vectors[place : place + len(entry.passages)]
            found.append(Entry(entry.id, entry.source, entry.text, entry.fields, entry.passages, some))
            place += len(entry.passages)
        return found


def _id_of(source: Source, number: int, document: Document, column: str) -> str:
    fields: Mapping[str, object] = document.fields or {}
    if fields.get(column) in (None, ""):
        reason = "empty" if column in fields else nearest(column, list(fields)) if fields else "there are no columns"
        raise FirthError(
            f"{source.name}, document {number}: no id in column '{column}' ({reason}); choose another --id"
        )
    return str(fields[column])


def _remove_behind(writer: Writer, source: str, most: int, changes: Changes) -> None:
    """A file that became shorter: its documents with higher numbers go."""
    for place, part in enumerate(writer.state.parts):
        for number in part.of_source(source):
            tail = str(part.row(number)["id"]).rpartition(":")[2]
            if tail.isdigit() and int(tail) > most:
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
