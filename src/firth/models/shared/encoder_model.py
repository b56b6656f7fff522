"""A trained BERT-shaped encoder with its heads.

T tokens, N tokens end to end, P places, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.types import Inputs, TextReader
from firth.models.shared.batching import packed_batches
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_format import load_encoder
from firth.models.shared.heads import PairHead, Pooler, ReplacedHead, TokenHead
from firth.models.shared.masked_model import MaskedModel
from firth.models.shared.model import Guess, loading, require_room
from firth.tokenizers.pieces import Pieces


class EncoderModel(MaskedModel):
    """What ``firth.load`` gives for BERT-shaped models."""

    kind = "encoder"
    spec_name = "bert"
    encoder: Encoder

    def __init__(self, config: EncoderConfig, pieces: Pieces) -> None:
        super().__init__(pieces, config.hidden_dim, config.num_layers, config.max_positions)
        self.config = config
        self.encoder = Encoder(config)
        self.token_head: TokenHead | None = None
        self.pair_head: PairHead | None = None
        self.replaced_head: ReplacedHead | None = None
        self.pooler: Pooler | None = None

    @classmethod
    def from_weights(
        cls,
        config: EncoderConfig,
        weights: dict[str, torch.Tensor],
        heads: dict[str, dict[str, torch.Tensor]],
        pieces: Pieces,
        where: Path,
    ) -> "EncoderModel":
        model = cls(config, pieces)
        if "token_head" in heads:
            model.token_head = TokenHead(config)
        if "pooler" in heads:
            model.pooler = Pooler(config.hidden_dim)
        if "pair_head" in heads and "pooler" in heads:
            model.pair_head = PairHead(config.hidden_dim)
        if "replaced_head" in heads:
            model.replaced_head = ReplacedHead(config)
        with loading(where):
            model.encoder.load_state_dict(weights)
            if model.token_head is not None:
                model.token_head.load_state_dict(heads["token_head"])
            if model.pooler is not None:
                model.pooler.load_state_dict(heads["pooler"])
            if model.pair_head is not None:
                model.pair_head.pooler.load_state_dict(heads["pooler"])
                model.pair_head.out.load_state_dict(heads["pair_head"])
            if model.replaced_head is not None:
                model.replaced_head.load_state_dict(heads["replaced_head"])
        require_room(pieces.vocab_size, config.vocab_size, where)
        for part in model.parts:
            part.eval()
        return model

    @property
    def parts(self) -> list[nn.Module]:
        """The encoder and the heads that are there."""
        heads = (self.token_head, self.pair_head, self.replaced_head)
        return [self.encoder, *(head for head in heads if head is not None)]

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for part in self.parts for parameter in part.parameters())

    def _abilities(self) -> set[str]:
        return super()._abilities() | (set() if self.pair_head is None else {"follows"})

    def reader(self) -> TextReader:
        return replace(super().reader(), pooler=self.pooler)

    @property
    def can_guess(self) -> bool:
        return self.token_head is not None

    def _looks(self, ids_BT: torch.Tensor, segments_T: NDArray[np.int64]) -> torch.Tensor:
        """Models that know one segment only are given none."""
        known = int(segments_T.max()) < self.config.num_segments
        return self.encoder.attention(Inputs(ids_BT, segments=torch.from_numpy(segments_T)[None] if known else None))

    def _guess(self, picks_BP: torch.Tensor, ids_BT: torch.Tensor) -> torch.Tensor:
        assert self.token_head is not None
        return self.token_head(self.encoder.picked(Inputs(ids_BT), picks_BP), self.encoder.embeddings.tokens.weight)

    def fill_many(self, texts: Sequence[str], top: int = 5) -> list[list[list[Guess]]]:
        """The same of many texts, read together where the model can."""
        if len(texts) == 1 or self.token_head is None or not self.encoder.can_pack:
            return super().fill_many(texts, top)
        found: list[list[list[Guess]]] = [[] for _ in texts]
        masked = [self._masked(text) for text in texts]
        with torch.inference_mode():
            for numbers, ids_N, lens in packed_batches([encoding.ids for encoding, _ in masked]):
                *_, hidden_ND = self.encoder.packed(Inputs(torch.from_numpy(ids_N)), lens)
                for number, hidden_TD in zip(numbers.tolist(), hidden_ND.split(lens), strict=True):
                    encoding, places = masked[number]
                    scores_PV = self.token_head(hidden_TD[places], self.encoder.embeddings.tokens.weight)
                    found[number] = self._guesses(texts[number], encoding, places, scores_PV, top)
        return found

    def follows(self, first: str, second: str) -> float:
        """The probability that the second text follows the first (next-sentence head)."""
        if self.pair_head is None:
            raise FirthError("this model has no next-sentence head: pre-train one with pairs=next_sentence")
        encoding = self.pieces.encode(first, second)
        self._check_fits(encoding)
        with torch.inference_mode():
            ids, segments = torch.from_numpy(encoding.ids)[None], torch.from_numpy(encoding.segments)[None]
            scores = self.pair_head(self.encoder.last(Inputs(ids, segments=segments))[:, 0])
        return float(scores.softmax(-1)[0, 0])


def load_encoder_model(folder: Path, spec: str) -> EncoderModel:
    """The encoder of a run or of a published directory, with the heads of its pre-training."""
    model = EncoderModel.from_weights(*load_encoder(folder), Pieces.load(folder), folder)
    model.spec_name = spec
    return model
