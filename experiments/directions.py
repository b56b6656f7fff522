"""Deeply bidirectional, or two directions glued together?

    python experiments/directions.py [--steps 300] [--seeds 3] [--out directions.svg]

A token is hidden, and follows from its neighbours in one of two ways. Sum: it is (left + right) modulo 4, so neither side alone says anything. Copy: it is the left
or the right neighbour, as the first token of the row tells, so the right-hand reader never knows which. Readers: a layer of a Transformer that sees only the left, or only the right; both,
their last vectors glued and a linear layer on top (as ELMo hands them on); the same with a hidden layer on top; and one that sees both sides in every layer.
"""

from statistics import mean, stdev

import torch
from torch import Tensor, nn

from picture import draw_groups, options, shown

VALUES, LENGTH, WIDTH, HIDDEN = 4, 6, 32, 4 + 2
READERS = ("left only", "right only", "glued, linear", "glued, hidden layer", "deep")


class Side(nn.Module):
    """A layer of a Transformer that sees what the mask allows."""

    def __init__(self, mask_TT: Tensor, width: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(HIDDEN + 1, width), nn.Parameter(torch.randn(LENGTH, width) * 0.5)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=True) for _ in range(1)
        )
        self.mask = mask_TT

    def forward(self, ids_BT: Tensor) -> Tensor:
        hidden = self.tokens(ids_BT) + self.places
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask)
        return hidden


class Reader(nn.Module):
    """One or two sides, and scores of the hidden token. Of two, each has half the width."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        later = torch.full((LENGTH, LENGTH), -torch.inf).triu(1)
        masks = {"left": later, "right": later.T, "deep": torch.zeros(LENGTH, LENGTH)}
        sides = ("left", "right") if "glued" in kind else (kind.split()[0],)
        self.sides = nn.ModuleList(Side(masks[side], WIDTH // len(sides)) for side in sides)
        self.scores: nn.Module = nn.Linear(WIDTH, VALUES)
        if "hidden" in kind:
            self.scores = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, VALUES))

    def forward(self, ids_BT: Tensor, places_B: Tensor) -> Tensor:
        hidden = torch.cat([side(ids_BT) for side in self.sides], -1)
        return self.scores(hidden[torch.arange(len(ids_BT)), places_B])


def question(task: str, batch: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens with one hidden, its place, and what it was."""
    ids, rows = torch.randint(VALUES, (batch, LENGTH)), torch.arange(batch)
    places = torch.randint(2, LENGTH - 1, (batch,))
    left, right = ids[rows, places - 1], ids[rows, places + 1]
    if task == "sum":
        goal = (left + right) % VALUES
    else:
        side = torch.randint(2, (batch,))
        goal, ids[:, 0] = torch.where(side == 1, right, left), VALUES + side
        ids[:, 0] = torch.where(side == 1, VALUES, VALUES + 1)
    ids[rows, places] = HIDDEN
    return ids, places, goal


def train(kind: str, task: str, steps: int, seed: int) -> float:
    """The share of right answers on new rows."""
    torch.manual_seed(seed)
    model = Reader(kind)
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    for _ in range(steps):
        ids, places, goal = question(task, 32)
        loss = nn.functional.cross_entropy(model(ids, places), goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids, places, goal = question(task, 1000)
    with torch.no_grad():
        return float((model(ids, places).argmax(-1) == goal).float().mean())


def main() -> None:
    arguments = options(__doc__, steps=300).parse_args()
    torch.set_num_threads(1)
    print(f"accuracy; chance {1 / VALUES:.3f} ({arguments.steps} steps, {arguments.seeds} seeds)")
    print(f"{'reader':<22}{'weights':<10}{'sum':<18}copy")
    values = {}
    for kind in READERS:
        size = sum(one.numel() for one in Reader(kind).parameters())
        found = [
            [train(kind, task, arguments.steps, seed) for seed in range(arguments.seeds)] for task in ("sum", "copy")
        ]
        print(f"{kind:<22}{size:<10,}{shown(found[0]):<18}{shown(found[1])}", flush=True)
        values[kind] = [(mean(one), stdev(one) if len(one) > 1 else 0.0) for one in found]
    draw_groups(arguments.out, ("sum", "copy"), values, "accuracy")


if __name__ == "__main__":
    main()
