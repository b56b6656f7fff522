"""ELMo's bidirectional language model: words by their characters, then two readers (Peters et al. 2018).

One reads from left to right, one from right to left, with weights of their own over a shared token layer.

G directions (2), B batch, T words, N distinct words, M characters, P output size of a direction, D = 2P.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.types import Inputs, Layers, note_computing
from firth.models.elmo.config import ElmoConfig
from firth.nn.character_cnn import CharacterCNN
from firth.nn.layers import TokenNetwork, dropout
from firth.nn.lstmp import LSTMP, StackedLSTMP, State
from firth.tokenizers.foreign import Turn


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
        note_computing()
        outputs, after = self.readers(vectors_GTBP, states, live_GTB, fresh_GTB, self.config.dropout_prob)
        last = outputs[-1]
        return dropout(last, self.config.dropout_prob, self.training), after

    def layers(self, vectors_BTP: torch.Tensor, mask_BT: torch.Tensor) -> Layers:
        """Every layer of whole sentences, from their words' vectors (``tokens``, each distinct word once).

        Both directions stand side by side; layer 0 is the token's vector, twice.
        """
        note_computing()
        mask_TB = mask_BT.T
        tokens_TBP = vectors_BTP.transpose(0, 1) * mask_TB[..., None]
        both = torch.stack((tokens_TBP, tokens_TBP.flip(0)))
        live = torch.stack((mask_TB, mask_TB.flip(0)))
        outputs, _ = self.readers(both, None, live)
        found = [torch.cat((tokens_TBP, tokens_TBP), dim=-1)]
        found += [torch.cat((out[0], out[1].flip(0)), dim=-1) * mask_TB[..., None] for out in outputs]
        return Layers(torch.stack(found).transpose(1, 2), mask_BT)


_ADDING = Turn()
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
        """New words and their characters. Several threads may add some: a number is known when its row is there."""
        with _ADDING.lock:
            for word, row in zip(words, characters_NM.astype(np.uint16), strict=True):
                number = len(self.spelt)
                self._lens.append(int((row != self._padding).sum()))
                self.spelt.append(row)
                self.numbers[word] = number

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
