"""Vectors of eight float32, and the operations of the word2vec, fastText and GloVe kernels on them.

Numba vectorises a loop over one row well, but does not keep a block of several rows in registers. Here
``LanesType`` is a Numba type of eight float32 (one AVX register; LLVM splits it where registers are narrower). With
it a kernel states which values stay in registers, and is still Python. The first half of the file has the LLVM
intrinsics (``load`` to ``total``), the second half what is built from them.

Arrays are flat: ``inputs`` [V * dim] and ``outputs`` [V * dim] are matrices with rows padded to a multiple of
eight, and an offset counts floats from the start. ``rows`` and ``targets`` hold offsets of rows; ``goals`` and
``rates`` have an entry for each target, ``slopes`` eight for each input row. Bounds are not checked.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.datamodel.manager import DataModelManager
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic as untyped_intrinsic
from numba.extending import models, register_model
from numpy.typing import NDArray

from firth.core.compiled import Function, compile_function

WIDTH = 8
SIX = 6  # targets that are predicted together: their sums and two zeros fill one vector
_VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
_FAST = ("reassoc", "contract", "nsz", "arcp")

Floats = NDArray[np.float32]
Offsets = NDArray[np.int64]
Values = list[ir.Value]
Emit = Callable[[BaseContext, ir.IRBuilder, Signature, Values], ir.Value]
Typed = tuple[Signature, Emit]
Binary = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]
Result = TypeVar("Result")


class Lanes:
    """What a type checker sees of a vector of eight float32; in a kernel it is a value of ``LanesType``."""


def intrinsic(result: type[Result]) -> Callable[[Callable[..., Typed]], Callable[..., Result]]:
    """Numba's decorator. The function is called without the typing context and returns ``result``."""
    decorate: Callable[[Callable[..., Typed]], Callable[..., Result]] = untyped_intrinsic
    return decorate


class LanesType(types.Type):
    """The Numba type of eight float32."""

    def __init__(self) -> None:
        super().__init__(name="Lanes8")


LANES = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: DataModelManager, fe_type: types.Type) -> None:
        super().__init__(manager, fe_type, _VECTOR)


