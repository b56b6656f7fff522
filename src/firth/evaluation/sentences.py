"""Sentence vectors measured: similarity (Spearman), pairs of two classes (average precision), retrieval (nDCG, recall, MRR) and
clustering (V-measure).

What is measured is said by the file: scored pairs; pairs without a score, of which the second text is to be found by the
first among all second texts; or texts with a class.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

import numpy as np

from firth.core.batching import Floats
from firth.core.errors import FirthError
from firth.data.labelled import Columns, read_texts
from firth.data.sentences import SentenceData, read_sentence_data
from firth.models.shared.model import Model
from firth.retrieval.exact import best_rows, blocks_of, unit_rows
from firth.tasks.data import Reading
from firth.tasks.embed.scoring import pair_cosines, spearman

RECALLS = (1, 10, 100)


def average_precision(scores: Floats, right: Sequence[bool]) -> float:
    """The mean precision at the places of the right ones, best score first."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    hits = np.asarray(right, bool)[order]
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean()) if hits.any() else 0.0


def retrieval_scores(found: Sequence[Sequence[int]], right: Sequence[Set[int]]) -> dict[str, float]:
    """nDCG@10, MRR@10 and recall of rankings [Q, 100], where some texts are right for each question."""
    gains = 1 / np.log2(np.arange(2, 12))
    scores: dict[str, list[float]] = {"ndcg_at_10": [], "mrr_at_10": [], **{f"recall_at_{k}": [] for k in RECALLS}}
    for ranking, wanted in zip(found, right, strict=True):
        hits = np.asarray([number in wanted for number in ranking[:10]])
        best = gains[: min(10, len(wanted))].sum()
        scores["ndcg_at_10"].append(float((gains[: len(hits)] * hits).sum() / best))
        scores["mrr_at_10"].append(1 / (1 + int(hits.argmax())) if hits.any() else 0.0)
        for k in RECALLS:
            scores[f"recall_at_{k}"].append(len(wanted & set(ranking[:k])) / len(wanted))
    return {name: float(np.mean(values)) for name, values in scores.items()}


def v_measure(labels: Sequence[str], clusters: Sequence[int]) -> float:
    """The harmonic mean of homogeneity and completeness (Rosenberg & Hirschberg 2007)."""
    from sklearn.metrics import v_measure_score

    return float(v_measure_score(labels, clusters))


def evaluate_sentences(model: Model, path: Path, reading: Reading) -> dict[str, float]:
    """All scores of a file, the main one first, with the number of its examples."""
    columns = Columns(reading.text, reading.second, reading.label)
    encoding = reading.encoding or "utf-8"
    data = read_sentence_data(path, columns, None, encoding)
    if data.form == "text":
        return _clustered(model, path, columns, encoding)
    if data.form == "nli":
        raise FirthError(
            f"{path}: classes of pairs are no scores; give scored pairs, pairs that belong together, or texts with a class"
        )
    encode = _encoder(model)
    if data.form == "scores":
        found = pair_cosines([one.text for one in data.examples], [one.second or "" for one in data.examples], encode)
        wanted = [float(str(one.label)) for one in data.examples]
        scores = {"spearman": spearman(found, wanted)}
        if set(wanted) == {0.0, 1.0}:
            scores = {"average_precision": average_precision(found, [one == 1 for one in wanted]), **scores}
        return {**scores, "examples": len(wanted)}
    return _retrieved(model, data)


def _encoder(model: Model, prompt: str | None = None) -> Callable[[Sequence[str]], Floats]:
    return lambda texts: model.encode(list(texts), prompt=prompt)


def _prompts(model: Model) -> tuple[str | None, str | None]:
    config = None if model.sentence is None else model.sentence.config
    return (None, None) if config is None else (config.question_prompt, config.passage_prompt)


def _retrieved(model: Model, data: SentenceData) -> dict[str, float]:
    """Each distinct first text is a question to all distinct second texts (and negatives)."""
    texts = dict.fromkeys(text for one in data.examples for text in (one.second or "", *one.negatives))
    place: Mapping[str, int] = {text: number for number, text in enumerate(texts)}
    right: dict[str, set[int]] = {}
    for one in data.examples:
        right.setdefault(one.text, set()).add(place[one.second or ""])
    asked, read = _prompts(model)
    rows, questions = unit_rows(_encoder(model, read)(list(place))), unit_rows(_encoder(model, asked)(list(right)))
    numbers, _ = best_rows(questions, blocks_of(rows), max(RECALLS))
    scores = retrieval_scores(numbers.tolist(), list(right.values()))
    return {**scores, "questions": len(right), "passages": len(place)}


def _clustered(model: Model, path: Path, columns: Columns, encoding: str) -> dict[str, float]:
    """k-means with as many clusters as there are classes."""
    from sklearn.cluster import KMeans

    examples = read_texts(str(path), columns, scores=False, encoding=encoding)
    labels = [str(one.label) for one in examples]
    if len(set(labels)) < 2:
        raise FirthError(f"{path}: only one class, so there is nothing to tell apart; check the column (--label)")
    rows = unit_rows(_encoder(model)([one.text for one in examples]))
    clusters = KMeans(len(set(labels)), n_init=10, random_state=0).fit_predict(rows)
    return {"v_measure": v_measure(labels, clusters.tolist()), "examples": len(labels), "classes": len(set(labels))}
