"""Tasks as scikit-learn's estimators: its conventions, and what it builds from estimators."""

import json
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_no_attributes_set_in_init, check_parameters_default_constructible

import firth
from firth.core.errors import FirthError
from firth.core.run import Run
from firth.data.labelled import TextExample
from firth.serve.models import load_models
from task_text import pairs, tagged, texts

SMALL = {"body_dim": 8}
TEXTS = [one.text for one in texts(24)]
LABELS = [str(one.label) for one in texts(24)]


def classifier(**more: Any) -> firth.Classifier:
    return firth.Classifier(epochs=8, learning_rate=0.02, batch_size=8, settings=SMALL, **more)


def test_classes() -> None:
    model = classifier()
    assert model.fit(TEXTS, LABELS) is model
    assert model.classes_.tolist() == ["en", "zh"]
    found = model.predict(TEXTS)
    assert found.tolist() == LABELS
    table = model.predict_proba(TEXTS)
    assert table.shape == (24, 2)
    np.testing.assert_allclose(table.sum(1), 1, atol=1e-5)
    assert model.classes_[table.argmax(1)].tolist() == found.tolist()
    assert model.score(TEXTS, LABELS) == 1.0
    assert model.dev_scores_ == {}  # too few examples to set some aside
    assert model.predict([]).tolist() == []


@pytest.mark.parametrize("names", [[10, 2], [True, False], [-1, 1]])
def test_labels_of_any_kind_come_back_as_they_are(names: list[Any]) -> None:
    labels = [names[label == "zh"] for label in LABELS]
    model = classifier().fit(np.asarray(TEXTS, object), np.asarray(labels))
    assert model.classes_.tolist() == sorted(names)
    assert model.predict(TEXTS).tolist() == labels


def test_examples_are_set_aside() -> None:
    some = texts(60)
    model = classifier(dev_share=0.4).fit([one.text for one in some], [one.label for one in some])
    assert model.dev_scores_["accuracy"] == 1.0
    rare = [*(one.label for one in some[:-1]), "once"]  # wherever it lands, it is learned from
    for seed in range(3):
        train, dev = classifier(seed=seed, dev_share=0.9)._split(
            [TextExample(one.text, None, label) for one, label in zip(some, rare, strict=True)]
        )
        assert len(train) + len(dev) == 60
        assert {one.label for one in dev} <= {one.label for one in train}


def test_pairs(run_folder: Path) -> None:
    some = [(one.text, one.second) for one in pairs(16)]
    model = firth.Classifier(base=str(run_folder), epochs=1, dev_share=0).fit(
        some, [str(one.label) for one in pairs(16)]
    )
    assert model.predict_proba(some[:3]).shape == (3, 2)
    with pytest.raises(FirthError, match="pairs of texts"):
        model.predict(["alone"])


def test_conventions() -> None:
    for kind in (firth.Classifier, firth.Tagger):
        check_parameters_default_constructible(kind.__name__, kind())
        check_no_attributes_set_in_init(kind.__name__, kind())
    model = classifier(seed=3)
    assert model.get_params()["seed"] == 3
    assert model.set_params(seed=4).seed == 4
    before = dict(model.get_params())
    copy = clone(model.fit(TEXTS, LABELS))
    assert model.get_params() == before  # fit changes no argument
    assert copy.get_params() == before
    assert not hasattr(copy, "model_")
    assert "seed=4" in repr(model)
    with pytest.raises(NotFittedError):
        copy.predict(TEXTS)
    with pytest.raises(NotFittedError):
        copy.predict([])
    with pytest.raises(NotFittedError):
        firth.Tagger().predict([["a"]])