def _pointer(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
    """The address of ``arguments[0][arguments[1]]``."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    offset = context.cast(builder, arguments[1], signature.args[1], types.intp)
    return builder.gep(array.data, [offset])


def _constant(values: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(values)), values)


def _declared(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
    """The LLVM intrinsic ``name``, declared in the module once."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


@intrinsic(Lanes)
def load(typingctx: TypingContext, array: types.Type, offset: types.Type) -> Typed:
    """The eight floats that begin at ``offset``."""

    def emit(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        place = _pointer(context, builder, signature, arguments)
        return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=4)

    return LANES(array, offset), emit


@intrinsic(type(None))
def store(typingctx: TypingContext, array: types.Type, offset: types.Type, value: types.Type) -> Typed:
    """Writes eight floats from ``offset`` on."""

    def emit(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        place = _pointer(context, builder, signature, arguments)
        builder.store(arguments[2], builder.bitcast(place, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, offset, value), emit


@intrinsic(type(None))
def prefetch(typingctx: TypingContext, array: types.Type, offset: types.Type) -> Typed:
    """Prefetches the cache line of ``offset`` into all cache levels."""

    def emit(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        function = _declared(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, flag, flag, flag])
        place = builder.bitcast(_pointer(context, builder, signature, arguments), byte)
        builder.call(function, [place, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, offset), emit


@intrinsic(Lanes)
def splat(typingctx: TypingContext, value: types.Type) -> Typed:
    """A vector with the same float in all eight places."""

    def emit(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        number = context.cast(builder, arguments[0], signature.args[0], types.float32)
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.IntType(32)(0))
        return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), _constant([0] * WIDTH))

    return LANES(value), emit


def _called(name: str, builder: ir.IRBuilder, arguments: Values) -> ir.Value:
    """A call of the LLVM intrinsic ``name``, which takes and returns vectors."""
    return builder.call(_declared(builder, f"llvm.{name}.v8f32", _VECTOR, [_VECTOR] * len(arguments)), arguments)


@intrinsic(Lanes)
def muladd(typingctx: TypingContext, a: types.Type, b: types.Type, c: types.Type) -> Typed:
    """a * b + c."""
    return LANES(a, b, c), lambda context, builder, signature, arguments: _called("fmuladd", builder, arguments)


@intrinsic(Lanes)
def sqrt(typingctx: TypingContext, a: types.Type) -> Typed:
    """The square root of each element."""
    return LANES(a), lambda context, builder, signature, arguments: _called("sqrt", builder, arguments)


def _binary(emitted: Binary, doc: str) -> Callable[..., Lanes]:
    def typed(typingctx: TypingContext, a: types.Type, b: types.Type) -> Typed:
        return LANES(a, b), lambda context, builder, signature, arguments: emitted(builder, *arguments)

    typed.__doc__ = doc
    return intrinsic(Lanes)(typed)


def _select(sign: str) -> Binary:
    return lambda builder, a, b: builder.select(builder.fcmp_ordered(sign, a, b), a, b)


add = _binary(lambda builder, a, b: builder.fadd(a, b, flags=_FAST), "a + b.")
sub = _binary(lambda builder, a, b: builder.fsub(a, b, flags=_FAST), "a - b.")
mul = _binary(lambda builder, a, b: builder.fmul(a, b, flags=_FAST), "a * b.")
div = _binary(lambda builder, a, b: builder.fdiv(a, b, flags=_FAST), "a / b.")
lower = _binary(_select("<"), "The minimum of a and b, element by element.")
higher = _binary(_select(">"), "The maximum of a and b, element by element.")


def _folded(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, first: list[int], second: list[int]) -> ir.Value:
    """Elements ``first`` of [a, b] plus elements ``second``."""
    one = builder.shuffle_vector(a, b, _constant(first))
    other = builder.shuffle_vector(a, b, _constant(second))
    return builder.fadd(one, other, flags=_FAST)


@intrinsic(Lanes)
def totals(
    typingctx: TypingContext, a: types.Type, b: types.Type, c: types.Type, d: types.Type, e: types.Type, f: types.Type
) -> Typed:
    """The sum of each of six vectors, in places 0 to 5 (6 and 7 are zero)."""

    def emit(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
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


@intrinsic(float)
def total(typingctx: TypingContext, a: types.Type) -> Typed:
    """The sum of the eight floats."""

    def emit(context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        value = arguments[0]
        for width in (4, 2, 1):
            spread = [lane + width if lane < width else lane for lane in range(WIDTH)]
            value = builder.fadd(value, builder.shuffle_vector(value, value, _constant(spread)), flags=_FAST)
        return builder.extract_element(value, ir.IntType(32)(0))

    return types.float32(a), emit


def compiled(function: Function) -> Function:
    """Machine code that runs without the interpreter's lock."""
    return compile_function(function, fast=True)


@compiled
def sigmoid(score: Lanes) -> Lanes:
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
def mixed(state: np.uint64) -> np.uint64:
    """SplitMix64's output function: 64 random bits from a counter."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@compiled
def fetch(matrix: Floats, start: int, dim: int) -> None:
    """Prefetches a row."""
    for place in range(start, start + dim, 16):
        prefetch(matrix, place)


@compiled
def _muladd_two(a: Lanes, b: Lanes, factor: Lanes, x: Lanes, y: Lanes) -> tuple[Lanes, Lanes]:
    """(a * factor + x, b * factor + y)."""
    return muladd(a, factor, x), muladd(b, factor, y)


@compiled
def update_pairs(
    inputs: Floats,
    rows: Offsets,
    num_rows: int,
    outputs: Floats,
    targets: Offsets,
    goals: Floats,
    rates: Floats,
    first: int,
    slopes: Floats,
    dim: int,
) -> None:
    """Each input row on its own predicts the six targets from ``first`` on: one small matrix product
    forward, two backward. ``rows[num_rows]`` must be valid, since rows are scored two at a time. ``slopes``
    gets rate * (goal - sigmoid(score)) of each pair."""
    c0, c1, c2 = targets[first], targets[first + 1], targets[first + 2]
    c3, c4, c5 = targets[first + 3], targets[first + 4], targets[first + 5]
    goal, rate, zero = load(goals, first), load(rates, first), splat(0.0)
    for one in range(0, num_rows, 2):
        a, b = rows[one], rows[one + 1]
        a0 = a1 = a2 = a3 = a4 = a5 = b0 = b1 = b2 = b3 = b4 = b5 = zero
        for t in range(0, dim, 8):
            x, y = load(inputs, a + t), load(inputs, b + t)
            a0, b0 = _muladd_two(x, y, load(outputs, c0 + t), a0, b0)
            a1, b1 = _muladd_two(x, y, load(outputs, c1 + t), a1, b1)
            a2, b2 = _muladd_two(x, y, load(outputs, c2 + t), a2, b2)
            a3, b3 = _muladd_two(x, y, load(outputs, c3 + t), a3, b3)
            a4, b4 = _muladd_two(x, y, load(outputs, c4 + t), a4, b4)
            a5, b5 = _muladd_two(x, y, load(outputs, c5 + t), a5, b5)
        store(slopes, one * 8, mul(sub(goal, sigmoid(totals(a0, a1, a2, a3, a4, a5))), rate))
        store(slopes, one * 8 + 8, mul(sub(goal, sigmoid(totals(b0, b1, b2, b3, b4, b5))), rate))
    for t in range(0, dim, 8):
        o0, o1, o2 = load(outputs, c0 + t), load(outputs, c1 + t), load(outputs, c2 + t)
        o3, o4, o5 = load(outputs, c3 + t), load(outputs, c4 + t), load(outputs, c5 + t)
        d0 = d1 = d2 = d3 = d4 = d5 = zero
        for one in range(num_rows):
            x = load(inputs, rows[one] + t)
            s, j = x, one * 8
            s, d0 = _muladd_two(o0, x, splat(slopes[j]), s, d0)
            s, d1 = _muladd_two(o1, x, splat(slopes[j + 1]), s, d1)
            s, d2 = _muladd_two(o2, x, splat(slopes[j + 2]), s, d2)
            s, d3 = _muladd_two(o3, x, splat(slopes[j + 3]), s, d3)
            s, d4 = _muladd_two(o4, x, splat(slopes[j + 4]), s, d4)
            s, d5 = _muladd_two(o5, x, splat(slopes[j + 5]), s, d5)
            store(inputs, rows[one] + t, s)
        # A row may be a target twice: hence it is loaded again before each sum is written.
        store(outputs, c0 + t, add(load(outputs, c0 + t), d0))
        store(outputs, c1 + t, add(load(outputs, c1 + t), d1))
        store(outputs, c2 + t, add(load(outputs, c2 + t), d2))
        store(outputs, c3 + t, add(load(outputs, c3 + t), d3))
        store(outputs, c4 + t, add(load(outputs, c4 + t), d4))
        store(outputs, c5 + t, add(load(outputs, c5 + t), d5))


@compiled
def gather(inputs: Floats, rows: Offsets, num_rows: int, hidden: Floats, error: Floats, dim: int) -> None:
    """Sets ``hidden`` to the mean of the input rows and ``error`` to zero."""
    share, zero = splat(np.float32(1.0) / np.float32(num_rows)), splat(0.0)
    for t in range(0, dim, 8):
        x = zero
        for one in range(num_rows):
            x = add(x, load(inputs, rows[one] + t))
        store(hidden, t, mul(x, share))
        store(error, t, zero)


@compiled
def _update_target(outputs: Floats, offset: int, slope: Lanes, x: Lanes, error: Lanes) -> Lanes:
    """Adds slope * x to eight floats of a target's row; returns ``error`` plus slope times the old ones."""
    old = load(outputs, offset)
    store(outputs, offset, muladd(slope, x, old))
    return muladd(slope, old, error)


@compiled
def update_hidden(
    hidden: Floats,
    error: Floats,
    outputs: Floats,
    targets: Offsets,
    goals: Floats,
    rates: Floats,
    first: int,
    slopes: Floats,
    dim: int,
) -> None:
    """The hidden vector predicts the six targets from ``first`` on; its own update is added to ``error``."""
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
        e = _update_target(outputs, c0 + t, g0, x, e)
        e = _update_target(outputs, c1 + t, g1, x, e)
        e = _update_target(outputs, c2 + t, g2, x, e)
        e = _update_target(outputs, c3 + t, g3, x, e)
        e = _update_target(outputs, c4 + t, g4, x, e)
        e = _update_target(outputs, c5 + t, g5, x, e)
        store(error, t, e)


@compiled
def spread(inputs: Floats, rows: Offsets, num_rows: int, error: Floats, dim: int) -> None:
    """Adds ``error`` to every input row (undivided, as word2vec.c and fastText do)."""
    for one in range(num_rows):
        for t in range(0, dim, 8):
            store(inputs, rows[one] + t, add(load(inputs, rows[one] + t), load(error, t)))


@compiled
def surprise(slopes: Floats, rates: Floats, first: int) -> float:
    """The negative log-likelihood of six predictions, from their ``slopes``; padding (rate 0) does not count."""
    loss = 0.0
    for one in range(SIX):
        if rates[first + one] > 0:
            loss -= np.log(max(1.0 - abs(slopes[one] / rates[first + one]), 1e-7))
    return loss
