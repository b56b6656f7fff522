"""One thread does all the work; requests of one kind that wait at the same time go through a model together.

While a batch is computed others gather by themselves. The thread waits for more, a few milliseconds at the
most, only if the batch before held several requests, whose clients are likely to ask again at once; a single client
never waits.
"""

import ctypes
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from firth.serve.settings import Problem, ServeSettings

_TRIM_S = 2.0  # between two times that free memory is given back


@dataclass(frozen=True)
class Work:
    """A kind of work. Jobs with equal keys may be done together: ``do`` takes what each of them
    brings and gives as many results."""

    key: Hashable
    do: Callable[[list[Any]], Sequence[Any]]
    joins: bool = False


@dataclass(eq=False)
class Job:
    work: Work
    load: Any
    num_tokens: int  # about
    result: "Future[Any]" = field(default_factory=Future)


class Worker:
    """``submit`` is called from the event loop, everything else happens in the thread."""

    def __init__(self, settings: ServeSettings, done: Callable[[Work, list[Job], float], None] | None = None) -> None:
        """``done`` is told of each batch and how long it took."""
        self.settings = settings
        self._done = done
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._expected = 1  # requests of the batch before
        self._pace_s = 0.0  # time a job, lately: what waits too long is better refused than given up
        self._thread = threading.Thread(target=self._run, name="firth-worker", daemon=True)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._thread.start()

    def refusal(self, num_jobs: int = 1) -> Problem | None:
        """Why so many jobs cannot be taken. A request of several finds room in an empty queue whatever their number."""
        if self._closed:
            return Problem(503, "the server is stopping: ask again when it is back", 5)
        waiting = len(self._waiting)
        wait_s = waiting * self._pace_s
        if waiting and (waiting + num_jobs > self.settings.max_queue or wait_s > self.settings.timeout_s / 3):
            later = max(1, round(wait_s))
            return Problem(503, f"{waiting} requests are waiting already: ask again in a moment", later)
        return None

    def submit(self, jobs: Sequence[Job]) -> None:
        """All or none."""
        with self._changed:
            problem = self.refusal(len(jobs))
            if problem is not None:
                raise problem
            self._waiting.extend(jobs)
            self._changed.notify()

    def close(self) -> None:
        """Nothing more is taken; what was taken is still done."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def join(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    # -- in the thread

    def _run(self) -> None:
        _set_threads(self.settings.threads)
        trim, trimmed = _find_trim(), time.monotonic()
        while batch := self._take():
            begun = time.perf_counter()
            self._do(batch)
            seconds = time.perf_counter() - begun
            if time.monotonic() - trimmed > _TRIM_S:
                trim()
                trimmed = time.monotonic()
            self._pace_s += (seconds / len(batch) - self._pace_s) / 8
            if self._done is not None:
                self._done(batch[0].work, batch, seconds)

    def _take(self) -> list[Job]:
        """The job that waits longest, and others that can go with it; none at the end."""
        with self._changed:
            while True:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return []
                first = self._waiting.popleft()
                if first.result.set_running_or_notify_cancel():
                    break
            batch = [first]
            if not first.work.joins:
                return batch
            room = self._join(batch, self.settings.batch_tokens - first.num_tokens)
            deadline = time.monotonic() + self.settings.gather_s
            while room > 0 and len(batch) < self._expected and not self._closed:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
                room = self._join(batch, room)
            self._expected = len(batch)
            return batch

    def _join(self, batch: list[Job], room: int) -> int:
        """Moves what fits from the queue to the batch; returns the room that is left."""
        key, kept = batch[0].work.key, deque[Job]()
        while self._waiting and room > 0:
            job = self._waiting.popleft()
            if job.work.key != key or job.num_tokens > room:
                kept.append(job)
            elif job.result.set_running_or_notify_cancel():
                batch.append(job)
                room -= job.num_tokens
        kept.extend(self._waiting)
        self._waiting = kept
        return room

    def _do(self, batch: list[Job]) -> None:
        try:
            results = batch[0].work.do([job.load for job in batch])
            assert len(results) == len(batch)
        except BaseException as error:
            if len(batch) == 1:
                batch[0].result.set_exception(error)
            else:
                for job in batch:  # one that is at fault must not spoil the others
                    self._do([job])
            return
        for job, result in zip(batch, results, strict=True):
            job.result.set_result(result)


def _find_trim() -> Callable[[], object]:
    """Gives memory that is free back to the system. Batches of ever other sizes leave holes, and glibc, which would keep
    them, grew by 100 MB in every half minute of overload."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    return (lambda: None) if trim is None else (lambda: trim(0))


def _set_threads(count: int) -> None:
    """In this thread: OpenMP keeps the number for each thread that calls it."""
    import torch

    if count == 0 and "OMP_NUM_THREADS" not in os.environ:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count:
        torch.set_num_threads(count)
