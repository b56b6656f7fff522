"""A sweep of pre-training: every combination of a grid, the best kept as a run."""

from pathlib import Path
from typing import Any

import pytest

import firth
from firth.core.errors import FirthError, Interrupted
from firth.core.registry import RunConfig
from firth.core.run import Run
from firth.models import sweep as sweep_file
from firth.models.sweep import sweep_points


def test_the_best_is_kept(tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path) -> None:
    """The run in ``out`` is the one with the lowest held-out loss, the same as if it had been trained alone."""
    grid = {"learning_rate": (1e-9, 3e-3), "batch_size": (4, 8)}
    firth.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run", sweep=grid)
    record = Run.open(tmp_path / "run").record
    assert [one.settings for one in record.sweep] == [
        {"learning_rate": rate, "batch_size": size} for rate in (1e-9, 3e-3) for size in (4, 8)
    ]
    assert len({one.steps for one in record.sweep}) == 1
    (chosen,) = (one for one in record.sweep if one.chosen)
    assert chosen.loss == min(one.loss for one in record.sweep) == pytest.approx(record.metrics["loss"])
    assert chosen.settings["learning_rate"] == 3e-3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    alone = tiny_config.update(chosen.settings)
    firth.pretrain(alone, corpus=corpus_folder, out=tmp_path / "alone")
    assert Run.open(tmp_path / "alone").record.metrics["loss"] == pytest.approx(chosen.loss)
    from firth.cli.describe import run_rows

    rows = dict(run_rows(record))
    assert rows["tried"] == "held-out loss"
    assert "chosen" in rows[f"  batch_size {chosen.settings['batch_size']}, learning_rate 0.003"]


def test_typed_settings_and_the_usual_grid(tiny_config: RunConfig, capsys: pytest.CaptureFixture[str]) -> None:
    rate = tiny_config.training.learning_rate
    assert sweep_points(tiny_config, True) == [{"learning_rate": factor * rate} for factor in (0.5, 1, 2)]
    from firth.api.using import split_grid
    from firth.core.config import parse_settings

    plain, grid = split_grid(parse_settings(["learning_rate=1e-3,3e-4", "steps=3", "model.num_layers=1,2"]))
    assert plain == {"steps": "3"}
    assert sweep_points(tiny_config, grid)[1] == {"learning_rate": 1e-3, "model.num_layers": 2}


@pytest.mark.parametrize(
    ("grid", "reason"),
    [
        ({"steps": (1, 2)}, "steps is the same for every training"),
        ({"seed": (1, 2)}, "seed is the same for every training"),
        ({"mask_prob": (0.1, 0.2)}, "changes what the held-out loss measures"),
        ({"learning_rate": ()}, "learning_rate has no values"),
        ({"learning_rate": (1e-3,)}, "one combination of settings leaves nothing to choose"),
        ({"learning_rat": (1e-3, 1e-4)}, "learning_rate"),
        ({"learning_rate": (1e-3, -1)}, "learning_rate"),
    ],
)
def test_grids_that_cannot_be(
    grid: dict[str, Any], reason: str, tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(FirthError, match=reason):
        firth.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run", sweep=grid)
    assert not list(tmp_path.iterdir())


def test_batches_are_not_compared_where_their_rows_are(tiny_config: RunConfig) -> None:
    halves = tiny_config.update({"pairs": "none", "half_weight": 0.5})
    with pytest.raises(FirthError, match=r"batch_size changes among how many texts .*; set half_weight=0"):
        sweep_points(halves, {"batch_size": (2, 4)})
    assert len(sweep_points(halves, {"learning_rate": (1e-3, 1e-4)})) == 2


def test_one_that_was_stopped_goes_on(
    tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was trained is not trained again; other settings are refused; ``out`` appears at the end."""
    grid, out = {"learning_rate": (1e-3, 2e-3)}, tmp_path / "run"
    trained: list[Path] = []
    start = sweep_file.start_run

    def stopped(config: RunConfig, corpus: Path, folder: Path, *rest: Any, **more: Any) -> Run:
        if trained:
            raise Interrupted("stopped")
        trained.append(folder)
        return start(config, corpus, folder, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(sweep_file, "start_run", stopped)
        with pytest.raises(Interrupted):
            firth.pretrain(tiny_config, corpus=corpus_folder, out=out, sweep=grid)
    assert not out.exists()
    with pytest.raises(FirthError, match="a sweep of other settings"):
        firth.pretrain(tiny_config, corpus=corpus_folder, out=out, sweep={"learning_rate": (1e-3, 4e-3)})
    begun = []

    def counted(config: RunConfig, corpus: Path, folder: Path, *rest: Any, **more: Any) -> Run:
        begun.append(folder.name)
        return start(config, corpus, folder, *rest, **more)

    monkeypatch.setattr(sweep_file, "start_run", counted)
    firth.pretrain(tiny_config, corpus=corpus_folder, out=out, sweep=grid)
    assert begun == ["1"]
    assert len(Run.open(out).record.sweep) == 2
    with pytest.raises(FirthError, match="exists already"):
        firth.pretrain(tiny_config, corpus=corpus_folder, out=out, sweep=grid)
    firth.pretrain(tiny_config, corpus=corpus_folder, out=out, sweep=grid, overwrite=True)


def test_vectors_are_not_swept(words_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="no held-out loss to choose by"):
        firth.pretrain("word2vec", corpus=words_folder, out=tmp_path / "run", sweep=True)
