"""Decoding: prompts, rules and settings in, continuations with scores out; the stepper protocol that models
implement, constraints on the next token, the trace of a beam search, greedy decoding and sampling.

Sampling uses temperature, top-k and top-p (Holtzman et al. 2020). Draws are pure functions of (the row's seed, the
token's number), so a text does not depend on the rest of the batch.

N rows, T tokens, V vocabulary, C candidates.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from pydantic import Field, model_validator

from firth.core.config import Config
from firth.core.types import between_slices, uniform

State = TypeVar("State")
StateOut = TypeVar("StateOut", covariant=True)
_NEVER = float("-inf")
Fate = Literal["kept", "finished", "dropped"]
_FEW = 256


@dataclass(frozen=True)
class Hypothesis:
    """A continuation of a prompt. ``score`` is log p of its tokens under the model, the end
    included where it was reached; ``normalised`` is what hypotheses are ranked by."""

    ids: list[int]  # without prompt and end
    score: float
    normalised: float
    finished: bool  # the model ended it; otherwise the room was used up


@dataclass(frozen=True)
class Prompts:
    """Prompts of different lengths, aligned left."""

    ids_NT: torch.Tensor
    lens_N: torch.Tensor

    @classmethod
    def pad(cls, prompts: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> "Prompts":
        assert all(len(prompt) for prompt in prompts), "a prompt has at least one token"
        longest = max(len(prompt) for prompt in prompts)
        rows = [[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts]
        lens = [len(prompt) for prompt in prompts]
        return cls(torch.tensor(rows, device=device), torch.tensor(lens, device=device))

    @property
    def shortest(self) -> int:
        return int(self.lens_N.min())

    @property
    def longest(self) -> int:
        return self.ids_NT.shape[1]

    def select(self, index: torch.Tensor) -> "Prompts":
        return Prompts(self.ids_NT[index], self.lens_N[index])


class Rules(Config):
    """What a continuation may not do."""

    min_tokens: Annotated[int, Field(ge=0)] = 0  # before it may end
    banned: tuple[int, ...] = ()
    no_repeat_ngram: Annotated[int, Field(ge=0)] = 0  # no run of so many tokens twice, the prompt's included; 0: off
    repetition_penalty: Annotated[float, Field(ge=1)] = 1.0  # multiplies log p of tokens that have occurred


class Sampling(Config):
    """How one token is drawn: temperature, then the k likeliest, then the smallest set with probability p."""

    temperature: Annotated[float, Field(ge=0)] = 1.0  # 0: always the likeliest
    top_k: Annotated[int, Field(ge=0)] = 0  # 0: all
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0


GREEDY = Sampling(temperature=0.0)


class Beam(Config):
    """Beam search: how wide, and by what its hypotheses are ranked."""

    width: Annotated[int, Field(gt=0, le=1000)] = 5
    num_best: Annotated[int, Field(gt=0)] = 1
    normalisation: Literal["none", "mean", "gnmt"] = "gnmt"
    alpha: Annotated[float, Field(ge=0)] = 0.6  # of ((5 + len) / 6) ** alpha (Wu et al. 2016)
    early_stop: bool = True  # never changes what is found

    @model_validator(mode="after")
    def _best_fit(self) -> "Beam":
        if self.num_best > self.width:
            raise ValueError(f"{self.num_best} results need a beam as wide, not {self.width}: widen it or ask for less")
        return self

    def penalty(self, length: int) -> float:
        """What log p of so many tokens (the end counts) is divided by."""
        if self.normalisation == "mean":
            return float(length)
        return ((5 + length) / 6) ** self.alpha if self.normalisation == "gnmt" else 1.0


class Stepper(Protocol[State]):
    """A model that continues texts, with whatever it keeps of the tokens that it has read.

    All rows have read equally many tokens at any time, so caches need no lengths: prompts of
    different lengths are aligned left, and a row whose prompt is over is continued while
    others still read theirs. The rows of a sentence are adjacent, and every sentence has
    equally many; ``reorder`` never moves a row to another sentence's place without that sentence's
    rows all leaving. A model that reads a source first (translation) is wrapped with it.
    """

    @property
    def vocab_size(self) -> int: ...

    def start(self, num_rows: int) -> State:
        """What is known before the first token; row n of a model with sources reads source n."""
        ...

    def step(self, ids_N: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """Reads one token per row; log-probabilities [N, V] of the next one, which the caller may change. The old state
        is not used again."""
        ...

    def reorder(self, state: State, index_N: torch.Tensor) -> State:
        """The state whose row n is the old row ``index[n]``; there may be more or fewer rows than before. The old
        state is not used again."""
        ...


@runtime_checkable
class Prefilled(Protocol[StateOut]):
    """A stepper that reads a whole prompt in one pass, as Transformers do."""

    def prefill(self, ids_NT: torch.Tensor) -> tuple[torch.Tensor, StateOut]:
        """What ``start`` and T steps would give."""
        ...


def read_prompts(stepper: Stepper[State], ids_NT: torch.Tensor) -> tuple[torch.Tensor, State]:
    """Log-probabilities after prompts of equal length, and the state: in one pass where the model can."""
    assert ids_NT.shape[1] > 0, "a prompt has at least one token, if only the one that begins a text"
    if isinstance(stepper, Prefilled):
        found: tuple[torch.Tensor, State] = stepper.prefill(ids_NT)
        return found
    state = stepper.start(len(ids_NT))
    for place in range(ids_NT.shape[1]):
        between_slices()
        log_probs_NV, state = stepper.step(ids_NT[:, place], state)
    return log_probs_NV, state


def constrain(
    rules: Rules, log_probs_NV: torch.Tensor, tokens_NT: torch.Tensor, generated_N: torch.Tensor, eos_id: int | None
) -> torch.Tensor:
    """The log-probabilities under the rules. ``tokens`` are prompt and continuation, ``generated``
    counts the tokens of the continuation. The end of a text is no repetition."""
    if rules == Rules():
        return log_probs_NV
    found = log_probs_NV.clone()
    constrain_(rules, found, tokens_NT, generated_N, eos_id)
    return found


def constrain_(
    rules: Rules, log_probs_NV: torch.Tensor, tokens_NT: torch.Tensor, generated_N: torch.Tensor, eos_id: int | None
) -> None:
    """The same in place."""
    if rules.repetition_penalty != 1.0 or rules.no_repeat_ngram:
        ends = None if eos_id is None else log_probs_NV[:, eos_id].clone()
        if rules.repetition_penalty != 1.0:
            log_probs_NV.scatter_(1, tokens_NT, log_probs_NV.gather(1, tokens_NT) * rules.repetition_penalty)
        if rules.no_repeat_ngram:
            rows, ids = repeating(tokens_NT, rules.no_repeat_ngram)
            log_probs_NV[rows, ids] = _NEVER
        if ends is not None:
            log_probs_NV[:, eos_id] = ends
    if rules.banned:
        log_probs_NV.index_fill_(1, _ids(rules.banned, log_probs_NV.device), _NEVER)
    if rules.min_tokens and eos_id is not None:
        log_probs_NV[:, eos_id].masked_fill_(generated_N < rules.min_tokens, _NEVER)


@functools.lru_cache(maxsize=8)
def _ids(banned: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return torch.tensor(banned, device=device)


def repeating(tokens_NT: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, ids) of the tokens that would make an n-gram of that size occur a second time."""
    length = tokens_NT.shape[1]
    if length < size:
        nothing = torch.zeros(0, dtype=torch.long, device=tokens_NT.device)
        return nothing, nothing
    windows = tokens_NT.unfold(1, size, 1)
    last = tokens_NT[:, None, length - size + 1 :]
    rows, places = (windows[..., :-1] == last).all(-1).nonzero(as_tuple=True)
    return rows, windows[rows, places, -1]


