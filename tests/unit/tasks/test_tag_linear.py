"""Tags by linear models, over counts and over a frozen base: fitted, saved, loaded and chosen like any other candidate."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

import firth
from firth.core.errors import FirthError
from firth.core.files import load_tensors, save_tensors
from firth.core.run import Run
from firth.models.counts.model import WordCounts, word_features, word_shape
from firth.tasks import candidates as candidates_file
from firth.tasks import tag_linear
from firth.tasks.config import TaskConfig
from firth.tasks.counts import head_model
from firth.tasks.data import build_data
from firth.tasks.judging import Judge
from firth.tasks.linear import fit_logistic, softmax, stratified_folds
from firth.tasks.tag_linear import CountsTagger, fit_frozen_tags, fit_tag_counts, join_equal, word_vectors
from task_text import files, tagged

TAGS = ("B-OBJ", "B-PER", "I-PER", "O")


def test_what_is_seen_of_a_word() -> None:
    assert word_shape("McDonald's") == "XxXxx'x"
    assert word_shape("1996-08-22") == "00-00-00"
    first, second = word_features(["The", "cat"])
    assert {"wThe", "lthe", "hXxx", "-<", "--<<", "+cat", "++>", "athe cat", "pt", "pth", "se", "she"} <= set(first)
    assert {"wcat", "-the", "+>", "bthe cat", "HXxx xx >", "pca", "sat"} <= set(second)
    assert not any(one.startswith(("p", "s")) for one in word_features(["书"])[0])
    assert "T我 看 书" in word_features(["我", "看", "书"])[1]


def test_rows_are_the_features_that_are_known() -> None:
    base = WordCounts.of_sentences([["the", "cat"], ["a", "dog"]])
    found = base.matrix([["the", "cat"], [], ["the", "fish"]])
    assert found.shape == (4, base.dim)
    assert found[0].sum() == len(set(word_features(["the", "cat"])[0]))
    assert 0 < found[3].sum() < found[2].sum() < found[0].sum()
    assert base.knows("The")
    assert not base.knows("fish")
    assert WordCounts(np.zeros(0, np.int64)).matrix([["a"]]).shape == (1, 0)


def test_probabilities_are_scikit_learns(tmp_path: Path) -> None:
    """Where no rule of the scheme forbids the best tag."""
    examples = tagged(30)
    base = WordCounts.of_sentences([example.words for example in examples])
    peer = LogisticRegression(C=30).fit(
        base.matrix([example.words for example in examples]),
        [tag for example in examples for tag in example.tags or ()],
    )
    assert tuple(peer.classes_) == TAGS
    model = CountsTagger(TaskConfig(task="tag", labels=TAGS, scheme="bio"), base, peer.coef_, peer.intercept_)
    model.save(tmp_path, None)
    asked = ["the", "old", "doctor", "lost", "a", "boat"]
    (found,) = firth.load(tmp_path).predict([asked])
    chances = peer.predict_proba(base.matrix([asked]))
    assert found["tags"] == [TAGS[place] for place in chances.argmax(1)]
    assert [one["type"] for one in found["entities"]] == ["PER", "OBJ"]
    assert found["entities"][1]["probability"] == pytest.approx(chances[5].max(), abs=1e-5)
    assert found["unknown"] == pytest.approx(1 / 6, abs=1e-4)


def test_the_scheme_is_kept() -> None:
    """I-PER cannot begin, whatever the words say."""
    config = TaskConfig(task="tag", labels=TAGS, scheme="bio")
    chances = np.asarray([[0.1, 0.2, 0.6, 0.1], [0.05, 0.1, 0.8, 0.05]])
    found = tag_linear._as_outputs(chances, np.arange(2), tag_linear.tag_rules(config))
    np.testing.assert_allclose(found, [[0, 1, 0.2], [1, 2, 0.8]])
    plain = tag_linear._as_outputs(chances, np.arange(2), None)
    assert plain[:, 1].tolist() == [2, 2]


@pytest.mark.parametrize("sample", [5000, 60])
def test_folds_are_of_sentences(sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a sentence comes from a model that has not seen it; with many words one fold is judged."""
    monkeypatch.setattr(tag_linear, "_SAMPLE", sample)
    monkeypatch.setattr(tag_linear, "_ALL_FOLDS", sample)
    data = build_data("tag", tagged(40), [])
    config = data.configured(TaskConfig(task="tag"))
    folds = stratified_folds([0] * 40, 5, 0)
    outside = fit_tag_counts(config, data, folds, True)[1].outside
    assert sorted(outside) == (list(range(40)) if sample > 240 else np.flatnonzero(folds == 0).tolist())
    number = next(iter(outside))
    assert outside[number].shape == (6, 3)
    inside = build_data("tag", [one for place, one in enumerate(data.train) if folds[place] != folds[number]], [])
    monkeypatch.setattr(tag_linear, "_STRENGTHS", (30.0,))
    again = fit_tag_counts(config, data, folds, True)[1].outside
    other, _ = fit_tag_counts(config, inside, folds[folds != folds[number]], False)
    (alone,) = other.predict_examples([data.train[number]])
    assert alone["tags"] == [config.labels[int(tag)] for _, tag, _ in again[number]]
    chances = [entity["probability"] for entity in alone["entities"]]
    assert chances[-1] == pytest.approx(again[number][-1, 2], abs=0.05)  # up to the scale of the rows


