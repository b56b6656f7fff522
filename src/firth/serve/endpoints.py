"""One endpoint per ability of a model: the schemas of its request and answer, the jobs for the worker, and how their
results become the answer.

To add one: a body and an answer in ``schemas.py``, and an entry in ``ENDPOINTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from firth.api.data import tokens_of
from firth.api.using import generate_traced, occurrences
from firth.core.errors import FirthError, Later
from firth.evaluation.occurrences import map_context, map_words
from firth.serve import answers
from firth.serve import schemas as bodies
from firth.serve.guard import Problem
from firth.serve.models import Served, estimate_tokens
from firth.serve.worker import Job, Load, Result, Slices, Work, in_parts, joined
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.word_tokens import WordTokens

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from firth.core.types import Prediction
    from firth.models.shared import image_model as images
    from firth.models.shared.image_model import ImageAnswers
    from firth.models.shared.model import Guess, Translated

    Floats: TypeAlias = NDArray[np.floating]
else:
    images = Later("firth.models.shared.image_model")

_MAX_NUMBERS = 2_000_000  # of attention weights or hidden states in one answer
_FILLED_TOKENS = 32  # steps of that search
_MAX_FILLINGS = 16  # of a sequence-to-sequence model, which finds them by beam search
_NUM_SENTENCES = 500  # of a corpus that are searched for occurrences
_SENTENCE_TOKENS = 30  # of one of them, about
MAX_PIXELS = 25_000_000  # of an image that is decoded
_PIXELS_PER_TOKEN = 64  # an estimate of the size of a patch
Json: TypeAlias = dict[str, object]
SomeBody = TypeVar("SomeBody", bound=bodies.Body)


@dataclass(frozen=True)
class Endpoint(Generic[SomeBody, Load, Result]):
    """``jobs`` turns a request (with the size of a batch in tokens) into jobs, ``answer`` their results into plain data."""

    path: str
    ability: str
    body: type[SomeBody]
    answers: type[answers.Answer]
    doc: str
    jobs: Callable[[Served, SomeBody, int], Sequence[Job[Load, Result]]]
    answer: Callable[[SomeBody, list[Result]], Json]


AnyEndpoint: TypeAlias = Endpoint[Any, Any, Any]


def encode_jobs(
    served: Served, texts: list[str], layer: int, pool: str | None, room: int, prompt: str | None = None
) -> list[Job[list[str], NDArray[np.float32]]]:
    """Jobs that encode texts."""

    def encode(some: list[str]) -> NDArray[np.float32]:
        return served.encoder.encode(some, layer, pool, prompt)

    work = Work(("encode", served.name, layer, pool, prompt), joined(encode), True, f"encode {served.name}")
    sizes = [estimate_tokens([text]) for text in texts]
    return [Job(work, part, size, served.read_seconds(size)) for part, size in in_parts(texts, sizes, room)]


def _image_model(served: Served) -> ImageAnswers:
    assert isinstance(served.model, images.ImageAnswers)
    return served.model


def _image_jobs(
    served: Served, body: bodies.Body, room: int, kind: tuple[object, ...], do: Callable[[torch.Tensor], Slices]
) -> list[Job[list[bytes], Slices]]:
    """Jobs on the images of a request; they are decoded in the worker, by which one that is damaged fails alone."""
    model = _image_model(served)

    def work(some: list[bytes]) -> Slices:
        return do(model.decode(some, MAX_PIXELS))

    given = body.images_read()
    size = model.processing.image_size**2 // _PIXELS_PER_TOKEN
    every = Work((*kind, served.name), joined(work), True, f"images {served.name}")
    parts = in_parts(given, [size] * len(given), room)
    return [Job(every, part, count, served.read_seconds(count)) for part, count in parts]


def _encode(served: Served, body: bodies.Encode, room: int) -> Sequence[Job[Any, NDArray[np.float32]]]:
    if not body.images_read():
        return encode_jobs(served, body.texts_read(), body.layer, body.pool, room, body.prompt)
    model = _image_model(served)

    def encode(pixels: torch.Tensor) -> NDArray[np.float32]:
        return model.encode_pixels([pixels], body.layer, body.pool)

    return _image_jobs(served, body, room, ("encode", body.layer, body.pool), encode)


def _look(served: Served, body: bodies.Look) -> Json:
    model = _image_model(served)
    assert isinstance(model, images.ImageModel)
    found = model.look(model.decode(body.images_read(), MAX_PIXELS))
    _check_size(found.weights)
    return {"weights": _rounded(found.weights, 5), "rollout": _rounded(found.rollout, 5)}


def _predict_jobs(served: Served, body: bodies.Predict, room: int) -> Sequence[Job[Any, list[Prediction]]]:
    if body.images_read():
        model = _image_model(served)

        def predict_images(pixels: torch.Tensor) -> list[Prediction]:
            found = model.predict_pixels([""] * len(pixels), [pixels])
            for one in found:
                del one["text"]  # an upload has no name
            return found

        return _image_jobs(served, body, room, ("predict",), predict_images)
    examples = body.examples()
    two = served.facts.pair or served.facts.task == "answer"
    if examples and two == isinstance(examples[0], str):  # checked here, because the error would fail a whole batch
        needed = "questions" if served.facts.task == "answer" else "pairs" if two else "texts"
        raise Problem(422, f"the model '{served.name}' reads {needed}: give these")

    def predict(some: list[bodies.Example]) -> list[Prediction]:
        return served.predictor.predict(some)

    work = Work(("predict", served.name), joined(predict), True, f"predict {served.name}")
    sizes = [estimate_tokens([example] if isinstance(example, str) else example) for example in examples]
    return [Job(work, part, size, served.read_seconds(size)) for part, size in in_parts(examples, sizes, room)]


def single(
    path: str,
    ability: str,
    body: type[SomeBody],
    answers: type[answers.Answer],
    doc: str,
    do: Callable[[Served, SomeBody], Json],
    seconds: Callable[[Served, SomeBody], float] | None = None,
) -> Endpoint[SomeBody, SomeBody, Json]:
    """An endpoint that computes each request by itself, as one job. ``seconds`` it takes about, if not those of reading."""

    def jobs(served: Served, body: SomeBody, room: int) -> list[Job[SomeBody, Json]]:
        kind, size = f"{path} {served.name}", estimate_tokens(body.texts_read())
        work: Work[SomeBody, Json] = Work(object(), lambda loads: [do(served, load) for load in loads], kind=kind)
        return [Job(work, body, size, served.read_seconds(size) if seconds is None else seconds(served, body))]

    return Endpoint(path, ability, body, answers, doc, jobs, lambda body, results: results[0])


def spelling(served: Served) -> Callable[[list[int]], str]:
    """What tokens that a model has written say."""
    model = served.model
    found = getattr(model, "target_pieces", None) or getattr(model, "tokens", None) or getattr(model, "pieces", None)
    if not isinstance(found, Pieces | WordTokens):
        raise Problem(422, f"the model '{served.name}' answers at once: ask without stream")
    end = found.eos_id
    return lambda ids: found.decode([number for number in ids if number != end])


def _rounded(array: Floats, digits: int) -> list[object]:
    """An array as lists, rounded: it is for display."""
    import numpy as np

    found: list[object] = np.round(array.astype(np.float64), digits).tolist()
    return found


def stack(parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The vectors of all jobs of a request."""
    import numpy as np

    return np.concatenate(parts)


