"""Probes every layer of a model: parts of speech, senses, attention, perplexity and single words, each with its baseline.

A probe that the model or the data does not allow is skipped, and a note says what it needs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

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
from firth.evaluation.probe_report import HeadMeasures, ProbeResult, measure_heads, write_probe_report
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
from firth.tokenizers.sentences import split_sentences


class ProbeConfig(Config):
    """Files of data, all optional; without a test file every fifth sentence is held out."""

    pos: str | None = None  # words with parts of speech
    pos_test: str | None = None
    tag: Literal["upos", "xpos"] = "upos"  # of CoNLL-U
    senses: tuple[str, ...] = ()  # words with senses
    senses_test: tuple[str, ...] = ()
    first_senses: str | None = None
    texts: str | None = None
    encoding: str = "utf-8"  # of the texts
    similarity: tuple[str, ...] = ()
    analogies: tuple[str, ...] = ()
    language: Literal["en", "zh"] = "en"  # of the built-in sample that replaces missing files
    most: int = Field(20_000, gt=0)  # most training words that a probe reads, and most test words
    num_texts: int = Field(100, gt=0)  # sentences for perplexity and attention
    seed: int = 0


_BLOCK = 64  # sentences that go through the model at once
_HELD_OUT = 5  # every fifth sentence is for the test
One = TypeVar("One")


class _HasWords(Protocol):
    """A sentence as words."""

    @property
    def words(self) -> list[str]: ...


Sentence = TypeVar("Sentence", bound=_HasWords)


def probe_run(
    model: Model, name: str, config: ProbeConfig, folder: Path | None, progress: Progress | None
) -> ProbeResult:
    """Probes a model and, where a folder is given, writes ``report.html`` and ``probe.json`` there."""
    found = probe_model(model, config, progress or (lambda event: None))
    if folder is not None:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "probe.json", found)
        found["report"] = str(write_probe_report(folder, name, found))
    return found


def probe_model(model: Model, config: ProbeConfig, progress: Progress) -> ProbeResult:
    """Every probe that the model and the data allow, as plain data; ``notes`` say why others are missing."""
    if isinstance(model, TaskModel):
        model = model.base
    found: ProbeResult = {"kind": model.kind, "rows": [], "notes": []}
    for name, ask in _PROBES.items():
        progress({"event": name})
        try:
            ask(model, config, found)
        except _Missing as missing:
            found["notes"].append(f"{name}: {missing}")
    return found


class _Missing(Exception):
    """A probe that is not possible, and what it needs."""


def _add(found: ProbeResult, name: str, values: Sequence[float | None], **reference: float) -> None:
    """A row of the table: a value per layer and its reference values."""
    named = {key.replace("_", " "): value for key, value in reference.items()}
    found["rows"].append({"name": name, "layers": list(values), "reference": named})


# -- parts of speech


def _tags(model: Model, config: ProbeConfig, found: ProbeResult) -> None:
    if config.pos is None:
        raise _Missing("give sentences with tags by --pos FILE (CoNLL-U, columns, word/tag or jsonl)")
    train, test = _parts(config.pos, config.pos_test, lambda path: _read_tags(path, config.tag))
    words = [
        _tagged_words(model, thinned(part, [len(example.words) for example in part], config.most))
        for part in (train, test)
    ]
    scores = score_tags(words[0], words[1], config.seed)
    found["tags"] = asdict(scores) | {"selectivity": scores.selectivity}
    _add(found, "part of speech: accuracy", scores.accuracy, majority=scores.majority, tag_of_the_word=scores.per_word)
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
    """The words with tags and vectors; words for which the model has no token are skipped."""
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


def _read(
    model: Model, examples: Iterable[Sentence]
) -> Iterator[tuple[Sentence, tuple[NDArray[np.float32], NDArray[np.bool_]]]]:
    """Sentences with the vectors of their words, [L, W, D], and which words have one, [W]."""
    rest = iter(examples)
    while some := list(islice(rest, _BLOCK)):
        for example, layers in zip(some, model.layers_of([example.words for example in some]), strict=True):
            yield example, of_words(layers.hidden, layers.words, len(example.words))


def _parts(path: str, test: str | None, read: Callable[[str], list[One]]) -> tuple[Sequence[One], Sequence[One]]:
    """Training and test examples."""
    examples = read(path)
    if test is not None:
        return examples, read(test)
    if len(examples) < _HELD_OUT:
        raise FirthError(f"{path}: {len(examples)} sentences are too few to hold some out; give a test file too")
    return split_examples(examples)


def split_examples(examples: Sequence[One]) -> tuple[list[One], list[One]]:
    """Every fifth example is for the test, so that files sorted by sense are split evenly, too."""
    test = [example for number, example in enumerate(examples) if number % _HELD_OUT == _HELD_OUT - 1]
    return [example for number, example in enumerate(examples) if number % _HELD_OUT != _HELD_OUT - 1], test


def thinned(examples: Sequence[One], sizes: Sequence[int], most: int) -> list[One]:
    """Evenly spaced examples whose sizes add up to about ``most``."""
    share = most / max(sum(sizes), 1)
    if share >= 1:
        return list(examples)
    number = max(1, round(share * len(examples)))
    return [examples[place * len(examples) // number] for place in range(number)]


# -- senses


def _senses(model: Model, config: ProbeConfig, found: ProbeResult) -> None:
    if not config.senses:
        scores = leave_one_out(_sensed_words(model, sample_senses(config.language)))
        found["notes"].append(
            "senses: a built-in sample of a few sentences, leave-one-out; for a real measurement give "
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
    for document in read_documents(
        find_sources([config.texts]), ReadingConfig(encoding=config.encoding), "rename the column"
    ):
        texts += [document.text[start:end] for start, end in split_sentences(document.text)]
        if len(texts) >= config.num_texts:
            break
    return [text for text in texts if len(text.split()) > 1 or len(text) > 8][: config.num_texts]


@runtime_checkable
class _Masked(Protocol):
    """A masked language model."""

    def pseudo_perplexity(self, texts: Sequence[str]) -> float: ...


@runtime_checkable
class _Causal(Protocol):
    """A language model."""

    def perplexities(self, texts: Sequence[str]) -> Mapping[str, float]: ...


def _perplexity(model: Model, config: ProbeConfig, found: ProbeResult) -> None:
    if not isinstance(model, _Masked | _Causal):
        raise _Missing(f"this model ({model.kind}) gives words no probability; use a masked or a language model")
    texts, _ = _accepted(_sentences(config), model.score)
    if isinstance(model, _Masked):
        measured = {"pseudo_perplexity": model.pseudo_perplexity(texts)}
    else:
        measured = dict(model.perplexities(texts))
    found["perplexity"] = measured | {"num_texts": len(texts)}
    for name, value in measured.items():
        _add(found, name.replace("_", " ").replace("perplexity ", "perplexity per "), [], all=value)


def _attention(model: Model, config: ProbeConfig, found: ProbeResult) -> None:
    from firth.models.shared.translation_model import TranslationModel

    target = "" if isinstance(model, TranslationModel) else None  # the attention of the source needs no translation
    texts, maps = _accepted(_sentences(config), lambda text: model.attention(text, target))
    heads = measure_heads((one.weights, one.offsets[:, 0] == one.offsets[:, 1]) for one in maps if len(one.weights))
    if heads is None:
        raise _Missing(f"this model ({model.kind}) has no attention of a text to itself")
    found["attention"] = {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(heads).items()
    } | {"num_texts": len(texts)}
    _add_heads(found, heads)


def _add_heads(found: ProbeResult, heads: HeadMeasures) -> None:
    def by_layer(values: NDArray[np.float64]) -> list[float | None]:
        return [None, *values.mean(1).tolist()]  # the token layer has no attention

    _add(found, "attention: distance in tokens", by_layer(heads.distance), even=heads.even_distance)
    _add(found, "  entropy in nats", by_layer(heads.entropy), even=heads.even_entropy)
    shares = (("itself", heads.itself), ("the token before", heads.before), ("the token after", heads.after))
    for name, values in (*shares, ("special tokens", heads.special)):
        _add(found, f"  share on {name}", by_layer(values))


def _accepted(texts: Sequence[str], ask: Callable[[str], One]) -> tuple[list[str], list[One]]:
    """The texts that the model can read, and its answers; if there are none, its reason is raised."""
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


def _words(model: Model, config: ProbeConfig, found: ProbeResult) -> None:
    from firth.evaluation.words import score_analogies, score_similarity
    from firth.models.shared.static import StaticModel

    if not isinstance(model, StaticModel):
        if config.similarity or config.analogies:
            raise _Missing(f"similarity and analogy files are for static vectors; this is: {model.kind}")
        return
    if not config.similarity and not config.analogies:
        raise _Missing(
            "give --similarity FILE (two words and a score per line) or --analogies FILE (four words per line)"
        )
    pairs = [score_similarity(model.vectors, path) for path in config.similarity]
    questions = [score_analogies(model.vectors, path) for path in config.analogies]
    found["similarity"] = [asdict(one) | {"coverage": one.coverage} for one in pairs]
    found["analogies"] = [{"file": one.file, **asdict(one.total), "accuracy": one.total.accuracy} for one in questions]
    for one in pairs:
        _add(found, f"similarity, Spearman: {one.file}", [one.spearman], known=one.coverage)
    for other in questions:
        _add(found, f"analogies: {other.file}", [other.total.accuracy], known=other.total.coverage)


_PROBES: dict[str, Callable[[Model, ProbeConfig, ProbeResult], None]] = {
    "part of speech": _tags,
    "senses": _senses,
    "single words": _words,
    "perplexity": _perplexity,
    "attention": _attention,
}
