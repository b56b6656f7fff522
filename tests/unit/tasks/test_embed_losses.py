"""The losses of sentence vectors against plain NumPy, BM25 against its formula, negatives, and the cached gradient."""

import math

import numpy as np
import pytest
import torch

from firth.data.sentences import SentenceExample
from firth.retrieval.exact import best_rows, blocks_of
from firth.retrieval.words import Bm25, terms
from firth.tasks.embed.training import (
    SentenceDecoder,
    cosent_loss,
    cosine_loss,
    mine_negatives,
    over_widths,
    ranking_loss,
    softmax_loss,
)
from firth.tasks.scores import spearman

RANDOM = np.random.default_rng(0)
FIRST, SECOND = RANDOM.standard_normal((2, 5, 6))
SCORES = np.asarray([0.1, 0.9, 0.4, 0.4, 1.0])


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(array) for array in arrays]


def test_ranking() -> None:
    candidates = np.concatenate((SECOND, RANDOM.standard_normal((3, 6))))
    same = np.zeros((5, 8), bool)
    same[1, 4] = True
    expected = 0.0
    for row in range(5):
        found = [
            math.exp(20 * cosine(FIRST[row], other)) for place, other in enumerate(candidates) if not same[row, place]
        ]
        expected -= math.log(math.exp(20 * cosine(FIRST[row], SECOND[row])) / sum(found))
    assert float(ranking_loss(*tensors(FIRST, candidates), 20.0, torch.from_numpy(same))) == pytest.approx(expected)


def test_cosine() -> None:
    expected = sum((cosine(*pair) - score) ** 2 for *pair, score in zip(FIRST, SECOND, SCORES, strict=True))
    assert float(cosine_loss(*tensors(FIRST, SECOND, SCORES))) == pytest.approx(expected)


def test_cosent() -> None:
    found = [20 * cosine(*pair) for pair in zip(FIRST, SECOND, strict=True)]
    total = 1 + sum(
        math.exp(found[one] - found[other]) for one in range(5) for other in range(5) if SCORES[one] < SCORES[other]
    )
    assert float(cosent_loss(*tensors(FIRST, SECOND, SCORES), 20.0)) == pytest.approx(5 * math.log(total))


def test_softmax() -> None:
    torch.manual_seed(0)
    out, targets = torch.nn.Linear(18, 3).double(), [0, 2, 1, 1, 0]
    weight, bias = out.weight.detach().numpy(), out.bias.detach().numpy()
    expected = 0.0
    for one, other, target in zip(FIRST, SECOND, targets, strict=True):
        scores = weight @ np.concatenate((one, other, np.abs(one - other))) + bias
        expected -= scores[target] - np.log(np.exp(scores).sum())
    assert float(softmax_loss(*tensors(FIRST, SECOND), out, torch.tensor(targets))) == pytest.approx(expected)


def test_widths() -> None:
    both = torch.from_numpy(np.concatenate((FIRST, SECOND)))
    found = over_widths(both, (6, 3), lambda some: ranking_loss(some[:5], some[5:], 20.0))
    parts = [float(ranking_loss(both[:5, :width], both[5:, :width], 20.0)) for width in (6, 3)]
    assert float(found) == pytest.approx(sum(parts) / 2)


