"""Masked tokens: some are hidden, all of the context predicts them (Devlin et al. 2018, 3.1).

15 % of the tokens of a row are chosen, never special ones; of these 80 % become [MASK], 10 % a
random token, 10 % stay. The share is drawn a row, not a sequence, so that rows of packed short
sequences carry as much to learn as full ones. With ``pairs`` each sequence is a pair of segments
that is also classified; both losses are added.

With ``half_weight`` each passage is cut in two, and neither half sees the other; the vector of a half (the mean of its tokens in
the layer below the last) has to find that of the other half among all halves of the batch. So the vectors of texts learn what
holds a text together, which single tokens do not ask for (sentences that follow each other: Logeswaran & Lee 2018; spans of a
text: Giorgi et al. 2021, Izacard et al. 2022).

B rows, T tokens, P chosen tokens of a row, N chosen tokens in all, H halves, S sequences of a row, D hidden size, V vocabulary.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from firth.core.registry import RunConfig
from firth.core.types import Batch, Inputs, Losses
from firth.corpus.format import Corpus, PackedRows, Split, need_text
from firth.models.bert.config import MaskedTokensConfig
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, PairHead, TokenHead
from firth.models.shared.pretraining import EncoderPretraining
from firth.models.shared.rows import (
    PairRows,
    Specials,
    Turns,
    build_halves,
    build_pairs,
    build_rows,
    guessing_losses,
    hide_tokens,
)
from firth.nn.softmax import cross_entropy_sum

_TEMPERATURE = 0.1  # of the cosines of halves


class MaskedTokens(nn.Module):
    """The objective: batches of packed, masked rows; the heads; the loss where something is predicted."""

    def __init__(self, config: MaskedTokensConfig, model: EncoderConfig, specials: Specials) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.head = TokenHead(model)
        self.pair_head = PairHead(model.hidden_dim) if config.pairs != "none" else None
        self.weights = {"masked": config.mask_weight, "pairs": config.pair_weight, "halves": config.half_weight}

    def heads(self) -> dict[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        found: dict[str, nn.Module] = {"token_head": self.head}
        if self.pair_head is not None:
            found |= {"pooler": self.pair_head.pooler, "pair_head": self.pair_head.out}
        return found

    def rows(self, split: Split, seed: int) -> PackedRows | PairRows:
        if self.config.pairs == "none":
            num_special = 4 if self.config.half_weight else 2
            rows: PackedRows | PairRows = PackedRows.of_documents(split, self.config.seq_len, num_special, seed)
        else:
            rows = PairRows(split, self.config.seq_len, self.config.short_prob, seed)
        need_text(split, len(rows))
        return rows

    def batch(self, split: Split, rows: PackedRows | PairRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        turns = Turns.of(rows, self.config, seed, first, count)
        if isinstance(rows, PairRows):
            plain = build_pairs(split, rows, turns, self.config, self.specials, self.config.pairs)
        else:
            build = build_halves if self.config.half_weight else build_rows
            plain = build(split, rows, turns, self.config, self.specials)
        hidden = hide_tokens(plain, self.config, self.specials, turns.key)
        if self.config.half_weight:
            halves = np.asarray(plain.halves, np.int64).reshape(-1, 2)
            return hidden.batch({"masked": hidden.num_chosen, "halves": 2 * len(halves)}, halves=halves)
        if self.pair_head is None:
            return hidden.batch({"masked": hidden.num_chosen})
        return hidden.batch(
            {"masked": hidden.num_chosen, "pairs": len(plain.pair_labels)},
            segments=hidden.cut(plain.segments),
            pairs=hidden.pair_places,
            pair_labels=np.asarray(plain.pair_labels, np.int64),
        )

    def loss(self, model: Encoder, batch: Batch) -> Losses:
        """Cross-entropy at the chosen tokens and pairs; the last block computes nothing else."""
        tensors, halves = batch.tensors, None
        inputs, picks_BP = Inputs.of(tensors), tensors["picks"]
        if self.config.half_weight:
            hidden_BPD, below_BTD = model.picked_above(inputs, picks_BP)
            halves = half_scores(below_BTD, tensors["doc_ids"], tensors["halves"])
        else:
            hidden_BPD = model.picked(inputs, picks_BP)
        hidden_ND = hidden_BPD.flatten(0, 1)
        masked_ND, labels_N, table_VD = hidden_ND[tensors["masked"]], tensors["labels"], model.embeddings.tokens.weight
        if self.training and self.pair_head is None:  # without scores of the whole vocabulary in memory
            read_ND = self.head.transform(masked_ND)
            sums = {"masked": cross_entropy_sum(read_ND, table_VD, self.head.bias, labels_N)}
            if halves is not None:
                sums["halves"] = functional.cross_entropy(*halves, reduction="sum")
            return Losses(sums)
        found = {"masked": (self.head(masked_ND, table_VD), labels_N)}
        if halves is not None:
            found["halves"] = halves
        if self.pair_head is not None:
            found["pairs"] = (self.pair_head(hidden_ND[tensors["pairs"]]), tensors["pair_labels"])
        return guessing_losses(found, self.training)


def half_scores(
    hidden_BTD: torch.Tensor, doc_ids_BT: torch.Tensor, halves_H2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines between the mean vectors of all halves over the temperature, [2H, 2H], a half with itself left out; and
    which is the other half of each. ``halves_H2``: row and number of each first half, whose other half is the next sequence."""
    num_rows, _, dim = hidden_BTD.shape
    width = int(doc_ids_BT.max()) + 1
    place_BT = doc_ids_BT + width * torch.arange(num_rows, device=doc_ids_BT.device)[:, None]
    sums_SD = hidden_BTD.new_zeros(num_rows * width, dim).index_add(0, place_BT.flatten(), hidden_BTD.flatten(0, 1))
    first_H = halves_H2[:, 0] * width + halves_H2[:, 1]
    if not len(first_H):  # short passages alone
        return sums_SD[:0, :1], first_H
    vectors = functional.normalize(sums_SD[torch.cat((first_H, first_H + 1))].float(), dim=-1)  # as of means
    scores = vectors @ vectors.T / _TEMPERATURE
    scores = scores.masked_fill(torch.eye(len(scores), dtype=torch.bool, device=scores.device), -1e4)
    return scores, torch.arange(len(scores), device=scores.device).roll(-len(first_H))


class BertPretraining(EncoderPretraining):
    """An encoder that predicts hidden tokens."""

    objective: MaskedTokens

    def build_objective(self, config: RunConfig, corpus: Corpus, encoder: Encoder, specials: Specials) -> MaskedTokens:
        assert isinstance(config.objective, MaskedTokensConfig)
        return MaskedTokens(config.objective, encoder.config, specials)

    @classmethod
    def fewest_documents(cls, config: RunConfig) -> int:
        assert isinstance(config.objective, MaskedTokensConfig)
        return 1 if config.objective.pairs == "none" else 2
