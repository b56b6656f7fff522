"""Hostile ONNX graphs: an export with operators that loop, grow, read other files or do not fit. A graph is a program, so
what it may do is not said by its settings."""

import random
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from attack_runner import Case
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Damage = Callable[[ModelProto], object]
GROWN = (3 * 10**8, 2 * 10**9, 10**12)


def behind(model: ModelProto, nodes: Callable[[str], list[NodeProto]]) -> None:
    """Puts nodes before the last output; the last of them makes the value ``new`` of it."""
    name = model.graph.output[-1].name
    place, last = next((place, node) for place, node in enumerate(model.graph.node) if name in node.output)
    for added in reversed(nodes(last.input[0])):
        model.graph.node.insert(place, added)
    last.input[0] = "new"


def constant(model: ModelProto, name: str, value: object) -> str:
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def loop(model: ModelProto) -> None:
    """2^62 times nothing."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["on_"]), helper.make_node("Identity", ["x"], ["x_"])],
        "body",
        [value("it", TensorProto.INT64, []), value("on", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, None)],
        [value("on_", TensorProto.BOOL, []), value("x_", TensorProto.FLOAT, None)],
    )
    times, true = constant(model, "times", 2**62), constant(model, "true", True)
    behind(model, lambda given: [helper.make_node("Loop", [times, true, given], ["new"], body=body)])


def grown(count: int) -> Damage:
    def apply(model: ModelProto) -> None:
        shape, axis = constant(model, "large", [count, 1, 1, 1]), constant(model, "zero", [0])
        behind(
            model,
            lambda given: [
                helper.make_node("Expand", [given, shape], ["grown"]),
                helper.make_node("ReduceMax", ["grown", axis], ["new"], keepdims=0),
            ],
        )

    return apply


def filled(count: int) -> Damage:
    def apply(model: ModelProto) -> None:
        shape = constant(model, "large", [count])
        parts = helper.make_node("ConstantOfShape", [shape], ["filled"])
        less = helper.make_node("ReduceMax", ["filled"], ["less"], keepdims=0)
        behind(model, lambda given: [parts, less, helper.make_node("Add", [given, "less"], ["new"])])

    return apply


def doubled(model: ModelProto) -> None:
    """Each node twice as long as the one before, forty times."""
    behind(
        model,
        lambda given: [
            helper.make_node(
                "Concat", [f"d{number}" if number else given] * 2, [f"d{number + 1}" if number < 39 else "new"], axis=1
            )
            for number in range(40)
        ],
    )


def outer(model: ModelProto) -> None:
    """Every token with every token with every token."""
    axes = [constant(model, f"axes{number}", numbers) for number, numbers in enumerate(([1, 2], [0, 2], [0, 1]))]
    behind(
        model,
        lambda given: [
            *(helper.make_node("Unsqueeze", [given, name], [f"u{number}"]) for number, name in enumerate(axes)),
            helper.make_node("Add", ["u0", "u1"], ["s0"]),
            helper.make_node("Add", ["s0", "u2"], ["s1"]),
            helper.make_node("Identity", ["s1"], ["new"]),
        ],
    )


def many(count: int) -> Damage:
    def apply(model: ModelProto) -> None:
        def nodes(given: str) -> list[NodeProto]:
            names = [given, *(f"n{number}" for number in range(count - 1)), "new"]
            return [helper.make_node("Identity", [one], [other]) for one, other in pairwise(names)]

        behind(model, nodes)

    return apply


def elsewhere(place: str) -> Damage:
    """The largest weights in another file."""

    def apply(model: ModelProto) -> None:
        tensor = max(model.graph.initializer, key=lambda one: len(one.raw_data))
        size = len(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", place), ("offset", "0"), ("length", str(size))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value

    return apply


def far(model: ModelProto) -> None:
    """Rows that the table does not have."""
    place, node = next((place, node) for place, node in enumerate(model.graph.node) if node.op_type == "Gather")
    model.graph.node.insert(place, helper.make_node("Add", [node.input[1], constant(model, "far", 10**6)], ["rows"]))
    node.input[1] = "rows"


def noise(model: ModelProto) -> None:
    """Weights that are not numbers."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.raw_data = b"\xff" * len(tensor.raw_data)


