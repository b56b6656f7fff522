"""ELMo's bidirectional language model: words by their characters, then two readers (Peters et al. 2018).

One reads from left to right, one from right to left, with weights of their own over a shared token layer.

G directions (2), B batch, T words, N distinct words, M characters, P output size of a direction, D = 2P.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.types import Batch, Inputs, Layers, Losses
from firth.corpus.format import Split, need_text
from firth.corpus.streams import Located, Spellings, Streams, TokenStream, cut_evenly
from firth.models.elmo.config import BothDirectionsConfig, ElmoConfig
from firth.nn.character_cnn import CharacterCNN, CharacterSoftmax, TableSoftmax, sampled_loss
from firth.nn.layers import TokenNetwork, dropout
from firth.nn.lstmp import LSTMP, StackedLSTMP, State
from firth.nn.softmax import cross_entropy_sum, draw_log_uniform, log_expected_counts, log_unigram


def build_token_layer(config: ElmoConfig) -> CharacterCNN:
    return CharacterCNN(
        config.num_characters,
        config.char_dim,
        config.filters,
        config.num_highway,
        config.projection_dim,
        config.activation,
        config.project,
    )


class Elmo(nn.Module):
    """The token layer and the readers."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = build_token_layer(config)
        self.readers = StackedLSTMP(
            config.num_layers,
            config.projection_dim,
            config.cell_dim,
            config.projection_dim,
            num_directions=2,
            residual=config.residual,
            cell_clip=config.cell_clip,
            output_clip=config.projection_clip,
        )

    def initialize(self, generator: torch.Generator) -> None:
        self.tokens.initialize(generator)
        for layer in self.readers.layers:
            assert isinstance(layer, LSTMP)
            layer.initialize(generator)

    def read(
        self,
        vectors_GTBP: torch.Tensor,
        states: list[State] | None = None,
        live_GTB: torch.Tensor | None = None,
        fresh_GTB: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, list[State]]:
        """For training: each direction reads words of its own in its own order. The last layer's outputs,
        and the states to go on from."""
        outputs, after = self.readers(vectors_GTBP, states, live_GTB, fresh_GTB, self.config.dropout_prob)
        last = outputs[-1]
        return dropout(last, self.config.dropout_prob, self.training), after

    def layers(self, vectors_BTP: torch.Tensor, mask_BT: torch.Tensor) -> Layers:
        """Every layer of whole sentences, from their words' vectors (``tokens``, each distinct word once).

        Both directions stand side by side; layer 0 is the token's vector, twice.
        """
        mask_TB = mask_BT.T
        tokens_TBP = vectors_BTP.transpose(0, 1) * mask_TB[..., None]
        both = torch.stack((tokens_TBP, tokens_TBP.flip(0)))
        live = torch.stack((mask_TB, mask_TB.flip(0)))
        outputs, _ = self.readers(both, None, live)
        found = [torch.cat((tokens_TBP, tokens_TBP), dim=-1)]
        found += [torch.cat((out[0], out[1].flip(0)), dim=-1) * mask_TB[..., None] for out in outputs]
        return Layers(torch.stack(found).transpose(1, 2), mask_BT)


PADDING, BEGIN, END = range(3)  # numbers that are no words


