"""Weights by published names: there and back, nothing missing, nothing left over."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from firth.core.errors import FirthError
from firth.core.files import save_tensors
from firth.models.shared.published import (
    ACTIVATIONS,
    Names,
    Published,
    activation_name,
    join_parts,
    scatter,
    split_parts,
)

NAMES: Names = {"qkv": ["q", "k", "v"], "out": "o.weight", "bias": "o.bias"}


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    return {"qkv": torch.arange(12.0).view(6, 2), "out": torch.ones(2, 2), "bias": torch.zeros(2)}


def test_there_and_back(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    theirs = scatter(weights, NAMES)
    assert sorted(theirs) == ["k", "o.bias", "o.weight", "q", "v"]
    assert theirs["k"].tolist() == [[4.0, 5.0], [6.0, 7.0]]
    save_tensors(tmp_path / "model.safetensors", theirs)
    published = Published(tmp_path, "a toy")
    found = published.gather(NAMES)
    published.finish()
    assert all(torch.equal(found[name], weights[name]) for name in weights)


def test_what_is_missing_or_left_over(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    theirs = scatter(weights, NAMES)
    save_tensors(tmp_path / "model.safetensors", {**theirs, "more": torch.ones(1)})
    published = Published(tmp_path, "a toy")
    published.gather(NAMES)
    with pytest.raises(FirthError, match=r"not part of a toy \(more\)"):
        published.finish()
    published.finish(lambda name: name == "more")
    theirs.pop("k")
    save_tensors(tmp_path / "model.safetensors", theirs)
    with pytest.raises(FirthError, match="'k' is missing"):
        Published(tmp_path, "a toy").gather(NAMES)


def test_parts_of_one_table(weights: dict[str, torch.Tensor]) -> None:
    parts = {"encoder": weights, "head": {"layer.bias": torch.ones(3)}}
    table = join_parts(parts)
    assert "encoder.qkv" in table
    assert "head.layer.bias" in table
    assert split_parts(table) == parts


def test_activations_by_their_first_name() -> None:
    assert activation_name("gelu_tanh") == "gelu_new"
    assert activation_name("silu", {**ACTIVATIONS, "swish": "silu", "silu": "silu"}) == "swish"
    assert all(ACTIVATIONS[activation_name(ours)] == ours for ours in ACTIVATIONS.values())


@pytest.mark.slow
def test_loading_does_not_wake_the_compiler(run_folder: Path) -> None:
    """Torch's compiler takes two seconds to load, and nothing needs it."""
    program = f"import sys, firth\nfirth.load({str(run_folder)!r}).fill('The [MASK] slept.')\nprint('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
