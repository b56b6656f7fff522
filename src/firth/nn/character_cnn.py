"""A word's vector from its characters (Kim et al. 2016, as in Peters et al. 2018): convolutions of several widths,
the largest value over the word, highway layers, a projection.

The convolutions see the padding of a word, too, as in the original: its character has a learned vector. All windows
that hold nothing but padding are alike, so one of them is enough, and the caller may cut the padding down to the
widest convolution (``tokenizers.words.trimmed``) without changing a result.

Scores of words: by a table with a row per word, or by the characters of the word (Jozefowicz et al. 2016, 3.3).
Both give the rows of the words asked for; full and sampled losses are the same for both.

N words or positions, M characters, E size of a character's vector, F filters, D output size, P hidden size, V
words, S sampled words, U words asked for.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from firth.core.types import note_computing
from firth.nn.layers import GradientContext

_CHUNK = 1 << 20  # scores held at a time
_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class _MaxContext(GradientContext, Protocol):
    width: int
    size: int


class _ConvolveMax(torch.autograd.Function):
    """A convolution and its largest value over the word, without the bias: [N, M, E] and [F, width * E] to [N, F].

    A chunk of words at a time goes through one small buffer: the scores of all places of all words would
    be many times larger than everything else, and only the largest ones have a gradient.
    """

    @staticmethod
    def forward(ctx: _MaxContext, chars_NME: torch.Tensor, weight: torch.Tensor, width: int) -> torch.Tensor:
        num_places = chars_NME.shape[1] - width + 1
        size = max(1, min(len(chars_NME), _CHUNK // (num_places * len(weight))))
        buffer = chars_NME.new_empty((size * num_places, len(weight)))
        largest = chars_NME.new_empty((len(chars_NME), len(weight)))
        where = torch.empty_like(largest, dtype=torch.int64)
        for first in range(0, len(chars_NME), size):
            windows = _windows(chars_NME[first : first + size], width)
            scores = torch.mm(windows, weight.T, out=buffer[: len(windows)])
            # pooling over [n, F, places, 1] with channels last is this very layout, and the fastest argmax there is
            scores = scores.view(-1, num_places, 1, len(weight)).permute(0, 3, 1, 2)
            found, index = torch.ops.aten.max_pool2d_with_indices(scores, [num_places, 1])
            largest[first : first + size] = found.flatten(1)
            where[first : first + size] = index.flatten(1)
        ctx.save_for_backward(chars_NME, weight, where)
        ctx.width, ctx.size = width, size
        return largest

    @staticmethod
    @once_differentiable
    def backward(ctx: _MaxContext, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        chars_NME, weight, where = ctx.saved_tensors
        (grad_NF,) = gradients
        num_places = chars_NME.shape[1] - ctx.width + 1
        grad_chars, grad_weight = torch.zeros_like(chars_NME), torch.zeros_like(weight)
        buffer = chars_NME.new_empty((ctx.size, num_places, len(weight)))
        for first in range(0, len(chars_NME), ctx.size):
            some = chars_NME[first : first + ctx.size]
            scores = buffer[: len(some)].zero_()
            scores.scatter_(1, where[first : first + ctx.size, None], grad_NF[first : first + ctx.size, None])
            flat = scores.view(-1, len(weight))
            grad_weight.addmm_(flat.T, _windows(some, ctx.width))
            back = torch.mm(flat, weight).view(len(some), num_places, ctx.width, -1)
            for offset in range(ctx.width):
                grad_chars[first : first + ctx.size, offset : offset + num_places] += back[:, :, offset]
        return grad_chars, grad_weight, None


def _windows(chars_NME: torch.Tensor, width: int) -> torch.Tensor:
    """[N * places, width * E]"""
    return chars_NME.unfold(1, width, 1).transpose(2, 3).reshape(-1, width * chars_NME.shape[-1])


class Highway(nn.Module):
    """``c∘relu(Wx + b) + (1 - c)∘x`` with ``c = σ(Vx + a)`` (Srivastava et al. 2015); at first it carries."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.both = nn.Linear(dim, 2 * dim)  # the gate, then what is let in

    def forward(self, hidden_NF: torch.Tensor) -> torch.Tensor:
        gate, new = self.both(hidden_NF).to(hidden_NF.dtype).chunk(2, dim=-1)  # half as precise under autocast
        return torch.lerp(hidden_NF, torch.relu(new), torch.sigmoid(gate))


