"""Putting the work of several threads together in a way that does not depend on timing.

Each thread changes a copy of its own; then the changes to a row add up, as they would have in one
shared matrix. Where they all point the same way, though, each thread has gone the whole way already,
and the sum of many would overshoot, further each time: so a sum is held to at most ``MOST`` times
what changes in one direction come to together (twice the step of one: then it cannot grow). Two threads never
reach that. A mean would be far too slow on rare words. Only rows that somebody touched are looked at.
The twin is in ``reference.py``.
"""

from typing import Any

import numpy as np

from firth.vectors.lanes import compiled

MOST = 2.0  # of |sum|^2 / (sum of |change|^2): 1 where changes go different ways, the number of threads where all agree


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
            total[:] = 0
            parts = np.float32(1e-30)
            for copy in range(num_copies):
                if touched[copy, row]:
                    for t in range(dim):
                        change = copies[copy, row, t] - base[row, t]
                        total[t] += change
                        parts += change * change
            whole = np.float32(1e-30)
            for t in range(dim):
                whole += total[t] * total[t]
            share = min(np.float32(1), np.float32(MOST) * parts / whole)
            for t in range(dim):
                base[row, t] += share * total[t]
        for copy in range(num_copies):
            touched[copy, row] = 0
            if holders > 1 or copy != only:
                for t in range(dim):
                    copies[copy, row, t] = base[row, t]
