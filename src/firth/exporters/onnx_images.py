"""Models of images in ONNX: ViT and Swin as a graph, verified, and read again.

The size of the images is fixed. Inputs are normalised pixels; outputs are the last layer, the vector that is classified, and the
scores of the labels.

B batch, C channels, S edge of an image, P edge of a patch, R rows and columns of patches, T tokens, N windows, M tokens of a window,
D hidden size, H heads, K head size.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import atomic_folder, checksum
from firth.core.registry import find_spec
from firth.core.run import ExportRecord, OutputCheck, Run, RunRecord, versions
from firth.exporters.onnx_encoder import LAST, LOGITS
from firth.exporters.onnx_graph import GraphWriter
from firth.exporters.onnx_model import GRAPH, Session
from firth.models.shared.image_format import PROCESSOR, load_processor, save_processing
from firth.models.shared.image_model import ImageAnswers, ImageModel
from firth.models.swin.network import Order, Stage, SwinNetwork, WindowBlock, turn_order
from firth.models.vit.network import VitNetwork
from firth.nn.blocks import Block
from firth.nn.patches import stretch_positions
from firth.tasks.config import TaskConfig

PIXELS, POOLED = "pixel_values", "pooler_output"
_SAMPLES = 8


class ImageWriter:
    """Writes one network of images into a graph."""

    def __init__(self, graph: GraphWriter, model: ImageModel) -> None:
        self.graph, self.network = graph, model.network
        self.size, self.channels = model.processing.image_size, model.processing.num_channels
        self.edge = self.size // self.network.patch_size
        self.weights = {name: one.detach().float().numpy() for name, one in self.network.state_dict().items()}
        graph.input(PIXELS, ["B", self.channels, self.size, self.size], real=True)
        network = self.network
        if isinstance(network, VitNetwork):
            last, pooled, tokens = self._vit(network)
        else:
            assert isinstance(network, SwinNetwork)
            last, pooled, tokens = self._swin(network)
        graph.output(LAST, last, ["B", tokens, network.dim])
        graph.output(POOLED, pooled, ["B", network.dim])
        if model.classifier is not None:
            head = {name: one.detach().float().numpy() for name, one in model.classifier.state_dict().items()}
            weight, bias = (
                graph.constant("classifier.weight", head["weight"].T),
                graph.constant("classifier.bias", head["bias"]),
            )
            scores = graph.op("Add", graph.op("MatMul", pooled, weight), bias)
            graph.output(LOGITS, scores, ["B", len(head["bias"])])

    def _patches(self) -> str:
        """[B, T, D]; the matrix stays in float32, since pixels have no norm before it."""
        graph, size = self.graph, self.network.patch_size
        grid = graph.op("Reshape", PIXELS, graph.ints(0, self.channels, self.edge, size, self.edge, size))
        flat = graph.op("Transpose", grid, perm=[0, 2, 4, 1, 3, 5])
        flat = graph.op("Reshape", flat, graph.ints(0, self.edge**2, self.channels * size * size))
        weight = graph.constant("embed.project.weight", self.weights["embed.project.weight"].T)
        bias = graph.constant("embed.project.bias", self.weights["embed.project.bias"])
        return graph.op("Add", graph.op("MatMul", flat, weight), bias)

    def _norm(self, value: str, name: str, eps: float) -> str:
        return self.graph.norm(value, name, "layer", self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], eps)

    def _vit(self, network: VitNetwork) -> tuple[str, str, int]:
        graph, first = self.graph, int(network.has_class_token)
        with torch.no_grad():
            places = stretch_positions(network.positions[first:], self.edge, self.edge).numpy()
        hidden = graph.op("Add", self._patches(), graph.constant("positions", places.astype(np.float32)))
        tokens = self.edge**2 + first
        if network.class_token is not None:
            start = (self.weights["class_token"] + self.weights["positions"][0])[None, None]
            count = graph.op("Shape", PIXELS, start=0, end=1)
            shape = graph.op("Concat", count, graph.ints(1, network.dim), axis=0)
            hidden = graph.op("Concat", graph.op("Expand", graph.constant("start", start), shape), hidden, axis=1)
        for number, block in enumerate(network.blocks):
            assert isinstance(block, Block)
            hidden = self._block(hidden, f"blocks.{number}", block, tokens)
        last = self._norm(hidden, "norm", network.config.norm_eps)
        if not first:
            return last, graph.op("ReduceMean", last, graph.ints(1), keepdims=0), tokens
        pooled = graph.op("Squeeze", graph.op("Gather", last, graph.ints(0), axis=1), graph.ints(1))
        return last, pooled, tokens

    def _swin(self, network: SwinNetwork) -> tuple[str, str, int]:
        graph, edge = self.graph, self.edge
        hidden = self._norm(self._patches(), "embed_norm", network.embed_norm.eps)
        for number, stage in enumerate(network.stages):
            assert isinstance(stage, Stage)
            now = by_rows = (edge, edge, edge, 0)
            for place, block in enumerate(stage.blocks):
                assert isinstance(block, WindowBlock)
                wanted = (edge, edge, block.window, block.shift_of(edge, edge))
                hidden, now = self._turn(hidden, now, wanted), wanted
                hidden = self._window_block(hidden, f"stages.{number}.blocks.{place}", block, edge)
            hidden = self._turn(hidden, now, by_rows)
            if stage.merge is not None:
                hidden, edge = self._merge(hidden, f"stages.{number}.merge", edge, stage.merge.norm.eps), edge // 2
        last = self._norm(hidden, "norm", network.config.norm_eps)
        return last, graph.op("ReduceMean", last, graph.ints(1), keepdims=0), edge**2

    def _turn(self, hidden: str, now: Order, wanted: Order) -> str:
        if now == wanted:
            return hidden
        name = "order_" + "_".join(map(str, (*now, *wanted)))
        return self.graph.op("Gather", hidden, self.graph.constant(name, turn_order(now, wanted).numpy()), axis=1)

    def _window_block(self, hidden: str, name: str, block: WindowBlock, edge: int) -> str:
        graph, size = self.graph, block.window**2
        windows = edge**2 // size
        with torch.no_grad():
            bias = block.mask(edge, edge).numpy()  # [1 or N, H, M, M]
        width = block.block.attention.out.out_features
        cut = graph.op("Reshape", hidden, graph.ints(-1, size, width))
        found = self._block(cut, f"{name}.block", block.block, size, np.maximum(bias, np.float32(-1e9)), windows)
        return graph.op("Reshape", found, graph.ints(-1, edge**2, width))

    def _merge(self, hidden: str, name: str, edge: int, eps: float) -> str:
        graph, width = self.graph, self.weights[f"{name}.norm.weight"].shape[0] // 4
        half = edge // 2
        grid = graph.op("Reshape", hidden, graph.ints(0, half, 2, half, 2, width))
        grid = graph.op("Transpose", grid, perm=[0, 1, 3, 4, 2, 5])
        normed = self._norm(graph.op("Reshape", grid, graph.ints(0, half * half, 4 * width)), f"{name}.norm", eps)
        return graph.linear(
            normed, f"{name}.reduce", self.weights[f"{name}.reduce.weight"], None, graph.row_max(normed)
        )

    def _linear(self, value: str, name: str) -> str:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return self.graph.linear(value, name, weight, bias, self.graph.row_max(value))

    def _block(
        self,
        hidden: str,
        name: str,
        block: Block,
        tokens: int,
        bias: NDArray[np.float32] | None = None,
        windows: int = 1,
    ) -> str:
        """``tokens`` of a row; of windows the bias on their scores, [1 or N, H, M, M]."""
        graph, heads, width = self.graph, block.attention.num_heads, block.attention.out.out_features
        eps = block.attention_norm.eps
        assert isinstance(eps, float)
        both = self._linear(self._norm(hidden, f"{name}.attention_norm", eps), f"{name}.attention.qkv")
        shape = graph.ints(-1, tokens, heads, width // heads)
        parts = [graph.op("Reshape", part, shape) for part in graph.split(both, 3)]
        query, key, value = (graph.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts)
        scores = graph.op("MatMul", query, graph.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = graph.op("Mul", scores, graph.number((width // heads) ** -0.5))
        if bias is not None:
            scores = graph.op("Reshape", scores, graph.ints(-1, windows, heads, tokens, tokens))
            scores = graph.op("Add", scores, graph.constant(f"{name}.bias", bias))
            scores = graph.op("Reshape", scores, graph.ints(-1, heads, tokens, tokens))
        mixed = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
        mixed = graph.op("Reshape", graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), graph.ints(-1, tokens, width))
        hidden = graph.op("Add", hidden, self._linear(mixed, f"{name}.attention.out"))
        inner = self._linear(self._norm(hidden, f"{name}.ffn_norm", eps), f"{name}.ffn.inner")
        return graph.op("Add", hidden, self._linear(graph.activation(inner, self._activation()), f"{name}.ffn.outer"))

    def _activation(self) -> str:
        network = self.network
        assert isinstance(network, VitNetwork | SwinNetwork)
        return network.config.activation


def export_images(
    model: ImageModel, source: Path, out: Path, int8: bool = False, verify: bool = False, data: Path | None = None
) -> Run:
    """A folder that computes what the model at ``source`` computes; written whole or not at all."""
    if data is not None and not model.labels:
        raise FirthError(f"{source}: learned no labels, so there is nothing to score on {data}; leave out --data")
    graph = GraphWriter(int8)
    ImageWriter(graph, model)
    task = TaskConfig(task="classify", labels=tuple(model.labels)).model_dump(mode="json") if model.labels else None
    export = ExportRecord(source=str(source.absolute()), int8=int8, task=task)
    found = Run.find(source)
    known = None if found is None else found.record
    record = RunRecord(
        kind="onnx",
        model=model.spec_name,
        recipe=model.spec_name if known is None else known.recipe,
        status="finished",
        versions=versions(),
        config=model.config.model_dump(mode="json"),
        corpus=None if known is None else known.corpus,
        made_from=None if known is None else known.made_from,
        parameters=model.num_parameters,
        export=export,
    )
    with atomic_folder(out) as folder:
        graph.save(folder / GRAPH, "firth")
        save_processing(folder, model.processing)
        exported = Run(folder, record)
        exported.save(checksums={name: checksum(folder / name) for name in (GRAPH, PROCESSOR)})
        if verify or data is not None:
            exported.save(export=export.replace(verified=_verify(model, OnnxImages(exported), data)))
    return Run.open(out)


def _verify(model: ImageModel, exported: "OnnxImages", data: Path | None) -> OutputCheck:
    """On images of noise and edges, and on labelled ones."""
    size, channels, _, _ = model.processing
    draws = np.random.default_rng(0)
    pixels = draws.normal(size=(_SAMPLES, channels, size, size)).astype(np.float32)
    pixels[1::2] = pixels[1::2].cumsum(-1) / size**0.5
    given = torch.from_numpy(pixels)
    first, second = (one.encode_pixels([given]) for one in (model, exported))
    cosines = (first * second).sum(1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
    found = OutputCheck(
        texts=_SAMPLES,
        largest_difference=float(np.abs(first - second).max()),
        smallest_cosine=float(cosines.min()),
    )
    if not model.labels:
        return found
    with torch.inference_mode():
        difference = (model.scores(given) - exported.scores(given)).abs().max()
    found = found.replace(largest_output_difference=float(difference))
    if data is None:
        return found
    before, after = ({"accuracy": one.evaluate_images(data)["accuracy"]} for one in (model, exported))
    return found.replace(data=str(data.absolute()), before=before, after=after)


class OnnxImages(ImageAnswers):
    """An exported model of images."""

    engine = "onnxruntime"

    def __init__(self, run: Run) -> None:
        record = run.record
        assert record.export is not None
        self.spec_name, self.kind = record.model, f"exported {record.model}"
        self.session = Session(run.folder / GRAPH)
        self.labels = () if record.export.task is None else TaskConfig.build(record.export.task, run.path).labels
        network = find_spec(record.model).network
        assert network is not None
        sizes = network.build(record.config, run.path).model_dump()
        self.dim = int(self.session.outputs.get(POOLED, (0,))[-1])
        scores = {LOGITS: ("B", len(self.labels))} if self.labels else {}
        self.session.check({LAST: ("B", None, self.dim), POOLED: ("B", self.dim), **scores}, [PIXELS])
        self.processing = load_processor(run.folder, sizes["image_size"], sizes["num_channels"])
        self.num_layers = sizes.get("num_layers") or sum(sizes["depths"])
        self._num_parameters = record.parameters

    @property
    def num_parameters(self) -> int:
        return self._num_parameters

    def vectors(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.session.run([POOLED], **{PIXELS: pixels.numpy()})[0])

    def scores(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.session.run([LOGITS], **{PIXELS: pixels.numpy()})[0])

    def _pooled(self, pixels: torch.Tensor, layer: int, pool: str) -> torch.Tensor:
        raise FirthError(
            "an exported model of images has one vector per image, that of its last layer: leave out layer and pool"
        )