def normed(rows: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    centred = rows - rows.mean(1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"])


def restored(weights: dict[str, np.ndarray], table: np.ndarray, vector: np.ndarray, ids: list[int]) -> float:
    """-log p of a text after its vector, by one causal block with two heads; norms come first."""
    first = weights["first.weight"] @ vector + weights["first.bias"]
    hidden = np.stack([first, *(table[id] for id in ids[:-1])]) + weights["positions.weight"][: len(ids)]
    read = normed(hidden, weights, "blocks.layers.0.norm1")
    joined = read @ weights["blocks.layers.0.self_attn.in_proj_weight"].T
    query, key, value = np.split(joined + weights["blocks.layers.0.self_attn.in_proj_bias"], 3, axis=1)
    size, half = len(ids), query.shape[1] // 2
    heads = []
    for some in (slice(0, half), slice(half, None)):
        scores = query[:, some] @ key[:, some].T / math.sqrt(half)
        scores = np.where(np.tril(np.ones((size, size))) > 0, scores, -np.inf)
        shares = np.exp(scores - scores.max(1, keepdims=True))
        heads.append(shares / shares.sum(1, keepdims=True) @ value[:, some])
    seen = np.concatenate(heads, 1) @ weights["blocks.layers.0.self_attn.out_proj.weight"].T
    hidden = hidden + seen + weights["blocks.layers.0.self_attn.out_proj.bias"]
    inner = normed(hidden, weights, "blocks.layers.0.norm2") @ weights["blocks.layers.0.linear1.weight"].T
    inner = inner + weights["blocks.layers.0.linear1.bias"]
    bent = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
    hidden = hidden + bent @ weights["blocks.layers.0.linear2.weight"].T + weights["blocks.layers.0.linear2.bias"]
    scores = normed(hidden, weights, "norm") @ table.T
    return -sum(row[id] - math.log(np.exp(row).sum()) for row, id in zip(scores, ids, strict=True))


def test_restored_text() -> None:
    torch.manual_seed(0)
    table = torch.nn.Embedding(11, 6).double()
    decoder = SentenceDecoder(table, 4, 1, 8).double()
    weights = {name: value.detach().numpy() for name, value in decoder.state_dict().items()}
    vectors, targets = RANDOM.standard_normal((2, 4)), [[3, 1, 10, 4, 4], [7, 2]]
    found = decoder.loss(torch.from_numpy(vectors), [np.asarray(ids) for ids in targets])
    rows = table.weight.detach().numpy()
    expected = sum(restored(weights, rows, vector, ids) for vector, ids in zip(vectors, targets, strict=True))
    assert float(found.detach()) == pytest.approx(expected)
    assert not any(name.startswith("table") for name in weights)  # it is the base's


TEXTS = ["The cats sat on the mat.", "A dog runs.", "我们在图书馆看书。", "Cats and dogs, cats!"]


def test_bm25() -> None:
    words = [terms(text) for text in TEXTS]
    assert words[0] == ["the", "cat", "sat", "on", "the", "mat"]
    mean = sum(map(len, words)) / len(words)
    found = Bm25(TEXTS).scores("cat dog")
    for number, text in enumerate(words):
        expected = 0.0
        for term in ("cat", "dog"):
            num, count = sum(term in other for other in words), text.count(term)
            idf = math.log(1 + (4 - num + 0.5) / (num + 0.5))
            expected += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(text) / mean))
        assert float(found[number]) == pytest.approx(expected, rel=1e-5)
    assert int(Bm25(TEXTS).scores("图书馆").argmax()) == 2


@pytest.mark.parametrize("block", [3, 7, 100])
def test_best_rows(block: int) -> None:
    rows, asked = RANDOM.standard_normal((20, 4)).astype(np.float32), RANDOM.standard_normal((3, 4)).astype(np.float32)
    numbers, scores = best_rows(asked, blocks_of(rows, block), 5)
    expected = np.argsort(-(asked @ rows.T), axis=1)[:, :5]
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(asked @ rows.T, expected, 1), rtol=1e-5)
    assert best_rows(asked, blocks_of(rows[:2]), 5)[0][:, 2:].max() == -1


def test_negatives() -> None:
    vectors = {"q": [1, 0], "right": [1, 0.1], "twin": [1, 0.11], "near": [1, 1], "far": [-1, 0], "p": [0, 1]}
    examples = [
        SentenceExample("q", "right"),
        SentenceExample("q", "twin"),
        SentenceExample("p", "near"),
        SentenceExample("p", "far"),
    ]
    found = mine_negatives(
        examples, "model", 1, 0.95, lambda texts: np.asarray([vectors[one] for one in texts], np.float32)
    )
    assert found[0].negatives == ("near",)
    assert found[2].negatives == ("twin",)
    asked: list[str | None] = []

    def encode(texts: list[str], /, *, prompt: str | None = None) -> np.ndarray:
        asked.append(prompt)
        return np.asarray([vectors[one] for one in texts], np.float32)

    assert mine_negatives(examples, "model", 1, 0.95, encode, ("query: ", "")) == found
    assert asked == ["", "query: "]
    words = [
        SentenceExample("red cat", "a red cat"),
        SentenceExample("blue dog", "blue dog, red house"),
        SentenceExample("sea", "the sea"),
    ]
    assert mine_negatives(words, "bm25", 1, 0.95, lambda texts: np.zeros((0, 0), np.float32))[0].negatives == (
        "blue dog, red house",
    )


def test_spearman() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 40, 30]) == pytest.approx(0.8)
    assert spearman([1, 1, 1], [1, 2, 3]) == 0
