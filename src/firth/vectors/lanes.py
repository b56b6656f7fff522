"""Eight floats at a time: the handful of vector operations that the kernels are written in.

Numba's own loops vectorise a single row well, but keep no tile of several rows in registers.
Here ``Lanes`` is a Numba type of eight float32 (one AVX register; LLVM splits it in two where the
machine has narrower ones), so that a kernel says which values stay in registers and remains Python.
Offsets count floats in a flat array; nothing here checks borders.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as untyped_intrinsic
from numba.extending import models, register_model

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
