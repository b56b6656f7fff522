"""Which layers of a decoder need the causal mask?

    python experiments/masks.py [--steps 400] [--seeds 3] [--out masks.svg]

The text is random: the next token cannot be predicted, and no honest model gets below log V. A model that does has seen the answer. A
Transformer of two layers is trained with the mask in both layers, in the first only, in the second only, and in none.
"""

import math
from statistics import mean, stdev

import torch
from torch import nn

from picture import draw, options, shown

VOCABULARY, LENGTH, WIDTH, HEADS = 16, 12, 64, 4
CASES = {"both": (True, True), "first only": (True, False), "second only": (False, True), "none": (False, False)}


class Decoder(nn.Module):
    def __init__(self, masked: tuple[bool, bool]) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, batch_first=True, norm_first=True) for _ in masked
        )
        self.scores, self.masked = nn.Linear(WIDTH, VOCABULARY), masked

    def forward(self, ids_BT: torch.Tensor) -> torch.Tensor:
        hidden = self.tokens(ids_BT) + self.places.weight[: ids_BT.shape[1]]
        causal = nn.Transformer.generate_square_subsequent_mask(ids_BT.shape[1])
        for layer, masked in zip(self.layers, self.masked, strict=True):
            hidden = layer(hidden, src_mask=causal if masked else None)
        return self.scores(hidden)


def future_seen(model: Decoder, ids_BT: torch.Tensor) -> float:
    """How much the scores at a place change if a later token changes: the largest difference before it."""
    other = ids_BT.clone()
    other[:, -1] = (other[:, -1] + 1) % VOCABULARY
    with torch.no_grad():
        return float((model(ids_BT) - model(other))[:, :-1].abs().max())


def train(masked: tuple[bool, bool], steps: int, seed: int) -> tuple[list[tuple[float, float]], float]:
    """The loss by step, and what the finished model sees of the future."""
    torch.manual_seed(seed)
    model = Decoder(masked)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    curve = []
    for step in range(1, steps + 1):
        ids = torch.randint(VOCABULARY, (64, LENGTH + 1))
        scores = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(steps // 12, 1) == 0:
            curve.append((step, loss.item()))
    return curve, future_seen(model, torch.randint(VOCABULARY, (64, LENGTH)))


def main() -> None:
    arguments = options(__doc__, steps=400).parse_args()
    torch.set_num_threads(1)
    print(
        f"the lowest honest loss is log {VOCABULARY} = {math.log(VOCABULARY):.3f} ({arguments.steps} steps, {arguments.seeds} seeds)"
    )
    print("mask in         last loss          change from a later token")
    lines, spread = {}, {}
    for name, masked in CASES.items():
        found = [train(masked, arguments.steps, seed) for seed in range(arguments.seeds)]
        curves, seen = [curve for curve, _ in found], [one for _, one in found]
        print(f"  {name:<13} {shown([curve[-1][1] for curve in curves]):<18} {shown(seen)}")
        lines[name] = [(points[0][0], mean(y for _, y in points)) for points in zip(*curves, strict=True)]
        spread[name] = [stdev(y for _, y in points) if len(points) > 1 else 0.0 for points in zip(*curves, strict=True)]
    draw(arguments.out, lines, "step", "loss on random text", spread)


if __name__ == "__main__":
    main()
