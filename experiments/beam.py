"""Greedy or beam search?

    python experiments/beam.py [--models 100] [--seeds 3] [--out beam.svg]

First a table of probabilities made for 我爱苹果, in which greedy search takes the wrong turn at the first word. Then random models of the next token (10 tokens, end
included, at most 6 steps), for which the best sentence of all is known: how often does a beam of width k find it, and how much log-probability is lost?
"""

from statistics import mean, stdev

import torch
from torch import Tensor

from firth.decoding.beam import beam_search
from firth.decoding.steps import Beam
from picture import draw, options, shown

WORDS = ["<end>", "<begin>", "我", "爱", "喜欢", "苹果", "吃", "本人"]
NEXT = {  # of "I love apples": the first word decides
    "<begin>": {"本人": 0.5, "我": 0.4, "爱": 0.1},
    "本人": {"爱": 0.3, "喜欢": 0.4, "吃": 0.3},
    "我": {"爱": 0.8, "喜欢": 0.2},
    "爱": {"苹果": 0.9, "吃": 0.1},
    "喜欢": {"吃": 0.5, "苹果": 0.5},
    "吃": {"苹果": 0.9, "<end>": 0.1},
    "苹果": {"<end>": 0.95, "吃": 0.05},
}
TOKENS, LENGTH, WIDTHS = 10, 6, (1, 2, 3, 5, 10, 30)


class Chain:
    """Log-probabilities of the next token by the last two: what Firth's decoding asks of a model. Token 0 is the end."""

    def __init__(self, log_probs_VVV: Tensor) -> None:
        self.log_probs, self.vocab_size = log_probs_VVV, log_probs_VVV.shape[-1]

    def start(self, num_rows: int) -> Tensor:
        return torch.ones(num_rows, dtype=torch.long)

    def step(self, ids_N: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_probs[state, ids_N].clone(), ids_N.clone()

    def reorder(self, state: Tensor, index_N: Tensor) -> Tensor:
        return state[index_N]


def written() -> Chain:
    """The table above, as a model; what is not in it has probability 0."""
    table = torch.zeros(len(WORDS), len(WORDS))
    for word, following in NEXT.items():
        for other, chance in following.items():
            table[WORDS.index(word), WORDS.index(other)] = chance
    return Chain(table.log().expand(len(WORDS), -1, -1))


def made_up() -> Chain:
    """A random model: scores of deviation 2 by the last two tokens."""
    return Chain((2 * torch.randn(TOKENS, TOKENS, TOKENS)).log_softmax(-1))


def found(model: Chain, width: int, length: int) -> tuple[list[int], float]:
    beam = Beam(width=width, normalisation="none")
    best = beam_search(model, [[1]], length, eos_id=0, beam=beam)[0][0]
    return best.ids, best.score


def optimum(model: Chain, length: int) -> float:
    """The highest log-probability of any sentence, exactly: dynamic programming over the last two tokens (Viterbi)."""
    live = torch.full((TOKENS, TOKENS), -torch.inf)
    live[1, 1] = 0.0
    best = -torch.inf
    for _ in range(length):
        scores = live[:, :, None] + model.log_probs
        best = max(best, float(scores[:, :, 0].max()))
        live = scores.max(0).values
        live[:, 0] = -torch.inf
    return max(best, float(live.max()))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--models", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for width in (1, 2):
        ids, score = found(written(), width, 5)
        print(f"width {width}: {''.join(WORDS[one] for one in ids):<8} probability {torch.tensor(score).exp():.3f}")
    print(f"\n{arguments.models} random models, {arguments.seeds} seeds; width 1 is greedy")
    print("width     found the best sentence    log p lost")
    points, spread = [], []
    for width in WIDTHS:
        shares, losses = [], []
        for seed in range(arguments.seeds):
            torch.manual_seed(seed)
            models = [made_up() for _ in range(arguments.models)]
            gaps = [optimum(model, LENGTH) - found(model, width, LENGTH)[1] for model in models]
            shares.append(mean(gap < 1e-4 for gap in gaps))
            losses.append(mean(gaps))
        print(f"  {width:<8}{shown(shares):<27}{shown(losses, 2)}", flush=True)
        points.append((width, mean(shares)))
        spread.append(stdev(shares) if len(shares) > 1 else 0.0)
    draw(arguments.out, {"share": points}, "width", "best sentence found", {"share": spread}, log_x=True)


if __name__ == "__main__":
    main()
