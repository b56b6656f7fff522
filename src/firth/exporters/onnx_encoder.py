"""An encoder as an ONNX graph, with the head of a task on it: the same numbers as ``models.shared.encoder`` in use.

B batch, T tokens, D hidden size, H heads, K head size, R rows of a table of distances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import Later
from firth.core.types import Inputs
from firth.exporters.onnx_graph import GraphWriter

if TYPE_CHECKING:
    import torch

    from firth.models.shared.encoder import Encoder
else:
    torch = Later("torch")

IDS, MASK, SEGMENTS, LAST = "input_ids", "attention_mask", "token_type_ids", "last_hidden_state"
_HIDDEN_AWAY = -1e9  # added to the scores of padding: its weight is then exactly 0
_LEAST = {"gelu": 0.17, "gelu_tanh": 0.171, "relu": 1e-9}  # no output of the activation is below its negative

_QUIETEST, _FACTORS = 1e-4, (1 / 8, 16.0)  # a channel that no sample text reaches must not become very loud on another


def layer_name(layer: int, num_layers: int) -> str:
    """The name of a layer among the outputs; 0 is the token layer."""
    return LAST if layer == num_layers else f"layer_{layer}"


def loudness(encoder: Encoder, texts: Sequence[NDArray[np.int64]]) -> dict[str, NDArray[np.float32]]:
    """The largest absolute number of each channel that enters a matrix after a norm, over the tokens of these texts."""
    found: dict[str, NDArray[np.float32]] = {}

    def observe(name: str) -> Callable[[torch.nn.Module, tuple[torch.Tensor]], None]:
        def hook(module: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
            top_D = inputs[0].abs().flatten(0, -2).amax(0).numpy()
            found[name] = np.maximum(found.get(name, 0.0), top_D)

        return hook

    hooks = [
        module.register_forward_pre_hook(observe(name))
        for name, module in encoder.named_modules()
        if name.endswith(("attention.qkv", "ffn.inner"))
    ]
    try:
        with torch.inference_mode():
            for ids in texts:
                encoder.last(Inputs(torch.from_numpy(ids[: encoder.config.max_positions])[None]))
    finally:
        for handle in hooks:
            handle.remove()
    return found


class EncoderWriter:
    """Writes one encoder into a graph; ``layers`` are the names of its layers inside. ``loud`` is read by int8 alone."""

    def __init__(
        self, graph: GraphWriter, encoder: Encoder, loud: Mapping[str, NDArray[np.float32]] | None = None
    ) -> None:
        self.graph, self.encoder, self.config = graph, encoder, encoder.config
        self.loud = loud or {}
        self.weights = {name: tensor.detach().float().numpy() for name, tensor in encoder.state_dict().items()}
        self.head_dim = self.config.hidden_dim // self.config.num_heads
        for name in (IDS, MASK, SEGMENTS):
            graph.input(name, ["B", "T"])
        self.length = graph.op("Shape", IDS, start=1, end=2)
        self.near = self._near()
        self.bias = self._bias()
        self.local_bias = self._local_bias()
        self.angles = self._angles(self.config.rotary_base)
        self.local_angles = self._angles(self.config.local_rotary_base, "local_") if self.config.window else None
        self.distances = self._distances()
        self.layers = [self._embed()]
        for block in range(self.config.num_layers):
            self.layers.append(self._block(block, self.layers[-1]))
        self.before_last = self.layers[-2]
        self.layers[-1] = self._final(self.layers[-1])

    def outputs(self) -> None:
        """Every layer under its name."""
        for layer, value in enumerate(self.layers):
            self.graph.output(layer_name(layer, self.config.num_layers), value, ["B", "T", self.config.hidden_dim])

    def first_of_last(self) -> str:
        """The last layer at the first token only, [B, 1, D]: its block is computed nowhere else beyond keys and values."""
        return self._final(self._block(self.config.num_layers - 1, self.before_last, first_only=True))

    # -- what all blocks read

    def _table(self, name: str, array: NDArray[np.float32]) -> str:
        """The first T rows of a table of positions."""
        graph = self.graph
        return graph.op("Slice", graph.constant(name, array), graph.ints(0), self.length, graph.ints(0))

    def _bias(self) -> str:
        """Added to the scores, [B, 1, 1, T] or [B, H, T, T]."""
        graph = self.graph
        absent = graph.op("Sub", graph.number(1.0), graph.cast(MASK))
        bias = graph.op("Unsqueeze", graph.op("Mul", absent, graph.number(_HIDDEN_AWAY)), graph.ints(1, 2))
        if self.encoder.relative is None:
            return bias
        most = self.config.max_positions
        places = torch.arange(most)[None]
        with torch.no_grad():
            near_HTT = self.encoder.relative(places, places)[0].numpy()
        by_distance_HN = np.concatenate((near_HTT[:, :0:-1, 0], near_HTT[:, 0]), 1)  # from -(most - 1) to most - 1
        index = graph.op("Add", self.near, graph.ints(most - 1))
        table = graph.constant("relative", by_distance_HN.astype(np.float32))
        return graph.op("Add", bias, graph.op("Gather", table, index, axis=1))

    def _near(self) -> str:
        """How far each key (column) is behind its query, [T, T]; empty where nothing asks."""
        if self.encoder.relative is None and self.encoder.distances is None and self.config.window is None:
            return ""
        graph = self.graph
        zero, one = (graph.constant(f"int_{number}", np.asarray(number, np.int64)) for number in (0, 1))
        places_T = graph.op("Range", zero, graph.op("Squeeze", self.length, graph.ints(0)), one)
        return graph.op(
            "Sub", graph.op("Unsqueeze", places_T, graph.ints(0)), graph.op("Unsqueeze", places_T, graph.ints(1))
        )

    def _local_bias(self) -> str:
        """The bias of layers that look at a window."""
        if self.config.window is None:
            return self.bias
        graph = self.graph
        beyond = graph.cast(graph.op("Greater", graph.op("Abs", self.near), graph.ints(self.config.window)))
        return graph.op("Add", self.bias, graph.op("Mul", beyond, graph.number(_HIDDEN_AWAY)))

    def _distances(self) -> str:
        """Which row of the table of distances is that of each pair of tokens, [T, T]."""
        if self.encoder.distances is None:
            return ""
        most = self.config.max_positions
        with torch.no_grad():
            _, rows = self.encoder.distances(torch.arange(most)[None])
        by_distance_N = torch.cat((rows[0, 0, :, 0].flip(0), rows[0, 0, 0, 1:])).numpy()  # from -(most - 1) to most - 1
        index = self.graph.op("Add", self.near, self.graph.ints(most - 1))
        return self.graph.op("Gather", self.graph.constant("distances", by_distance_N), index, axis=0)

    def _angles(self, base: float, name: str = "") -> tuple[str, str] | None:
        """cos and sin [T, K] of rotary positions (Su et al. 2021)."""
        if self.config.positions != "rotary":
            return None
        frequencies = base ** (-torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim)
        angles = torch.arange(self.config.max_positions)[:, None].float() * frequencies
        angles = torch.cat((angles, angles), 1)
        return self._table(f"{name}cos", angles.cos().numpy()), self._table(f"{name}sin", angles.sin().numpy())

    def _norm(self, value: str, name: str) -> str:
        weight, bias = self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        return self.graph.norm(value, name, self.config.norm, weight, bias, self.config.norm_eps)

    def _linear(self, value: str, name: str, row_max: str = "") -> str:
        weight, bias = self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        return self.graph.linear(value, name, weight, bias, row_max)

    def _read(self, hidden: str, name: str) -> str:
        """A matrix over what comes from a norm."""
        graph, weight_KD, bias = self.graph, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        if graph.int8 and name in self.loud:
            reach_D, weight_D = (np.maximum(top, _QUIETEST) for top in (self.loud[name], np.abs(weight_KD).max(0)))
            factor_D = np.sqrt(reach_D / weight_D)
            factor_D = np.clip(factor_D / np.median(factor_D), *_FACTORS).astype(np.float32)
            hidden = graph.op("Mul", hidden, graph.constant(f"{name}.quieter", 1 / factor_D))
            weight_KD = weight_KD * factor_D
        return graph.linear(hidden, name, weight_KD, bias, graph.row_max(hidden))

    def _embed(self) -> str:
        graph, weights = self.graph, self.weights
        hidden = graph.lookup(weights["embeddings.tokens.weight"], "embeddings.tokens.weight", IDS)
        if "embeddings.segments.weight" in weights:
            table = weights["embeddings.segments.weight"]
            segments = graph.constant("embeddings.segments.weight", table[0] if len(table) == 1 else table)
            hidden = graph.op(
                "Add", hidden, segments if len(table) == 1 else graph.op("Gather", segments, SEGMENTS, axis=0)
            )
        if "embeddings.positions.weight" in weights:
            positions = self._table("embeddings.positions.weight", weights["embeddings.positions.weight"])
            hidden = graph.op("Add", hidden, positions)
        if "embeddings.tasks.weight" in weights:
            task = graph.constant("embeddings.tasks.weight", weights["embeddings.tasks.weight"][0])
            hidden = graph.op("Add", hidden, task)
        hidden = self._norm(hidden, "embeddings.norm")
        return self._linear(hidden, "project") if "project.weight" in weights else hidden

    def _final(self, hidden: str) -> str:
        return self._norm(hidden, "final_norm") if "final_norm.weight" in self.weights else hidden

    # -- a block

    def _block(self, number: int, hidden: str, first_only: bool = False) -> str:
        graph, name = self.graph, "blocks.0" if self.config.share_layers else f"blocks.{number}"
        local = self.encoder.is_local(number)
        normed = self.config.norm_first and (number > 0 or self.config.first_norm)
        read = self._norm(hidden, f"{name}.attention_norm") if normed else hidden
        mixed = self._attention(read, f"{name}.attention", first_only, local)
        if first_only:
            hidden = graph.op("Slice", hidden, graph.ints(0), graph.ints(1), graph.ints(1))
        hidden = graph.op("Add", hidden, mixed)
        if self.config.norm_first:
            fed = self._feed(self._norm(hidden, f"{name}.ffn_norm"), f"{name}.ffn")
            return graph.op("Add", hidden, fed)
        hidden = self._norm(hidden, f"{name}.attention_norm")
        return self._norm(graph.op("Add", hidden, self._feed(hidden, f"{name}.ffn")), f"{name}.ffn_norm")

    def _attention(self, hidden: str, name: str, first_only: bool, local: bool) -> str:
        graph = self.graph
        shape = graph.ints(0, 0, self.config.num_heads, self.head_dim)
        both = self._read(hidden, f"{name}.qkv")
        parts = [graph.op("Reshape", part, shape) for part in graph.split(both, 3)]
        query, key, value = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts)
        angles = self.local_angles if local else self.angles
        query, key = self._rotate(query, angles), self._rotate(key, angles)
        bias = self.local_bias if local else self.bias
        if self.encoder.distances is not None:
            query, bias = self._disentangle(query, key, bias, name)
        if first_only:
            query = graph.op("Slice", query, graph.ints(0), graph.ints(1), graph.ints(2))
            bias = graph.op("Slice", bias, graph.ints(0), graph.ints(1), graph.ints(2))
        scores = graph.op("MatMul", query, graph.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = graph.op("Mul", scores, graph.number(self.head_dim**-0.5))
        weights = graph.op("Softmax", graph.op("Add", scores, bias), axis=-1)
        mixed = graph.op("Transpose", graph.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        mixed = graph.op("Reshape", mixed, graph.ints(0, 0, self.config.hidden_dim))
        return self._linear(mixed, f"{name}.out")

    def _disentangle(self, query: str, key: str, bias: str, name: str) -> tuple[str, str]:
        """Queries over √3, and the bias with what distances add (He et al. 2021, 3.1): the table of distances is the same
        for every text, so that its queries and keys are constants."""
        graph, distances = self.graph, self.encoder.distances
        assert distances is not None
        weight_KD, bias_K = self.weights[f"{name}.qkv.weight"], self.weights[f"{name}.qkv.bias"]
        table_RD = distances.norm(distances.table.weight).detach().float().numpy()
        rows_RK = table_RD @ weight_KD.T + bias_K
        size, heads = self.config.hidden_dim, self.config.num_heads
        far = [
            (rows_RK[:, start : start + size] / 3**0.5).reshape(-1, heads, self.head_dim).transpose(1, 2, 0)[None]
            for start in (0, size)
        ]
        shape = graph.op("Concat", graph.op("Shape", query, start=0, end=3), self.length, axis=0)
        rows = graph.op("Expand", self.distances, shape)
        across = graph.op("Expand", graph.op("Transpose", self.distances, perm=[1, 0]), shape)
        to = graph.op("MatMul", query, graph.constant(f"{name}.far_key", far[1].astype(np.float32)))
        back = graph.op("MatMul", key, graph.constant(f"{name}.far_query", far[0].astype(np.float32)))
        to = graph.op("GatherElements", to, rows, axis=3)
        back = graph.op("Transpose", graph.op("GatherElements", back, across, axis=3), perm=[0, 1, 3, 2])
        added = graph.op("Mul", graph.op("Add", to, back), graph.number(self.head_dim**-0.5))
        return graph.op("Mul", query, graph.number(3**-0.5)), graph.op("Add", bias, added)

    def _rotate(self, heads: str, angles: tuple[str, str] | None) -> str:
        """Turns each pair (i, i + K/2) by its angle."""
        if angles is None:
            return heads
        graph, (cos, sin) = self.graph, angles
        first, second = graph.split(heads, 2)
        turned = graph.op("Concat", graph.op("Neg", second), first, axis=-1)
        return graph.op("Add", graph.op("Mul", heads, cos), graph.op("Mul", turned, sin))

    def _feed(self, hidden: str, name: str) -> str:
        graph = self.graph
        inner = self._read(hidden, f"{name}.inner")
        if not self.config.gated:
            inner = self.graph.activation(inner, self.config.activation)
            return self._linear(inner, f"{name}.outer", graph.row_max(inner, _LEAST[self.config.activation]))
        gate, value = graph.split(inner, 2)
        inner = graph.op("Mul", self.graph.activation(gate, self.config.activation), value)
        return self._linear(inner, f"{name}.outer", graph.row_max(inner))


# -- the head of a task on it: the same numbers as ``tasks.network.TaskNetwork`` in use; N texts, K outputs

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
