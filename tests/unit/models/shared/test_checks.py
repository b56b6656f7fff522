"""Questions that no model can answer, and files that do not fit, are refused in a sentence."""

from pathlib import Path

import pytest
import torch
from torch import nn

from firth.core.errors import FirthError
from firth.models.shared.model import loading, require_layer, require_pool, require_room


def test_layers_count_from_both_ends() -> None:
    for layer in (-3, -1, 0, 2):
        require_layer(layer, 3)
    for layer in (-4, 3):
        with pytest.raises(FirthError, match=rf"layer {layer} does not exist: this model has layers 0 to 2"):
            require_layer(layer, 3)


def test_pools() -> None:
    require_pool("max", ("mean", "cls", "max"))
    with pytest.raises(FirthError, match="unknown pool 'last' for this model: choose mean, cls or max"):
        require_pool("last", ("mean", "cls", "max"))


def test_room() -> None:
    require_room(9, 9, Path("model"))  # spare rows are fine, too
    require_room(8, 9, Path("model"))
    with pytest.raises(FirthError, match="model: the tokenizer has 10 tokens but the model only 9"):
        require_room(10, 9, Path("model"))


def test_weights_of_another_shape() -> None:
    with (
        pytest.raises(FirthError, match=r"model: weights and config do not fit \(.*size mismatch.*\)"),
        loading(Path("model")),
    ):
        nn.Linear(2, 3).load_state_dict({"weight": torch.zeros(3, 4), "bias": torch.zeros(3)})
    with loading(Path("model")):
        nn.Linear(2, 3).load_state_dict({"weight": torch.zeros(3, 2), "bias": torch.zeros(3)})
