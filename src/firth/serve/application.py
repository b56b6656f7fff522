"""The HTTP application: all routes over the served models, their OpenAPI schema and the documentation page.

Most routes come from ``ENDPOINTS``; this file adds OpenAI's embeddings, the facts about models, runs and the server, and the
static files of the web page.
"""

import asyncio
import base64
import hashlib
import html
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from numpy.typing import NDArray
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaValue
from starlette.exceptions import HTTPException
from starlette.types import Message

import firth
from firth.core.errors import FirthError
from firth.serve import answers
from firth.serve import schemas as bodies
from firth.serve.answers import Failure
from firth.serve.endpoints import ENDPOINTS, AnyEndpoint, encode_jobs, spelling, stack
from firth.serve.finding import FINDING
from firth.serve.guard import MANUAL_POLICY, STILL_POLICY, Guard, Metrics, Problem, ServeSettings, send_problem
from firth.serve.inspection import INSPECTION, append_labels, entity_facts
from firth.serve.manual import Manual, manual_folder
from firth.serve.models import Served, ServedModels, read_page
from firth.serve.worker import RequestHandler, Worker

_FAILURES = {
    401: "no token, or a wrong one",
    403: "a request from a page of another site",
    404: "no such model",
    408: "the body came too slowly",
    413: "more than the server takes at once",
    415: "neither JSON nor, where images are read, an image",
    421: "asked under a name that is not the server's",
    422: "a body that makes no sense, or one that the model cannot answer",
    503: "too many requests are waiting; ask again after Retry-After seconds",
    504: "no answer in time",
}
_STYLE = (
    "body{max-width:60rem;margin:0 auto;padding:1rem}code,pre{font-family:var(--mono);font-size:.9em}"
    "h2{margin:1.6rem 0 .2rem}ul{margin:.3rem 0;padding-left:1.2rem}"
)


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """A route with its documentation. Bodies are read by the handler, so FastAPI does not know their schema."""

    method: str
    path: str
    doc: str
    answer: type[BaseModel] | None
    handler: Handler
    body: type[BaseModel] | None = None

    def add(self, app: FastAPI) -> None:
        """Adds the route with its OpenAPI description."""
        statuses: dict[int | str, dict[str, object]] = {
            status: {"description": why, "model": Failure}
            for status, why in _FAILURES.items()
            if self.body is not None or status in (401, 403, 404, 421)
        }
        if self.answer is not None:
            statuses[200] = {"model": self.answer, "description": "the answer"}
        extra: dict[str, object] = {}
        if "{name}" in self.path:
            names = re.findall(r"{(\w+)}", self.path)
            text = {"type": "string"}
            extra["parameters"] = [{"name": name, "in": "path", "required": True, "schema": text} for name in names]
        if self.body is not None:
            schema = {name: part for name, part in self._body_schema().items() if name != "$defs"}
            content: dict[str, object] = {"application/json": {"schema": schema}}
            if issubclass(self.body, bodies.Pictured):
                file = {"schema": {"type": "string", "format": "binary"}}
                content |= dict.fromkeys(bodies.IMAGE_TYPES, file)
            extra["requestBody"] = {"required": True, "content": content}
        app.add_api_route(
            self.path,
            self.handler,
            methods=[self.method],
            summary=self.doc,
            operation_id=re.sub(r"{\w+}_", "", self.path.strip("/").replace("/", "_")) or "page",
            response_class=Response,
            responses=statuses,
            openapi_extra=extra,
        )

    def components(self) -> dict[str, object]:
        """The schemas that the body refers to, by their names in the OpenAPI schema."""
        if self.body is None:
            return {}
        return {f"{self.body.__name__}_{name}": part for name, part in self._body_schema().get("$defs", {}).items()}

    def html(self) -> str:
        """A section of the documentation page: path, purpose, and the keys of the body."""
        schema = {} if self.body is None else self._body_schema()
        rows = "".join(
            f"<li><code>{html.escape(name)}</code>{_note(field, name in schema.get('required', []))}</li>"
            for name, field in schema.get("properties", {}).items()
        )
        title = f"<h2><code>{self.method} {html.escape(self.path)}</code></h2><p>{html.escape(self.doc)}</p>"
        return title + (f"<ul>{rows}</ul>" if rows else "")

    def _body_schema(self) -> JsonSchemaValue:
        assert self.body is not None
        return self.body.model_json_schema(ref_template=f"#/components/schemas/{self.body.__name__}_{{model}}")


