"""Eight floats at a time: the handful of vector operations that the kernels are written in.

Numba's own loops vectorise a single row well, but keep no tile of several rows in registers.
Here ``Lanes`` is a Numba type of eight float32 (one AVX register; LLVM splits it in two where the
machine has narrower ones), so that a kernel says which values stay in registers and remains Python.
Offsets count floats in a flat array; nothing here checks borders.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as untyped_intrinsic
from numba.extending import models, register_model

from firth.core.compiled import Function, compile_function

WIDTH = 8
_VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
_FAST = ("reassoc", "contract", "nsz", "arcp")


def intrinsic(typed: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator; what it makes is called without the typing context."""
    made: Callable[..., Any] = untyped_intrinsic(typed)
    return made


class LanesType(types.Type):
    """The Numba type of eight float32."""

    def __init__(self) -> None:
        super().__init__(name="Lanes8")


LANES = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, _VECTOR)


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    offset = context.cast(builder, arguments[1], signature.args[1], types.intp)
    return builder.gep(array.data, [offset])


def _constant(values: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(values)), values)


def _declared(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


@intrinsic
def load(typingctx: Any, array: Any, offset: Any) -> Any:
    """The eight floats that begin at ``offset``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=4)

    return LANES(array, offset), emit


@intrinsic
def store(typingctx: Any, array: Any, offset: Any, value: Any) -> Any:
    """Writes eight floats at ``offset``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        builder.store(arguments[2], builder.bitcast(place, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, offset, value), emit


@intrinsic
def prefetch(typingctx: Any, array: Any, offset: Any) -> Any:
    """Asks for the cache line of ``offset`` ahead of its use (for writing, into all caches)."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        function = _declared(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, flag, flag, flag])
        place = builder.bitcast(_pointer(context, builder, signature, arguments), byte)
        builder.call(function, [place, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, offset), emit


@intrinsic
def splat(typingctx: Any, value: Any) -> Any:
    """The same float in all eight lanes."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = context.cast(builder, arguments[0], signature.args[0], types.float32)
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.IntType(32)(0))
        return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), _constant([0] * WIDTH))

    return LANES(value), emit


@intrinsic
def muladd(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_declared(builder, "llvm.fmuladd.v8f32", _VECTOR, [_VECTOR] * 3), arguments)

    return LANES(a, b, c), emit


def _binary(emitted: Callable[[Any, Any, Any], Any], doc: str) -> Callable[..., Any]:
    def typed(typingctx: Any, a: Any, b: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emitted(builder, *arguments)

        return LANES(a, b), emit

    typed.__doc__ = doc
    return intrinsic(typed)


def _select(sign: str) -> Callable[[Any, Any, Any], Any]:
    return lambda builder, a, b: builder.select(builder.fcmp_ordered(sign, a, b), a, b)


add = _binary(lambda builder, a, b: builder.fadd(a, b, flags=_FAST), "a + b.")
sub = _binary(lambda builder, a, b: builder.fsub(a, b, flags=_FAST), "a - b.")
mul = _binary(lambda builder, a, b: builder.fmul(a, b, flags=_FAST), "a * b.")
div = _binary(lambda builder, a, b: builder.fdiv(a, b, flags=_FAST), "a / b.")
lower = _binary(_select("<"), "The lower of a and b, lane by lane.")
higher = _binary(_select(">"), "The higher of a and b, lane by lane.")


@intrinsic
def sqrt(typingctx: Any, a: Any) -> Any:
    """The square root, lane by lane."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_declared(builder, "llvm.sqrt.v8f32", _VECTOR, [_VECTOR]), arguments)

    return LANES(a), emit


def _folded(builder: Any, a: Any, b: Any, first: list[int], second: list[int]) -> Any:
    one = builder.shuffle_vector(a, b, _constant(first))
    other = builder.shuffle_vector(a, b, _constant(second))
    return builder.fadd(one, other, flags=_FAST)


@intrinsic
def totals(typingctx: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    """The sum of each of six vectors, in lanes 0 to 5 (6 and 7 are zero)."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(_VECTOR, None)
        rows = [*arguments, zero, zero]
        halves = [
            _folded(builder, rows[n], rows[n + 1], [0, 8, 2, 10, 4, 12, 6, 14], [1, 9, 3, 11, 5, 13, 7, 15])
            for n in range(0, 8, 2)
        ]
        a, b = (
            _folded(builder, halves[n], halves[n + 1], [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
            for n in (0, 2)
        )
        return _folded(builder, a, b, [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15])

    return LANES(a, b, c, d, e, f), emit


@intrinsic
def total(typingctx: Any, a: Any) -> Any:
    """The sum of the eight lanes."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = arguments[0]
        for width in (4, 2, 1):
            spread = [lane + width if lane < width else lane for lane in range(WIDTH)]
            value = builder.fadd(value, builder.shuffle_vector(value, value, _constant(spread)), flags=_FAST)
        return builder.extract_element(value, ir.IntType(32)(0))

    return types.float32(a), emit


SIX = 6


def compiled(function: Function) -> Function:
    """Machine code that runs without the interpreter's lock."""
    return compile_function(function, fast=True)


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
