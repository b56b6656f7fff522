"""ViT (Dosovitskiy et al. 2021): BERT's blocks with the norm first, over the patches of an image.

B batch, C channels, H height and W width in pixels, U patches, P picked patches, T = U and the class token, D hidden size, K head
size.
"""

import torch
from torch import nn

from firth.models.vit.config import VitConfig
from firth.nn.blocks import Block
from firth.nn.layers import build_norm, dropout
from firth.nn.patches import ImageNetwork, Masked, PatchEmbedding, hide, sinusoids_2d, stretch_positions


class VitNetwork(ImageNetwork):
    """Patches, positions, blocks, a norm. Images may be larger or smaller than those of training: positions are stretched."""

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        self.config = config
        self.stride = self.patch_size = config.patch_size
        self.dim = self.embed_dim = config.hidden_dim
        self.num_layers = config.num_layers
        self.has_class_token = config.pool == "cls"
        self.shows_attention = True
        edge = config.image_size // config.patch_size
        self.embed = PatchEmbedding(config.patch_size, config.num_channels, config.hidden_dim)
        self.class_token = nn.Parameter(torch.zeros(config.hidden_dim)) if self.has_class_token else None
        places = sinusoids_2d(edge, edge, config.hidden_dim)
        if self.has_class_token:
            places = torch.cat((torch.zeros(1, config.hidden_dim), places))
        self.positions = nn.Parameter(places, requires_grad=config.positions == "learned")
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = build_norm(config.norm, config.hidden_dim, config.norm_eps)

    def start(self, generator: torch.Generator) -> None:
        """Positions and the class token; blocks as in trained networks, if asked for."""
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=self.config.init_std, generator=generator)
        if self.config.positions == "learned":
            nn.init.normal_(self.positions, std=self.config.init_std, generator=generator)
        if self.config.start == "mimetic":
            for block in self.blocks:
                assert isinstance(block, Block)
                start_like_trained(block, generator)

    def tokens(self, pixels_BCHW: torch.Tensor, masked: Masked | None = None) -> torch.Tensor:
        """The token layer, [B, T, D]."""
        rows, columns = (size // self.patch_size for size in pixels_BCHW.shape[2:])
        hidden = hide(self.embed(pixels_BCHW), masked)
        first = int(self.has_class_token)
        hidden = hidden + stretch_positions(self.positions[first:], rows, columns)
        if self.class_token is not None:
            start = (self.class_token + self.positions[0]).expand(len(hidden), 1, -1)
            hidden = torch.cat((start, hidden), 1)
        return dropout(hidden, self.config.dropout_prob, self.training)

    def layers(self, pixels_BCHW: torch.Tensor, masked: Masked | None = None) -> list[torch.Tensor]:
        found = [self.tokens(pixels_BCHW, masked)]
        for block in self.blocks:
            found.append(block(found[-1], None, None))
        found[-1] = self.norm(found[-1])
        return found

    def patches(self, pixels_BCHW: torch.Tensor, masked: Masked | None, picks_BP: torch.Tensor | None) -> torch.Tensor:
        first = int(self.has_class_token)
        if picks_BP is None:
            found: torch.Tensor = self.layers(pixels_BCHW, masked)[-1][:, first:]
            return found
        return self._picked(self.tokens(pixels_BCHW, masked), picks_BP + first)

    def summary(self, pixels_BCHW: torch.Tensor) -> torch.Tensor:
        """The class token, for which the last block computes nothing else; or the mean of the patches."""
        if not self.has_class_token:
            return self.layers(pixels_BCHW)[-1].mean(1)
        first_B1 = torch.zeros(len(pixels_BCHW), 1, dtype=torch.long, device=pixels_BCHW.device)
        return self._picked(self.tokens(pixels_BCHW), first_B1)[:, 0]

    def _picked(self, hidden_BTD: torch.Tensor, picks_BP: torch.Tensor) -> torch.Tensor:
        for block in self.blocks[:-1]:
            hidden_BTD = block(hidden_BTD, None, None)
        last = self.blocks[-1]
        assert isinstance(last, Block)
        found: torch.Tensor = self.norm(last.picked(hidden_BTD, picks_BP, None, None, None))
        return found

    def attention(self, pixels_BCHW: torch.Tensor) -> torch.Tensor:
        """Attention weights of every layer and head, [L, B, heads, T, T]."""
        hidden, found = self.tokens(pixels_BCHW), []
        for block in self.blocks:
            assert isinstance(block, Block)
            found.append(block.attention.weights(block.attention_norm(hidden), None, None))
            hidden = block(hidden, None, None)
        return torch.stack(found)


_LIKE = 0.7  # how much queries are like keys, and as much noise
_UNLIKE = 0.4  # how much values, once projected, are the negative of what was read, and as much noise


@torch.no_grad()
def start_like_trained(block: Block, generator: torch.Generator) -> None:
    """Mimetic initialisation (Trockman & Kolter 2023): in trained ViTs queries and keys of a head multiply to about the identity,
    so that a patch looks at what is like it and near it, and values and projection to about its negative. What teaches a ViT most
    from few images."""
    attention = block.attention
    width, size = attention.out.in_features, attention.out.in_features // attention.num_heads
    parts_3DD = attention.qkv.weight.view(3, width, width)

    def noise() -> torch.Tensor:
        return torch.randn(width, width, generator=generator) / width**0.5

    for head in range(attention.num_heads):
        left, spectrum, right = torch.linalg.svd(_LIKE * noise() + _LIKE * torch.eye(width))
        rows = slice(head * size, (head + 1) * size)
        root_K = spectrum[:size].sqrt()
        parts_3DD[0, rows] = (left[:, :size] * root_K).T
        parts_3DD[1, rows] = (right[:size].T * root_K).T
    left, spectrum, right = torch.linalg.svd(_UNLIKE * noise() - _UNLIKE * torch.eye(width))
    parts_3DD[2] = (left * spectrum.sqrt()).T
    attention.out.weight.copy_((spectrum.sqrt()[:, None] * right).T)
