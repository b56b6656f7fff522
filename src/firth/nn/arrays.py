"""What stands beside the graph of an exported model, in NumPy: pooling and the modules of sentence vectors, the CRF of a tagger,
softmax and sigmoid. The same numbers as ``nn.sentences`` and ``nn.crf``, without torch.

B batch, T tokens, D width, K tags, S texts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import shorten
from firth.core.types import Array, Floats, Ints

FORBIDDEN = -1e4  # as in ``nn.crf``
POOLS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "last")
"""In the order in which several of them are concatenated; by the names of sentence-transformers, which calls the last one
``lasttoken``."""


def load_arrays(path: Path) -> dict[str, Array]:
    """``load_tensors`` for NumPy: needs no torch, and knows neither ``.bin`` nor bfloat16."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    except (SafetensorError, TypeError, KeyError, AttributeError, ValueError, OSError) as error:
        raise FirthError(f"{path}: not a complete weights file ({shorten(error)}); copy it again") from None


Real = TypeVar("Real", np.float32, np.float64)


def softmax(scores: NDArray[Real]) -> NDArray[Real]:
    """Over the last axis, in the precision of the scores."""
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(shares / shares.sum(-1, keepdims=True))


def sigmoid(scores: Floats) -> Floats:
    """No number overflows."""
    small = np.exp(-np.abs(scores))
    return np.asarray(np.where(scores >= 0, 1, small) / (1 + small), np.float32)


def _log_sum(values: Floats, axis: int) -> Floats:
    top = values.max(axis, keepdims=True)
    return np.asarray(np.squeeze(top, axis) + np.log(np.exp(values - top).sum(axis)), np.float32)


# -- a vector for a text


def pool_rows(hidden_BTD: Floats, lens_B: Ints, pools: Sequence[str], skip: int = 0) -> Floats:
    """[B, pools x D] of padded rows, without the first ``skip`` tokens of each; see ``nn.sentences.pool_sequences``."""
    place_T = np.arange(hidden_BTD.shape[1])
    read_BT = (place_T >= skip) & (place_T < lens_B[:, None])
    return np.concatenate([_pool(hidden_BTD, lens_B, read_BT, skip, pool) for pool in pools], 1)


def _pool(hidden_BTD: Floats, lens_B: Ints, read_BT: NDArray[np.bool_], skip: int, pool: str) -> Floats:
    """[B, D]; zeros for a row without tokens."""
    there_B1 = (lens_B > skip)[:, None]
    if pool in ("cls", "last"):
        places_B = np.where(lens_B > skip, skip if pool == "cls" else lens_B - 1, 0)
        return np.asarray(np.where(there_B1, hidden_BTD[np.arange(len(lens_B)), places_B], 0), np.float32)
    if pool == "max":
        most_BD = np.where(read_BT[:, :, None], hidden_BTD, -np.inf).max(1)
        return np.asarray(np.where(there_B1, most_BD, 0), np.float32)
    weights_BT = read_BT * (np.arange(1, read_BT.shape[1] + 1) if pool == "weightedmean" else 1)
    total_B = np.maximum(weights_BT.sum(1), 1e-9).astype(np.float32)
    sums_BD = np.matmul(weights_BT[:, None].astype(np.float32), hidden_BTD)[:, 0]
    return np.asarray(sums_BD / (np.sqrt(total_B) if pool == "mean_sqrt_len_tokens" else total_B)[:, None], np.float32)


Part = Callable[[Floats], Floats]
Step = tuple[
    str, int | None, int | None
]  # a module's kind, and the widths that it reads and gives where they are fixed
ACTIVATIONS: dict[str, Part] = {
    "Tanh": np.tanh,
    "Identity": lambda found: found,
    "ReLU": lambda found: np.maximum(found, 0),
    "GELU": lambda found: found * (1 + np.vectorize(math.erf, otypes=[np.float32])(found / math.sqrt(2))) / 2,
    "Sigmoid": sigmoid,
    "SiLU": lambda found: found * sigmoid(found),
}


def dense(weights: Mapping[str, Floats], activation: str, residual: bool) -> Part:
    """A linear layer and its activation; ``residual`` adds what it read."""
    matrix, bias = weights["linear.weight"], weights.get("linear.bias")
    across, act = weights.get("residual.weight"), ACTIVATIONS[activation]

    def part(vectors_SD: Floats) -> Floats:
        found = act(vectors_SD @ matrix.T + (0 if bias is None else bias))
        if residual:
            found = found + (vectors_SD if across is None else vectors_SD @ across.T)
        return np.asarray(found, np.float32)

    return part


