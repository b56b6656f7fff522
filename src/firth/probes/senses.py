"""Word senses by the nearest sense vector, with the first sense to fall back on (Peters et al. 2018, section 5.3).

The vectors of all training occurrences of a sense are averaged; a word in a new sentence gets the sense of its item
(lemma and part of speech) whose vector is nearest by cosine; an item that was never seen in training gets its first
sense, if a list of first senses was given, else no answer. Each layer by itself.

L layers, S senses, D hidden size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SensedWord:
    """A word in context with its vectors [L, D]; any of ``senses`` is right."""

    item: str
    senses: tuple[str, ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True)
class SenseScores:
    """F1 of each layer (precision over what was answered, recall over all), beside the first sense alone.

    ``choice``: the share of right answers where training had at least two senses to choose from.
    """

    f1: list[float]
    first_f1: float
    choice: list[float] | None
    first_choice: float | None
    num_train: int
    num_test: int
    num_choice: int
    num_unseen: int  # test words whose item training did not have
    num_unanswered: int


class NearestSense:
    """The senses that training occurrences show."""

    def __init__(self, train: Sequence[SensedWord], first: Mapping[str, str] | None = None) -> None:
        """``first`` are first senses by item; otherwise the most frequent one of training is taken as such."""
        sums: dict[str, dict[str, NDArray[np.float64]]] = {}
        counts: dict[str, dict[str, int]] = {}
        for word in train:
            for sense in word.senses:
                of_item = sums.setdefault(word.item, {})
                of_item[sense] = of_item.get(sense, np.zeros(1)) + word.vectors.astype(np.float64)
                number = counts.setdefault(word.item, {})
                number[sense] = number.get(sense, 0) + 1
        # The most frequent sense stands first, so that it wins where all are equally near (a word without a vector).
        self.senses = {item: sorted(found, key=lambda sense: -found[sense]) for item, found in counts.items()}
        self._units = {
            item: _units(np.stack([sums[item][sense] for sense in senses])) for item, senses in self.senses.items()
        }
        self.first = {item: senses[0] for item, senses in self.senses.items()} | dict(first or {})

    def predict(self, word: SensedWord) -> list[str | None]:
        """The answer of each layer; None where there is none."""
        if word.item not in self.senses:
            return [self.first.get(word.item)] * len(word.vectors)
        units_LD = _units(word.vectors.astype(np.float64))
        nearest_L = np.einsum("sld,ld->ls", self._units[word.item], units_LD).argmax(1)
        return [self.senses[word.item][place] for place in nearest_L.tolist()]


def _units(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of length 1; a sum points where a mean does, so sums need not be divided."""
    found: NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return found


def score_senses(
    train: Sequence[SensedWord], test: Sequence[SensedWord], first: Mapping[str, str] | None = None
) -> SenseScores:
    model = NearestSense(train, first)
    answers = [model.predict(word) for word in test]
    firsts = [model.first.get(word.item) for word in test]
    choices = [len(model.senses.get(word.item, ())) > 1 for word in test]
    unseen = sum(word.item not in model.senses for word in test)
    return _scores(test, answers, firsts, choices, len(train), unseen)


def leave_one_out(words: Sequence[SensedWord]) -> SenseScores:
    """Each word judged by all others: for samples that are too small to be split."""
    answers, choices, unseen = [], [], 0
    first = NearestSense(words).first  # of all: without the word itself the other sense would always be more frequent
    firsts = [first.get(word.item) for word in words]
    for place, word in enumerate(words):
        model = NearestSense([*words[:place], *words[place + 1 :]])
        answers.append(model.predict(word))
        choices.append(len(model.senses.get(word.item, ())) > 1)
        unseen += word.item not in model.senses
    return _scores(words, answers, firsts, choices, len(words), unseen)


def _scores(
    test: Sequence[SensedWord],
    answers: Sequence[Sequence[str | None]],
    firsts: Sequence[str | None],
    choices: Sequence[bool],
    num_train: int,
    num_unseen: int,
) -> SenseScores:
    num_layers = len(test[0].vectors)
    right_NL = np.asarray([[found in word.senses for found in row] for word, row in zip(test, answers, strict=True)])
    first_N = np.asarray([found in word.senses for word, found in zip(test, firsts, strict=True)])
    chosen_N = np.asarray(choices, np.bool_)
    answered = sum(found is not None for found in firsts)
    any_choice = bool(chosen_N.any())
    return SenseScores(
        f1=[f1(int(right_NL[:, layer].sum()), answered, len(test)) for layer in range(num_layers)],
        first_f1=f1(int(first_N.sum()), answered, len(test)),
        choice=right_NL[chosen_N].mean(0).tolist() if any_choice else None,
        first_choice=float(first_N[chosen_N].mean()) if any_choice else None,
        num_train=num_train,
        num_test=len(test),
        num_choice=int(chosen_N.sum()),
        num_unseen=num_unseen,
        num_unanswered=len(test) - answered,
    )


def f1(right: int, answered: int, asked: int) -> float:
    """Of precision right/answered and recall right/asked: 2·right / (answered + asked)."""
    return 2 * right / (answered + asked) if answered + asked else 0.0