def function(model: ModelProto) -> None:
    """An operator that the file brings along."""
    node = helper.make_node("Identity", ["x"], ["y"])
    model.functions.append(
        helper.make_function("own", "Twice", ["x"], ["y"], [node], [helper.make_opsetid("", 20)], [])
    )
    model.opset_import.append(helper.make_opsetid("own", 1))
    behind(model, lambda given: [helper.make_node("Twice", [given], ["new"], domain="own")])


def shape_without_bytes(model: ModelProto) -> None:
    tensor = next(one for one in model.graph.initializer if len(one.dims) == 2)
    tensor.dims[0] = 10**10


def without_shape(model: ModelProto) -> None:
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")


def replace(kind: str, other: str) -> Damage:
    def apply(model: ModelProto) -> None:
        next(node for node in model.graph.node if node.op_type == kind).op_type = other

    return apply


NAMED: dict[str, Damage] = {
    "loop without end": loop,
    **{f"expanded to {count}": grown(count) for count in GROWN},
    **{f"filled with {count}": filled(count) for count in GROWN},
    "doubled forty times": doubled,
    "outer sums": outer,
    **{f"{count} operators": many(count) for count in (3000, 200_000)},
    **{
        f"weights in {place}": elsewhere(place)
        for place in ("../../../../etc/passwd", "/proc/self/mem", "firth.json", "/dev/zero")
    },
    "rows outside the table": far,
    "not a number": noise,
    "a function of its own": function,
    "a shape without bytes": shape_without_bytes,
    "outputs without a shape": without_shape,
    "unknown operator": replace("Softmax", "NoSuch"),
    "another operator": replace("Softmax", "Exp"),
    "another matrix": replace("MatMul", "Add"),
    "random operator": replace("Gelu", "RandomNormalLike"),
    "opset of the future": lambda model: setattr(model.opset_import[0], "version", 99),
    "no outputs": lambda model: model.graph.ClearField("output"),
    "no nodes": lambda model: model.graph.ClearField("node"),
    "no inputs": lambda model: model.graph.ClearField("input"),
    "turned around": lambda model: model.graph.node.reverse(),
}


def hostile_graph(model: ModelProto, pick: random.Random) -> None:
    """A random operator, input, number or constant changed."""
    node = pick.choice(model.graph.node)
    way = pick.randrange(6)
    names = [name for one in model.graph.node for name in one.output]
    if way == 0:
        node.op_type = pick.choice(model.graph.node).op_type
    elif way == 1 and node.input:
        node.input[pick.randrange(len(node.input))] = pick.choice([*names, ""])
    elif way == 2 and node.attribute:
        attribute = pick.choice(node.attribute)
        attribute.i = pick.choice([-1, 0, 7, 10**6, 2**62, -(2**62)])
    elif way == 3:
        tensor = pick.choice([one for one in model.graph.initializer if one.data_type == TensorProto.INT64])
        numbers = numpy_helper.to_array(tensor).copy().ravel()
        numbers[pick.randrange(len(numbers))] = pick.choice([-1, 0, 1, 10**4, 10**9, 2**62])
        tensor.raw_data = numbers.tobytes()
    elif way == 4:
        tensor = pick.choice(model.graph.initializer)
        tensor.data_type = pick.choice([1, 3, 6, 7, 8, 10, 11, 16])
    else:
        model.graph.node.remove(node)


def graph_case(models: list[Path], words: list[str], number: int, place: Path) -> Case:
    """The named damages first, to each model; then random ones."""
    named = list(NAMED)
    shutil.copytree(models[number % len(models)], place / "model")
    path = place / "model" / "model.onnx"
    model, name = onnx.load(str(path)), "random"
    pick = random.Random(f"graph {number}")
    if number < len(named) * len(models):
        name = named[number // len(models)]
        NAMED[name](model)
    else:
        for _ in range(pick.choice([1, 1, 2])):
            hostile_graph(model, pick)
    path.write_bytes(model.SerializeToString())
    return Case(f"graph:{number} ({models[number % len(models)].name}, {name})", words, place)
