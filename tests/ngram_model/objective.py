"""The next token from the ones before it; the output matrix is the token table."""

from torch import nn

from firth.core.types import Batch, Inputs, Losses
from firth.corpus.format import Split
from firth.corpus.streams import StreamRows, TokenStream
from firth.nn.softmax import cross_entropy_sum
from ngram_model.config import NgramObjectiveConfig
from ngram_model.network import NgramNetwork


class NgramObjective(nn.Module):
    def __init__(self, config: NgramObjectiveConfig, end_id: int) -> None:
        super().__init__()
        self.config, self.end_id = config, end_id
        self.weights = {"next": 1.0}

    def rows(self, split: Split, seed: int) -> StreamRows:
        return StreamRows(TokenStream(split, (self.end_id,)), self.config.seq_len, seed)

    def batch(self, split: Split, rows: StreamRows, seed: int, first: int, count: int) -> Batch:
        places = rows.positions(first, count)
        arrays = {"ids": rows.text.read(places - 1), "labels": rows.text.read(places).reshape(-1)}
        return Batch(arrays, {"next": places.size}, places.size)

    def loss(self, model: NgramNetwork, batch: Batch) -> Losses:
        hidden_ND = model.last(Inputs.of(batch.tensors)).flatten(0, 1)
        return Losses({"next": cross_entropy_sum(hidden_ND, model.tokens.weight, None, batch.tensors["labels"])})
