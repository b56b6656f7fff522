"""Beam search against search over everything, and against itself under other circumstances."""

import json
from itertools import pairwise

import pytest
import torch
from toy_tables import TableStepper, WholeStepper, same, search_everything

from firth.core.errors import FirthError
from firth.decoding.beam import beam_search, best_tokens
from firth.decoding.steps import Beam, Rules, Trace, continue_prompts

NORMALISATIONS = [("none", 0.0), ("mean", 0.0), ("gnmt", 0.6), ("gnmt", 1.5)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("normalisation", "alpha"), NORMALISATIONS)
def test_a_beam_of_everything_finds_the_optimum(seed: int, normalisation: str, alpha: float) -> None:
    vocab, room = 4, 4
    model = TableStepper.random(vocab, seed)
    beam = Beam.build({"width": vocab**room, "num_best": 20, "normalisation": normalisation, "alpha": alpha}, "test")
    found = beam_search(model, [[2]], room, eos_id=0, beam=beam)[0]
    best = search_everything(model, [2], room, 0, beam.penalty)
    assert len(found) == 20
    assert all(same(one, other) for one, other in zip(found, best, strict=False))


@pytest.mark.parametrize(("sentences", "width", "vocab", "count"), [(3, 4, 200, 8), (2, 5, 128, 10), (1, 3, 2, 6)])
def test_the_best_tokens_are_those_of_a_plain_sort(sentences: int, width: int, vocab: int, count: int) -> None:
    """Vocabularies with and without a part that is not full, and one smaller than a part."""
    generator = torch.Generator().manual_seed(vocab)
    log_probs = torch.randn(sentences * width, vocab, generator=generator).log_softmax(-1)
    log_probs[:, 1] = float("-inf")
    live = -torch.rand(sentences, width, generator=generator, dtype=torch.float64)
    live[0, 1] = float("-inf")
    scores, parents, tokens = best_tokens(log_probs, live, count)
    totals = (log_probs.view(sentences, width, vocab).double() + live[:, :, None]).flatten(1)
    wanted, places = totals.sort(dim=1, descending=True)
    assert scores.tolist() == wanted[:, :count].tolist()
    real = ~scores.isneginf()
    assert (parents * vocab + tokens)[real].tolist() == places[:, :count][real].tolist()
    assert int(tokens.max()) < vocab


def led_astray() -> TableStepper:
    """Tokens: 0 end, 1 begin, 2 A, 3 B. A is likelier than B at first (0.6, 0.4), but after A the text
    goes on evenly in three ways, while after B it ends for sure (0.9)."""
    table = torch.full((4, 4, 4), 0.25)
    table[0, 1] = torch.tensor([0.0, 0.0, 0.6, 0.4])
    table[1, 2] = torch.tensor([0.34, 0.0, 0.33, 0.33])
    table[1, 3] = torch.tensor([0.9, 0.1, 0.0, 0.0])
    return TableStepper(table.double().log())


def test_greedy_is_led_astray() -> None:
    greedy = continue_prompts(led_astray(), [[1]], 2, eos_id=0)[0]
    assert greedy.ids == [2]
    assert greedy.score == pytest.approx(torch.tensor(0.6 * 0.34).log().item(), abs=1e-6)
    best = beam_search(led_astray(), [[1]], 2, eos_id=0, beam=Beam(width=2, normalisation="none"))[0][0]
    assert best.ids == [3]
    assert best.score == pytest.approx(torch.tensor(0.4 * 0.9).log().item(), abs=1e-6)


def test_width_one_is_greedy() -> None:
    for seed in range(10):
        model = TableStepper.random(7, seed)
        greedy = continue_prompts(model, [[3]], 12, eos_id=0)[0]
        narrow = beam_search(model, [[3]], 12, eos_id=0, beam=Beam(width=1, normalisation="none"))[0][0]
        assert same(greedy, narrow)


@pytest.mark.parametrize("seed", range(5))
def test_best_are_sorted_and_distinct(seed: int) -> None:
    model = TableStepper.random(9, seed, sharpness=1.0)
    found = beam_search(model, [[4], [5, 6]], 10, eos_id=0, beam=Beam(width=8, num_best=8))
    for best in found:
        ranks = [one.normalised for one in best]
        assert ranks == sorted(ranks, reverse=True)
        assert len({tuple(one.ids) for one in best}) == len(best) == 8
        for one in best:
            assert 0 not in one.ids


