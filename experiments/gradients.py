"""What happens to a gradient on its way back through time?

    python experiments/gradients.py [--length 100] [--seeds 5] [--out gradients.svg]

h_t = f(W h_{t-1} + x_t). The gradient of h_T by h_0 is the product of T matrices diag(f') W. W is a random matrix scaled to a spectral radius; nothing is
trained. The norm of that product tells whether the gradient vanishes or explodes. Last, an LSTM at random weights with a closed, a half-open and an open forget gate.
"""

import math
from collections.abc import Callable
from statistics import mean, stdev

import torch
from torch import Tensor

from picture import draw, options, shown

WIDTH, MARKS = 64, (1, 5, 10, 20, 50, 100)
RADII = (0.5, 0.9, 1.0, 1.1, 1.5)
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {  # with the largest f'
    "identity": (lambda values: values, 1.0),
    "tanh": (torch.tanh, 1.0),
    "sigmoid": (torch.sigmoid, 0.25),
    "relu": (torch.relu, 1.0),
}


def recurrent_matrix(radius: float) -> Tensor:
    """Random numbers, scaled so that the largest absolute eigenvalue is the radius."""
    matrix = torch.randn(WIDTH, WIDTH, dtype=torch.float64)
    return matrix * radius / torch.linalg.eigvals(matrix).abs().max()


def norms(activation: str, radius: float, length: int, seed: int) -> list[float]:
    """log10 of the root mean square singular value of the Jacobian after each step."""
    torch.manual_seed(seed)
    function, matrix = ACTIVATIONS[activation][0], recurrent_matrix(radius)
    state = torch.zeros(WIDTH, dtype=torch.float64)
    product, found = torch.eye(WIDTH, dtype=torch.float64), []
    for _ in range(length):
        before = (matrix @ state + 0.5 * torch.randn(WIDTH, dtype=torch.float64)).requires_grad_()
        after = function(before)
        (slope,) = torch.autograd.grad(after.sum(), before)
        product = slope[:, None] * (matrix @ product)
        state = after.detach()
        found.append(math.log10(float(product.norm()) / WIDTH**0.5 + 1e-300))
    return found


def cell_norms(forget_bias: float, length: int, seed: int) -> float:
    """log10 of the gradient of the last cell state by the first, per component, in an LSTM of random weights."""
    torch.manual_seed(seed)
    cell = torch.nn.LSTMCell(WIDTH, WIDTH, dtype=torch.float64)
    torch.nn.init.constant_(cell.bias_hh[WIDTH : 2 * WIDTH], forget_bias)
    first = torch.zeros(1, WIDTH, dtype=torch.float64, requires_grad=True)
    hidden, memory = torch.zeros(1, WIDTH, dtype=torch.float64), first
    for _ in range(length):
        hidden, memory = cell(0.5 * torch.randn(1, WIDTH, dtype=torch.float64), (hidden, memory))
    rows = [torch.autograd.grad(one, first, retain_graph=True)[0] for one in memory[0, :16]]
    return math.log10(float(torch.cat(rows).norm()) / 4 + 1e-300)


def main() -> None:
    parser = options(__doc__, seeds=5)
    parser.add_argument("--length", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    marks = [mark for mark in MARKS if mark <= arguments.length]
    print(f"log10 of the gradient's size after so many steps; width {WIDTH}, {arguments.seeds} seeds")
    print(f"{'f':<10}{'radius':<8}" + "".join(f"{mark:<18}" for mark in marks))
    lines: dict[str, list[tuple[float, float]]] = {}
    spread: dict[str, list[float]] = {}
    for name in ACTIVATIONS:
        for radius in RADII:
            runs = [norms(name, radius, arguments.length, seed) for seed in range(arguments.seeds)]
            cells = [[run[mark - 1] for run in runs] for mark in marks]
            print(f"{name:<10}{radius:<8}" + "".join(f"{shown(one, 1):<18}" for one in cells))
            if radius in (0.9, 1.1) and name in ("identity", "tanh", "sigmoid"):
                line = f"{name}, radius {radius}"
                lines[line] = [(mark, mean(one)) for mark, one in zip(marks, cells, strict=True)]
                spread[line] = [stdev(one) if len(one) > 1 else 0.0 for one in cells]
    print("LSTM, gradient of the cell state; bias of the forget gate")
    for bias in (-2.0, 0.0, 2.0, 4.0):
        cells = [[cell_norms(bias, mark, seed) for seed in range(arguments.seeds)] for mark in marks]
        print(f"{'LSTM':<10}{bias:<8}" + "".join(f"{shown(one, 1):<18}" for one in cells))
        if bias == 4.0:
            lines["LSTM, forget bias 4"] = [(mark, mean(one)) for mark, one in zip(marks, cells, strict=True)]
            spread["LSTM, forget bias 4"] = [stdev(one) if len(one) > 1 else 0.0 for one in cells]
    draw(arguments.out, lines, "steps back", "log10 of the gradient", spread)


if __name__ == "__main__":
    main()
