"""The network of a task: representation, mix of layers, body, and a head that is as small as possible.

The representation enters before the body, after it, or in both places, each with a mix of its own (Peters et al. 2018,
§3.3: ``[x; ELMo]`` below the task's recurrent network, ``[h; ELMo]`` above it), or with all layers side by side (Devlin et al.
2019, §5.3); extra word vectors may be concatenated below.

B rows, N examples, T tokens, D width, E width of extra word vectors, K outputs, L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from firth.core.errors import FirthError
from firth.core.registry import precision_context
from firth.core.run import LayerMix
from firth.core.types import Inputs, Layers, TextReader
from firth.models.shared.encoder import Pooler
from firth.nn.crf import CRF
from firth.nn.layers import ScalarMix, dropout, pool_owned, pool_tokens
from firth.nn.lookup import WithExtraVectors
from firth.tasks.config import TaskConfig
from firth.tasks.tag_schemes import transitions

if TYPE_CHECKING:
    from firth.tasks.linear import Head

Tensors: TypeAlias = Mapping[str, torch.Tensor]


PLACES = {"input": ("input",), "output": ("output",), "both": ("input", "output")}
_FIXED = "reader_module.extra_vectors."  # frozen word vectors


class TaskNetwork(nn.Module):
    """What all tasks share: the vectors of a batch per token and per text."""

    def __init__(self, config: TaskConfig, reader: TextReader, num_outputs: int, compares: bool = False) -> None:
        super().__init__()
        self.config = config
        self.reader_module = reader.module
        self.reader = reader
        if config.place != "input" and config.body == "none":
            raise FirthError(f"place={config.place} is behind a body, and there is none: set body=bilstm with it")
        places = PLACES[config.place]
        self.mixes = nn.ModuleDict(
            {place: ScalarMix(reader.num_layers, config.mix_norm, config.mix_l2) for place in places}
            if config.layers == "mix"
            else {}
        )
        side_by_side = config.layers == "all"
        token_layer = "input" not in places and not reader.extra_dim  # the body must read something
        self.all_layers = bool(self.mixes) or side_by_side or token_layer
        width = reader.dim * (reader.num_layers if side_by_side else 1)
        below = width if "input" in places else reader.dim if token_layer else 0
        self.below_dim = reader.extra_dim + below
        below_dim = 2 * self.below_dim + 1 if compares else self.below_dim  # what is like it in the other text
        self.body = (
            nn.LSTM(below_dim, config.body_dim, batch_first=True, bidirectional=True)
            if config.body == "bilstm"
            else None
        )
        above_dim = 2 * config.body_dim + (width if "output" in places else 0)
        self.dim = above_dim if self.body is not None else below_dim
        self.pool = self._choose_pool()
        self.pooler: nn.Module | None = None
        if config.task in ("classify", "score") and self.pool == "cls" and self.body is None:
            self.pooler = reader.pooler or Pooler(self.dim, reader.pooler_activation)
        self.out = nn.Linear(self.dim, num_outputs)

    def train(self, mode: bool = True) -> TaskNetwork:
        """A frozen representation is read as it will be used: without dropout."""
        super().train(mode)
        if not self.config.tune:
            self.reader_module.eval()
        return self

    def _choose_pool(self) -> str:
        if self.config.pool != "auto":
            return self.config.pool
        if self.body is not None:
            return "max"
        summarised = self.config.tune and self.config.layers == "last" and not self.reader.extra_dim
        return self.reader.summary if summarised else "mean"

    def join_pairs_apart(self, num_outputs: int) -> None:
        """Two texts read apart are compared as u, v, |u - v|, u * v (Conneau et al. 2017), and if so set by the cosine of each
        layer."""
        self.out = nn.Linear(4 * self.dim + self.num_cosines, num_outputs)

    @property
    def num_cosines(self) -> int:
        """One for each layer of the representation that is read."""
        if not self.config.pair_cosines:
            return 0
        return self.reader.num_layers if self.config.layers == "all" and self.body is None else 1

    def start(self, generator: torch.Generator) -> None:
        """Small random weights for what is new."""
        for part in self._new_parts():
            if isinstance(part, nn.LSTM):
                bound = self.config.body_dim**-0.5
                for parameter in part.parameters():
                    nn.init.uniform_(parameter, -bound, bound, generator=generator)
            for module in part.modules() if part is not None else ():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=0.02, generator=generator)
                    nn.init.zeros_(module.bias)

    def set_head(self, head: Head) -> None:
        """The last layer as given."""
        with torch.no_grad():
            self.out.weight.copy_(torch.from_numpy(head.weights))
            self.out.bias.copy_(torch.from_numpy(head.bias))

    def _new_parts(self) -> list[nn.Module | None]:
        return [self.out, self.body] + ([self.pooler] if self.reader.pooler is None else [])

    def keeps(self, name: str) -> bool:
        """Whether a weight of that name is written with the task: not what stays as it was."""
        return not name.startswith("reader_module." if not self.config.tune else _FIXED)

    def penalty(self) -> torch.Tensor | float:
        """λ |w|² of all mixes, to be added to the mean loss."""
        return sum(mix.penalty() for mix in self.mixes.values() if isinstance(mix, ScalarMix) and mix.l2)

    def learned_mixes(self) -> dict[str, LayerMix]:
        """By place: the share of each layer, and γ."""
        return {
            place: LayerMix(weights=tuple(mix.weights()), gamma=float(mix.gamma.detach()))
            for place, mix in self.mixes.items()
            if isinstance(mix, ScalarMix)
        }

    # -- token vectors

    def tokens(self, tensors: Tensors) -> torch.Tensor:
        """One vector per token, [B, T, D]."""
        layers = self._read(tensors)
        return self._above(self._below(tensors, layers), tensors, layers)

    def _below(self, tensors: Tensors, layers: Layers) -> torch.Tensor:
        """What the body reads."""
        below = [self._extra(tensors)] if self.reader.extra_dim else []
        if "input" in PLACES[self.config.place]:
            below.append(self._at("input", layers))
        return torch.cat(below, -1) if below else layers.hidden[0]

    def _above(self, hidden: torch.Tensor, tensors: Tensors, layers: Layers) -> torch.Tensor:
        """What the body says."""
        if self.body is None:
            return hidden
        lens = tensors["doc_ids"].sum(1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            self._dropped(hidden), lens.clamp(min=1), batch_first=True, enforce_sorted=False
        )
        out, _ = self.body(packed)
        found, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=hidden.shape[1])
        return torch.cat((found, self._at("output", layers)), -1) if "output" in PLACES[self.config.place] else found

    def _at(self, place: str, layers: Layers) -> torch.Tensor:
        if self.config.layers == "all":
            return torch.cat(tuple(layers.hidden), -1)
        if place not in self.mixes:
            return layers.last
        mixed: torch.Tensor = self.mixes[place](layers.hidden, layers.mask)
        return mixed

    def _extra(self, tensors: Tensors) -> torch.Tensor:
        assert isinstance(self.reader_module, WithExtraVectors)
        return self.reader_module.vectors(tensors["ids"])

    def _read(self, tensors: Tensors) -> Layers:
        """All layers where they are needed, else the last alone."""
        if "features" in tensors:  # computed once, kept by the trainer: [L, B, T, D]
            return Layers(tensors["features"], tensors["doc_ids"] > 0)
        return self.layers(Inputs.of(tensors))

    def layers(self, inputs: Inputs) -> Layers:
        """What the representation says that the task uses: of all its layers, or of the last alone."""
        with self._reading():
            if self.all_layers:
                layers = self.reader_module(inputs)
                return Layers(_single(layers.hidden), layers.mask)
            return Layers(_single(self.reader_module.last(inputs)[None]), inputs.mask)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Gradients of the representation where it is tuned; while it learns, its products in the training's precision. The head and
        predictions are float32."""
        learns = self.config.tune and torch.is_grad_enabled()
        precision = self.config.precision if learns and self.training else "float32"
        with torch.set_grad_enabled(learns), precision_context(precision, self.config.device):
            yield

    def _dropped(self, hidden: torch.Tensor) -> torch.Tensor:
        return dropout(hidden, self.config.dropout_prob, self.training)

    def token_scores(self, tensors: Tensors) -> torch.Tensor:
        """[B, T, K]."""
        limit = self.config.max_batch_tokens
        return by_parts(lambda part: self.out(self._dropped(self.tokens(part))), tensors, limit)

    # -- one vector per text

    def texts(self, tensors: Tensors, num_texts: int, window_pool: str) -> torch.Tensor:
        """[N, D or 4D and the cosines]: rows pooled, windows of one text put together, pairs compared."""
        pooled_BD = by_parts(self._pooled, tensors, self.config.max_batch_tokens)
        owner_B, part_B = tensors["owner"], tensors["part"]
        if len(pooled_BD) == num_texts:
            return pooled_BD  # one row per text, in order
        first = pool_owned(pooled_BD[part_B == 0], owner_B[part_B == 0], num_texts, window_pool)
        if not bool((part_B == 1).any()):
            return first
        second = pool_owned(pooled_BD[part_B == 1], owner_B[part_B == 1], num_texts, window_pool)
        compared = [first, second, (first - second).abs(), first * second]
        if self.num_cosines:
            by_layer = (num_texts, self.num_cosines, -1)
            compared.append(functional.cosine_similarity(first.reshape(by_layer), second.reshape(by_layer), dim=-1))
        return torch.cat(compared, 1)

    def _pooled(self, tensors: Tensors) -> torch.Tensor:
        if self.pool == "cls":
            first = self._first(tensors)
            summary: torch.Tensor = first if self.pooler is None else self.pooler(first)
            return summary
        return pool_tokens(self.tokens(tensors), tensors["doc_ids"] > 0, self.pool)

    def _first(self, tensors: Tensors) -> torch.Tensor:
        """The first token of the last layer; where the model can, nothing else of that layer is computed."""
        if self.all_layers or self.reader.extra_dim or self.body is not None or "features" in tensors:
            return self.tokens(tensors)[:, 0]
        picks = torch.zeros(len(tensors["ids"]), 1, dtype=torch.long, device=tensors["ids"].device)
        with self._reading():
            return _single(self.reader_module.picked(Inputs.of(tensors), picks)[:, 0])

    def text_scores(self, tensors: Tensors, num_texts: int) -> torch.Tensor:
        """[N, K]."""
        scores: torch.Tensor = self.out(self._dropped(self.texts(tensors, num_texts, self.config.window_pool)))
        return scores


