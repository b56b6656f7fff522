"""From vectors of pieces to vectors of words.

L layers, T tokens, W words, D hidden size.
"""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.seeds import generator, uniform


def of_words(
    hidden_LTD: NDArray[np.float32], words_T: NDArray[np.int64], num_words: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The mean of each word's pieces in every layer, [L, W, D], and which words have any piece; the rest are zeros."""
    inside = words_T >= 0
    numbers = words_T[inside]
    counts_W = np.bincount(numbers, minlength=num_words)[:num_words]
    sums_WLD = np.zeros((num_words, len(hidden_LTD), hidden_LTD.shape[-1]), np.float32)
    kept = numbers < num_words
    np.add.at(sums_WLD, numbers[kept], hidden_LTD[:, inside].transpose(1, 0, 2)[kept])
    means_LWD = sums_WLD.transpose(1, 0, 2) / np.maximum(counts_W, 1)[:, None].astype(np.float32)
    return np.ascontiguousarray(means_LWD), counts_W > 0


_BATCH, _EPOCHS, _STEPS, _RATE = 256, 15, 1500, 5e-3  # at least so many steps, however few the words


@dataclass(frozen=True)
class TaggedWords:
    """Words in context: their forms, tags and vectors of every layer."""

    words: list[str]
    tags: list[str]
    vectors: NDArray[np.float32]  # [L, N, D]


@dataclass(frozen=True)
class TagScores:
    """Accuracies on test words; those of the probe by layer."""

    accuracy: list[float]
    control: list[float]
    unseen: list[float] | None  # of the real task, on words that training did not have; None without any
    majority: float  # always the most frequent tag
    per_word: float  # the tag that the word has most often; for unseen words the most frequent of all
    num_train: int
    num_test: int
    num_unseen: int
    num_tags: int

    @property
    def selectivity(self) -> list[float]:
        return [real - control for real, control in zip(self.accuracy, self.control, strict=True)]


def control_tags(words: Sequence[str], counts: Counter[str], seed: int = 0) -> list[str]:
    """One tag a word form, drawn by the tags' frequencies; the same form always gets the same tag (section 2)."""
    tags = sorted(counts)
    edges = np.cumsum([counts[tag] for tag in tags]) / sum(counts.values())
    forms = np.asarray([zlib.crc32(word.encode()) for word in words], np.uint64)
    places = np.searchsorted(edges, uniform(seed, 0xC0147, forms), side="right")
    return [tags[place] for place in np.minimum(places, len(tags) - 1).tolist()]


def score_tags(train: TaggedWords, test: TaggedWords, seed: int = 0) -> TagScores:
    """Trains the probes of all layers, real and control, and measures them beside the baselines."""
    counts = Counter(train.tags)
    known = {tag: number for number, tag in enumerate(sorted(counts))}
    labels_NK = np.stack([_numbers(tags, known) for tags in (train.tags, control_tags(train.words, counts, seed))], 1)
    goals_NK = np.stack([_numbers(tags, known) for tags in (test.tags, control_tags(test.words, counts, seed))], 1)
    guesses_LNK = predict(fit(train.vectors, labels_NK, len(known), seed), test.vectors)
    right_LNK = guesses_LNK == goals_NK
    seen = set(train.words)
    new_N = np.asarray([word not in seen for word in test.words], np.bool_)
    majority, per_word = baselines(train, test)
    return TagScores(
        accuracy=right_LNK[:, :, 0].mean(1).tolist(),
        control=right_LNK[:, :, 1].mean(1).tolist(),
        unseen=right_LNK[:, new_N, 0].mean(1).tolist() if new_N.any() else None,
        majority=majority,
        per_word=per_word,
        num_train=len(train.words),
        num_test=len(test.words),
        num_unseen=int(new_N.sum()),
        num_tags=len(known),
    )


def _numbers(tags: Sequence[str], known: dict[str, int]) -> NDArray[np.int64]:
    """-1 for a tag that training did not have: no guess is right."""
    return np.asarray([known.get(tag, -1) for tag in tags], np.int64)


def baselines(train: TaggedWords, test: TaggedWords) -> tuple[float, float]:
    """The accuracy of the most frequent tag, and of each word's own most frequent one."""
    majority = _most(Counter(train.tags))
    by_word: dict[str, Counter[str]] = {}
    for word, tag in zip(train.words, train.tags, strict=True):
        by_word.setdefault(word, Counter())[tag] += 1
    best = {word: _most(counts) for word, counts in by_word.items()}
    always = np.mean([tag == majority for tag in test.tags])
    own = np.mean([best.get(word, majority) == tag for word, tag in zip(test.words, test.tags, strict=True)])
    return float(always), float(own)


def _most(counts: Counter[str]) -> str:
    """Of equals the first by name, so that the order of the text does not matter."""
    return min(counts, key=lambda tag: (-counts[tag], tag))


@dataclass(frozen=True)
class Probes:
    """A linear map for each layer and task, over vectors brought to mean 0 and variance 1."""

    mean: torch.Tensor  # [L, 1, D]
    scale: torch.Tensor  # [L, 1, D]
    weight: torch.Tensor  # [L, D, K * C]
    bias: torch.Tensor  # [L, 1, K * C]
    num_tasks: int

    def scores(self, vectors_LND: torch.Tensor) -> torch.Tensor:
        """[L, N, K, C]."""
        normal = (vectors_LND - self.mean) * self.scale
        return torch.baddbmm(self.bias, normal, self.weight).unflatten(-1, (self.num_tasks, -1))


def fit(vectors: NDArray[np.float32], labels_NK: NDArray[np.int64], num_labels: int, seed: int = 0) -> Probes:
    """Softmax regression by Adam with a falling rate. Layers and tasks do not touch each other: their losses are
    added and Adam works number by number, so this is the same as one after the other, only faster."""
    vectors_LND, labels = torch.from_numpy(vectors), torch.from_numpy(labels_NK)
    num_layers, num_words, dim = vectors_LND.shape
    num_tasks = labels.shape[1]
    mean = vectors_LND.mean(1, keepdim=True)
    spread = vectors_LND.std(1, keepdim=True, correction=0)
    scale = torch.where(spread > 1e-6, 1 / spread.clamp_min(1e-6), torch.zeros_like(spread))
    weight = torch.zeros(num_layers, dim, num_tasks * num_labels, requires_grad=True)
    bias = torch.zeros(num_layers, 1, num_tasks * num_labels, requires_grad=True)
    probes = Probes(mean, scale, weight, bias, num_tasks)
    optimizer = torch.optim.Adam([weight, bias], lr=_RATE)
    num_batches = -(-num_words // _BATCH)
    num_epochs = max(_EPOCHS, -(-_STEPS // num_batches))
    num_steps = num_epochs * num_batches
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / num_steps)
    for epoch in range(num_epochs):
        order = torch.from_numpy(generator(seed, 0x9B0BE, epoch).permutation(num_words))
        for start in range(0, num_words, _BATCH):
            rows = order[start : start + _BATCH]
            scores = probes.scores(vectors_LND[:, rows])
            goals = labels[rows].expand(num_layers, -1, -1)
            loss = functional.cross_entropy(scores.flatten(0, 2), goals.flatten(), reduction="sum") / len(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return Probes(mean, scale, weight.detach(), bias.detach(), num_tasks)


def predict(probes: Probes, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """The best label of each word, layer and task, [L, N, K]."""
    with torch.inference_mode():
        parts = [probes.scores(part).argmax(-1) for part in torch.from_numpy(vectors).split(4096, dim=1)]
        found: NDArray[np.int64] = torch.cat(parts, dim=1).numpy()
    return found
