"""Merging the matrices of several threads, with a result that does not depend on timing.

Each thread trains its own copy; then the changes of a row add up, as they would in one shared matrix. Where all
threads moved a row the same way, the sum would overshoot, more each time: so its squared length is limited to
``MOST`` times the sum of the squared lengths of the changes. Two threads never reach that limit. A mean would be
far too slow for rare words. Rows that no thread touched are skipped. The tests have a plain version.
"""

import numpy as np

from firth.vectors.kernels import Marks
from firth.vectors.lanes import Floats, compiled

MOST = (
    2.0  # of |sum|^2 / (sum of |change|^2), which is 1 for orthogonal changes and the number of threads for equal ones
)


@compiled
def merge_rows(base: Floats, copies: Floats, touched: Marks, first: int, last: int) -> None:
    """Adds the changes of ``copies`` [T, V, D] to the rows [first, last) of ``base`` [V, D], sets the copies to the
    result and clears ``touched`` [T, V]."""
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
