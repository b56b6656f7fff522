"""Where does n²d meet nd²? Attention against recurrence, measured.

    python experiments/cost.py [--longest 1024] [--seeds 3] [--out cost.svg]

Theory: the scores and means of attention take 4 n² d operations, its four projections 8 n d²; an LSTM takes 16 n d². So attention between the tokens costs as
much as its projections at n = 2 d, and a whole layer of attention as much as an LSTM at n = 2 d. Measured: processor time of one layer of Firth on one thread, forwards; the best
of several runs, each seed with other numbers.
"""

import time
from collections.abc import Callable
from statistics import mean, stdev

import torch
from torch import Tensor

from firth.nn.attention import SelfAttention
from firth.nn.recurrent import RecurrentLayer
from picture import draw, options, shown

WIDTHS, HEADS = (32, 128), 4


def attention(width: int, length: int) -> Callable[[], Tensor]:
    """A layer of self-attention over n tokens, n²d and nd² together."""
    layer, hidden = SelfAttention(width, HEADS, 0.0), torch.randn(1, length, width)
    return lambda: layer(hidden, None, None).sum()


def projections(width: int, length: int) -> Callable[[], Tensor]:
    """What of it is nd²: queries, keys, values, and the last matrix."""
    matrices, hidden = [torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)], torch.randn(1, length, width)
    return lambda: matrices[1](matrices[0](hidden)[..., :width]).sum()


def recurrence(width: int, length: int) -> Callable[[], Tensor]:
    """An LSTM, nd² and n steps one after the other."""
    layer, inputs = RecurrentLayer("lstm", width, width), torch.randn(length, 1, width)
    return lambda: layer(inputs, layer.zero_state(1), all_cells=False)[0].sum()


LAYERS = {"attention": attention, "its projections": projections, "LSTM": recurrence}


def milliseconds(call: Callable[[], Tensor]) -> float:
    """Processor time of one call: the lowest of five, each of as many calls as take 20 ms."""
    calls, best = 1, float("inf")
    for _ in range(5):
        while True:
            start = time.process_time()
            for _ in range(calls):
                call()
            spent = time.process_time() - start
            if spent >= 0.02:
                break
            calls *= 2
        best = min(best, spent / calls)
    return 1000 * best


def meeting(lengths: list[int], ones: list[float], others: list[float]) -> str:
    """The first length from which the one takes longer than the other."""
    later = [length for length, one, other in zip(lengths, ones, others, strict=True) if one > other]
    return f"from {later[0]}" if later else f"not up to {lengths[-1]}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--longest", type=int, default=1024)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lengths = [2**power for power in range(4, arguments.longest.bit_length())]
    lines: dict[str, list[tuple[float, float]]] = {}
    spread: dict[str, list[float]] = {}
    for width in WIDTHS:
        print(f"d = {width}: ms of processor time, forwards")
        print(f"{'n':<18}" + "".join(f"{length:<16}" for length in lengths))
        means: dict[str, list[float]] = {}
        for name, make in LAYERS.items():
            found = []
            for length in lengths:
                torch.manual_seed(length)
                found.append([milliseconds(make(width, length)) for _ in range(arguments.seeds)])
            means[name] = [mean(one) for one in found]
            print(f"  {name:<16}" + "".join(f"{shown(one, 2):<16}" for one in found), flush=True)
            if width == WIDTHS[-1]:
                lines[name] = list(zip(lengths, means[name], strict=True))
                spread[name] = [stdev(one) if len(one) > 1 else 0.0 for one in found]
        twice = [2 * one for one in means["its projections"]]
        print(f"  n²d costs more than nd² within attention: {meeting(lengths, means['attention'], twice)}")
        print(f"  attention costs more than the LSTM: {meeting(lengths, means['attention'], means['LSTM'])}")
    draw(arguments.out, lines, "n", "ms", spread, log_x=True)


if __name__ == "__main__":
    main()
