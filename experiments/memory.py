"""How many steps does a network remember: RNN, LSTM, GRU, Transformer?

    python experiments/memory.py [--steps 600] [--seeds 3] [--out memory.svg]

Two tasks. First token: noise follows it, and at the end it has to be named. Copy: three tokens, then blanks, and at the end all three in order. The distance begins
with 4 steps; it grows by a half whenever 98 % of the last ten batches were right. The answer is the longest distance mastered within the
training, at most 100. All networks have width 32; the Transformer has two layers and learned positions.
"""

from statistics import mean, stdev

import torch
from torch import Tensor, nn

from picture import draw, options, shown

VOCABULARY, WIDTH, BATCH = 8, 32, 32
LONGEST = 100
NETWORKS = ("RNN", "LSTM", "GRU", "Transformer")
COPIED = {"first": 1, "copy": 3}


class Reader(nn.Module):
    """Reads all tokens; scores of the asked tokens from the last vectors."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY + 2, WIDTH)
        self.places = nn.Parameter(torch.randn(LONGEST + 3, WIDTH) * 0.5) if kind == "Transformer" else None
        if kind == "Transformer":
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True, norm_first=True)
            self.network: nn.Module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        else:
            self.network = getattr(nn, kind)(WIDTH, WIDTH, batch_first=True)
            nn.init.orthogonal_(self.network.weight_hh_l0)  # for RNN: spectral radius 1
        if kind == "LSTM":
            nn.init.constant_(self.network.bias_hh_l0[WIDTH : 2 * WIDTH], 1.0)  # the forget gate begins open
        self.scores = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids_BT: Tensor, asked: int) -> Tensor:
        hidden = self.tokens(ids_BT)
        if self.places is not None:
            return self.scores(self.network(hidden + self.places[: ids_BT.shape[1]])[:, -asked:])
        return self.scores(self.network(hidden)[0][:, -asked:])


def question(task: str, length: int) -> tuple[Tensor, Tensor]:
    """Tokens [B, T] and those to be named in the last places [B, asked]: between the two lie ``length`` steps."""
    asked = COPIED[task]
    goal = torch.randint(VOCABULARY, (BATCH, asked))
    between = torch.randint(VOCABULARY, (BATCH, length - asked))
    if task == "copy":
        between.fill_(VOCABULARY)
    return torch.cat([goal, between, torch.full((BATCH, asked), VOCABULARY + 1)], 1), goal


def train(kind: str, task: str, steps: int, seed: int) -> list[int]:
    """The longest distance mastered, after each 20th of the training."""
    torch.manual_seed(seed)
    model = Reader(kind)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    length, mastered, right, curve = 4, 0, [], []
    for step in range(1, steps + 1):
        if length <= LONGEST:
            ids, goal = question(task, length)
            scores = model(ids, COPIED[task])
            optimizer.zero_grad()
            nn.functional.cross_entropy(scores.flatten(0, 1), goal.flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            right = [*right[-9:], float((scores.argmax(-1) == goal).float().mean())]
            if len(right) == 10 and mean(right) >= 0.98:
                mastered, length, right = length, grown(length), []
        if step % max(steps // 20, 1) == 0:
            curve.append(mastered)
    return curve


def grown(length: int) -> int:
    """Half as much again; the last distance is the longest."""
    return min(length * 3 // 2, LONGEST) if length < LONGEST else LONGEST + 1


def main() -> None:
    arguments = options(__doc__, steps=600).parse_args()
    torch.set_num_threads(1)
    print(f"the longest distance mastered within {arguments.steps} steps, at most {LONGEST} ({arguments.seeds} seeds)")
    lines: dict[str, list[tuple[float, float]]] = {}
    spread: dict[str, list[float]] = {}
    for task in COPIED:
        for kind in NETWORKS:
            curves = [train(kind, task, arguments.steps, seed) for seed in range(arguments.seeds)]
            last = [float(curve[-1]) for curve in curves]
            print(
                f"  {task:<7}{kind:<13}{shown(last, 1):<14} each seed: {' '.join(f'{one:.0f}' for one in last)}",
                flush=True,
            )
            if task == "first":
                marks = [(number + 1) * max(arguments.steps // 20, 1) for number in range(len(curves[0]))]
                points = list(zip(marks, zip(*curves, strict=True), strict=True))
                lines[kind] = [(step, mean(found)) for step, found in points]
                spread[kind] = [stdev(found) if len(found) > 1 else 0.0 for _, found in points]
    draw(arguments.out, lines, "training step", "distance mastered", spread)


if __name__ == "__main__":
    main()
