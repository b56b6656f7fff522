"""The encoder of an encoder-decoder by itself, as tasks read it: ids to layers of the source (of translators: CoVe,
McCann et al. 2017).

B batch, T tokens, D hidden size.
"""

import torch
from torch import nn

from firth.core.types import Layers
from firth.models.encoder_decoder import EncoderDecoder
from firth.models.seq2seq import Seq2Seq


class SourceReader(nn.Module):
    """Shares the weights of the model, and owns those of the encoder alone: a task neither trains nor keeps the rest."""

    def __init__(self, model: EncoderDecoder | Seq2Seq) -> None:
        super().__init__()
        self.__dict__["model"] = model  # past nn.Module, which would register all of it
        self.tokens = model.tokens
        if isinstance(model, EncoderDecoder):
            self.encoder_positions = model.encoder_positions
            self.encoder_blocks = model.encoder_blocks
            self.encoder_relative = model.encoder_relative
            self.encoder_norm = model.encoder_norm
        else:
            self.encoder_layers = model.encoder

    model: EncoderDecoder | Seq2Seq

    def train(self, mode: bool = True) -> "SourceReader":
        super().train(mode)
        self.model.train(mode)
        return self

    def forward(
        self,
        ids_BT: torch.Tensor,
        blocks_BT: torch.Tensor | None = None,
        positions_BT: torch.Tensor | None = None,
        segments_BT: torch.Tensor | None = None,
    ) -> Layers:
        """Every layer; blocks are 0 where there is no token. Positions and segments are told by the text alone."""
        found = self.model.layers(ids_BT, _padding(blocks_BT))
        return found if blocks_BT is None else Layers(found.hidden, blocks_BT > 0)

    def last(
        self,
        ids_BT: torch.Tensor,
        blocks_BT: torch.Tensor | None = None,
        positions_BT: torch.Tensor | None = None,
        segments_BT: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The last layer only, [B, T, D]."""
        return self.model.encode(ids_BT, _padding(blocks_BT))


def _padding(blocks_BT: torch.Tensor | None) -> torch.Tensor | None:
    """Where there are tokens; None where they are everywhere. An empty row looks at its padding, not at nothing."""
    if blocks_BT is None or bool((blocks_BT > 0).all()):
        return None
    tokens = blocks_BT > 0
    return tokens | ~tokens.any(1, keepdim=True)
