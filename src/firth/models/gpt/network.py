"""The decoder of GPT-2 and of Llama's shape: ids to layers, each token seeing itself and those before it (Radford et al. 2019).

Rows may be packed: several short documents in one row, distinguished by ``doc_ids`` (0 is padding at the
end, equal numbers see each other), each with positions of its own.

B batch, T tokens, N rows of decoding, D hidden size, L layers, V vocabulary.
"""

import torch
from torch import nn
from torch.nn import functional

from firth.core.types import Inputs, Layers
from firth.models.gpt.config import DecoderConfig
from firth.nn.attention import Angles, rotary_angles, visible
from firth.nn.blocks import Block
from firth.nn.cache import KeyValues
from firth.nn.grouped import GroupedBlock, rope_frequencies
from firth.nn.layers import TokenNetwork, build_norm, dropout


class Decoder(TokenNetwork):
    """``num_layers`` blocks over token and position vectors (or rotary positions), and a norm; the token table is the head
    too, unless that is untied. Segments mean nothing to it."""

    frequencies: torch.Tensor

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_dim)
        rotary = config.positions == "rotary"
        self.positions = None if rotary else nn.Embedding(config.max_positions, config.hidden_dim)
        if rotary:
            frequencies = rope_frequencies(config.head_size, config.rotary_base, config.rotary_scaling)
            self.register_buffer("frequencies", frequencies, persistent=False)
        self.blocks = nn.ModuleList(self._block() for _ in range(config.num_layers))
        self.final_norm = build_norm(config.norm, config.hidden_dim, config.norm_eps)
        self.output = None if config.tied_output else nn.Linear(config.hidden_dim, config.vocab_size, bias=False)

    def _block(self) -> Block:
        config = self.config
        if config.positions == "learned":
            return Block(config)
        return GroupedBlock(config, config.head_size, config.kv_heads, config.qkv_bias or config.bias, config.qk_norm)

    @property
    def head_VD(self) -> torch.Tensor:
        """The output table."""
        return self.tokens.weight if self.output is None else self.output.weight

    def _angles(self, positions_BT: torch.Tensor | None, num_tokens: int, start: int = 0) -> Angles | None:
        """Of rotary positions; without positions they count from ``start`` in every row."""
        if self.positions is not None:
            return None
        if positions_BT is None:
            positions_BT = torch.arange(start, start + num_tokens, device=self.frequencies.device)[None]
        return rotary_angles(positions_BT, self.config.head_size, frequencies=self.frequencies)

    @torch.no_grad()
    def shrink_residuals(self) -> None:
        """Before training: what each block adds is made smaller by the root of how many add (2.3 of the paper)."""
        for name, weight in self.named_parameters():
            if name.endswith(("attention.out.weight", "ffn.outer.weight")):
                weight.div_((2 * self.config.num_layers) ** 0.5)

    def embed(self, ids_BT: torch.Tensor, positions_BT: torch.Tensor | None, start: int = 0) -> torch.Tensor:
        """Without positions they count from ``start`` in every row."""
        hidden = self.tokens(ids_BT)
        if self.positions is not None:
            where = self.positions.weight[start : start + ids_BT.shape[1]]
            hidden = hidden + (where if positions_BT is None else self.positions(positions_BT))
        return dropout(hidden, self.config.dropout_prob, self.training)

    def _mask(self, doc_ids_BT: torch.Tensor | None) -> torch.Tensor | None:
        """[B, 1, T, T] where rows hold several documents; None where order alone decides. Padding
        comes last, so nothing that counts ever sees it."""
        if doc_ids_BT is None or not bool((doc_ids_BT > 1).any()):
            return None
        return (doc_ids_BT[:, :, None] == doc_ids_BT[:, None, :]).tril()[:, None]

    def forward(self, inputs: Inputs) -> Layers:
        """Every layer, for features, probes and mixes."""
        mask = self._mask(inputs.doc_ids)
        angles = self._angles(inputs.positions, inputs.ids.shape[1])
        hidden = [self.embed(inputs.ids, inputs.positions)]
        for block in self.blocks:
            hidden.append(block(hidden[-1], mask, angles, True))
        hidden[-1] = self.final_norm(hidden[-1])
        return Layers(torch.stack(hidden), inputs.mask)

    def last(self, inputs: Inputs) -> torch.Tensor:
        """The last layer only, [B, T, D]."""
        mask = self._mask(inputs.doc_ids)
        angles = self._angles(inputs.positions, inputs.ids.shape[1])
        hidden = self.embed(inputs.ids, inputs.positions)
        for block in self.blocks:
            hidden = block(hidden, mask, angles, True)
        return self.final_norm(hidden)

    def attention(self, inputs: Inputs) -> torch.Tensor:
        """Attention weights of every layer and head, [L, B, H, T, T]; none looks at what comes after it."""
        mask = self._mask(inputs.doc_ids)
        shown = visible(inputs.ids.shape[1], causal=True, device=inputs.ids.device) if mask is None else mask
        hidden = self.embed(inputs.ids, inputs.positions)
        angles = self._angles(inputs.positions, inputs.ids.shape[1])
        found = []
        for block in self.blocks:
            assert isinstance(block, Block)
            read = block.attention_norm(hidden) if block.norm_first else hidden
            found.append(block.attention.weights(read, shown, angles))
            hidden = block(hidden, mask, angles, True)
        return torch.stack(found)

    def begin(self, num_rows: int) -> KeyValues:
        """A cache in which nothing was read."""
        config = self.config
        return KeyValues.empty(config.num_layers, num_rows, config.kv_heads, config.head_size, self.tokens.weight)

    def advance(self, ids_NT: torch.Tensor, cache: KeyValues) -> torch.Tensor:
        """The last layer [N, T, D] of tokens that follow those in the cache, which then holds them too."""
        hidden = self.embed(ids_NT, None, cache.at)
        angles = self._angles(None, ids_NT.shape[1], cache.at)
        mask = cache.open(ids_NT.shape[1])
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            hidden = block.cached(hidden, cache, layer, mask, angles)
        return self.final_norm(hidden)

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        """[..., V], before any normalisation."""
        return functional.linear(hidden, self.head_VD)
