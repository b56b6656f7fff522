"""The worker thread with its queue, and the part of every route between a request and the worker.

One thread runs all models. Waiting requests of the same kind are computed as one batch; while a batch is computed, the
next requests collect in the queue. The worker waits for more requests (a few milliseconds at most) only if the previous
batch held several, because their clients are likely to send the next request at once; a single client never waits.

Work is accepted by an estimate of the seconds that it takes, which is corrected by what such work took before. Work that
takes longer than a moment is done in slices: between two of them quick requests are answered, and work that nobody waits for
any more is stopped.

``RequestHandler`` reads and checks the body of a request, waits for the worker, and writes the answer as JSON.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from firth.core.config import usable_cores
from firth.core.errors import FirthError, is_out_of_memory
from firth.core.types import in_slices
from firth.serve.guard import Problem, ServeSettings, explain
from firth.serve.schemas import IMAGE_TYPES, Body, Pictured

_TRIM_S = 2.0  # seconds between two calls of malloc_trim
_DRAIN_FACTOR = 8  # bodies up to this many times the limit are read to their end, so that the client gets the error
_MAX_ERROR_LEN = 500  # characters
_LONG_S = 0.25  # work that takes longer waits for other work like it, and lets quick work through
_SLICE_S = 0.05  # the shortest slice
_POLL_S = 0.5  # between two looks whether the client is still there
_PART_S = 0.05  # seconds between two parts of an answer
_MANY_TEXTS = 64  # answers for more texts than this are written as JSON in another thread
log = logging.getLogger("firth.serve")
Load = TypeVar("Load")
Result = TypeVar("Result")
SomeBody = TypeVar("SomeBody", bound=Body)
One = TypeVar("One")


class Sliceable(Protocol):
    """A list or an array."""

    def __getitem__(self, part: slice, /) -> Self: ...


Slices = TypeVar("Slices", bound=Sliceable)


@dataclass(frozen=True)
class Work(Generic[Load, Result]):
    """A kind of work. With ``joins``, jobs with equal keys are computed as one batch: ``do`` takes the load of each job
    and returns one result per job."""

    key: Hashable
    do: Callable[[list[Load]], Sequence[Result]]
    joins: bool = False
    kind: str = ""  # work of one kind (a route and a model) takes as long as estimated, times a factor of its own


@dataclass(eq=False)
class Job(Generic[Load, Result]):
    """One unit of work in the queue, with the future that receives its result."""

    work: Work[Load, Result]
    load: Load
    num_tokens: int  # an estimate
    seconds: float = 0.0  # an estimate, before the factor of its kind
    is_abandoned: bool = False  # nobody waits for the result
    result: "Future[Result]" = field(default_factory=Future)


def in_parts(texts: Sequence[One], sizes: Sequence[int], room: int) -> list[tuple[list[One], int]]:
    """A long list in parts of about ``room`` tokens each, so that other requests can run in between."""
    found: list[tuple[list[One], int]] = []
    for text, size in zip(texts, sizes, strict=True):
        if not found or found[-1][1] + size > room:
            found.append(([], 0))
        found[-1] = ([*found[-1][0], text], found[-1][1] + size)
    return found or [([], 0)]


def joined(do: Callable[[list[One]], Slices]) -> Callable[[list[list[One]]], list[Slices]]:
    """Turns a function of one list into one that takes the lists of several requests: they are computed as one list,
    and its results (a list or an array) are cut apart again."""

    def work(loads: list[list[One]]) -> list[Slices]:
        results = do([one for load in loads for one in load])
        borders = [0, *accumulate(len(load) for load in loads)]
        return [results[start:stop] for start, stop in pairwise(borders)]

    return work


class Stopped(Exception):
    """Work was stopped since nobody waits for it any more."""


AnyJob: TypeAlias = Job[Any, Any]
"""The queue holds jobs of every kind; equal keys guarantee equal types."""


class Worker:
    """The queue and its thread. ``submit`` is called from the event loop; the jobs run in the thread."""

    def __init__(self, settings: ServeSettings, done: Callable[[list[AnyJob], float], None] | None = None) -> None:
        """``done`` is called after each batch, with its jobs and the seconds it took."""
        self.settings = settings
        self._done = done
        self._waiting: deque[AnyJob] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._expected = 1  # requests in the previous batch
        self._pace_s = 0.0  # recent mean of seconds per job; predicts the wait
        self._factors: dict[str, float] = {}  # seconds that work took by those estimated, by its kind
        self._long_s = 0.0  # estimated seconds of the long work under way
        self._thread = threading.Thread(target=self._run, name="firth-worker", daemon=True)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._thread.start()

    def refusal(self, num_jobs: int = 1) -> Problem | None:
        """The reason to refuse this many jobs, if there is one. An empty queue accepts any number."""
        if self._closed:
            return Problem(503, "the server is stopping: ask again when it is back", 5)
        waiting = sum(not self._is_long(job) for job in tuple(self._waiting))
        wait_s = waiting * self._pace_s
        if waiting and (waiting + num_jobs > self.settings.max_queue or wait_s > self.settings.timeout_s / 3):
            later = max(1, round(wait_s))
            return Problem(503, f"{waiting} requests are waiting already: ask again in a moment", later)
        return None

    def submit(self, jobs: Sequence[AnyJob]) -> None:
        """Queues all jobs, or none and raises ``Problem``."""
        with self._changed:
            problem = self.refusal(len(jobs)) or self._too_long(jobs)
            if problem is not None:
                raise problem
            self._waiting.extend(jobs)
            self._changed.notify()

    def seconds(self, job: AnyJob) -> float:
        """How long it will take, as far as is known."""
        return job.seconds * self._factors.get(job.work.kind, 1.0)

    def _is_long(self, job: AnyJob) -> bool:
        return self.seconds(job) > _LONG_S

    def _too_long(self, jobs: Sequence[AnyJob]) -> Problem | None:
        """Refuses work that cannot be done in time, by itself or after the long work that waits already."""
        own, limit = sum(map(self.seconds, jobs)), self.settings.timeout_s
        if own > limit:
            sentence = (
                f"this would take about {own:.0f} s, more than {limit:g}: send shorter or fewer texts, or ask for fewer"
            )
            return Problem(413, f"{sentence} beams or tokens")
        before = self._long_s + sum(self.seconds(job) for job in self._waiting if self._is_long(job))
        if before and own > _LONG_S and before + own > limit:
            return Problem(503, "long requests are waiting already: ask again in a moment", max(1, round(before)))
        return None

    def close(self) -> None:
        """Accepts no more jobs; those in the queue are still computed."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def join(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    # -- in the worker thread

    def _run(self) -> None:
        _set_threads(self.settings.threads)
        trim, trimmed = _find_trim(), time.monotonic()
        while batch := self._take():
            self._long_s = sum(self.seconds(job) for job in batch if self._is_long(job))
            slices = _Slices(self, batch)
            with in_slices(slices.between):
                self._time(batch, slices)
            self._long_s = 0.0
            if time.monotonic() - trimmed > _TRIM_S:
                trim()
                trimmed = time.monotonic()

    def _time(self, batch: list[AnyJob], slices: "_Slices") -> None:
        """Does a batch, and learns how long such work takes."""
        begun = time.perf_counter()
        is_whole = self._do(batch)
        seconds = time.perf_counter() - begun - slices.others_s
        estimated = sum(job.seconds for job in batch)
        if (
            is_whole and estimated and max(seconds, estimated) > _LONG_S
        ):  # quick work is mostly waiting for other things
            kind, ratio = batch[0].work.kind, seconds / estimated
            before = self._factors.get(kind, ratio)
            self._factors[kind] = min(max(before + (ratio - before) / 4, 1e-3), 1e3)
        if seconds < _LONG_S:
            self._pace_s += (seconds / len(batch) - self._pace_s) / 8
        if self._done is not None:
            self._done(batch, seconds)

    def do_quick(self) -> None:
        """One batch of quick work that waits, in the middle of long work."""
        with self._changed:
            place = next((place for place, job in enumerate(self._waiting) if not self._is_long(job)), None)
            if place is None:
                return
            first = self._waiting[place]
            del self._waiting[place]
            if not first.result.set_running_or_notify_cancel():
                return
            batch = [first]
            if first.work.joins:
                self._join(batch, self.settings.batch_tokens - first.num_tokens)
        slices = _Slices(self, batch, nested=True)

        def nested() -> None:
            with in_slices(slices.between), _with_gradients():
                self._time(batch, slices)

        Context().run(nested)  # who watches the long work does not hear of this

    def _take(self) -> list[AnyJob]:
        """The job that has waited longest and those that can join it; empty after ``close``."""
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

    def _join(self, batch: list[AnyJob], room: int) -> int:
        """Moves jobs that fit from the queue to the batch; returns the number of tokens that still fit."""
        key, kept = batch[0].work.key, deque[AnyJob]()
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

    def _do(self, batch: list[AnyJob]) -> bool:
        """Whether it was done to its end."""
        try:
            results = batch[0].work.do([job.load for job in batch])
            assert len(results) == len(batch)
        except BaseException as error:
            if len(batch) == 1 or isinstance(error, Stopped):
                for job in batch:
                    job.result.set_exception(error)
            else:
                for job in batch:  # one bad job must not fail the others
                    self._do([job])
            return False
        for job, result in zip(batch, results, strict=True):
            job.result.set_result(result)
        return True


