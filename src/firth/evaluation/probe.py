"""What is inside a trained model: each layer asked by a probe, every figure beside its baseline."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import disk_errors, write_json
from firth.core.types import Progress
from firth.data.labelled import SenseExample, TagExample
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import find_sources
from firth.data.tagged import TagColumns, read_first_senses, read_senses, read_tagged
from firth.evaluation.probe_report import HeadMeasures, measure_heads, write_probe_report
from firth.evaluation.senses import (
    SensedWord,
    TaggedWords,
    leave_one_out,
    of_words,
    sample_senses,
    sample_texts,
    score_senses,
    score_tags,
)
from firth.models.shared.model import Model
from firth.tasks.model import TaskModel
from firth.tokenizers.words import split_sentences


class ProbeConfig(Config):
    """Files of data, all optional; without a test file every fifth sentence is held out."""

    pos: str | None = None  # words with parts of speech
    pos_test: str | None = None
    tag: Literal["upos", "xpos"] = "upos"  # of CoNLL-U
    senses: tuple[str, ...] = ()  # words with senses
    senses_test: tuple[str, ...] = ()
    first_senses: str | None = None
    texts: str | None = None
    similarity: tuple[str, ...] = ()
    analogies: tuple[str, ...] = ()
    language: Literal["en", "zh"] = "en"  # of the sample that is used where files are missing
    most: int = Field(20_000, gt=0)  # training words that a probe reads; test words are as many at the most
    num_texts: int = Field(100, gt=0)  # sentences for perplexity and attention
    seed: int = 0


_TOGETHER = 64
_HELD_OUT = 5  # every fifth
_Any = TypeVar("_Any")


def probe_run(
    model: Model, name: str, config: ProbeConfig, folder: Path | None, progress: Progress | None
) -> dict[str, Any]:
    """Probes a model and, where a folder is given, writes ``report.html`` and ``probe.json`` there."""
    found = probe_model(model, config, progress or (lambda event: None))
    if folder is not None:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "probe.json", found)
        found["report"] = str(write_probe_report(folder, name, found))
    return found


def probe_model(model: Model, config: ProbeConfig, progress: Progress) -> dict[str, Any]:
    """Every probe that the model and the data allow, as plain data; ``notes`` say why others are missing.

    ``rows`` are the table: a name, a value a layer (None where there is none), and what stands beside it.
    """
    if isinstance(model, TaskModel):
        model = model.base
    found: dict[str, Any] = {"kind": model.kind, "rows": [], "notes": []}
    for name, ask in _PROBES.items():
        progress({"event": name})
        try:
            ask(model, config, found)
        except _Missing as missing:
            found["notes"].append(f"{name}: {missing}")
    return found


class _Missing(Exception):
    """A probe that cannot be done, and what would be needed."""


def _add(found: dict[str, Any], name: str, values: Sequence[float | None], **beside: float) -> None:
    found["rows"].append(
        {
            "name": name,
            "layers": list(values),
            "beside": {key.replace("_", " "): value for key, value in beside.items()},
        }
    )


# -- parts of speech


def _tags(model: Model, config: ProbeConfig, found: dict[str, Any]) -> None:
    if config.pos is None:
        raise _Missing("give sentences with tags by --pos FILE (CoNLL-U, columns, word/tag or jsonl)")
    train, test = _parts(config.pos, config.pos_test, lambda path: _read_tags(path, config.tag))
    words = [
        _tagged_words(model, thinned(part, [len(example.words) for example in part], config.most))
        for part in (train, test)
    ]
    scores = score_tags(words[0], words[1], config.seed)
    found["tags"] = asdict(scores) | {"selectivity": scores.selectivity}
    beside = {"majority": scores.majority, "tag_of_the_word": scores.per_word}
    _add(found, "part of speech: accuracy", scores.accuracy, **beside)
    if scores.unseen is not None:
        _add(found, "  words not in training", scores.unseen)
    _add(found, "  control task", scores.control)
    _add(found, "  selectivity", scores.selectivity)


def _read_tags(path: str, tag: str) -> list[TagExample]:
    examples = read_tagged(path, TagColumns(tag=tag) if tag != "upos" else None)
    if not examples or examples[0].tags is None:
        raise FirthError(f"{path}: words without tags; a probe needs a tag for every word")
    return examples


def _tagged_words(model: Model, examples: Sequence[TagExample]) -> TaggedWords:
    """Words for which the model has no piece at all are left out."""
    words: list[str] = []
    tags: list[str] = []
    vectors: list[NDArray[np.float32]] = []
    for example, (found_LWD, known_W) in _read(model, examples):
        assert example.tags is not None
        vectors.append(found_LWD[:, known_W])
        for place in np.flatnonzero(known_W).tolist():
            words.append(example.words[place])
            tags.append(example.tags[place])
    return TaggedWords(words, tags, np.concatenate(vectors, axis=1))


def _read(model: Model, examples: Iterable[Any]) -> Iterator[tuple[Any, tuple[NDArray[np.float32], NDArray[np.bool_]]]]:
    """Examples with the vectors of their words."""
    rest = iter(examples)
    while some := list(islice(rest, _TOGETHER)):
        for example, layers in zip(some, model.layers_of([example.words for example in some]), strict=True):
            yield example, of_words(layers.hidden, layers.words, len(example.words))


def _parts(path: str, test: str | None, read: Callable[[str], list[_Any]]) -> tuple[Sequence[_Any], Sequence[_Any]]:
    """Training and test examples."""
    examples = read(path)
    if test is not None:
        return examples, read(test)
    if len(examples) < _HELD_OUT:
        raise FirthError(f"{path}: {len(examples)} sentences are too few to hold some out; give a test file too")
    return split_examples(examples)


def split_examples(examples: Sequence[_Any]) -> tuple[list[_Any], list[_Any]]:
    """Every fifth is for the test: also files that are sorted by sense are split evenly."""
    test = [example for number, example in enumerate(examples) if number % _HELD_OUT == _HELD_OUT - 1]
    return [example for number, example in enumerate(examples) if number % _HELD_OUT != _HELD_OUT - 1], test


def thinned(examples: Sequence[_Any], sizes: Sequence[int], most: int) -> list[_Any]:
    """Examples at even distances so that their sizes come to about ``most``."""
    share = most / max(sum(sizes), 1)
    if share >= 1:
        return list(examples)
    number = max(1, round(share * len(examples)))
    return [examples[place * len(examples) // number] for place in range(number)]


# -- senses


def _senses(model: Model, config: ProbeConfig, found: dict[str, Any]) -> None:
    if not config.senses:
        scores = leave_one_out(_sensed_words(model, sample_senses(config.language)))
        found["notes"].append(
            "senses: a sample of a few sentences, each judged by the others; for figures that count give "
            "--senses TRAIN.xml [--senses-test TEST.xml]"
        )
    else:
        train = [example for path in config.senses for example in read_senses(path)]
        if config.senses_test:
            test = [example for path in config.senses_test for example in read_senses(path)]
        else:
            train, test = split_examples(train)
        first = read_first_senses(config.first_senses) if config.first_senses else None
        words = [
            _sensed_words(model, thinned(part, [len(example.marks) for example in part], config.most))
            for part in (train, test)
        ]
        if not all(words):
            raise FirthError(f"{config.senses[0]}: too few sentences to hold some out; give --senses-test too")
        scores = score_senses(words[0], words[1], first)
        if scores.num_unanswered:
            found["notes"].append(
                f"senses: {scores.num_unanswered} of {scores.num_test} words have no answer, as training never had them; "
                "--first-senses index.sense (WordNet's own file) answers them by their first sense"
            )
    found["senses"] = asdict(scores)
    _add(found, "senses: F1", scores.f1, first_sense=scores.first_f1)
    if scores.choice is not None and scores.first_choice is not None:
        _add(found, "  where there is a choice", scores.choice, first_sense=scores.first_choice)


def _sensed_words(model: Model, examples: Sequence[SenseExample]) -> list[SensedWord]:
    return [
        SensedWord(mark.item, mark.senses, vectors_LWD[:, mark.start : mark.end].mean(1))
        for example, (vectors_LWD, _) in _read(model, examples)
        for mark in example.marks
    ]


# -- texts


def _sentences(config: ProbeConfig) -> list[str]:
    if config.texts is None:
        return sample_texts(config.language)
    texts: list[str] = []
    for document in read_documents(find_sources([config.texts]), ReadingConfig()):
        texts += [document.text[start:end] for start, end in split_sentences(document.text)]
        if len(texts) >= config.num_texts:
            break
    return [text for text in texts if len(text.split()) > 1 or len(text) > 8][: config.num_texts]


def _perplexity(model: Any, config: ProbeConfig, found: dict[str, Any]) -> None:
    if not hasattr(model, "pseudo_perplexity") and not hasattr(model, "perplexities"):
        raise _Missing(f"this model ({model.kind}) gives words no probability; use a masked or a language model")
    texts, _ = _those_that_fit(_sentences(config), model.score)
    masked = hasattr(model, "pseudo_perplexity")
    measured = {"pseudo_perplexity": model.pseudo_perplexity(texts)} if masked else model.perplexities(texts)
    found["perplexity"] = measured | {"num_texts": len(texts)}
    found["rows"] += [
        {"name": name.replace("_", " ").replace("perplexity ", "perplexity a "), "layers": [], "beside": {"all": value}}
        for name, value in found["perplexity"].items()
        if name != "num_texts"
    ]


def _attention(model: Model, config: ProbeConfig, found: dict[str, Any]) -> None:
    from firth.models.shared.translation_model import TranslationModel

    target = "" if isinstance(model, TranslationModel) else None  # nothing need be translated to read a source
    texts, maps = _those_that_fit(_sentences(config), lambda text: model.attention(text, target))
    heads = measure_heads((one.weights, one.offsets[:, 0] == one.offsets[:, 1]) for one in maps if len(one.weights))
    if heads is None:
        raise _Missing(f"this model ({model.kind}) has no attention of a text to itself")
    found["attention"] = {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(heads).items()
    } | {"num_texts": len(texts)}
    _add_heads(found, heads)


def _add_heads(found: dict[str, Any], heads: HeadMeasures) -> None:
    def by_layer(values: NDArray[np.float64]) -> list[float | None]:
        return [None, *values.mean(1).tolist()]  # the token layer looks at nothing

    _add(found, "attention: distance in tokens", by_layer(heads.distance), even=heads.even_distance)
    _add(found, "  entropy in nats", by_layer(heads.entropy), even=heads.even_entropy)
    shares = (("itself", heads.itself), ("the token before", heads.before), ("the token after", heads.after))
    for name, values in (*shares, ("special tokens", heads.special)):
        _add(found, f"  share on {name}", by_layer(values))


def _those_that_fit(texts: Sequence[str], ask: Callable[[str], _Any]) -> tuple[list[str], list[_Any]]:
    """The texts that the model takes, and what it says; where it takes none, its reason."""
    kept, answers, reason = [], [], "there is no text"
    for text in texts:
        try:
            answers.append(ask(text))
        except FirthError as error:
            reason = str(error)
        else:
            kept.append(text)
    if not kept:
        raise _Missing(reason)
    return kept, answers


# -- single words


def _words(model: Any, config: ProbeConfig, found: dict[str, Any]) -> None:
    from firth.evaluation.words import score_analogies, score_similarity
    from firth.models.shared.static import StaticModel

    if not isinstance(model, StaticModel):
        if config.similarity or config.analogies:
            raise _Missing(f"similarity and analogy files are for static vectors; this is: {model.kind}")
        return
    if not config.similarity and not config.analogies:
        raise _Missing("give --similarity FILE (two words and a score a line) or --analogies FILE (four words a line)")
    pairs = [score_similarity(model.vectors, path) for path in config.similarity]
    questions = [score_analogies(model.vectors, path) for path in config.analogies]
    found["similarity"] = [asdict(one) | {"coverage": one.coverage} for one in pairs]
    found["analogies"] = [{"file": one.file, **asdict(one.total), "accuracy": one.total.accuracy} for one in questions]
    for one in pairs:
        _add(found, f"similarity, Spearman: {one.file}", [one.spearman], known=one.coverage)
    for other in questions:
        _add(found, f"analogies: {other.file}", [other.total.accuracy], known=other.total.coverage)


_PROBES: dict[str, Callable[[Any, ProbeConfig, dict[str, Any]], None]] = {
    "part of speech": _tags,
    "senses": _senses,
    "single words": _words,
    "perplexity": _perplexity,
    "attention": _attention,
}
