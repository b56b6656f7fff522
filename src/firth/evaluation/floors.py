"""Baselines without any representation (floors): majority class, TF-IDF with a linear model, the most frequent tag of each
word, the most similar sentence. A comparison shows them first, so that every score can be judged against them.

Their predictions have the form of a task's. N examples, F features.
"""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firth.core.files import write_json
from firth.core.types import Prediction
from firth.data.labelled import AnswerExample, TagExample, TextExample
from firth.evaluation.compare.ranking import Row
from firth.evaluation.compare.tasks import Labels
from firth.models.shared.static import ScratchModel
from firth.tasks.checking import AnyExample, all_of
from firth.tasks.config import TaskConfig
from firth.tasks.model import build_task
from firth.tasks.training import Task
from firth.tokenizers.sentences import split_sentences
from firth.tokenizers.words import has_han, split_words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Predictions = list[Prediction]
_STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Floor:
    """A fitted baseline: its predictions and its number of parameters."""

    name: str
    predict: Callable[[Sequence[AnyExample]], Predictions]
    num_parameters: int = 0


def floors_of(
    task: str, train: Sequence[AnyExample], dev: Sequence[AnyExample]
) -> list[tuple[str, Callable[[], Floor]]]:
    """The baselines of a kind of task by name, to be fitted when called."""
    texts, dev_texts, tagged = all_of(TextExample, train), all_of(TextExample, dev), all_of(TagExample, train)
    if task == "classify":
        return [("majority", lambda: majority(texts)), ("tf-idf + logistic", lambda: tfidf_logistic(texts, dev_texts))]
    if task == "score":
        return [("mean", lambda: mean_score(texts)), ("tf-idf + ridge", lambda: tfidf_ridge(texts, dev_texts))]
    if task == "tag":
        return [("majority", lambda: common_tag(tagged)), ("tag of the word", lambda: word_tags(tagged))]
    floors = [("nearest sentence", overlapping)]
    if any(example.impossible for example in all_of(AnswerExample, train)):
        floors.insert(0, ("no answer", no_answer))
    return floors


# -- classes and scores


def majority(train: Sequence[TextExample]) -> Floor:
    """Always the most frequent class."""
    label = _most_common(str(example.label) for example in train)
    return Floor("majority", lambda examples: [{"label": label, "probabilities": {label: 1.0}} for _ in examples])


def mean_score(train: Sequence[TextExample]) -> Floor:
    """Always the mean."""
    mean = float(np.mean([float(example.label or 0.0) for example in train]))
    return Floor("mean", lambda examples: [{"score": mean} for _ in examples], 1)


def _most_common(values: Iterable[str]) -> str:
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def words_and_pairs(text: str) -> list[str]:
    """Words in lower case (Chinese ones by segmentation), and each with the one after it."""
    words = [text[start:end].lower() for start, end in split_words(text)]
    return words + [f"{first} {second}" for first, second in itertools.pairwise(words)]


