"""The choice among counts, a linear model on the frozen base, and the tuned base."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firth
from firth.core.errors import FirthError
from firth.core.run import CandidateResult, Run, TaskResult
from firth.core.types import Prediction
from firth.models.shared.model import Model
from firth.models.shared.static import ScratchModel
from firth.tasks import candidates as candidates_file
from firth.tasks import counts as counts_file
from firth.tasks.candidates import fit_best
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.counts import (
    CountsTask,
    _layer_columns,
    fit_counts,
    fit_frozen,
    frozen_config,
    head_model,
    text_features,
)
from firth.tasks.data import TaskData, build_data
from firth.tasks.finetune import default_settings, train_model
from firth.tasks.judging import Fitted, Judge, Tried
from firth.tasks.linear import softmax, stratified_folds
from firth.tasks.model import TaskModel, build_model
from firth.tasks.scores import added, fit_weights, normalised, rescaled
from task_text import files, pairs, texts, write, write_vectors


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vectors(tmp_path_factory.mktemp("vectors") / "words.vec")


def result(run: Path) -> TaskResult:
    task = Run.open(run).record.task
    assert task is not None
    assert task.chosen is not None
    return task.chosen


def tried(run: Path) -> dict[str, CandidateResult]:
    return {one.name: one for one in result(run).candidates}


@pytest.mark.parametrize("make", [texts, pairs])
def test_the_head_is_the_linear_model(make: Any, run_folder: Path) -> None:
    """Of features as the network pools them; saved in the network with the standardisation folded in."""
    data = build_data("classify", make(40), [])
    base = firth.load(run_folder)
    config = data.configured(TaskConfig())
    folds = stratified_folds([str(example.label) for example in data.train], 5, 0)
    found = fit_frozen(config, base, data, folds)
    model = head_model(found.config, base, data.pairs, found.head)
    wanted = softmax(text_features(model, data.train) @ found.linear.weights.T + found.linear.bias)
    rows = [[one["probabilities"][label] for label in config.labels] for one in model.predict_examples(data.train)]
    np.testing.assert_allclose(rows, wanted, atol=1e-4)


@pytest.mark.parametrize("make", [texts, pairs])
def test_the_token_layer_alone_may_be_the_best(make: Any, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the layers above it say nothing: they get no weight, nor does what a fold fits."""
    data = build_data("classify", make(60), [])
    base = firth.load(run_folder)
    num_layers, width = base.reader().num_layers, base.reader().dim
    cosines = num_layers if data.pairs else 0
    config = data.configured(TaskConfig())
    labels = np.asarray([config.labels.index(str(one.label)) for one in data.train])
    random = np.random.default_rng(0)
    features = random.normal(size=(60, (4 if data.pairs else 1) * num_layers * width + cosines))
    token_layer = _layer_columns(0, num_layers, width, cosines)
    features[:, token_layer[-width - bool(cosines) :]] += 2 * labels[:, None] - 1.0
    monkeypatch.setattr(counts_file, "text_features", lambda model, examples: features)
    found = fit_frozen(config, base, data, stratified_folds(labels.tolist(), 5, 0))
    assert found.config.layers == "all"
    others = np.setdiff1d(np.arange(features.shape[1]), token_layer)
    for weights in (found.head.weights, found.head_of(np.arange(60) < 50).weights):
        assert weights.shape == (2, features.shape[1])
        assert not weights[:, others].any()
        assert weights[:, token_layer].any()
    outputs = found.outputs_of(found.head_of(np.arange(60) < 50), np.arange(50, 60))
    assert [int(row.argmax()) for row in outputs.values()] == labels[50:].tolist()


@pytest.mark.parametrize("make", [texts, pairs])
def test_where_a_layer_stands_among_all(make: Any, run_folder: Path) -> None:
    data = build_data("classify", make(8), [])
    base, config = firth.load(run_folder), data.configured(TaskConfig())
    num_layers, width = base.reader().num_layers, base.reader().dim
    every, last = (
        text_features(build_model(frozen_config(config, "mean", layers), base, data.pairs), data.train)
        for layers in ("all", "last")
    )
    columns = _layer_columns(num_layers - 1, num_layers, width, num_layers if data.pairs else 0)
    np.testing.assert_allclose(every[:, columns], last, atol=1e-5)


