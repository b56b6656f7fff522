"""``metrics.jsonl``: a line for every report of the loop; cut back to the checkpoint on resume."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firth.core.files import disk_errors, write_text
from firth.core.types import Batch


def read_history(path: Path) -> list[dict[str, Any]]:
    """All whole lines; one cut off by a kill is passed over."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


class History:
    """Appends lines; starts after the given step."""

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        kept = [line for line in read_history(path) if line.get("step", 0) <= step]
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))

    def add(self, line: dict[str, Any]) -> None:
        with disk_errors(self.path), open(self.path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(line) + "\n")


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