class CharacterCNN(nn.Module):
    """Character ids (0 is no character) to word vectors. Without ``project`` the filters are the vector."""

    def __init__(
        self,
        num_ids: int,
        char_dim: int,
        filters: Sequence[tuple[int, int]],
        num_highway: int,
        output_dim: int,
        activation: str = "relu",
        project: bool = True,
    ) -> None:
        super().__init__()
        self.filters = list(filters)
        self.num_filters = sum(number for _, number in self.filters)
        assert project or self.num_filters == output_dim
        self.output_dim = output_dim
        self.activation = _ACTIVATIONS[activation]
        self.embedding = nn.Embedding(num_ids, char_dim, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Linear(width * char_dim, number) for width, number in self.filters)
        self.highways = nn.ModuleList(Highway(self.num_filters) for _ in range(num_highway))
        self.projection = nn.Linear(self.num_filters, output_dim) if project else None
        self.initialize()

    def initialize(self, generator: torch.Generator | None = None) -> None:
        """As in the original: small uniform filters, gates that carry."""
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0, generator=generator)
        with torch.no_grad():
            self.embedding.weight[0] = 0.0
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Linear)
            nn.init.uniform_(convolution.weight, -0.05, 0.05, generator=generator)
            nn.init.zeros_(convolution.bias)
        for highway in self.highways:
            assert isinstance(highway, Highway)
            nn.init.normal_(highway.both.weight, std=math.sqrt(1 / self.num_filters), generator=generator)
            nn.init.zeros_(highway.both.bias)
            nn.init.constant_(highway.both.bias[: self.num_filters], -2.0)
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=math.sqrt(1 / self.num_filters), generator=generator)
            nn.init.zeros_(self.projection.bias)

    def forward(self, ids_NM: torch.Tensor) -> torch.Tensor:
        note_computing()
        chars_NME = self.embedding(ids_NM)
        found = []
        for (width, _), convolution in zip(self.filters, self.convolutions, strict=True):
            assert isinstance(convolution, nn.Linear)
            found.append(_ConvolveMax.apply(chars_NME, convolution.weight, width) + convolution.bias)
        hidden_NF = self.activation(torch.cat(found, dim=-1))
        for highway in self.highways:
            hidden_NF = highway(hidden_NF)
        return hidden_NF if self.projection is None else self.projection(hidden_NF)


class TableSoftmax(nn.Module):
    """A row and a bias per word."""

    def __init__(self, num_words: int, dim: int) -> None:
        super().__init__()
        self.rows = nn.Embedding(num_words, dim)
        self.bias = nn.Parameter(torch.zeros(num_words))
        self.initialize()

    def initialize(self, generator: torch.Generator | None = None) -> None:
        nn.init.normal_(self.rows.weight, std=1 / math.sqrt(self.rows.embedding_dim), generator=generator)
        nn.init.zeros_(self.bias)


class CharacterSoftmax(nn.Module):
    """``z_w = h·CNN(chars_w) + h·M corr_w + b_w``: the correction separates words that are spelt alike and mean
    different things. Without a network of its own it uses the rows that the token layer gives. The bias is not in the
    paper: it lets scores start from word frequencies, as those of a table do."""

    def __init__(self, network: CharacterCNN | None, num_words: int, dim: int, correction_dim: int) -> None:
        super().__init__()
        self.network = network
        self.correction = nn.Embedding(num_words, correction_dim)
        self.widen = nn.Linear(correction_dim, dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(num_words))
        self.initialize()

    def initialize(self, generator: torch.Generator | None = None) -> None:
        if self.network is not None:
            self.network.initialize(generator)
        nn.init.normal_(self.correction.weight, std=0.02, generator=generator)
        nn.init.normal_(self.widen.weight, std=1 / math.sqrt(self.correction.embedding_dim), generator=generator)
        nn.init.zeros_(self.bias)

    def rows(self, words_U: torch.Tensor, spelt_UP: torch.Tensor) -> torch.Tensor:
        """[U, P] from what the network gives for the words."""
        return spelt_UP + self.widen(self.correction(words_U))


def sampled_loss(
    hidden_NP: torch.Tensor,
    rows_UP: torch.Tensor,
    bias_U: torch.Tensor,
    log_expected_U: torch.Tensor,
    targets_N: torch.Tensor,
    samples_S: torch.Tensor,
) -> torch.Tensor:
    """Cross-entropy of each target against the sampled words, [N]: each score less the log of how often such
    a word is sampled (Jean et al. 2015, eq. 8); a target that was also sampled does not count twice. Targets and
    samples are places among the U words."""
    shift_U = bias_U - log_expected_U
    true_N = (hidden_NP * functional.embedding(targets_N, rows_UP)).sum(-1) + shift_U[targets_N]
    noise_NS = torch.addmm(shift_U[samples_S], hidden_NP, rows_UP[samples_S].T)
    noise_NS = noise_NS.masked_fill(targets_N[:, None] == samples_S, float("-inf"))
    return torch.logaddexp(true_N, noise_NS.logsumexp(-1)) - true_N