def _found(pairs: Sequence[tuple[str, float]]) -> Json:
    return {"found": [{"word": word, "score": float(score)} for word, score in pairs]}


def _points(words: Sequence[str], places: Floats) -> list[Json]:
    return [{"word": word, "x": x, "y": y} for word, (x, y) in zip(words, places.tolist(), strict=True)]


def _map(served: Served, body: bodies.Map) -> Json:
    found = map_words(served.model, body.words)
    return {"points": _points(found.words, found.places), "missing": found.missing}


def _context(served: Served, body: bodies.Context) -> Json:
    found = map_context(served.model, [(one.text, one.word) for one in body.sentences], body.layer)
    points = _points([one.word for one in body.sentences], found.places)
    for point, one, (start, end) in zip(points, body.sentences, found.spans, strict=True):
        point |= {"text": one.text, "start": start, "end": end}
    return {"points": points, "similarity": _rounded(found.similarity, 6)}


def _fill_jobs(served: Served, body: bodies.Fill, room: int) -> list[Job[str, list[list[Guess]]]]:
    if body.top > _MAX_FILLINGS and served.can("translate"):  # found by beam search of that width
        raise Problem(422, f"the model '{served.name}' finds at most {_MAX_FILLINGS} fillings: ask for fewer")

    def fill(texts: list[str]) -> list[list[list[Guess]]]:
        return served.model.fill_many(texts, body.top)

    work = Work(("fill", served.name, body.top), fill, True, f"fill {served.name}")
    size = estimate_tokens([body.text])
    searched = served.search_seconds(size, _FILLED_TOKENS, body.top) if served.can("translate") else 0.0
    return [Job(work, body.text, size, served.read_seconds(size) + searched)]