PROMPTS = [[3], [1, 2, 5], [6, 6], [2, 3, 4, 5, 1]]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("normalisation", "alpha"), NORMALISATIONS)
def test_batch_cache_and_early_stop_change_nothing(seed: int, normalisation: str, alpha: float) -> None:
    model = TableStepper.random(7, seed)
    beam = Beam.build({"width": 4, "num_best": 3, "normalisation": normalisation, "alpha": alpha}, "test")
    together = beam_search(model, PROMPTS, 9, eos_id=0, beam=beam)
    alone = [beam_search(model, [prompt], 9, eos_id=0, beam=beam)[0] for prompt in PROMPTS]
    uncached = beam_search(WholeStepper(model.table), PROMPTS, 9, eos_id=0, beam=beam)
    patient = beam_search(model, PROMPTS, 9, eos_id=0, beam=beam.replace(early_stop=False))
    for other in (alone, uncached, patient):
        for ours, theirs in zip(together, other, strict=True):
            assert len(ours) == len(theirs)
            assert all(same(one, two) for one, two in zip(ours, theirs, strict=True))


def test_scores_are_those_of_the_model() -> None:
    model = TableStepper.random(7, 3)
    beam = Beam(width=4, num_best=4, normalisation="gnmt", alpha=0.8)
    for prompt, best in zip(PROMPTS, beam_search(model, PROMPTS, 9, eos_id=0, beam=beam), strict=True):
        for one in best:
            tokens = [*one.ids, *([0] if one.finished else [])]
            assert one.score == pytest.approx(model.log_prob([*prompt, *tokens], len(prompt)))
            assert one.normalised == pytest.approx(one.score / ((5 + len(tokens)) / 6) ** 0.8)


def test_early_stop_saves_steps_and_sentences_leave() -> None:
    quick, slow = TableStepper.random(7, 1, 4.0), TableStepper.random(7, 1, 4.0)
    beam_search(quick, PROMPTS, 40, eos_id=0, beam=Beam(width=4, normalisation="none"))
    beam_search(slow, PROMPTS, 40, eos_id=0, beam=Beam(width=4, normalisation="none", early_stop=False))
    assert sum(quick.rows_stepped) < sum(slow.rows_stepped)
    assert quick.rows_stepped[-1] < 4 * len(PROMPTS)


def test_rules_hold_in_a_beam() -> None:
    model = TableStepper.random(5, 2)
    rules = Rules(no_repeat_ngram=2, banned=(4,), min_tokens=3)
    for prompt, best in zip(
        [[3], [1, 2, 1]],
        beam_search(model, [[3], [1, 2, 1]], 12, 0, Beam(width=5, num_best=5), rules),
        strict=True,
    ):
        assert best
        for one in best:
            text = [*prompt, *one.ids]
            pairs = list(pairwise(text))
            assert len(set(pairs)) == len(pairs)
            assert 4 not in one.ids
            assert len(one.ids) >= 3


def test_trace_is_the_tree() -> None:
    model = TableStepper.random(6, 5)
    trace = Trace()
    found = beam_search(
        model, [[3], [2, 2]], 6, 0, Beam(width=3, num_best=3, early_stop=False, normalisation="none"), trace=trace
    )
    trees = json.loads(json.dumps(trace.plain()))
    for prompt, best, tree in zip([[3], [2, 2]], found, trees, strict=True):
        nodes = {node["number"]: node for node in tree}
        assert list(nodes) == list(range(1, len(tree) + 1))

        def path(node: dict[str, int], nodes: dict[int, dict[str, int]] = nodes) -> list[int]:
            return [*(path(nodes[node["parent"]]) if node["parent"] else []), node["token"]]

        for node in tree:
            assert node["score"] == pytest.approx(model.log_prob([*prompt, *path(node)], len(prompt)))
            assert not node["parent"] or nodes[node["parent"]]["fate"] == "kept"
        ends = {tuple(path(node)) for node in tree if node["fate"] == "finished"}
        assert {(*one.ids, *([0] if one.finished else [])) for one in best} <= ends
        for step in {node["step"] for node in tree}:
            assert sum(node["step"] == step and node["fate"] == "kept" for node in tree) <= 3


def test_more_results_than_the_beam_is_wide() -> None:
    with pytest.raises(FirthError, match="widen it"):
        Beam.build({"width": 2, "num_best": 3}, "beam")


def test_nothing_left_to_say() -> None:
    """Every token is ruled out after a while, the end too: what there is is given or nothing, and no step is lost."""
    model = TableStepper.random(3, 0)
    rules = Rules(no_repeat_ngram=1, min_tokens=9)
    assert beam_search(model, [[1]], 8, 0, Beam(width=2), rules) == [[]]
    assert continue_prompts(model, [[1]], 8, 0, rules=rules)[0].ids == [2]
