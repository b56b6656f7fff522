"""Encoders as ONNX graphs: every option gives the numbers of the PyTorch module, in int8 nearly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firth.core.types import Inputs
from firth.exporters.onnx_encoder import EncoderWriter, loudness
from firth.exporters.onnx_graph import LEVELS, GraphWriter, quantised
from firth.exporters.onnx_model import Session
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder

SMALL: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_dim": 32,
    "num_layers": 2,
    "num_heads": 4,
    "ffn_dim": 48,
    "max_positions": 24,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "narrow embeddings": {"embedding_dim": 16},
    "tasks": {"num_tasks": 3},
    "modern": {"positions": "rotary", "norm": "rms", "norm_first": True, "gated": True, "bias": False},
    "rotary": {"positions": "rotary", "norm_first": True},
    "as ModernBERT": {
        "positions": "rotary",
        "rotary_base": 500.0,
        "norm_first": True,
        "first_norm": False,
        "gated": True,
        "bias": False,
        "num_segments": 0,
    },
    "relative": {"positions": "relative", "activation": "relu"},
    "no positions": {"positions": "none", "activation": "gelu_tanh", "gated": True},
    "no bias": {"bias": False},
}


def build(**settings: Any) -> Encoder:
    torch.manual_seed(3)
    encoder = Encoder(EncoderConfig.build({**SMALL, **settings}, "test")).eval()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return encoder


def batch() -> dict[str, torch.Tensor]:
    """Three rows, two of them padded, of two segments."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 60, (3, 11), generator=generator)
    blocks = (torch.arange(11) < torch.tensor([11, 4, 7])[:, None]).long()
    return {"ids": ids, "doc_ids": blocks, "segments": (torch.arange(11) >= 5).long().expand_as(ids).contiguous()}


def run(
    path: Path, encoder: Encoder, int8: bool = False, hear: bool = False
) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    graph = GraphWriter(int8)
    writer = EncoderWriter(graph, encoder, loudness(encoder, list(batch()["ids"].numpy())) if hear else None)
    writer.outputs()
    graph.output("first", writer.first_of_last(), ["B", 1, 32])
    graph.save(path, "test")
    names = [f"layer_{layer}" for layer in range(encoder.config.num_layers)] + ["last_hidden_state", "first"]
    given = {name: tensor.numpy() for name, tensor in batch().items()}
    found = Session(path).run(
        names, input_ids=given["ids"], attention_mask=given["doc_ids"], token_type_ids=given["segments"]
    )
    return found[:-1], found[-1]


def original(encoder: Encoder) -> np.ndarray[Any, Any]:
    given = batch()
    with torch.inference_mode():
        return encoder(Inputs.of(given)).hidden.numpy()


@pytest.mark.parametrize("name", VARIANTS)
def test_the_same_numbers(name: str, tmp_path: Path) -> None:
    encoder = build(**VARIANTS[name])
    layers, first = run(tmp_path / "model.onnx", encoder)
    wanted, seen = original(encoder), batch()["doc_ids"].numpy() > 0
    for layer, found in enumerate(layers):
        np.testing.assert_allclose(found[seen], wanted[layer][seen], atol=2e-5, rtol=1e-4)
    np.testing.assert_allclose(first[:, 0], wanted[-1][:, 0], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["plain", "modern", "as ModernBERT", "relative"])
def test_int8_is_near(name: str, tmp_path: Path) -> None:
    encoder = build(**VARIANTS[name])
    layers, _ = run(tmp_path / "model.onnx", encoder, int8=True)
    wanted, seen = original(encoder)[-1], batch()["doc_ids"].numpy() > 0
    ours, theirs = layers[-1][seen], wanted[seen]
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.mean() > 0.99
    assert cosines.min() > 0.97
    assert (tmp_path / "model.onnx").stat().st_size < 0.6 * sum(4 * one.numel() for one in encoder.parameters())


def test_loud_channels_are_evened_out(tmp_path: Path) -> None:
    encoder = build()
    with torch.no_grad():
        for name in ("embeddings.norm", "blocks.0.attention_norm", "blocks.0.ffn_norm", "blocks.1.attention_norm"):
            encoder.get_submodule(name).weight[3] = 60.0
    wanted, seen = original(encoder)[-1], batch()["doc_ids"].numpy() > 0
    errors = [
        float(np.abs(run(tmp_path / "model.onnx", encoder, int8=True, hear=hear)[0][-1] - wanted)[seen].mean())
        for hear in (False, True)
    ]
    assert errors[1] < 0.7 * errors[0]
    inputs: list[torch.Tensor] = []
    hook = encoder.blocks[0].attention.qkv.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    encoder.last(Inputs(batch()["ids"]))
    hook.remove()
    found = loudness(encoder, list(batch()["ids"].numpy()))["blocks.0.attention.qkv"]
    np.testing.assert_allclose(found, inputs[0].detach().abs().amax((0, 1)).numpy(), rtol=1e-5)


def test_one_loud_row_leaves_the_others_alone(tmp_path: Path) -> None:
    """Each row is scaled by itself before all share one scale."""
    graph = GraphWriter(int8=True)
    weight = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    graph.input("ids", ["B"])
    table = np.random.default_rng(1).normal(size=(3, 16)).astype(np.float32)
    table[1] *= 1000
    value = graph.op("Gather", graph.constant("table", table), "ids", axis=0)
    graph.output("out", graph.linear(value, "linear", weight, None, graph.row_max(value)), ["B", 8])
    graph.save(tmp_path / "model.onnx", "test")
    (found,) = Session(tmp_path / "model.onnx").run(["out"], ids=np.arange(3))
    wanted = table @ weight.T
    for row in range(3):
        assert np.abs(found[row] - wanted[row]).max() < 0.02 * np.abs(wanted[row]).max()


def test_quantised_columns() -> None:
    weight = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32) * np.asarray([1, 10, 0.1, 1, 1, 0])
    found, scale = quantised(weight.astype(np.float32))
    assert np.abs(found).max() == LEVELS
    np.testing.assert_allclose(found * scale, weight, atol=float(scale.max()) / 2 + 1e-7)
    assert (np.abs(found * scale - weight) <= scale / 2 + 1e-7).all()


def test_the_same_weights_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(tmp_path / f"{name}.onnx", build(), int8=True)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
