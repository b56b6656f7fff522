"""The pure parts of a comparison: shares, marks, lengths, the table."""

import pytest

from firth.evaluation.compare.ranking import PRETRAIN_SHARE, Row, fit_length, mark, share_budget, table_lines


def row(name: str, *scores: float, low: float | None = None, cost: float = 1.0, **more: float) -> Row:
    mean = sum(scores) / len(scores)
    return Row(
        name,
        "trained",
        scores,
        mean - 0.02 if low is None else low,
        mean + 0.02,
        pretrain_s=cost,
        **more,  # type: ignore[arg-type]
    )


def test_the_budget_is_shared_out_whole() -> None:
    shares = share_budget(1000, 4, 5, 6)
    assert shares.pretrain_s == pytest.approx(PRETRAIN_SHARE * 250)
    assert 4 * shares.pretrain_s + 5 * 6 * shares.finetune_s == pytest.approx(1000)
    assert share_budget(600, 0, 2, 3).finetune_s == pytest.approx(100)  # nothing to pre-train


def test_a_length_that_fits() -> None:
    assert fit_length(100, 1.0, 5.0, 10, 3) == (3, 30)  # as many as wanted
    assert fit_length(100, 1.0, 5.0, 30, 9) == (2, 60)  # (30 + 5) * 2 fit, three do not
    assert fit_length(20, 1.0, 5.0, 35, 3) == (1, 35)  # not in its time, but in twice its time
    assert fit_length(20, 1.0, 5.0, 100, 3) == (1, 15)  # part of an epoch, and its test
    assert fit_length(0.1, 1.0, 5.0, 100, 3) == (1, 1)


def test_the_cheapest_within_the_error_of_the_best() -> None:
    rows = [row("slow", 0.90, low=0.88, cost=100), row("near", 0.885, cost=10), row("far", 0.87, cost=1)]
    marks = mark(rows)
    assert (marks.best, marks.cheapest) == ("slow", "near")
    assert set(marks.within) == {"slow", "near"}


def test_the_spread_over_seeds_is_an_error_too() -> None:
    rows = [row("slow", 0.95, 0.85, low=0.89, cost=100), row("far", 0.84, cost=1)]
    assert rows[0].deviation == pytest.approx(0.0707, abs=1e-4)
    assert mark(rows).cheapest == "far"  # 0.90 - 0.07 < 0.84
    assert mark([row("one", 0.5, cost=3)]).cheapest == "one"


def test_equal_scores_go_to_the_cheaper() -> None:
    marks = mark([row("slow", 0.9, cost=9), row("fast", 0.9, cost=2)])
    assert marks.best == marks.cheapest == "fast"


def test_costs() -> None:
    one = Row("a", "trained", (0.5, 0.7), 0.4, 0.8, pretrain_s=10, finetune_s=2)
    assert one.cost_s == 12
    told = one.as_dict()
    assert told["score"] == pytest.approx(0.6)
    assert told["scores"] == (0.5, 0.7)


def test_the_table_fits_a_terminal() -> None:
    rows = [
        row("tf-idf + logistic", 0.84, cost=0.0),
        Row(
            "a-recipe-with-a-very-long-name", "trained", (0.9, 0.91), 0.88, 0.92, 12_300_000, 5400.0, 99.4, 123.4, 10**9
        ),
    ]
    lines = table_lines(rows, "accuracy")
    assert all(len(line) <= 80 for line in lines[:-1])
    assert lines[1].startswith("* a-recipe-with-a-…")
    assert "0.905±0.007" in lines[1]
    assert "90.0m" in lines[1]
    assert "99s" in lines[1]
    assert "12.3M" in lines[1]
    assert "1.0GB" in lines[1]
    assert lines[2].startswith("  tf-idf + logistic")
    assert lines[-1].startswith("* best: a-recipe")
    assert "最好" in table_lines(rows, "accuracy", {"best": "* 最好"})[-1]
