"""The conditional random field against a sum over all paths."""

import itertools

import pytest
import torch

from firth.nn.crf import CRF, _packed
from firth.tasks.tag_schemes import allowed, bad_tags, transitions

K, T, B = 3, 4, 5
MASK = torch.tensor(
    [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]],
    dtype=torch.bool,
)


@pytest.fixture(params=[False, True], ids=["free", "bio"])
def crf(request: pytest.FixtureRequest) -> CRF:
    limits = map(torch.from_numpy, transitions(["O", "B-X", "I-X"], "bio")) if request.param else (None, None, None)
    field = CRF(K, *limits).double()
    torch.manual_seed(0)
    for weight in field.parameters():
        torch.nn.init.normal_(weight)
    return field


def paths(field: CRF, scores_TK: torch.Tensor) -> dict[tuple[int, ...], float]:
    """The score of every path over the given places, by the definition."""
    start, step, end = (value.detach() for value in field._weights())
    found = {}
    for path in itertools.product(range(K), repeat=len(scores_TK)):
        total = start[path[0]] + end[path[-1]] + sum(scores_TK[place, tag] for place, tag in enumerate(path))
        total = total + sum(step[one, two] for one, two in itertools.pairwise(path))
        found[path] = float(total)
    return found


def log_partition(field: CRF, scores: torch.Tensor) -> torch.Tensor:
    """log of the sum over all paths of exp(score) [B]; 0 for a row without places."""
    return field._log_sum(*_packed(scores, MASK)[:2])


def test_against_all_paths(crf: CRF) -> None:
    torch.manual_seed(1)
    scores, tags = torch.randn(B, T, K, dtype=torch.float64), torch.randint(0, K, (B, T)).masked_fill(~MASK, -100)
    partition, best = log_partition(crf, scores), crf.decode(scores, MASK)
    marginals, likelihood = crf.marginals(scores, MASK), crf.log_likelihood(scores, tags, MASK)
    for row in range(B - 1):
        kept = MASK[row]
        by_path = paths(crf, scores[row][kept])
        total = torch.logsumexp(torch.tensor(list(by_path.values()), dtype=torch.float64), 0)
        torch.testing.assert_close(partition[row].detach(), total)
        torch.testing.assert_close(likelihood[row].detach(), by_path[tuple(tags[row][kept].tolist())] - total)
        assert tuple(best[row][kept].tolist()) == max(by_path, key=by_path.__getitem__)
        wanted = torch.zeros(int(kept.sum()), K, dtype=torch.float64)
        for path, score in by_path.items():
            for place, tag in enumerate(path):
                wanted[place, tag] += torch.exp(score - total)
        torch.testing.assert_close(marginals[row][kept], wanted)
        assert (best[row][~kept] == -1).all()
        assert (marginals[row][~kept] == 0).all()
    assert partition[-1] == likelihood[-1] == 0  # a row without places
    assert (best[-1] == -1).all()


def test_gradients(crf: CRF) -> None:
    torch.manual_seed(2)
    scores = torch.randn(B, T, K, dtype=torch.float64, requires_grad=True)
    tags = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 0], [0, 0, 0, 0], [0, 1, 0, 2], [0, 0, 0, 0]])
    weights = [crf.start, crf.step, crf.end]

    def likelihood(scores: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return crf.log_likelihood(scores, tags, MASK)

    assert torch.autograd.gradcheck(likelihood, (scores, *weights))
    # The derivative of the log partition by a score is the marginal of that tag.
    gradient = torch.autograd.grad(log_partition(crf, scores).sum(), scores)[0]
    torch.testing.assert_close(gradient, crf.marginals(scores.detach(), MASK))


def test_what_the_scheme_forbids_is_never_decoded() -> None:
    labels = ["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B"]
    field = CRF(len(labels), *map(torch.from_numpy, transitions(labels, "bioes")))
    torch.manual_seed(3)
    scores = 10 * torch.randn(40, 12, len(labels))
    mask = torch.arange(12) < torch.randint(1, 13, (40, 1))
    best = field.decode(scores, mask)
    marginals = field.marginals(scores, mask)
    for row in range(40):
        assert bad_tags([labels[tag] for tag in best[row][mask[row]].tolist()], "bioes") == []
    assert not allowed("O", "I-A", "bioes")
    assert marginals[:, 0, 2].max() < 1e-6
    torch.testing.assert_close(marginals.sum(-1), mask.float())
    assert not [name for name in field.state_dict() if "allowed" in name]  # the labels say it already


def test_long_rows_stay_finite() -> None:
    field = CRF(4)
    scores = (50 * torch.randn(2, 2000, 4)).requires_grad_()
    mask = torch.ones(2, 2000, dtype=torch.bool)
    loss = -field.log_likelihood(scores, torch.zeros(2, 2000, dtype=torch.long), mask).sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
