"""What the worker does together, in which order, and what it refuses."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from firth.core.types import between_slices
from firth.models.shared.model import Model, Translated
from firth.serve import schemas as bodies
from firth.serve.answers import ServedFacts
from firth.serve.endpoints import ENDPOINTS
from firth.serve.guard import Problem, ServeSettings
from firth.serve.models import Served
from firth.serve.worker import AnyJob, Job, Stopped, Work, Worker


class Bench:
    """A worker that holds still until ``go``, so that what waits is known."""

    def __init__(self, **settings: Any) -> None:
        self.seen: list[list[Any]] = []
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.worker = Worker(ServeSettings(threads=1, **settings))
        self.worker.start()
        self.first = Job(Work("gate", self._wait), None, 1)
        self.worker.submit([self.first])
        self.entered.wait(10)

    def _wait(self, loads: list[Any]) -> list[Any]:
        self.entered.set()
        self.gate.wait(10)
        return loads

    def note(self, loads: list[Any]) -> list[Any]:
        self.seen.append(loads)
        return [load * 2 for load in loads]

    def put(
        self, key: str, load: int, size: int = 1, joins: bool = True, do: Callable[..., Any] | None = None
    ) -> AnyJob:
        job = Job(Work(key, do or self.note, joins), load, size)
        self.worker.submit([job])
        return job

    def go(self) -> None:
        self.gate.set()
        self.worker.close()
        self.worker.join(10)


def test_equal_keys_go_together_and_everybody_gets_his_own() -> None:
    bench = Bench()
    jobs = [bench.put("a", 1), bench.put("b", 10), bench.put("a", 2), bench.put("c", 5, joins=False)]
    jobs += [bench.put("c", 6, joins=False), bench.put("a", 3)]
    bench.go()
    assert bench.seen == [[1, 2, 3], [10], [5], [6]]
    assert [job.result.result(1) for job in jobs] == [2, 20, 4, 10, 12, 6]


def test_a_batch_is_no_larger_than_its_tokens() -> None:
    bench = Bench(batch_tokens=10)
    for load, size in enumerate([6, 5, 4, 30, 1]):
        bench.put("a", load, size)
    bench.go()
    assert bench.seen == [[0, 2], [1, 4], [3]]


def test_one_at_fault_does_not_spoil_the_others() -> None:
    bench = Bench()

    def picky(loads: list[int]) -> list[int]:
        if 2 in loads:
            raise ValueError("two")
        return loads

    jobs = [bench.put("a", load, do=picky) for load in (1, 2, 3)]
    bench.go()
    assert [jobs[0].result.result(1), jobs[2].result.result(1)] == [1, 3]
    with pytest.raises(ValueError, match="two"):
        jobs[1].result.result(1)


def test_a_full_queue_refuses_and_a_closed_one_too() -> None:
    bench = Bench(max_queue=2)
    bench.put("a", 1)
    bench.put("a", 2)
    with pytest.raises(Problem, match="2 requests are waiting") as full:
        bench.put("a", 3)
    assert (full.value.status, full.value.retry_after_s) == (503, 1)
    bench.go()
    assert bench.seen == [[1, 2]]
    with pytest.raises(Problem, match="stopping"):
        bench.put("a", 4)


def test_what_was_given_up_is_not_done() -> None:
    bench = Bench()
    jobs = [bench.put("a", load) for load in (1, 2, 3)]
    assert jobs[1].result.cancel()
    bench.go()
    assert bench.seen == [[1, 3]]


def test_closing_does_what_was_taken() -> None:
    bench = Bench()
    jobs = [bench.put(str(load), load) for load in range(20)]
    bench.go()
    assert [job.result.result(0) for job in jobs] == [2 * load for load in range(20)]


def test_who_would_wait_too_long_is_refused_at_once() -> None:
    bench = Bench(timeout_s=3.0)
    bench.put("a", 1)
    bench.worker._pace_s = 0.9
    bench.put("a", 2)
    with pytest.raises(Problem, match="2 requests are waiting") as full:
        bench.put("a", 3)
    assert (full.value.status, full.value.retry_after_s) == (503, 2)
    bench.go()


def test_many_translations_are_several_jobs() -> None:
    """Wide beams make them more; the answer has them in their order."""

    class Upper(Model):
        def translations(self, texts: Any, beams: int = 5, nbest: int = 1, **settings: Any) -> list[list[Translated]]:
            return [[Translated(text.upper(), -1.0, -1.0)] for text in texts]

    facts = ServedFacts(name="mt", kind="translator", abilities=(), dim=8, parameters=0)
    served = Served("mt", cast(Any, Upper()), facts, cast(Any, {}), Path(), None, [])
    texts = [f"text {number}" for number in range(40)]
    (endpoint,) = (one for one in ENDPOINTS if one.path == "/translate")
    counts = []
    for beams in (1, 8):
        body = bodies.Translate(texts=texts, beams=beams)
        jobs = endpoint.jobs(served, body, 64)
        counts.append(len(jobs))
        results = [job.work.do([job.load])[0] for job in jobs]
        found = endpoint.answer(body, results)["translations"]
        assert [one[0]["text"] for one in found] == [text.upper() for text in texts]
    assert 1 < counts[0] < counts[1]


def in_steps(begun: threading.Event, gone_on: threading.Event) -> Callable[[list[Any]], list[Any]]:
    """Work that looks between its slices whether it may go on."""

    def do(loads: list[Any]) -> list[Any]:
        begun.set()
        while not gone_on.is_set():
            time.sleep(0.005)
            between_slices()
        return loads

    return do


def test_quick_work_passes_between_the_slices_of_long_work() -> None:
    worker = Worker(ServeSettings(threads=1))
    worker.start()
    begun, over = threading.Event(), threading.Event()
    long = Job(Work("long", in_steps(begun, over)), 1, 1, seconds=5.0)
    worker.submit([long])
    assert begun.wait(10)
    quick = Job(Work("quick", lambda loads: loads), 2, 1)
    worker.submit([quick])
    assert quick.result.result(10) == 2
    assert not long.result.done()
    other = Job(Work("other", lambda loads: loads), 3, 1, seconds=5.0)  # long, too: it waits
    worker.submit([other])
    time.sleep(0.2)
    assert not other.result.done()
    over.set()
    assert (long.result.result(10), other.result.result(10)) == (1, 3)
    worker.close()


def test_quick_work_may_need_gradients_while_long_work_reads_without() -> None:
    worker = Worker(ServeSettings(threads=1))
    worker.start()
    begun, over = threading.Event(), threading.Event()
    long = Job(Work("long", torch.inference_mode()(in_steps(begun, over))), 1, 1, seconds=5.0)

    def slope(loads: list[Any]) -> list[Any]:
        value = torch.tensor(3.0, requires_grad=True)
        (value * value).backward()
        return [value.grad.item() for _ in loads if value.grad is not None]

    worker.submit([long])
    assert begun.wait(10)
    quick = Job(Work("quick", slope), 2, 1)
    worker.submit([quick])
    assert quick.result.result(10) == 6.0
    assert not long.result.done()
    over.set()
    assert long.result.result(10) == 1
    worker.close()


def test_work_that_nobody_waits_for_is_stopped() -> None:
    worker = Worker(ServeSettings(threads=1))
    worker.start()
    begun = threading.Event()
    job = Job(Work("long", in_steps(begun, threading.Event())), 1, 1, seconds=5.0)
    worker.submit([job])
    assert begun.wait(10)
    job.is_abandoned = True
    with pytest.raises(Stopped):
        job.result.result(10)
    after = Job(Work("quick", lambda loads: loads), 2, 1)
    worker.submit([after])
    assert after.result.result(10) == 2
    worker.close()


def test_work_is_accepted_by_the_time_that_it_will_take() -> None:
    """The estimate is corrected by what the same kind of work has taken."""
    worker = Worker(ServeSettings(threads=1, timeout_s=10.0))
    worker.start()

    def job(seconds: float) -> AnyJob:
        return Job(Work(object(), lambda loads: loads, kind="map"), 1, 1, seconds)

    with pytest.raises(Problem, match="would take about 11 s, more than 10") as refused:
        worker.submit([job(6.0), job(5.0)])
    assert refused.value.status == 413
    known = job(8.0)
    worker.submit([known])
    known.result.result(10)
    deadline = time.monotonic() + 10  # the factor is noted after the answer is given
    while worker.seconds(job(1000.0)) > 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    worker.submit([job(11.0)])  # in truth it takes no time at all
    worker.close()


def test_a_long_queue_of_long_work_is_full() -> None:
    worker = Worker(ServeSettings(threads=1, timeout_s=10.0))
    worker.start()
    begun, over = threading.Event(), threading.Event()
    worker.submit([Job(Work("long", in_steps(begun, over)), 1, 1, seconds=6.0)])
    assert begun.wait(10)
    with pytest.raises(Problem) as refused:
        worker.submit([Job(Work("more", lambda loads: loads), 1, 1, seconds=6.0)])
    assert refused.value.status == 503
    over.set()
    worker.close()
