"""Norm after the sum or before the sub-layer, and what does the warm-up have to do with it?

    python experiments/norms.py [--steps 150] [--seeds 3] [--out norms.svg]

Post-norm is LayerNorm(x + f(x)), pre-norm x + f(LayerNorm(x)). Transformers of width 32 with 2 and 12 layers learn to name the token three places before, at a learning
rate of 0.003, with and without a warm-up over the first third of the training. Before the training the gradient of the first and of the last layer is measured.
"""

from statistics import mean, stdev

import torch
from torch import Tensor, nn

from picture import draw, options, shown

VOCABULARY, LENGTH, WIDTH, BACK, RATE = 12, 16, 32, 3, 3e-3
DEPTHS = (2, 12)


class Reader(nn.Module):
    """Embeddings with learned positions, layers, and scores; pre-norm has one more norm at the end."""

    def __init__(self, depth: int, before: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True, norm_first=before)
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(WIDTH) if before else nn.Identity()
        self.scores = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids_BT: Tensor) -> Tensor:
        hidden = self.tokens(ids_BT) + self.places
        for layer in self.layers:
            hidden = layer(hidden)
        return self.scores(self.norm(hidden))


def loss_of(model: Reader) -> Tensor:
    ids = torch.randint(VOCABULARY, (16, LENGTH))
    return nn.functional.cross_entropy(model(ids)[:, BACK:].flatten(0, 1), ids[:, :-BACK].flatten())


def gradient(model: Reader, layer: int) -> float:
    """The norm of the gradient of the feed-forward matrix of a layer, at initial weights."""
    model.zero_grad()
    loss_of(model).backward()
    return float(model.layers[layer].linear2.weight.grad.norm())


def train(depth: int, before: bool, warmup: bool, steps: int, seed: int) -> tuple[float, float, float]:
    """The mean loss of the last tenth of the steps, and the initial gradients of the first and last layer."""
    torch.manual_seed(seed)
    model = Reader(depth, before)
    first, last = gradient(model, 0), gradient(model, -1)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    losses = []
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = RATE * (min(1.0, 3 * step / steps) if warmup else 1.0)
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return mean(losses[-max(steps // 10, 1) :]), first, last


def main() -> None:
    arguments = options(__doc__, steps=150).parse_args()
    torch.set_num_threads(1)
    print(f"chance is a loss of log {VOCABULARY} = 2.485 ({arguments.steps} steps, {arguments.seeds} seeds)")
    print("norm    warm-up   layers   last loss        initial gradient: first layer    last layer")
    lines: dict[str, list[tuple[float, float]]] = {}
    spread: dict[str, list[float]] = {}
    for before in (False, True):
        for warmup in (False, True):
            name = f"{'pre' if before else 'post'}-norm, {'with' if warmup else 'no'} warm-up"
            lines[name], spread[name] = [], []
            for depth in DEPTHS:
                found = [train(depth, before, warmup, arguments.steps, seed) for seed in range(arguments.seeds)]
                losses, first, last = ([one[place] for one in found] for place in range(3))
                print(
                    f"{'pre' if before else 'post':<8}{'yes' if warmup else 'no':<10}{depth:<9}{shown(losses, 2):<17}"
                    f"{shown(first):<33}{shown(last)}",
                    flush=True,
                )
                lines[name].append((depth, mean(losses)))
                spread[name].append(stdev(losses) if len(losses) > 1 else 0.0)
    draw(arguments.out, lines, "layers", "loss at the end", spread)


if __name__ == "__main__":
    main()
