"""Output layers: the fused loss is the plain one, all are normalised, samples estimate what they should."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from firth.nn import softmax
from firth.nn.softmax import (
    AdaptiveOutput,
    NCEOutput,
    Noise,
    SampledOutput,
    TokenOutput,
    alias_table,
    frequency_ranks,
    log_unigram,
    noise_probs,
)

COUNTS = np.asarray([1, 40, 25, 0, 9, 3, 12, 30, 2, 5])


def started(layer: TokenOutput, std: float = 0.5) -> TokenOutput:
    layer.start(std, torch.Generator().manual_seed(0), torch.full((layer.vocab_size,), -math.log(layer.vocab_size)))
    return layer


@pytest.mark.parametrize("kind", ["full", "nce", "adaptive"])
def test_starts_at_how_often_tokens_occur(kind: str) -> None:
    shares = noise_probs("unigram", COUNTS)
    if kind == "adaptive":
        layer: TokenOutput = AdaptiveOutput(4, torch.from_numpy(frequency_ranks(COUNTS)), [3, 6])
    else:
        layer = NCEOutput(4, 10, False, Noise(shares), 5) if kind == "nce" else TokenOutput(4, 10, False)
    layer.start(0.1, torch.Generator().manual_seed(0), log_unigram(COUNTS))
    found = layer.scores(torch.zeros(1, 4), torch.zeros(10, 4))[0].detach().exp()
    assert float(found.sum()) == pytest.approx(1.0)
    ranked = np.argsort(-COUNTS, kind="stable")
    if kind == "adaptive":  # within a cluster all tokens are alike
        clusters = [shares[ranked[low:high]].sum() for low, high in ((3, 6), (6, 10))]
        wanted = [*shares[ranked[:3]], *[clusters[0] / 3] * 3, *[clusters[1] / 4] * 4]
        np.testing.assert_allclose(found[ranked], wanted, rtol=1e-5)
    else:
        np.testing.assert_allclose(found, shares, rtol=1e-5)


@pytest.mark.parametrize("rows", [256, 3])
@pytest.mark.parametrize("tied", [False, True])
def test_fused_loss_is_cross_entropy(rows: int, tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "_ROWS", rows)
    monkeypatch.setattr(softmax, "_SCORES", 1)
    monkeypatch.setattr(softmax, "_SCANNED", (rows, rows))
    layer = started(TokenOutput(4, 10, tied)).double()
    torch.nn.init.normal_(layer.bias)
    hidden = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    table = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(10, (7,))
    wanted = [hidden, layer.rows(table), layer.bias]
    plain = functional.cross_entropy(layer.scores(hidden, table), labels, reduction="sum")
    fused = layer.loss(hidden, labels, table)
    torch.testing.assert_close(fused, plain)
    for one, two in zip(torch.autograd.grad(fused * 3, wanted), torch.autograd.grad(plain * 3, wanted), strict=True):
        torch.testing.assert_close(one, two)
    with torch.no_grad():
        torch.testing.assert_close(layer.loss(hidden, labels, table), plain)
        log_probs, log_z, hits = layer.judge(hidden, labels, table)
        scores = layer.scores(hidden, table)
    torch.testing.assert_close(-log_probs.sum(), plain)
    torch.testing.assert_close(log_z, scores.logsumexp(-1))
    assert torch.equal(hits, scores.argmax(-1) == labels)


def test_a_large_vocabulary_in_float16() -> None:
    """Scores before they are divided by their sum are larger than its largest number."""
    hidden, table = torch.zeros(2, 4, requires_grad=True), torch.ones(100_000, 4, requires_grad=True)
    with torch.autocast("cpu", torch.float16):
        softmax.cross_entropy_sum(hidden, table, None, torch.tensor([0, 1])).backward()
    assert hidden.grad is not None
    assert hidden.grad.abs().max() < 1e-2  # all rows of the table are the same


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_fused_loss_under_autocast(half: torch.dtype, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in it, part by part: loss and gradients are those of float32 up to its rounding."""
    monkeypatch.setattr(softmax, "_HALF_ROWS", 3)
    monkeypatch.setattr(softmax, "_HALF_SCORES", 1)
    torch.manual_seed(0)
    hidden, table = torch.randn(7, 16, requires_grad=True), torch.randn(10, 16, requires_grad=True)
    bias, labels = torch.randn(10, requires_grad=True), torch.randint(10, (7,))
    wanted = [hidden, table, bias]
    plain = functional.cross_entropy(hidden @ table.t() + bias, labels, reduction="sum", label_smoothing=smoothing)
    with torch.autocast("cpu", half):
        fused = softmax.cross_entropy_sum(hidden, table, bias, labels, smoothing)
    assert fused.dtype == torch.float32
    torch.testing.assert_close(fused, plain, rtol=0.01, atol=0)
    for one, two in zip(torch.autograd.grad(fused * 3, wanted), torch.autograd.grad(plain * 3, wanted), strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, two, rtol=0.03, atol=0.05)