def norm(weights: Mapping[str, Floats], eps: float = 1e-5) -> Part:
    """LayerNorm over a text's vector."""

    def part(vectors_SD: Floats) -> Floats:
        centred = vectors_SD - vectors_SD.mean(1, keepdims=True)
        scaled = centred / np.sqrt(np.square(centred).mean(1, keepdims=True) + np.float32(eps))
        return np.asarray(scaled * weights["norm.weight"] + weights["norm.bias"], np.float32)

    return part


def normalize(vectors_SD: Floats) -> Floats:
    """Vectors of length 1; zeros stay."""
    return np.asarray(vectors_SD / np.maximum(np.linalg.norm(vectors_SD, axis=1, keepdims=True), 1e-12), np.float32)


class ArrayTail:
    """The modules behind the pooling, one after another."""

    def __init__(self, parts: Sequence[Part], steps: Sequence[Step] = ()) -> None:
        """``steps`` say how wide the vectors are that each part reads and gives."""
        self.parts, self.steps = list(parts), list(steps)

    @property
    def width(self) -> int | None:
        """Of the last linear layer, if there is one."""
        return next((given for _, _, given in reversed(self.steps) if given), None)

    def __call__(self, vectors_SD: Floats) -> Floats:
        for part in self.parts:
            vectors_SD = part(vectors_SD)
        return vectors_SD


# -- tags


class ArrayCRF:
    """A linear-chain CRF: start [K], step [K, K] from row to column, end [K], with what a scheme forbids."""

    def __init__(self, weights: Mapping[str, Floats] | None, rules: Sequence[NDArray[np.bool_]] = ()) -> None:
        """``rules`` say what is allowed at the start, from tag to tag and at the end; none: everything. Without weights all
        that is allowed is equally good."""
        found = []
        for place, name in enumerate(("start", "step", "end")):
            given = np.zeros(rules[place].shape, np.float32) if weights is None else weights[name]
            found.append(np.where(rules[place], given, np.float32(FORBIDDEN)) if rules else given)
        self.start_K, self.step_KK, self.end_K = found

    def decode(self, scores_BTK: Floats, mask_BT: NDArray[np.bool_]) -> Ints:
        """The best path (Viterbi) [B, T], -1 at places that the mask leaves out."""
        found_BT = np.full(mask_BT.shape, -1, np.int64)
        for row, (scores_TK, mask_T) in enumerate(zip(scores_BTK, mask_BT, strict=True)):
            if mask_T.any():
                found_BT[row, mask_T] = self._best(scores_TK[mask_T])
        return found_BT

    def _best(self, scores_TK: Floats) -> list[int]:
        best_K, origins = self.start_K + scores_TK[0], []
        for scores_K in scores_TK[1:]:
            value_KK = best_K[:, None] + self.step_KK
            origin_K = value_KK.argmax(0)
            origins.append(origin_K)
            best_K = value_KK[origin_K, np.arange(len(origin_K))] + scores_K
        path = [int((best_K + self.end_K).argmax())]
        for origin_K in reversed(origins):
            path.append(int(origin_K[path[-1]]))
        return path[::-1]

    def marginals(self, scores_BTK: Floats, mask_BT: NDArray[np.bool_]) -> Floats:
        """p(tag at place | scores) [B, T, K], 0 at places that the mask leaves out (forward-backward)."""
        found_BTK = np.zeros(scores_BTK.shape, np.float32)
        for row, (scores_TK, mask_T) in enumerate(zip(scores_BTK, mask_BT, strict=True)):
            if mask_T.any():
                found_BTK[row, mask_T] = self._shares(scores_TK[mask_T])
        return found_BTK

    def _shares(self, scores_TK: Floats) -> Floats:
        forward = [self.start_K + scores_TK[0]]
        for scores_K in scores_TK[1:]:
            forward.append(_log_sum(forward[-1][:, None] + self.step_KK, 0) + scores_K)
        backward = [self.end_K]
        for scores_K in scores_TK[:0:-1]:
            backward.append(_log_sum(self.step_KK + (scores_K + backward[-1])[None], 1))
        return softmax(np.stack(forward) + np.stack(backward[::-1]))
