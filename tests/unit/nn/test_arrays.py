"""What stands beside an exported graph gives the numbers of its torch twin."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from firth.nn import arrays
from firth.nn.crf import CRF
from firth.nn.sentences import ACTIVATIONS, Dense, Norm, Normalize, pool_sequences

LENS = [3, 0, 5, 1]


@pytest.mark.parametrize("pool", arrays.POOLS)
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_pooling(pool: str, skip: int) -> None:
    hidden = np.random.default_rng(1).standard_normal((4, 5, 6)).astype(np.float32)
    ends = [row[:size] for row, size in zip(hidden, LENS, strict=True)]
    theirs = pool_sequences(torch.from_numpy(np.concatenate(ends)), LENS, [pool, "mean"], skip).numpy()
    np.testing.assert_allclose(arrays.pool_rows(hidden, np.asarray(LENS), [pool, "mean"], skip), theirs, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("width", "residual"), [(4, False), (4, True), (6, True)])
def test_modules(activation: str, width: int, residual: bool) -> None:
    torch.manual_seed(0)
    parts = [Dense(6, width, True, activation, residual), Norm(width), Normalize()]
    torch.nn.init.normal_(parts[1].norm.weight)  # type: ignore[union-attr, arg-type]
    rows = np.random.default_rng(2).standard_normal((3, 6)).astype(np.float32)
    weights = [{name: tensor.numpy() for name, tensor in part.state_dict().items()} for part in parts]
    tail = arrays.ArrayTail([arrays.dense(weights[0], activation, residual), arrays.norm(weights[1]), arrays.normalize])
    with torch.no_grad():
        theirs = torch.nn.Sequential(*parts)(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(tail(rows), theirs, atol=2e-6)


def test_softmax_and_sigmoid() -> None:
    scores = np.asarray([[-800.0, 0.0, 800.0], [1.0, 2.0, 3.0]], np.float32)
    np.testing.assert_allclose(arrays.softmax(scores), torch.from_numpy(scores).softmax(-1).numpy(), atol=1e-7)
    np.testing.assert_allclose(arrays.sigmoid(scores), torch.from_numpy(scores).sigmoid().numpy(), atol=1e-7)


def crf_and_scores() -> tuple[CRF, arrays.ArrayCRF, np.ndarray, np.ndarray]:
    torch.manual_seed(3)
    step = torch.ones(3, 3, dtype=torch.bool)
    step[0, 2] = False
    rules = (torch.tensor([True, True, False]), step, torch.ones(3, dtype=torch.bool))
    crf = CRF(3, *rules)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    weights = {name: tensor.numpy() for name, tensor in crf.state_dict().items()}
    scores = np.random.default_rng(4).standard_normal((3, 5, 3)).astype(np.float32)
    mask = np.asarray([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]], np.bool_)
    return crf, arrays.ArrayCRF(weights, [rule.numpy() for rule in rules]), scores, mask


def test_crf_is_its_twin() -> None:
    crf, ours, scores, mask = crf_and_scores()
    given = torch.from_numpy(scores), torch.from_numpy(mask)
    np.testing.assert_array_equal(ours.decode(scores, mask), crf.decode(*given).numpy())
    np.testing.assert_allclose(ours.marginals(scores, mask), crf.marginals(*given).numpy(), atol=1e-5)


def test_crf_by_all_paths() -> None:
    """Every path written out."""
    _, crf, scores, _ = crf_and_scores()
    paths = list(itertools.product(range(3), repeat=5))
    sums = []
    for path in paths:
        steps = sum(crf.step_KK[one, other] for one, other in itertools.pairwise(path))
        own = sum(scores[0, place, tag] for place, tag in enumerate(path))
        sums.append(float(crf.start_K[path[0]] + own + steps + crf.end_K[path[-1]]))
    mask = np.ones((1, 5), np.bool_)
    assert tuple(crf.decode(scores[:1], mask)[0].tolist()) == paths[int(np.argmax(sums))]
    chances = np.exp(np.asarray(sums) - logsumexp(sums))
    expected = [[sum(chances[n] for n, path in enumerate(paths) if path[t] == k) for k in range(3)] for t in range(5)]
    np.testing.assert_allclose(crf.marginals(scores[:1], mask)[0], expected, atol=1e-5)
