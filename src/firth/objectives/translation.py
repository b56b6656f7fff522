"""Translation under teacher forcing: each target token from the source and the true tokens before it.

The source ends with the end token; the target begins with a start token (the padding token, as in
Marian) and its labels end with the end token. The loss is cross-entropy with a share of the
probability spread over the vocabulary (Szegedy et al. 2016; Vaswani et al. 2017, 5.4); on held-out
text it is the plain one, so that its exp is the perplexity.

B pairs, S source tokens, T target tokens, N labels, D hidden size, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.objective_configs import TranslationConfig
from firth.core.types import Batch, Losses
from firth.corpus.pair_batches import PairBatches
from firth.corpus.pairs import PairSplit
from firth.nn.softmax import cross_entropy_sum


@dataclass(frozen=True)
class PairSpecials:
    """The ids that batches need, of each side."""

    source_pad_id: int
    source_eos_id: int
    start_id: int  # begins every target; also its padding
    eos_id: int


def pad_rows(rows: list[NDArray[np.int64]], fill: int) -> NDArray[np.int64]:
    """Rows of different lengths side by side, aligned left."""
    out = np.full((len(rows), max(len(row) for row in rows)), fill, np.int64)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out


class Translation(nn.Module):
    """The objective; it has no weights of its own: the model scores its vocabulary."""

    def __init__(self, config: TranslationConfig, specials: PairSpecials) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.weights = {"target": 1.0}

    def rows(self, split: PairSplit, seed: int) -> PairBatches:
        """A row is a whole batch of pairs of like length."""
        if not split.num_pairs:
            raise FirthError(f"{split.folder}: no pairs to train on; prepare a corpus with more of them")
        source_lens, target_lens = (
            np.minimum(split.lens(side), np.iinfo(np.int64).max if most is None else most) + 1
            for side, most in self._limits.items()
        )
        return PairBatches(source_lens, target_lens, self.config.batch_tokens, seed)

    @property
    def _limits(self) -> dict[str, int | None]:
        return {"source": self.config.max_source_len, "target": self.config.max_target_len}

    def batch(self, split: PairSplit, rows: PairBatches, seed: int, first: int, count: int) -> Batch:
        """``count`` rows from ``first`` of the endless sequence as one batch; a pure function of its arguments."""
        pairs = np.concatenate([rows.pairs(number) for number in range(first, first + count)])
        special = self.specials
        sources, targets = (
            [np.asarray(split.sentence(side, pair)[:most], np.int64) for pair in pairs]
            for side, most in self._limits.items()
        )
        sources = [np.append(source, special.source_eos_id) for source in sources]
        labels = [np.append(target, special.eos_id) for target in targets]
        lens = np.asarray([len(row) for row in labels])
        arrays = {
            "source": pad_rows(sources, special.source_pad_id),
            "source_tokens": pad_rows([np.ones(len(row), np.int64) for row in sources], 0).astype(np.bool_),
            "target": pad_rows([np.insert(target, 0, special.start_id) for target in targets], special.start_id),
            "places": np.flatnonzero(np.arange(lens.max()) < lens[:, None]),
            "labels": np.concatenate(labels),
        }
        return Batch(arrays, {"target": int(lens.sum())}, int(lens.sum()) + sum(map(len, sources)))

    def loss(self, model: Any, batch: Batch) -> Losses:
        """Only where there is a label is anything scored."""
        tensors = batch.tensors
        hidden_BTD = model.hidden(tensors["source"], tensors["source_tokens"], tensors["target"])
        hidden_ND, labels_N = hidden_BTD.flatten(0, 1)[tensors["places"]], tensors["labels"]
        smoothing = self.config.label_smoothing
        return target_losses("target", model, hidden_ND, labels_N, self.training, smoothing)


def target_losses(
    name: str,
    model: Any,
    hidden_ND: torch.Tensor,
    labels_N: torch.Tensor,
    training: bool,
    smoothing: float = 0.0,
    text_N: torch.Tensor | None = None,
) -> Losses:
    """The loss of what was written, smoothed while training; in a test also how often the likeliest token was right, and
    both of the text alone where something else is written, too."""
    table_VD, bias_V = model.output_weights()
    if training:
        return Losses({name: cross_entropy_sum(hidden_ND, table_VD, bias_V, labels_N, smoothing)})
    scores_NV = functional.linear(hidden_ND, table_VD, bias_V).float()
    losses_N = functional.cross_entropy(scores_NV, labels_N, reduction="none")
    hits_N = scores_NV.argmax(-1) == labels_N
    told = {"accuracy": (float(hits_N.sum()), float(len(labels_N)))}
    if text_N is not None:
        count = float(text_N.sum())
        told["text_loss"] = float(losses_N.detach()[text_N].sum()), count
        told["text_accuracy"] = float(hits_N[text_N].sum()), count
    return Losses({name: losses_N.sum()}, told)
