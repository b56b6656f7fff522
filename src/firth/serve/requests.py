"""From the bytes of a request to the bytes of its answer: body, limits, worker, JSON."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from firth.core.errors import FirthError
from firth.serve.settings import Problem, ServeSettings, explain
from firth.serve.worker import Job, Worker

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
