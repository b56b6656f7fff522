"""The three inner steps that every kernel of this room is made of, written in lanes.

Targets are output rows that ought to score 1 (a neighbour) or 0 (noise), six at a time, because
six rows, their six updates and what goes between them just fill sixteen registers. A list of
targets is padded to a multiple of six; the padding has rate 0 and so changes nothing. Each six
sees what the six before it changed. The plain twins are in ``reference.py``.
"""

from typing import Any

import numpy as np

from firth.core.machine_code import Function, compile_function
from firth.vectors.lanes import add, div, higher, load, lower, mul, muladd, prefetch, splat, store, sub, totals

SIX = 6


def compiled(function: Function) -> Function:
    """Machine code that runs without the interpreter's lock."""
    return compile_function(function, nogil=True, fastmath=True, error_model="numpy")


@compiled
def sigmoid(score: Any) -> Any:
    """1 / (1 + exp(-x)) to float32 precision, as a ratio of polynomials (Eigen's tanh of x/2)."""
    x = mul(lower(higher(score, splat(-15.8)), splat(15.8)), splat(0.5))
    y = mul(x, x)
    p = muladd(y, splat(-2.76076847742355e-16), splat(2.00018790482477e-13))
    p = muladd(y, p, splat(-8.60467152213735e-11))
    p = muladd(y, p, splat(5.12229709037114e-08))
    p = muladd(y, p, splat(1.48572235717979e-05))
    p = muladd(y, p, splat(6.37261928875436e-04))
    p = muladd(y, p, splat(4.89352455891786e-03))
    q = muladd(y, splat(1.19825839466702e-06), splat(1.18534705686654e-04))
    q = muladd(y, q, splat(2.26843463243900e-03))
    q = muladd(y, q, splat(4.89352518554385e-03))
    return muladd(div(mul(p, x), q), splat(0.5), splat(0.5))


