"""Random numbers as a pure function of (seed, keys), so that no generator state has to be saved.

SplitMix64 (Steele et al. 2014) hashes the keys. The same keys give the same numbers on every
machine, in any order and with any number of workers.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def _finish(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def hashed(*keys: ArrayLike) -> NDArray[np.uint64]:
    """64 well-mixed bits for each combination of the keys (arrays broadcast)."""
    with np.errstate(over="ignore"):
        state = np.zeros((), np.uint64)
        for key in keys:
            state = _finish(state + _GOLDEN + np.asarray(key).astype(np.uint64))
    return np.asarray(state, np.uint64)


def uniform(*keys: ArrayLike) -> NDArray[np.float64]:
    """A uniform number in [0, 1) for each combination of the keys."""
    return (hashed(*keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator(*keys: int) -> np.random.Generator:
    """A NumPy generator seeded by the keys."""
    return np.random.Generator(np.random.Philox(key=int(hashed(*keys))))
