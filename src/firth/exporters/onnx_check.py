"""An ONNX graph that others made, before onnxruntime sees it: what it may contain, and how large its values may become.

A graph is a program: loops without end, values that double at every node, weights in other files. What Firth writes has none
of it, so a graph is read here (it is a protobuf; neither onnx nor onnxruntime is needed), and taken only with the operators
of ``OPERATORS``, with constants whose numbers are in the file, and with values that stay below a given size for the longest
text. Nothing is computed for it but shapes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from firth.core.errors import FirthError
from firth.core.types import Ints

OPERATORS = {  # how the shape of the result follows from those of the inputs
    **dict.fromkeys("Abs Cast Gelu Identity LayerNormalization Neg Relu Softmax Sqrt Tanh ScatterND".split(), "first"),
    **dict.fromkeys("Add Div Greater Max Mul Pow Sub".split(), "broadcast"),
    **dict.fromkeys("MatMul DynamicQuantizeMatMul".split(), "matrix"),
    **dict.fromkeys("ReduceMax ReduceMean ReduceSum".split(), "reduce"),
    **dict.fromkeys("Concat Expand Gather GatherElements Range Reshape Shape Slice".split(), ""),
    **dict.fromkeys("Split Squeeze Transpose Unsqueeze".split(), ""),
}
MOST_NODES = 10_000
ROOM = 1 << 26  # numbers in one value, where a model does not say more
_OWN_DOMAIN = {"DynamicQuantizeMatMul": b"com.microsoft"}
_BYTES = {1: 4, 3: 1, 7: 8}  # of float32, int8, int64
_SMALL = 64  # integers that are followed: shapes, axes, lengths
_MODEL_FIELDS, _GRAPH, _FUNCTIONS = {1, 2, 3, 4, 5, 6, 7, 8, 14}, 7, 25
_GRAPH_FIELDS = {1, 2, 5, 10, 11, 12, 13, 16}
_NODE_FIELDS = {1, 2, 3, 4, 5, 6, 7}
_ATTRIBUTE_FIELDS = {1, 2, 3, 4, 7, 8, 9, 13, 20}  # numbers and strings; no tensors, no graphs
_TENSOR_FIELDS = {1, 2, 8, 9, 12}  # its numbers as bytes, here

Shape = tuple[int, ...]
Field = int | memoryview


class _Foreign(ValueError):
    """What is wrong, as the middle of a sentence."""


def check_graph(path: Path, sizes: Mapping[str, int], room: int = ROOM) -> dict[str, Shape]:
    """The shapes of the outputs. ``sizes``: of the named dimensions of the inputs; ``room``: numbers that one value may have."""
    try:
        return _Graph(np.memmap(path, np.uint8, "r").data, sizes, room).outputs()
    except (ValueError, IndexError, KeyError, OverflowError, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, _Foreign) else "its shapes do not fit together, or it is damaged"
        raise FirthError(f"{path}: not a graph that Firth writes ({reason}); export the model again") from None


def fields(data: memoryview) -> Iterator[tuple[int, Field]]:
    """(number, value) of each field of a message: an integer, or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        if key & 7 == 0:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        if key & 7 == 2:
            size, place = _varint(data, place)
        elif key & 7 in (1, 5):
            size = 8 if key & 7 == 1 else 4
        else:
            raise _Foreign("no ONNX file")
        if size > len(data) - place:
            raise _Foreign("it ends too early")
        yield key >> 3, data[place : place + size]
        place += size


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for number in range(10):
        byte = data[place + number]
        value |= (byte & 127) << (7 * number)
        if byte < 128:
            return value, place + number + 1
    raise _Foreign("no ONNX file")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _message(value: Field, allowed: set[int], what: str) -> Iterator[tuple[int, Field]]:
    if isinstance(value, int):
        raise _Foreign("no ONNX file")
    for number, content in fields(value):
        if number not in allowed:
            raise _Foreign(f"{what} with a field of number {number}, which has no place there")
        yield number, content


def _text(value: Field) -> str:
    return "" if isinstance(value, int) else bytes(value[:1000]).decode()


def _numbers(value: Field) -> list[int]:
    """Of a repeated integer: one, or many packed into bytes."""
    if isinstance(value, int):
        return [_signed(value)]
    found, place = [], 0
    while place < len(value):
        one, place = _varint(value, place)
        found.append(_signed(one))
    return found


