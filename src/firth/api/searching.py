"""What one's own documents hold: ``index`` and ``search``, ``topics`` and ``duplicates``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from firth.api.using import PlainData, load, load_trained_task
from firth.core.config import AnyPath, as_paths, check_engine, cluster_for
from firth.core.errors import FirthError

if TYPE_CHECKING:
    from firth.core.types import Progress
    from firth.models.shared.model import Model
    from firth.retrieval.build import Changes
    from firth.retrieval.search import Hit, Mode, SearchIndex
    from firth.retrieval.topics import TopicMap


def index(
    inputs: AnyPath | Sequence[AnyPath],
    out: AnyPath,
    *,
    model: AnyPath | None = None,
    delete: str | Sequence[str] = (),
    column: str = "text",
    id: str | None = None,
    format: str = "auto",
    layout: str = "auto",
    encoding: str = "utf-8",
    passage_size: int = 160,
    overlap: int = 1,
    exact_up_to: int | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: Progress | None = None,
) -> Changes:
    """Makes documents searchable: adds them to an index, or replaces those that have changed.

    The same call goes on where it was stopped. Who searches meanwhile sees the index before or after a change.

    Args:
        inputs: Files, folders or globs of any format that ``firth.prepare`` reads; empty where documents are only deleted.
        out: The folder of the index, new or not.
        model: The model of the vectors, best a sentence model; without one the index finds words only.
        delete: Documents to take out first, by their ids, or all of a file by its name.
        column: The column or key that holds the text; the others are kept for filters. Where there is no ``text``, one of
            another usual name (``content``, ``正文``) is taken.
        id: The column that names a document; by default its file with its line (``notes.txt:12``), or with the number of
            its row, which does not change when others are empty (``reviews.csv#12``).
        format, layout, encoding: As for ``firth.prepare``.
        passage_size: The words (or Chinese characters) of a passage.
        overlap: The sentences that a passage repeats of the one before.
        exact_up_to: The passages up to which vectors are compared one by one (200,000); with more, by usearch.
        engine: ``local``, or ``ray`` for a cluster that makes the vectors; the model lies at the same path on every node.
        address: Of the Ray cluster; without it one is started on this machine.
        progress: Called with each event.

    Returns:
        How many documents were ``added``, ``replaced``, ``unchanged`` and ``deleted``, and what the index holds now.

    Example::

        firth.index("notes/", "indexes/notes", model="runs/sentences")
    """
    from firth.core.config import show_count
    from firth.data.readers import ReadingConfig
    from firth.retrieval.build import Changes, Remote, delete_documents, index_documents
    from firth.retrieval.store import EXACT_UP_TO, IndexConfig, usearch_is_missing

    if check_engine(engine, address) and model is None:
        raise FirthError("a cluster makes vectors: name a --model, or leave out --engine")
    names = [delete] if isinstance(delete, str) else list(delete)
    given = as_paths(inputs)
    if not given and not names:
        raise FirthError("no documents: name at least one file, folder or glob")
    gone = delete_documents(Path(out), names) if names else Changes()
    if not given:
        return gone
    limit = EXACT_UP_TO if exact_up_to is None else exact_up_to
    config = IndexConfig.build(
        {"passage_size": passage_size, "overlap": overlap, "exact_up_to": limit},
        "index",
    )
    reading = ReadingConfig.build(
        {"format": format, "layout": layout, "column": column, "encoding": encoding}, "reading"
    )
    used = None if model is None else (Path(model), load(model))
    cluster = cluster_for(engine, address)
    remote = None if cluster is None else Remote(cluster, load)
    found = index_documents(given, Path(out), config, reading, used, id, progress, remote)
    found.deleted += gone.deleted
    if used is not None and found.passages > limit and usearch_is_missing():
        found.note = (
            f"more than {show_count(limit)} passages: vectors are compared one by one, which is slow; "
            "pip install 'firth[search]' and index again"
        )
    return found


def search(
    index: AnyPath | Model | SearchIndex,
    question: str,
    *,
    top: int = 10,
    mode: Mode = "auto",
    where: Sequence[str] | Mapping[str, object] = (),
    weight: float | None = None,
    passages: bool = False,
    answer: AnyPath | Model | None = None,
) -> list[Hit]:
    """Finds the passages that answer a question best.

    Args:
        index: A folder that ``firth.index`` made, or one that ``firth.load`` has opened (for many questions).
        question: The question, or some words.
        top: The number of results.
        mode: ``words`` (BM25), ``vectors``, ``both``, or ``auto``: both where the index has vectors.
        where: Conditions on columns, such as ``["year>=1998", "language=en"]`` or ``{"language": "en"}``.
        weight: How much vectors count against words, from 0 to 1; by default what suited the documents best.
        passages: Whether to return all passages of a document instead of its best one.
        answer: A run of ``firth.finetune("answer", ...)`` that marks the answer in each passage.

    Returns:
        The passages, best first, with ``id``, ``text``, ``score``, the marked words (``marks``) and the most similar sentence
        (``best``).

    Example::

        firth.search("indexes/notes", "Who repaired the clock?")[0].text
    """
    conditions = [where] if isinstance(where, str) else where
    found = open_for_search(index).search(question, top, mode, conditions, weight, passages)
    if answer is None or not found:
        return found
    return _answered(found, question, load_trained_task(Path(answer)) if isinstance(answer, str | Path) else answer)


def open_for_search(index: AnyPath | Model | SearchIndex) -> SearchIndex:
    """An index that is ready for questions; its model is loaded with the first that needs it."""
    from firth.retrieval.search import SearchIndex

    if isinstance(index, str | Path):
        return SearchIndex(Path(index), load)
    if isinstance(index, SearchIndex):
        return index
    from firth.retrieval.search import IndexModel

    if not isinstance(index, IndexModel):
        raise FirthError(f"{index.path or index.kind}: not a search index; make one with: firth index")
    return index.index


def index_facts(folder: Path) -> PlainData:
    """What an index holds, after its files were compared with their checksums."""
    record = open_for_search(folder).record
    facts: PlainData = {"documents": record.num_documents, "passages": record.num_passages, "parts": len(record.parts)}
    facts |= record.config.model_dump()
    model = (
        {} if record.model is None else {"model": record.model.path, "dim": record.model.dim, "weight": record.weight}
    )
    return {**facts, **(model or {"model": "none: words only"})}


def _answered(found: list[Hit], question: str, task: Model) -> list[Hit]:
    if task.describe().task != "answer":
        raise FirthError("answers are marked by a run of firth finetune answer; name one")
    predictions = task.predict([(question, hit.text) for hit in found])
    hits = []
    for hit, one in zip(found, predictions, strict=True):
        best = next((dict(some) for some in one.get("best", []) if some["answer"] == one["answer"]), None)
        chance = 0.0 if best is None else float(str(best["probability"]))
        said = {"answer": one["answer"], "start": one["start"], "end": one["end"], "probability": chance}
        hits.append(replace(hit, answer=said if one["answer"] else None))  # type: ignore[arg-type]
    return hits


def topics(
    inputs: AnyPath | Sequence[AnyPath],
    model: AnyPath | Model,
    *,
    min_size: int | None = None,
    words: int = 8,
    column: str = "text",
    layout: str = "auto",
    encoding: str = "utf-8",
    out: AnyPath | None = None,
) -> TopicMap:
    """Groups documents by what they are about, and names each group by its words.

    Args:
        inputs: Files, folders or globs of any format that ``firth.prepare`` reads.
        model: The model of the vectors, best a sentence model.
        min_size: The fewest documents of a topic; by default a hundredth of all, at least 5.
        words: The number of words of a topic.
        column, layout, encoding: As for ``firth.prepare``.
        out: A page (.html) with the map of the documents.

    Returns:
        The ``topics``, largest first (number -1: documents that belong to none), the places of the documents in a plane, and
        their ``ids`` (file:line or file#row); empty texts are no documents.

    Example::

        firth.topics("reviews.csv", "runs/sentences").topics[0].words
    """
    from firth.api.using import loaded
    from firth.retrieval.topics import find_topics

    if out is not None and Path(out).suffix != ".html":
        raise FirthError(f"{out}: the map is a page; choose a name that ends in .html")
    texts, ids = _read_texts(inputs, column, layout, encoding)
    found = replace(find_topics(texts, loaded(model).encode(texts), min_size, words), ids=ids)
    if out is not None:
        from firth.core.files import write_text
        from firth.reports.page import map_page

        names = {topic.number: ", ".join(topic.words) or "(no topic)" for topic in found.topics}
        title = f"{len(names) - (-1 in names)} topics of {len(texts):,} documents"
        write_text(Path(out), map_page(title, found.places_N2, found.numbers_N.tolist(), names, texts))
    return found


def duplicates(
    inputs: AnyPath | Sequence[AnyPath],
    model: AnyPath | Model,
    *,
    least: float = 0.95,
    column: str = "text",
    layout: str = "auto",
    encoding: str = "utf-8",
) -> list[tuple[str, str, float]]:
    """Finds documents that say nearly the same as an earlier one.

    Args:
        inputs: Files, folders or globs of any format that ``firth.prepare`` reads.
        model: The model of the vectors.
        least: The cosine from which on two documents count as nearly the same.
        column, layout, encoding: As for ``firth.prepare``.

    Returns:
        (earlier, later, cosine) with documents as file:line or file#row, most similar first.

    Example::

        firth.duplicates("reviews.csv", "runs/sentences", least=0.9)
    """
    from firth.api.using import loaded
    from firth.retrieval.topics import find_duplicates

    texts, names = _read_texts(inputs, column, layout, encoding)
    found = find_duplicates(loaded(model).encode(texts), least)
    return [(names[first], names[second], cosine) for first, second, cosine in found]


def _read_texts(
    inputs: AnyPath | Sequence[AnyPath], column: str, layout: str, encoding: str
) -> tuple[list[str], list[str]]:
    """The documents, and their names (file:line or file#row)."""
    from firth.data.readers import ReadingConfig, read_places
    from firth.data.sources import find_sources

    reading = ReadingConfig.build({"layout": layout, "column": column, "encoding": encoding}, "reading")
    sources = find_sources(as_paths(inputs))
    num_texts = sum(source.format == "txt" for source in sources)
    texts, names = [], []
    for source in sources:
        for place, document in read_places(source, reading, num_texts):
            texts.append(document.text)
            names.append(f"{source.name}{place}")
    if not texts:
        raise FirthError(f"{' '.join(as_paths(inputs))}: no text in it; check the files")
    return texts, names
