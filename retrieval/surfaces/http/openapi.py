"""The OpenAPI description of the service with additions for every operation, and the pages for browsers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from retrieval.surfaces.http.models import A_RETRIEVAL
from retrieval.surfaces.http.problems import MEDIA_TYPE

Json = dict[str, Any]

_METHODS = ("get", "put", "post", "delete", "patch")

_ANYWHERE = ("400", "408", "413", "421", "500", "503", "504")
"""Errors of every route."""

_EVERYWHERE = (*_ANYWHERE, "401", "403", "415", "422", "429", "502")
"""Errors of every operation that needs a key."""

_STATUSES = (*_EVERYWHERE, "404", "409", "412")
"""The statuses of all errors."""

_RETRIED = ("429", "503")
"""Errors with the header ``Retry-After``."""

_PROBLEM_SCHEMA: Json = {
    "title": "Problem",
    "description": "A problem document (RFC 9457). docs/reference/errors.md lists the types.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference", "description": "The type of the problem."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, and what to do next."},
        "instance": {"type": "string", "description": "The path of the request, percent-encoded."},
        "request_id": {"type": "string", "description": "The id of the request in the service's log."},
        "item_id": {"type": "string", "description": "The item that cannot be stored, if there are several."},
        "errors": {
            "type": "array",
            "description": "The invalid places.",
            "items": {
                "type": "object",
                "properties": {
                    "pointer": {"type": "string", "description": "In the body, a JSON pointer."},
                    "parameter": {"type": "string"},
                    "in": {"type": "string", "enum": ["path", "query", "header", "cookie"]},
                    "detail": {"type": "string"},
                },
                "required": ["detail"],
            },
        },
    },
}

_SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}

TAGS = [
    {"name": "collections", "description": "Named sets of items."},
    {"name": "items", "description": "The stored and searchable units."},
    {"name": "documents", "description": "Long texts and files, stored as chunks."},
    {"name": "memories", "description": "Memories of conversations."},
    {"name": "search", "description": "Finding items by meaning and by words."},
    {"name": "feedback", "description": "Verdicts on hits."},
    {"name": "retrievals", "description": "Recorded searches."},
    {"name": "profiles", "description": "Settings of a collection's searches."},
    {"name": "figures", "description": "The state of the service, and figures of searches and feedback."},
    {"name": "tickets", "description": "Similar historical tickets for a new one."},
    {"name": "health", "description": "Whether the service can serve."},
]

ABOUT = (
    "Correct, fast and explainable search on PostgreSQL alone. Errors are problem documents (RFC 9457). Every "
    "operation under /v1 and /v2 needs a key, which determines the tenant."
)


class Page(Route):
    """A route that is no operation. It names itself in the request's scope, as FastAPI's routes do, for the logs."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the request is for this page, and what to add to its scope."""
        match, added = super().matches(scope)
        return match, {**added, "route": self} if added else added


class DescribedAPI(FastAPI):
    """An application that describes API keys and problem documents, in place of FastAPI's validation errors."""

    def openapi(self) -> Json:
        """The OpenAPI description."""
        if self.openapi_schema is None:
            _complete_all(super().openapi())
        return super().openapi()

    def setup(self) -> None:
        """Add the description's own route; a thread makes the description, because that takes up to a second."""

        async def answer(_request: Request) -> Response:
            body = await asyncio.to_thread(lambda: to_json(self.openapi()))
            return Response(body, media_type="application/json")

        self.router.routes.append(Page(str(self.openapi_url), answer, include_in_schema=False))


def operations(described: Json) -> Iterator[tuple[str, str, Json]]:
    """Path, method and description of each operation."""
    for path, item in described["paths"].items():
        for method in _METHODS:
            if method in item:
                yield path, method, item[method]


_SAMPLES: Json = {
    "id": "T-17", "item_id": "T-17", "title": "Connection timeout",
    "text": "The database refuses connections at peak hours.", "query": "connection timeout", "collection": "tickets",
    "name": "tickets", "actor": "kim", "session": "s-17", "note": "", "document": "handbook/leave.md", "leg": "lexical",
    "fusion": "rrf", "tags": ["database"], "notes": [], "metadata": {"priority": "High"},
    "where": {"priority": {"in": ["High"]}},
    "profile": {"legs": {"dense": 0.6, "lexical": 0.4}, "fusion": {"kind": "weighted_sum"}},
    "retrieval_id": A_RETRIEVAL, "next": None,
}  # fmt: skip
"""Values of fields in the examples of responses, by name."""

_OF_TYPES: Json = {"string": "…", "integer": 1, "number": 0.5, "boolean": True}


