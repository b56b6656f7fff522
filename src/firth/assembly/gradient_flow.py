"""How far gradients reach back through time: the size of dL_T/dh_t for every step t (Pascanu et al. 2013).

In a simple recurrent network it shrinks or grows by a factor a step; the gates of an LSTM keep it.

B batch, T steps, L layers, D width of a layer.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from firth.models.recurrent import Recurrent
from firth.nn.softmax import TokenOutput


def gradient_norms(
    model: Recurrent, head: TokenOutput, ids_BT: torch.Tensor, labels_B: torch.Tensor
) -> NDArray[np.float64]:
    """|dL_T/dh_t| [L, T]: L_T is the loss at the last step alone, h_t all that a layer hands on at step t; the
    mean over rows. It goes through the plain cells, whose every state is a tensor of its own."""
    assert not model.config.bidirectional
    was_training = model.training
    model.eval()
    with torch.enable_grad():
        below = list(model.embed(ids_BT.to(model.tokens.weight.device)).detach().unbind(0))
        states: list[list[torch.Tensor]] = []
        for layer in model.stack.directions():
            above = layer.steps(below, layer.zero_state(len(ids_BT)))
            states.append(above)
            fits = model.stack.residual and above[0].shape == below[0].shape
            below = [one + two for one, two in zip(above, below, strict=True)] if fits else above
        log_probs = head.log_probs(below[-1], model.tokens.weight)
        loss = -log_probs.gather(1, labels_B.to(log_probs.device)[:, None]).sum()  # rows do not touch one another
        flat = [state for layer in states for state in layer]
        found = torch.autograd.grad(loss, flat, allow_unused=True)
    model.train(was_training)
    norms = [0.0 if part is None else float(part.norm(dim=-1).mean()) for part in found]
    return np.asarray(norms).reshape(len(states), -1)


def gradient_chart(model: Recurrent, head: TokenOutput, ids_BT: torch.Tensor, labels_B: torch.Tensor) -> dict[str, Any]:
    """The same as a chart: by steps back from the loss, in powers of ten."""
    norms = gradient_norms(model, head, ids_BT, labels_B)
    back = np.arange(norms.shape[1])[::-1]
    series = {
        f"layer {number}": [[int(x), float(np.log10(max(y, 1e-12)))] for x, y in zip(back, line, strict=True)][::-1]
        for number, line in enumerate(norms, 1)
    }
    return {
        "title": "How far gradients reach back",
        "note": "The size of the gradient of the last step's loss at the state of each step before it. A line that falls means that distant words are not learned from.",
        "x": "steps back",
        "y": "log10 |dL/dh|",
        "series": series,
    }
