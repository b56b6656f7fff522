"""Settings of the server, its errors, its metrics, and the ASGI middleware around the application.

``Guard`` checks host, origin and token of every request before the application sees it, refuses requests while the queue
is full, and adds the security headers. ``Problem`` is an error that becomes a JSON answer; ``Metrics`` counts for Prometheus.
"""

import hmac
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firth.core.config import Config, Positive
from firth.core.errors import nearest

Seconds = Annotated[float, Field(gt=0, le=3600)]


class ServeSettings(Config):
    """Address and limits. The limits are small enough that one request cannot occupy the server for long."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000  # 0: any free one
    token: str | None = None  # required as a bearer token
    allowed_hosts: tuple[str, ...] = ()  # further host names that requests may use
    max_queue: Positive = 128  # requests that wait for the worker
    max_body_bytes: Positive = 1 << 20
    max_image_bytes: Positive = 10 << 20  # of an image that is the body
    max_text_bytes: Positive = 100_000  # of all texts of a request, UTF-8
    max_texts: Positive = 512  # of a request
    batch_tokens: Positive = 4096  # estimated tokens of the requests in one batch
    gather_s: Annotated[float, Field(ge=0, le=1)] = 0.002  # the longest wait for others to fill a batch
    timeout_s: Seconds = 30.0  # from acceptance to answer
    threads: Annotated[int, Field(ge=0, le=1024)] = 0  # of the worker; 0: one per core
    labels: Path | None = None  # the table to which labels given on the page are appended

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


class Problem(Exception):
    """An error with its HTTP status; the server answers it as JSON."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None, close: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.retry_after_s = retry_after_s
        self.close = close  # whether the connection must be closed


def explain(body: type[BaseModel], error: ValidationError) -> str:
    """The first validation error of a body, as one sentence."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        return f"unknown key '{place[:60]}': {nearest(place, list(body.model_fields))}"
    if first["type"] == "json_invalid":
        return f"the body is not valid JSON ({first['ctx']['error']})"
    message = str(first["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{place}: {message}" if place else message


def _as_json(sentence: str, status: int, openai: bool) -> dict[str, object]:
    """Firth's format of an error, or OpenAI's for paths below /v1."""
    if not openai:
        return {"error": sentence}
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Of one server. All unknown paths share one label, so that requests cannot fill the memory with labels."""

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
        self.tokens = Counter("firth_tokens", "Tokens that were read (an estimate).", registry=self.registry)
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


PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
STILL_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
"""For pages without any script: reports, documentation."""
MANUAL_POLICY = STILL_POLICY.replace("img-src data:", "img-src 'self'")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"SAMEORIGIN"),
]
# answered without a token, like the page's own files and the manual, which contain no data
_OPEN = ("/", "/health", "/favicon.ico")


class Guard:
    """ASGI middleware: checks each request and adds security headers to each answer."""

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, metrics: Metrics, full: Callable[[], Problem | None] = lambda: None
    ) -> None:
        """``full`` returns the reason why no work is accepted at the moment; such a request is refused before its body is
        read."""
        self.app, self.settings, self.metrics, self.full = app, settings, metrics, full
        self.num_inside = 0
        names = {"localhost", "127.0.0.1", "::1", settings.host, *settings.allowed_hosts}
        self.names = {name.lower().strip("[]") for name in names} if settings.is_local else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                policy = (b"content-security-policy", PAGE_POLICY.encode())
                more = [header for header in (policy, *_HEADERS) if header[0] not in present]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        self.num_inside += 1
        try:
            self._check(scope)
            await self.app(scope, receive, send_with_headers)
        except Problem as problem:
            await send_problem(problem, scope, send_with_headers)
        finally:
            self.num_inside -= 1
            self.metrics.request(scope["path"], status, time.perf_counter() - begun)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if self.names is not None and _name(host) not in self.names:
            raise Problem(
                421, "this server does not answer to that name: ask it as localhost, or start it with --allow-host"
            )
        origin = headers.get(b"origin", b"").decode("latin-1")
        foreign = headers.get(b"sec-fetch-site", b"") == b"cross-site" and scope["method"] != "GET"
        if foreign or (origin and urlsplit_host(origin) != host.lower()):
            raise Problem(403, "requests from pages of other sites are not answered")
        self._check_token(scope["path"], headers.get(b"authorization", b""))
        if scope["method"] != "GET":
            problem = self.full()
            if problem is not None:
                raise problem
        if self.num_inside > 2 * self.settings.max_queue + 64:
            raise Problem(503, "too many requests at once: ask again in a moment", 1, close=True)

    def _check_token(self, path: str, given: bytes) -> None:
        if self.settings.token is None or path in _OPEN or path.startswith(("/static/", "/manual/")):
            return
        kind, _, token = given.partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.settings.token.encode()):
            raise Problem(401, "this server requires a token: send it as 'Authorization: Bearer TOKEN'")


def _name(host: str) -> str:
    """The host name without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def urlsplit_host(origin: str) -> str:
    """Host and port of an origin; ``null`` where there is none."""
    try:
        return urlsplit(origin).netloc.lower() or "null"
    except ValueError:
        return "null"


async def send_problem(problem: Problem, scope: Scope, send: Send) -> None:
    """Sends the complete answer for an error."""
    body = to_json(_as_json(problem.sentence, problem.status, scope["path"].startswith("/v1/")))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", str(problem.retry_after_s).encode()))
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
