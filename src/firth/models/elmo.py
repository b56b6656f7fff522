"""ELMo's bidirectional language model: words by their characters, then two readers (Peters et al. 2018).

One reads from left to right, one from right to left, with weights of their own over a shared token layer.

G directions (2), B batch, T words, N distinct words, M characters, P output size of a direction, D = 2P.
"""

import torch
from torch import nn

from firth.core.model_configs import ElmoConfig
from firth.core.types import Layers
from firth.nn.character_cnn import CharacterCNN
from firth.nn.dropout import dropout
from firth.nn.lstmp import LSTMP, StackedLSTMP, State


def build_token_layer(config: ElmoConfig) -> CharacterCNN:
    return CharacterCNN(
        config.num_characters,
        config.char_dim,
        config.filters,
        config.num_highway,
        config.projection_dim,
        config.activation,
        config.project,
    )


class Elmo(nn.Module):
    """The token layer and the readers."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = build_token_layer(config)
        self.readers = StackedLSTMP(
            config.num_layers,
            config.projection_dim,
            config.cell_dim,
            config.projection_dim,
            num_directions=2,
            residual=config.residual,
            cell_clip=config.cell_clip,
            output_clip=config.projection_clip,
        )

    def initialize(self, generator: torch.Generator) -> None:
        self.tokens.initialize(generator)
        for layer in self.readers.layers:
            assert isinstance(layer, LSTMP)
            layer.initialize(generator)

    def read(
        self,
        vectors_GTBP: torch.Tensor,
        states: list[State] | None = None,
        live_GTB: torch.Tensor | None = None,
        fresh_GTB: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, list[State]]:
        """For training: each direction reads words of its own in its own order. The last layer's outputs,
        and the states to go on from."""
        outputs, after = self.readers(vectors_GTBP, states, live_GTB, fresh_GTB, self.config.dropout_prob)
        last = outputs[-1]
        return dropout(last, self.config.dropout_prob, self.training), after

    def forward(self, vectors_BTP: torch.Tensor, mask_BT: torch.Tensor) -> Layers:
        """Every layer of whole sentences, from their words' vectors (``tokens``, each distinct word once).

        Both directions stand side by side; layer 0 is the token's vector, twice.
        """
        mask_TB = mask_BT.T
        tokens_TBP = vectors_BTP.transpose(0, 1) * mask_TB[..., None]
        both = torch.stack((tokens_TBP, tokens_TBP.flip(0)))
        live = torch.stack((mask_TB, mask_TB.flip(0)))
        outputs, _ = self.readers(both, None, live)
        found = [torch.cat((tokens_TBP, tokens_TBP), dim=-1)]
        found += [torch.cat((out[0], out[1].flip(0)), dim=-1) * mask_TB[..., None] for out in outputs]
        return Layers(torch.stack(found).transpose(1, 2), mask_BT)
