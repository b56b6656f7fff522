"""Kernels of the Unigram trainer over the lattices of all words (Numba; import this file late).

Characters are small numbers. A trie of pieces is a hash table: (node, character) -> node, and
``piece_at[node]`` is the piece that ends there, or -1.
"""

import numpy as np
from numpy.typing import NDArray

from firth.core.compiled import compile_function

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_PIECE = 16
MAX_WORD = 32  # so short that products of probabilities stay above the smallest float


@compile_function
def _slot(keys: Longs, key: int) -> int:
    """Where the key is, or the free slot where it belongs."""
    last = len(keys) - 1
    mixed = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    slot = np.int64(mixed & np.uint64(last))
    while keys[slot] != -1 and keys[slot] != key:
        slot = (slot + 1) & last
    return int(slot)


@compile_function
def build_trie(chars: Ints, ends: Longs, num_chars: int, num_slots: int) -> tuple[Longs, Ints, Ints]:
    """The trie of the pieces spelled one after another in ``chars``."""
    keys = np.full(num_slots, -1, np.int64)
    nodes = np.zeros(num_slots, np.int32)
    piece_at = np.full(len(chars) + 1, -1, np.int32)
    num_nodes = 1
    start = 0
    for piece in range(len(ends)):
        node = 0
        for place in range(start, ends[piece]):
            key = np.int64(node) * num_chars + chars[place]
            slot = _slot(keys, key)
            if keys[slot] == -1:
                keys[slot] = key
                nodes[slot] = num_nodes
                num_nodes += 1
            node = nodes[slot]
        piece_at[node] = piece
        start = ends[piece]
    return keys, nodes, piece_at


@compile_function
def expected_counts(
    chars: Ints, ends: Longs, counts: Floats, keys: Longs, nodes: Ints, piece_at: Ints, probs: Floats, num_chars: int
) -> Floats:
    """Forward and backward over every word: how often each piece is used (Kudo 2018, eq. 2)."""
    expected = np.zeros(len(probs))
    alpha = np.zeros(MAX_WORD + 1)
    beta = np.zeros(MAX_WORD + 1)
    arcs = np.zeros((MAX_WORD * MAX_PIECE, 3), np.int32)
    start = 0
    for word in range(len(ends)):
        size = ends[word] - start
        alpha[: size + 1] = 0.0
        beta[: size + 1] = 0.0
        alpha[0] = beta[size] = 1.0
        num_arcs = 0
        for first in range(size):
            node = 0
            for last in range(first, min(size, first + MAX_PIECE)):
                slot = _slot(keys, np.int64(node) * num_chars + chars[start + last])
                if keys[slot] == -1:
                    break
                node = nodes[slot]
                piece = piece_at[node]
                if piece >= 0:
                    alpha[last + 1] += alpha[first] * probs[piece]
                    arcs[num_arcs, 0], arcs[num_arcs, 1], arcs[num_arcs, 2] = first, last + 1, piece
                    num_arcs += 1
        for arc in range(num_arcs - 1, -1, -1):
            beta[arcs[arc, 0]] += probs[arcs[arc, 2]] * beta[arcs[arc, 1]]
        if alpha[size] > 0.0:
            share = counts[word] / alpha[size]
            for arc in range(num_arcs):
                piece = arcs[arc, 2]
                expected[piece] += share * alpha[arcs[arc, 0]] * probs[piece] * beta[arcs[arc, 1]]
        start = ends[word]
    return expected


@compile_function
def _best_path(
    chars: Ints,
    start: int,
    size: int,
    keys: Longs,
    nodes: Ints,
    piece_at: Ints,
    logs: Floats,
    num_chars: int,
    without: int,
    path: Ints,
) -> int:
    """The likeliest pieces of one word, not using the piece ``without``; how many, or 0 if there are none."""
    best = np.full(size + 1, -np.inf)
    back = np.zeros(size + 1, np.int32)
    used = np.zeros(size + 1, np.int32)
    best[0] = 0.0
    for first in range(size):
        if best[first] == -np.inf:
            continue
        node = 0
        for last in range(first, min(size, first + MAX_PIECE)):
            slot = _slot(keys, np.int64(node) * num_chars + chars[start + last])
            if keys[slot] == -1:
                break
            node = nodes[slot]
            piece = piece_at[node]
            if piece >= 0 and piece != without and best[first] + logs[piece] > best[last + 1]:
                best[last + 1] = best[first] + logs[piece]
                back[last + 1] = first
                used[last + 1] = piece
    if best[size] == -np.inf:
        return 0
    place, length = size, 0
    while place > 0:
        path[length] = used[place]
        length += 1
        place = back[place]
    return length


@compile_function
def best_counts(
    chars: Ints, ends: Longs, counts: Floats, keys: Longs, nodes: Ints, piece_at: Ints, logs: Floats, num_chars: int
) -> Floats:
    """How often each piece occurs in the likeliest segmentation of the words."""
    found = np.zeros(len(logs))
    path = np.zeros(MAX_WORD, np.int32)
    start = 0
    for word in range(len(ends)):
        length = _best_path(chars, start, ends[word] - start, keys, nodes, piece_at, logs, num_chars, -1, path)
        for place in range(length):
            found[path[place]] += counts[word]
        start = ends[word]
    return found


@compile_function
def losses(
    chars: Ints, ends: Longs, used: Floats, keys: Longs, nodes: Ints, piece_at: Ints, logs: Floats, num_chars: int
) -> Floats:
    """How much likelihood is lost when a piece is replaced by others (as in SentencePiece)."""
    total = used.sum()
    lost = np.full(len(logs), np.inf)  # a piece that nothing else spells must stay
    path = np.zeros(MAX_WORD, np.int32)
    start = 0
    for piece in range(len(ends)):
        length = _best_path(chars, start, ends[piece] - start, keys, nodes, piece_at, logs, num_chars, piece, path)
        if length > 0:
            lost[piece] = 0.0
            if used[piece] > 0:
                other = -length * np.log(total + used[piece] * (length - 1))
                for place in range(length):
                    other += np.log(used[path[place]] + used[piece])
                lost[piece] = used[piece] * (np.log(used[piece] / total) - other)
        start = ends[piece]
    return lost