def _example(schema: Json, schemas: Json, name: str = "") -> Any:
    """An example of a value of that schema, for a field of that name."""
    if "$ref" in schema:
        return _example(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    alternatives = schema.get("anyOf", [schema])
    kind = alternatives[0].get("type")
    if name in _SAMPLES and (not isinstance(_SAMPLES[name], str) or kind == "string"):
        return _SAMPLES[name]
    if "anyOf" in schema:
        return _example(alternatives[0], schemas, name)
    if choices := schema.get("enum") or [schema[word] for word in ("const", "default") if word in schema]:
        return choices[0]
    if kind == "object":
        return {part: _example(inner, schemas, part) for part, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [_example(schema["items"], schemas)]
    return "2026-05-31T12:00:00+00:00" if kind == "string" and name.endswith("_at") else _OF_TYPES.get(kind)


def _complete_all(described: Json) -> None:
    parts = described.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM_SCHEMA
    parts["securitySchemes"] = _SCHEMES
    parts["responses"] = {f"Problem{status}": _problem(status) for status in _STATUSES}
    for path, method, operation in operations(described):
        for status, response in operation["responses"].items():
            content = response.get("content", {}).get("application/json")
            if status < "300" and content is not None:
                schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
                schema.setdefault("examples", [_example(schema, schemas)])
        if path.startswith(("/v1/", "/v2/")):
            operation["security"] = [{"bearer": []}, {"header": []}]
            _complete(operation["responses"], _statuses(path, method))
        else:
            _complete(operation["responses"], [*_ANYWHERE, *(["401", "403"] if path == "/metrics" else [])])


def _statuses(path: str, method: str) -> list[str]:
    in_bodies = ("/feedback", "/feedback/batch", "/outcome", "/doctor")
    names_things = "{" in path or path.startswith("/v2/") or path.endswith(in_bodies)
    return [*_EVERYWHERE, *(["404"] if names_things else []), *(["409"] if method != "get" else [])]


def _complete(responses: Json, statuses: list[str]) -> None:
    """Describe each error as a problem document, in addition to the form that the operation declares, if any."""
    declared = [status for status in responses if status >= "400"]
    for status in dict.fromkeys([*declared, *sorted(statuses)]):
        own = responses.get(status, {}).get("content", {}).get("application/json", {})
        if own and not own["schema"].get("$ref", "").endswith("/HTTPValidationError"):
            responses[status]["content"] |= _PROBLEM_CONTENT
        else:
            responses[status] = {"$ref": f"#/components/responses/Problem{status}"}


_PROBLEM_CONTENT: Json = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}


def _problem(status: str) -> Json:
    headers = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    response = {"description": HTTPStatus(int(status)).phrase, "content": _PROBLEM_CONTENT}
    return {**response, "headers": headers} if status in _RETRIED else response


FRONT, DOCS = "/", "/docs"

_ASSETS = tuple(f"{DOCS}/{name}" for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"))
"""The files that the page loads; the last part of the path is the name in the package."""

CONSOLE = "/console"
SIGN_IN = f"{CONSOLE}/sign-in"
CONSOLE_FILES = frozenset(f"{CONSOLE}/static/{name}" for name in ("console.css", "console.js", "htmx.min.js"))

FRONT_PATHS = frozenset({FRONT, DOCS, *_ASSETS, SIGN_IN, *CONSOLE_FILES})
"""Paths that need no key."""


def add_front(app: FastAPI, *, needs_key: bool, has_console: bool) -> None:
    """Add the pages ``/`` and ``/docs``, which are not in the OpenAPI description."""
    key = "a key in the header Authorization: Bearer KEY, made with: retrieval keys create NAME"
    script, style, icon = _ASSETS

    async def front(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        if has_console and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(CONSOLE, 303)
        console = {"console": f"{address}{CONSOLE}"} if has_console else {}
        return JSONResponse(
            {
                "service": app.title,
                "version": app.version,
                **console,
                "docs": f"{address}{DOCS}",
                "openapi": f"{address}{app.openapi_url}",
                "collections": f"{address}/v1/collections",
                "search": f"POST {address}/v1/collections/{{name}}/search",
                "ready": f"{address}/readyz",
                "needs": key if needs_key else "no key; it accepts only requests from this machine",
            }
        )

    async def docs(_request: Request) -> Response:
        return get_swagger_ui_html(
            openapi_url=str(app.openapi_url),
            title=app.title,
            swagger_js_url=script,
            swagger_css_url=style,
            swagger_favicon_url=icon,
        )

    app.router.routes.extend([Page(FRONT, front), Page(DOCS, docs)])
    # This package contains the scripts that FastAPI's page would load from another host.
    folder = Path(str(files("fastapi_offline"))) / "static"
    app.router.routes.extend(file_page(path, folder / path.rpartition("/")[2]) for path in _ASSETS)


def file_page(path: str, file: Path) -> Page:
    """The file at that path; a browser checks whether its copy is current, because a new file has the same name."""

    async def answer(_request: Request) -> Response:
        return FileResponse(file, headers={"Cache-Control": "no-cache"})

    return Page(path, answer)
