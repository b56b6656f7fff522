"""A trained two-stream model with its tokenizer: vectors from the content stream, guesses from the query stream.

Its texts end with [SEP] [CLS], and [CLS] is of segment 2. Masks are not seen by anyone.

B batch, T tokens, P picked tokens, D hidden size, L layers.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.types import Encoding, Frame, Inputs, TextReader
from firth.models.shared.encoder_model import MaskedModel
from firth.models.shared.model import loading, require_room
from firth.models.shared.published import Weights
from firth.models.xlnet.config import TwoStreamConfig
from firth.models.xlnet.network import TwoStream
from firth.nn.layers import pool_tokens
from firth.tokenizers.pieces import Pieces

_CLS_SEGMENT = 2


class XlnetModel(MaskedModel):
    """What ``firth.load`` gives for XLNet."""

    kind = "two-stream encoder"
    spec_name = "xlnet"
    encoder: TwoStream

    def __init__(
        self,
        config: TwoStreamConfig,
        weights: Weights,
        bias: torch.Tensor | None,
        pieces: Pieces,
        where: Path,
    ) -> None:
        super().__init__(pieces, config.hidden_dim, config.num_layers, config.max_positions)
        self.config, self.bias = config, bias
        self.encoder = TwoStream(config)
        with loading(where):
            self.encoder.load_state_dict(weights)
        require_room(pieces.vocab_size, config.vocab_size, where)
        self.encoder.eval()

    @property
    def num_parameters(self) -> int:
        weights = sum(parameter.numel() for parameter in self.encoder.parameters())
        return weights + (0 if self.bias is None else len(self.bias))

    @property
    def can_guess(self) -> bool:
        return self.bias is not None

    def reader(self) -> TextReader:
        """The content stream for a task: A [SEP] B [SEP] [CLS], the last of which speaks for the text."""
        reader = super().reader()
        frame = reader.frame
        if self.pieces.cls_id not in (*frame.before, *frame.after):
            return reader
        frame = Frame(
            (), frame.between, frame.after + frame.before, _CLS_SEGMENT
        )  # a BERT vocabulary begins with [CLS]
        return replace(reader, frame=frame, summary="last")

    def _windows(self, encoding: Encoding) -> list[NDArray[np.int64]]:
        """As for other encoders, but both special tokens stand at the end."""
        size, room = len(encoding.ids), self.max_positions - 2
        if size <= room + 2:
            return [np.arange(size)]
        ending = np.asarray([size - 2, size - 1])
        return [
            np.concatenate((np.arange(start, min(start + room, size - 2)), ending))
            for start in range(0, size - 2, room)
        ]

    def _segments(self, ids_BT: torch.Tensor) -> torch.Tensor:
        return torch.eq(ids_BT, _known(self.pieces.cls_id)) * _CLS_SEGMENT

    def _inputs(self, ids_BT: torch.Tensor, doc_ids_BT: torch.Tensor | None = None) -> Inputs:
        return Inputs(ids_BT, doc_ids_BT, segments=self._segments(ids_BT))

    def _looks(self, ids_BT: torch.Tensor, segments_T: NDArray[np.int64]) -> torch.Tensor:
        return self.encoder.attention(Inputs(ids_BT, segments=torch.from_numpy(segments_T)[None]))

    def _guess(self, picks_BP: torch.Tensor, ids_BT: torch.Tensor) -> torch.Tensor:
        assert self.bias is not None
        seen_BTT = torch.ne(ids_BT, _known(self.pieces.mask_id))[:, None].expand(-1, ids_BT.shape[1], -1)
        hidden_BPD, _ = self.encoder.predicted(picks_BP, ids_BT, seen_BTT, self._segments(ids_BT))
        return functional.linear(hidden_BPD, self.encoder.embeddings.tokens.weight, self.bias)

    def _pool(self, hidden_BTD: torch.Tensor, mask_BT: torch.Tensor, pool: str) -> torch.Tensor:
        return pool_tokens(hidden_BTD, mask_BT, "last" if pool == "cls" else pool)


def _known(number: int | None) -> int:
    """An id, or one that no token has."""
    return -1 if number is None else number