class ElmoWords(TokenNetwork):
    """Layers of rows of word numbers; each distinct word of a batch is spelt and computed once. The table of
    spellings is no weight: numbers mean something within this object only."""

    def __init__(self, elmo: Elmo, marks_3M: NDArray[np.int64]) -> None:
        """``marks_3M``: the characters of padding, and of the words that begin and end a sentence."""
        super().__init__()
        self.elmo = elmo
        self.numbers: dict[str, int] = {}
        self.spelt: list[NDArray[np.uint16]] = list(marks_3M.astype(np.uint16))
        self._lens = [int((row != marks_3M[PADDING, 0]).sum()) for row in marks_3M]
        self._padding = int(marks_3M[PADDING, 0])
        self._widest = max(width for width, _ in elmo.config.filters)

    def missing(self, words: list[str]) -> list[str]:
        return [word for word in dict.fromkeys(words) if word not in self.numbers]

    def add(self, words: list[str], characters_NM: NDArray[np.int64]) -> None:
        """New words and their characters."""
        for word, row in zip(words, characters_NM.astype(np.uint16), strict=True):
            self.numbers[word] = len(self.spelt)
            self.spelt.append(row)
            self._lens.append(int((row != self._padding).sum()))

    def _vectors(self, ids_BT: torch.Tensor) -> torch.Tensor:
        distinct, places_BT = torch.unique(ids_BT, return_inverse=True)
        chosen = distinct.tolist()
        longest = max(self._lens[number] for number in chosen) + self._widest
        rows = np.stack([self.spelt[number][:longest] for number in chosen]).astype(np.int64)
        vectors_NP = self.elmo.tokens(torch.from_numpy(rows).to(ids_BT.device))
        return nn.functional.embedding(places_BT, vectors_NP)

    def forward(self, inputs: Inputs) -> Layers:
        mask_BT = inputs.ids != PADDING if inputs.doc_ids is None else inputs.mask
        return self.elmo.layers(self._vectors(inputs.ids), mask_BT)


_ORDER, _NOISE = 31, 41  # what the random numbers here are for
_TOGETHER = 1024  # words of which the characters are looked at in one go
NAMES = ("forward", "backward")
Ids = NDArray[np.int64]


def read_both_directions(split: Split, sentence: Located, spellings: Spellings) -> tuple[Ids, Ids]:
    """Types that are read and types that come next, both [G, B, T]: the sentence, and the sentence turned around.

    A sentence of n words has n + 1 places: at each there is a word that is read and one that comes next, the borders of
    the sentence among them."""
    place, size = sentence.offset, sentence.len
    last = len(split.tokens) - 1

    def token(index: Ids) -> Ids:
        return np.asarray(split.tokens[np.clip(sentence.start + index, 0, last)], np.int64)

    inputs = np.stack(
        (
            np.where(place == 0, spellings.begin, token(place - 1)),
            np.where(place == 0, spellings.end, token(size - place)),
        )
    )
    targets = np.stack(
        (
            np.where(place == size, spellings.end, token(place)),
            np.where(place == size, spellings.begin, token(size - 1 - place)),
        )
    )
    return inputs, targets


