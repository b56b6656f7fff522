"""Floors against scikit-learn by hand, and worked examples."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from firth.data.labelled import AnswerExample, TagExample, TextExample
from firth.evaluation.floors import TextFeatures, floors_of, tfidf_logistic, tfidf_ridge, word_tags, words_and_pairs
from task_text import pairs, questions, scores, tagged, texts


def fitted(task: str, train: list[object], dev: list[object]) -> dict[str, list[dict[str, object]]]:
    return {name: fit().predict(dev) for name, fit in floors_of(task, train, dev)}


def test_majority() -> None:
    train = [TextExample("a", None, label) for label in ("x", "y", "y")]
    found = fitted("classify", [*train], [*train])
    assert [guess["label"] for guess in found["majority"]] == ["y"] * 3
    even = [TextExample("a", None, label) for label in ("y", "x")]
    assert fitted("classify", [*even], [*even])["majority"][0]["label"] == "x"  # the first by name


def test_words_and_pairs() -> None:
    assert words_and_pairs("The old Boat") == ["the", "old", "boat", "the old", "old boat"]
    assert words_and_pairs("老师看见了书")[:2] == ["老师", "看见"]
    assert words_and_pairs("") == []


def test_logistic_regression_by_hand() -> None:
    train = [TextExample(f"word{n % 7} good thing {n % 3}", None, "a" if n % 7 < 4 else "b") for n in range(40)]
    dev = [TextExample(f"word{n % 7} thing", None, "a" if n % 7 < 4 else "b") for n in range(14)]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True)
    inputs = vectorizer.fit_transform([example.text for example in train])
    labels = [str(example.label) for example in train]
    asked = vectorizer.transform([example.text for example in dev])
    models = [LogisticRegression(C=strength, max_iter=1000).fit(inputs, labels) for strength in (0.3, 1, 3, 10, 30)]
    best = max(models, key=lambda model: model.score(asked, [str(example.label) for example in dev]))
    floor = tfidf_logistic(train, dev)
    found = floor.predict(dev)
    assert [guess["label"] for guess in found] == best.predict(asked).tolist()
    wanted = best.predict_proba(asked)
    np.testing.assert_allclose([list(guess["probabilities"].values()) for guess in found], wanted, atol=1e-6)
    assert floor.num_parameters == best.coef_.size + 1


def test_pairs_have_both_texts_and_what_they_share() -> None:
    train = pairs(24)
    features = TextFeatures(train)
    matrix = features.matrix(train).toarray()
    width = (matrix.shape[1] - 1) // 4
    first, second = (
        features.vectorizer.transform([getattr(example, side) for example in train]).toarray()
        for side in ("text", "second")
    )
    np.testing.assert_allclose(matrix[:, :width], first)
    np.testing.assert_allclose(matrix[:, width : 2 * width], second)
    np.testing.assert_allclose(matrix[:, 2 * width : 3 * width], np.abs(first - second))
    np.testing.assert_allclose(matrix[:, -1], (first * second).sum(1))
    found = tfidf_logistic(train, train).predict(train)
    assert np.mean([guess["label"] == example.label for guess, example in zip(found, train, strict=True)]) > 0.9


def test_scores() -> None:
    train = scores(24)
    found = fitted("score", [*train], [*train])
    assert found["mean"][0]["score"] == pytest.approx(1.5)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True)
    inputs = vectorizer.fit_transform([example.text for example in train])
    targets = [float(example.label or 0) for example in train]
    best = max(
        (Ridge(alpha=1 / c).fit(inputs, targets) for c in (0.3, 1, 3, 10, 30)), key=lambda m: m.score(inputs, targets)
    )
    wanted = best.predict(inputs)
    np.testing.assert_allclose(
        [guess["score"] for guess in tfidf_ridge(train, train).predict(train)], wanted, atol=1e-6
    )


def test_tags_of_words() -> None:
    train = [TagExample(["The", "map", "map"], ["D", "N", "V"]), TagExample(["map", "the", "x"], ["N", "D", "D"])]
    found = word_tags(train).predict([TagExample(["MAP", "THE", "new"]), TagExample([])])
    assert found == [{"tags": ["N", "D", "D"]}, {"tags": []}]
    again = fitted("tag", [*tagged(9)], [*tagged(3)])
    assert again["tag of the word"][0]["tags"] == tagged(3)[0].tags
    assert set(again["majority"][0]["tags"]) == {"O"}  # type: ignore[call-overload]


def test_answers() -> None:
    passage = "Rain fell on Monday. The nurse found a green map near the old gate. A king slept."
    example = AnswerExample("1", "Where did the nurse find a map?", passage)
    found = fitted(
        "answer",
        [*questions(9)],
        [example, AnswerExample("2", "什么时候下雨？", "星期一下雨。王老师睡觉。"), AnswerExample("3", "?", "")],
    )
    assert found["nearest sentence"][0]["answer"] == "old gate"
    assert found["nearest sentence"][1]["answer"] == "星期一"
    assert [guess["answer"] for guess in found["no answer"]] == ["", "", ""]
    assert "no answer" not in dict(floors_of("answer", questions(2), []))  # every question of these has one


def test_texts_without_words() -> None:
    train = [TextExample("", None, "a"), TextExample(" ", None, "b")]
    assert {guess["label"] for guess in tfidf_logistic(train, train).predict(train)} <= {"a", "b"}
    assert tfidf_logistic(texts(12), texts(6, 1)).predict(texts(2))[0]["label"] == "en"
