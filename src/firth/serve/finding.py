"""Endpoints of a search index: passages for a question, images near an image, and what the collection holds as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from firth.api.searching import search
from firth.core.errors import FirthError
from firth.retrieval.search import Hit, IndexModel
from firth.retrieval.topics import Collection, find_duplicates, find_topics, read_collection
from firth.serve import answers
from firth.serve import schemas as bodies
from firth.serve.endpoints import MAX_PIXELS, AnyEndpoint, Json, single
from firth.serve.models import Served
from firth.serve.pictures import short_name, small_file

_MOST_GROUPED = 3000  # documents, which takes a few seconds
_FEWEST = 10  # documents of two topics
_MOST_PAIRS, _SHOWN = 50, 160  # near duplicates, and characters of a text
_DOCUMENT_S = 1e-3  # of grouping a document, about
_IMAGE_S = 0.05


def _index(served: Served) -> IndexModel:
    assert isinstance(served.model, IndexModel)
    return served.model


def _search(served: Served, body: bodies.Search) -> Json:
    given = body.images_read()
    if given:
        hits = _index(served).search_image(given[0], body.top, body.where, MAX_PIXELS)
        return {"found": [{**_plain(hit), "image": small_file(hit.text.strip())} for hit in hits]}
    assert body.question is not None
    settings = body.model_dump(exclude={"model", "question", "images"})
    return {"found": [_plain(hit) for hit in search(served.model, body.question, **settings)]}


def _plain(hit: Hit) -> Json:
    return {name: value for name, value in asdict(hit).items() if name != "answer"}


def _collection(served: Served) -> Collection:
    return read_collection(_index(served).index.refresh(), _MOST_GROUPED)


def _start(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"


def _texts(served: Served, found: Collection) -> list[str]:
    """What is shown of each document."""
    return [short_name(text.strip()) if served.facts.images else _start(text) for text in found.texts]


def _topics(served: Served, body: bodies.Topics) -> Json:
    found = _collection(served)
    if len(found.ids) < _FEWEST:
        raise FirthError(f"{len(found.ids)} documents: topics need at least {_FEWEST}")
    size = body.min_size or max(3, min(5, len(found.ids) // 4))
    topics = find_topics(found.texts, found.vectors_ND, max(size, len(found.ids) // 100), body.words)
    named = not served.facts.images  # the words of paths say nothing
    rows = [
        {"number": topic.number, "words": list(topic.words) if named else [], "documents": len(topic.documents)}
        for topic in topics.topics
    ]
    texts, numbers = _texts(served, found), topics.numbers_N.tolist()
    points = [
        {"id": id, "text": text, "topic": number, "x": x, "y": y}
        for id, text, number, (x, y) in zip(found.ids, texts, numbers, topics.places_N2.tolist(), strict=True)
    ]
    return {"topics": rows, "points": points}


def _duplicates(served: Served, body: bodies.Duplicates) -> Json:
    found = _collection(served)
    texts = _texts(served, found)
    pairs = find_duplicates(found.vectors_ND, body.least)
    shown = [
        {"first": texts[first], "second": texts[second], "cosine": cosine}
        for first, second, cosine in pairs[:_MOST_PAIRS]
    ]
    return {"pairs": shown, "count": len(pairs), "documents": len(found.ids)}


def _grouping_seconds(served: Served, body: bodies.Body) -> float:
    return min((served.facts.documents or 0), _MOST_GROUPED) * _DOCUMENT_S


FINDING: Sequence[AnyEndpoint] = (
    single(
        "/search",
        "search",
        bodies.Search,
        answers.FoundPassages,
        "The passages of a search index that answer a question best, or the images nearest to an image.",
        _search,
        lambda served, body: _IMAGE_S if body.images_read() else 0.0,
    ),
    single(
        "/topics",
        "group",
        bodies.Topics,
        answers.FoundTopics,
        f"What the documents of an index are about: groups with their words, in a plane; of {_MOST_GROUPED:,} documents at most.",
        _topics,
        _grouping_seconds,
    ),
    single(
        "/duplicates",
        "group",
        bodies.Duplicates,
        answers.FoundDuplicates,
        f"Documents of an index that say nearly the same as an earlier one; of {_MOST_GROUPED:,} documents at most.",
        _duplicates,
        _grouping_seconds,
    ),
)