def _single(hidden: torch.Tensor) -> torch.Tensor:
    """Halves in single precision; double precision stays."""
    return hidden.float() if hidden.dtype in (torch.bfloat16, torch.float16) else hidden


def by_parts(
    compute: Callable[[Tensors], torch.Tensor], tensors: Tensors, max_tokens: int, together: int = 1
) -> torch.Tensor:
    """The same in parts of a bounded number of tokens: a long text has many windows, and all belong to one example.
    So many rows stay ``together``.

    Where something is learned, what is in a part is computed once more on the way back instead of being kept (Chen et
    al. 2016): the gradient is that of the whole, in the memory of one part.
    """
    num_rows, longest = tensors["doc_ids"].shape
    size = together * max(1, max_tokens // (together * longest))
    if num_rows <= size:
        return compute(tensors)
    parts = [
        {
            name: tensor[:, start : start + size] if name == "features" else tensor[start : start + size]
            for name, tensor in tensors.items()
            if name in ("ids", "doc_ids", "segments", "shared", "features")
        }
        for start in range(0, num_rows, size)
    ]
    if not torch.is_grad_enabled():
        return torch.cat([compute(part) for part in parts])
    found: list[torch.Tensor] = [checkpoint(compute, part, use_reentrant=False) for part in parts]
    return torch.cat(found)


class TagNetwork(TaskNetwork):
    """Scores a tag; with a CRF also what one tag says about the next."""

    def __init__(self, config: TaskConfig, reader: TextReader, num_outputs: int) -> None:
        super().__init__(config, reader, num_outputs)
        self.crf: CRF | None = None
        if config.crf:
            rules = transitions(config.labels, config.scheme) if config.scheme else None
            self.crf = CRF(num_outputs, *(torch.from_numpy(rule) for rule in rules)) if rules else CRF(num_outputs)


_ALIGN_DIM = 128


class ComparingNetwork(TaskNetwork):
    """Rows come in twos: a question and a window of its passage."""

    def __init__(self, config: TaskConfig, reader: TextReader) -> None:
        super().__init__(config, reader, 2, compares=True)
        self.align = nn.Linear(self.below_dim, _ALIGN_DIM)
        self.asked = nn.Linear(self.dim, 1)  # how much a word of the question counts
        self.out = nn.Linear(self.dim, 2 * self.dim)  # the question as the starts and ends it looks for
        self.nothing = nn.Linear(2 * self.dim, 2)

    def _new_parts(self) -> list[nn.Module | None]:
        return [*super()._new_parts(), self.align, self.asked, self.nothing]

    def token_scores(self, tensors: Tensors) -> torch.Tensor:
        """Start and end, [W, 1 + T, 2]; the first column is that of no answer."""
        return by_parts(self._compared, tensors, self.config.max_batch_tokens, together=2)

    def _compared(self, tensors: Tensors) -> torch.Tensor:
        layers, mask = self._read(tensors), tensors["doc_ids"] > 0
        hidden = self._above(self._beside_each(self._below(tensors, layers), tensors, mask), tensors, layers)
        hidden = self._dropped(hidden)
        asked, passage = hidden[0::2], hidden[1::2]
        shares = _hide(self.asked(asked).squeeze(-1), mask[0::2]).softmax(-1)
        question_WD = torch.einsum("wt,wtd->wd", shares, asked)
        sought = self.out(question_WD).unflatten(-1, (2, self.dim))
        scores = torch.einsum("wtd,wkd->wtk", passage, sought)
        nothing = self.nothing(torch.cat((question_WD, pool_tokens(passage, mask[1::2], "max")), -1))
        return torch.cat((nothing[:, None], scores), 1)

    def _beside_each(self, below: torch.Tensor, tensors: Tensors, mask: torch.Tensor) -> torch.Tensor:
        """[2W, T, 2D + 1]: every word, what is like it in the other text, and whether it is there itself."""
        longest = max(1, int(mask[0::2].sum(1).max()))
        keys = self.align(self._dropped(below)).relu()
        alike_WQT = keys[0::2, :longest] @ keys[1::2].transpose(1, 2)
        for_passage = _hide(alike_WQT.transpose(1, 2), mask[0::2, None, :longest]).softmax(-1) @ below[0::2, :longest]
        for_question = _hide(alike_WQT, mask[1::2, None]).softmax(-1) @ below[1::2]
        for_question = functional.pad(for_question, (0, 0, 0, below.shape[1] - longest))
        others = torch.stack((for_question, for_passage), 1).flatten(0, 1)
        return torch.cat((below, others, tensors["shared"][:, :, None].to(below.dtype)), -1)


def _hide(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Padding never wins; a finite number, so that a row of padding alone does no harm."""
    return values.masked_fill(~mask, torch.finfo(values.dtype).min)
