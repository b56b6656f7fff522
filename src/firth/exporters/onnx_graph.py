"""An ONNX graph written node by node: what a Transformer needs, in float32 or with linear layers in int8.

Written by hand rather than traced: it takes milliseconds, the names are the model's own, the same weights give
the same bytes, and each node is one that onnxruntime computes fast.

int8: a matrix is stored as signed bytes with one scale per column, activations are quantised at run time
(``DynamicQuantizeMatMul``). That has one scale for all rows of a batch, so one large value in one row would make all others
coarse; therefore each row is divided by its largest value before, and multiplied after (like the per-token scales of
ZeroQuant, Yao et al. 2022).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError, import_extra
from firth.core.files import write_bytes
from firth.core.types import Inputs
from firth.models.shared.encoder import Encoder

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto

OPSET, IR_VERSION = 20, 10
_OWN = "com.microsoft"  # the domain of onnxruntime's own operators
_LARGEST = 2**31 - 1  # bytes of a protobuf
_SMALL = np.float32(1e-9)
# Older processors add two products in 16 bits, which overflow where two large activations meet two large weights;
# 100 steps to either side leave room for that and were the most faithful, with 63 (no overflow) and 127 (finest) behind.
LEVELS = 100


def quantised(weight_DK: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The matrix as int8 with one scale per column."""
    scale_K = np.maximum(np.abs(weight_DK).max(0), _SMALL) / np.float32(LEVELS)
    return np.rint(weight_DK / scale_K).astype(np.int8), scale_K.astype(np.float32)


