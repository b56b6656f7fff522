"""What a client is told when something is wrong: a status and one sentence."""

from typing import Any

from pydantic import BaseModel, ValidationError

from firth.core.errors import nearest


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
