"""The time that is left."""

import pytest

from firth.cli.progress import Remaining, progress_display


def test_what_came_before_the_first_event_does_not_count() -> None:
    remaining = Remaining()
    assert remaining.seconds(1, 100, 60.0) is None  # a minute of compilation
    assert remaining.seconds(2, 100, 61.0) == pytest.approx(98.0)
    assert remaining.seconds(51, 100, 110.0) == pytest.approx(49.0)
    assert remaining.seconds(100, 100, 159.0) is None


def test_another_stage_has_a_speed_of_its_own() -> None:
    remaining = Remaining()
    remaining.seconds(10, 100, 0.0)
    remaining.seconds(90, 100, 80.0)
    assert remaining.seconds(5, 50, 90.0) is None
    assert remaining.seconds(10, 50, 91.0) == pytest.approx(8.0)
    assert remaining.seconds(2, 50, 95.0) is None  # begun again


def test_an_unknown_total() -> None:
    assert Remaining().seconds(0, 0, 1.0) is None


def test_a_stage_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """So that nobody takes the word vectors that a training begins with for the training."""
    event = {"event": "train", "step": 10, "steps": 10, "loss": 1.0, "tokens_per_s": 5.0, "stage": "word vectors"}
    with progress_display("bert", False) as show:
        show(event)
    assert "bert: 100%  word vectors  loss 1.000" in capsys.readouterr().err


def test_images_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_display("prepare", False) as show:
        show({"event": "images", "images": 500, "total": 1000})
        show({"event": "images", "images": 1000, "total": 1000})
    said = capsys.readouterr().err
    assert "prepare: 100%  1,000 images" in said
