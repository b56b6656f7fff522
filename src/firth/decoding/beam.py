"""Beam search over a batch: the best few continuations of each prompt (Graves 2012; Wu et al. 2016).

A sentence leaves the batch when no hypothesis under way can still beat the worst of its best.

S sentences in the batch, W width, N = S * W rows, V vocabulary, C candidates, K best kept, T tokens, P parts of a
vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from firth.core.types import between_slices
from firth.decoding.steps import (
    Beam,
    Fate,
    Hypothesis,
    Prompts,
    Rules,
    State,
    Stepper,
    Trace,
    Watcher,
    constrain_,
    find_watcher,
    read_prompts,
)

_NEVER = float("-inf")
_PART = 64  # tokens of a part of the vocabulary


@dataclass
class _Best:
    """The best finished hypotheses of each sentence, best first."""

    ranks_SK: torch.Tensor  # normalised scores, -inf where there is none yet
    scores_SK: torch.Tensor
    tokens_SKT: torch.Tensor
    lens_SK: torch.Tensor  # of all tokens, prompt and end included
    ended_SK: torch.Tensor

    @classmethod
    def empty(cls, num_sentences: int, num_best: int, room: int, device: torch.device | str) -> "_Best":
        shape = (num_sentences, num_best)
        return cls(
            ranks_SK=torch.full(shape, _NEVER, dtype=torch.float64, device=device),
            scores_SK=torch.zeros(shape, dtype=torch.float64, device=device),
            tokens_SKT=torch.zeros((*shape, room), dtype=torch.long, device=device),
            lens_SK=torch.zeros(shape, dtype=torch.long, device=device),
            ended_SK=torch.zeros(shape, dtype=torch.bool, device=device),
        )

    def select(self, sentences: torch.Tensor) -> "_Best":
        return _Best(*(part[sentences] for part in vars(self).values()))

    def join(self, other: "_Best") -> "_Best":
        """The best of both; of equals, those that were there before."""
        both = _Best(*(torch.cat(pair, 1) for pair in zip(vars(self).values(), vars(other).values(), strict=True)))
        order = both.ranks_SK.argsort(dim=1, descending=True, stable=True)[:, : self.ranks_SK.shape[1]]
        tokens = both.tokens_SKT.gather(1, order[:, :, None].expand(-1, -1, both.tokens_SKT.shape[2]))
        ranks, scores = both.ranks_SK.gather(1, order), both.scores_SK.gather(1, order)
        return _Best(ranks, scores, tokens, both.lens_SK.gather(1, order), both.ended_SK.gather(1, order))

    def hypotheses(self, sentence: int, prompt_len: int) -> list[Hypothesis]:
        found = []
        for place in (~self.ranks_SK[sentence].isneginf()).nonzero()[:, 0].tolist():
            ended = bool(self.ended_SK[sentence, place])
            stop = int(self.lens_SK[sentence, place]) - ended
            ids = self.tokens_SKT[sentence, place, prompt_len:stop].tolist()
            score, rank = float(self.scores_SK[sentence, place]), float(self.ranks_SK[sentence, place])
            found.append(Hypothesis(ids, score, rank, ended))
        return found


@dataclass
class _Step:
    """What was weighed: the best candidates of each sentence, in order, and which live, which end."""

    parents_SC: torch.Tensor
    tokens_SC: torch.Tensor
    scores_SC: torch.Tensor
    kept_SC: torch.Tensor
    ended_SC: torch.Tensor  # by the model


def _weigh(log_probs_NV: torch.Tensor, live_SW: torch.Tensor, eos_id: int | None) -> _Step:
    """Twice the width is enough: at most one candidate of each hypothesis is the end. The end
    counts among the first W only, the W best others live on."""
    width = live_SW.shape[1]
    scores_SC, parents_SC, tokens_SC = best_tokens(log_probs_NV, live_SW, 2 * width)
    end = torch.zeros_like(tokens_SC, dtype=torch.bool) if eos_id is None else tokens_SC == eos_id
    kept = ~end & ((~end).cumsum(1) <= width)
    ended = end & ~scores_SC.isneginf()
    ended[:, width:] = False
    return _Step(parents_SC, tokens_SC, scores_SC, kept, ended)


def best_tokens(
    log_probs_NV: torch.Tensor, live_SW: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The best tokens over all hypotheses of each sentence, [S, C] each: log p with that of the hypothesis, the
    hypothesis, the token; best first.

    The k best tokens are in the k parts of the vocabulary that have the best of their own: finding the parts' best is
    one quick pass, and only k parts are sorted."""
    (num_sentences, width), vocab_size = live_SW.shape, log_probs_NV.shape[1]
    whole = vocab_size // _PART * _PART
    best_NP = log_probs_NV[:, :whole].unflatten(1, (-1, _PART)).amax(-1)
    if whole < vocab_size:
        best_NP = torch.cat((best_NP, log_probs_NV[:, whole:].amax(-1, keepdim=True)), 1)
    num_parts = best_NP.shape[1]
    totals = (best_NP.view(num_sentences, width, -1) + live_SW[:, :, None]).flatten(1)
    parts_SP = totals.topk(min(count, totals.shape[1]), sorted=False).indices
    rows_SP = parts_SP // num_parts
    first = torch.arange(0, num_sentences * width, width, device=live_SW.device)[:, None]
    ids_SPV = (parts_SP % num_parts * _PART)[:, :, None] + torch.arange(_PART, device=live_SW.device)
    inside = ids_SPV.clamp(max=vocab_size - 1)
    gains_SPV = log_probs_NV[(first + rows_SP)[:, :, None], inside] + live_SW.gather(1, rows_SP)[:, :, None]
    if whole < vocab_size:
        gains_SPV = gains_SPV.masked_fill(ids_SPV > inside, _NEVER)
    scores_SC, flat = gains_SPV.flatten(1).topk(min(count, width * vocab_size))
    return scores_SC, rows_SP.gather(1, flat // _PART), inside.flatten(1).gather(1, flat)


def _force(step: _Step, forced_S: torch.Tensor, ids_S: torch.Tensor, live_SW: torch.Tensor) -> None:
    """Sentences that still read their prompt continue with its next token, at no cost."""
    if not bool(forced_S.any()):
        return
    width = live_SW.shape[1]
    places = torch.arange(width, device=ids_S.device).expand(int(forced_S.sum()), -1)
    step.parents_SC[forced_S, :width] = places
    step.tokens_SC[forced_S, :width] = ids_S[forced_S, None].expand(-1, width)
    step.scores_SC[forced_S] = _NEVER
    step.scores_SC[forced_S, :width] = live_SW[forced_S]
    step.kept_SC[forced_S] = False
    step.kept_SC[forced_S, :width] = True
    step.ended_SC[forced_S] = False


class _Search:
    """The sentences that are still searched; they leave as they are done."""

    def __init__(self, given: Prompts, beam: Beam, max_tokens: int, eos_id: int | None, trace: Trace | None) -> None:
        num, device = len(given.lens_N), given.ids_NT.device
        self.given, self.beam, self.max_tokens, self.eos_id, self.trace = given, beam, max_tokens, eos_id, trace
        self.sentences = list(range(num))
        self.at = self.shortest = given.shortest
        self.longest = given.longest  # prompt
        self.tokens_SWT = torch.zeros((num, beam.width, given.longest + max_tokens), dtype=torch.long, device=device)
        self.tokens_SWT[:, :, : self.at] = given.ids_NT[:, None, : self.at]
        # Equal beginnings would be found as often as the beam is wide: only the first counts.
        self.live_SW = torch.full((num, beam.width), _NEVER, dtype=torch.float64, device=device)
        self.live_SW[:, 0] = 0.0
        self.best = _Best.empty(num, beam.num_best, self.tokens_SWT.shape[2], device)
        self.found: list[list[Hypothesis]] = [[] for _ in range(num)]
        penalties = [beam.penalty(max(length, 1)) for length in range(max_tokens + 1)]
        self.penalties = torch.tensor(penalties, dtype=torch.float64, device=device)
        if trace is not None:
            trace.begin(num, beam.width)

    def apply(self, rules: Rules, log_probs_NV: torch.Tensor) -> None:
        generated_N = (self.at - self.given.lens_N).repeat_interleave(self.beam.width)
        constrain_(rules, log_probs_NV, self.tokens_SWT[:, :, : self.at].flatten(0, 1), generated_N, self.eos_id)

    def advance(self, log_probs_NV: torch.Tensor) -> torch.Tensor | None:
        """Takes a token for each row; the old rows that the new ones extend, None at the end."""
        width = self.beam.width
        generated_S = self.at - self.given.lens_N
        step = _weigh(log_probs_NV, self.live_SW, self.eos_id)
        if self.at < self.longest:
            _force(step, generated_S < 0, self.given.ids_NT[:, self.at], self.live_SW)
        full_S = generated_S + 1 >= self.max_tokens if self.at + 1 - self.shortest >= self.max_tokens else None
        if self.trace is not None:
            self._record(step, generated_S)
        self._collect(step, full_S, generated_S)
        chosen_SW = (~step.kept_SC).sort(dim=1, stable=True).indices[:, :width]
        parents_SW = step.parents_SC.gather(1, chosen_SW)
        self.live_SW = step.scores_SC.gather(1, chosen_SW)
        self.tokens_SWT = self.tokens_SWT.gather(1, parents_SW[:, :, None].expand_as(self.tokens_SWT))
        self.tokens_SWT[:, :, self.at] = step.tokens_SC.gather(1, chosen_SW)
        self.at += 1
        rows_SW = parents_SW + torch.arange(0, parents_SW.numel(), width, device=parents_SW.device)[:, None]
        done_S = self._settled()
        return self._leave(done_S if full_S is None else done_S | full_S, rows_SW)

    def _collect(self, step: _Step, full_S: torch.Tensor | None, generated_S: torch.Tensor) -> None:
        """Ended hypotheses, and at the last step those that had no room to end, join the best."""
        over_SC = step.ended_SC
        if full_S is not None:
            over_SC = over_SC | (step.kept_SC & full_S[:, None] & ~step.scores_SC.isneginf())
        if not bool(over_SC.any()):
            return
        penalty_S = self.penalties[(generated_S + 1).clamp(0)]
        ranks = (step.scores_SC / penalty_S[:, None]).masked_fill(~over_SC, _NEVER)
        tokens = self.tokens_SWT.gather(1, step.parents_SC[:, :, None].expand(-1, -1, self.tokens_SWT.shape[2]))
        tokens[:, :, self.at] = step.tokens_SC
        lens = torch.full_like(step.tokens_SC, self.at + 1)
        self.best = self.best.join(_Best(ranks, step.scores_SC, tokens, lens, step.ended_SC))

    def _settled(self) -> torch.Tensor:
        """Sentences whose hypotheses under way cannot reach the worst of the best any more.

        Log p only falls, and the penalty only rises with the length, so a hypothesis with log p s
        ends with a rank of at most s / penalty(longest)."""
        most_S = self.live_SW.amax(1)
        if not self.beam.early_stop:
            return most_S.isneginf()
        return most_S.isneginf() | (self.best.ranks_SK[:, -1] >= most_S / self.penalties[-1])

    def _leave(self, done_S: torch.Tensor, rows_SW: torch.Tensor) -> torch.Tensor | None:
        if not bool(done_S.any()):
            return rows_SW.flatten()
        for place in done_S.nonzero()[:, 0].tolist():
            prompt_len = int(self.given.lens_N[place])
            self.found[self.sentences[place]] = self.best.hypotheses(place, prompt_len)
        left = _close_ranks(done_S)
        if not len(left):
            return None
        self.sentences = [self.sentences[place] for place in left.tolist()]
        self.given, self.best = self.given.select(left), self.best.select(left)
        self.tokens_SWT, self.live_SW = self.tokens_SWT[left], self.live_SW[left]
        return rows_SW[left].flatten()

    def tell(self, watcher: Watcher) -> None:
        """The likeliest hypothesis under way of each sentence."""
        for place, sentence in enumerate(self.sentences):
            best = int(self.live_SW[place].argmax())
            watcher(sentence, self.tokens_SWT[place, best, int(self.given.lens_N[place]) : self.at].tolist())

    def _record(self, step: _Step, generated_S: torch.Tensor) -> None:
        assert self.trace is not None
        columns = (step.parents_SC, step.tokens_SC, step.scores_SC, step.kept_SC, step.ended_SC)
        for sentence, generated, parents, tokens, scores, kept, ended in zip(
            self.sentences, generated_S.tolist(), *(part.tolist() for part in columns), strict=True
        ):
            if generated < 0:  # still the prompt
                continue
            full = generated + 1 >= self.max_tokens
            fates: list[Fate] = [
                "finished" if end or (keep and full) else "kept" if keep else "dropped"
                for keep, end in zip(kept, ended, strict=True)
            ]
            self.trace.add(sentence, generated + 1, parents, tokens, scores, fates)


def _close_ranks(done_S: torch.Tensor) -> torch.Tensor:
    """The sentences that stay, in their new order: the last ones take the places of those that leave,
    so that few move."""
    stay = (~done_S).nonzero()[:, 0]
    order = torch.arange(len(stay), device=done_S.device)
    order[done_S[: len(stay)]] = stay[stay >= len(stay)]
    return order


@torch.inference_mode()
def beam_search(
    stepper: Stepper[State],
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    eos_id: int | None = None,
    beam: Beam | None = None,
    rules: Rules | None = None,
    trace: Trace | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The best continuations of each prompt, best first. What a prompt forces (a prefix of a
    translation, say) costs nothing and has no length; a continuation ends with ``eos_id`` or
    after ``max_tokens``."""
    if not prompts:
        return []
    beam, rules = beam or Beam(), rules or Rules()
    search = _Search(Prompts.pad(prompts, device), beam, max_tokens, eos_id, trace)
    log_probs_NV, state = read_prompts(stepper, search.given.ids_NT[:, : search.at])
    if beam.width > 1:
        rows = torch.arange(len(prompts), device=device).repeat_interleave(beam.width)
        log_probs_NV, state = log_probs_NV[rows], stepper.reorder(state, rows)
    ruled, watcher = rules != Rules(), find_watcher()
    while True:
        between_slices()
        if ruled:
            search.apply(rules, log_probs_NV)
        index = search.advance(log_probs_NV)
        if watcher is not None and index is not None:
            search.tell(watcher)
        if index is None:
            return search.found
        if not torch.equal(index, torch.arange(len(log_probs_NV), device=device)):
            state = stepper.reorder(state, index)
        log_probs_NV, state = stepper.step(search.tokens_SWT[:, :, search.at - 1].flatten(), state)
