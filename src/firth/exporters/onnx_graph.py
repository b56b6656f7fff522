"""An ONNX graph written node by node: what a Transformer needs, in float32 or with linear layers in int8.

Written by hand rather than traced: it takes milliseconds, the names are the model's own, the same weights give
the same bytes, and each node is one that onnxruntime computes fast.

int8: a matrix is stored as signed bytes with one scale per column, activations are quantised at run time
(``DynamicQuantizeMatMul``). That has one scale for all rows of a batch, so one large value in one row would make all others
coarse; therefore each row is divided by its largest value before, and multiplied after (like the per-token scales of
ZeroQuant, Yao et al. 2022).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, import_extra
from firth.core.files import write_bytes
from firth.exporters.onnx_check import OPERATORS

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
        assert kind in OPERATORS, f"{kind}: tell onnx_check how its shape follows"
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

    def input(self, name: str, shape: list[str | int], real: bool = False) -> str:
        """Numbers from outside: int64, or float32."""
        kind = self.onnx.TensorProto.FLOAT if real else self.onnx.TensorProto.INT64
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
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

    def activation(self, value: str, kind: str) -> str:
        if kind in ("relu", "tanh"):
            return self.op(kind.capitalize(), value)
        return self.op("Gelu", value, approximate="tanh" if kind == "gelu_tanh" else "none")

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
