"""How likely texts are to a model: the log-probability of each of their tokens, many texts at a time.

Masked models hide each token in turn (pseudo-log-likelihood, Salazar et al. 2020), or with it the rest of its word, so that
the pieces of a rare word do not give each other away (Kauf and Ivanova 2023). Language models predict each token from
those before it.

B rows of a batch, T tokens, N tokens predicted, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, Later
from firth.core.types import Encoding, Ints, batches_by_length, pad

if TYPE_CHECKING:
    import torch
else:
    torch = Later("torch")

Floats = NDArray[np.float64]

MASKED, MASKED_WORD, LEFT_TO_RIGHT, BOTH_DIRECTIONS = "masked", "masked-word", "left-to-right", "both-directions"
"""How a text may be scored: each token hidden; with it the later ones of its word; each after those before it; that and
each before those after it, added."""

_BATCH_TOKENS = 2048  # what fits into the caches of a core; more is slower


@dataclass(frozen=True)
class ScoredText:
    """A text by the tokens of a model, with the log-probability of each (natural logarithm)."""

    tokens: list[str]
    log_probs: Floats  # [T]
    num_unknown: int  # tokens that stand for what the vocabulary lacks
    end: float | None = None  # log p of the end of the text after them, where the model predicts ends

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def log_likelihood(self) -> float:
        """The sum over the tokens; the end of the text is not counted."""
        return float(self.log_probs.sum())

    def __repr__(self) -> str:
        return f"<scored text: {self.num_tokens} tokens, log-likelihood {self.log_likelihood:.3f}>"


def scored(encoding: Encoding, log_probs: Floats, unk_id: int | None, end: float | None = None) -> ScoredText:
    """The tokens of an encoding that are text, with their scores."""
    inside = encoding.words >= 0
    tokens = [token for token, is_text in zip(encoding.tokens, inside.tolist(), strict=True) if is_text]
    unknown = 0 if unk_id is None else int((encoding.ids[inside] == unk_id).sum())
    return ScoredText(tokens, log_probs, unknown, end)


def choose_method(method: str | None, known: Sequence[str], kind: str) -> str:
    """``method``, or the first that a kind of model knows."""
    if method is None:
        return known[0]
    if method not in known:
        ways = " or ".join([", ".join(known[:-1])] * (len(known) > 1) + [known[-1]])
        raise FirthError(f"this model ({kind}) does not score texts by '{method}': choose {ways}")
    return method


def label_log_probs(scores_NV: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
    """log softmax at the labels, [N]; no other log-probability is computed."""
    return scores_NV.gather(1, labels_N[:, None])[:, 0] - scores_NV.logsumexp(-1)


MaskedJudge: TypeAlias = "Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]"
"""(ids [B, T], the place of each row that is asked for [B], the token that was there [B]) to its log-probability [B]."""


def score_masked(
    ids: Sequence[Ints],
    words: Sequence[Ints],
    mask_id: int,
    judge: MaskedJudge,
    whole_rest: bool = False,
    batch_tokens: int = _BATCH_TOKENS,
) -> list[Floats]:
    """log p of each token of each text given all others; ``whole_rest``: given all but the later ones of its word.
    ``words`` number the words; a token of word -1 ([CLS], [SEP]) is always seen and not scored.

    Texts of equal length are read together, so nothing is padded."""
    found = [np.zeros(0)] * len(ids)
    for numbers in batches_by_length([len(row) for row in ids], equal=True):
        ids_BT = np.stack([ids[number] for number in numbers])
        words_BT = np.stack([words[number] for number in numbers])
        rows_N, places_N = np.nonzero(words_BT >= 0)
        log_probs_N = np.zeros(len(rows_N))
        together = max(1, batch_tokens // max(1, ids_BT.shape[1]))
        for first in range(0, len(rows_N), together):
            rows, places = rows_N[first : first + together], places_N[first : first + together]
            hidden = np.arange(ids_BT.shape[1]) == places[:, None]
            if whole_rest:
                same_word = words_BT[rows] == words_BT[rows, places][:, None]
                hidden |= same_word & (np.arange(ids_BT.shape[1]) > places[:, None])
            seen = np.where(hidden, mask_id, ids_BT[rows])
            asked = (torch.from_numpy(part) for part in (seen, places, ids_BT[rows, places]))
            log_probs_N[first : first + together] = judge(*asked).double().numpy()
        borders = np.cumsum((words_BT >= 0).sum(1))[:-1]
        for number, part in zip(numbers.tolist(), np.split(log_probs_N, borders), strict=True):
            found[number] = part
    return found


NextJudge: TypeAlias = "Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]"
"""(ids that are read [B, T], where one is predicted after them [B, T], the N tokens that come next) to log-probabilities [N]."""


def score_next(rows: Sequence[Ints], judge: NextJudge, batch_tokens: int = _BATCH_TOKENS) -> list[Floats]:
    """log p of each token of a row given those before it; the first is only read. Padding stands at the end."""
    found = [np.zeros(0)] * len(rows)
    for numbers in batches_by_length([len(row) for row in rows], batch_tokens):
        ids_BT, mask_BT = pad([rows[number] for number in numbers])
        inside = mask_BT[:, 1:] > 0
        asked = (torch.from_numpy(part) for part in (ids_BT[:, :-1].copy(), inside, ids_BT[:, 1:][inside]))
        log_probs_N = judge(*asked).double().numpy()
        for number, part in zip(numbers.tolist(), np.split(log_probs_N, np.cumsum(inside.sum(1))[:-1]), strict=True):
            found[number] = part
    return found


_SHOWN = 8  # tokens of a text in a repr


@dataclass(frozen=True)
class TextLayers:
    """Every layer for every token of one text."""

    tokens: list[str]
    offsets: NDArray[np.int64]  # [T, 2], characters of the text
    words: NDArray[np.int64]  # [T]
    hidden: NDArray[np.float32]  # [L+1, T, D]

    def __repr__(self) -> str:
        layers, _, dim = self.hidden.shape
        return f"<layers of {_shown(self.tokens)}: {layers} x {len(self.tokens)} x {dim}>"


@dataclass(frozen=True)
class Attention:
    """Where every token of a text, or of two read together, looks: each row of ``weights`` sums to one."""

    tokens: list[str]
    offsets: NDArray[np.int64]  # [T, 2], characters of the text that the token is of
    weights: NDArray[np.float32]  # [L, H, T, T], from (row) to (column)

    def __repr__(self) -> str:
        layers, heads, size, _ = self.weights.shape
        return f"<attention of {_shown(self.tokens)}: {layers} layers, {heads} heads, {size} x {size}>"


@dataclass(frozen=True, repr=False)
class AttentionMaps(Attention):
    """That of the source (a recurrent model has none: no layers), of the target, and between them: row t of
    ``between`` is what was looked at to write target token t."""

    target_tokens: list[str]
    between: NDArray[np.float32]  # [L, H, T, S]
    target: NDArray[np.float32] | None  # [L, H, T, T]; a recurrent model has none

    def __repr__(self) -> str:
        both = f"{_shown(self.tokens)} by {_shown(self.target_tokens)}"
        layers, heads, rows, columns = self.between.shape
        return f"<attention of {both}: {layers} layers, {heads} heads, {rows} x {columns}>"

    @property
    def source_tokens(self) -> list[str]:
        return self.tokens

    @property
    def source(self) -> NDArray[np.float32] | None:
        """[L, H, S, S]; a recurrent model has none."""
        return self.weights if len(self.weights) else None

    @property
    def alignment(self) -> NDArray[np.float32]:
        """[T, S]: the mean of all layers and heads between target and source."""
        found: NDArray[np.float32] = self.between.mean((0, 1))
        return found


def _shown(tokens: Sequence[str]) -> str:
    """Some tokens, for people."""
    return f"{len(tokens)} tokens [{' '.join(tokens[:_SHOWN])}{' ...' if len(tokens) > _SHOWN else ''}]"


@dataclass(frozen=True)
class Guess:
    """A token for a masked place."""

    token: str
    probability: float
    text: str  # the whole text with the guess in its place


@dataclass(frozen=True)
class Translated:
    """A translation; ``score`` is log p, ``normalised`` what candidates are ranked by."""

    text: str
    score: float
    normalised: float


@dataclass(frozen=True)
class PromptedLabel:
    """The likeliest label, and the probability of each among those that the examples have."""

    label: str
    probabilities: dict[str, float]