@pytest.mark.parametrize("layers", ["last", "all"])
def test_the_head_is_the_linear_model(layers: str, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the vectors of the first piece of each word."""
    if layers == "last":
        monkeypatch.setattr(tag_linear, "_MOST_NUMBERS", 20_000)
    data = build_data("tag", tagged(30), [])
    base, config = firth.load(run_folder), data.configured(TaskConfig(task="tag"))
    folds = stratified_folds([0] * 30, 5, 0)
    found = fit_frozen_tags(config, base, data, folds, True)
    model = head_model(found.config, base, False, found.head)
    features, _ = word_vectors(model, data.train, np.arange(30))  # type: ignore[arg-type]
    assert features.shape == (180, base.dim * (1 if found.config.layers == "last" else base.num_layers + 1))
    wanted = softmax(features @ found.head.weights.T + found.head.bias)
    predictions = model.predict_examples(data.train)
    tags = [tag for one in predictions for tag in one["tags"]]
    assert tags == [config.labels[place] for place in wanted.argmax(1)]
    assert set(found.outside) == set(range(30))
    same = found.head_of(np.ones(30, bool))
    np.testing.assert_allclose(softmax(features @ same.weights.T + same.bias), wanted, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("best", ["counts", "linear", "tuned"])
@pytest.mark.parametrize("dev", [True, False])
def test_what_is_chosen_is_saved(
    best: str, dev: bool, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tagger has three candidates; the best is written, loaded, evaluated and predicts the same."""
    monkeypatch.setattr(candidates_file, "_ENOUGH", 2.0)
    monkeypatch.setattr(Judge, "leader", lambda self, tried: [one.name for one in tried].index(best))
    paths = files(tmp_path, "tag", 24, 8)
    if not dev:
        del paths["dev"]
    trained = firth.finetune("tag", base=run_folder, **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    record = Run.open(tmp_path / "run").record
    assert record.task is not None
    assert record.task.chosen is not None
    assert [one.name for one in record.task.chosen.candidates] == ["counts", "linear", "tuned"]
    assert [one.name for one in record.task.chosen.candidates if one.chosen] == [best]
    assert record.task.chosen.by_label["PER"].true > 0
    loaded = firth.load(tmp_path / "run")
    assert isinstance(loaded, CountsTagger) == (best == "counts")
    asked = [["the", "old", "nurse", "found", "a", "gate"], [], "The old nurse!"]
    assert loaded.predict(asked) == trained.predict(asked)  # type: ignore[arg-type]
    if dev:
        found = firth.evaluate(tmp_path / "run", data=paths["dev"])
        assert found["f1"] == pytest.approx(record.metrics["f1"])


def test_a_tagger_is_never_below_its_candidates(run_folder: Path, tmp_path: Path) -> None:
    paths = files(tmp_path, "tag", 30, 12)
    firth.finetune("tag", base=run_folder, **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    record = Run.open(tmp_path / "run").record
    assert record.task is not None
    assert record.task.chosen is not None
    scores = [one.score for one in record.task.chosen.candidates if one.score is not None]
    assert record.metrics["f1"] == pytest.approx(max(scores))


def test_a_damaged_tagger(tmp_path: Path) -> None:
    paths = files(tmp_path, "tag", 20, 8)
    firth.finetune("tag", base="counts", **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    path = tmp_path / "run" / "counts.safetensors"
    save_tensors(path, {**load_tensors(path), "bias": load_tensors(path)["bias"][:1]})
    with pytest.raises(FirthError, match="does not fit its settings; fine-tune again"):
        firth.load(tmp_path / "run")


def test_equal_columns_are_joined_without_another_result() -> None:
    """As they are, and joined: the same weights, of equal columns equal ones."""
    random = np.random.default_rng(0)
    plain = (random.random((60, 9)) < 0.3).astype(np.float64)
    features = csr_matrix(plain[:, [0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 3, 7, 1]])
    joined, back = join_equal(features)
    assert joined.shape == (60, 9)
    targets, folds = (plain @ random.normal(size=(9, 3))).argmax(1), np.arange(60) % 5
    alone = fit_logistic(features, targets, 3, folds, strengths=(3.0,), turned=False)
    together = fit_logistic(joined, targets, 3, folds, strengths=(3.0,), turned=False)
    weights = (back @ together.weights.T).T
    np.testing.assert_allclose(weights, alone.weights, atol=1e-3)
    np.testing.assert_allclose(weights[:, 3], weights[:, 10])
    np.testing.assert_allclose(features @ weights.T, joined @ together.weights.T, atol=1e-9)
    np.testing.assert_allclose(together.outside, alone.outside, atol=0.02)