class GraphWriter:
    """Collects the nodes and constants of a graph in order; values are referred to by name."""

    def __init__(self, int8: bool = False) -> None:
        self.onnx = import_extra("onnx", "onnx", "writing ONNX")
        self.int8 = int8
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []

    # -- the parts of any graph

    def constant(self, name: str, array: NDArray[np.generic]) -> str:
        """A named array, stored once."""
        if name not in self.constants:
            self.constants[name] = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(f"ints{''.join(f'_{number}' for number in numbers)}", np.asarray(numbers, np.int64))

    def number(self, number: float) -> str:
        return self.constant(f"number_{number!r}", np.asarray(number, np.float32))

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: int | float | str | Sequence[int]) -> str:
        """Adds a node and returns the name of its output."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def split(self, value: str, count: int) -> list[str]:
        """Equal parts of the last axis."""
        names = [f"Split_{len(self.nodes)}_{place}" for place in range(count)]
        self.nodes.append(self.onnx.helper.make_node("Split", [value], names, axis=-1, num_outputs=count))
        return names

    def cast(self, value: str) -> str:
        """As float32."""
        return self.op("Cast", value, to=self.onnx.TensorProto.FLOAT)

    def input(self, name: str, shape: list[str | int]) -> str:
        """int64 numbers from outside."""
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.INT64, shape))
        return name

    def output(self, name: str, value: str, shape: list[str | int]) -> None:
        """A float32 value under a name for the outside."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, shape))

    # -- layers

    def linear(
        self,
        value: str,
        name: str,
        weight_KD: NDArray[np.float32],
        bias_K: NDArray[np.float32] | None,
        row_max: str = "",
    ) -> str:
        """value Wᵀ + b. ``row_max`` is the largest number of each row [..., 1] where it is known; without it,
        int8 has one scale for all rows."""
        if not self.int8:
            found = self.op("MatMul", value, self.constant(f"{name}.weight", weight_KD.T))
        else:
            bytes_DK, scale_K = quantised(weight_KD.T)
            matrix = (self.constant(f"{name}.weight", bytes_DK), self.constant(f"{name}.scale", scale_K))
            if not row_max:
                bias = [] if bias_K is None else ["", self.constant(f"{name}.bias", bias_K)]
                return self.op("DynamicQuantizeMatMul", value, *matrix, *bias, domain=_OWN)
            small = self.op("DynamicQuantizeMatMul", self.op("Div", value, row_max), *matrix, domain=_OWN)
            found = self.op("Mul", small, row_max)
        return found if bias_K is None else self.op("Add", found, self.constant(f"{name}.bias", bias_K))

    def row_max(self, value: str, least: float = 0.0) -> str:
        """The largest absolute number of each row [..., 1]; numbers known to be above -``least`` are not asked for
        their sign. Empty where it is not used."""
        if not self.int8:
            return ""
        seen = value if least else self.op("Abs", value)
        return self.op("Max", self.op("ReduceMax", seen, self.ints(-1)), self.number(least or float(_SMALL)))

    def norm(
        self,
        value: str,
        name: str,
        kind: str,
        weight_D: NDArray[np.float32],
        bias_D: NDArray[np.float32] | None,
        eps: float,
    ) -> str:
        weight = self.constant(f"{name}.weight", weight_D)
        if kind == "layer":
            zero = np.zeros_like(weight_D)
            bias = self.constant(f"{name}.bias", zero if bias_D is None else bias_D)
            return self.op("LayerNormalization", value, weight, bias, axis=-1, epsilon=eps)
        mean = self.op("ReduceMean", self.op("Pow", value, self.number(2.0)), self.ints(-1))
        root = self.op("Sqrt", self.op("Add", mean, self.number(eps)))
        return self.op("Mul", self.op("Div", value, root), weight)

    def lookup(self, table_VD: NDArray[np.float32], name: str, ids: str) -> str:
        """Rows of an embedding table; in int8 with one scale per row."""
        if not self.int8:
            return self.op("Gather", self.constant(name, table_VD), ids, axis=0)
        bytes_DV, scale_V = quantised(table_VD.T)
        rows = self.cast(self.op("Gather", self.constant(name, bytes_DV.T), ids, axis=0))
        return self.op("Mul", rows, self.op("Gather", self.constant(f"{name}.scale", scale_V[:, None]), ids, axis=0))

    # -- on disk

    def save(self, path: Path, title: str) -> None:
        """The file, whole or not at all."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, title, self.inputs, self.outputs, list(self.constants.values()))
        opsets = [helper.make_opsetid("", OPSET), *([helper.make_opsetid(_OWN, 1)] if self.int8 else [])]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="firth")
        if model.ByteSize() > _LARGEST:
            raise FirthError(f"{path}: the model is larger than the 2 GB that one ONNX file holds; export with --int8")
        self.onnx.checker.check_model(model, full_check=not self.int8)
        write_bytes(path, model.SerializeToString(deterministic=True))


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
        self.bias = self._bias()
        self.angles = self._angles()
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
        zero, one = (graph.constant(f"int_{number}", np.asarray(number, np.int64)) for number in (0, 1))
        end = graph.op("Squeeze", self.length, graph.ints(0))
        places_T = graph.op("Range", zero, end, one)
        distance = graph.op(
            "Sub", graph.op("Unsqueeze", places_T, graph.ints(0)), graph.op("Unsqueeze", places_T, graph.ints(1))
        )
        index = graph.op("Add", distance, graph.ints(most - 1))
        table = graph.constant("relative", by_distance_HN.astype(np.float32))
        return graph.op("Add", bias, graph.op("Gather", table, index, axis=1))

    def _angles(self) -> tuple[str, str] | None:
        """cos and sin [T, K] of rotary positions (Su et al. 2021)."""
        if self.config.positions != "rotary":
            return None
        frequencies = self.config.rotary_base ** (
            -torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        )
        angles = torch.arange(self.config.max_positions)[:, None].float() * frequencies
        angles = torch.cat((angles, angles), 1)
        return self._table("cos", angles.cos().numpy()), self._table("sin", angles.sin().numpy())

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
            segments = graph.constant("embeddings.segments.weight", weights["embeddings.segments.weight"])
            hidden = graph.op("Add", hidden, graph.op("Gather", segments, SEGMENTS, axis=0))
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
        graph, name = self.graph, f"blocks.{number}"
        normed = self.config.norm_first and (number > 0 or self.config.first_norm)
        read = self._norm(hidden, f"{name}.attention_norm") if normed else hidden
        mixed = self._attention(read, f"{name}.attention", first_only)
        if first_only:
            hidden = graph.op("Slice", hidden, graph.ints(0), graph.ints(1), graph.ints(1))
        hidden = graph.op("Add", hidden, mixed)
        if self.config.norm_first:
            fed = self._feed(self._norm(hidden, f"{name}.ffn_norm"), f"{name}.ffn")
            return graph.op("Add", hidden, fed)
        hidden = self._norm(hidden, f"{name}.attention_norm")
        return self._norm(graph.op("Add", hidden, self._feed(hidden, f"{name}.ffn")), f"{name}.ffn_norm")

    def _attention(self, hidden: str, name: str, first_only: bool) -> str:
        graph = self.graph
        shape = graph.ints(0, 0, self.config.num_heads, self.head_dim)
        both = self._read(hidden, f"{name}.qkv")
        parts = [graph.op("Reshape", part, shape) for part in graph.split(both, 3)]
        query, key, value = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts)
        query, key = self._rotate(query), self._rotate(key)
        bias = self.bias
        if first_only:
            query = graph.op("Slice", query, graph.ints(0), graph.ints(1), graph.ints(2))
            bias = graph.op("Slice", bias, graph.ints(0), graph.ints(1), graph.ints(2))
        scores = graph.op("MatMul", query, graph.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = graph.op("Mul", scores, graph.number(self.head_dim**-0.5))
        weights = graph.op("Softmax", graph.op("Add", scores, bias), axis=-1)
        mixed = graph.op("Transpose", graph.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        mixed = graph.op("Reshape", mixed, graph.ints(0, 0, self.config.hidden_dim))
        return self._linear(mixed, f"{name}.out")

    def _rotate(self, heads: str) -> str:
        """Turns each pair (i, i + K/2) by its angle."""
        if self.angles is None:
            return heads
        graph, (cos, sin) = self.graph, self.angles
        first, second = graph.split(heads, 2)
        turned = graph.op("Concat", graph.op("Neg", second), first, axis=-1)
        return graph.op("Add", graph.op("Mul", heads, cos), graph.op("Mul", turned, sin))

    def _feed(self, hidden: str, name: str) -> str:
        graph = self.graph
        inner = self._read(hidden, f"{name}.inner")
        if not self.config.gated:
            inner = self._activation(inner)
            return self._linear(inner, f"{name}.outer", graph.row_max(inner, _LEAST[self.config.activation]))
        gate, value = graph.split(inner, 2)
        inner = graph.op("Mul", self._activation(gate), value)
        return self._linear(inner, f"{name}.outer", graph.row_max(inner))

    def _activation(self, value: str) -> str:
        kind = self.config.activation
        if kind == "relu":
            return self.graph.op("Relu", value)
        return self.graph.op("Gelu", value, approximate="tanh" if kind == "gelu_tanh" else "none")