def test_equal_scores_are_no_hits() -> None:
    """The first of the likeliest counts, as argmax has it."""
    labels = torch.tensor([0, 1, 6])
    log_probs, log_z, hits = softmax.judge_labels(torch.randn(3, 4), torch.zeros(7, 4), None, labels)
    torch.testing.assert_close(log_z, torch.full((3,), 7.0).log())
    torch.testing.assert_close(log_probs, -log_z)
    assert hits.tolist() == [True, False, False]


def test_half_precision_is_judged_in_single() -> None:
    hidden, table = torch.randn(3, 4).bfloat16(), torch.randn(7, 4)
    log_probs, log_z, _ = softmax.judge_labels(hidden, table, None, torch.tensor([0, 1, 6]))
    assert log_probs.dtype == log_z.dtype == torch.float32
    torch.testing.assert_close(log_z, (hidden.float() @ table.t()).logsumexp(-1))


def test_no_positions() -> None:
    layer = started(TokenOutput(4, 10, False))
    loss = layer.loss(torch.zeros(0, 4, requires_grad=True), torch.zeros(0, dtype=torch.int64), torch.zeros(10, 4))
    loss.backward()
    assert float(loss.detach()) == 0
    assert layer.table is not None
    assert layer.table.grad is not None
    assert not layer.table.grad.any()


def test_shares() -> None:
    assert noise_probs("uniform", COUNTS).tolist() == [0.1] * 10
    np.testing.assert_allclose(noise_probs("unigram", COUNTS), np.maximum(COUNTS, 1) / 128)
    by_rank = noise_probs("log_uniform", COUNTS)[np.argsort(-COUNTS, kind="stable")]
    np.testing.assert_allclose(by_rank, [math.log((r + 2) / (r + 1)) / math.log(11) for r in range(10)])
    assert frequency_ranks(COUNTS).tolist() == [8, 0, 2, 9, 4, 6, 3, 1, 7, 5]


def test_alias_table_is_exact() -> None:
    shares = noise_probs("unigram", COUNTS)
    keep, other = alias_table(shares)
    total = keep / 10
    np.add.at(total, other, (1 - keep) / 10)
    np.testing.assert_allclose(total, shares, atol=1e-12)
    torch.manual_seed(0)
    drawn = np.bincount(Noise(shares).draw(200_000).numpy(), minlength=10) / 200_000
    np.testing.assert_allclose(drawn, shares, atol=0.005)


def gradient(layer: TokenOutput, hidden: torch.Tensor, labels: torch.Tensor, full: bool) -> torch.Tensor:
    table = torch.zeros(10, 4)
    loss = TokenOutput.loss(layer, hidden, labels, table) if full else layer.loss(hidden, labels, table)
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, [layer.table, layer.bias])])  # type: ignore[list-item]


@pytest.mark.parametrize("kind", ["unigram", "uniform"])
def test_nce_tends_to_maximum_likelihood(kind: str) -> None:
    """As k grows the gradient turns to that of maximum likelihood (with scores that are normalised)."""
    torch.manual_seed(1)
    hidden, labels = torch.randn(6, 4), torch.randint(10, (6,))
    cosines = []
    for num_noise in (2, 200, 100_000):
        layer = started(NCEOutput(4, 10, False, Noise(noise_probs(kind, COUNTS)), num_noise))
        with torch.no_grad():  # one position at a time can be normalised by its bias
            found = [torch.zeros(50), torch.zeros(50)]
            for at in range(6):
                layer.bias.zero_()
                layer.bias -= layer.judge(hidden[at : at + 1], labels[at : at + 1], torch.zeros(10, 4))[1]
                with torch.enable_grad():
                    for place, full in enumerate((False, True)):
                        found[place] += gradient(layer, hidden[at : at + 1], labels[at : at + 1], full)
        cosines.append(float(functional.cosine_similarity(found[0], found[1], dim=0)))
    assert cosines[2] > 0.99
    assert cosines[2] > cosines[0]


