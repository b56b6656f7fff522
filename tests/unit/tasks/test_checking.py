"""The look at data before training, and how it is shown."""

import random
import re

import numpy as np
import pytest

from firth.core.errors import FirthError
from firth.data.labelled import Answer, AnswerExample, TagExample, TextExample
from firth.tasks.checking import Check, Problem, _screen_width, check_examples, check_lines
from firth.tasks.suspects import find_suspects, suspect_labels


def texts(*pairs: tuple[str, str | float | None], name: str = "train.tsv") -> list[TextExample]:
    return [TextExample(text, None, label, f"{name}:{number}") for number, (text, label) in enumerate(pairs, 1)]


def test_counts_and_lengths() -> None:
    train = texts(("one two three", "a"), ("我爱 you", "b"), ("x", "a"), ("y z", "a"))
    found = check_examples(train, texts(("w", "b"), name="dev.tsv"))
    assert found.num_examples == {"train": 4, "dev": 1}
    assert found.labels == {"a": {"train": 3, "dev": 0}, "b": {"train": 1, "dev": 1}}
    assert found.num_chars["train"] == [1, 1, 3, 6, 6, 13]
    assert found.num_words["train"] == [1, 1, 2, 3, 3, 3]  # 我 + 爱 + you are three
    assert found.problems == []
    found.refuse()


def test_problems_of_texts() -> None:
    train = texts(("x", "a"), ("", "b"), ("y", None), ("x", "b"))
    found = check_examples(train, texts(("x", "c"), ("z", "a"), name="dev.tsv"))
    assert found.problems == [
        Problem("has no label (train)", 1, "train.tsv:3", True),
        Problem("empty text (train)", 1, "train.tsv:2"),
        Problem("the label 'c' is not in the training data", 1, "dev.tsv:1", True),
        Problem("the same text with another label before", 1, "train.tsv:4"),
        Problem("dev examples that are also in train", 1, "dev.tsv:1"),
    ]
    with pytest.raises(FirthError, match=r"train\.tsv:3: has no label \(train\) \(1 in all\)"):
        found.refuse()


def test_a_dev_file_that_is_the_train_file() -> None:
    train = texts(("x", "a"), ("y", "b"))
    (problem,) = check_examples(train, train).problems
    assert problem == Problem("every dev example is also in train: the score will say nothing", 2, "train.tsv:1")


def test_what_unbalanced_data_need() -> None:
    train = texts(*((f"x{number}", "a") for number in range(12)), ("y", "b"), ("z", "b"), ("z", "b"), ("x0", "a"))
    found = check_examples(train).problems
    assert found == [
        Problem("texts that stood there before", 2, "train.tsv:15"),
        Problem("labels with fewer than 5 examples", 1, "train.tsv:13"),
        Problem("examples of 'b', the rarest of unbalanced labels", 3, "train.tsv:13"),
    ]
    assert "label more ('b' 3)" in found[1].remedy
    assert "macro F1 decides" in found[2].remedy
    assert "leave them out: they count twice" in " ".join(" ".join(check_lines(check_examples(train))).split())


def test_labels_that_are_probably_wrong() -> None:
    """Planted ones are found, and little else."""
    pick = random.Random(0)
    train = []
    for number in range(100):
        word = ["apple pear plum", "bolt screw nail"][number % 2]
        label = ["fruit", "iron"][number % 2 if number not in (10, 31) else 1 - number % 2]
        train.append(TextExample(f"{pick.choice(word.split())} {pick.choice(word.split())} {number}", None, label))
    found = find_suspects(train)
    assert {one.number for one in found[:2]} == {10, 31}
    assert len(found) <= 4
    assert found[0].likely != found[0].label
    shuffled = [TextExample(one.text, None, pick.choice("ab")) for one in train]
    assert find_suspects(shuffled) == []  # nothing is known, so nothing is suspected


def test_a_label_for_every_example_is_refused() -> None:
    """A column of numbers was taken for the labels."""
    check = check_examples([TextExample(f"text {number}", None, str(number)) for number in range(12)])
    assert any("name the column of the labels with --label" in one.remedy for one in check.problems)
    with pytest.raises(FirthError, match="every example has a label of its own"):
        check.refuse()


