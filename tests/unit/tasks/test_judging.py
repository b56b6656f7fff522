"""How candidates are compared: on what both have judged, by more than chance where that is little; what is said of it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import firth
from firth.core.run import CandidateResult, Run
from firth.core.types import Prediction
from firth.models.shared.model import Model
from firth.models.shared.static import ScratchModel
from firth.tasks import candidates as candidates_file
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.data import build_data
from firth.tasks.judging import Fitted, Judge, Tried
from task_text import texts, write


class _Rescaled:
    def rescale(self, factor: float) -> None:
        assert factor > 0


def some_judge(num: int, dev: bool = False) -> Judge:
    data = build_data("classify", texts(num), texts(num) if dev else [])
    config = data.configured(TaskConfig())
    judge = Judge(config, data, np.arange(num) % 5)
    judge.task = Classify(config, ScratchModel([], 1).reader())
    return judge


def said(judge: Judge, name: str, num: int, right: float, wrong: set[int]) -> Tried:
    """What gives the true label of the first examples ``right``, and of those in ``wrong`` the rest."""
    found: dict[int, Prediction] = {}
    for number, label in enumerate(str(example.label) for example in judge.judged[:num]):
        (other,), own = set(judge.config.labels) - {label}, 1 - right if number in wrong else right
        found[number] = {"label": label if own > 0.5 else other, "probabilities": {label: own, other: 1 - own}}
    return Tried(name, found, lambda: None)  # type: ignore[arg-type, return-value]


def test_a_dozen_examples_do_not_make_a_winner() -> None:
    """What was tuned and judged on one fold of 12 is surer there; the linear model is right of all 60 but two."""
    judge = some_judge(60)
    linear, sure = said(judge, "linear", 60, 0.95, {40, 50}), said(judge, "tuned", 12, 0.999, set())
    assert judge.rank(sure, range(12)) > judge.rank(linear, range(12))  # in likelihood, and beyond chance
    assert judge.leader([linear, sure]) == 0
    assert judge.leader([sure, linear]) == 1  # in whatever order they were named
    poor = said(judge, "linear", 60, 0.95, set(range(0, 60, 2)))
    assert judge.leader([poor, sure]) == 1  # half of them against all: that is no chance
    once = said(judge, "linear", 60, 0.95, {3})
    assert judge.leader([once, sure]) == 0  # one of twelve is
    more = said(judge, "tuned", 36, 0.999, set())
    assert judge.leader([linear, more]) == 1  # enough examples to go by likelihood, as among all
    assert judge.leader([said(judge, "counts", 12, 0.9, set()), said(judge, "linear", 12, 0.99, set())]) == 1
    given = some_judge(12, dev=True)
    pair = [said(given, "linear", 12, 0.9, {0}), said(given, "tuned", 12, 0.6, set())]
    assert given.leader(pair) == 1  # dev examples are there to decide


def test_each_candidate_is_compared_on_what_both_have_judged_and_shown_on_its_own() -> None:
    judge = some_judge(60)
    linear, tuned = said(judge, "linear", 60, 0.95, {1, 40, 50}), said(judge, "tuned", 12, 0.999, set())
    assert judge.score_of(linear) == pytest.approx(57 / 60)
    assert judge.score_of(tuned) == 1.0
    assert judge.note(tuned, linear).endswith("linear 0.9167 on these")
    assert "on these" not in judge.note(linear, linear)
    assert judge.note(linear, tuned).endswith("0.9167 on the 12 of tuned")
    assert judge.best_score([linear, tuned]) == pytest.approx(57 / 60)
    both = said(judge, "tuned", 40, 0.999, set())
    assert judge.best_score([linear, both]) == 1.0
    assert judge.deviation(replace(tuned, found={number: tuned.found[number] for number in (0, 5, 10)})) is None


def test_tags_and_several_labels_win_on_few_only_by_more_than_chance() -> None:
    """By the share of right tags, the squared error and the likelihood of all labels."""
    numbers = build_data("score", [replace(one, label=float(place)) for place, one in enumerate(texts(12))], [])
    judge = Judge(numbers.configured(TaskConfig(task="score")), numbers, np.arange(12) % 5)
    off, near = (
        Tried(name, {n: {"score": n + error} for n in range(12)}, lambda: None)  # type: ignore
        for name, error in (("linear", 2.0), ("tuned", 0.1))
    )
    np.testing.assert_allclose(judge._goodness(near, range(12)) - judge._goodness(off, range(12)), 3.99)


@pytest.mark.parametrize(("num", "wanted"), [(100, False), (101, True)])
def test_of_a_hundred_examples_nothing_is_tuned_where_pairs_find_no_time(num: int, wanted: bool) -> None:
    """As the documentation says: of 100 or fewer ``contrastive`` is tried, or, if there is no time for it, neither."""
    data = build_data("classify", texts(num), [])
    config = data.configured(TaskConfig(candidates=("linear", "contrastive", "tuned"), epochs=2))
    choice = candidates_file._Choice(config, lambda config: Model(), data, Path(), None, None, None)
    choice.frozen = SimpleNamespace(read_s=0.1, config=config)  # type: ignore[assignment]
    choice._pulls = lambda: (0, 3)  # type: ignore[method-assign]
    choice.judge.task = Classify(config, ScratchModel([], 1).reader())
    tried = [said(choice.judge, "linear", num, 0.9, {0, 1, 2, 3, 4, 5})]
    assert "batches take too long" in choice._why_not("contrastive", tried)
    assert (choice._why_not("tuned", tried) == "") == wanted


def test_the_summary_says_how_many_examples_judged(tmp_path: Path) -> None:
    """Each candidate's own score, its number where that is not all; the label table and warnings that fit it."""
    from firth.cli.describe import judged_part, label_rows, label_warnings, task_rows

    train = write(tmp_path / "train", texts(60))
    firth.finetune("classify", base="counts", train=train, out=tmp_path / "run")
    record = Run.open(tmp_path / "run").record
    assert record.task is not None
    assert record.task.chosen is not None
    chosen = record.task.chosen
    assert [one.examples for one in chosen.candidates] == [60]
    assert judged_part(record.task) == (0, 0)
    few = CandidateResult(name="tuned", score=1.0, examples=12, seconds=3.0)
    other = replace_task(record.task, (*chosen.candidates, few))
    assert dict(task_rows(record, other))["  tuned"].startswith("1.0000 on 12 examples")
    assert "on 60" not in dict(task_rows(record, other))["  counts"]
    part = replace_task(record.task, (few.model_copy(update={"chosen": True}),))
    assert judged_part(part) == (12, 60)
    score = chosen.by_label["en"].model_copy(update={"true": 1, "guessed": 0})
    assert label_rows({"en": score}, 12, 60)[-1][1].startswith("on 12 of 60 examples")
    few_judged, never = label_warnings({"en": score}, True, 1, 60)
    assert "only 1 of 60 examples were judged" in few_judged
    assert "--budget" in few_judged
    assert "among the 1 of 60 examples that were judged, but 1 example has it" in never
    assert "label more" not in never
    assert "label more for --dev" in label_warnings({"en": score}, True, dev=True)[0]


