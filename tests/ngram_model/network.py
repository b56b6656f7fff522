"""The network: the vectors of the last tokens, concatenated, through one tanh layer.

B rows, T tokens, D hidden size, C context.
"""

import torch
from torch import nn

from firth.core.types import Inputs, Layers
from firth.nn.layers import TokenNetwork
from ngram_model.config import NgramConfig


class NgramNetwork(TokenNetwork):
    def __init__(self, config: NgramConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_dim)
        self.mix = nn.Linear(config.context * config.hidden_dim, config.hidden_dim)

    def forward(self, inputs: Inputs) -> Layers:
        """Layer 0: the tokens. Layer 1: what each token and the ones before it say about the next."""
        mask_BT = inputs.mask
        tokens_BTD = self.tokens(inputs.ids) * mask_BT[:, :, None]
        ahead = nn.functional.pad(tokens_BTD, (0, 0, self.config.context - 1, 0))
        windows_BTDC = ahead.unfold(1, self.config.context, 1)
        hidden_BTD = torch.tanh(self.mix(windows_BTDC.flatten(2))) + tokens_BTD
        return Layers(torch.stack((tokens_BTD, hidden_BTD)), mask_BT)
