"""Why are attention scores divided by the square root of d?

    python experiments/scale.py [--seeds 20] [--out scale.svg]

Queries and keys with independent components of mean 0 and variance 1 have dot products of variance d. The softmax of such scores puts
almost everything on one key, and then its derivative is almost 0. Measured without any training.
"""

from statistics import mean, stdev

import numpy as np

from picture import draw, options, shown

KEYS = 64
WIDTHS = (4, 16, 64, 256, 1024)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def gradient_left(weights: np.ndarray) -> np.ndarray:
    """The trace of the softmax's derivative, diag(p) - p pᵀ: 1 - Σ p². It is 0 where one key has everything."""
    return 1 - (weights**2).sum(-1)


def measure(width: int, seed: int) -> tuple[float, float, float]:
    """Variance of q·k, and the gradient that the softmax over 64 keys lets through, without and with the division."""
    random = np.random.default_rng((seed, width))
    queries, keys = random.normal(size=(200, width)), random.normal(size=(200, KEYS, width))
    scores = np.einsum("nd,nkd->nk", queries, keys)
    plain, scaled = gradient_left(softmax(scores)), gradient_left(softmax(scores / width**0.5))
    return float(scores.var()), float(plain.mean()), float(scaled.mean())


def main() -> None:
    arguments = options(__doc__, seeds=20).parse_args()
    print("softmax of (a, a, 2a), and the largest entry of its derivative")
    for a in (1, 10, 100):
        weights = softmax(np.array([a, a, 2 * a], dtype=np.float64))
        derivative = np.abs(np.diag(weights) - np.outer(weights, weights)).max()
        print(f"  a = {a:<4} {np.array2string(weights, precision=5, suppress_small=True)}  {derivative:.1e}")
    print(f"\n{KEYS} keys, {arguments.seeds} seeds    variance of q·k    gradient left: q·k            q·k/√d")
    lines: dict[str, list[tuple[float, float]]] = {"q·k": [], "q·k / √d": []}
    spread: dict[str, list[float]] = {"q·k": [], "q·k / √d": []}
    for width in WIDTHS:
        found = [measure(width, seed) for seed in range(arguments.seeds)]
        variance, plain, scaled = ([one[place] for one in found] for place in range(3))
        print(f"  d = {width:<16} {shown(variance, 1):<18} {shown(plain):<26} {shown(scaled)}")
        for name, values in (("q·k", plain), ("q·k / √d", scaled)):
            lines[name].append((width, mean(values)))
            spread[name].append(stdev(values) if len(values) > 1 else 0.0)
    draw(arguments.out, lines, "d", "gradient left (1 - Σ p²)", spread, log_x=True)


if __name__ == "__main__":
    main()
