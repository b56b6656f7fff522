"""Why a classifier or scorer says what it says: how much each word of a text adds to the answer, by two methods.

Occlusion (Zeiler and Fergus 2014; Li et al. 2016): the score, or the log-odds of the label, with the word minus without it (a
probability near 1 hardly moves, whatever is left out). It asks the model only for predictions, so it works on every base. Gradient x input (Shrikumar et al. 2016; Denil et al. 2014): the derivative of the score
before the softmax along the vectors of the word's tokens; one backward pass. Both are local: what the model would say of another
text may differ. Where the two disagree, neither should be trusted alone, so their rank correlation is part of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, Later, nearest
from firth.core.types import Prediction
from firth.data.labelled import TextExample
from firth.models.shared.model import Model
from firth.tasks.config import ArrayNetwork
from firth.tasks.counts import CountsTask
from firth.tasks.fasttext import FastTextTask
from firth.tasks.model import TaskModel
from firth.tasks.scores import spearman
from firth.tokenizers.words import split_words

if TYPE_CHECKING:
    import torch
    from torch import nn
else:
    torch, nn = Later("torch"), Later("torch.nn")

METHODS = ("both", "occlusion", "gradient")
_LEAST = 1e-9  # probability
_MAX_UNITS = 400  # texts with more words are explained by groups of neighbouring words
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WordImportance:
    """A word (or a group of words in a long text) and what it adds to the answer; negative: it speaks against it."""

    text: str
    start: int
    end: int
    second: bool = False  # of the second text of a pair
    occlusion: float | None = None
    gradient: float | None = None


@dataclass(frozen=True)
class Explanation:
    """``label`` with its ``value`` (a probability), or a score with no label, and the words of the text in order."""

    label: str | None
    value: float
    words: list[WordImportance]
    agreement: float | None = None  # Spearman correlation of both methods over the words
    note: str = ""  # why a method is missing

    def __repr__(self) -> str:
        top = sorted(self.words, key=lambda word: -abs(word.occlusion or word.gradient or 0.0))[:5]
        shown = ", ".join(f"{word.text} {word.occlusion or word.gradient or 0.0:+.3f}" for word in top)
        return f"<Explanation of {self.label or 'the score'} {self.value:.3f}: {shown}>"


def explain_text(
    model: Model, text: str, second: str | None = None, label: str | None = None, method: str = "both"
) -> Explanation:
    """What each word adds to ``label`` (by default the predicted one), or to the score."""
    if method not in METHODS:
        raise FirthError(f"unknown method '{method}': {nearest(method, list(METHODS))}")
    if not text.strip():
        raise FirthError("there is no text to explain: give one with words in it")
    whole = _answers(model, [(text, second)])[0]
    label = _chosen_label(whole, label)
    units = [*_units(text, second=False), *(_units(second, second=True) if second is not None else [])]
    if not units:
        raise FirthError("there is no word in this text: give one with words in it")
    value = whole["score"] if label is None else whole["probabilities"][label]
    note = ""
    occluded = gradients = None
    if method != "gradient":
        occluded = _value(whole, label) - _without_each(model, text, second, units, label)
    if method != "occlusion":
        try:
            gradients = _gradient(model, text, second, units, label)
        except _Unavailable as reason:
            if method == "gradient":
                raise FirthError(f"gradient x input is not available: {reason}; use occlusion") from None
            note = f"gradient x input is not available: {reason}"
    words = [
        replace(
            unit,
            occlusion=None if occluded is None else float(occluded[place]),
            gradient=None if gradients is None else float(gradients[place]),
        )
        for place, unit in enumerate(units)
    ]
    agreement = None
    if occluded is not None and gradients is not None and len(units) > 2 and occluded.std() and gradients.std():
        agreement = float(spearman(occluded, gradients))
    return Explanation(label, value, words, agreement, note)


def _answers(model: Model, pairs: Sequence[tuple[str, str | None]]) -> list[Prediction]:
    found = model.predict([first if second is None else (first, second) for first, second in pairs])
    if found and ("answer" in found[0] or not {"probabilities", "score"} & found[0].keys()):
        raise FirthError("only classifiers and scorers are explained: name a run of firth finetune classify or score")
    return found


def _chosen_label(found: Prediction, label: str | None) -> str | None:
    if "probabilities" not in found:
        if label is not None:
            raise FirthError("this task gives a score, not labels: leave out --label")
        return None
    if label is None:
        return next(iter(found["probabilities"])) if "labels" in found else found["label"]
    if label not in found["probabilities"]:
        raise FirthError(f"unknown label '{label}': {nearest(label, list(found['probabilities']))}")
    return label


def _value(found: Prediction, label: str | None) -> float:
    """The score, or the log-odds of the label."""
    if label is None:
        return float(found["score"])
    own = found["probabilities"][label]
    several = "labels" in found
    others = 1 - own if several else sum(chance for name, chance in found["probabilities"].items() if name != label)
    return float(np.log(max(own, _LEAST)) - np.log(max(others, _LEAST)))


def _units(text: str, second: bool) -> list[WordImportance]:
    """The words, in a long text groups of as many neighbours as bring their number under the limit."""
    spans = split_words(text)
    size = -(-len(spans) // _MAX_UNITS) or 1
    groups = [spans[first : first + size] for first in range(0, len(spans), size)]
    return [WordImportance(text[group[0][0] : group[-1][1]], group[0][0], group[-1][1], second) for group in groups]


def _without_each(
    model: Model, text: str, second: str | None, units: Sequence[WordImportance], label: str | None
) -> Floats:
    """The score or log-odds of the text without each unit in turn."""
    asked: list[tuple[str, str | None]] = []
    for unit in units:
        first, other = text, second
        if unit.second:
            assert other is not None
            other = other[: unit.start] + other[unit.end :]
        else:
            first = first[: unit.start] + first[unit.end :]
        asked.append((first, other))
    return np.asarray([_value(found, label) for found in _answers(model, asked)])


# -- gradient x input


class _Unavailable(Exception):
    """Why there are no gradients."""


def _gradient(
    model: Model, text: str, second: str | None, units: Sequence[WordImportance], label: str | None
) -> Floats:
    if isinstance(model, TaskModel) and model.counts is not None:
        raise _Unavailable("counts of n-grams are added to what the network says")
    without = isinstance(model, CountsTask | FastTextTask)
    if not isinstance(model, TaskModel) or without or isinstance(model.network, ArrayNetwork):
        raise _Unavailable("there are none without a PyTorch network")
    if second is not None:
        raise _Unavailable("it reads one text, not a pair")
    item = model.task.item(TextExample(text), 0)
    batch = model.task.batch([item]).to(model.config.device)
    with _differentiable(model) as taken:
        scores = model.network.text_scores(batch.tensors, 1)[0]
        score = scores[0] if label is None else scores[model.config.labels.index(label)]
        if not taken or taken[0].shape[:2] != batch.tensors["doc_ids"].shape:
            raise _Unavailable("this base does not look up one vector per token")
        score.backward()
    vectors = taken[0]
    assert vectors.grad is not None
    parts = (vectors.detach() * vectors.grad).double().flatten(2).sum(2)  # [B, T]
    offsets = model.network.reader.tokenize(text).offsets
    added = np.zeros(len(units))
    starts = np.asarray([unit.start for unit in units])
    for row, part in zip(item.rows, parts.cpu().numpy(), strict=True):
        for token, place in enumerate(row.source):
            if place >= 0:
                begin = int(offsets[place][0])
                added[max(0, int(np.searchsorted(starts, begin, "right")) - 1)] += part[token]
    return added


@contextmanager
def _differentiable(model: TaskModel) -> Iterator[list[torch.Tensor]]:
    """The network with gradients for the vectors of its tokens, also where the base does not learn."""
    network = model.network
    taken: list[torch.Tensor] = []
    config, was_training = network.config, network.training

    def take(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        if taken or output.dim() < 3:
            return output
        taken.append(output.detach().requires_grad_())
        return taken[0]

    tables = [
        module
        for name, module in network.named_modules()
        if name.startswith("reader_module") and isinstance(module, nn.Embedding)
    ]
    hooks = [table.register_forward_hook(take) for table in tables]
    network.eval()
    network.config = config.replace(tune=True)
    needed = [parameter for parameter in network.parameters() if parameter.requires_grad]
    for parameter in needed:
        parameter.requires_grad_(False)
    try:
        with torch.enable_grad():
            yield taken
    finally:
        for hook in hooks:
            hook.remove()
        for parameter in needed:
            parameter.requires_grad_(True)
        network.config = config
        network.train(was_training)
