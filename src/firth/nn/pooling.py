"""One vector from those of many tokens: ``cls`` the first, ``last`` the last, ``mean``, or ``max`` of each column.

B rows, T tokens, N tokens of sequences end to end, S sequences, D hidden size.
"""

from collections.abc import Sequence

import torch


def pool_tokens(hidden_BTD: torch.Tensor, mask_BT: torch.Tensor, pool: str) -> torch.Tensor:
    """A vector per row, [B, D], from its tokens (where the mask is true); mean and max of an empty row are 0."""
    if pool == "cls":
        return hidden_BTD[:, 0]
    if pool == "last":
        places_T = torch.arange(mask_BT.shape[1], device=mask_BT.device)
        return hidden_BTD[torch.arange(len(mask_BT), device=mask_BT.device), (places_T * mask_BT).amax(1)]
    if pool == "max":
        found = hidden_BTD.masked_fill(~mask_BT[:, :, None], float("-inf")).amax(1)
        return found.masked_fill(~mask_BT.any(1)[:, None], 0.0)
    assert pool == "mean", pool
    weights = mask_BT[:, :, None].to(hidden_BTD.dtype)
    return (hidden_BTD * weights).sum(1) / weights.sum(1).clamp(min=1)


def pool_packed(hidden_ND: torch.Tensor, lens: Sequence[int], pool: str) -> torch.Tensor:
    """A vector per sequence, [S, D], of sequences that stand end to end; zeros for an empty one."""
    lens_S = torch.tensor(lens)
    found = hidden_ND.new_zeros(len(lens), hidden_ND.shape[1])
    if pool in ("cls", "last"):
        ends_S, there_S = torch.cumsum(lens_S, 0), lens_S > 0
        places_S = ends_S - lens_S if pool == "cls" else ends_S - 1
        found[there_S] = hidden_ND[places_S[there_S]]
        return found
    owner_N = torch.repeat_interleave(torch.arange(len(lens)), lens_S)
    if pool == "max":
        return pool_owned(hidden_ND, owner_N, len(lens), pool)
    assert pool == "mean", pool
    return found.index_add(0, owner_N, hidden_ND) / lens_S.clamp(min=1)[:, None]


def pool_owned(rows_BD: torch.Tensor, owner_B: torch.Tensor, num_owners: int, pool: str) -> torch.Tensor:
    """The mean or max of the rows of each owner, [owners, D]; zeros for one without any."""
    assert pool in ("mean", "max"), pool
    found = rows_BD.new_zeros(num_owners, rows_BD.shape[1])
    index = owner_B[:, None].expand_as(rows_BD)
    return found.scatter_reduce(0, index, rows_BD, "mean" if pool == "mean" else "amax", include_self=False)
