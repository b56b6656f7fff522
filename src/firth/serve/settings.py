"""How the server is set up, and its limits."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from firth.core.config import Config, Positive
from firth.core.errors import nearest

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


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None, close: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.retry_after_s = retry_after_s
        self.close = close  # whether the connection is of no further use


def explain(body: type[BaseModel], error: ValidationError) -> str:
    """The first thing that is wrong with a body."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        return f"unknown key '{place[:60]}': {nearest(place, list(body.model_fields))}"
    if first["type"] == "json_invalid":
        return f"the body is not valid JSON ({first['ctx']['error']})"
    message = str(first["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{place}: {message}" if place else message


def as_json(sentence: str, status: int, openai: bool) -> dict[str, Any]:
    """Firth's shape of an error, or OpenAI's below /v1."""
    if not openai:
        return {"error": sentence}
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}
