"""Which positions work, and what happens beyond the trained length?

    python experiments/positions.py [--steps 600] [--seeds 3] [--out positions.svg]

A task that is about positions only: at every place, name the token that stands three places before. One layer of attention is trained on
sequences of 24 tokens and tested on 24 to 96. Without positions attention sees a bag of tokens.
"""

from statistics import mean, stdev

import torch
from torch import Tensor, nn

from picture import draw, options, shown

VOCABULARY, BACK, TRAINED, WIDTH, HEADS = 12, 3, 24, 64, 4
LENGTHS = (24, 32, 48, 96)
KINDS = ("none", "learned, added", "sinusoidal, added", "sinusoidal, concatenated", "rotary")


def waves(length: int, width: int) -> Tensor:
    """Sines and cosines of the position (Vaswani et al. 2017)."""
    angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)
    return torch.cat([angles.sin(), angles.cos()], -1)


def rotated(vectors_BHTD: Tensor) -> Tensor:
    """Pairs of components turned by an angle that grows with the position (Su et al. 2021)."""
    length, width = vectors_BHTD.shape[-2:]
    angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)
    first, second = vectors_BHTD.chunk(2, -1)
    return torch.cat([first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()], -1)


class Reader(nn.Module):
    """Embeddings with positions of one kind, one layer of attention, scores."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.tokens = nn.Embedding(VOCABULARY, WIDTH // 2 if "concatenated" in kind else WIDTH)
        self.places = nn.Parameter(torch.randn(max(LENGTHS), WIDTH) * 0.1)  # those beyond 24 are never trained
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, VOCABULARY)
        )

    def embedded(self, ids_BT: Tensor) -> Tensor:
        hidden, length = self.tokens(ids_BT), ids_BT.shape[1]
        if self.kind == "learned, added":
            return hidden + self.places[:length]
        if self.kind == "sinusoidal, added":
            return hidden + waves(length, WIDTH)
        if self.kind == "sinusoidal, concatenated":
            return torch.cat([hidden, waves(length, WIDTH // 2).expand(len(ids_BT), -1, -1)], -1)
        return hidden

    def forward(self, ids_BT: Tensor) -> Tensor:
        hidden = self.embedded(ids_BT)
        parts = self.project(hidden).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts[0], parts[1], parts[2]
        if self.kind == "rotary":
            queries, keys = rotated(queries), rotated(keys)
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values)
        return self.feed(hidden + self.out(mixed.transpose(1, 2).flatten(2)))


def accuracy(model: Reader, length: int) -> float:
    ids = torch.randint(VOCABULARY, (64, length))
    with torch.no_grad():
        found = model(ids).argmax(-1)
    return float((found[:, BACK:] == ids[:, :-BACK]).float().mean())


def train(kind: str, steps: int, seed: int) -> list[float]:
    """Accuracy at each length."""
    torch.manual_seed(seed)
    model = Reader(kind)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        ids = torch.randint(VOCABULARY, (64, TRAINED))
        scores = model(ids)[:, BACK:]
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, :-BACK].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [accuracy(model, length) for length in LENGTHS]


def main() -> None:
    arguments = options(__doc__, steps=600).parse_args()
    torch.set_num_threads(1)
    print(
        f"the token {BACK} places before; trained on {TRAINED}; chance {1 / VOCABULARY:.3f} ({arguments.steps} steps, {arguments.seeds} seeds)"
    )
    print(f"{'positions':<26}" + "".join(f"length {length:<11}" for length in LENGTHS))
    lines, spread = {}, {}
    for kind in KINDS:
        found = list(zip(*(train(kind, arguments.steps, seed) for seed in range(arguments.seeds)), strict=True))
        print(f"{kind:<26}" + "".join(f"{shown(one, 2):<18}" for one in found))
        lines[kind] = [(length, mean(one)) for length, one in zip(LENGTHS, found, strict=True)]
        spread[kind] = [stdev(one) if len(one) > 1 else 0.0 for one in found]
    draw(arguments.out, lines, "length", "accuracy", spread)


if __name__ == "__main__":
    main()