class _Graph:
    """Reads a graph and follows the shapes of its values, and the numbers of small ones."""

    def __init__(self, model: memoryview, sizes: Mapping[str, int], room: int) -> None:
        self.room = room
        self.shapes: dict[str, Shape] = {}
        self.known: dict[str, Ints] = {}
        graphs = [value for number, value in _message(model, _MODEL_FIELDS, "a model") if number == _GRAPH]
        if len(graphs) != 1:
            raise _Foreign("it has no graph, or several")
        parts = list(_message(graphs[0], _GRAPH_FIELDS, "a graph"))
        if sum(number == 1 for number, _ in parts) > MOST_NODES:
            raise _Foreign(f"more than {MOST_NODES} operators")
        for number, value in parts:
            if number == 5:
                self._constant(value)
            elif number == 11:
                self._input(value, sizes)
        for number, value in parts:
            if number == 1:
                self._node(value)
        self._outputs = [_text(name) for number, value in parts if number == 12 for name in _inside(value, 1)]

    def outputs(self) -> dict[str, Shape]:
        return {name: self.shapes[name] for name in self._outputs}

    def _set(self, name: str, shape: Sequence[int], known: Ints | None = None) -> None:
        shape = tuple(int(size) for size in shape)
        if min(shape, default=0) < 0 or math.prod(shape) > self.room:
            raise _Foreign(f"'{name}' becomes {' x '.join(map(str, shape))[:100]}, which its settings do not need")
        self.shapes[name] = shape
        self.known.pop(name, None)
        if known is not None and known.size <= _SMALL:
            self.known[name] = known

    def _constant(self, value: Field) -> None:
        name, kind, dims, raw = "", 0, list[int](), memoryview(b"")
        for number, content in _message(value, _TENSOR_FIELDS, "a constant"):
            if number == 1:
                dims += _numbers(content)
            elif number == 2 and isinstance(content, int):
                kind = content
            elif number == 8:
                name = _text(content)
            elif number == 9 and not isinstance(content, int):
                raw = content
        if kind not in _BYTES or min(dims, default=0) < 0 or math.prod(dims) * _BYTES[kind] != len(raw):
            raise _Foreign(f"the numbers of '{name[:100]}' are not in the file, or of another kind")
        known = np.frombuffer(raw, np.int64).reshape(dims) if kind == 7 and math.prod(dims) <= _SMALL else None
        self.shapes[name] = tuple(dims)  # as large as it is in the file
        if known is not None:
            self.known[name] = known.copy()

    def _input(self, value: Field, sizes: Mapping[str, int]) -> None:
        """ValueInfoProto: name, type (tensor: element, shape (dim: value or name))."""
        name, dims = "", list[int]()
        for number, content in fields(value) if not isinstance(value, int) else ():
            if number == 1:
                name = _text(content)
            elif number == 2:
                dims = [_dimension(dim, sizes) for dim in _inside(content, 1, 2, 1)]
        self._set(name, dims, np.zeros(dims, np.int64) if len(dims) == 1 and math.prod(dims) <= _SMALL else None)

    def _node(self, value: Field) -> None:
        inputs, outputs, kind, domain = list[str](), list[str](), "", b""
        attributes: dict[str, list[int]] = {}
        for number, content in _message(value, _NODE_FIELDS, "an operator"):
            if number == 1:
                inputs.append(_text(content))
            elif number == 2:
                outputs.append(_text(content))
            elif number == 4:
                kind = _text(content)
            elif number == 5:
                attributes.update([_attribute(content)])
            elif number == 7 and not isinstance(content, int):
                domain = bytes(content[:100])
        if kind not in OPERATORS or domain != _OWN_DOMAIN.get(kind, b""):
            raise _Foreign(f"the operator '{kind[:100]}'")
        shapes = [self.shapes[name] for name in inputs if name]
        rule = f"_{OPERATORS[kind] or kind.lower()}"
        found = getattr(self, rule)(
            _Call(inputs, shapes, [self.known.get(name) for name in inputs if name], attributes)
        )
        several = kind == "Split"
        for place, name in enumerate(outputs):
            shape = found[place] if several else found
            self._set(name, shape, None if several else self._value(kind, inputs, attributes, shape))

    def _value(self, kind: str, inputs: list[str], attributes: dict[str, list[int]], shape: Shape) -> Ints | None:
        """The integers of a small value, where they follow from known ones."""
        if kind == "Shape":
            given = self.shapes[inputs[0]]
            return np.asarray(given[slice(*_ends(attributes, len(given)))], np.int64)
        known = [self.known.get(name) for name in inputs]
        if not known or math.prod(shape) > _SMALL or any(one is None for one in known):
            return None
        values = [one for one in known if one is not None]
        if kind in ("Squeeze", "Unsqueeze", "Identity"):
            return values[0].reshape(shape)
        if kind == "Concat":
            return np.concatenate(values, attributes["axis"][0])
        if kind == "Add":
            return values[0] + values[1]
        if kind == "ReduceMax":
            return np.asarray(values[0].max()).reshape(shape)
        return None

    # -- how shapes follow

    def _first(self, call: "_Call") -> Shape:
        return call.shapes[0]

    def _broadcast(self, call: "_Call") -> Shape:
        return np.broadcast_shapes(*call.shapes)

    def _matrix(self, call: "_Call") -> Shape:
        one, other = call.shapes[:2]
        if one[-1] != other[-2]:
            raise _Foreign("matrices that do not fit together")
        return (*np.broadcast_shapes(one[:-2], other[:-2]), one[-2], other[-1])

    def _reduce(self, call: "_Call") -> Shape:
        (shape, *_), axes = call.shapes, call.axes(1)
        keep = call.attributes.get("keepdims", [1])[0]
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes)

    def _concat(self, call: "_Call") -> Shape:
        axis, first = call.axis(), list(call.shapes[0])
        first[axis] = sum(shape[axis] for shape in call.shapes)
        return tuple(first)

    def _expand(self, call: "_Call") -> Shape:
        return np.broadcast_shapes(call.shapes[0], tuple(call.ints(1)))

    def _gather(self, call: "_Call") -> Shape:
        axis, (data, index, *_) = call.axis(0), call.shapes
        return (*data[:axis], *index, *data[axis + 1 :])

    def _gatherelements(self, call: "_Call") -> Shape:
        return call.shapes[1]

    def _range(self, call: "_Call") -> Shape:
        start, end, step = (call.ints(place)[0] for place in range(3))
        return (max(0, -(-(end - start) // step)),) if step else ()

    def _reshape(self, call: "_Call") -> Shape:
        given = call.shapes[0]
        wanted = [given[axis] if size == 0 else size for axis, size in enumerate(call.ints(1))]
        if -1 in wanted:
            rest = -math.prod(wanted)
            wanted[wanted.index(-1)] = math.prod(given) // rest if rest > 0 else 0
        if math.prod(wanted) != math.prod(given):
            raise _Foreign("a value that takes a shape of another size")
        return tuple(wanted)

    def _shape(self, call: "_Call") -> Shape:
        given = call.shapes[0]
        return (len(given[slice(*_ends(call.attributes, len(given)))]),)

    def _slice(self, call: "_Call") -> Shape:
        shape = list(call.shapes[0])
        for axis, start, end in zip(call.axes(3), call.ints(1), call.ints(2), strict=True):
            shape[axis] = len(range(shape[axis])[start:end])
        return tuple(shape)

    def _split(self, call: "_Call") -> list[Shape]:
        shape, axis, count = list(call.shapes[0]), call.axis(), call.attributes["num_outputs"][0]
        if not 0 < count <= 1000:
            raise _Foreign("a value that is split into too many")
        shape[axis] = -(-shape[axis] // count)
        return [tuple(shape)] * count

    def _squeeze(self, call: "_Call") -> Shape:
        axes = call.axes(1)
        return tuple(size for axis, size in enumerate(call.shapes[0]) if axis not in axes)

    def _transpose(self, call: "_Call") -> Shape:
        return tuple(call.shapes[0][axis] for axis in call.attributes["perm"])

    def _unsqueeze(self, call: "_Call") -> Shape:
        shape, axes = list(call.shapes[0]), call.ints(1)
        for axis in sorted(axis % (len(shape) + len(axes)) for axis in axes):
            shape.insert(axis, 1)
        return tuple(shape)


class _Call:
    """The inputs of an operator."""

    def __init__(
        self, names: list[str], shapes: list[Shape], known: list[Ints | None], attributes: dict[str, list[int]]
    ) -> None:
        self.names, self.shapes, self.known, self.attributes = names, shapes, known, attributes

    def ints(self, place: int) -> list[int]:
        """The numbers of an input, which must be known."""
        found = self.known[place]
        if found is None:
            raise _Foreign("a shape that is computed from the text")
        return [int(one) for one in found.ravel()]

    def axis(self, default: int = -1) -> int:
        return self.attributes.get("axis", [default])[0] % len(self.shapes[0])

    def axes(self, place: int) -> list[int]:
        return [axis % len(self.shapes[0]) for axis in self.ints(place)]


def _attribute(value: Field) -> tuple[str, list[int]]:
    """Its name, and its integers."""
    name, found = "", list[int]()
    for number, content in _message(value, _ATTRIBUTE_FIELDS, "an attribute"):
        if number == 1:
            name = _text(content)
        elif number in (3, 8):
            found += _numbers(content)
    return name, found


def _ends(attributes: dict[str, list[int]], length: int) -> tuple[int, int]:
    return attributes.get("start", [0])[0], attributes.get("end", [length])[0]


def _inside(value: Field, *path: int) -> Iterator[Field]:
    """The fields at the end of a path through messages."""
    if not path:
        yield value
        return
    for number, content in fields(value) if not isinstance(value, int) else ():
        if number == path[0]:
            yield from _inside(content, *path[1:])


def _dimension(value: Field, sizes: Mapping[str, int]) -> int:
    """Its number, or that of its name."""
    for number, content in fields(value) if not isinstance(value, int) else ():
        if number == 1 and isinstance(content, int):
            return _signed(content)
        if number == 2:
            return sizes[_text(content)]
    raise _Foreign("an input without a size")
