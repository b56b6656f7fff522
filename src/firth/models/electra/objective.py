"""Replaced tokens: a small generator fills in masks, the model tells which tokens are not the original ones
(Clark et al. 2020).

The generator learns masked tokens as BERT does; its samples stand in the place of the masks, and the
model says of every token whether it was replaced (a sample that hits the original counts as original).
Nothing flows back from the second loss to the generator through the sampling: it is an argmax of no
derivative. Token, position and segment tables are shared. The random numbers of the sampling belong
to the batch, so that a batch and its weights give one loss.

B rows, T tokens, P chosen tokens of a row, N chosen tokens in all, D hidden size, V vocabulary.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.run import Scores
from firth.core.types import Batch, Inputs, Losses, uniform
from firth.corpus.format import Corpus, PackedRows, Split, need_text
from firth.models.electra.config import ReplacedTokensConfig
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, ReplacedHead, TokenHead
from firth.models.shared.pretraining import EncoderPretraining, Pretraining
from firth.models.shared.published import load_encoder, save_encoder
from firth.models.shared.rows import Specials, Turns, build_rows, hide_tokens

_SAMPLE = 5  # what the random numbers here are for


def generator_config(model: EncoderConfig, share: float) -> EncoderConfig:
    """The generator's shape: as deep, ``share`` as wide, over the same embeddings; heads of even width, which rotary
    positions need."""
    num_heads = max(1, round(model.num_heads * share))
    hidden_dim = max(1, round(model.hidden_dim * share / num_heads / 2)) * 2 * num_heads
    return model.replace(
        embedding_dim=model.token_dim,
        hidden_dim=hidden_dim,
        num_heads=num_heads,
        ffn_dim=max(1, round(model.ffn_dim * share)),
    )


def sample(scores_NV: torch.Tensor, draws_N: torch.Tensor) -> torch.Tensor:
    """A token for each row of scores by its softmax: where the running sum of probabilities passes the draw."""
    sums_NV = scores_NV.detach().float().softmax(-1).cumsum(-1)
    draws_N = draws_N.to(sums_NV.dtype).clamp(max=1 - 2**-22)  # rounding must not make it 1
    wanted_N1 = draws_N[:, None] * sums_NV[:, -1:]  # the last sum is 1 but for rounding
    found_N: torch.Tensor = torch.searchsorted(sums_NV, wanted_N1, right=True)[:, 0]
    return found_N.clamp(max=scores_NV.shape[-1] - 1)


class ReplacedTokens(nn.Module):
    """The objective: masked rows, the generator with its head, the head of the model, both losses."""

    def __init__(
        self, config: ReplacedTokensConfig, model: EncoderConfig, generator: Encoder, specials: Specials
    ) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.generator = generator
        self.head = TokenHead(generator_config(model, config.generator_ratio))
        self.replaced_head = ReplacedHead(model)
        self.weights = {"generator": 1.0, "replaced": config.replaced_weight}

    def heads(self) -> dict[str, nn.Module]:
        """The part above the model by the name under which it is kept."""
        return {"replaced_head": self.replaced_head}

    def rows(self, split: Split, seed: int) -> PackedRows:
        rows = PackedRows.of_documents(split, self.config.seq_len, 2, seed)
        need_text(split, len(rows))
        return rows

    def batch(self, split: Split, rows: PackedRows, seed: int, first: int, count: int) -> Batch:
        """Rows ``first`` to ``first + count`` of the endless sequence; a pure function of its arguments."""
        turns = Turns.of(rows, self.config, seed, first, count)
        plain = build_rows(split, rows, turns, self.config, self.specials)
        hidden = hide_tokens(plain, self.config, self.specials, turns.key)
        draws: NDArray[np.float64] = uniform(*turns.key, _SAMPLE, np.arange(hidden.chosen.shape[1]))
        return hidden.batch(
            {"generator": hidden.num_chosen, "replaced": plain.num_tokens},
            places=np.flatnonzero(hidden.cut(hidden.chosen)),  # among all tokens
            draws=draws[hidden.chosen],
        )

    def loss(self, model: Encoder, batch: Batch) -> Losses:
        """Cross-entropy of the generator at the masks; binary cross-entropy of the model at every token."""
        tensors = batch.tensors
        inputs, labels = Inputs.of(tensors), tensors["labels"]
        ids = inputs.ids
        hidden_BPD = self.generator.picked(inputs, tensors["picks"])
        scores_NV = self.head(hidden_BPD.flatten(0, 1)[tensors["masked"]], model.embeddings.tokens.weight)
        guesses_N = sample(scores_NV, tensors["draws"])
        replaced_BT = torch.zeros(ids.shape, dtype=torch.bool, device=ids.device)
        replaced_BT.view(-1)[tensors["places"]] = guesses_N != labels
        seen_BT = ids.clone()
        seen_BT.view(-1)[tensors["places"]] = guesses_N
        real_BT = inputs.mask
        found_M = self.replaced_head(model.last(replace(inputs, ids=seen_BT))[real_BT])
        wanted_M = replaced_BT[real_BT]
        sums = {
            "generator": functional.cross_entropy(scores_NV, labels, reduction="sum"),
            "replaced": functional.binary_cross_entropy_with_logits(found_M, wanted_M.float(), reduction="sum"),
        }
        if self.training:
            return Losses(sums)
        hits_M = (found_M > 0) == wanted_M
        metrics = {
            "generator_accuracy": (float((scores_NV.argmax(-1) == labels).sum()), float(len(labels))),
            "replaced_accuracy": (float(hits_M.sum()), float(len(hits_M))),
            "replaced_recall": (float(hits_M[wanted_M].sum()), float(wanted_M.sum())),
            "replaced_share": (float(wanted_M.sum()), float(len(wanted_M))),
        }
        return Losses(sums, metrics)


_GENERATOR = "generator"


class ElectraPretraining(EncoderPretraining):
    """The discriminator is the model; the generator belongs to the objective and is stored in the run's folder generator/."""

    published = (*Pretraining.published, f"{_GENERATOR}/config.json", f"{_GENERATOR}/model.safetensors")
    objective: ReplacedTokens

    def build_objective(
        self, config: RunConfig, corpus: Corpus, encoder: Encoder, specials: Specials
    ) -> ReplacedTokens:
        assert isinstance(config.objective, ReplacedTokensConfig)
        generator = Encoder(generator_config(encoder.config, config.objective.generator_ratio), encoder.embeddings)
        return ReplacedTokens(config.objective, encoder.config, generator, specials)

    def start_from(self, base: Path) -> None:
        """The discriminator of a directory and, where one lies in ``generator/``, its generator."""
        super().start_from(base)
        if not (base / _GENERATOR / "config.json").is_file():
            return
        theirs, encoder, heads = load_encoder(base / _GENERATOR)
        if theirs.hidden_dim != self.objective.generator.config.hidden_dim:
            raise FirthError(
                f"{base / _GENERATOR}: a generator {theirs.hidden_dim} wide where generator_ratio asks for {self.objective.generator.config.hidden_dim}: use the share that the base was trained with"
            )
        own = {name: tensor for name, tensor in encoder.items() if not name.startswith("embeddings.")}
        self.objective.generator.load_state_dict(own)
        if "token_head" in heads:
            self.objective.head.load_state_dict(heads["token_head"])

    def export(self, folder: Path) -> None:
        """A directory of the discriminator, and one of the generator with a copy of the shared tables."""
        super().export(folder)
        shared = {name: tensor for name, tensor in self.model.state_dict().items() if name.startswith("embeddings.")}
        generator = {**shared, **self.objective.generator.state_dict()}
        token_head = {"token_head": dict(self.objective.head.state_dict())}
        (folder / _GENERATOR).mkdir(exist_ok=True)
        pad_id = self.objective.specials.pad_id
        save_encoder(folder / _GENERATOR, self.objective.generator.config, generator, token_head, pad_id)
        self.corpus.pieces.save(folder / _GENERATOR)

    def extra_scores(self, folder: Path, num_texts: int) -> Scores:
        """None: a discriminator gives tokens no probabilities."""
        return Scores()
