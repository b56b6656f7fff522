"""One head or many, at equal width?

    python experiments/heads.py [--steps 400] [--seeds 3] [--out heads.svg]

A task in which a token has to look at several places and to know which is which: at every place, name the tokens that stand one, two, three and four
places before. One layer of attention of width 64 with rotary positions, split into 1, 2, 4 or 8 heads: the parameters are the same.
"""

from statistics import mean, stdev

import torch
from torch import Tensor, nn

from picture import draw, options, shown
from positions import rotated

VOCABULARY, BACK, LENGTH, WIDTH = 12, 4, 24, 64
HEADS = (1, 2, 4, 8)


class Reader(nn.Module):
    """Tokens, one layer of attention, and one output per place before."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads, self.tokens = heads, nn.Embedding(VOCABULARY, WIDTH)
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, BACK * VOCABULARY)
        )

    def forward(self, ids_BT: Tensor) -> Tensor:
        hidden = self.tokens(ids_BT)
        queries, keys, values = self.project(hidden).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(rotated(queries), rotated(keys), values)
        return self.feed(hidden + self.out(mixed.transpose(1, 2).flatten(2))).unflatten(-1, (BACK, VOCABULARY))


def question(batch: int) -> tuple[Tensor, Tensor]:
    """Tokens [B, T] and, from place 4 on, the four tokens before [B, T - 4, 4]."""
    ids = torch.randint(VOCABULARY, (batch, LENGTH))
    return ids, torch.stack([ids[:, BACK - back : LENGTH - back] for back in range(1, BACK + 1)], -1)


def train(heads: int, steps: int, seed: int) -> float:
    """The share of right answers on new sequences."""
    torch.manual_seed(seed)
    model = Reader(heads)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        ids, before = question(32)
        scores = model(ids)[:, BACK:]
        loss = nn.functional.cross_entropy(scores.flatten(0, 2), before.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids, before = question(256)
    with torch.no_grad():
        return float((model(ids)[:, BACK:].argmax(-1) == before).float().mean())


def main() -> None:
    arguments = options(__doc__, steps=400).parse_args()
    torch.set_num_threads(1)
    size = sum(one.numel() for one in Reader(1).parameters())
    print(
        f"the four tokens before; {size:,} parameters; chance {1 / VOCABULARY:.3f} ({arguments.steps} steps, {arguments.seeds} seeds)"
    )
    print("heads    width of a head    accuracy")
    points, spread = [], []
    for heads in HEADS:
        found = [train(heads, arguments.steps, seed) for seed in range(arguments.seeds)]
        print(f"  {heads:<10} {WIDTH // heads:<15} {shown(found)}", flush=True)
        points.append((heads, mean(found)))
        spread.append(stdev(found) if len(found) > 1 else 0.0)
    draw(arguments.out, {"accuracy": points}, "heads", "accuracy", {"accuracy": spread}, log_x=True)


if __name__ == "__main__":
    main()
