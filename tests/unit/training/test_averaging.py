"""The finished model as the mean of the last checkpoints that were planned."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import firth
from firth.core.config import parse_settings
from firth.core.run import Run

SMALL = ["num_layers=1", "num_decoder_layers=1", "hidden_dim=16", "num_heads=2", "ffn_dim=16", "batch_tokens=128"]
SMALL += ["norm_first=false"]  # then the run is a Marian directory


def test_the_mean_of_the_planned_checkpoints(
    pairs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints that the clock asks for in between do not count, and do not push the others out."""
    monkeypatch.setattr("firth.training.loop._SAVE_S", 0.0)
    settings = [*SMALL, "checkpoints=3", "average=2", "keep=1", "evaluations=1"]
    firth.pretrain(
        "transformer-tiny", corpus=pairs_folder, out=tmp_path / "run", steps=9, settings=parse_settings(settings)
    )
    parts = [
        load_file(tmp_path / "run" / "checkpoints" / f"step-{step}" / "model.safetensors")["model.tokens.weight"]
        for step in (6, 9)
    ]
    found = load_file(tmp_path / "run" / "model.safetensors")["model.shared.weight"]
    torch.testing.assert_close(found, (parts[0] + parts[1]) / 2)
    assert not torch.equal(parts[0], parts[1])
    assert "bleu" in Run.open(tmp_path / "run").record.metrics
