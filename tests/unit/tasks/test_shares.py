"""Shares of examples: nested, stratified, seeded; scores against them as a run and in memory."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.core.errors import FirthError
from firth.core.run import Run
from firth.data.labelled import TextExample
from firth.reports.page import line_chart
from firth.tasks.config import TaskConfig
from firth.tasks.data import check_shares, nested_order, strata, take_share
from firth.tasks.finetune import default_settings, points_of
from task_text import files, questions, scores, tagged, texts


def labelled(counts: dict[str, int]) -> list[TextExample]:
    return [TextExample(f"{label} {number}", None, label) for label, count in counts.items() for number in range(count)]


def test_nested_stratified_and_in_order() -> None:
    examples = labelled({"common": 700, "rare": 250, "rarest": 50})
    before: set[str] = set()
    for share in (0.01, 0.05, 0.1, 0.25, 0.6, 1.0):
        chosen = take_share(examples, share, seed=3)
        assert chosen == [example for example in examples if example in chosen]
        assert len(chosen) == round(share * 1000)
        assert before <= {example.text for example in chosen}
        before = {example.text for example in chosen}
        for label, count in Counter(str(example.label) for example in chosen).items():
            assert abs(count - share * {"common": 700, "rare": 250, "rarest": 50}[label]) <= 2
    assert len(before) == 1000


def test_a_seed_draws_its_own() -> None:
    examples = labelled({"a": 50, "b": 50})
    assert take_share(examples, 0.2, 1) == take_share(examples, 0.2, 1)
    assert take_share(examples, 0.2, 1) != take_share(examples, 0.2, 2)


def test_every_kind_is_there() -> None:
    """However small the share, and however rare the kind."""
    examples = labelled({"a": 200, "b": 3, "c": 1})
    assert {example.label for example in take_share(examples, 0.001, 0)} == {"a", "b", "c"}
    order = nested_order(strata(examples), 5)
    assert sorted(order.tolist()) == list(range(204))
    assert {examples[number].label for number in order[:3]} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("examples", "kinds"), [(texts(10), 2), (scores(40), 10), (tagged(10), 1), (questions(12), 2), ([], 0)]
)
def test_kinds(examples: list[Any], kinds: int) -> None:
    assert len(set(strata(examples))) == kinds


@pytest.mark.parametrize(
    ("shares", "message"),
    [([0.0, 1.0], "0 is not above 0"), ([1.5], "1.5 is not above 0 and at most 1"), ([0.5, 0.5], "is given twice")],
)
def test_bad_shares(shares: list[float], message: str) -> None:
    with pytest.raises(FirthError, match=message):
        check_shares(shares)


def test_points() -> None:
    results = [(share, int(100 * share), score) for share, score in ((1.0, 0.9), (0.1, 0.5), (0.1, 0.7), (1.0, 0.7))]
    small, whole = points_of(results)
    assert small.model_dump() == {
        "share": 0.1,
        "examples": 10,
        "scores": (0.5, 0.7),
        "mean": pytest.approx(0.6),
        "deviation": pytest.approx(0.02**0.5),
    }
    assert whole.scores == (0.9, 0.7)


def test_a_logarithmic_chart_with_bars() -> None:
    drawn = line_chart({"f1": [(1, 0.5), (10, 0.6), (100, 0.9)]}, "examples", "f1", {"f1": [0.1, 0.1, 0.0]}, log_x=True)
    across = [float(part.split('"')[1]) for part in drawn.split("cx=")[1:]]
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)
    assert drawn.count('<line class="line c0"') == 4  # three bars and the legend
    for tick in ("1", "2", "5", "10", "20", "50", "100"):
        assert f'middle">{tick}</text>' in drawn
    assert line_chart({"f1": [(7, 0.5)]}, "examples", "f1", log_x=True)


def test_a_run_over_shares(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from firth.cli.main import main

    data = files(tmp_path, "classify", 20, 6)
    named = {"base": run_folder, "out": tmp_path / "run", "epochs": 1, "shares": "0.2,1", "seeds": 2, **data}
    words = [part for name, value in named.items() for part in (f"--{name}", str(value))]
    assert not main(["finetune", "classify", *words])
    shown = capsys.readouterr().out
    task = Run.open(tmp_path / "run").record.task
    assert task is not None
    assert task.chosen is not None
    assert task.spread is not None
    assert [(point.share, point.examples, len(point.scores)) for point in task.efficiency] == [
        (0.2, 4, 2),
        (1.0, 20, 2),
    ]
    assert [(result.share, result.seed) for result in task.results] == [
        (0.2, 0),
        (0.2, 1),
        (1.0, 0),
        (1.0, 1),
    ]
    assert task.chosen.share == 1.0  # the model that is kept has seen everything
    assert task.spread.count == 2
    assert "20 % (4)" in shown
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "by labelled examples" in report
    assert re.search(r">20 %</td><td[^>]*>4</td>", report)
    assert firth.load(tmp_path / "run").predict(["The map."])


def test_shares_need_a_dev_file_and_no_sweep(run_folder: Path, tmp_path: Path) -> None:
    data = files(tmp_path, "classify", 12, 6)
    with pytest.raises(FirthError, match="judged on a dev file"):
        firth.finetune("classify", base=run_folder, train=data["train"], out=tmp_path / "run", shares=[0.5, 1])
    with pytest.raises(FirthError, match="leave out one of them"):
        firth.finetune(
            "classify",
            base=run_folder,
            train=data["train"],
            dev=data["dev"],
            out=tmp_path / "run",
            shares=[0.5, 1],
            sweep=True,
        )


def test_words_that_are_no_shares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from firth.cli.main import main

    data = files(tmp_path, "classify", 12, 6)
    words = [part for name, path in data.items() for part in (f"--{name}", str(path))]
    with pytest.raises(SystemExit, match="2"):
        main(["finetune", "classify", *words, "--out", str(tmp_path / "run"), "--shares", "1%"])
    assert "write numbers with commas" in capsys.readouterr().err


def test_shares_have_the_settings_for_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few examples are read more often, also where they are a share of more."""

    def by_number(config: TaskConfig, base: Any, num_train: int, given: Any) -> TaskConfig:
        return default_settings(config, base, num_train, given).replace(epochs=3 if num_train == 5 else 1)

    monkeypatch.setattr("firth.tasks.finetune.default_settings", by_number)
    data = files(tmp_path, "classify", 20, 6)
    firth.finetune(
        "classify",
        base="scratch",
        train=data["train"],
        dev=data["dev"],
        out=tmp_path / "run",
        shares=[0.25, 1],
        seeds=1,
    )
    task = Run.open(tmp_path / "run").record.task
    assert task is not None
    assert {result.examples: result.settings.epochs for result in task.results} == {5: 3, 20: 1}
