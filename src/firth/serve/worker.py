"""One thread does all the work; requests of one kind that wait at the same time go through a model together.

While a batch is computed others gather by themselves. The thread waits for more, a few milliseconds at the
most, only if the batch before held several requests, whose clients are likely to ask again at once; a single client
never waits.
"""

import asyncio
import ctypes
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from firth.core.errors import FirthError
from firth.serve.guard import Problem, ServeSettings, explain

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


_DRAINED = 8  # bodies up to so many times the limit are read to their end, so that the client hears why
_LONGEST = 500  # characters of a sentence about an error
_SMALL = 64  # texts of which the vectors are written at once; more are written in another thread
log = logging.getLogger("firth.serve")
SomeBody = TypeVar("SomeBody", bound=BaseModel)


class RequestHandler:
    """What all routes share."""

    def __init__(self, settings: ServeSettings, worker: Worker) -> None:
        self.settings, self.worker = settings, worker
        self._writer = ThreadPoolExecutor(1, "firth-writer")

    async def read(self, request: Request, kind: type[SomeBody]) -> SomeBody:
        """The body of a request, checked."""
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != "application/json":
            raise Problem(415, "the body must be JSON: send it as 'Content-Type: application/json'")
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                raw = await self._bytes(request)
        except TimeoutError:
            raise Problem(408, f"the body did not arrive within {self.settings.timeout_s:g} s", close=True) from None
        except ClientDisconnect:
            raise Problem(400, "the request ended before its body did", close=True) from None
        try:
            body = kind.model_validate_json(raw)
        except ValidationError as error:
            raise Problem(422, explain(kind, error)) from None
        self._check_texts(body.texts_read())  # type: ignore[attr-defined]
        return body

    async def _bytes(self, request: Request) -> bytes:
        most = self.settings.max_body_bytes
        too_large = Problem(413, f"the body is larger than {most:,} bytes: send less at once", close=True)
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > _DRAINED * most:
            raise too_large
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > _DRAINED * most:
                raise too_large
            if size <= most:
                parts.append(part)
        if size > most:
            raise too_large
        return b"".join(parts)

    def _check_texts(self, texts: Sequence[str]) -> None:
        if len(texts) > self.settings.max_texts:
            raise Problem(413, f"{len(texts)} texts, more than {self.settings.max_texts}: send fewer at once")
        size = sum(len(text.encode("utf-8", "replace")) for text in texts)
        if size > self.settings.max_text_bytes:
            raise Problem(413, f"{size:,} bytes of text, more than {self.settings.max_text_bytes:,}: send less at once")

    async def do(self, jobs: Sequence[Job]) -> list[Any]:
        """What the worker makes of the jobs of one request."""
        self.worker.submit(jobs)
        results = [asyncio.wrap_future(job.result) for job in jobs]
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                return [await result for result in results]
        except TimeoutError:
            raise Problem(
                504, f"no answer within {self.settings.timeout_s:g} s: send less at once, or ask again later"
            ) from None
        except FirthError as error:
            raise Problem(422, " ".join(str(error).split())[:_LONGEST]) from None
        except Exception:
            log.exception("a request failed")
            raise Problem(500, "something is wrong inside the server; its log says what") from None
        finally:
            for result in results:  # those that nobody waits for any more are not begun
                if not result.done():
                    result.cancel()
                elif not result.cancelled():
                    result.exception()

    async def write(self, answer: dict[str, Any], size: int = 0) -> Response:
        """The answer as JSON; a large one is written in another thread while others are heard."""
        if size <= _SMALL:
            return Response(_json(answer), media_type="application/json")
        raw = await asyncio.get_running_loop().run_in_executor(self._writer, _json, answer)
        return Response(raw, media_type="application/json")

    def close(self) -> None:
        self._writer.shutdown(wait=False)


def _json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="null")