@compiled
def mixed(state: Any) -> Any:
    """SplitMix64's output function: 64 random bits from a counter."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@compiled
def fetch(matrix: Any, start: int, dim: int) -> None:
    """Asks for a row before it is needed."""
    for place in range(start, start + dim, 16):
        prefetch(matrix, place)


@compiled
def update_pairs(
    inputs: Any,
    rows: Any,
    num_rows: int,
    outputs: Any,
    targets: Any,
    goals: Any,
    rates: Any,
    first: int,
    slopes: Any,
    dim: int,
) -> None:
    """Each input row for itself predicts the six targets from ``first`` on: one small matrix product
    forward, two back. ``rows[num_rows]`` must be valid; ``slopes`` keeps what each pair was off by."""
    c0, c1, c2 = targets[first], targets[first + 1], targets[first + 2]
    c3, c4, c5 = targets[first + 3], targets[first + 4], targets[first + 5]
    goal, rate, zero = load(goals, first), load(rates, first), splat(0.0)
    for one in range(0, num_rows, 2):
        a, b = rows[one], rows[one + 1]
        a0 = a1 = a2 = a3 = a4 = a5 = b0 = b1 = b2 = b3 = b4 = b5 = zero
        for t in range(0, dim, 8):
            x, y = load(inputs, a + t), load(inputs, b + t)
            c = load(outputs, c0 + t)
            a0, b0 = muladd(x, c, a0), muladd(y, c, b0)
            c = load(outputs, c1 + t)
            a1, b1 = muladd(x, c, a1), muladd(y, c, b1)
            c = load(outputs, c2 + t)
            a2, b2 = muladd(x, c, a2), muladd(y, c, b2)
            c = load(outputs, c3 + t)
            a3, b3 = muladd(x, c, a3), muladd(y, c, b3)
            c = load(outputs, c4 + t)
            a4, b4 = muladd(x, c, a4), muladd(y, c, b4)
            c = load(outputs, c5 + t)
            a5, b5 = muladd(x, c, a5), muladd(y, c, b5)
        store(slopes, one * 8, mul(sub(goal, sigmoid(totals(a0, a1, a2, a3, a4, a5))), rate))
        store(slopes, one * 8 + 8, mul(sub(goal, sigmoid(totals(b0, b1, b2, b3, b4, b5))), rate))
    for t in range(0, dim, 8):
        o0, o1, o2 = load(outputs, c0 + t), load(outputs, c1 + t), load(outputs, c2 + t)
        o3, o4, o5 = load(outputs, c3 + t), load(outputs, c4 + t), load(outputs, c5 + t)
        d0 = d1 = d2 = d3 = d4 = d5 = zero
        for one in range(num_rows):
            x = load(inputs, rows[one] + t)
            s, j = x, one * 8
            g = splat(slopes[j])
            s, d0 = muladd(g, o0, s), muladd(g, x, d0)
            g = splat(slopes[j + 1])
            s, d1 = muladd(g, o1, s), muladd(g, x, d1)
            g = splat(slopes[j + 2])
            s, d2 = muladd(g, o2, s), muladd(g, x, d2)
            g = splat(slopes[j + 3])
            s, d3 = muladd(g, o3, s), muladd(g, x, d3)
            g = splat(slopes[j + 4])
            s, d4 = muladd(g, o4, s), muladd(g, x, d4)
            g = splat(slopes[j + 5])
            s, d5 = muladd(g, o5, s), muladd(g, x, d5)
            store(inputs, rows[one] + t, s)
        # A row may be a target twice: hence it is read again before each sum is written.
        store(outputs, c0 + t, add(load(outputs, c0 + t), d0))
        store(outputs, c1 + t, add(load(outputs, c1 + t), d1))
        store(outputs, c2 + t, add(load(outputs, c2 + t), d2))
        store(outputs, c3 + t, add(load(outputs, c3 + t), d3))
        store(outputs, c4 + t, add(load(outputs, c4 + t), d4))
        store(outputs, c5 + t, add(load(outputs, c5 + t), d5))


@compiled
def gather(inputs: Any, rows: Any, num_rows: int, hidden: Any, error: Any, dim: int) -> None:
    """``hidden`` becomes the mean of the input rows, ``error`` nothing."""
    share, zero = splat(np.float32(1.0) / np.float32(num_rows)), splat(0.0)
    for t in range(0, dim, 8):
        x = zero
        for one in range(num_rows):
            x = add(x, load(inputs, rows[one] + t))
        store(hidden, t, mul(x, share))
        store(error, t, zero)


@compiled
def update_hidden(
    hidden: Any, error: Any, outputs: Any, targets: Any, goals: Any, rates: Any, first: int, slopes: Any, dim: int
) -> None:
    """The hidden vector predicts the six targets from ``first`` on; what it should change by is
    added to ``error``."""
    c0, c1, c2 = targets[first], targets[first + 1], targets[first + 2]
    c3, c4, c5 = targets[first + 3], targets[first + 4], targets[first + 5]
    a0 = a1 = a2 = a3 = a4 = a5 = splat(0.0)
    for t in range(0, dim, 8):
        x = load(hidden, t)
        a0, a1 = muladd(x, load(outputs, c0 + t), a0), muladd(x, load(outputs, c1 + t), a1)
        a2, a3 = muladd(x, load(outputs, c2 + t), a2), muladd(x, load(outputs, c3 + t), a3)
        a4, a5 = muladd(x, load(outputs, c4 + t), a4), muladd(x, load(outputs, c5 + t), a5)
    slope = mul(sub(load(goals, first), sigmoid(totals(a0, a1, a2, a3, a4, a5))), load(rates, first))
    store(slopes, 0, slope)
    g0, g1, g2 = splat(slopes[0]), splat(slopes[1]), splat(slopes[2])
    g3, g4, g5 = splat(slopes[3]), splat(slopes[4]), splat(slopes[5])
    for t in range(0, dim, 8):
        x, e = load(hidden, t), load(error, t)
        c = load(outputs, c0 + t)
        e = muladd(g0, c, e)
        store(outputs, c0 + t, muladd(g0, x, c))
        c = load(outputs, c1 + t)
        e = muladd(g1, c, e)
        store(outputs, c1 + t, muladd(g1, x, c))
        c = load(outputs, c2 + t)
        e = muladd(g2, c, e)
        store(outputs, c2 + t, muladd(g2, x, c))
        c = load(outputs, c3 + t)
        e = muladd(g3, c, e)
        store(outputs, c3 + t, muladd(g3, x, c))
        c = load(outputs, c4 + t)
        e = muladd(g4, c, e)
        store(outputs, c4 + t, muladd(g4, x, c))
        c = load(outputs, c5 + t)
        e = muladd(g5, c, e)
        store(outputs, c5 + t, muladd(g5, x, c))
        store(error, t, e)


@compiled
def spread(inputs: Any, rows: Any, num_rows: int, error: Any, dim: int) -> None:
    """Adds ``error`` to every input row (in full, as word2vec.c and fastText do)."""
    for one in range(num_rows):
        for t in range(0, dim, 8):
            store(inputs, rows[one] + t, add(load(inputs, rows[one] + t), load(error, t)))


@compiled
def surprise(slopes: Any, rates: Any, first: int) -> float:
    """The loss of six predictions, -log of the probability of each goal, from what they were off by."""
    loss = 0.0
    for one in range(SIX):
        if rates[first + one] > 0:
            loss -= np.log(max(1.0 - abs(slopes[one] / rates[first + one]), 1e-7))
    return loss