class _Slices:
    """What happens between the slices of a batch: it is stopped if nobody waits for it, and others are let through."""

    def __init__(self, worker: Worker, batch: list[AnyJob], nested: bool = False) -> None:
        self.worker, self.batch, self.nested = worker, batch, nested
        self.others_s = 0.0  # seconds that others have taken
        self._last = time.perf_counter()

    def between(self) -> None:
        if all(job.is_abandoned for job in self.batch):
            raise Stopped
        begun = time.perf_counter()
        if self.nested or begun - self._last < _SLICE_S:
            return
        if self.worker.num_waiting:
            self.worker.do_quick()
        self._last = time.perf_counter()
        self.others_s += self._last - begun


def _find_trim() -> Callable[[], object]:
    """``malloc_trim`` where it exists: returns free memory to the system. Batches of changing sizes fragment the heap;
    without this a server under overload grew by 100 MB every half minute."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    return (lambda: None) if trim is None else (lambda: trim(0))


@contextlib.contextmanager
def _with_gradients() -> Iterator[None]:
    """Long work reads without gradients; what is done meanwhile may need them. Nothing where no model needs torch."""
    torch = sys.modules.get("torch")
    with contextlib.ExitStack() as stack:
        if torch is not None:
            stack.enter_context(torch.inference_mode(False)), stack.enter_context(torch.enable_grad())
        yield


def _set_threads(count: int) -> None:
    """Sets the number of threads of PyTorch, where it is loaded. To be called in the worker: OpenMP keeps it per thread."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if count == 0 and "OMP_NUM_THREADS" not in os.environ:
        count = usable_cores()
    if count:
        torch.set_num_threads(count)