class TextFeatures:
    """TF-IDF of words and pairs of words; for two texts both, their difference, their product, and the cosine."""

    def __init__(self, train: Sequence[TextExample]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.pairs = any(example.second is not None for example in train)
        texts = [part for example in train for part in (example.text, example.second) if part is not None]
        self.vectorizer = TfidfVectorizer(analyzer=words_and_pairs, sublinear_tf=True, min_df=1)
        try:
            self.vectorizer.fit(texts)
        except ValueError:  # there is no word in any text
            self.vectorizer.fit(["-"])

    def matrix(self, examples: Sequence[TextExample]) -> "csr_matrix":
        """[N, F], sparse."""
        from scipy.sparse import csr_matrix, hstack

        first = self.vectorizer.transform([example.text for example in examples])
        if not self.pairs:
            return first
        second = self.vectorizer.transform([example.second or "" for example in examples])
        shared = first.multiply(second)
        return hstack([first, second, abs(first - second), shared, csr_matrix(shared.sum(1))]).tocsr()


def tfidf_logistic(train: Sequence[TextExample], dev: Sequence[TextExample]) -> Floor:
    """Logistic regression over TF-IDF; how strongly it is regularised is chosen on the dev examples."""
    from sklearn.linear_model import LogisticRegression

    features = TextFeatures(train)
    inputs, labels = features.matrix(train), [str(example.label) for example in train]
    models = [LogisticRegression(C=strength, max_iter=1000).fit(inputs, labels) for strength in _STRENGTHS]
    dev_inputs, dev_labels = features.matrix(dev), [str(example.label) for example in dev]
    best = max(models, key=lambda model: float(model.score(dev_inputs, dev_labels)))

    def predict(examples: Sequence[AnyExample]) -> Predictions:
        probabilities = best.predict_proba(features.matrix(all_of(TextExample, examples)))
        classes = [str(name) for name in best.classes_]
        return [
            {"label": classes[int(row.argmax())], "probabilities": dict(zip(classes, row.tolist(), strict=True))}
            for row in probabilities
        ]

    return Floor("tf-idf + logistic", predict, int(best.coef_.size + best.intercept_.size))


def tfidf_ridge(train: Sequence[TextExample], dev: Sequence[TextExample]) -> Floor:
    """Ridge regression over TF-IDF, its strength chosen on the dev examples."""
    from sklearn.linear_model import Ridge

    features = TextFeatures(train)
    inputs, targets = features.matrix(train), [float(example.label or 0.0) for example in train]
    models = [Ridge(alpha=1 / strength).fit(inputs, targets) for strength in _STRENGTHS]
    dev_inputs, dev_targets = features.matrix(dev), [float(example.label or 0.0) for example in dev]
    best = max(models, key=lambda model: float(model.score(dev_inputs, dev_targets)))

    def predict(examples: Sequence[AnyExample]) -> Predictions:
        inputs = features.matrix(all_of(TextExample, examples))
        return [{"score": float(value)} for value in best.predict(inputs)]

    return Floor("tf-idf + ridge", predict, int(best.coef_.size + 1))


# -- tags


def common_tag(train: Sequence[TagExample]) -> Floor:
    """Always the most frequent tag."""
    tag = _most_common(tag for example in train for tag in example.tags or ())

    def predict(examples: Sequence[AnyExample]) -> Predictions:
        return [{"tags": [tag] * len(example.words)} for example in all_of(TagExample, examples)]

    return Floor("majority", predict)


def word_tags(train: Sequence[TagExample]) -> Floor:
    """The most frequent tag of each word, as written or else in lower case; of unknown words the most frequent of all."""
    counts: dict[str, Counter[str]] = {}
    for example in train:
        for word, tag in zip(example.words, example.tags or (), strict=True):
            for form in {word, word.lower()}:
                counts.setdefault(form, Counter())[tag] += 1
    table = {word: _most_common(tags.elements()) for word, tags in counts.items()}
    other = _most_common(tag for example in train for tag in example.tags or ())

    def predict(examples: Sequence[AnyExample]) -> Predictions:
        return [
            {"tags": [table.get(word) or table.get(word.lower(), other) for word in example.words]}
            for example in all_of(TagExample, examples)
        ]

    return Floor("tag of the word", predict, len(table))


# -- answers


def no_answer() -> Floor:
    """Never an answer: right wherever the passage has none."""
    return Floor("no answer", lambda examples: [{"answer": "", "score": 0.0} for _ in examples])


def overlapping() -> Floor:
    """The sentence that shares most words with the question, and in it the longest stretch of words that the question
    does not have (after the sliding window of Richardson et al. 2013)."""
    return Floor("nearest sentence", lambda examples: [_nearest(one) for one in all_of(AnswerExample, examples)])


def _units(text: str) -> list[tuple[int, int]]:
    """Words, Chinese characters singly."""
    spans = split_words(text)
    if not has_han(text):
        return spans
    return [
        (place, place + 1) if has_han(text[start:end]) else (start, end)
        for start, end in spans
        for place in (range(start, end) if has_han(text[start:end]) else (start,))
    ]


def _nearest(example: AnswerExample) -> Prediction:
    asked = {example.question[start:end].lower() for start, end in _units(example.question)}
    best, most = "", -1.0
    for start, end in split_sentences(example.passage):
        sentence = example.passage[start:end]
        units = _units(sentence)
        known = [sentence[first:last].lower() in asked for first, last in units]
        shared = len({sentence[first:last].lower() for (first, last), here in zip(units, known, strict=True) if here})
        if shared > most:
            best, most = _longest_new(sentence, units, known), float(shared)
    return {"answer": best, "score": most}


def _longest_new(sentence: str, units: list[tuple[int, int]], known: list[bool]) -> str:
    """The longest stretch of letters and digits without a word of the question or a mark."""
    best, start = (0, 0), None
    for place in range(len(units) + 1):
        inside = place < len(units) and not known[place] and sentence[units[place][0] : units[place][1]][0].isalnum()
        if inside and start is None:
            start = place
        if not inside and start is not None:
            if place - start > best[1] - best[0]:
                best = (start, place)
            start = None
    return sentence[units[best[0]][0] : units[best[1] - 1][1]] if best[1] else ""


FLOORS = "floors"


def score_by(config: TaskConfig) -> Task:
    """The task without a model, to score predictions."""
    return build_task(config, ScratchModel([], 1).reader())


def floor_rows(labels: Labels, out: Path) -> tuple[str, list[Row]]:
    """The name of the score, and a row for each baseline. They take seconds, so they are fitted in every run."""
    import sklearn.feature_extraction.text
    import sklearn.linear_model  # noqa: F401  (loaded before the clock is started)

    task, rows = score_by(labels.config), []
    metric = task.metric
    (out / FLOORS).mkdir(exist_ok=True)
    for name, fit in floors_of(labels.config.task, labels.data.train, labels.data.dev):
        begun = time.perf_counter()
        floor = fit()
        fitted = time.perf_counter()
        predictions = floor.predict(labels.test)
        ended = time.perf_counter()
        metric, (low, high) = task.interval(labels.test, predictions)
        path = out / FLOORS / f"{name.replace(' ', '-')}.json"
        write_json(path, predictions)
        rows.append(
            Row(
                name,
                "floor",
                (task.score(labels.test, [], predictions)[metric],),
                low,
                high,
                parameters=floor.num_parameters,
                finetune_s=fitted - begun,
                ms_per_text=1000 * (ended - fitted) / len(labels.test),
                folder=str(path.relative_to(out)),
            )
        )
    return metric, rows
