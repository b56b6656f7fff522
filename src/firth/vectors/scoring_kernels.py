"""The kernels by which fastText's classifier answers: rows of texts to vectors, inner nodes of a tree to labels. The plain twins are
in ``tests/unit/vectors/classifier_twins.py``."""

import numpy as np

from firth.vectors.classifier_kernels import Floats
from firth.vectors.lanes import compiled, fetch
from firth.vectors.line_kernels import Bytes, Numbers, Places

_AHEAD = 12  # rows that are asked for before they are needed


@compiled
def hidden_of_texts(rows: Numbers, ends: Places, table: Floats, hidden: Floats) -> None:
    """``hidden`` [N, D] becomes the mean of each text's rows of ``table`` [R, D]; a row below 0 is one of zeros."""
    dim = table.shape[1]
    flat = table.reshape(-1)
    for text in range(len(ends) - 1):
        first, last = ends[text], ends[text + 1]
        for one in range(first, last):
            ahead = min(one + _AHEAD, len(rows) - 1)
            fetch(flat, max(int(rows[ahead]), 0) * dim, dim)
            if rows[one] >= 0:
                for t in range(dim):
                    hidden[text, t] += table[rows[one], t]
        if last > first:
            share = np.float32(1.0) / np.float32(last - first)
            for t in range(dim):
                hidden[text, t] *= share


@compiled
def hidden_of_codes(
    rows: Numbers, ends: Places, codes: Bytes, centroids: Floats, norms: Floats, sub_dim: int, hidden: Floats
) -> None:
    """The same from a product quantiser: byte m of a row names one of 256 pieces of ``sub_dim`` (the last one may be
    shorter); ``norms`` has a factor for each row, or is empty."""
    dim, num_subs = hidden.shape[1], codes.shape[1]
    for text in range(len(ends) - 1):
        first, last = ends[text], ends[text + 1]
        for one in range(first, last):
            row = rows[one]
            if row < 0:
                continue
            norm = norms[row] if len(norms) else np.float32(1.0)
            for sub in range(num_subs):
                size = min(sub_dim, dim - sub * sub_dim)
                place = sub * 256 * sub_dim + np.int64(codes[row, sub]) * size
                for t in range(size):
                    hidden[text, sub * sub_dim + t] += norm * centroids[place + t]
        if last > first:
            share = np.float32(1.0) / np.float32(last - first)
            for t in range(dim):
                hidden[text, t] *= share


@compiled
def tree_scores(nodes: Floats, left: Places, right: Places, added: float, scores: Floats) -> None:
    """``scores`` [N, K] become the log-probabilities of the leaves from the probabilities of going right at each inner
    node [N, K-1]; ``added`` is added to each of these before its logarithm."""
    texts, leaves = scores.shape
    sums = np.zeros(2 * leaves, np.float32)
    for text in range(texts):
        sums[2 * leaves - 2] = 0.0
        for node in range(2 * leaves - 2, leaves - 1, -1):
            chance = nodes[text, node - leaves]
            sums[left[node - leaves]] = sums[node] + np.float32(np.log(max(1.0 - chance + added, 1e-30)))
            sums[right[node - leaves]] = sums[node] + np.float32(np.log(max(chance + added, 1e-30)))
        for leaf in range(leaves):
            scores[text, leaf] = sums[leaf]