Watcher = Callable[[int, list[int]], None]
"""Hears after each step the number of a prompt and what was written for it so far (of a beam the best one)."""
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """What is decoded inside is heard by the watcher; so that people can read while a model writes."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def find_watcher() -> Watcher | None:
    return _watcher.get()


@dataclass(frozen=True)
class Node:
    """A candidate: its parent and token, log p of all tokens so far, what became of it."""

    number: int
    parent: int  # 0 is the prompt
    step: int  # the first token after the prompt is 1
    token: int
    score: float
    fate: Fate


@dataclass
class Trace:
    """One list of nodes per sentence; numbers count from 1 in each."""

    trees: list[list[Node]] = field(default_factory=list)
    live: list[list[int]] = field(default_factory=list)  # the nodes of the hypotheses under way

    def begin(self, num_sentences: int, width: int) -> None:
        self.trees = [[] for _ in range(num_sentences)]
        self.live = [[0] * width for _ in range(num_sentences)]

    def add(
        self, sentence: int, step: int, parents: list[int], tokens: list[int], scores: list[float], fates: list[Fate]
    ) -> None:
        """The candidates of a step, best first; ``parents`` are places among the hypotheses under way.
        Those that are kept are the next hypotheses, in their order."""
        tree, live = self.trees[sentence], self.live[sentence]
        kept = []
        for parent, token, score, fate in zip(parents, tokens, scores, fates, strict=True):
            if score == float("-inf"):
                continue
            tree.append(Node(len(tree) + 1, live[parent], step, token, score, fate))
            if fate == "kept":
                kept.append(len(tree))
        self.live[sentence] = kept + [0] * (len(live) - len(kept))

    def plain(self) -> list[list[dict[str, Any]]]:
        """For JSON."""
        return [[asdict(node) for node in tree] for tree in self.trees]


def candidates(scores_NV: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Probabilities [N, C] after temperature and cuts, zero where cut, and the ids they belong to
    (None: all, in their order)."""
    if sampling.top_k:
        scores, ids_NC = scores_NV.topk(min(sampling.top_k, scores_NV.shape[1]))
        probs_NC = (scores.double() / sampling.temperature).softmax(-1)
    else:
        probs_NV = (scores_NV.double() / sampling.temperature).softmax(-1)
        if sampling.top_p == 1.0:
            return probs_NV, None
        # Few tokens mostly hold top_p of the probability; sorting all is the exception.
        probs_NC, ids_NC = probs_NV.topk(min(_FEW, probs_NV.shape[1]))
        if bool((probs_NC.sum(-1) < sampling.top_p).any()):
            probs_NC, ids_NC = probs_NV.sort(dim=-1, descending=True, stable=True)
    before = probs_NC.cumsum(-1) - probs_NC
    probs_NC = probs_NC.masked_fill(before >= sampling.top_p, 0.0)
    return probs_NC / probs_NC.sum(-1, keepdim=True), ids_NC


