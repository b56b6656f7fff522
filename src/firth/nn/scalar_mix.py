"""A learned mix of the layers of a model (Peters et al. 2018, eq. 1): ``γ Σ_j s_j h_j``, s a softmax.

L layers, B batch, T tokens, D hidden size.
"""

import torch
from torch import nn

_EPS = 1e-12


class ScalarMix(nn.Module):
    """One number a layer and one for all. With ``layer_norm`` each layer is first brought to mean 0 and
    variance 1 over all numbers of the batch's real tokens, as the paper's own code does. ``l2`` is the λ on
    the scalars: 1 keeps the mix near the mean of the layers, 0.001 sets it free."""

    def __init__(self, num_layers: int, layer_norm: bool = False, l2: float = 0.0) -> None:
        super().__init__()
        self.layer_norm = layer_norm
        self.l2 = l2
        self.scalars = nn.Parameter(torch.zeros(num_layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, hidden_LBTD: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
        """[B, T, D]; the mask is read by the norm alone."""
        if len(hidden_LBTD) != len(self.scalars):
            raise ValueError(f"{len(hidden_LBTD)} layers for a mix of {len(self.scalars)}")
        if self.layer_norm:
            hidden_LBTD = _normed(hidden_LBTD, mask_BT)
        return self.gamma * torch.einsum("l,lbtd->btd", self.scalars.softmax(0), hidden_LBTD)

    def penalty(self) -> torch.Tensor:
        """λ Σ w², to be added to the task's loss."""
        return self.l2 * self.scalars.square().sum()

    def weights(self) -> list[float]:
        """The share of each layer."""
        found: list[float] = self.scalars.detach().softmax(0).tolist()
        return found


def _normed(hidden_LBTD: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    real = mask_BT[:, :, None].to(hidden_LBTD.dtype)
    count = real.sum() * hidden_LBTD.shape[-1]
    mean = (hidden_LBTD * real).sum((1, 2, 3), keepdim=True) / count
    variance = ((hidden_LBTD - mean) * real).square().sum((1, 2, 3), keepdim=True) / count
    return (hidden_LBTD - mean) / torch.sqrt(variance + _EPS)