class RequestHandler:
    """Reads requests, waits for the worker and writes answers, for all routes."""

    def __init__(self, settings: ServeSettings, worker: Worker) -> None:
        self.settings, self.worker = settings, worker
        self._writer = ThreadPoolExecutor(1, "firth-writer")

    async def read(self, request: Request, kind: type[SomeBody]) -> SomeBody:
        """The body of a request, validated and within the limits."""
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        upload = kind.of_upload if given in IMAGE_TYPES and issubclass(kind, Pictured) else None
        if upload is None and given != "application/json":
            also = f", or an image as {', '.join(IMAGE_TYPES)}" if issubclass(kind, Pictured) else ""
            raise Problem(415, f"the body must be JSON: send it as 'Content-Type: application/json'{also}")
        most = self.settings.max_body_bytes if upload is None else self.settings.max_image_bytes
        raw = await self._received(request, most)
        try:
            body = kind.model_validate_json(raw) if upload is None else upload(raw, request.query_params)
        except ValidationError as error:
            raise Problem(422, explain(kind, error)) from None
        self._check_texts(body.texts_read())
        return body

    async def _received(self, request: Request, most: int) -> bytes:
        """The bytes of a body, in time."""
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                return await self._bytes(request, most)
        except TimeoutError:
            raise Problem(408, f"the body did not arrive within {self.settings.timeout_s:g} s", close=True) from None
        except ClientDisconnect:
            raise Problem(400, "the request ended before its body did", close=True) from None

    async def _bytes(self, request: Request, most: int) -> bytes:
        too_large = Problem(413, f"the body is larger than {most:,} bytes: send less at once", close=True)
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > _DRAIN_FACTOR * most:
            raise too_large
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > _DRAIN_FACTOR * most:
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

    async def do(self, jobs: Sequence[Job[Load, Result]], request: Request | None = None) -> list[Result]:
        """The results of the jobs of one request; work for a client that has gone is given up."""
        self.worker.submit(jobs)
        results = [asyncio.wrap_future(job.result) for job in jobs]
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                while request is not None and (await asyncio.wait(results, timeout=_POLL_S))[1]:
                    if await request.is_disconnected():
                        raise Problem(400, "the client has gone", close=True)
                return [await result for result in results]
        except TimeoutError:
            raise Problem(
                504, f"no answer within {self.settings.timeout_s:g} s: send less at once, or ask again later"
            ) from None
        except FirthError as error:
            raise Problem(422, " ".join(str(error).split())[:_MAX_ERROR_LEN]) from None
        except Problem:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise Problem(413, "this needs more memory than there is: send shorter or fewer texts") from None
            log.exception("a request failed")
            raise Problem(500, "something is wrong inside the server; its log says what") from None
        finally:
            for job, result in zip(
                jobs, results, strict=True
            ):  # jobs that nobody waits for are not started, or stopped
                if not result.done():
                    job.is_abandoned = True
                    result.cancel()
                elif not result.cancelled():
                    result.exception()

    async def stream(
        self,
        jobs: Sequence[Job[Load, Result]],
        spell: Callable[[list[int]], str],
        answer: Callable[[list[Result]], Mapping[str, object]],
    ) -> Response:
        """Lines of JSON while a model writes, {"partial": {number: text}}; at last the answer, or {"error": …}."""
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[dict[str, object] | None]()
        said: dict[int, str] = {}
        told = [0.0]

        def tell(row: int, ids: list[int]) -> None:
            said[row] = spell(ids)
            if time.monotonic() - told[0] > _PART_S:
                told[0] = time.monotonic()
                part: dict[str, object] = {"partial": dict(said)}
                loop.call_soon_threadsafe(lines.put_nowait, part)

        watched = [Job(_watched(job.work, tell), job.load, job.num_tokens, job.seconds) for job in jobs]

        async def finish() -> None:
            try:
                lines.put_nowait({**answer(await self.do(watched)), "done": True})
            except Problem as problem:
                lines.put_nowait({"error": problem.sentence})
            lines.put_nowait(None)

        async def written() -> AsyncIterator[bytes]:
            task = asyncio.ensure_future(finish())
            try:
                while (line := await lines.get()) is not None:
                    yield _json(line) + b"\n"
            finally:
                task.cancel()

        return StreamingResponse(written(), media_type="application/x-ndjson")

    async def write(self, answer: Mapping[str, object], size: int = 0) -> Response:
        """The answer as JSON; a large one is serialised in another thread so that the event loop stays free."""
        if size <= _MANY_TEXTS:
            return Response(_json(answer), media_type="application/json")
        raw = await asyncio.get_running_loop().run_in_executor(self._writer, _json, answer)
        return Response(raw, media_type="application/json")

    def close(self) -> None:
        self._writer.shutdown(wait=False)


def _watched(work: Work[Load, Result], tell: Callable[[int, list[int]], None]) -> Work[Load, Result]:
    """The same work, for one request alone and heard of while it is done."""

    def do(loads: list[Load]) -> Sequence[Result]:
        from firth.decoding.steps import watching

        with watching(tell):
            return work.do(loads)

    return Work(object(), do, kind=work.kind)


def _json(value: object) -> bytes:
    return to_json(value, inf_nan_mode="null")
