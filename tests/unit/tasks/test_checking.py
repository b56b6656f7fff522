"""The look at data before training, and how it is shown."""

import random
import re

import numpy as np
import pytest

from firth.core.errors import FirthError
from firth.data.labelled import Answer, AnswerExample, TagExample, TextExample
from firth.tasks.checking import Check, Problem, _screen_width, check_examples, check_lines
from firth.tasks.config import TaskConfig
from firth.tasks.judging import suspect_labels, suspects_of
from firth.tasks.scores import normalised, wrong_chances
from firth.tasks.suspects import find_suspects


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
        Problem("no label (train)", 1, "train.tsv:3", True),
        Problem("empty text (train)", 1, "train.tsv:2"),
        Problem("the label 'c' is not in the training data", 1, "dev.tsv:1", True),
        Problem("the same text with another label before", 1, "train.tsv:4"),
        Problem("dev examples that are also in train", 1, "dev.tsv:1"),
    ]
    with pytest.raises(FirthError, match=r"train\.tsv:3: no label \(train\) \(1 in all\)"):
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
        Problem("'b', the rarest of unbalanced labels", 3, "train.tsv:13"),
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


def test_several_labels_in_a_cell_are_seen() -> None:
    names = ["news", "sport", "art", "news;sport", "art; news"] * 4
    problems = check_examples(texts(*((f"text {number}", name) for number, name in enumerate(names)))).problems
    (found,) = [one for one in problems if "made of others" in one.what]
    assert found.count == 2
    assert '--label-separator ";"' in found.remedy
    for name, seen in (("news;sport", 1), ("news/sport", 0), ("news;weather", 0)):  # one such label
        problems = check_examples(texts(*((f"{n}", one) for n, one in enumerate(["news", "sport", name] * 5)))).problems
        assert len([one for one in problems if "made of others" in one.what]) == seen
    plain = ["news", "sport", "rock/pop", "and/or"] * 5
    problems = check_examples(texts(*((f"text {number}", name) for number, name in enumerate(plain)))).problems
    assert not [one for one in problems if "made of others" in one.what]


def test_labels_that_differ_in_capitals_are_seen() -> None:
    names = ["Good", "good", "bad", "not bad", "good"] * 3
    problems = check_examples(texts(*((f"text {number}", name) for number, name in enumerate(names)))).problems
    (found,) = [one for one in problems if "capitals" in one.what]
    assert found.what.endswith("'Good' and 'good'")
    assert (found.count, found.first) == (2, "train.tsv:1")


def test_a_label_for_every_example_is_refused() -> None:
    """A column of numbers was taken for the labels."""
    check = check_examples([TextExample(f"text {number}", None, str(number)) for number in range(12)])
    assert any("name the column of the labels with --label" in one.remedy for one in check.problems)
    with pytest.raises(FirthError, match="every example has a label of its own"):
        check.refuse()


def test_wrong_labels_are_told_from_hard_texts() -> None:
    """Labels drawn from the probabilities that are given: none is wrong, however unlikely some are. With a share of other
    labels at random the share is found again, and so many are suspected as are wrong."""
    draws = np.random.default_rng(0)
    logs = normalised(2.5 * draws.normal(size=(3000, 4)))
    targets = np.asarray([draws.choice(4, p=np.exp(row)) for row in logs])
    wrong, share = wrong_chances(logs, targets)
    assert share < 0.02
    assert (wrong >= 0.5).sum() < 20
    planted = draws.random(3000) < 0.2
    noisy = np.where(planted, (targets + draws.integers(1, 4, 3000)) % 4, targets)
    wrong, share = wrong_chances(logs, noisy)
    assert share == pytest.approx(0.2, abs=0.04)
    assert wrong[planted].mean() > 2 * wrong[~planted].mean()
    assert wrong.mean() == pytest.approx(planted.mean(), abs=0.04)  # the chances are shares


def test_the_chance_of_a_wrong_label_by_hand() -> None:
    """e / (K - 1) of each other label against 1 - e of its own, at the e that is found."""
    outside = np.asarray([[0.99, 0.007, 0.003]] * 60 + [[0.002, 0.99, 0.008], [0.1, 0.7, 0.2]])
    targets = np.zeros(62, np.int64)
    found = suspect_labels(outside, targets, ["a", "b", "c"])
    assert [(one.number, one.likely) for one in found][:1] == [(60, "b")]
    assert all(one.wrong_prob >= 0.5 for one in found)
    wrong, share = wrong_chances(np.log(outside), targets)
    assert wrong[0] < 0.01 < wrong[61] < wrong[60]
    assert 0.01 < share < 0.1


def test_labels_of_one_or_two_different_texts_are_not_suspected() -> None:
    """Nothing is known of a label outside of the folds where its texts are."""
    targets = np.asarray([0] * 200 + [1] * 3 + [2] * 3)
    outside = np.full((206, 3), 0.002)
    outside[np.arange(206), targets % 2] = 0.996
    outside[200:203] = [0.996, 0.002, 0.002]
    copies = [*range(204), 204, 204]  # the third label has two different texts
    assert {one.number for one in suspect_labels(outside, targets, ["a", "b", "c"], copies)} == {200, 201, 202}
    assert len(suspect_labels(outside, targets, ["a", "b", "c"])) == 6
    again = [TextExample(["good", "bad"][number % 2], None, "ab"[number % 2]) for number in range(40)]
    assert find_suspects(again) == []


def test_suspects_of_a_training_keep_their_numbers() -> None:
    examples = [TextExample(f"text {number}", None, "ab"[number % 2]) for number in range(60)]
    examples[7] = TextExample("text 7", None, "a")
    found = {
        number: {"label": "ab"[number % 2], "probabilities": {"ab"[number % 2]: 0.95, "ba"[number % 2]: 0.05}}
        for number in range(1, 60)
    }
    config = TaskConfig(task="classify", labels=("a", "b"))
    assert [(one.number, one.likely) for one in suspects_of(config, examples, found)] == [(7, "b")]
    assert suspects_of(config, examples, {}) == []


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
    assert found.problems == [Problem("no label", 1, "t 3", True)]


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


@pytest.mark.parametrize("mark", [";", "、", "；", "，"])
def test_labels_joined_by_any_mark_are_noticed_before_texts_are_left_out(mark: str) -> None:
    """A text with none of several labels is no mistake; --skip-bad would drop it."""
    names = ["服务", "价格", "质量", f"服务{mark}价格", f"价格{mark}质量", None] * 4
    found = check_examples([TextExample(f"text {number}", None, name) for number, name in enumerate(names)])
    first, second = found.problems[:2]
    assert first.what.startswith("labels such as")
    assert f'--label-separator "{mark}"' in first.remedy
    assert second.what == "no label"
    assert "--skip-bad" not in second.remedy
    assert f'--label-separator "{mark}"' in second.remedy