class BothDirections(nn.Module):
    """The objective: windows of text in streams, the softmax, the state that is carried."""

    def __init__(
        self,
        config: BothDirectionsConfig,
        model: ElmoConfig,
        spellings: Spellings,
        num_streams: int,
        network: CharacterCNN | None = None,
    ) -> None:
        """``network`` is the softmax's own, if it has one."""
        super().__init__()
        self.config = config
        self.spellings = spellings
        self.num_streams = num_streams
        self.widest = max(width for width, _ in model.filters)
        size = spellings.num_known
        self.softmax: TableSoftmax | CharacterSoftmax = (
            TableSoftmax(size, model.projection_dim)
            if config.softmax == "table"
            else CharacterSoftmax(network, size, model.projection_dim, config.correction_dim)
        )
        self.num_samples = min(config.num_samples, size - 1)
        self.weights = dict.fromkeys(NAMES, 0.5)
        self.num_layers = model.num_layers
        for layer in range(model.num_layers):
            self.register_buffer(f"hidden_{layer}", torch.zeros(2, num_streams, model.projection_dim))
            self.register_buffer(f"cell_{layer}", torch.zeros(2, num_streams, model.cell_dim))
        self._heldout_states: list[State] | None = None
        self._all_rows: torch.Tensor | None = None

    def start(self, generator: torch.Generator, counts: Ids, num_sentences: int) -> None:
        """``counts`` of the corpus's types. Scores begin at how often words occur, which a language model would learn
        first otherwise, in hundreds of steps."""
        self.softmax.initialize(generator)
        known_V = np.zeros(self.spellings.num_known, np.int64)
        np.add.at(known_V, self.spellings.known(np.arange(len(counts))), counts)
        known_V[:2] = num_sentences  # the marks at both ends of each
        with torch.no_grad():
            self.softmax.bias.copy_(log_unigram(known_V))

    # -- batches

    def rows(self, split: Split, seed: int) -> Streams:
        text = TokenStream(split, (self.spellings.end,), "sentence", shuffle_key=(seed, _ORDER))
        need_text(split, len(text))
        return Streams(text, cut_evenly(len(text), self.num_streams), self.config.seq_len)

    def batch(self, split: Split, rows: Streams, seed: int, first: int, count: int) -> Batch:
        """Window ``first / count`` of every stream; a pure function of its arguments."""
        assert count == self.num_streams
        number = first // count
        window = rows.window(number)
        sentence = rows.text.locate(window.positions, window.epoch)
        inputs, targets = (
            np.ascontiguousarray(part.transpose(0, 2, 1))
            for part in read_both_directions(split, sentence, self.spellings)
        )
        live = np.ascontiguousarray(window.inside.T)
        distinct, places = self.distinct(inputs)
        goals = self.spellings.known(targets)
        arrays: dict[str, NDArray[Any]] = {"inputs": places, "targets": goals, "num_inputs": np.asarray(len(distinct))}
        if self.num_samples:
            distinct = self._add_candidates(arrays, distinct, goals, (seed, _NOISE, number))
        arrays["characters"] = self.spell(distinct)
        if not live.all():
            arrays["live"] = np.stack((live, live))
        fresh = (sentence.offset == 0).T if self.config.reset_between_sentences else np.zeros_like(live)
        fresh[0] |= window.number == 0
        if fresh.any():
            arrays["fresh"] = np.stack((fresh, fresh))
        size = int(live.sum())
        return Batch(arrays, dict.fromkeys(NAMES, size), size)

    def distinct(self, inputs: Ids) -> tuple[Ids, Ids]:
        """The distinct types of a batch, and where each is among them."""
        found, places = np.unique(inputs, return_inverse=True)
        return found, places.reshape(inputs.shape)

    def spell(self, types: Ids) -> Ids:
        """Their characters."""
        return self.spellings.characters(types, self.widest)

    def _add_candidates(self, arrays: dict[str, NDArray[Any]], distinct: Ids, goals: Ids, key: tuple[int, ...]) -> Ids:
        """The words that a sampled softmax compares: the targets of the batch and the noise, each once. Returns
        the words to spell: the inputs first, then candidates that are not among them."""
        size = self.spellings.num_known
        noise, num_draws = draw_log_uniform(self.num_samples, size, *key)
        candidates = np.unique(np.concatenate((goals.reshape(-1), noise)))
        arrays["candidates"] = candidates
        arrays["target_places"] = np.searchsorted(candidates, goals)
        arrays["samples"] = np.searchsorted(candidates, noise)
        arrays["log_expected"] = log_expected_counts(candidates, size, num_draws).astype(np.float32)
        if self.config.softmax == "table":
            return distinct
        types = self.spellings.types(candidates)
        at = np.minimum(np.searchsorted(distinct, types), len(distinct) - 1)
        known = distinct[at] == types
        arrays["spelt"] = np.where(known, at, len(distinct) + np.cumsum(~known) - 1)
        return np.concatenate((distinct, types[~known]))

    # -- the state

    def _states(self) -> list[State] | None:
        if not self.training:
            return self._heldout_states
        return [(getattr(self, f"hidden_{layer}"), getattr(self, f"cell_{layer}")) for layer in range(self.num_layers)]

    def _keep(self, states: list[State]) -> None:
        if not self.training:
            self._heldout_states = states
            return
        for layer, (hidden, cell) in enumerate(states):
            getattr(self, f"hidden_{layer}").copy_(hidden.detach())
            getattr(self, f"cell_{layer}").copy_(cell.detach())

    def train(self, mode: bool = True) -> "BothDirections":
        """Between training and testing, what was kept for a test is forgotten."""
        self._heldout_states, self._all_rows = None, None
        super().train(mode)
        return self

    # -- the loss

    def loss(self, model: Elmo, batch: Batch) -> Losses:
        """Sums of cross-entropy in both directions; a test is always over the whole vocabulary."""
        tensors = batch.tensors
        characters = tensors["characters"]
        if not self._shared:
            characters = characters[: int(batch.arrays["num_inputs"])]
        vectors_UP = model.tokens(characters)
        inputs_GTBP = functional.embedding(tensors["inputs"], vectors_UP)
        live = tensors.get("live")
        outputs_GTBP, states = model.read(inputs_GTBP, self._states(), live, tensors.get("fresh"))
        self._keep(states)
        hidden_GNP = outputs_GTBP.flatten(1, 2)
        if self.training and self.num_samples:
            sums = self._against_samples(tensors, hidden_GNP, vectors_UP)
        else:
            sums = self._over_all(model, hidden_GNP, tensors["targets"].flatten(1), live)
        return Losses(dict(zip(NAMES, sums, strict=True)))

    @property
    def _shared(self) -> bool:
        """The softmax takes its rows from the token layer: both are computed in one go."""
        return isinstance(self.softmax, CharacterSoftmax) and self.softmax.network is None

    def _against_samples(
        self, tensors: Mapping[str, torch.Tensor], hidden_GNP: torch.Tensor, vectors_UP: torch.Tensor
    ) -> list[torch.Tensor]:
        """The sum of each direction over the sampled words."""
        candidates = tensors["candidates"]
        if isinstance(self.softmax, TableSoftmax):
            rows_UP = self.softmax.rows(candidates)
        elif self.softmax.network is None:
            rows_UP = self.softmax.rows(candidates, functional.embedding(tensors["spelt"], vectors_UP))
        else:
            rows_UP = self.softmax.rows(candidates, self.softmax.network(tensors["characters"][tensors["spelt"]]))
        targets, samples = tensors["target_places"].flatten(), tensors["samples"]
        bias_U, log_expected_U = self.softmax.bias[candidates], tensors["log_expected"]
        each = sampled_loss(hidden_GNP.flatten(0, 1), rows_UP, bias_U, log_expected_U, targets, samples)
        if "live" in tensors:
            each = each * tensors["live"].flatten()
        return list(each.view(2, -1).sum(1))

    def _over_all(
        self, model: Elmo, hidden_GNP: torch.Tensor, targets_GN: torch.Tensor, live: torch.Tensor | None
    ) -> list[torch.Tensor]:
        """The sum of each direction over the whole vocabulary. The rows of a test are made once."""
        rows_VP = self._all_rows if self._all_rows is not None else self.all_rows(model.tokens)
        if not self.training:
            self._all_rows = rows_VP.detach()
        sums = []
        for number in range(2):
            hidden, targets = hidden_GNP[number], targets_GN[number]
            if live is not None:
                hidden, targets = hidden[live[number].flatten()], targets[live[number].flatten()]
            sums.append(cross_entropy_sum(hidden, rows_VP, self.softmax.bias, targets))
        return sums

    def all_rows(self, tokens: nn.Module) -> torch.Tensor:
        """The rows of all words, [V, P]."""
        if isinstance(self.softmax, TableSoftmax):
            return self.softmax.rows.weight
        words = np.arange(self.spellings.num_known)
        network = self.softmax.network or tokens
        device = self.softmax.correction.weight.device
        found = []
        for start in range(0, len(words), _TOGETHER):
            some = words[start : start + _TOGETHER]
            characters = torch.from_numpy(self.spell(self.spellings.types(some))).to(device)
            found.append(self.softmax.rows(torch.from_numpy(some).to(device), network(characters)))
        return torch.cat(found)