def replace_task(task: Any, candidates: Any) -> Any:
    return task.model_copy(update={"results": (task.chosen.model_copy(update={"candidates": candidates}),), "best": 0})


def test_weighted_classes_are_calibrated_too(tmp_path: Path) -> None:
    """Every example counts as one there; the labels stay those that were judged."""
    some = [one for one in texts(90) if one.label == "en"] + [one for one in texts(90) if one.label == "zh"][:12]
    data = build_data("classify", some, [])
    config = data.configured(TaskConfig(candidates=("counts",)))
    assert config.class_weights
    choice = candidates_file._Choice(config, lambda config: Model(), data, Path(), None, None, None)
    choice.judge.task = Classify(config, ScratchModel([], 1).reader())
    flat = said(choice.judge, "counts", len(some), 0.7, {3, 20, 50})
    fitted = Fitted(_Rescaled(), list(flat.found.values()), {}, 0.0, {})  # type: ignore[arg-type]
    choice._calibrate(fitted, flat)
    assert fitted.calibration is not None
    likely = fitted.predictions[0]["probabilities"][fitted.predictions[0]["label"]]
    assert likely == pytest.approx(1 - 3 / len(some), abs=0.03)  # the share that is right, of all alike
    assert fitted.calibration.error_after < 0.05 < fitted.calibration.error_before
    assert [one["label"] for one in fitted.predictions] == [one["label"] for one in flat.found.values()]


def test_one_example_shows_nothing() -> None:
    from firth.tasks.judging import better

    assert not better(np.asarray([0.5]))
    assert better(np.asarray([0.5, 0.5, 0.4, 0.5]))
    assert not better(np.asarray([1.0, -0.5]))
