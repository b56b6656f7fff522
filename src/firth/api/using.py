"""Loading a model and using it: ``load``, ``generate`` and ``occurrences``; and what the other files
of the API share.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from firth.core.config import AnyPath, Settings, local_path
from firth.core.errors import FirthError
from firth.core.files import foreign_errors

if TYPE_CHECKING:
    from firth.evaluation.explain import Explanation
    from firth.evaluation.occurrences import Occurrence
    from firth.models.shared.generation import Continuation
    from firth.models.shared.model import Model
    from firth.tasks.model import TaskModel
    from firth.tasks.write.model import WritingModel

PlainData: TypeAlias = dict[str, Any]
"""Scores and facts as they are written to JSON."""
INDEX = "index.json"  # of a folder that firth index made


def load(path: AnyPath) -> Model:
    """Loads a trained model.

    Args:
        path: A run, a Hugging Face directory, an exported folder, a file of word vectors, or a search index.

    Returns:
        A ``Model`` with ``encode``, ``layers`` and what else its ``abilities`` name; a method that it does not have raises
        a ``FirthError`` that says which models have it.

    Example::

        model = firth.load("runs/bert")
        model.encode(["A sentence.", "Another one."])  # float32 [2, dim]
    """
    folder = local_path(path)
    with foreign_errors(folder, "a model that can be read"):
        found = _load(folder)
    found.path = folder
    return found


def _load(path: Path) -> Model:
    """An exported model, a task, or a model, as the record of the run says; a directory without one may hold a task in
    its head."""
    from firth.core.registry import specs
    from firth.core.run import Run

    if (path / INDEX).is_file():
        from firth.retrieval.search import IndexModel

        return IndexModel(path, load)
    run = Run.find(path)
    kind = None if run is None else run.record.kind
    spec = None if run is None else specs().get(run.record.model)
    of_images = spec is not None and spec.reads_images
    if kind == "ctranslate2":
        from firth.exporters.ctranslate2 import load_ctranslate2

        return load_ctranslate2(path)
    if kind == "onnx" and of_images:
        from firth.exporters.onnx_images import OnnxImages

        return OnnxImages(Run.open(path))
    if kind == "onnx":
        from firth.exporters.onnx_model import load_onnx

        return load_onnx(path)
    if run is None or (kind in ("task", "write") and run.record.finished and not of_images):
        from firth.tasks.predict import has_task, load_task

        if run is not None or has_task(path):
            return load_task(path)
    from firth.models.shared.model import load_model

    return load_model(path)


def load_trained_task(path: Path) -> TaskModel | WritingModel:
    """A task, exported or not."""
    from firth.tasks.model import TaskModel
    from firth.tasks.write.model import WritingModel

    model = load(path)
    if not isinstance(model, TaskModel | WritingModel):
        raise FirthError(f"{path}: no task was learned here ({model.kind}); name a run that firth finetune made")
    return model


def loaded(model: AnyPath | Model) -> Model:
    """The given model, or the one at a path."""
    return load(model) if isinstance(model, str | Path) else model


def model_facts(path: Path) -> tuple[str, dict[str, object]] | None:
    """The name and the facts of a model that no run of Firth describes; none where there is no model."""
    from firth.core.registry import specs
    from firth.models.shared.model import find_model

    recognized = path.is_dir() and any(spec.recognizes(path) for spec in specs().values())
    if not recognized and not (path / "config.json").is_file():
        return None
    spec = find_model(path)
    return spec.name, dict(spec.facts(path))


def explain(
    model: AnyPath | Model, text: str, *, second: str | None = None, label: str | None = None, method: str = "both"
) -> Explanation:
    """Says how much each word of a text adds to what a classifier or scorer answers.

    Args:
        model: A run of ``firth.finetune`` (classify or score), or a loaded one.
        text: The text to explain.
        second: The second text of a pair.
        label: The label to explain; by default the predicted one.
        method: ``occlusion`` (leave out each word), ``gradient`` (gradient x input) or ``both``.

    Returns:
        The label, its probability, and for every word what it adds; ``agreement`` is the rank correlation of both methods.

    Example::

        firth.explain("runs/mood", "A warm and funny film.").words[1].occlusion
    """
    from firth.evaluation.explain import explain_text

    return explain_text(loaded(model), text, second, label, method)


def generate(
    model: AnyPath | Model,
    texts: str | Sequence[str],
    *,
    num: int = 1,
    max_tokens: int = 50,
    beams: int = 0,
    length_penalty: float = 0.6,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    min_tokens: int = 0,
    no_repeat_ngram: int = 0,
    repetition_penalty: float = 1.0,
    trace: AnyPath | None = None,
) -> list[list[Continuation]]:
    """Continues texts with a language model.

    Args:
        model: A run of a language model, a Hugging Face GPT-2 directory, or a loaded model.
        texts: The beginning of one text or several.
        num: The number of continuations of each.
        max_tokens, min_tokens: Bounds of the number of new tokens.
        beams: The width of beam search; 0 samples instead.
        length_penalty: Of beam search, as in GNMT; 0 favours short texts.
        temperature: Of sampling; below 1 favours likely tokens, 0 is greedy.
        top_k, top_p: Sample among the k most likely tokens, or among those that have this probability together.
        seed: The same seed gives the same text.
        no_repeat_ngram: n-grams of this length do not repeat; 0 allows them.
        repetition_penalty: Above 1 makes tokens that were used less likely.
        trace: A JSON file for the tree of the beam search.

    Returns:
        For each text its continuations, best first, with ``text`` and ``score``.

    Example::

        firth.generate("runs/gpt", "Once upon a time", temperature=0.8, top_k=40)[0][0].text
    """
    settings = {
        "num": num,
        "max_tokens": max_tokens,
        "beams": beams,
        "length_penalty": length_penalty,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "min_tokens": min_tokens,
        "no_repeat_ngram": no_repeat_ngram,
        "repetition_penalty": repetition_penalty,
    }
    asked = [texts] if isinstance(texts, str) else list(texts)
    if trace is None:
        return loaded(model).generate_many(asked, None, **settings)
    from firth.core.files import write_json

    if not beams:
        raise FirthError(f"{trace}: a trace shows a beam search; set its width, for example beams=4")
    found, trees = generate_traced(loaded(model), asked, settings)
    write_json(Path(trace), trees)
    return found


def generate_traced(
    model: Model, texts: Sequence[str], settings: Settings
) -> tuple[list[list[Continuation]], list[PlainData]]:
    """Texts continued by beam search, and the trees of the search."""
    from firth.decoding.steps import Trace
    from firth.models.shared.generation import spell_trace

    kept = Trace()
    found = model.generate_many(texts, kept, **settings)
    tokens = getattr(model, "tokens", None) or getattr(model, "pieces", None)
    assert tokens is not None
    return found, spell_trace(kept, tokens, texts)


def occurrences(
    model: AnyPath | Model,
    corpus: AnyPath,
    sentence: str,
    word: str,
    *,
    top: int = 10,
    layer: int = -1,
    num_sentences: int = 2000,
    same_word: bool = False,
) -> list[Occurrence]:
    """Finds the words of a corpus whose vectors in context are nearest to a word of a sentence.

    Args:
        model: A run or model that gives vectors for words in context.
        corpus: A corpus, or a file of text.
        sentence: A sentence with the word in it.
        word: The word of the sentence.
        top: The number of occurrences.
        layer: Which layer: 0 is the token layer, -1 the last.
        num_sentences: The number of sentences to search; held-out ones come first.
        same_word: Whether to return only occurrences of the word itself.

    Returns:
        The nearest occurrences, best first, each with its sentence, its place in it and its score.

    Example::

        firth.occurrences("runs/elmo", "corpora/words", "She sat on the bank of the river.", "bank")
    """
    from firth.evaluation.occurrences import find_occurrences

    return find_occurrences(loaded(model), Path(corpus), sentence, word, top, layer, num_sentences, same_word)


def split_grid(given: Settings) -> tuple[Settings, dict[str, list[object]]]:
    """Typed settings with several values, ``epochs=5,20``, apart from those with one."""
    from firth.core.config import TypedText

    grid: dict[str, list[object]] = {
        name: [TypedText(part.strip()) for part in value.split(",") if part.strip()]
        for name, value in given.items()
        if isinstance(value, TypedText) and "," in value and not value.startswith(("[", "{", '"'))
    }
    return {name: value for name, value in given.items() if name not in grid}, grid
