"""Keys and values of the tokens that were read, kept so that each is computed once.

The rows of a sentence (the hypotheses of a beam) share one list of entries. A token that was read while
there was one row is one entry that all rows see; after that every step adds an entry a row, and which
entries a row sees says which tokens it consists of. So when rows change places nothing is copied but
what they see, and a row that was given up leaves entries that nobody sees; now and then these are dropped.

L layers, S sentences, W rows a sentence, N = S * W rows, H heads, J entries, T new tokens, K head size.
"""

import functools

import torch
from torch.nn import functional

Past = tuple[torch.Tensor, torch.Tensor]  # keys and values that were computed before
_ROOM = 256  # entries that room is made for at least
_FEW = 64  # entries of which none are dropped
_HIDDEN = float("-inf")


class KeyValues:
    """[L, 2, S, H, J, K], of which the first ``filled`` entries are used."""

    def __init__(self, store: torch.Tensor, drops: bool = True) -> None:
        """``drops``: whether entries that nobody sees are dropped; then it is not known where entries stand."""
        self.store = store
        self.drops, self.dropped_at = drops, _FEW
        self.sentence_N = torch.arange(store.shape[2], device=store.device)
        self.starts = [0]  # the first entry of each token, and where the next one's will be
        self.seen_NJ: torch.Tensor | None = None  # 0 or -inf, to be added to scores; None: every entry is seen
        self.new = slice(0, 0)
        self.left_S: torch.Tensor | None = None  # the old numbers of the sentences where some have moved or left

    @classmethod
    def empty(
        cls, num_layers: int, num_rows: int, num_heads: int, head_dim: int, like: torch.Tensor, drops: bool = True
    ) -> "KeyValues":
        return cls(like.new_empty((num_layers, 2, num_rows, num_heads, 0, head_dim)), drops)

    @property
    def at(self) -> int:
        """How many tokens were read."""
        return len(self.starts) - 1

    @property
    def filled(self) -> int:
        return self.starts[-1]

    @property
    def num_sentences(self) -> int:
        return self.store.shape[2]

    @property
    def width(self) -> int:
        """How many rows a sentence has."""
        return len(self.sentence_N) // self.num_sentences

    def places(self, first: int = 0) -> torch.Tensor:
        """[J]: the position in its text of the token of each entry, from the token ``first`` on."""
        assert not self.drops
        ends = torch.tensor(self.starts[first:], device=self.store.device)
        return torch.arange(first, self.at, device=self.store.device).repeat_interleave(ends.diff())

    # -- reading tokens

    def open(self, count: int) -> torch.Tensor | None:
        """Makes room for so many more tokens of every row. What they see, [S, 1, T * W, J], token by token and in
        each row by row; None where every token sees all before it and itself (for one token: all)."""
        width, before = self.width, self.filled
        self.starts += range(before + width, before + count * width + 1, width)
        self.new = slice(before, self.filled)
        if self.filled > self.store.shape[4]:
            self._grow(max(self.filled, 2 * before, _ROOM))
        own_TWJ = _own(count, width, self.store.dtype, self.store.device)
        if self.seen_NJ is None and width == 1:
            return None if not before or count == 1 else functional.pad(own_TWJ[:, 0], (before, 0))[None, None]
        seen_NJ = self.store.new_zeros(len(self.sentence_N), before) if self.seen_NJ is None else self.seen_NJ
        new_TNJ = torch.cat((seen_NJ.expand(count, -1, -1), own_TWJ.repeat(1, self.num_sentences, 1)), 2)
        self.seen_NJ = new_TNJ[-1]
        return new_TNJ.view(count, -1, width, self.filled).transpose(0, 1).flatten(1, 2)[:, None]

    def _grow(self, room: int) -> None:
        old, filled = self.store, self.new.start
        self.store = old.new_empty((*old.shape[:4], room, old.shape[5]))
        self.store[..., :filled, :] = old[..., :filled, :]

    def put(self, layer: int, both_2SHJK: torch.Tensor, first: int = 0) -> Past:
        """Keys and values of the new tokens go in; those of all tokens from ``first`` on come out."""
        self.store[layer, :, :, :, self.new] = both_2SHJK
        found = self.store[layer, :, :, :, self.starts[first] : self.filled]
        return found[0], found[1]

    # -- moving rows

    def reorder(self, index_N: torch.Tensor) -> "KeyValues":
        """The cache whose row n is the old row ``index[n]``. It takes over the memory: the old one
        may not be used afterwards."""
        found = KeyValues(self.store, self.drops)
        found.starts, found.dropped_at = list(self.starts), self.dropped_at
        if self.seen_NJ is not None:
            found.seen_NJ = self.seen_NJ.index_select(0, index_N)
        sentence_N = self.sentence_N.index_select(0, index_N)
        if not torch.equal(sentence_N, self.sentence_N):
            found.left_S, sentence_N = group_rows(sentence_N)
            found.store = take_sentences(self.store, 2, found.left_S, self.filled)
        found.sentence_N = sentence_N
        if found.drops and found.seen_NJ is not None and found.filled >= found.dropped_at:
            found._drop(found.seen_NJ.view(found.num_sentences, found.width, -1))
        return found

    def _drop(self, seen_SWJ: torch.Tensor) -> None:
        """Entries that no row of their sentence sees, as far as all sentences have such. The next time is when there
        are twice as many as are left."""
        used_SJ = (seen_SWJ == 0).any(1)
        most = int(used_SJ.sum(1).max())
        self.dropped_at = max(_FEW, 2 * most)
        if 2 * most > self.filled:
            return
        kept_SJ = used_SJ.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        index = kept_SJ[None, None, :, None, :, None].expand(*self.store.shape[:4], -1, self.store.shape[5])
        self.store[..., :most, :] = self.store[..., : self.filled, :].gather(4, index)
        self.seen_NJ = seen_SWJ.gather(2, kept_SJ[:, None].expand(-1, seen_SWJ.shape[1], -1)).flatten(0, 1)
        self.starts = [0] * self.at + [most]


