"""ELMo begins with word vectors: its character network learns to spell out the vectors of the corpus's words (Pinter et al. 2017,
"Mimicking word embeddings using subword RNNs"), and the rows of its softmax are those vectors.

N words, M characters, P width of a vector.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.types import generator
from firth.nn.character_cnn import CharacterCNN, TableSoftmax
from firth.training.muon import Muon

_BATCH, _GROUP = 256, 8  # words of a step; steps whose words are drawn together and sorted by length
_EPOCHS = 10.0  # through the words of the softmax
_RATE, _WARMUP, _MOMENTUM = 2e-2, 0.05, 0.9
SLOWER = 0.05  # than the rest learns a token layer that has learned to spell vectors
_STREAM = 0x3141  # what the random numbers here are for


def standardised(vectors_NP: NDArray[np.float32]) -> torch.Tensor:
    """With mean 0 in every direction and one common deviation of 1."""
    found = torch.from_numpy(np.asarray(vectors_NP, np.float32))
    found = found - found.mean(0)
    return found / found.std().clamp(min=1e-12)


@torch.no_grad()
def take_rows(softmax: TableSoftmax, rows_N: NDArray[np.int64], vectors_NP: torch.Tensor) -> None:
    """These rows of the table, with the deviation that the table was drawn with."""
    softmax.rows.weight[torch.from_numpy(rows_N)] = vectors_NP * softmax.rows.weight.std()


def _optimizer(network: CharacterCNN) -> Muon:
    """Muon for the filters and layers above them, Adam for the characters."""
    parts: dict[int, list[torch.nn.Parameter]] = {0: [], 1: []}
    for name, parameter in network.named_parameters():
        parts[int(parameter.ndim == 2 and not name.startswith("embedding"))].append(parameter)
    groups: list[dict[str, object]] = [
        {"params": some, "weight_decay": 0.0, "maps": maps} for maps, some in parts.items()
    ]
    return Muon(groups, _RATE, (0.9, 0.999), 1e-8, _MOMENTUM)


def mimic(
    network: CharacterCNN,
    characters_NM: NDArray[np.int64],
    vectors_NP: torch.Tensor,
    counts_N: NDArray[np.int64],
    seed: int,
) -> list[float]:
    """Trains the network to give these vectors for these words; frequent words are drawn more often, by the root of their
    counts. The mean squared error of each step."""
    widest = max(width for width, _ in network.filters)
    lens_N = (characters_NM != characters_NM[:, -1:].max()).sum(1)
    chances_N = np.sqrt(np.maximum(counts_N, 1).astype(np.float64))
    chances_N /= chances_N.sum()
    steps = max(1, round(_EPOCHS * len(counts_N) / _BATCH))
    warmup = max(1.0, _WARMUP * steps)
    optimizer = _optimizer(network)
    errors: list[float] = []
    while len(errors) < steps:
        draws = generator(seed, _STREAM, len(errors))
        chosen = draws.choice(len(counts_N), _BATCH * _GROUP, p=chances_N)
        groups = chosen[np.argsort(lens_N[chosen], kind="stable")].reshape(_GROUP, _BATCH)
        for some in groups[draws.permutation(_GROUP)[: steps - len(errors)]]:
            for group in optimizer.param_groups:
                group["lr"] = _RATE * min((len(errors) + 1) / warmup, 1 - len(errors) / steps)
            longest = int(lens_N[some].max()) + widest  # more padding changes nothing
            found_NP = network(torch.from_numpy(characters_NM[some, :longest]))
            loss = (found_NP - vectors_NP[some]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            errors.append(float(loss.detach()))
    return errors
