"""Tuning on pairs of labelled texts, and calibrated probabilities."""

from pathlib import Path

import numpy as np
import pytest
import torch

import firth
from firth.tasks.config import TaskConfig
from firth.tasks.counts import frozen_config
from firth.tasks.data import build_data
from firth.tasks.finetune import WINDOW, Contrastive, class_batches, pair_loss, train_contrastive
from firth.tasks.model import build_model
from firth.tasks.scores import calibration_error, error_of, fit_factor, log_probs, normalised, rescaled
from firth.tasks.training import Item, frame_row
from task_text import texts


def test_the_loss_is_the_mean_over_pairs() -> None:
    """A plain loop over pairs; pairs of one class weigh as much as pairs of two."""
    vectors = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    classes = torch.tensor([0, 0, 1, 1, 1, 2])
    kinds: dict[bool, list[float]] = {True: [], False: []}
    for i in range(6):
        for j in range(6):
            if i != j:
                same = bool(classes[i] == classes[j])
                cosine = float(torch.nn.functional.cosine_similarity(vectors[i], vectors[j], dim=0))
                kinds[same].append((cosine - same) ** 2)
    wanted = (np.mean(kinds[True]) + np.mean(kinds[False])) / 2
    assert float(pair_loss(vectors, classes)) == pytest.approx(wanted, rel=1e-5)


def test_one_class_alone_is_pulled_together() -> None:
    same = torch.ones(3, 2)
    assert float(pair_loss(same, torch.zeros(3, dtype=torch.long))) == pytest.approx(0.0, abs=1e-6)


def test_batches_hold_two_texts_of_a_class() -> None:
    targets = [number % 11 for number in range(60)]
    for batch in class_batches(targets, 5, 16, seed=3):
        counts = np.bincount([targets[number] for number in batch])
        assert len(batch) == 16
        assert set(counts.tolist()) <= {0, 2}
    first, again = (class_batches([0, 1, 1], 4, 8, seed=1) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert np.bincount(np.asarray([0, 1, 1])[first[0]]).tolist() == [4, 4]


def test_long_texts_are_read_by_windows(run_folder: Path) -> None:
    """A stretch of the text between the special tokens, another one in another batch; short texts whole."""
    data = build_data("classify", texts(24), [])
    config = frozen_config(data.configured(TaskConfig()), "mean", "last").replace(tune=True)
    model = build_model(config, firth.load(run_folder), False)
    trainable = Contrastive(config, model.task, model.network, data.train, 3)
    frame, long = model.network.reader.frame, np.arange(1000, 1000 + 3 * WINDOW)
    item = Item((frame_row(frame, long, None, np.arange(len(long))),), 0, 0)
    starts = set()
    for number in range(8):
        (row,) = trainable._window(item, frame, np.random.default_rng(number)).rows
        inner = row.ids[len(frame.before) : len(row.ids) - len(frame.after)]
        assert inner.tolist() == list(range(inner[0], inner[0] + WINDOW))
        assert row.ids[: len(frame.before)].tolist() == list(frame.before)
        starts.add(int(inner[0]))
    assert len(starts) > 3
    short = trainable.items[0]
    assert trainable._window(short, frame, np.random.default_rng(0)) is short
    np.testing.assert_array_equal(trainable.batch(1).arrays["ids"], trainable.batch(1).arrays["ids"])


def test_texts_of_a_class_come_closer(run_folder: Path, tmp_path: Path) -> None:
    data = build_data("classify", texts(24), [])
    base = firth.load(run_folder)
    config = frozen_config(data.configured(TaskConfig()), "mean", "last").replace(tune=True, learning_rate=1e-3)
    before = base.encode([example.text for example in data.train])
    model = train_contrastive(config, base, data, 10, tmp_path, None)
    after = model.base.encode([example.text for example in data.train])
    classes = torch.tensor([config.labels.index(str(example.label)) for example in data.train])
    losses = [float(pair_loss(torch.from_numpy(vectors), classes)) for vectors in (before, after)]
    assert losses[1] < losses[0] / 2
    found = model.predict_examples(data.train)
    assert np.mean([one["label"] == example.label for one, example in zip(found, data.train, strict=True)]) > 0.95


def test_the_factor_is_found_again() -> None:
    """Labels that are drawn from known probabilities; the model is twice as sure as it should be."""
    random = np.random.default_rng(0)
    logs = normalised(random.normal(size=(4000, 3)))
    targets = np.asarray([random.choice(3, p=np.exp(row)) for row in logs])
    factor, likelihood = fit_factor(normalised(2 * logs), targets)
    assert factor == pytest.approx(0.5, rel=0.1)
    assert likelihood == pytest.approx(float(logs[np.arange(4000), targets].mean()), abs=2e-3)
    weighted, _ = fit_factor(
        logs, np.concatenate((targets[:2000], 1 - targets[2000:] % 2)), np.repeat([1.0, 0.0], 2000)
    )
    assert weighted == pytest.approx(1.0, rel=0.1)


def test_rescaled_predictions_keep_their_label() -> None:
    found = [{"label": "b", "probabilities": {"b": 0.8, "a": 0.2}}]
    changed = rescaled(found, 0.5)[0]
    assert changed["label"] == "b"
    assert changed["probabilities"]["b"] == pytest.approx(0.8**0.5 / (0.8**0.5 + 0.2**0.5))
    np.testing.assert_allclose(log_probs(found, ["a", "b"]), np.log([[0.2, 0.8]]))


def test_calibration_error_worked_out() -> None:
    """Two bins: .9 and .95 with one right; .55 right."""
    chances, right = np.asarray([0.9, 0.95, 0.55]), np.asarray([True, False, True])
    assert calibration_error(chances, right, 10) == pytest.approx((abs(0.9 + 0.95 - 1) + abs(0.55 - 1)) / 3)
    assert calibration_error(np.zeros(0), np.zeros(0, bool)) == 0.0
    assert calibration_error(np.ones(2), np.ones(2, bool)) == 0.0
    found = [{"label": "a", "probabilities": {"a": 0.75, "b": 0.25}}] * 4
    assert error_of(found, ["a", "a", "a", "b"]) == pytest.approx(0.0)