def documentation_page(routes: Sequence[Route]) -> str:
    """The page at /docs, without any script, in the design of the page."""
    design = (files("firth.reports") / "design.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Firth: routes</title><style>{design}{_STYLE}</style>'
        '</head><body><h1>Firth</h1><p>Bodies and answers are JSON. The whole description: <a href="/openapi.json">'
        f"/openapi.json</a>.</p>{''.join(route.html() for route in routes)}</body></html>"
    )


def _note(field: Mapping[str, object], required: bool) -> str:
    """Whether a key is required or its default, and its description."""
    default = field.get("default")
    notes = ["required"] if required else [f"default {default}"] if default is not None else []
    if "description" in field:
        notes.append(str(field["description"]))
    return html.escape(" — " + "; ".join(notes)) if notes else ""


_OTHER_PATHS = (
    "/",
    "/docs",
    "/openapi.json",
    "/health",
    "/models",
    "/runs",
    "/v1/embeddings",
    "/v1/models",
    "/metrics",
    "/labelled",
)
VERSION = firth.__version__


class Server:
    """Serves models over HTTP; ``app`` is the ASGI application. Call ``start`` before the first request."""

    def __init__(self, models: ServedModels, settings: ServeSettings) -> None:
        self.models, self.settings = models, settings
        self.worker = Worker(
            settings,
            lambda jobs, seconds: self.metrics.batch(len(jobs), sum(job.num_tokens for job in jobs), seconds),
        )
        paths = [*_OTHER_PATHS, *(endpoint.path for endpoint in (*ENDPOINTS, *FINDING, *INSPECTION))]
        self.metrics = Metrics(paths, lambda: self.worker.num_waiting)
        self.handler = RequestHandler(settings, self.worker)
        self.appending = ThreadPoolExecutor(1)  # one after the other
        self.routes = FastAPI(title="Firth", version=VERSION, docs_url=None, redoc_url=None, openapi_url=None)
        self.routes.add_exception_handler(Problem, _problem)
        self.routes.add_exception_handler(HTTPException, _http_problem)
        self.documented: list[Route] = []
        self._add_abilities()
        self._add_openai()
        self._add_facts()
        self._add_runs()
        self._add_page()
        self.app = Guard(self.routes, settings, self.metrics, self.worker.refusal)

    def start(self) -> None:
        self.worker.start()

    def close(self) -> None:
        """Accepts no more requests."""
        self.worker.close()

    def finish(self) -> None:
        """Waits for the requests that were accepted."""
        self.worker.close()
        self.worker.join(self.settings.timeout_s)
        self.handler.close()
        self.appending.shutdown()

    # -- routes

    def _post(self, path: str, body: type[BaseModel], answer: type[BaseModel], doc: str, handler: Handler) -> None:
        self._add(Route("POST", path, doc, answer, handler, body))

    def _get(self, path: str, answer: type[BaseModel] | None, doc: str, handler: Handler) -> None:
        self._add(Route("GET", path, doc, answer, handler))

    def _add(self, route: Route) -> None:
        route.add(self.routes)
        self.documented.append(route)

    def _add_abilities(self) -> None:
        for endpoint in (*ENDPOINTS, *FINDING, *INSPECTION):
            self._post(endpoint.path, endpoint.body, endpoint.answers, endpoint.doc, self._handler(endpoint))

    def _handler(self, endpoint: AnyEndpoint) -> Handler:
        async def handler(request: Request) -> Response:
            body = await self.handler.read(request, endpoint.body)
            served = self.models.find(body.model, endpoint.ability, bool(body.images_read()))
            served.check_lengths(body.texts_read())
            jobs = endpoint.jobs(served, body, self.settings.batch_tokens)

            def answer(results: list[Any]) -> dict[str, object]:
                return {"model": served.name, **endpoint.answer(body, results), **_warned(served, body.texts_read())}

            if isinstance(body, bodies.Streamed) and body.stream:
                return await self.handler.stream(jobs, spelling(served), answer)
            return await self.handler.write(answer(await self.handler.do(jobs, request)), len(body.texts_read()))

        return handler

    def _add_openai(self) -> None:
        async def embeddings(request: Request) -> Response:
            body = await self.handler.read(request, bodies.Embeddings)
            served = self.models.find(body.model, "encode")
            texts = body.texts_read()
            served.check_lengths(texts)
            jobs = encode_jobs(served, texts, -1, None, self.settings.batch_tokens)
            found = stack(await self.handler.do(jobs, request))
            if body.dimensions is not None and body.dimensions > found.shape[1]:
                raise Problem(422, f"dimensions: the model '{served.name}' has {found.shape[1]}: ask for fewer")
            vectors = _unit_rows(found[:, : body.dimensions])
            rows: list[object] = (
                [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
                if body.encoding_format == "base64"
                else vectors.tolist()
            )
            count = sum(job.num_tokens for job in jobs)
            answer = {
                "object": "list",
                "data": [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)],
                "model": served.name,
                "usage": {"prompt_tokens": count, "total_tokens": count},
                **_warned(served, texts),
            }
            return await self.handler.write(answer, len(texts))

        async def models(request: Request) -> Response:
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "firth"} for name in self.models.by_name]
            return await self.handler.write({"object": "list", "data": data})

        doc = "OpenAI's embeddings: vectors of length 1, as a sentence model's modules say, else by the mean of the last layer."
        self._post("/v1/embeddings", bodies.Embeddings, answers.EmbeddingsAnswer, doc, embeddings)
        self._get("/v1/models", answers.ModelRows, "OpenAI's list of models.", models)

    def _add_facts(self) -> None:
        async def health(request: Request) -> Response:
            return await self.handler.write({"status": "ok", "version": VERSION, "queue": self.worker.num_waiting})

        async def models(request: Request) -> Response:
            kept = None if self.settings.labels is None else self.settings.labels.name
            facts = [one.facts.replace(labels_file=kept) for one in self.models.by_name.values()]
            found = [one.model_dump() for one in facts]
            return await self.handler.write({"models": found})

        async def labelled(request: Request) -> Response:
            body, path = await self.handler.read(request, bodies.Labelled), self.settings.labels
            if path is None:
                raise Problem(422, "labels are not kept here: start firth serve with --labels FILE.tsv")
            rows = [(row.text, row.label) for row in body.rows]
            try:
                await asyncio.get_running_loop().run_in_executor(self.appending, append_labels, path, rows)
            except FirthError as error:
                raise Problem(422, str(error)) from None
            return await self.handler.write({"file": path.name, "rows": len(rows)})

        async def metrics(request: Request) -> Response:
            return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

        self._get("/health", answers.Health, "Whether the server is up, and how many requests wait.", health)
        self._get("/models", answers.Models, "What is served, and what each model can do.", models)
        doc = "Appends labels to the table that firth serve --labels names."
        self._post("/labelled", bodies.Labelled, answers.Appended, doc, labelled)
        self._get("/metrics", None, "Counts and times for Prometheus.", metrics)

    def _add_runs(self) -> None:
        async def runs(request: Request) -> Response:
            found = await asyncio.get_running_loop().run_in_executor(None, self.models.rows)
            return await self.handler.write({"runs": found})

        async def report(request: Request) -> Response:
            one = self.models.by_name.get(request.path_params["name"])
            html = None if one is None else one.report
            if html is None:
                raise Problem(404, "there is no report of that name")
            return Response(html, media_type="text/html", headers={"content-security-policy": STILL_POLICY})

        async def dev(request: Request) -> Response:
            one = self.models.by_name.get(request.path_params["name"])
            if one is None or not one.dev:
                raise Problem(404, "there are no dev examples of that name")
            return await self.handler.write({"name": one.name, "examples": one.dev_rows}, len(one.dev))

        async def entities(request: Request) -> Response:
            one = self.models.by_name.get(request.path_params["name"])
            found = None if one is None else entity_facts(one.dev)
            if found is None:
                raise Problem(404, "there are no dev examples with entities of that name")
            return await self.handler.write({"name": request.path_params["name"], **found})

        async def dev_image(request: Request) -> Response:
            one, number = (request.path_params[name] for name in ("name", "number"))
            served, loop = self.models.by_name.get(one), asyncio.get_running_loop()
            found = None if served is None else await loop.run_in_executor(None, served.dev_image, number)
            if found is None:
                raise Problem(404, "there is no such image any more")
            return Response(found, media_type="image/png")

        self._get("/runs", answers.Runs, "All runs: what they are made from, settings, curves and scores.", runs)
        self._get("/runs/{name}/dev", answers.DevExamples, "Dev examples of a task with their predictions.", dev)
        doc = "How well a tagger finds each type of entity in the dev examples, and its errors by kind."
        self._get("/runs/{name}/entities", answers.Entities, doc, entities)
        doc = "One of them, where they are images, as a small PNG."
        self._get("/runs/{name}/dev/{number}/image", None, doc, dev_image)
        self._get("/runs/{name}/report", None, "The report of a run, a page of HTML.", report)

    def _add_page(self) -> None:
        manual = Manual(manual_folder())
        page = {
            name: (data, kind, f'"{hashlib.sha256(data).hexdigest()[:16]}"')
            for name, (data, kind) in read_page(bool(manual)).items()
        }
        still = {"content-security-policy": STILL_POLICY}

        @cache
        def schema() -> dict[str, object]:
            found = self.routes.openapi()
            parts = found.setdefault("components", {}).setdefault("schemas", {})
            for route in self.documented:
                parts.update(route.components())
            return found

        async def static(request: Request) -> Response:
            found = page.get(request.path_params.get("name", "index.html"))
            if found is None:
                if "name" not in request.path_params:
                    return RedirectResponse("/docs")
                raise Problem(404, "the page has no such file")
            data, kind, tag = found
            headers = {"etag": tag, "cache-control": "no-cache"}
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
            return Response(data, media_type=kind, headers=headers)

        async def guide(request: Request) -> Response:
            found = manual.read(request.path_params["name"])
            if found is None:
                raise Problem(404, "the manual has no such page")
            return Response(found[0], media_type=found[1], headers={"content-security-policy": MANUAL_POLICY})

        async def openapi(request: Request) -> Response:
            return await self.handler.write(schema())

        async def docs(request: Request) -> Response:
            return Response(documentation_page(self.documented), media_type="text/html", headers=still)

        for path, handler in {
            "/": static,
            "/static/{name:path}": static,
            "/manual/{name:path}": guide,
            "/openapi.json": openapi,
            "/docs": docs,
        }.items():
            self.routes.add_route(path, handler, ["GET"], include_in_schema=False)


def _warned(served: Served, texts: list[str]) -> dict[str, object]:
    """``warning``, where the model does not know these texts."""
    found = served.warning(texts)
    return {} if found is None else {"warning": found}


def _unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row divided by its norm; rows of zeros stay."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms), np.float32)


async def _problem(request: Request, error: Exception) -> Response:
    """A ``Problem`` as a response."""
    assert isinstance(error, Problem)
    sent: list[Message] = []

    async def keep(message: Message) -> None:
        sent.append(message)

    await send_problem(error, request.scope, keep)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Response(sent[1]["body"], error.status, headers)


async def _http_problem(request: Request, error: Exception) -> Response:
    """Starlette's own errors: no such route, or another method."""
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("allow") or (error.headers or {}).get("Allow")
    sentence = {
        404: "there is no such route: see /docs",
        405: f"this route takes {allowed or 'another method'} only",
    }.get(error.status_code, str(error.detail))
    response = await _problem(request, Problem(error.status_code, sentence))
    if allowed:
        response.headers["allow"] = allowed
    return response