def test_sampled_softmax_tends_to_the_full_one() -> None:
    torch.manual_seed(1)
    hidden, labels = torch.randn(6, 4), torch.randint(10, (6,))
    layer = started(SampledOutput(4, 10, False, Noise(noise_probs("log_uniform", COUNTS)), 200_000))
    one, two = (gradient(layer, hidden, labels, full) for full in (False, True))
    torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-4)


def test_sampled_softmax_by_hand() -> None:
    """Over the label and the distinct noise tokens but the label, scores less log(1 - 0.9^k)."""
    layer = started(SampledOutput(4, 10, False, Noise(noise_probs("uniform", COUNTS)), 6))
    hidden = torch.randn(1, 4)
    with torch.no_grad():
        scores = layer.scores(hidden, torch.zeros(10, 4))[0].double().numpy()
        torch.manual_seed(5)
        noise = set(layer.noise.draw(6).tolist())
        torch.manual_seed(5)
        found = float(layer.loss(hidden, torch.tensor([4]), torch.zeros(10, 4)))
    weights = np.exp(scores) / (1 - 0.9**6)
    wanted = -math.log(weights[4] / (weights[4] + sum(weights[word] for word in noise - {4})))
    assert found == pytest.approx(wanted, rel=1e-5)


def test_nce_by_hand() -> None:
    """-log s(s - log kq) for the label and -log s(-(s - log kq)) for each noise token."""
    layer = started(NCEOutput(4, 10, False, Noise(noise_probs("uniform", COUNTS)), 3))
    hidden = torch.randn(1, 4)
    with torch.no_grad():
        scores = layer.scores(hidden, torch.zeros(10, 4))[0].double().numpy()
        torch.manual_seed(5)
        noise = layer.noise.draw(3).tolist()
        torch.manual_seed(5)
        found = float(layer.loss(hidden, torch.tensor([4]), torch.zeros(10, 4)))
    u, kq = np.exp(scores), 3 * 0.1
    wanted = -math.log(u[4] / (u[4] + kq)) - sum(math.log(1 - u[word] / (u[word] + kq)) for word in noise)
    assert found == pytest.approx(wanted, rel=1e-5)


def test_nce_learns_normalised_scores() -> None:
    """A table of three contexts: after training log Z is near 0 and the distributions are those of the text."""
    torch.manual_seed(0)
    truth = torch.rand(3, 10).softmax(-1) ** 2
    truth /= truth.sum(-1, keepdim=True)
    layer = started(NCEOutput(3, 10, False, Noise(noise_probs("uniform", COUNTS)), 50), std=0.1)
    optimizer = torch.optim.Adam(layer.parameters(), 0.05)
    contexts, table = torch.eye(3), torch.zeros(10, 3)
    for step in range(400):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / 400)
        rows = torch.randint(3, (512,))
        labels = torch.multinomial(truth[rows], 1)[:, 0]
        optimizer.zero_grad()
        layer.loss(contexts[rows], labels, table).backward()
        optimizer.step()
    with torch.no_grad():
        _, log_z, _ = layer.judge(contexts, torch.zeros(3, dtype=torch.int64), table)
        assert float(log_z.abs().max()) < 0.1
        assert float((layer.log_probs(contexts, table).exp() - truth).abs().max()) < 0.03


@pytest.mark.parametrize("cutoffs", [None, [2, 5]])
def test_adaptive_softmax_is_normalised(cutoffs: list[int] | None) -> None:
    layer = started(AdaptiveOutput(4, torch.from_numpy(frequency_ranks(COUNTS)), cutoffs))
    hidden, table, labels = torch.randn(5, 4), torch.zeros(10, 4), torch.arange(5)
    log_probs = layer.log_probs(hidden, table)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(5))
    torch.testing.assert_close(layer.loss(hidden, labels, table), -log_probs[torch.arange(5), labels].sum())
    assert layer.judge(hidden, labels, table)[1].abs().max() < 1e-5
