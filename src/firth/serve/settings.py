"""How the server is set up, and its limits."""

from typing import Annotated

from pydantic import Field

from firth.core.config import Config, Positive

Seconds = Annotated[float, Field(gt=0, le=3600)]


class ServeSettings(Config):
    """Limits are small enough that one request cannot occupy the server for long."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000  # 0: any free one
    token: str | None = None  # asked for as a bearer token
    allowed_hosts: tuple[str, ...] = ()  # further names under which the server may be asked
    max_queue: Positive = 128  # requests that wait for the worker
    max_body_bytes: Positive = 1 << 20
    max_text_bytes: Positive = 100_000  # of all texts of a request, UTF-8
    max_texts: Positive = 512  # of a request
    batch_tokens: Positive = 4096  # about so many tokens of several requests go through a model together
    gather_s: Annotated[float, Field(ge=0, le=1)] = 0.002  # the longest wait for others to fill a batch
    timeout_s: Seconds = 30.0  # from acceptance to answer
    threads: Annotated[int, Field(ge=0, le=1024)] = 0  # of the worker; 0: as many as there are cores

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")
