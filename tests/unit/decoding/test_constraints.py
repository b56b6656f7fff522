"""Rules worked by hand."""

import torch

from firth.decoding.steps import Rules, constrain, repeating

EVEN = torch.full((2, 5), 0.2).log()
NEVER = float("-inf")


def ruled_out(rules: Rules, tokens: list[list[int]], generated: list[int], eos_id: int | None = 0) -> list[list[int]]:
    found = constrain(rules, EVEN, torch.tensor(tokens), torch.tensor(generated), eos_id)
    return [row.isneginf().nonzero()[:, 0].tolist() for row in found]


def test_ngrams() -> None:
    tokens = [[1, 2, 3, 1, 2], [1, 2, 1, 3, 1]]
    assert ruled_out(Rules(no_repeat_ngram=3), tokens, [2, 2]) == [[3], []]
    assert ruled_out(Rules(no_repeat_ngram=2), tokens, [2, 2]) == [[3], [2, 3]]
    assert ruled_out(Rules(no_repeat_ngram=1), tokens, [2, 2]) == [[1, 2, 3], [1, 2, 3]]
    assert ruled_out(Rules(no_repeat_ngram=6), tokens, [2, 2]) == [[], []]
    rows, ids = repeating(torch.tensor([[1, 1, 1]]), 2)
    assert set(zip(rows.tolist(), ids.tolist(), strict=True)) == {(0, 1)}


def test_the_end_is_no_repetition() -> None:
    assert ruled_out(Rules(no_repeat_ngram=1), [[0, 1], [0, 2]], [1, 1]) == [[1], [2]]
    assert ruled_out(Rules(no_repeat_ngram=1), [[0, 1], [0, 2]], [1, 1], None) == [[0, 1], [0, 2]]


def test_banned_and_least_length() -> None:
    assert ruled_out(Rules(banned=(2, 4)), [[1], [1]], [0, 0]) == [[2, 4], [2, 4]]
    assert ruled_out(Rules(min_tokens=3), [[1], [1]], [2, 3]) == [[0], []]


def test_repetition_penalty() -> None:
    found = constrain(Rules(repetition_penalty=2.0), EVEN, torch.tensor([[1, 1], [3, 0]]), torch.tensor([0, 0]), 0)
    ratios = (found / EVEN).tolist()
    assert [[round(one, 6) for one in row] for row in ratios] == [[1, 2, 1, 1, 1], [1, 1, 1, 2, 1]]


def test_no_rules_no_copy() -> None:
    assert constrain(Rules(), EVEN, torch.tensor([[1], [1]]), torch.tensor([0, 0]), 0) is EVEN
