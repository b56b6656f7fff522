"""What the server counts, for Prometheus."""

from collections.abc import Callable, Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Of one server. Paths that it does not know count as one, so that nobody can fill its memory with names."""

    def __init__(self, paths: Collection[str], waiting: Callable[[], float]) -> None:
        self.paths = frozenset(paths)
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "firth_requests", "Requests by route and status.", ("route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "firth_request_seconds",
            "From request to answer, by route.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.batches = Histogram(
            "firth_batch_requests",
            "Requests that went through a model together.",
            buckets=_SIZES,
            registry=self.registry,
        )
        self.busy = Counter("firth_worker_seconds", "Time that the worker has worked.", registry=self.registry)
        self.tokens = Counter("firth_tokens", "Tokens that were read, about.", registry=self.registry)
        Gauge("firth_queue", "Requests that wait for the worker.", registry=self.registry).set_function(waiting)

    def request(self, path: str, status: int, seconds: float) -> None:
        route = path if path in self.paths else "/static" if path.startswith("/static/") else "other"
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def batch(self, num_requests: int, num_tokens: int, seconds: float) -> None:
        self.batches.observe(num_requests)
        self.tokens.inc(num_tokens)
        self.busy.inc(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