def _filled(body: bodies.Fill, results: list[list[list[Guess]]]) -> Json:
    return {"masks": [[vars(guess) for guess in mask] for mask in results[0]]}


def _generate(served: Served, body: bodies.Generate) -> Json:
    tree: object = None
    if body.trace:
        (found,), (tree,) = generate_traced(served.model, [body.text], body.settings())
    else:
        found = served.model.generate(body.text, None, **body.settings())
    written = [{"text": one.text, "score": float(one.score)} for one in found]
    return {"continuations": written, "trace": tree}


def _translate_jobs(served: Served, body: bodies.Translate, room: int) -> list[Job[list[str], list[list[Translated]]]]:
    texts = body.texts_read()

    def translate(some: list[str]) -> list[list[Translated]]:
        return served.model.translations(some, body.beams, body.nbest)

    work = Work(object(), joined(translate), kind=f"translate {served.name}")
    sizes = [estimate_tokens([text]) * body.beams for text in texts]
    return [
        Job(work, part, size, _translate_seconds(served, part, body.beams))
        for part, size in in_parts(texts, sizes, room)
    ]


def _translate_seconds(served: Served, texts: Sequence[str], beams: int) -> float:
    """Up to twice as many tokens are written as the longest text has."""
    longest = max((estimate_tokens([text]) for text in texts), default=0)
    return served.read_seconds(longest) + served.search_seconds(longest, 2 * longest + 16, len(texts) * beams)


def _generate_seconds(served: Served, body: bodies.Generate) -> float:
    size, rows = estimate_tokens([body.text]), max(body.beams, 1) * body.number
    return served.read_seconds(size) + served.search_seconds(size, body.max_tokens, rows)


def _align_seconds(served: Served, body: bodies.Align) -> float:
    if body.target is None:  # it is translated first
        return _translate_seconds(served, [body.text], 5)
    return served.read_seconds(estimate_tokens([body.text]))


def _translated(body: bodies.Translate, results: list[list[list[Translated]]]) -> Json:
    found = [some for part in results for some in part]
    return {"translations": [[{"text": one.text, "score": float(one.score)} for one in some] for some in found]}


def _align(served: Served, body: bodies.Align) -> Json:
    found = served.model.align(body.text, body.target)
    return {
        "source": found.source_tokens,
        "target": found.target_tokens,
        "weights": _rounded(found.alignment, 5),
    }


def _attend(served: Served, body: bodies.Attend) -> Json:
    num_maps = served.model.num_layers * getattr(getattr(served.model, "config", None), "num_heads", 1)
    _check_numbers(num_maps * served.model.count_tokens(f"{body.text} {body.second or ''}") ** 2)
    found = served.model.attention(body.text, body.second)
    _check_size(found.weights)
    return {
        "tokens": found.tokens,
        "offsets": found.offsets.tolist(),
        "weights": _rounded(found.weights, 4),
    }


def _layers(served: Served, body: bodies.ReadLayers) -> Json:
    _check_numbers((served.model.num_layers + 1) * served.model.count_tokens(body.text) * served.model.dim)
    found = served.model.layers(body.text)
    _check_size(found.hidden)
    return {"tokens": list(found.tokens), "offsets": found.offsets.tolist(), "hidden": _rounded(found.hidden, 6)}


def _tokens(served: Served, body: bodies.ShowTokens) -> Json:
    if not body.text.strip():
        raise Problem(422, "the text is empty: write some words")
    found = tokens_of(served.model, body.text)
    return {name: found[name] for name in ("kind", "tokens", "words", "unknown", "lost", "back")}