def test_suspects_are_ranked_by_odds() -> None:
    """Calibrated odds of the likely label against the own one, at least 3; the highest first."""
    sure, doubtful = [0.97, 0.02, 0.01], [0.4, 0.35, 0.25]
    outside = np.asarray([sure] * 30 + [doubtful] * 10 + [[0.02, 0.97, 0.01], [0.1, 0.7, 0.2]])
    found = suspect_labels(outside, np.zeros(42, np.int64), ["a", "b", "c"])
    assert [(one.number, one.likely) for one in found] == [(40, "b"), (41, "b")]
    assert found[0].likely_prob / found[0].label_prob > found[1].likely_prob / found[1].label_prob >= 3


def test_one_label_teaches_nothing() -> None:
    with pytest.raises(FirthError, match="all examples have the same label"):
        check_examples(texts(("x", "a"), ("y", "a"))).refuse()


def test_scores() -> None:
    found = check_examples(texts(("x", 1.5), ("y", 2.0)), texts(("z", 9.0)), kind="score")
    assert found.labels == {}
    assert found.problems == []


def test_tags() -> None:
    train = [
        TagExample(["a", "b"], ["B-X", "I-X"], "t:1", "a b", [(0, 1), (2, 3)]),
        TagExample(["a", "b"], ["O", "I-X"], "t:4", "a b", [(0, 1), (2, 3)]),
        TagExample(["a", "b"], ["O"], "t:7", "a b", [(0, 1), (2, 3)]),
        TagExample(["a"], ["B-X"], "t:9", "a", [(0, 1)]),
    ]
    found = check_examples(train, [TagExample(["q"], ["B-Y"], "d:1", "q", [(0, 1)])], kind="tag")
    assert found.scheme == "bio"
    assert found.labels["O"] == {"train": 2, "dev": 0}
    assert found.problems == [
        Problem("words and tags differ in number (train)", 1, "t:7", True),
        Problem("tags that BIO forbids (train)", 1, "t:4"),
        Problem("the label 'B-Y' is not in the training data", 1, "d:1"),
    ]


def test_answers() -> None:
    train = [
        AnswerExample("1", "?", "a b", [Answer("a", 0)], False, "t 1"),
        AnswerExample("2", "?", "c d", [], True, "t 2"),
        AnswerExample("3", "?", "e f", [], False, "t 3"),
    ]
    found = check_examples(train, kind="answer")
    assert found.labels == {"answer": {"train": 1}, "no answer": {"train": 1}}
    assert found.problems == [Problem("has no label", 1, "t 3", True)]


class TestTable:
    def test_fits_on_a_screen(self) -> None:
        labels = {
            f"一个很长的标签名称一个很长的标签名称一个很长的标签名称{n}": {"train": 10**6, "dev": 3} for n in range(40)
        }
        where = "a/very/long/path/with many words " * 5
        check = Check(
            *("classify", {"train": 4 * 10**7, "dev": 3}, labels),
            *({part: [1, 2, 3, 4, 5, 10**6] for part in ("train", "dev")} for _ in range(2)),
            [Problem("something is wrong here", 3, where, True), Problem("空", 1, "x")],
            "bio",
        )
        lines = check_lines(check)
        assert max(map(_screen_width, lines)) <= 80
        assert "… 10 more labels" in "\n".join(lines)
        assert "tags are BIO" in lines

    def test_says_what_was_found(self) -> None:
        shown = "\n".join(check_lines(check_examples(texts(("x y", "good"), ("z", "bad"), ("", "good")))))
        assert re.search(r"^classify +train$", shown, re.M)
        assert re.search(r"^examples +3$", shown, re.M)
        assert re.search(r"^  good +2$", shown, re.M)
        assert re.search(r"^  train, characters +0 +0 +1 +1 +1 +3$", shown, re.M)
        assert "! 1 × empty text, first at train.tsv:3" in shown
        assert "no problems found" in "\n".join(check_lines(check_examples(texts(("x", "a"), ("y", "b")))))

    def test_nothing_at_all(self) -> None:
        assert "no problems found" in check_lines(check_examples([], kind="answer"))