def choose(scores_NV: torch.Tensor, sampling: Sampling, draws_N: torch.Tensor) -> torch.Tensor:
    """One id per row: the likeliest, or where the draw in [0, 1) falls in the cumulated probabilities."""
    if sampling.temperature == 0:
        return scores_NV.argmax(-1)
    probs_NC, ids_NC = candidates(scores_NV, sampling)
    sums_NC = probs_NC.cumsum(-1)
    places = torch.searchsorted(sums_NC, (draws_N * sums_NC[:, -1])[:, None], right=True)
    # A draw at the very end must not fall on what was cut: the last place is where the sum is whole.
    whole = (sums_NC < sums_NC[:, -1:]).sum(-1, keepdim=True)
    places = torch.minimum(places, whole)
    return (places if ids_NC is None else ids_NC.gather(1, places))[:, 0]


@torch.inference_mode()
def continue_prompts(
    stepper: Stepper[State],
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    eos_id: int | None = None,
    sampling: Sampling = GREEDY,
    seeds: Sequence[int] | None = None,
    rules: Rules | None = None,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """A continuation of each prompt of at most ``max_tokens``; ``seeds``: one per row (0 without)."""
    if not prompts:
        return []
    rules = rules or Rules()
    given = Prompts.pad(prompts, device)
    row_seeds = np.asarray(seeds if seeds is not None else [0] * len(prompts), np.uint64)
    assert len(row_seeds) == len(prompts)
    rows = np.arange(len(prompts))  # which prompts are still under way
    done: list[Hypothesis | None] = [None] * len(prompts)
    at = given.shortest
    tokens_NT = given.ids_NT[:, :at]
    log_probs_NV, state = read_prompts(stepper, tokens_NT)
    scores_N = torch.zeros(len(prompts), dtype=torch.float64, device=device)
    watcher = find_watcher()
    while True:
        between_slices()
        generated_N = at - given.lens_N
        forced_N = generated_N < 0
        allowed_NV = constrain(rules, log_probs_NV, tokens_NT, generated_N, eos_id)
        draws = uniform(row_seeds[rows], generated_N.cpu().numpy().clip(0))
        ids_N = choose(allowed_NV, sampling, torch.from_numpy(draws).to(device))
        gained_N = log_probs_NV.gather(1, ids_N[:, None])[:, 0].double()
        stuck_N = ~forced_N & allowed_NV.gather(1, ids_N[:, None])[:, 0].isneginf()  # every token is ruled out
        if bool(forced_N.any()):
            ids_N = torch.where(forced_N, given.ids_NT[:, min(at, given.longest - 1)], ids_N)
        scores_N = scores_N + torch.where(forced_N | stuck_N, 0.0, gained_N)
        tokens_NT = torch.cat((tokens_NT, ids_N[:, None]), 1)
        at += 1
        if watcher is not None:
            for place, row in enumerate(rows.tolist()):
                watcher(row, tokens_NT[place, int(given.lens_N[place]) :].tolist())
        ended_N = stuck_N if eos_id is None else stuck_N | (~forced_N & (ids_N == eos_id))
        over_N = ended_N | (generated_N + 1 >= max_tokens)
        if bool(over_N.any()):
            for place in over_N.nonzero()[:, 0].tolist():
                done[rows[place]] = _hypothesis(tokens_NT, given, scores_N, ended_N, stuck_N, place)
            left = (~over_N).nonzero()[:, 0]
            if not len(left):
                break
            rows = rows[left.cpu().numpy()]
            given, tokens_NT, scores_N = given.select(left), tokens_NT[left], scores_N[left]
            state = stepper.reorder(state, left)
        log_probs_NV, state = stepper.step(tokens_NT[:, -1], state)
    return [found for found in done if found is not None]


def _hypothesis(
    tokens_NT: torch.Tensor,
    given: Prompts,
    scores_N: torch.Tensor,
    ended_N: torch.Tensor,
    stuck_N: torch.Tensor,
    place: int,
) -> Hypothesis:
    ids = tokens_NT[place, int(given.lens_N[place]) :].tolist()
    ended, score = bool(ended_N[place]), float(scores_N[place])
    return Hypothesis(ids[:-1] if ended else ids, score, score, ended and not bool(stuck_N[place]))
