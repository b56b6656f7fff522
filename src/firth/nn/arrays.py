"""What stands beside the graph of an exported model, in NumPy: pooling and the modules of sentence vectors, the CRF of a tagger,
sigmoid; windows of long texts. The same numbers as ``nn.sentences`` and ``nn.crf``, without torch.

B batch, T tokens, D width, K tags, S texts.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import shorten
from firth.core.types import BATCH_TOKENS, Array, Floats, Ints, batches_by_length, pad, softmax

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


# -- texts of any length through a model of limited length


def window_places(size: int, most: int) -> list[Ints]:
    """Places of the tokens in each window of at most ``most``, each with the first and the last token; nothing is cut off."""
    if size <= most:
        return [np.arange(size)]
    inner, room = np.arange(1, size - 1), most - 2
    return [np.concatenate(([0], inner[start : start + room], [size - 1])) for start in range(0, len(inner), room)]


def padded_batches(
    rows: Sequence[Ints], pad_id: int = 0, batch_tokens: int = BATCH_TOKENS
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """(numbers, ids [B, T], 1 where there is a token) of rows of like length."""
    for numbers in batches_by_length([len(row) for row in rows], batch_tokens):
        yield numbers, *pad([rows[number] for number in numbers], pad_id)


def packed_batches(rows: Sequence[Ints], batch_tokens: int = BATCH_TOKENS) -> Iterator[tuple[Ints, Ints, list[int]]]:
    """(numbers, ids [N], lengths) of rows end to end, in the order of their lengths, so that equal ones are neighbours."""
    lens = [len(row) for row in rows]
    for numbers in batches_by_length(lens, batch_tokens, padded=False):
        yield numbers, np.concatenate([rows[number] for number in numbers]), [lens[number] for number in numbers]


def pool_windows(pooled: Floats, owner: Ints, lens: Ints, num_texts: int, pool: str) -> Floats:
    """One vector per text from those of its windows: by length for the mean, else the first, the last or the largest."""
    if len(pooled) == num_texts:
        return pooled
    out = np.empty((num_texts, pooled.shape[1]), np.float32)
    for text in range(num_texts):
        mine = owner == text
        if pool == "mean":
            out[text] = np.average(pooled[mine], axis=0, weights=lens[mine])
        elif pool == "max":
            out[text] = pooled[mine].max(0)
        else:
            out[text] = pooled[mine][0 if pool == "cls" else -1]
    return out


def encode_windows(
    texts: Sequence[Sequence[Ints]],
    dim: int,
    pool: str,
    pooled: Callable[[Sequence[Ints]], Iterable[tuple[Ints, Floats]]],
) -> Floats:
    """One vector per text, [N, D], from its windows. ``pooled`` gives (numbers, a vector each) of some windows at a time."""
    windows = [window for text in texts for window in text]
    owner = np.repeat(np.arange(len(texts)), np.asarray([len(text) for text in texts], np.int64))
    found = np.zeros((len(windows), dim), np.float32)
    for numbers, vectors in pooled(windows):
        found[numbers] = vectors
    return pool_windows(found, owner, np.asarray([len(window) for window in windows]), len(texts), pool)
