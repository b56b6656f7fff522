"""Batches made ahead in a background thread, in order."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from firth.core.types import Batch


@contextmanager
def prefetched(batch: Callable[[int], Batch], numbers: Iterator[int], ahead: int = 3) -> Iterator[Iterator[Batch]]:
    """An iterator over ``batch(n)`` for the numbers, a few always under way."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="batches")

    def stream() -> Iterator[Batch]:
        waiting: deque[Future[Batch]] = deque()
        for number in numbers:
            waiting.append(pool.submit(batch, number))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    try:
        yield stream()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
