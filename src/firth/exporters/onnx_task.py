"""The head of a task on an encoder's ONNX graph: the same numbers as ``tasks.network.TaskNetwork`` in use.

B rows, N texts, T tokens, D hidden size, K outputs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.exporters.onnx_encoder import MASK, EncoderWriter
from firth.exporters.onnx_graph import GraphWriter

LOGITS, STARTS, ENDS, OWNER = "logits", "start_logits", "end_logits", "owner"
_LOWEST = -3.0e38

Arrays = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Head:
    """What stands on an encoder. Weights: ``out``, and where they are there ``pooler`` and ``mix``."""

    task: str
    pool: str  # first, last, mean or max
    weights: Arrays
    windows: str | None = None  # how several windows of a text are put together: mean or max; none: a row is a text
    all_layers: bool = False  # it reads all layers side by side

    def dim(self, encoder: EncoderWriter) -> int:
        """The width of a token."""
        return encoder.config.hidden_dim * (len(encoder.layers) if self.all_layers else 1)


def write_head(graph: GraphWriter, encoder: EncoderWriter, head: Head) -> None:
    """Adds the head and its outputs to the graph of the encoder."""
    num_outputs = len(head.weights["out.weight"])
    if head.task in ("classify", "score"):
        rows = "B"
        vectors = _pooled(graph, encoder, head)
        if head.windows is not None:
            rows, vectors = "N", _joined(graph, vectors, head.windows, head.dim(encoder))
        graph.output(LOGITS, _out(graph, vectors, head), [rows, num_outputs])
        return
    scores = _out(graph, _tokens(graph, encoder, head), head)
    if head.task == "tag":
        graph.output(LOGITS, scores, ["B", "T", num_outputs])
        return
    for name, part in zip((STARTS, ENDS), graph.split(scores, 2), strict=True):
        graph.output(name, graph.op("Squeeze", part, graph.ints(-1)), ["B", "T"])


def _out(graph: GraphWriter, value: str, head: Head) -> str:
    """The last layer stays in float32: it is small, and its numbers are the answer."""
    weight = graph.constant("head.out.weight", head.weights["out.weight"].T)
    return graph.op("Add", graph.op("MatMul", value, weight), graph.constant("head.out.bias", head.weights["out.bias"]))


def _tokens(graph: GraphWriter, encoder: EncoderWriter, head: Head) -> str:
    """The last layer, the learned mix of all (Peters et al. 2018, eq. 1), or all side by side."""
    if head.all_layers:
        return graph.op("Concat", *encoder.layers, axis=-1)
    if "mix" not in head.weights:
        return encoder.layers[-1]
    mixed = ""
    for share, layer in zip(head.weights["mix"].tolist(), encoder.layers, strict=True):
        part = graph.op("Mul", layer, graph.number(share))
        mixed = graph.op("Add", mixed, part) if mixed else part
    return mixed


def _pooled(graph: GraphWriter, encoder: EncoderWriter, head: Head) -> str:
    """One vector per row, [B, D]."""
    if head.pool == "cls":
        if "mix" in head.weights or head.all_layers:
            first = graph.op("Slice", _tokens(graph, encoder, head), graph.ints(0), graph.ints(1), graph.ints(1))
        else:
            first = encoder.first_of_last()
        first = graph.op("Squeeze", first, graph.ints(1))
        if "pooler.dense.weight" not in head.weights:
            return first
        weight, bias = head.weights["pooler.dense.weight"], head.weights["pooler.dense.bias"]
        return graph.activation(graph.linear(first, "pooler.dense", weight, bias), encoder.config.pooler_activation)
    hidden = _tokens(graph, encoder, head)
    present = graph.op("Unsqueeze", graph.cast(MASK), graph.ints(-1))
    if head.pool == "max":
        away = graph.op("Mul", graph.op("Sub", graph.number(1.0), present), graph.number(_LOWEST))
        return graph.op("ReduceMax", graph.op("Add", hidden, away), graph.ints(1), keepdims=0)
    if head.pool == "last":
        length = graph.op("ReduceSum", MASK, graph.ints(1), keepdims=1)
        place = graph.op("Unsqueeze", graph.op("Sub", length, graph.ints(1)), graph.ints(-1))
        width = graph.ints(1, 1, head.dim(encoder))
        index = graph.op("Expand", place, width)
        return graph.op("Squeeze", graph.op("GatherElements", hidden, index, axis=1), graph.ints(1))
    total = graph.op("ReduceSum", graph.op("Mul", hidden, present), graph.ints(1), keepdims=0)
    return graph.op("Div", total, graph.op("ReduceSum", present, graph.ints(1), keepdims=0))


def _joined(graph: GraphWriter, rows: str, how: str, dim: int) -> str:
    """Windows of one text put together, [N, D]; a further input says which text each row belongs to."""
    owner = graph.input(OWNER, ["B"])
    index = graph.op("Unsqueeze", owner, graph.ints(1))
    count = graph.op("Add", graph.op("ReduceMax", owner, graph.ints(0)), graph.ints(1))
    shape = graph.op("Concat", count, graph.ints(dim), axis=0)

    def filled(number: float, shape: str, rows: str, reduction: str) -> str:
        filled = graph.op("Expand", graph.number(number), shape)
        return graph.op("ScatterND", filled, index, rows, reduction=reduction)

    if how == "max":
        return filled(_LOWEST, shape, rows, "max")
    ones = graph.op("Expand", graph.number(1.0), graph.op("Concat", graph.op("Shape", owner), graph.ints(1), axis=0))
    counts = filled(0.0, graph.op("Concat", count, graph.ints(1), axis=0), ones, "add")
    return graph.op("Div", filled(0.0, shape, rows, "add"), counts)
