"""The Transformer block in plain NumPy, float64, written from the papers rather than from the code."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = Mapping[str, Array]

_erf = np.vectorize(math.erf)


def softmax(scores: Array) -> Array:
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def linear(x: Array, weights: Weights, name: str) -> Array:
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", np.zeros(1))


def layer_norm(x: Array, weights: Weights, name: str, eps: float) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return normed * weights[f"{name}.weight"] + weights.get(f"{name}.bias", np.zeros(1))


def rms_norm(x: Array, weights: Weights, name: str, eps: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weights[f"{name}.weight"]


def activate(x: Array, name: str) -> Array:
    if name == "relu":
        return np.maximum(x, 0)
    if name == "gelu":
        return x * 0.5 * (1 + _erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(
    x: Array, weights: Weights, num_heads: int, allowed: NDArray[np.bool_], bias: Array | None = None
) -> tuple[Array, Array]:
    """(output [T, D], weights [H, T, T]) of one sequence, head by head."""
    queries, keys, values = np.split(linear(x, weights, "qkv"), 3, axis=-1)
    size = x.shape[-1] // num_heads
    mixed, looks = [], []
    for head in range(num_heads):
        part = slice(head * size, (head + 1) * size)
        scores = queries[:, part] @ keys[:, part].T / math.sqrt(size)
        if bias is not None:
            scores = scores + bias[head]
        looks.append(softmax(np.where(allowed, scores, -np.inf)))
        mixed.append(looks[-1] @ values[:, part])
    return linear(np.concatenate(mixed, -1), weights, "out"), np.stack(looks)


def below(weights: Weights, prefix: str) -> dict[str, Array]:
    return {name.removeprefix(f"{prefix}."): value for name, value in weights.items() if name.startswith(f"{prefix}.")}


def feed_forward(x: Array, weights: Weights, activation: str, gated: bool) -> Array:
    inner = linear(x, weights, "inner")
    if gated:
        gate, value = np.split(inner, 2, axis=-1)
        return linear(activate(gate, activation) * value, weights, "outer")
    return linear(activate(inner, activation), weights, "outer")


def block(x: Array, weights: Weights, allowed: NDArray[np.bool_], config: Mapping[str, object]) -> Array:
    """Post-norm: norm(x + f(x)); pre-norm: x + f(norm(x))."""
    eps, heads = float(str(config["norm_eps"])), int(str(config["num_heads"]))
    norm = rms_norm if config["norm"] == "rms" else layer_norm

    def attend(y: Array) -> Array:
        return attention(y, below(weights, "attention"), heads, allowed)[0]

    def feed(y: Array) -> Array:
        return feed_forward(y, below(weights, "ffn"), str(config["activation"]), bool(config["gated"]))

    for part, name in ((attend, "attention_norm"), (feed, "ffn_norm")):
        x = x + part(norm(x, weights, name, eps)) if config["norm_first"] else norm(x + part(x), weights, name, eps)
    return x
