"""Output layers over the vocabulary: the full softmax with a fused loss, the adaptive softmax, and sampled losses
(noise-contrastive estimation, sampled softmax) with their noise, drawn from any distribution in constant time.

N positions, D hidden size, V vocabulary, K draws.
"""

import math
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from firth.core.types import uniform
from firth.nn.layers import GradientContext

_SCANNED = (512, 1024)  # positions and words of which the scores are computed together without gradients
_ROWS = 256  # positions at a time at least: fewer would spend their time adding up the table's gradient
_HALF_ROWS, _HALF_SCORES = 128, 1 << 20
_SCORES = 1 << 22  # as many positions as have so many scores: more would spend their time on fresh memory


class _SoftmaxContext(GradientContext, Protocol):
    grads: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] | None


class FusedCrossEntropy(torch.autograd.Function):
    """Sum of -log softmax(hidden table^T + bias)[label], with all gradients computed in the forward pass, while the scores
    exist.
    ``smoothing`` is the share of the probability that is spread over all labels.

    The scores of a part of the positions exist at a time, and they become their own gradient in place, so
    that neither memory nor passes over it grow with N x V. They are never divided by their sum: the rows of the
    hidden vectors are. What smoothing adds is that of the mean word, so no pass is spent on it either.
    Under autocast the three products are computed in its type, the sums in float32.
    """

    @staticmethod
    def forward(
        ctx: _SoftmaxContext,
        hidden_ND: torch.Tensor,
        table_VD: torch.Tensor,
        bias_V: torch.Tensor | None,
        labels_N: torch.Tensor,
        smoothing: float = 0.0,
    ) -> torch.Tensor:
        total = hidden_ND.new_zeros(())
        grad_hidden = torch.empty_like(hidden_ND)
        grad_table = torch.empty_like(table_VD)
        grad_bias = None if bias_V is None else torch.zeros_like(bias_V)
        if not len(hidden_ND):
            grad_table.zero_()
        device = hidden_ND.device.type
        half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        rows = max(_ROWS, _SCORES // len(table_VD)) if half is None else max(_HALF_ROWS, _HALF_SCORES // len(table_VD))
        buffer = hidden_ND.new_empty(min(rows, len(hidden_ND)), len(table_VD))
        rounded_buffer, factor_VD = buffer.new_empty(buffer.shape, dtype=half), table_VD.to(half or table_VD.dtype)
        for first in range(0, len(hidden_ND), rows):
            hidden, labels = hidden_ND[first : first + rows], labels_N[first : first + rows, None]
            scores = buffer[: len(hidden)]
            if half is not None:
                rounded = rounded_buffer[: len(hidden)]
                scores.copy_(torch.mm(hidden.to(half), factor_VD.t(), out=rounded))
                scores = scores if bias_V is None else scores.add_(bias_V)
            elif bias_V is None:
                torch.mm(hidden, table_VD.t(), out=scores)
            else:
                torch.addmm(bias_V, hidden, table_VD.t(), out=scores)
            goal, top = scores.gather(1, labels), scores.amax(1, keepdim=True)
            sums = scores.sub_(top).exp_().sum(1, keepdim=True)
            total += (sums.log() + top - (1.0 - smoothing) * goal).sum()
            scores.scatter_add_(1, labels, (smoothing - 1.0) * sums)
            if grad_bias is not None:
                grad_bias.addmv_(scores.t(), 1.0 / sums[:, 0])
            if half == torch.float16:  # before they are divided they are as large as the vocabulary, too large for it
                scores.div_(sums)
                sums.fill_(1.0)
            if half is None:
                torch.mm(scores, table_VD, out=grad_hidden[first : first + rows]).div_(sums)
                torch.addmm(grad_table, scores.t(), hidden / sums, beta=float(first > 0), out=grad_table)
                continue
            torch.div(rounded.copy_(scores) @ factor_VD, sums, out=grad_hidden[first : first + rows])
            found = rounded.t() @ (hidden / sums).to(half)
            grad_table = grad_table.copy_(found) if first == 0 else grad_table.add_(found)
        if smoothing:
            mean_D, share = table_VD.mean(0), smoothing / len(table_VD)
            total -= smoothing * (hidden_ND.sum(0) @ mean_D)
            grad_hidden -= smoothing * mean_D
            grad_table -= share * hidden_ND.sum(0)
            if bias_V is not None and grad_bias is not None:
                total -= smoothing * len(hidden_ND) * bias_V.mean()
                grad_bias -= share * len(hidden_ND)
        ctx.grads = grad_hidden, grad_table, grad_bias
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: _SoftmaxContext, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        found, ctx.grads = ctx.grads, None
        assert found is not None, "gradients are scaled in place, so there is one backward pass only"
        return *(part if part is None else part.mul_(grad) for part in found), None, None


@torch.no_grad()
def judge_labels(
    hidden_ND: torch.Tensor, table_VD: torch.Tensor, bias_V: torch.Tensor | None, labels_N: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """At each position: log-probability of the label, log Z (the logarithm of the sum of exp(scores)), and whether
    the label is the likeliest. Scores are computed block by block in the cache; a whole row never
    exists."""
    precision = torch.promote_types(torch.promote_types(hidden_ND.dtype, table_VD.dtype), torch.float32)
    hidden_ND, table_VD = hidden_ND.to(precision), table_VD.to(precision)
    bias_V = table_VD.new_zeros(len(table_VD)) if bias_V is None else bias_V.to(precision)
    highest_N = hidden_ND.new_full((len(hidden_ND),), -torch.inf)
    sums_N, likeliest_N = torch.zeros_like(highest_N), torch.zeros_like(labels_N)
    rows, words = _SCANNED
    buffer = hidden_ND.new_empty(min(rows, len(hidden_ND)) * min(words, len(table_VD)))
    for first in range(0, len(hidden_ND), rows):
        hidden, highest, sums, likeliest = (
            part[first : first + rows] for part in (hidden_ND, highest_N, sums_N, likeliest_N)
        )
        for word in range(0, len(table_VD), words):
            table = table_VD[word : word + words]
            scores = buffer[: len(hidden) * len(table)].view(len(hidden), len(table))
            torch.addmm(bias_V[word : word + words], hidden, table.t(), out=scores)
            top, places = scores.max(1)
            likeliest.copy_(torch.where(top > highest, places + word, likeliest))
            top = torch.maximum(top, highest)
            sums.mul_((highest - top).exp_()).add_(scores.sub_(top[:, None]).exp_().sum(1))
            highest.copy_(top)
    log_z_N = highest_N + sums_N.log()
    goal_N = (hidden_ND * table_VD[labels_N]).sum(-1) + bias_V[labels_N]
    return goal_N - log_z_N, log_z_N, likeliest_N == labels_N


def cross_entropy_sum(
    hidden_ND: torch.Tensor,
    table_VD: torch.Tensor,
    bias_V: torch.Tensor | None,
    labels_N: torch.Tensor,
    smoothing: float = 0.0,
) -> torch.Tensor:
    """The sum over positions of the cross-entropy under a table, fused where it can be."""
    if not torch.is_grad_enabled():
        log_probs_N, log_z_N, _ = judge_labels(hidden_ND, table_VD, bias_V, labels_N)
        if not smoothing:
            return -log_probs_N.sum()
        # the mean of the scores of all words is the score of the mean word
        mean_N = hidden_ND.to(log_z_N.dtype) @ table_VD.to(log_z_N.dtype).mean(0) - log_z_N
        if bias_V is not None:
            mean_N = mean_N + bias_V.mean()
        return -((1.0 - smoothing) * log_probs_N + smoothing * mean_N).sum()
    total: torch.Tensor = FusedCrossEntropy.apply(hidden_ND.to(table_VD.dtype), table_VD, bias_V, labels_N, smoothing)
    return total


class TokenOutput(nn.Module):
    """From hidden vectors to scores of the next token. ``tied``: the token table of the model is the last matrix."""

    def __init__(self, hidden_dim: int, vocab_size: int, tied: bool) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.table = None if tied else nn.Parameter(torch.empty(vocab_size, hidden_dim))
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    @torch.no_grad()
    def start(self, std: float, generator: torch.Generator, log_shares_V: torch.Tensor) -> None:
        """Initial scores are the log unigram probabilities: otherwise the first hundreds of steps are spent
        learning them."""
        if self.table is not None:
            nn.init.normal_(self.table, std=std, generator=generator)
        self.bias.copy_(log_shares_V)

    def rows(self, table_VD: torch.Tensor) -> torch.Tensor:
        """The last matrix: its own, or the one that is handed in."""
        return table_VD if self.table is None else self.table

    def loss(self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        """The training loss, summed over positions."""
        return cross_entropy_sum(hidden_ND, self.rows(table_VD), self.bias, labels_N)

    def scores(self, hidden_ND: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        """Before any normalisation, [N, V]."""
        return functional.linear(hidden_ND, self.rows(table_VD), self.bias)

    def log_probs(self, hidden_ND: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        """Normalised over the whole vocabulary, [N, V]."""
        return self.scores(hidden_ND, table_VD).float().log_softmax(-1)

    def judge(
        self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """At each position: log-probability of the label by full normalisation, log Z (0 where scores are normalised
        already), and whether the label is the likeliest."""
        return judge_labels(hidden_ND, self.rows(table_VD), self.bias, labels_N)


class AdaptiveOutput(TokenOutput):
    """Adaptive softmax (Grave et al. 2017): frequent tokens in the head, rare ones in clusters of smaller width.

    ``ranks_V`` numbers the tokens by falling frequency. It cannot be tied: its matrices have other shapes.
    """

    skips_weights = True  # of clusters that do not occur in a batch

    def __init__(self, hidden_dim: int, ranks_V: torch.Tensor, cutoffs: list[int] | None = None) -> None:
        super().__init__(1, len(ranks_V), tied=True)
        del self.bias
        vocab_size = len(ranks_V)
        # a fifth and three fifths of the tokens by default: some 95 % of running text is in the head
        chosen = cutoffs or sorted({max(1, vocab_size // 5), max(2, vocab_size * 3 // 5)})
        self.inner = nn.AdaptiveLogSoftmaxWithLoss(hidden_dim, vocab_size, chosen, head_bias=True)
        self.register_buffer("ranks", ranks_V.clone())

    ranks: torch.Tensor

    @torch.no_grad()
    def start(self, std: float, generator: torch.Generator, log_shares_V: torch.Tensor) -> None:
        """The head knows how often its tokens and each cluster occur; clusters have no biases."""
        for part in self.inner.modules():
            if isinstance(part, nn.Linear):
                nn.init.normal_(part.weight, std=std, generator=generator)
        ranked_V = torch.empty_like(log_shares_V).index_copy_(0, self.ranks, log_shares_V)
        first, *cuts = self.inner.cutoffs
        clusters = [ranked_V[low:high].logsumexp(0) for low, high in zip((first, *cuts), cuts, strict=False)]
        self.inner.head.bias.copy_(torch.cat((ranked_V[:first], torch.stack(clusters))))

    def loss(self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        return -self.inner(hidden_ND, self.ranks[labels_N]).output.sum()

    def scores(self, hidden_ND: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        return self.inner.log_prob(hidden_ND).index_select(1, self.ranks)

    def judge(
        self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        ranks_N = self.ranks[labels_N]
        log_probs_N = self.inner(hidden_ND, ranks_N).output
        return log_probs_N, torch.zeros_like(log_probs_N), self.inner.predict(hidden_ND) == ranks_N


def noise_probs(kind: str, counts_V: NDArray[np.int64]) -> NDArray[np.float64]:
    """``uniform``; ``unigram``: as often as in the text (a token that does not occur counts as one);
    ``log_uniform``: by rank r in falling frequency, log((r + 2) / (r + 1)) / log(V + 1), which is Zipf's law."""
    size = len(counts_V)
    if kind == "uniform":
        shares = np.ones(size)
    elif kind == "unigram":
        shares = np.maximum(counts_V, 1).astype(np.float64)
    else:
        assert kind == "log_uniform", kind
        shares = np.log1p(1 / (frequency_ranks(counts_V) + 1.0))
    return np.asarray(shares / shares.sum())


def log_unigram(counts_V: NDArray[np.int64]) -> torch.Tensor:
    """The log of the unigram probability of each token."""
    return torch.from_numpy(np.log(noise_probs("unigram", counts_V)).astype(np.float32))


def frequency_ranks(counts_V: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 for the most frequent token; ties by number."""
    ranks = np.empty(len(counts_V), np.int64)
    ranks[np.argsort(-counts_V, kind="stable")] = np.arange(len(counts_V))
    return ranks


def alias_table(shares_V: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Walker's table: cell v gives v with probability ``keep[v]``, else ``other[v]``."""
    left = (shares_V * len(shares_V)).tolist()
    keep, other = np.ones(len(left)), np.arange(len(left))
    small = [number for number, share in enumerate(left) if share < 1]
    large = [number for number, share in enumerate(left) if share >= 1]
    while small and large:
        low, high = small.pop(), large[-1]
        keep[low], other[low] = left[low], high
        left[high] -= 1 - left[low]
        if left[high] < 1:
            small.append(large.pop())
    return keep, other


class Noise(nn.Module):
    """A distribution over the vocabulary to draw from. It comes from the corpus, so no checkpoint holds it."""

    def __init__(self, shares_V: NDArray[np.float64]) -> None:
        super().__init__()
        keep, other = alias_table(shares_V)
        for name, array in (("log_shares", np.log(shares_V)), ("keep", keep)):
            self.register_buffer(name, torch.from_numpy(array.astype(np.float32)), persistent=False)
        self.register_buffer("other", torch.from_numpy(other), persistent=False)

    log_shares: torch.Tensor
    keep: torch.Tensor
    other: torch.Tensor

    def draw(self, count: int) -> torch.Tensor:
        """[K] tokens, with replacement, from torch's own random numbers (the loop seeds them by step)."""
        cells = torch.randint(len(self.keep), (count,), device=self.keep.device)
        kept = torch.rand(count, device=self.keep.device) < self.keep[cells]
        return torch.where(kept, cells, self.other[cells])


class _Sampled(TokenOutput):
    def __init__(self, hidden_dim: int, vocab_size: int, tied: bool, noise: Noise, num_noise: int) -> None:
        super().__init__(hidden_dim, vocab_size, tied)
        self.noise = noise
        self.num_noise = num_noise

    def compared(
        self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor, noise_K: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores less what is expected of the noise, of the labels [N] and of the noise [N, K]."""
        chosen = torch.cat((labels_N, noise_K))
        rows = functional.embedding(chosen, self.rows(table_VD))
        shifts = self.bias[chosen] - self.log_expected(self.noise.log_shares[chosen])
        num = len(labels_N)
        true_N = (hidden_ND * rows[:num]).sum(-1) + shifts[:num]
        return true_N, torch.addmm(shifts[num:], hidden_ND, rows[num:].t())

    def log_expected(self, log_shares: torch.Tensor) -> torch.Tensor:
        """log(k q)."""
        return log_shares + math.log(self.num_noise)


class NCEOutput(_Sampled):
    """Noise-contrastive estimation (Gutmann and Hyvarinen 2010; Mnih and Teh 2012): tell a text's token from
    k tokens of a known noise q.

    P(+|w, h) = u / (u + k q(w)) with u = exp(score), the normaliser taken as 1; that is the sigmoid of
    score - log(k q(w)). As k grows the gradient becomes that of maximum likelihood.
    """

    def loss(self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        true_N, noise_NK = self.compared(hidden_ND, labels_N, table_VD, self.noise.draw(self.num_noise))
        return functional.softplus(-true_N).sum() + functional.softplus(noise_NK).sum()


class SampledOutput(_Sampled):
    """Sampled softmax (Jean et al. 2015): the softmax over the label and the distinct ones of k noise tokens,
    each score lowered by the logarithm of its chance to be among them. With ever more noise every token is
    there, with certainty, and it is the full softmax."""

    def log_expected(self, log_shares: torch.Tensor) -> torch.Tensor:
        """log(1 - (1 - q)^k)."""
        return torch.log(-torch.expm1(self.num_noise * torch.log1p(-log_shares.exp())))

    def loss(self, hidden_ND: torch.Tensor, labels_N: torch.Tensor, table_VD: torch.Tensor) -> torch.Tensor:
        noise_K = self.noise.draw(self.num_noise).unique()
        true_N, noise_NK = self.compared(hidden_ND, labels_N, table_VD, noise_K)
        noise_NK = noise_NK.masked_fill(labels_N[:, None] == noise_K, float("-inf"))
        whole = torch.logaddexp(true_N, noise_NK.logsumexp(-1))
        return (whole - true_N).sum()


def log_uniform_shares(words: NDArray[np.int64], num_words: int) -> NDArray[np.float64]:
    """The probability of each word in one draw."""
    return np.log1p(1.0 / (words + 1.0)) / np.log(num_words + 1.0)


def draw_log_uniform(num_samples: int, num_words: int, *key: int) -> tuple[NDArray[np.int64], int]:
    """Different words, in the order in which they came, and how many draws it took; a function of the key."""
    assert num_samples <= num_words
    draws = np.zeros(0, np.int64)
    while True:
        more = uniform(*key, np.arange(len(draws), len(draws) + 2 * num_samples))
        words = np.floor(np.exp(more * np.log(num_words + 1.0))).astype(np.int64) - 1
        draws = np.concatenate((draws, np.clip(words, 0, num_words - 1)))
        _, first = np.unique(draws, return_index=True)
        if len(first) >= num_samples:
            first = np.sort(first)[:num_samples]
            return draws[first], int(first[-1]) + 1


def log_expected_counts(words: NDArray[np.int64], num_words: int, num_draws: int) -> NDArray[np.float64]:
    """log of how often each word is in such a sample: ``1 - (1 - p)^draws``."""
    return np.log(-np.expm1(num_draws * np.log1p(-log_uniform_shares(words, num_words))))
