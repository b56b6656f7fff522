"""Every kind of model and every score has a Chinese name, on the page and in reports."""

import importlib
import pkgutil
from collections.abc import Iterator

import numpy as np

import firth
from chinese_names import page_words, without_kind, without_metric
from firth.core.registry import specs
from firth.evaluation.words import retrieval_scores
from firth.models.shared.model import Model
from firth.reports.words import chinese
from firth.tasks.answer_spans import ANSWER_SCORES
from firth.tasks.config import WritingConfig
from firth.tasks.scores import classify_scores, number_scores
from firth.tasks.several import several_scores
from firth.tasks.tag_schemes import entity_scores
from firth.tasks.write.data import score_written


def _all_kinds(kind: type[Model]) -> Iterator[str]:
    if kind.__module__.startswith("firth."):  # other tests add models from outside
        yield kind.kind
    for one in kind.__subclasses__():
        yield from _all_kinds(one)


def test_kinds_of_models() -> None:
    for module in pkgutil.walk_packages(firth.__path__, "firth."):
        if not module.name.startswith(("firth.cli", "firth.serve")) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    kinds = set(_all_kinds(Model))
    assert {"text-to-text", "search index", "exported encoder"} <= kinds
    images = {name for name, spec in specs().items() if spec.reads_images}
    assert without_kind({*kinds, "ViT", "Swin", *(f"exported {name}" for name in images)}) == []
    words, tasks = page_words(), ("classify", "score", "tag", "answer", "embed", "write")
    assert [task for task in tasks if f"task.{task}" not in words] == []
    assert (
        without_kind([f"{task} on {kind}" for task in tasks for kind in ("encoder", "exported encoder", "counts")])
        == []
    )
    assert without_kind(["writer on text-to-text", "linear classifier"]) == ["linear classifier"]


def test_scores_of_tasks() -> None:
    both = np.array([[True, False], [False, True]])
    tags = [["B-PER", "O"]]
    found = {
        *classify_scores([0, 1], [0, 1], 2),
        *number_scores([0.0, 1.0], [0.0, 1.0]),
        *several_scores(both, both),
        *entity_scores(tags, tags),
        *retrieval_scores([[0, 1]], [{0}]),
        *score_written(WritingConfig(form="text"), ["a"], ["a"])[0],
        *("exact", "f1", "v_measure", "average_precision", "coverage", "covered_accuracy"),
    }
    assert ANSWER_SCORES
    assert without_metric(found) == []


def test_reports_say_what_the_page_says() -> None:
    """One word for one thing."""
    words = page_words()
    different = {
        name: (said, other)
        for name, said in words.items()
        if name.startswith("metric.") and (other := chinese(name.removeprefix("metric."))) is not None and other != said
    }
    assert different == {}
