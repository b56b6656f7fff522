"""The OpenAPI description of the routes, and a page that shows it without any script."""

import html
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel

from firth.serve.schemas import Failure

_FAILURES = {
    401: "no token, or a wrong one",
    403: "a request from a page of another site",
    404: "no such model",
    408: "the body came too slowly",
    413: "more than the server takes at once",
    415: "not JSON",
    421: "asked under a name that is not the server's",
    422: "a body that makes no sense, or one that the model cannot answer",
    503: "too many requests are waiting; ask again after Retry-After seconds",
    504: "no answer in time",
}
_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}"
    "code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow-x:auto;padding:.6rem;border:1px solid #8886;"
    "border-radius:.4rem}summary{cursor:pointer}h2{font-size:1.1rem;margin:1.6rem 0 .2rem}"
)


def describe(
    routes: FastAPI,
    method: str,
    path: str,
    doc: str,
    answer: type[BaseModel] | None,
    handler: Callable[[Request], Awaitable[Response]],
    body: type[BaseModel] | None = None,
) -> None:
    """Adds a route with its description. Bodies are read by the handler, so their schema is given here."""
    failures: dict[int | str, dict[str, Any]] = {
        status: {"description": why, "model": Failure}
        for status, why in _FAILURES.items()
        if body is not None or status in (401, 403, 404, 421)
    }
    if answer is not None:
        failures[200] = {"model": answer, "description": "the answer"}
    extra: dict[str, Any] = {}
    if "{name}" in path:
        extra["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if body is not None:
        schema = body.model_json_schema(ref_template=f"#/components/schemas/{body.__name__}_{{model}}")
        parts = schema.pop("$defs", {})
        routes.state.parts = getattr(routes.state, "parts", {}) | {
            f"{body.__name__}_{name}": part for name, part in parts.items()
        }
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    routes.add_api_route(
        path,
        handler,
        methods=[method],
        summary=doc,
        operation_id=path.strip("/").replace("/", "_").replace("{name}_", "") or "page",
        response_class=Response,
        responses=failures,
        openapi_extra=extra,
    )


def whole(routes: FastAPI) -> dict[str, Any]:
    """The description of everything."""
    found: dict[str, Any] = routes.openapi()
    found.setdefault("components", {}).setdefault("schemas", {}).update(getattr(routes.state, "parts", {}))
    return found


def documentation_page(schema: dict[str, Any]) -> str:
    """Routes, what they take and what they give."""
    parts = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            rows = "".join(
                f"<li><code>{html.escape(name)}</code>{_note(name, field, body)}</li>"
                for name, field in body.get("properties", {}).items()
            )
            parts.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{html.escape(route.get('summary', ''))}</p>"
                + (f"<ul>{rows}</ul>" if rows else "")
            )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Firth: routes</title><style>{_STYLE}</style>'
        '</head><body><h1>Firth</h1><p>Bodies and answers are JSON. The whole description: <a href="/openapi.json">'
        f"/openapi.json</a>.</p>{''.join(parts)}</body></html>"
    )


def _note(name: str, field: dict[str, Any], body: dict[str, Any]) -> str:
    """Needed or default, and what is said of it."""
    default = field.get("default")
    notes = ["needed"] if name in body.get("required", []) else [f"default {default}"] if default is not None else []
    if "description" in field:
        notes.append(field["description"])
    return html.escape(" — " + "; ".join(notes)) if notes else ""
