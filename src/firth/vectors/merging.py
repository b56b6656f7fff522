"""Putting the work of several threads together in a way that does not depend on timing.

Each thread changes a copy of its own; then the changes to a row are combined as in AdaSum (Maleki
et al. 2021; for word2vec: "model combiners", 2019): changes in different directions add up, changes
in the same direction count once. Plain sums overshoot on frequent words, means are too slow on rare
ones. Only rows that somebody touched are looked at. The twin is in ``reference.py``.
"""

from typing import Any

import numpy as np

from firth.vectors.arithmetic import compiled


@compiled
def merge_rows(base: Any, copies: Any, touched: Any, first: int, last: int) -> None:
    """Rows [first, last) of ``base`` [V, D] take in the changes of ``copies`` [T, V, D], which then
    equal it; ``touched`` [T, V] is cleared."""
    num_copies, dim = copies.shape[0], base.shape[1]
    total = np.empty(dim, np.float32)
    for row in range(first, last):
        holders = 0
        only = 0
        for copy in range(num_copies):
            if touched[copy, row]:
                holders += 1
                only = copy
        if holders == 0:
            continue
        if holders == 1:
            for t in range(dim):
                base[row, t] = copies[only, row, t]
        else:
            started = False
            for copy in range(num_copies):
                if not touched[copy, row]:
                    continue
                if not started:
                    for t in range(dim):
                        total[t] = copies[copy, row, t] - base[row, t]
                    started = True
                    continue
                both = np.float32(0)
                ours = np.float32(1e-30)
                theirs = np.float32(1e-30)
                for t in range(dim):
                    change = copies[copy, row, t] - base[row, t]
                    both += total[t] * change
                    ours += total[t] * total[t]
                    theirs += change * change
                share, other = np.float32(1) - both / (2 * ours), np.float32(1) - both / (2 * theirs)
                for t in range(dim):
                    total[t] = share * total[t] + other * (copies[copy, row, t] - base[row, t])
            for t in range(dim):
                base[row, t] += total[t]
        for copy in range(num_copies):
            touched[copy, row] = 0
            if holders > 1 or copy != only:
                for t in range(dim):
                    copies[copy, row, t] = base[row, t]
