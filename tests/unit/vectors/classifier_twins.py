"""fastText's classifier in plain Python and NumPy, to be read and to be tested against."""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from vector_twins import SplitMix, draw_noise

from firth.vectors.vocabulary import fnv1a, word_buckets

Floats = NDArray[np.float32]
_SPACES = re.compile(rb"[ \t\n\v\f\r\0]+")
_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def words_of(text: str) -> list[bytes]:
    """Cut at the original's white space; a literal ``</s>`` ends the text, which ends with one in any case."""
    found = [word for word in _SPACES.split(text.encode()) if word]
    return found[: found.index(b"</s>") + 1] if b"</s>" in found else [*found, b"</s>"]


def signed(value: int) -> int:
    """32 bits with their sign, in 64 bits."""
    return (value - 2**32 if value >= 2**31 else value) & _MASK


def ngram_buckets(words: Sequence[bytes], longest: int, bucket: int) -> list[int]:
    """Word n-grams, from each word on, the shorter ones first (Dictionary::addWordNgrams)."""
    hashes = [signed(fnv1a(word)) for word in words]
    found = []
    for first in range(len(hashes)):
        value = hashes[first]
        for place in range(first + 1, min(len(hashes), first + longest)):
            value = (value * 116049371 + hashes[place]) & _MASK
            found.append(value % bucket)
    return found


def rows_of(
    text: str,
    known: Sequence[bytes],
    word_ngrams: int,
    min_n: int,
    max_n: int,
    bucket: int,
    row: Callable[[int], int | None],
) -> list[int]:
    """``row`` gives the row of a bucket, or none where it was dropped."""
    words = [word for word in words_of(text) if not word.startswith(b"__label__")]
    found: list[int | None] = []
    for word in words:
        found += [list(known).index(word)] if word in known else []
        if bucket and max_n:
            found += [row(one) for one in word_buckets(word.decode(), min_n, max_n, bucket)]
    if bucket and word_ngrams > 1:
        found += [row(one) for one in ngram_buckets(words, word_ngrams, bucket)]
    return [one for one in found if one is not None]


def softmax(scores: Floats) -> Floats:
    found = np.exp(scores - scores.max())
    return np.asarray(found / found.sum(), np.float32)


def mixed(state: int) -> int:
    return SplitMix(state - _GOLDEN).bits()


class Twin:
    """One step for each text, in float32, as ``train_texts`` has it."""

    def __init__(self, inputs: Floats, outputs: Floats, loss: str, negatives: int = 5) -> None:
        self.inputs, self.outputs, self.loss, self.negatives = inputs.copy(), outputs.copy(), loss, negatives
        self.noise: NDArray[np.uint32] | None = None
        self.paths: list[list[tuple[int, float]]] = []

    def step(self, rows: Sequence[int], labels: Sequence[int], rate: float, text: int, key: int) -> None:
        if not len(rows) or not len(labels):
            return
        state = mixed((key + _GOLDEN * text) & _MASK)
        chosen = labels[((state >> 32) * len(labels)) >> 32]
        hidden = self.inputs[list(rows)].mean(0, dtype=np.float64).astype(np.float32)
        if self.loss == "softmax":
            goals = np.eye(len(self.outputs), dtype=np.float32)[chosen]
            slopes = np.float32(rate) * (goals - softmax(self.outputs @ hidden))
            error = slopes @ self.outputs
            self.outputs += np.outer(slopes, hidden)
        else:
            error = np.zeros_like(hidden)
            targets = self.targets(labels, chosen, state)
            for first in range(0, len(targets), 6):
                error += self._sigmoids(targets[first : first + 6], hidden, rate)
        for row in rows:
            self.inputs[row] += error / np.float32(len(rows))

    def _sigmoids(self, targets: Sequence[tuple[int, float]], hidden: Floats, rate: float) -> Floats:
        """Six at a time are scored before any of them changes."""
        error = np.zeros_like(hidden)
        scores = [float(self.outputs[row] @ hidden) for row, _ in targets]
        for (row, goal), score in zip(targets, scores, strict=True):
            slope = np.float32(rate * (goal - 1 / (1 + np.exp(-score))))
            error += slope * self.outputs[row]
            self.outputs[row] += slope * hidden
        return error

    def targets(self, labels: Sequence[int], chosen: int, state: int) -> list[tuple[int, float]]:
        if self.loss == "hierarchical":
            return self.paths[chosen]
        if self.loss == "one_vs_all":
            return [(label, float(label in labels)) for label in range(len(self.outputs))]
        assert self.noise is not None
        found = [(chosen, 1.0)]
        while len(found) <= self.negatives:
            state = (state + _GOLDEN) & _MASK
            other = draw_noise(self.noise, mixed(state))
            if other != chosen:
                found.append((other, 0.0))
        return found


def merged(base: Floats, copies: Sequence[Floats], most: float = 2.0) -> Floats:
    """The sum of the changes, held to ``most`` times their own size."""
    changes = np.stack([copy - base for copy in copies])
    total = changes.sum(0)
    share = min(1.0, most * float((changes**2).sum()) / max(float((total**2).sum()), 1e-30))
    return np.asarray(base + np.float32(share) * total)
