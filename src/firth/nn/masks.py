"""Which tokens may look at which: padding, what is to come, and a window.

B batch, T tokens.
"""

import torch


def visible(
    num_tokens: int,
    tokens_BT: torch.Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    device: torch.device | str = "cpu",
) -> torch.Tensor | None:
    """Boolean [B or 1, 1, T or 1, T], true where query (row) may look at key (column); None for everywhere.

    ``tokens`` is true where there is a token, ``window`` lets a token look at most so many away.
    """
    found = None if tokens_BT is None else tokens_BT[:, None, None, :]
    if causal or window is not None:
        places = torch.arange(num_tokens, device=device)
        away = places[:, None] - places[None, :]
        near = torch.ones_like(away, dtype=torch.bool)
        if causal:
            near &= away >= 0
        if window is not None:
            near &= away.abs() <= window
        found = near[None, None] if found is None else found & near
    return found


def with_bias(bias: torch.Tensor | None, mask: torch.Tensor | None) -> torch.Tensor | None:
    """A mask and numbers to add to the scores as one."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    # finite, so that a row that may look at nothing (padding beyond a window) has an even softmax and not NaN
    return bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
