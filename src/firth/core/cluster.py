"""Work that splits by data on a Ray cluster: numbered jobs in, results out in their order.

Nothing here is needed on one machine, and ray is imported only when ``--engine ray`` asks for it. A job whose worker or node was
lost is run again; so many are under way that no worker waits, and no more, so that memory does not grow with the input.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from firth.core.errors import FirthError

Found = TypeVar("Found")
_RETRIES = 3
_AHEAD = 2  # jobs under way for each core
ENGINES = ("local", "ray")


def check_engine(engine: str, address: str | None) -> bool:
    """Whether work goes to a cluster."""
    if engine not in ENGINES:
        raise FirthError(f"unknown engine '{engine}': choose local or ray")
    if address is not None and engine != "ray":
        raise FirthError("--address names a Ray cluster: write --engine ray with it")
    return engine == "ray"


class Cluster:
    """A running Ray cluster; without an address one is started on this machine for as long as this process runs."""

    def __init__(self, address: str | None = None, num_cpus: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise FirthError("--engine ray needs the package ray: pip install 'firth[cluster]'") from None
        self.ray: Any = ray
        if not ray.is_initialized():
            if address is not None:
                _require_answer(address)
            own: dict[str, Any] = {"num_cpus": num_cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            try:
                ray.init(
                    address=address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **({} if address else own),
                )
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise FirthError(
                    f"--address {address}: no Ray cluster answers there ({str(error).splitlines()[0]}); start one with: ray start --head"
                ) from None
        self.num_cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def put(self, value: object) -> Any:
        """Something that many jobs need, sent to each node once."""
        return self.ray.put(value)

    def call(self, function: Callable[..., Found], *arguments: object) -> Found:
        """One job, waited for."""
        return self._result(_remote(self.ray, function).remote(*arguments))

    def ordered(self, function: Callable[..., Found], jobs: Iterable[Sequence[object]]) -> Iterator[Found]:
        """``function(*job)`` for every job, in the order of the jobs."""
        remote, waiting = _remote(self.ray, function), deque[Any]()
        try:
            for job in jobs:
                waiting.append(remote.remote(*job))
                if len(waiting) >= _AHEAD * self.num_cpus:
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            for left in waiting:
                self.ray.cancel(left)

    def _result(self, reference: Any) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from None
            raise
        except errors.RayError as error:
            raise FirthError(
                f"a worker of the Ray cluster was lost {1 + _RETRIES} times ({type(error).__name__}); see ray status, then run the same command again"
            ) from None


def _require_answer(address: str) -> None:
    """Refuses an address where nothing listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        if address == "auto":
            return
        raise FirthError(
            f"--address {address}: not an address of a cluster; write HOST:PORT, or auto on one of its machines"
        )
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise FirthError(
            f"--address {address}: no Ray cluster answers there ({error}); start one with: ray start --head"
        ) from None


@cache
def _remote(ray: Any, function: Callable[..., Any]) -> Any:
    return ray.remote(num_cpus=1, max_retries=_RETRIES)(function)
