"""Batches of sequences of similar length, with little padding; random numbers without a state; long work in slices.

Random numbers are pure functions of (seed, keys): SplitMix64 (Steele et al. 2014) hashes the keys. The same keys
give the same numbers on every machine, in any order and with any number of workers; no generator state has to be
saved.

B rows of a batch, T tokens, N tokens end to end, M batches.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
BATCH_TOKENS = 4096  # tokens that a trained model reads at a time

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


# -- slices

SLICE_STEPS = 64  # of a recurrent network

_between: ContextVar[Callable[[], None] | None] = ContextVar("between_slices", default=None)


@contextmanager
def in_slices(between: Callable[[], None] | None) -> Iterator[None]:
    """While this is open, ``between`` is called in this thread after each slice of work: a batch, a step of a search, some
    steps of a recurrent network. It may do other work meanwhile, or raise an exception to stop."""
    before = _between.set(between)
    try:
        yield
    finally:
        _between.reset(before)


def between_slices() -> None:
    """Called by long work at moments when it may be interrupted."""
    between = _between.get()
    if between is not None:
        between()


class Batches(list[Ints]):
    """The numbers of the sequences of each batch; a slice of work lies between two of them."""

    def __iter__(self) -> Iterator[Ints]:
        for batch in super().__iter__():
            between_slices()
            yield batch


def _finish(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def hashed(*keys: ArrayLike) -> NDArray[np.uint64]:
    """64 well-mixed bits for each combination of the keys (arrays broadcast)."""
    with np.errstate(over="ignore"):
        state = np.zeros((), np.uint64)
        for key in keys:
            state = _finish(state + _GOLDEN + np.asarray(key).astype(np.uint64))
    return np.asarray(state, np.uint64)


def uniform(*keys: ArrayLike) -> NDArray[np.float64]:
    """A uniform number in [0, 1) for each combination of the keys."""
    return (hashed(*keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator(*keys: int) -> np.random.Generator:
    """A NumPy generator seeded by the keys."""
    return np.random.Generator(np.random.Philox(key=int(hashed(*keys))))


def cut_batches(
    lens: Sequence[int] | Ints,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    *,
    padded: bool = True,
    equal: bool = False,
) -> Ints:
    """Borders [M+1] of batches among sequences of these lengths, in their order.

    A batch takes sequences for as long as it has at most ``max_rows`` of them and at most ``max_tokens`` tokens (unless
    one sequence alone has more). ``padded``: every row counts as long as the longest. ``equal``: lengths are the same.
    """
    assert max_tokens is None or max_tokens > 0
    assert max_rows is None or max_rows > 0
    sizes: list[int] = np.asarray(lens, np.int64).tolist()
    borders, longest, total = [0], 0, 0
    for place, size in enumerate(sizes):
        first = borders[-1]
        num_rows, longest, total = place - first + 1, max(longest, size), total + size
        full = max_rows is not None and num_rows > max_rows
        full |= max_tokens is not None and (num_rows * longest if padded else total) > max_tokens
        full |= equal and size != sizes[first]
        if full and num_rows > 1:
            borders.append(place)
            longest = total = size
    return np.asarray([*borders, len(sizes)] if sizes else borders, np.int64)


def batches_by_length(
    lens: Sequence[int] | Ints,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    *,
    longest_first: bool = False,
    padded: bool = True,
    equal: bool = False,
) -> Batches:
    """The numbers of the sequences of each batch, in order of length; limits as of ``cut_batches``.

    ``longest_first`` for what needs much memory, so that a lack of it shows at once.
    """
    lens_N = np.asarray(lens, np.int64)
    order = np.argsort(-lens_N if longest_first else lens_N, kind="stable")
    borders = cut_batches(lens_N[order], max_tokens, max_rows, padded=padded, equal=equal)
    return Batches(order[first:last] for first, last in pairwise(borders.tolist()))


def pad(rows: Sequence[Ints], pad_id: int = 0) -> tuple[Ints, Ints]:
    """Rows as an array [B, T], filled up at their ends, and 1 where there is a token."""
    lens_B = np.asarray([len(row) for row in rows])
    mask_BT = (np.arange(lens_B.max()) < lens_B[:, None]).astype(np.int64)
    ids_BT = np.full(mask_BT.shape, pad_id, np.int64)
    ids_BT[mask_BT > 0] = np.concatenate(rows)
    return ids_BT, mask_BT


# -- texts of any length through a model of limited length


def window_places(size: int, most: int) -> list[Ints]:
    """Places of the tokens in each window of at most ``most``, each with the first and the last token; nothing is cut off."""
    if size <= most:
        return [np.arange(size)]
    inner, room = np.arange(1, size - 1), most - 2
    return [np.concatenate(([0], inner[start : start + room], [size - 1])) for start in range(0, len(inner), room)]


def padded_batches(
    rows: Sequence[Ints], pad_id: int = 0, batch_tokens: int = BATCH_TOKENS
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """(numbers, ids [B, T], 1 where there is a token) of rows of like length."""
    for numbers in batches_by_length([len(row) for row in rows], batch_tokens):
        yield numbers, *pad([rows[number] for number in numbers], pad_id)


def packed_batches(rows: Sequence[Ints], batch_tokens: int = BATCH_TOKENS) -> Iterator[tuple[Ints, Ints, list[int]]]:
    """(numbers, ids [N], lengths) of rows end to end, in the order of their lengths, so that equal ones are neighbours."""
    lens = [len(row) for row in rows]
    for numbers in batches_by_length(lens, batch_tokens, padded=False):
        yield numbers, np.concatenate([rows[number] for number in numbers]), [lens[number] for number in numbers]


def pool_windows(pooled: Floats, owner: Ints, lens: Ints, num_texts: int, pool: str) -> Floats:
    """One vector per text from those of its windows: by length for the mean, else the first, the last or the largest."""
    if len(pooled) == num_texts:
        return pooled
    out = np.empty((num_texts, pooled.shape[1]), np.float32)
    for text in range(num_texts):
        mine = owner == text
        if pool == "mean":
            out[text] = np.average(pooled[mine], axis=0, weights=lens[mine])
        elif pool == "max":
            out[text] = pooled[mine].max(0)
        else:
            out[text] = pooled[mine][0 if pool == "cls" else -1]
    return out
