"""A recurrent network over tokens: ids to layers; and its directory.

B batch, T tokens, E embedding size, D width of a layer, L layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import load_tensors, save_tensors, write_json
from firth.core.types import Inputs, Layers, note_computing
from firth.models.recurrent.config import RecurrentConfig
from firth.models.shared.published import Weights, join_parts, read_config, require_fit, split_parts
from firth.nn.layers import TokenNetwork, dropout
from firth.nn.recurrent import Projection, RecurrentStack, StackDropout, drop_steps


@dataclass(frozen=True)
class Reading:
    """What a pass gives to a language model: the last layer, time first, and the state behind it."""

    hidden_TBD: torch.Tensor  # with dropout while training
    raw_TBD: torch.Tensor  # without
    state: list[torch.Tensor]


class Recurrent(TokenNetwork):
    """Token vectors and a stack of recurrent layers, in one direction (a language model) or both (an encoder). Padding
    stands at the end of rows; positions and segments mean nothing to it."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.stack = RecurrentStack(
            config.cell,
            config.embedding_dim,
            config.hidden_dims,
            config.bidirectional,
            config.residual,
            StackDropout(config.dropout_prob, config.weight_drop_prob, config.variational),
            Projection(config.num_cells, config.cell_clip, config.projection_clip),
        )

    @property
    def width(self) -> int:
        """Of the widest layer, which all are filled up to."""
        return max(self.config.embedding_dim, *self.stack.widths)

    def start(self, generator: torch.Generator) -> None:
        nn.init.uniform_(self.tokens.weight, -self.config.init_range, self.config.init_range, generator=generator)
        self.stack.start(generator)

    def zero_state(self, num_rows: int) -> list[torch.Tensor]:
        return self.stack.zero_state(num_rows)

    def embed(self, ids_BT: torch.Tensor) -> torch.Tensor:
        """Token vectors, time first [T, B, E]; whole words are dropped, the same in all the batch (Gal and
        Ghahramani 2016), then single numbers."""
        note_computing()
        config = self.config
        ids_TB = ids_BT.t()
        found = self.tokens(ids_TB)
        if self.training and config.embedding_dropout_prob:
            kept_V = dropout(self.tokens.weight.new_ones(config.vocab_size), config.embedding_dropout_prob)
            found = found * kept_V[ids_TB][:, :, None]
        return drop_steps(found, config.input_dropout_prob, config.variational, self.training)

    def read(self, ids_BT: torch.Tensor, state: Sequence[torch.Tensor] | None = None) -> Reading:
        """The last layer with the state that it leaves, for training and decoding."""
        outputs, after = self.stack(self.embed(ids_BT), None, state)
        raw = outputs[-1]
        hidden = drop_steps(raw, self.config.output_dropout_prob, self.config.variational, self.training)
        return Reading(hidden, raw, after)

    def forward(self, inputs: Inputs) -> Layers:
        """Every layer, [L+1, B, T, D]; narrower ones are filled up with zeros, which changes neither products
        nor norms."""
        mask_BT = inputs.mask
        lens_B = None if inputs.doc_ids is None or bool(mask_BT.all()) else mask_BT.sum(1)
        embedded = self.embed(inputs.ids)
        outputs, _ = self.stack(embedded, lens_B)
        layers = [functional.pad(layer, (0, self.width - layer.shape[-1])) for layer in (embedded, *outputs)]
        return Layers(torch.stack(layers).transpose(1, 2), mask_BT)


# -- a recurrent language model on disk: no published directory holds one, so these are Firth's own names.


class RecurrentFolder(Config):
    """The content of ``config.json``."""

    model_type: Literal["firth-recurrent"] = "firth-recurrent"
    model: RecurrentConfig
    output: Literal["softmax", "adaptive"] = "softmax"  # sampled and NCE layers are softmax layers once trained


def save_recurrent(folder: Path, config: RecurrentFolder, model: Weights, head: Weights) -> None:
    save_tensors(folder / "model.safetensors", join_parts({"model": model, "output": head}))
    write_json(folder / "config.json", config.model_dump())


def load_recurrent(folder: Path) -> tuple[RecurrentFolder, Weights, Weights]:
    """Config, the weights of the model, those of the output layer."""
    config = RecurrentFolder.build(read_config(folder), folder / "config.json")
    parts = split_parts(load_tensors(folder / "model.safetensors"))
    strange = sorted(set(parts) - {"model", "output"})
    if strange:
        raise FirthError(
            f"{folder / 'model.safetensors'}: holds '{strange[0]}', which no such model has; copy it again"
        )
    model, output = parts.get("model", {}), parts.get("output", {})
    require_fit(lambda: Recurrent(config.model), model, folder)
    return config, model, output
