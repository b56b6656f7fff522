"""Losses for sentence vectors, each as a sum over its examples.

B examples, C candidates, D dimensions, K classes.
"""

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def cosines(first_BD: torch.Tensor, second_CD: torch.Tensor) -> torch.Tensor:
    """[B, C]."""
    return functional.normalize(first_BD, dim=1) @ functional.normalize(second_CD, dim=1).T


def ranking_loss(
    anchors_BD: torch.Tensor, candidates_CD: torch.Tensor, scale: float, same_BC: torch.Tensor | None = None
) -> torch.Tensor:
    """In-batch negatives (Henderson et al. 2017; InfoNCE): the b-th candidate belongs to the b-th anchor, all others to others:
    -log softmax(scale · cos)_bb. ``same_BC`` is true where another candidate is right as well: it is left out."""
    scores_BC = scale * cosines(anchors_BD, candidates_CD)
    if same_BC is not None:
        scores_BC = scores_BC.masked_fill(same_BC, float("-inf"))
    targets_B = torch.arange(len(anchors_BD), device=scores_BC.device)
    return functional.cross_entropy(scores_BC, targets_B, reduction="sum")


def cosine_loss(first_BD: torch.Tensor, second_BD: torch.Tensor, scores_B: torch.Tensor) -> torch.Tensor:
    """(cos - score)², Reimers & Gurevych 2019."""
    return (functional.cosine_similarity(first_BD, second_BD) - scores_B).square().sum()


def cosent_loss(first_BD: torch.Tensor, second_BD: torch.Tensor, scores_B: torch.Tensor, scale: float) -> torch.Tensor:
    """CoSENT (Su 2022): B · log(1 + Σ exp(scale (cos_i - cos_j))) over pairs of examples with score_i < score_j."""
    found_B = scale * functional.cosine_similarity(first_BD, second_BD)
    gaps_BB = found_B[:, None] - found_B[None, :]
    gaps_BB = gaps_BB.masked_fill(~(scores_B[:, None] < scores_B[None, :]), float("-inf"))
    return len(found_B) * torch.logsumexp(torch.cat((gaps_BB.new_zeros(1), gaps_BB.flatten())), 0)


def softmax_loss(
    first_BD: torch.Tensor, second_BD: torch.Tensor, out: torch.nn.Linear, targets_B: torch.Tensor
) -> torch.Tensor:
    """Classes of pairs from u, v and |u - v| (Reimers & Gurevych 2019)."""
    joined_B3D = torch.cat((first_BD, second_BD, (first_BD - second_BD).abs()), 1)
    return functional.cross_entropy(out(joined_B3D), targets_B, reduction="sum")


def over_widths(
    vectors_ED: torch.Tensor, widths: Sequence[int], loss: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Matryoshka (Kusupati et al. 2022): the mean of a loss over vectors cut to each width; all of them without any."""
    if not widths:
        return loss(vectors_ED)
    return torch.stack([loss(vectors_ED[:, :width]) for width in widths]).mean()
