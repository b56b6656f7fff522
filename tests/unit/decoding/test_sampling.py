"""Draws against probabilities, cuts by hand, and continuations that do not depend on their neighbours."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from toy_tables import TableStepper, WholeStepper, same

from firth.core.types import uniform
from firth.decoding.beam import beam_search
from firth.decoding.steps import GREEDY, Beam, Rules, Sampling, candidates, choose, continue_prompts, watching

PROBS = torch.tensor([[0.1, 0.4, 0.05, 0.25, 0.2]], dtype=torch.float64)


def kept(sampling: Sampling) -> dict[int, float]:
    probs, ids = candidates(PROBS.log(), sampling)
    numbers = list(range(5)) if ids is None else ids[0].tolist()
    return {number: prob for number, prob in zip(numbers, probs[0].tolist(), strict=True) if prob > 0}


@pytest.mark.parametrize(
    ("sampling", "wanted"),
    [
        (Sampling(top_k=2), {1: 0.4 / 0.65, 3: 0.25 / 0.65}),
        (Sampling(top_p=0.39), {1: 1.0}),
        (Sampling(top_p=0.41), {1: 0.4 / 0.65, 3: 0.25 / 0.65}),
        (Sampling(top_p=0.8), {1: 0.4 / 0.85, 3: 0.25 / 0.85, 4: 0.2 / 0.85}),
        (Sampling(top_p=0.951), {0: 0.1, 1: 0.4, 2: 0.05, 3: 0.25, 4: 0.2}),
        # after the three likeliest are rescaled, the first has 0.47 and the first two 0.76
        (Sampling(top_k=3, top_p=0.75), {1: 0.4 / 0.65, 3: 0.25 / 0.65}),
        (Sampling(top_k=3, top_p=0.77), {1: 0.4 / 0.85, 3: 0.25 / 0.85, 4: 0.2 / 0.85}),
        (Sampling(temperature=0.5, top_k=2), {1: 0.16 / 0.2225, 3: 0.0625 / 0.2225}),
    ],
)
def test_cuts_by_hand(sampling: Sampling, wanted: dict[int, float]) -> None:
    assert kept(sampling) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=0.7), Sampling(top_k=3), Sampling(top_p=0.8), Sampling(temperature=1.5, top_k=4)],
)
def test_frequencies_are_probabilities(sampling: Sampling) -> None:
    draws = torch.from_numpy(uniform(11, np.arange(20_000)))
    ids = choose(PROBS.log().expand(20_000, -1), sampling, draws).numpy()
    wanted = kept(sampling)
    counts = np.bincount(ids, minlength=5)
    assert counts[[number for number in range(5) if number not in wanted]].sum() == 0
    places = sorted(wanted)
    assert chisquare(counts[places], [20_000 * wanted[place] for place in places]).pvalue > 0.01


def test_draws_at_the_borders_fall_on_what_was_kept() -> None:
    edge = torch.tensor([0.0, 1.0 - 2.0**-53], dtype=torch.float64)
    for sampling in (Sampling(top_p=0.3), Sampling(top_p=0.6), Sampling(top_k=2), Sampling()):
        assert set(choose(PROBS.log().expand(2, -1), sampling, edge).tolist()) <= set(kept(sampling))
    never = torch.tensor([[-1.0, float("-inf"), float("-inf")]] * 2)
    assert choose(never, Sampling(), edge).tolist() == [0, 0]


def test_greedy_takes_the_likeliest() -> None:
    assert choose(PROBS.log(), GREEDY, torch.zeros(1)).tolist() == [1]


PROMPTS = [[3], [1, 2, 5], [6, 6], [2, 3, 4, 5, 1]]
SEEDS = [5, 6, 5, 7]


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.8), Sampling(top_k=3), Sampling(top_p=0.9)])
@pytest.mark.parametrize("seed", range(4))
def test_batch_and_cache_change_nothing(sampling: Sampling, seed: int) -> None:
    model = TableStepper.random(7, seed, 1.0)
    together = continue_prompts(model, PROMPTS, 12, 0, sampling, SEEDS)
    uncached = continue_prompts(WholeStepper(model.table), PROMPTS, 12, 0, sampling, SEEDS)
    for place, prompt in enumerate(PROMPTS):
        alone = continue_prompts(model, [prompt], 12, 0, sampling, [SEEDS[place]])[0]
        assert same(together[place], alone)
        assert same(together[place], uncached[place])
        ended = [0] if alone.finished else []
        assert alone.score == pytest.approx(model.log_prob([*prompt, *alone.ids, *ended], len(prompt)), abs=1e-6)


def test_seeds() -> None:
    model = TableStepper.random(7, 0, 0.5)
    first = continue_prompts(model, [[3]] * 8, 12, None, Sampling(), range(8))
    again = continue_prompts(model, [[3]] * 8, 12, None, Sampling(), range(8))
    assert [one.ids for one in first] == [one.ids for one in again]
    assert len({tuple(one.ids) for one in first}) == 8


def test_ends_and_room() -> None:
    model = TableStepper.random(5, 1, 0.5)
    for one in continue_prompts(model, [[3]] * 40, 6, 0, Sampling(), range(40)):
        assert 0 not in one.ids
        assert len(one.ids) == 6 if not one.finished else len(one.ids) < 6
    assert all(len(one.ids) == 6 for one in continue_prompts(model, [[3]] * 4, 6, None, Sampling(), range(4)))
    assert continue_prompts(model, [], 6) == []


def test_rules() -> None:
    model = TableStepper.random(5, 1, 0.5)
    rules = Rules(no_repeat_ngram=2, banned=(4,), min_tokens=2)
    for one in continue_prompts(model, [[3, 1, 3]] * 40, 12, 0, Sampling(), range(40), rules):
        text = [3, 1, 3, *one.ids]
        pairs = list(pairwise(text))
        assert len(set(pairs)) == len(pairs)
        assert 4 not in one.ids
        assert len(one.ids) >= 2


@pytest.mark.parametrize("sharpness", [0.1, 8.0])
def test_top_p_over_many_tokens(sharpness: float) -> None:
    """Whether few tokens hold the share or nearly all are needed: the smallest set that does."""
    scores = torch.randn((3, 3000), generator=torch.Generator().manual_seed(1), dtype=torch.float64) * sharpness
    probs, ids = candidates(scores, Sampling(top_p=0.7))
    assert ids is not None
    wanted = scores.softmax(-1)
    for row in range(3):
        kept = ids[row][probs[row] > 0]
        total = float(wanted[row, kept].sum())
        assert total >= 0.7 > total - float(wanted[row, kept].min())
        assert float(wanted[row, kept].min()) >= float(wanted[row].topk(len(kept)).values[-1])
        torch.testing.assert_close(probs[row][probs[row] > 0], wanted[row, kept] / total)


def test_what_is_written_is_heard_of_while_it_is_written() -> None:
    """Each prompt grows by one token a step to what is given back; nothing changes by listening, and nobody hears it later."""
    model, prompts = TableStepper.random(5, 3), [[2], [1, 3]]
    plain = continue_prompts(model, prompts, 6)
    heard: dict[int, list[list[int]]] = {}
    with watching(lambda row, ids: heard.setdefault(row, []).append(ids)):
        found = continue_prompts(model, prompts, 6)
        beams = beam_search(model, [[2]], 3, beam=Beam(width=2))
    assert found == plain
    assert heard[1][-1] == found[1].ids
    assert [ids for ids in heard[1] if ids] == [found[1].ids[:size] for size in range(1, 7)]
    assert heard[0][:6] == [found[0].ids[:size] for size in range(1, 7)]
    assert all(len(ids) <= 3 for ids in heard[0][6:])
    assert len(beams[0][0].ids) == 3
    count = len(heard[0])
    continue_prompts(model, prompts, 6)
    assert len(heard[0]) == count
