"""One endpoint an ability: which model is asked, what it is asked, and what becomes of its answer.

To add one: a body, an answer, and an entry in ``ENDPOINTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from firth.api.using import generate_traced, occurrences
from firth.core.errors import FirthError
from firth.evaluation.occurrences import map_context, map_words
from firth.serve import schemas as answers
from firth.serve import schemas as bodies
from firth.serve.guard import Problem
from firth.serve.models import Served
from firth.serve.worker import Job, Work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_NUMBERS = 2_000_000  # of attention and layers in one answer
_MOST_FILLINGS = 16  # of models that write them
_SENTENCES = 500  # of a corpus that are read for occurrences
_BYTES_OF_TOKEN = 3  # about: letters of a piece, bytes of a Chinese character


def about_tokens(texts: Sequence[str]) -> int:
    """Roughly how many tokens some texts have, special ones included, without a tokenizer."""
    return sum(2 + len(text.encode("utf-8", "replace")) // _BYTES_OF_TOKEN for text in texts)


@dataclass(frozen=True)
class Endpoint:
    """``jobs`` says what the worker is to do, ``answer`` puts the results together as plain data."""

    path: str
    ability: str
    body: type[bodies.Body]
    answers: type[answers.Answer]
    doc: str
    jobs: Callable[[Served, Any, int], list[Job]]
    answer: Callable[[Any, list[Any]], dict[str, Any]]


def _parts(texts: Sequence[Any], sizes: Sequence[int], room: int) -> list[tuple[list[Any], int]]:
    """A long list in parts of about ``room`` tokens, so that it does not hold up everybody else."""
    found: list[tuple[list[Any], int]] = []
    for text, size in zip(texts, sizes, strict=True):
        if not found or found[-1][1] + size > room:
            found.append(([], 0))
        found[-1] = ([*found[-1][0], text], found[-1][1] + size)
    return found or [([], 0)]


def joined(do: Callable[[list[Any]], Any]) -> Callable[[list[list[Any]]], list[Any]]:
    """What takes one list as what takes the lists of several requests."""

    def work(loads: list[list[Any]]) -> list[Any]:
        results = do([one for load in loads for one in load])
        borders = [0, *accumulate(len(load) for load in loads)]
        return [results[start:stop] for start, stop in pairwise(borders)]

    return work


def encode_jobs(served: Served, texts: list[str], layer: int, pool: str, room: int) -> list[Job]:
    """The vectors of some texts."""
    work = Work(
        ("encode", served.name, layer, pool), joined(lambda some: served.model.encode(some, layer, pool)), joins=True
    )
    sizes = [about_tokens([text]) for text in texts]
    return [Job(work, part, size) for part, size in _parts(texts, sizes, room)]


def _predict_jobs(served: Served, body: bodies.Predict, room: int) -> list[Job]:
    examples = body.examples()
    two = served.facts["pair"] or served.facts["task"] == "answer"
    if examples and two == isinstance(examples[0], str):  # refused here, since it would spoil a batch
        wanted = "questions" if served.facts["task"] == "answer" else "pairs" if two else "texts"
        raise Problem(422, f"the model '{served.name}' reads {wanted}: give these")
    work = Work(("predict", served.name), joined(served.model.predict), joins=True)
    sizes = [about_tokens([example] if isinstance(example, str) else example) for example in examples]
    return [Job(work, part, size) for part, size in _parts(examples, sizes, room)]


def _alone(do: Callable[[Served, Any], Any]) -> Callable[[Served, Any, int], list[Job]]:
    """For what is done a request at a time."""

    def jobs(served: Served, body: bodies.Body, room: int) -> list[Job]:
        work = Work(object(), lambda loads: [do(served, load) for load in loads])
        return [Job(work, body, about_tokens(body.texts_read()))]

    return jobs


def numbers(array: NDArray[Any], digits: int | None = None) -> list[Any]:
    """An array as lists; rounded where it is only to be looked at."""
    import numpy as np

    found: list[Any] = (array if digits is None else np.round(array.astype(np.float64), digits)).tolist()
    return found


def stack(parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    import numpy as np

    return np.concatenate(parts)


def _found(pairs: Sequence[tuple[str, float]]) -> dict[str, Any]:
    return {"found": [{"word": word, "score": float(score)} for word, score in pairs]}


def _points(words: Sequence[str], places: NDArray[Any]) -> list[dict[str, Any]]:
    return [{"word": word, "x": x, "y": y} for word, (x, y) in zip(words, places.tolist(), strict=True)]


def _map(served: Served, body: bodies.Map) -> dict[str, Any]:
    found = map_words(served.model, body.words)
    return {"points": _points(found.words, found.places), "missing": found.missing}


def _context(served: Served, body: bodies.Context) -> dict[str, Any]:
    found = map_context(served.model, [(one.text, one.word) for one in body.sentences], body.layer)
    points = _points([one.word for one in body.sentences], found.places)
    for point, one, (start, end) in zip(points, body.sentences, found.spans, strict=True):
        point |= {"text": one.text, "start": start, "end": end}
    return {"points": points, "similarity": numbers(found.similarity, 6)}


def _fill_jobs(served: Served, body: bodies.Fill, room: int) -> list[Job]:
    if body.top > _MOST_FILLINGS and served.can("translate"):  # found by a beam of that width
        raise Problem(422, f"the model '{served.name}' finds at most {_MOST_FILLINGS} fillings: ask for fewer")
    work = Work(("fill", served.name, body.top), lambda texts: served.model.fill_many(texts, body.top), joins=True)
    return [Job(work, body.text, about_tokens([body.text]))]


def _filled(body: bodies.Fill, results: list[Any]) -> dict[str, Any]:
    return {"masks": [[vars(guess) for guess in mask] for mask in results[0]]}


def _generate(served: Served, body: bodies.Generate) -> dict[str, Any]:
    if body.trace:
        (found,), (tree,) = generate_traced(served.model, [body.text], body.settings())
    else:
        found, tree = served.model.generate(body.text, **body.settings()), None
    written = [{"text": one.text, "score": float(one.score)} for one in found]
    return {"continuations": written, "trace": tree}


def _translate_jobs(served: Served, body: bodies.Translate, room: int) -> list[Job]:
    texts = body.texts_read()
    work = Work(object(), joined(lambda some: served.model.translations(some, body.beams, body.nbest)))
    sizes = [about_tokens([text]) * body.beams for text in texts]
    return [Job(work, part, size) for part, size in _parts(texts, sizes, room)]


def _translated(body: bodies.Translate, results: list[Any]) -> dict[str, Any]:
    found = [some for part in results for some in part]
    return {"translations": [[{"text": one.text, "score": float(one.score)} for one in some] for some in found]}


def _align(served: Served, body: bodies.Align) -> dict[str, Any]:
    found = served.model.align(body.text, body.target)
    return {
        "source": found.source_tokens,
        "target": found.target_tokens,
        "weights": numbers(found.alignment, 5),
    }


def _attend(served: Served, body: bodies.Attend) -> dict[str, Any]:
    found = served.model.attention(body.text, body.second)
    _check_size(found.weights)
    return {
        "tokens": found.tokens,
        "offsets": found.offsets.tolist(),
        "weights": numbers(found.weights, 4),
    }


def _layers(served: Served, body: bodies.ReadLayers) -> dict[str, Any]:
    found = served.model.layers(body.text)
    _check_size(found.hidden)
    return {"tokens": list(found.tokens), "offsets": found.offsets.tolist(), "hidden": numbers(found.hidden, 6)}


def _check_size(array: NDArray[Any]) -> None:
    if array.size > _MAX_NUMBERS:
        raise FirthError(f"the answer would have {array.size:,} numbers, more than {_MAX_NUMBERS:,}: shorten the text")


def _occurrences(served: Served, body: bodies.Occurrences) -> dict[str, Any]:
    assert served.corpus is not None
    found = occurrences(
        served.model,
        served.corpus,
        body.sentence,
        body.word,
        top=body.top,
        layer=body.layer,
        num_sentences=_SENTENCES,
        same_word=body.same_word,
    )
    return {"found": [vars(one) for one in found]}


def _only(body: Any, results: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = results[0]
    return found


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "/encode",
        "encode",
        bodies.Encode,
        answers.Encoded,
        "Turn texts into vectors.",
        lambda served, body, room: encode_jobs(served, body.texts_read(), body.layer, body.pool, room),
        lambda body, results: {"vectors": stack(results).tolist()},
    ),
    Endpoint(
        "/predict",
        "predict",
        bodies.Predict,
        answers.Predicted,
        "What a task says about each text.",
        _predict_jobs,
        lambda body, results: {"predictions": [one for part in results for one in part]},
    ),
    Endpoint(
        "/translate",
        "translate",
        bodies.Translate,
        answers.Translations,
        "Texts in the other language.",
        _translate_jobs,
        _translated,
    ),
    Endpoint("/fill", "fill", bodies.Fill, answers.Filled, "Guesses for each mask in a text.", _fill_jobs, _filled),
    *(
        Endpoint(f"/{name}", ability, body, answer, doc, _alone(do), _only)
        for name, ability, body, answer, doc, do in (
            (
                "nearest",
                "nearest",
                bodies.Nearest,
                answers.FoundWords,
                "The words nearest to a word.",
                lambda served, body: _found(served.model.nearest(body.word, body.top)),
            ),
            (
                "analogy",
                "analogy",
                bodies.Analogy,
                answers.FoundWords,
                "What is to the third word as the second is to the first.",
                lambda served, body: _found(
                    served.model.analogy(body.first, body.second, body.third, body.top, body.method)
                ),
            ),
            (
                "similarity",
                "encode",
                bodies.Pair,
                answers.Similarity,
                "The cosine of two words or texts.",
                lambda served, body: {"similarity": served.model.similarity(body.first, body.second)},
            ),
            (
                "follows",
                "follows",
                bodies.Pair,
                answers.Follows,
                "The probability that the second text follows the first.",
                lambda served, body: {"probability": served.model.follows(body.first, body.second)},
            ),
            ("map", "map", bodies.Map, answers.WordPoints, "Words in a plane (principal components).", _map),
            ("generate", "generate", bodies.Generate, answers.Generated, "A text continued.", _generate),
            (
                "alignment",
                "alignment",
                bodies.Align,
                answers.Aligned,
                "What a translator looks at for each token that it writes.",
                _align,
            ),
            (
                "attention",
                "attention",
                bodies.Attend,
                answers.Attended,
                "What each token looks at, in every layer and head.",
                _attend,
            ),
            (
                "layers",
                "layers",
                bodies.ReadLayers,
                answers.TokenLayers,
                "Every layer for every token of a text.",
                _layers,
            ),
            (
                "context",
                "context",
                bodies.Context,
                answers.ContextPoints,
                "A word in several sentences, in a plane.",
                _context,
            ),
            (
                "occurrences",
                "occurrences",
                bodies.Occurrences,
                answers.FoundOccurrences,
                "Where the corpus of a run uses words most like one in its sentence.",
                _occurrences,
            ),
        )
    ),
)