def test_training_goes_on_from_the_head(run_folder: Path, tmp_path: Path) -> None:
    """With hardly any learning rate the tuned model is the linear one."""
    data = build_data("classify", texts(24), [])
    base = firth.load(run_folder)
    config = data.configured(TaskConfig(candidates=("linear", "tuned"), pool="mean", learning_rate=1e-12, epochs=1))
    config = default_settings(config, base, 24, {"learning_rate", "epochs", "pool"})
    found = fit_frozen(config, base, data, stratified_folds([0] * 24, 5, 0))
    frozen = head_model(found.config, base, False, found.head).predict_examples(data.train)
    tuned, _, _ = train_model(config, firth.load(run_folder), data, tmp_path, None, head=found.head)
    for one, other in zip(tuned.predict_examples(data.train), frozen, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-3)


@pytest.mark.parametrize("dev", [True, False])
def test_the_best_is_kept(dev: bool, vectors: Path, tmp_path: Path) -> None:
    """On dev or in cross-validation; the record says what was tried."""
    paths = files(tmp_path, "classify", 60, 20)
    if not dev:
        del paths["dev"]
    firth.finetune("classify", base=vectors, **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    found = tried(tmp_path / "run")
    assert list(found) == ["counts", "linear", "tuned"]
    assert [one.name for one in found.values() if one.chosen] == ["counts"]  # as good as any, and first
    assert found["counts"].score == 1.0
    assert "1.000 is reached without" in found["tuned"].note
    assert result(tmp_path / "run").by_label["zh"].f1 == 1.0
    assert isinstance(firth.load(tmp_path / "run"), CountsTask)


def test_classes_are_chosen_by_calibrated_likelihood() -> None:
    """In cross-validation; half of the examples are right at .5 of certainty, however sure a model says it is."""
    data = build_data("classify", texts(40), [])
    config = data.configured(TaskConfig())
    choice = candidates_file._Choice(config, lambda config: Model(), data, Path(), None, None, None)

    def model(name: str, chance: float, wrong: int) -> Tried:
        labels = [str(example.label) for example in data.train]
        found = {}
        for number, label in enumerate(labels):
            own = 1 - chance if number < wrong else chance
            other = "en" if label == "zh" else "zh"
            guessed = label if own > 0.5 else other
            found[number] = {"label": guessed, "probabilities": {label: own, other: 1 - own}}
        return Tried(name, found, lambda: None)  # type: ignore[arg-type, return-value]

    tried = [model("counts", 0.6, 4), model("linear", 0.999, 8), model("tuned", 0.9, 4)]
    choice.judge.task = Classify(config, ScratchModel([], 1).reader())
    ranks = [choice.judge.rank(one, range(40)) for one in tried]
    assert ranks[0] == pytest.approx(ranks[2], abs=0.02)  # the same once they are calibrated
    assert ranks[1] < ranks[0]
    assert "log-likelihood" in choice.judge.note(tried[0], tried[0])
    fitted = Fitted(_Rescaled(), [], {}, 0.0, {})  # type: ignore[arg-type]
    choice._calibrate(fitted, tried[1])
    assert fitted.calibration is not None
    assert fitted.calibration.factor < 0.5
    assert fitted.calibration.error_after < fitted.calibration.error_before


class _Rescaled:
    def rescale(self, factor: float) -> None:
        assert factor > 0


@pytest.mark.parametrize("make", [texts, pairs])
def test_a_model_is_rescaled_in_its_last_layer(make: Any, run_folder: Path, tmp_path: Path) -> None:
    """Network and counts; probabilities are those of the scores times the factor."""
    data = build_data("classify", make(20), [])
    folds = stratified_folds([str(example.label) for example in data.train], 5, 0)
    config, base = data.configured(TaskConfig()), firth.load(run_folder)
    found = fit_frozen(config, base, data, folds)
    for model in (
        head_model(found.config, base, data.pairs, found.head),
        fit_counts(config, data.train, data.pairs, folds)[0],  # type: ignore[arg-type]
    ):
        before = rescaled(model.predict_examples(data.train), 0.3)
        model.rescale(0.3)
        for one, other in zip(model.predict_examples(data.train), before, strict=True):
            assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("best", ["counts", "linear", "contrastive", "tuned"])
@pytest.mark.parametrize("dev", [True, False])
def test_what_is_chosen_is_saved(
    best: str, dev: bool, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base that was tuned for a candidate that lost leaves no trace in the one that won."""
    monkeypatch.setattr(candidates_file, "_ENOUGH", 2.0)
    monkeypatch.setattr(candidates_file, "_FEW", 10)
    monkeypatch.setattr(Judge, "behind", lambda *_: "")
    monkeypatch.setattr(Judge, "rank", lambda self, one, numbers: 0.5 + (one.name == best) / 4)
    monkeypatch.setattr("firth.tasks.judging.SAYING", 0)
    monkeypatch.setattr(candidates_file._Choice, "_add_counts", lambda *_: None)
    paths = files(tmp_path, "classify", 20, 8)
    if not dev:
        del paths["dev"]
    trained = firth.finetune("classify", base=run_folder, **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    assert [name for name, one in tried(tmp_path / "run").items() if one.chosen] == [best]
    assert isinstance(trained, CountsTask) == (best == "counts")
    if best == "linear":
        assert isinstance(trained, TaskModel)
        text = "The doctor found a map."
        np.testing.assert_array_equal(trained.base.encode(text), firth.load(run_folder).encode(text))
    again = firth.load(tmp_path / "run").predict(["The map.", "老师"])
    assert again == trained.predict(["The map.", "老师"])


def test_who_says_how_to_train_gets_that_training(vectors: Path) -> None:
    base, config = firth.load(vectors), TaskConfig()
    assert default_settings(config, base, 50, {"seed", "max_len"}).candidates == ("counts", "linear", "tuned")
    for name in ("epochs", "learning_rate", "body", "tune", "pool"):
        assert default_settings(config, base, 50, {name}).candidates == ("tuned",)
    given = TaskConfig(candidates=("linear",))
    assert default_settings(given, base, 50, {"epochs", "candidates"}).candidates == ("linear",)


def test_tuning_that_does_not_fit_is_left_out(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates_file, "_LEARNING", 1e6)
    monkeypatch.setattr(candidates_file, "_ENOUGH", 2.0)
    paths = files(tmp_path, "classify", 20, 8)
    firth.finetune("classify", base=run_folder, **paths, out=tmp_path / "run", budget="60s")  # type: ignore[arg-type]
    assert "too long for a budget of 60s" in tried(tmp_path / "run")["tuned"].note


def test_folds_give_mean_and_spread(vectors: Path, tmp_path: Path) -> None:
    """Every example is judged once, by a model that has not seen it, also of a training with given settings."""
    path = write(tmp_path / "train", texts(30))
    firth.finetune("classify", base=vectors, train=path, out=tmp_path / "run", epochs=2, folds=3)
    found = tried(tmp_path / "run")["tuned"]
    assert found.chosen
    assert found.score is not None
    assert found.deviation is not None
    assert sum(one.true for one in result(tmp_path / "run").by_label.values()) == 30
    with pytest.raises(FirthError, match="leave out folds or --dev"):
        firth.finetune("classify", base=vectors, train=path, dev=path, out=tmp_path / "no", folds=3)
    with pytest.raises(FirthError, match="at least 2"):
        firth.finetune("classify", base=vectors, train=path, out=tmp_path / "no", folds=1)


def test_scores_have_candidates_too(vectors: Path, tmp_path: Path) -> None:
    firth.finetune("score", base=vectors, **files(tmp_path, "score", 40, 12), out=tmp_path / "run")  # type: ignore[arg-type]
    found = tried(tmp_path / "run")
    assert found["counts"].score is not None
    assert found["linear"].score is not None
    assert result(tmp_path / "run").score == max(one.score for one in found.values() if one.score is not None)


def test_unbalanced_classes_are_weighted(tmp_path: Path) -> None:
    """Beyond a ratio of three; macro F1 decides, and is given with its interval."""
    some = [one for one in texts(60) if one.label == "en"] + [one for one in texts(60) if one.label == "zh"][:8]
    data = build_data("classify", some, [])
    assert data.configured(TaskConfig()).class_weights is True
    assert data.configured(TaskConfig()).metric == "macro_f1"
    assert data.configured(TaskConfig(class_weights=False)).metric is None
    assert data.configured(TaskConfig(metric="accuracy")).metric == "accuracy"
    assert build_data("classify", texts(60), []).configured(TaskConfig()).class_weights is False
    train, dev = write(tmp_path / "train", some), write(tmp_path / "dev", some[:35])
    firth.finetune("classify", base="counts", train=train, dev=dev, out=tmp_path / "run")
    assert result(tmp_path / "run").metric == "macro_f1"
    interval = result(tmp_path / "run").interval
    assert interval is not None
    assert interval.metric == "macro_f1"


def test_a_class_that_is_never_predicted_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By finetune, evaluate and the report."""
    from firth.cli.main import main

    def blind(config: TaskConfig, scores_NK: Any) -> Any:
        return np.tile([0.9, 0.1], (len(scores_NK), 1))

    monkeypatch.setattr("firth.tasks.counts.outputs_of_scores", blind)
    paths = files(tmp_path, "classify", 20, 10)
    words = ["--train", str(paths["train"]), "--dev", str(paths["dev"]), "--out", str(tmp_path / "run")]
    main(["finetune", "classify", "--base", "counts", *words])
    said = capsys.readouterr().out
    assert "warning: 'zh' is never predicted, but 5 examples have it" in said
    assert "warning: only 10 examples were judged" in said
    assert "zh is never predicted" in (tmp_path / "run" / "report.html").read_text()
    main(["evaluate", str(tmp_path / "run"), "--data", str(paths["dev"])])
    assert "warning: 'zh' is never predicted" in capsys.readouterr().out
    found = firth.evaluate(tmp_path / "run", data=paths["dev"])["by_label"]
    assert found["zh"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "true": 5, "guessed": 0}
    assert found["en"]["recall"] == 1.0


def test_a_choice_without_a_base_on_disk() -> None:
    """As an estimator asks for it: nothing but examples."""
    data = build_data("classify", texts(40), [])
    config = data.configured(TaskConfig(candidates=("counts",)))

    def no_base(config: TaskConfig) -> Model:
        raise AssertionError

    found = fit_best(config, no_base, data, Path())
    assert found.scores == {}
    assert found.by_label["en"].true == 20


def test_random_labels_are_not_believed(vectors: Path, tmp_path: Path) -> None:
    """What cross-validation says of labels that mean nothing is what they are worth."""
    pick = random.Random(0)
    some = [replace(one, label=pick.choice("ab")) for one in texts(120)]
    firth.finetune("classify", base=vectors, train=write(tmp_path / "t", some), out=tmp_path / "run", budget="20s")
    for one in tried(tmp_path / "run").values():
        assert one.score is None or one.score < 0.72


def test_weights_of_added_models_are_the_likeliest() -> None:
    """Against a grid; a model that knows nothing gets hardly any weight."""
    random = np.random.default_rng(0)
    targets = random.integers(3, size=300)
    good, noise = random.normal(size=(300, 3)), 2 * random.normal(size=(300, 3))
    good[np.arange(300), targets] += 2.0
    logs = np.stack([normalised(good), normalised(noise)])
    weights = fit_weights(logs, targets)

    def loss(first: float, second: float) -> float:
        likely = normalised(first * logs[0] + second * logs[1])[np.arange(300), targets].sum()
        return float(sum((np.log(one) + np.log(2)) ** 2 for one in (first, second)) - likely)

    best = min(loss(first, second) for first in np.geomspace(0.05, 5, 60) for second in np.geomspace(0.05, 5, 60))
    assert loss(*weights.tolist()) <= best + 1e-3
    assert weights[1] < 0.1 < 0.5 < weights[0]


def test_added_predictions_by_hand() -> None:
    one: Prediction = {"label": "a", "probabilities": {"a": 0.6, "b": 0.4}}
    other: Prediction = {"label": "b", "probabilities": {"b": 0.8, "a": 0.2}}
    (found,) = added(([one], [other]), (1.0, 1.0))
    assert found["label"] == "b"
    assert found["probabilities"]["b"] == pytest.approx(0.4 * 0.8 / (0.4 * 0.8 + 0.6 * 0.2))


@pytest.mark.parametrize("dev", [True, False])
def test_counts_are_added_where_both_know_something(
    dev: bool, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model that is kept says what both say together; it is the same after loading and after an export."""
    monkeypatch.setattr(candidates_file, "_ENOUGH", 2.0)
    monkeypatch.setattr(candidates_file, "better", lambda gains: True)
    paths = files(tmp_path, "classify", 40, 40)
    asked = [str(example.text) for example in texts(10, seed=1)]
    if not dev:
        del paths["dev"]
    trained = firth.finetune(
        "classify", base=run_folder, **paths, out=tmp_path / "run", candidates=("counts", "linear")
    )  # type: ignore[arg-type]
    assert [name for name, one in tried(tmp_path / "run").items() if one.chosen] == ["counts + linear"]
    assert isinstance(trained, TaskModel)
    assert trained.counts is not None
    together = trained.predict(asked)
    counted, trained.counts = trained.counts.predict(asked), None
    alone = trained.predict(asked)
    for one, first, second in zip(together, alone, counted, strict=True):
        product = {label: chance * second["probabilities"][label] for label, chance in first["probabilities"].items()}
        wanted = {label: value / sum(product.values()) for label, value in product.items()}
        assert one["probabilities"] == pytest.approx(wanted, abs=1e-6)
    found = firth.explain(tmp_path / "run", asked[0])
    assert "counts of n-grams are added" in found.note
    if not dev:
        pytest.importorskip("onnx")
        firth.export(tmp_path / "run", out=tmp_path / "exported", to="onnx")
        for one, other in zip(together, firth.predict(tmp_path / "exported", asked), strict=True):
            assert other["probabilities"] == pytest.approx(one["probabilities"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("num", "folds", "tuned"), [(30, 5, False), (60, 3, True)])
def test_all_candidates_are_judged_in_the_same_folds(
    num: int, folds: int, tuned: bool, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few examples in five folds and without plain tuning, more in three: nobody learns from more than another."""
    monkeypatch.setattr(candidates_file, "_ENOUGH", 2.0)
    monkeypatch.setattr(candidates_file, "_FEW", 40)
    monkeypatch.setattr(candidates_file, "copies_of", lambda examples: list(range(len(examples))))
    monkeypatch.setattr(Judge, "behind", lambda *_: "")
    learned: list[int] = []
    plain = candidates_file.judge_fold

    def judge_fold(base: Any, fold: Any, *more: Any) -> Any:
        learned.append(int((~fold.outside_N).sum()))
        return plain(base, fold, *more)

    monkeypatch.setattr(candidates_file, "judge_fold", judge_fold)
    paths = files(tmp_path, "classify", num, 8)
    del paths["dev"]
    firth.finetune("classify", base=run_folder, **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    assert set(learned) == {num - num // folds}
    assert len(learned) == folds * (1 + tuned)
    assert (tried(tmp_path / "run")["tuned"].score is not None) == tuned


def judged(chances: dict[str, float], config: TaskConfig, data: TaskData) -> dict[int, Prediction]:
    """Predictions that give each true label the chance of it in ``chances``, after "right" or "wrong" by its number."""
    found: dict[int, Prediction] = {}
    for number, label in enumerate(str(example.label) for example in data.train):
        own = chances["wrong" if number % 10 < chances["share"] else "right"]
        (other,) = set(config.labels) - {label}
        found[number] = {"label": label if own > 0.5 else other, "probabilities": {label: own, other: 1 - own}}
    return found


def test_who_is_far_behind_is_given_up() -> None:
    """After some folds, on the examples judged so far; never where all folds were asked for, nor on a handful."""
    data = build_data("classify", texts(80), [])
    config = data.configured(TaskConfig())
    good = judged({"right": 0.9, "wrong": 0.2, "share": 1}, config, data)
    bad = judged({"right": 0.9, "wrong": 0.2, "share": 5}, config, data)
    folds = np.zeros(80, np.int64)
    judge = Judge(config, data, folds)
    judge.task = Classify(config, ScratchModel([], 1).reader())
    best = [Tried("counts", good, lambda: None)]  # type: ignore[arg-type, return-value]
    first = {number: bad[number] for number in range(40)}
    assert judge.behind(first, best) == "0.500 there, counts 0.900"
    assert judge.behind({number: good[number] for number in range(40)}, best) == ""
    assert judge.behind({number: bad[number] for number in range(20)}, best) == ""
    asked = Judge(config.replace(folds=4), data, folds)
    asked.task = judge.task
    assert asked.behind(first, best) == ""
    fewer = Tried("tuned", {number: good[number] for number in range(20)}, lambda: None)  # type: ignore[arg-type, return-value]
    assert judge.behind(first, [fewer]) == ""  # it was stopped earlier, so there is nothing to compare with
    assert judge.behind(first, [fewer, *best]) == "0.500 there, counts 0.900"


def test_what_was_given_up_is_not_kept(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates_file, "_ENOUGH", 2.0)
    monkeypatch.setattr(Judge, "behind", lambda *_: "0.100 there, counts 0.900")
    paths = files(tmp_path, "classify", 40, 8)
    del paths["dev"]
    firth.finetune("classify", base=run_folder, **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    found = tried(tmp_path / "run")
    assert found["contrastive"].note == "given up after fold 1 of 5: 0.100 there, counts 0.900"
    assert found["contrastive"].score is None
    assert found["counts"].chosen or found["linear"].chosen


def test_the_report_without_a_dev_file_is_about_the_folds(vectors: Path, tmp_path: Path) -> None:
    """Confusions, reliability, errors and labels that are probably wrong, of training examples that were not learned from."""
    some = texts(80)
    wrong = {number: "en" if some[number].label == "zh" else "zh" for number in (4, 31)}
    noisy = [replace(one, label=wrong.get(number, one.label)) for number, one in enumerate(some)]
    train = write(tmp_path / "t", noisy)
    firth.finetune("classify", base=vectors, train=train, out=tmp_path / "run", candidates=("counts", "linear"))
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for said in ("No dev file", "Confusions", "Reliability", "Worst errors", "Labels that are probably wrong"):
        assert said in report
    lines = (tmp_path / "run" / "suspects.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t") == ["where", "label", "likely", "wrong_probability", "text", "second"]
    assert lines[1:]
    assert {line.split("\t")[4] for line in lines[1:]} <= {noisy[number].text for number in wrong}
    said = Run.open(tmp_path / "run").record.notes["probably wrong labels"]
    assert said == f"{len(lines) - 1}, listed in suspects.tsv"
    assert len((tmp_path / "run" / "dev.jsonl").read_text(encoding="utf-8").splitlines()) == 80


def test_contrastive_needs_the_linear_model() -> None:
    with pytest.raises(FirthError, match="contrastive goes on from linear; name both"):
        TaskConfig.build({"candidates": ["contrastive"]}, "task")
