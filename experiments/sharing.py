"""Do queries, keys and values each need a projection of their own?

    python experiments/sharing.py [--steps 200] [--seeds 3] [--out sharing.svg]

Every way of sharing: Q, K and V apart, two of them one matrix, or all three. One layer of attention of width 32 with 4 heads and rotary positions learns three
tasks. Name the token three places before, with and without a causal mask; and recall: after a list of pairs (name, number) find the number of a
name. Matrices that are shared are not replaced by others, so those models have fewer parameters.
"""

from statistics import mean, stdev

import torch
from torch import Tensor, nn

from picture import draw_groups, options, shown
from positions import rotated

VOCABULARY, LENGTH, WIDTH, HEADS, BACK, PAIRS = 12, 16, 32, 4, 3, 8
CASES = {  # which matrix gives the queries, the keys, the values
    "QKV apart": (0, 1, 2),
    "Q = K": (0, 0, 1),
    "K = V": (0, 1, 1),
    "Q = V": (0, 1, 0),
    "Q = K = V": (0, 0, 0),
}
TASKS = ("before, all seen", "before, causal", "recall")


class Reader(nn.Module):
    """Tokens, one layer of attention with shared projections, a feed-forward part, scores."""

    def __init__(self, matrices: tuple[int, int, int], causal: bool) -> None:
        super().__init__()
        self.matrices, self.causal, self.tokens = matrices, causal, nn.Embedding(2 * VOCABULARY + 1, WIDTH)
        self.project = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(max(matrices) + 1))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, VOCABULARY)
        )

    def forward(self, ids_BT2: Tensor) -> Tensor:
        hidden = self.tokens(ids_BT2).sum(2)
        queries, keys, values = (
            self.project[number](hidden).unflatten(-1, (HEADS, -1)).transpose(1, 2) for number in self.matrices
        )
        mixed = nn.functional.scaled_dot_product_attention(
            rotated(queries), rotated(keys), values, is_causal=self.causal
        )
        return self.feed(hidden + self.out(mixed.transpose(1, 2).flatten(2)))


def question(task: str, batch: int) -> tuple[Tensor, Tensor, slice]:
    """Tokens as sums of two [B, T, 2], goals, and the places where there is a goal."""
    if task != "recall":
        ids = torch.randint(VOCABULARY, (batch, LENGTH))
        return torch.stack([ids, torch.full_like(ids, 2 * VOCABULARY)], 2), ids[:, :-BACK], slice(BACK, None)
    names = torch.rand(batch, VOCABULARY).argsort(1)[:, :PAIRS]
    numbers = torch.randint(VOCABULARY, (batch, PAIRS))
    asked = torch.randint(PAIRS, (batch, 1))
    pairs = torch.stack([names, VOCABULARY + numbers], 2)
    query = torch.stack([names.gather(1, asked), torch.full_like(asked, 2 * VOCABULARY)], 2)
    return torch.cat([pairs, query], 1), numbers.gather(1, asked), slice(-1, None)


def train(matrices: tuple[int, int, int], task: str, steps: int, seed: int) -> float:
    """The share of right answers on new sequences."""
    torch.manual_seed(seed)
    model = Reader(matrices, causal="causal" in task)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        ids, goal, places = question(task, 24)
        loss = nn.functional.cross_entropy(model(ids)[:, places].flatten(0, 1), goal.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids, goal, places = question(task, 500)
    with torch.no_grad():
        return float((model(ids)[:, places].argmax(-1) == goal).float().mean())


def main() -> None:
    arguments = options(__doc__, steps=200).parse_args()
    torch.set_num_threads(1)
    print(f"accuracy; chance {1 / VOCABULARY:.3f} ({arguments.steps} steps, {arguments.seeds} seeds)")
    print(f"{'projections':<14}{'weights':<10}" + "".join(f"{task:<20}" for task in TASKS))
    values: dict[str, list[tuple[float, float]]] = {}
    for name, matrices in CASES.items():
        found = [[train(matrices, task, arguments.steps, seed) for seed in range(arguments.seeds)] for task in TASKS]
        size = sum(one.numel() for one in Reader(matrices, False).project.parameters())
        print(f"{name:<14}{size:<10,}" + "".join(f"{shown(one):<20}" for one in found), flush=True)
        values[name] = [(mean(one), stdev(one) if len(one) > 1 else 0.0) for one in found]
    draw_groups(arguments.out, TASKS, values, "accuracy")


if __name__ == "__main__":
    main()
