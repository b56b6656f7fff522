"""The score against the number of labels, and what twice as many would give."""

from pathlib import Path

import numpy as np
import pytest

import firth
from firth.core.run import CurvePoint, LearningCurve, Run
from firth.reports.card import show_curve
from firth.tasks.config import TaskConfig
from firth.tasks.counts import fit_counts, refittable
from firth.tasks.data import build_data
from firth.tasks.linear import learning_curve, predict_scores, stratified_folds
from task_text import files, texts


def points(errors: dict[int, float]) -> list[CurvePoint]:
    return [CurvePoint(examples=examples, score=1 - error) for examples, error in errors.items()]


@pytest.mark.parametrize(("alpha", "beta", "power"), [(0.1, 0.4, 0.5), (0.0, 0.3, 0.25), (0.05, 0.2, 1.0)])
def test_a_power_law_is_found_again(alpha: float, beta: float, power: float) -> None:
    sizes = (100, 200, 400, 800)

    def error(size: int) -> float:
        return float(alpha + beta * (size / 800) ** -power)

    found = predict_scores(points({size: error(size) for size in sizes}), (1000, 2000))
    np.testing.assert_allclose(found, [1 - error(1000), 1 - error(2000)], atol=1e-6)


def test_scores_neither_fall_nor_pass_one() -> None:
    flat = predict_scores(points({10: 0.2, 20: 0.21, 40: 0.22, 80: 0.22}), (100, 200))
    assert flat[0] == pytest.approx(flat[1])
    steep = predict_scores(points({10: 0.5, 20: 0.3, 40: 0.1, 80: 0.0}), (100, 10_000))
    assert steep[0] <= steep[1] <= 1


def test_the_words() -> None:
    def verdict(predicted: float) -> str:
        curve = LearningCurve(
            name="linear", metric="accuracy", points=(), examples=500, fitted=0.8, predicted=predicted
        )
        return show_curve(curve)

    assert verdict(0.85) == "would help: with 1,000 about accuracy 0.850 where it is 0.800 now (linear)"
    assert verdict(0.81).startswith("would help a little")
    assert verdict(0.8001).startswith("would hardly help")


def test_all_examples_are_the_cross_validation() -> None:
    """At the share of 1 the curve has the score of the candidate itself, up to how long it is fitted; shares are nested."""
    train = texts(80)
    config = build_data("classify", train, []).configured(TaskConfig())
    folds = stratified_folds([str(example.label) for example in train], 5, 0)
    model, linear = fit_counts(config, train, False, folds)
    fits = refittable(model, linear, train)
    found = learning_curve(fits, model.task, train, folds, 600.0, "counts")
    assert found is not None
    assert [point.examples for point in found.points] == [8, 16, 32, 64]
    targets = np.asarray([config.labels.index(str(example.label)) for example in train])
    assert found.points[-1].score == pytest.approx((linear.outside.argmax(1) == targets).mean())
    assert learning_curve(fits, model.task, train[:30], folds, 600.0, "counts") is None
    assert learning_curve(fits, model.task, train, folds, 1e-6, "counts") is None


@pytest.mark.parametrize("kind", ["classify", "score", "tag"])
def test_the_summary_and_the_report_say_it(kind: str, tmp_path: Path) -> None:
    """Also without dev examples."""
    from firth.cli.describe import run_rows

    paths = files(tmp_path, kind, 60, 8)
    del paths["dev"]
    firth.finetune(kind, base="counts", **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    record = Run.open(tmp_path / "run").record
    assert any(name == "more labels" and "with 120 about" in value for name, value in run_rows(record))
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Would more labels help?" in report
    assert "predicted" in report