@functools.lru_cache(maxsize=8)
def _own(count: int, width: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """[T, W, T * W]: what new tokens see of one another, those of their row up to themselves."""
    with torch.inference_mode(False):  # it outlives the first caller
        row = torch.eye(width, device=device, dtype=torch.bool)
        before = torch.ones(count, count, device=device, dtype=torch.bool).tril()
        visible = (before[:, None, :, None] & row[None, :, None, :]).flatten(2)
        return torch.zeros(visible.shape, device=device, dtype=dtype).masked_fill(~visible, _HIDDEN)


def group_rows(sentence_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The sentences that rows belong to, in their order, and the new number of each row's; where the rows of one do
    not stand together or are not equally many, each row is a sentence of its own."""
    sentences_S, number_N, counts_S = torch.unique_consecutive(sentence_N, return_inverse=True, return_counts=True)
    if bool((counts_S == counts_S[:1]).all()):
        return sentences_S, number_N
    return sentence_N, torch.arange(len(sentence_N), device=sentence_N.device)


def take_sentences(store: torch.Tensor, dim: int, sentences_S: torch.Tensor, filled: int) -> torch.Tensor:
    """The given sentences, in place where they are not more than before: only those that move are copied.
    Of the next to last dimension the first ``filled`` count."""
    store = store.movedim(dim, 0)
    if len(sentences_S) > len(store):
        return store.index_select(0, sentences_S).movedim(0, dim)
    to = (sentences_S != torch.arange(len(sentences_S), device=store.device)).nonzero()[:, 0]
    if len(to):
        used = store[..., :filled, :]
        used[to] = used[sentences_S[to]]
    return store[: len(sentences_S)].movedim(0, dim)
