"""One continuation a row: greedy, or drawn with temperature, top-k and top-p (Holtzman et al. 2020).

Draws are pure functions of (the row's seed, the token's number), so a text does not depend on
what else is in the batch.

N rows, V vocabulary, C candidates.
"""

from collections.abc import Sequence

import numpy as np
import torch

from firth.core.seeds import uniform
from firth.decoding.steps import GREEDY, Hypothesis, Prompts, Rules, Sampling, State, Stepper, constrain, read_prompts

_FEW = 256


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
        # Few tokens mostly hold the wanted share; sorting all is the exception.
        probs_NC, ids_NC = probs_NV.topk(min(_FEW, probs_NV.shape[1]))
        if bool((probs_NC.sum(-1) < sampling.top_p).any()):
            probs_NC, ids_NC = probs_NV.sort(dim=-1, descending=True, stable=True)
    before = probs_NC.cumsum(-1) - probs_NC
    probs_NC = probs_NC.masked_fill(before >= sampling.top_p, 0.0)
    return probs_NC / probs_NC.sum(-1, keepdim=True), ids_NC


def choose(scores_NV: torch.Tensor, sampling: Sampling, draws_N: torch.Tensor) -> torch.Tensor:
    """An id a row: the likeliest, or where the draw in [0, 1) falls in the cumulated probabilities."""
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
    """A continuation of each prompt of at most ``max_tokens``; ``seeds`` are one a row (0 without)."""
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
    while True:
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