def test_fitting_again_forgets_and_repeats() -> None:
    model = classifier()
    first = model.fit(TEXTS, LABELS).predict_proba(TEXTS)
    model.fit(["one two", "three four"] * 6, ["x", "y"] * 6)
    assert model.classes_.tolist() == ["x", "y"]
    np.testing.assert_array_equal(model.fit(TEXTS, LABELS).predict_proba(TEXTS), first)
    order = [5, 0, 11]
    np.testing.assert_allclose(model.predict_proba([TEXTS[number] for number in order]), first[order], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"classes": None}, "setting 'classes' cannot be None"),
        ({"classes": ["a"]}, "1 classes with 2 names"),
        ({"dtype": "<i8"}, "the classes are not of the type '<i8'"),
        ({"dtype": "nonsense"}, "the classes are not of the type 'nonsense'"),
        ({"seconds": "soon"}, "setting 'seconds' cannot be 'soon'"),
        ({"parameters": {"colour": 1}}, "Classifier has no parameter 'colour'"),
        ({"more": 1}, "unknown setting 'more'"),
        ([1], "not an object with names"),
        ("{", "estimator.json"),
    ],
)
def test_a_damaged_file_is_said(change: object, said: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    firth.Classifier(epochs=1, settings=SMALL).fit(TEXTS, LABELS).save(folder)
    path = folder / "estimator.json"
    if isinstance(change, dict):
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    else:
        path.write_text(change if isinstance(change, str) else json.dumps(change), encoding="utf-8")
    with pytest.raises(firth.FirthError, match=re.escape(said)):
        firth.Classifier.load(folder)


def test_what_scikit_learn_builds() -> None:
    assert cross_val_score(classifier(), TEXTS, LABELS, cv=2, error_score="raise").mean() > 0.8
    lower = FunctionTransformer(lambda some: [text.lower() for text in some])
    road = Pipeline([("lower", lower), ("classify", classifier())])
    assert road.fit(TEXTS, LABELS).score(TEXTS, LABELS) > 0.8
    grid = GridSearchCV(classifier(), {"learning_rate": [1e-6, 0.02]}, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert grid.best_params_ == {"learning_rate": 0.02}
    assert grid.predict(TEXTS).shape == (24,)


def test_tags() -> None:
    words = [one.words for one in tagged(24)]
    tags = [list(one.tags or ()) for one in tagged(24)]
    model = firth.Tagger(epochs=10, learning_rate=0.02, batch_size=8, settings={**SMALL, "crf": True}).fit(words, tags)
    assert model.predict(words) == tags
    assert model.score(words, tags) == 1.0
    assert model.classes_.tolist() == ["B-OBJ", "B-PER", "I-PER", "O"]
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("given", "labels", "said"),
    [
        (TEXTS, LABELS[:-1], "24 texts but 23 labels"),
        ("one text", ["a"], "a list of strings"),
        ([1, 2], ["a", "b"], "text 1 is neither a string nor a pair"),
        (["a", ("b", "c")], ["x", "y"], "some texts are pairs"),
        (["a", "b"], ["x", "x"], "only one class"),
        ([], [], "no texts"),
    ],
)
def test_mistakes(given: Any, labels: list[str], said: str) -> None:
    with pytest.raises(FirthError, match=said):
        firth.Classifier().fit(given, labels)


def test_more_mistakes() -> None:
    with pytest.raises(FirthError, match="did you mean 'body_dim'"):
        firth.Classifier(settings={"body_dimm": 3}).fit(TEXTS, LABELS)
    with pytest.raises(FirthError, match="dev_share is 1"):
        firth.Classifier(dev_share=1).fit(TEXTS, LABELS)
    with pytest.raises(FirthError, match="words and tags differ"):
        firth.Tagger().fit([["a", "b"]], [["O"]])
    with pytest.raises(FirthError, match="a list of words here"):
        firth.Tagger().fit(["a b"], [["O", "O"]])


def test_a_setting_that_would_do_nothing() -> None:
    with pytest.raises(FirthError, match="adapt_epochs is for"):
        firth.Classifier(settings={"adapt_epochs": 1}).fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def fitted() -> firth.Classifier:
    return classifier().fit(TEXTS, LABELS)


def unpickled(model: Any) -> Any:
    """Through bytes in which nothing but the estimator itself is named."""
    stored = pickle.dumps(model)
    named = [str(word) for _, word, _ in pickletools.genops(stored) if isinstance(word, str) and "." in word[:40]]
    assert not [word for word in named if word.startswith(("torch", "firth.tasks", "firth.models"))]
    return pickle.loads(stored)


def test_saved_and_loaded(fitted: firth.Classifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    assert (tmp_path / "run" / "README.md").read_text(encoding="utf-8").startswith("# run\n")
    again = firth.Classifier.load(tmp_path / "run")
    assert again.get_params() == fitted.get_params()
    assert again.classes_.tolist() == ["en", "zh"]
    np.testing.assert_array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    with pytest.raises(FirthError, match="exists already"):
        again.save(tmp_path / "run")
    again.save(tmp_path / "run", overwrite=True)
    assert Run.open(tmp_path / "run").record.finished
    assert [one["label"] for one in firth.load(tmp_path / "run").predict(TEXTS)] == LABELS
    assert load_models([tmp_path / "run"]).by_name["run"].can("predict")
    with pytest.raises(FirthError, match=r"not a run of this task \(tag\)"):
        firth.Tagger.load(tmp_path / "run")


@pytest.mark.parametrize("names", [[10, 2], [True, False], [0.5, 1.5]])
def test_classes_of_any_kind_are_saved(names: list[Any], tmp_path: Path) -> None:
    model = classifier().fit(TEXTS, [names[label == "zh"] for label in LABELS])
    model.save(tmp_path / "run")
    for again in (firth.Classifier.load(tmp_path / "run"), unpickled(model)):
        assert again.classes_.dtype == model.classes_.dtype
        assert again.predict(TEXTS).tolist() == model.predict(TEXTS).tolist()
    assert firth.load(tmp_path / "run").predict(TEXTS[:1])[0]["label"] == str(names[LABELS[0] == "zh"])


def test_a_run_of_finetune_is_an_estimator(run_folder: Path, tmp_path: Path) -> None:
    rows = [f"{text}\t{label}\n" for text, label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    firth.finetune("classify", base=run_folder, train=tmp_path / "train.tsv", out=tmp_path / "run", epochs=1)
    model = firth.Classifier.load(tmp_path / "run")
    found = [one["label"] for one in firth.load(tmp_path / "run").predict(TEXTS)]
    assert model.predict(TEXTS).tolist() == found


@pytest.mark.parametrize("more", [{}, {"layers": "mix"}, {"tune": False}])
def test_pickles_hold_the_base(more: dict[str, Any], run_folder: Path, tmp_path: Path) -> None:
    """Whether its weights are in the published directory, in the task's own file, or in the copy of the base."""
    model = firth.Classifier(base=str(run_folder), epochs=1, dev_share=0, settings=more).fit(TEXTS, LABELS)
    again = unpickled(unpickled(model))
    np.testing.assert_array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))
    again.save(tmp_path / "run")
    last = firth.Classifier.load(tmp_path / "run")
    np.testing.assert_array_equal(last.predict_proba(TEXTS), model.predict_proba(TEXTS))


def test_pickles(fitted: firth.Classifier, tmp_path: Path) -> None:
    assert unpickled(classifier(seed=7)).get_params() == classifier(seed=7).get_params()
    assert not hasattr(unpickled(classifier()), "model_")
    joblib.dump(fitted, tmp_path / "model.joblib")
    np.testing.assert_array_equal(
        joblib.load(tmp_path / "model.joblib").predict_proba(TEXTS), fitted.predict_proba(TEXTS)
    )
    state = fitted.__getstate__()
    state["files"]["../outside"] = b""
    with pytest.raises(FirthError, match="outside of its folder"):
        classifier().__setstate__(state)


def test_a_tagger_is_saved(tmp_path: Path) -> None:
    words = [one.words for one in tagged(24)]
    tags = [list(one.tags or ()) for one in tagged(24)]
    model = firth.Tagger(epochs=2, learning_rate=0.02, batch_size=8, settings=SMALL).fit(words, tags)
    model.save(tmp_path / "run")
    for again in (firth.Tagger.load(tmp_path / "run"), unpickled(model)):
        assert again.predict(words) == model.predict(words)
        assert again.score(words, tags) == model.score(words, tags)
        assert again.classes_.tolist() == model.classes_.tolist()


def test_what_cannot_be_saved(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        classifier().save(tmp_path / "run")
    model = firth.Classifier(base=str(run_folder), epochs=1, dev_share=0, settings={"layers": "mix"})
    model.fit(TEXTS, LABELS)._base_path = tmp_path / "gone"
    with pytest.raises(FirthError, match="no longer exists"):
        model.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()
