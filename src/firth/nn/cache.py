"""Keys and values of the tokens that were read, kept so that each is computed once.

L layers, N rows, H heads, T tokens that fit, K head size.
"""

import torch

from firth.nn.attention import Past

_ROOM = 64  # tokens that room is made for at a time


class KeyValues:
    """[L, 2, N, H, T, K], of which the first ``at`` tokens are filled."""

    def __init__(self, store: torch.Tensor, at: int = 0) -> None:
        self.store = store
        self.at = at

    @classmethod
    def empty(cls, num_layers: int, num_rows: int, num_heads: int, head_dim: int, like: torch.Tensor) -> "KeyValues":
        return cls(like.new_empty((num_layers, 2, num_rows, num_heads, 0, head_dim)))

    def of_layer(self, layer: int) -> Past:
        return self.store[layer, 0], self.store[layer, 1]

    def make_room(self, count: int) -> None:
        """For so many tokens more."""
        if self.at + count > self.store.shape[4]:
            self._renew(self.store, -(-(self.at + count) // _ROOM) * _ROOM)

    def _renew(self, filled: torch.Tensor, room: int) -> None:
        shape = (*filled.shape[:4], room, filled.shape[5])
        self.store = filled.new_empty(shape)
        self.store[..., : self.at, :] = filled[..., : self.at, :]

    def reorder(self, index_N: torch.Tensor) -> "KeyValues":
        """The cache whose row n is the old row ``index[n]``; only what is filled is copied."""
        found = KeyValues(self.store, self.at)
        found._renew(self.store[..., : self.at, :].index_select(2, index_N), self.store.shape[4])
        return found