def _check_size(array: Floats) -> None:
    _check_numbers(array.size)


def _check_numbers(count: int) -> None:
    if count > _MAX_NUMBERS:
        raise FirthError(f"the answer would have {count:,} numbers, more than {_MAX_NUMBERS:,}: shorten the text")


def _occurrences(served: Served, body: bodies.Occurrences) -> Json:
    assert served.corpus is not None
    found = occurrences(
        served.model,
        served.corpus,
        body.sentence,
        body.word,
        top=body.top,
        layer=body.layer,
        num_sentences=_NUM_SENTENCES,
        same_word=body.same_word,
    )
    return {"found": [vars(one) for one in found]}


ENDPOINTS: tuple[AnyEndpoint, ...] = (
    Endpoint(
        "/encode",
        "encode",
        bodies.Encode,
        answers.Encoded,
        "The vectors of texts or images.",
        _encode,
        lambda body, results: {"vectors": stack(results).tolist()},
    ),
    Endpoint(
        "/predict",
        "predict",
        bodies.Predict,
        answers.Predicted,
        "The predictions of a task for each text or image.",
        _predict_jobs,
        lambda body, results: {"predictions": [one for part in results for one in part]},
    ),
    Endpoint(
        "/translate",
        "translate",
        bodies.Translate,
        answers.Translations,
        "The translations of texts.",
        _translate_jobs,
        _translated,
    ),
    Endpoint(
        "/fill",
        "fill",
        bodies.Fill,
        answers.Filled,
        "The most probable tokens for each mask in a text.",
        _fill_jobs,
        _filled,
    ),
    single(
        "/nearest",
        "nearest",
        bodies.Nearest,
        answers.FoundWords,
        "The words nearest to a word.",
        lambda served, body: _found(served.model.nearest(body.word, body.top)),
    ),
    single(
        "/analogy",
        "analogy",
        bodies.Analogy,
        answers.FoundWords,
        "The word that is to the third word as the second is to the first.",
        lambda served, body: _found(served.model.analogy(body.first, body.second, body.third, body.top, body.method)),
    ),
    single(
        "/similarity",
        "encode",
        bodies.Pair,
        answers.Similarity,
        "The cosine similarity of two words or texts.",
        lambda served, body: {"similarity": served.model.similarity(body.first, body.second)},
    ),
    single(
        "/follows",
        "follows",
        bodies.Pair,
        answers.Follows,
        "The probability that the second text follows the first.",
        lambda served, body: {"probability": served.model.follows(body.first, body.second)},
    ),
    single("/map", "map", bodies.Map, answers.WordPoints, "Words in a plane (principal components).", _map),
    single(
        "/generate",
        "generate",
        bodies.Generate,
        answers.Generated,
        "Continuations of a text.",
        _generate,
        _generate_seconds,
    ),
    single(
        "/alignment",
        "alignment",
        bodies.Align,
        answers.Aligned,
        "The attention of a translation model from each target token to the source tokens.",
        _align,
        _align_seconds,
    ),
    single(
        "/attention",
        "attention",
        bodies.Attend,
        answers.Attended,
        "The attention weights of every layer and head.",
        _attend,
    ),
    single(
        "/look",
        "look",
        bodies.Look,
        answers.Looked,
        "What the class token of an image model attends to: by layer and head, and rolled out over all layers.",
        _look,
    ),
    single(
        "/tokens",
        "tokens",
        bodies.ShowTokens,
        answers.ShownTokens,
        "The tokens of a text: ids, places, words, what is unknown and what is lost.",
        _tokens,
    ),
    single(
        "/layers",
        "layers",
        bodies.ReadLayers,
        answers.TokenLayers,
        "The hidden states of every layer for every token of a text.",
        _layers,
    ),
    single(
        "/context",
        "context",
        bodies.Context,
        answers.ContextPoints,
        "A word in several sentences, in a plane.",
        _context,
    ),
    single(
        "/occurrences",
        "occurrences",
        bodies.Occurrences,
        answers.FoundOccurrences,
        "Words of the training corpus that are most similar in context to a word of a sentence.",
        _occurrences,
        lambda served, body: served.read_seconds(_NUM_SENTENCES * _SENTENCE_TOKENS),
    ),
)
