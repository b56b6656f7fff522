"""How many noise words do negative sampling and NCE need, and is log Z really 0?

    python experiments/noise.py [--steps 400] [--seeds 3] [--out noise.svg]

A made-up language whose truth is known: 200 words, the next one depends on the last (Zipf's law, and three preferred successors for each word). A table of vectors learns it with
the full softmax, with NCE and with negative sampling, k noise words drawn from the unigram distribution. Measured: the loss under full normalisation against the
entropy of the language, the mean of log Z (the sum that NCE takes as 1), and its deviation over words.
"""

from statistics import mean, stdev

import numpy as np
import torch
from torch import Tensor, nn

from firth.nn.softmax import NCEOutput, Noise, TokenOutput, judge_labels
from picture import draw, options, shown

WORDS, WIDTH, BATCH = 200, 32, 256
NOISES = (1, 5, 25, 100)


class NegativeSampling(NCEOutput):
    """word2vec's loss: as NCE, but the score is not lowered by log(k q)."""

    def log_expected(self, log_shares: Tensor) -> Tensor:
        return torch.zeros_like(log_shares)


def language(seed: int) -> Tensor:
    """Probabilities of the next word by the last, [V, V]."""
    random = np.random.default_rng(seed)
    chances = np.tile(1 / np.arange(1, WORDS + 1), (WORDS, 1))
    chances /= chances.sum(1, keepdims=True)
    for row in chances:
        row[random.choice(WORDS, 3, replace=False)] += (0.6, 0.3, 0.1)
    return torch.from_numpy(chances / chances.sum(1, keepdims=True)).float()


def output_layer(kind: str, k: int, shares: np.ndarray) -> TokenOutput:
    if kind == "softmax":
        return TokenOutput(WIDTH, WORDS, tied=False)
    layer = NCEOutput if kind == "NCE" else NegativeSampling
    return layer(WIDTH, WORDS, False, Noise(shares), k)


def train(kind: str, k: int, steps: int, seed: int) -> tuple[float, float, float]:
    """Loss above the entropy, mean and deviation of log Z, over the words as often as they occur."""
    torch.manual_seed(seed)
    chances = language(seed)
    unigram = torch.linalg.matrix_power(chances.double(), 50)[0]
    unigram /= unigram.sum()
    layer, table = output_layer(kind, k, unigram.numpy()), nn.Embedding(WORDS, WIDTH)
    layer.start(0.1, torch.Generator().manual_seed(seed), unigram.log().float())
    if kind == "negative sampling":
        nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam([*layer.parameters(), *table.parameters()], 2e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, steps)
    for _ in range(steps):
        last = torch.multinomial(unigram.float(), BATCH, replacement=True)
        following = torch.multinomial(chances[last], 1)[:, 0]
        loss = layer.loss(table(last), following, table.weight) / BATCH
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        log_probs = layer.log_probs(table.weight, table.weight).double()
        _, log_z, _ = judge_labels(table.weight, layer.rows(table.weight), layer.bias, torch.zeros(WORDS).long())
        gap = (unigram[:, None] * chances * (chances.log() - log_probs)).sum()
        centre = (unigram * log_z).sum()
        return float(gap), float(centre), float((unigram * (log_z - centre) ** 2).sum().sqrt())


def main() -> None:
    arguments = options(__doc__, steps=400).parse_args()
    torch.set_num_threads(1)
    print(f"{WORDS} words ({arguments.steps} steps, {arguments.seeds} seeds)")
    print("loss                  k     above the entropy    mean log Z        deviation of log Z")
    lines: dict[str, list[tuple[float, float]]] = {"softmax": [], "NCE": [], "negative sampling": []}
    spread: dict[str, list[float]] = {name: [] for name in lines}
    for kind in lines:
        for k in NOISES:
            if kind != "softmax" or k == NOISES[0]:
                found = [train(kind, k, arguments.steps, seed) for seed in range(arguments.seeds)]
                gaps, centres, widths = ([one[place] for one in found] for place in range(3))
                name = "-" if kind == "softmax" else str(k)
                print(f"{kind:<22}{name:<6}{shown(gaps):<21}{shown(centres, 2):<18}{shown(widths, 2)}", flush=True)
            lines[kind].append((k, mean(gaps)))
            spread[kind].append(stdev(gaps) if len(gaps) > 1 else 0.0)
    draw(arguments.out, lines, "noise words k", "nats above the entropy", spread, log_x=True)


if __name__ == "__main__":
    main()
