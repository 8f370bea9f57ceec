"""The pages for a browser: what the service is, and a page to try it out, which works without a network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

_Answer = Callable[[Request], Awaitable[Response]]

FRONT, DOCS = "/", "/docs"

_ASSETS = {
    f"{DOCS}/swagger-ui-bundle.js": "text/javascript",
    f"{DOCS}/swagger-ui.css": "text/css",
    f"{DOCS}/favicon.png": "image/png",
}
"""The files that the page loads, by path, with their types; the last part is the name of the file in the package."""

FRONT_PATHS = frozenset({FRONT, DOCS, *_ASSETS})
"""Whoever asks for these needs no key."""

_DAY = "public, max-age=86400"


def add_front(app: FastAPI, *, needs_key: bool) -> None:
    """Answer under ``FRONT_PATHS``; none of them is an operation of the description."""
    app.router.routes.extend([Route(FRONT, _front(app, needs_key=needs_key)), Route(DOCS, _docs(app))])
    # The package has no more of interest than the scripts that are loaded from elsewhere otherwise.
    folder = Path(str(files("fastapi_offline"))) / "static"
    for path, media_type in _ASSETS.items():
        app.router.routes.append(Route(path, _asset(folder / path.rpartition("/")[2], media_type)))


def _front(app: FastAPI, *, needs_key: bool) -> _Answer:
    key = "a key in the header Authorization: Bearer KEY, made with: retrieval keys create NAME"

    async def answer(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        return JSONResponse(
            {
                "service": app.title,
                "version": app.version,
                "docs": f"{address}{DOCS}",
                "openapi": f"{address}{app.openapi_url}",
                "collections": f"{address}/v1/collections",
                "search": f"POST {address}/v1/collections/{{name}}/search",
                "ready": f"{address}/readyz",
                "needs": key if needs_key else "no key; it serves this machine alone",
            }
        )

    return answer


def _docs(app: FastAPI) -> _Answer:
    async def answer(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        script, style, icon = (f"{root}{path}" for path in _ASSETS)
        return get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=app.title,
            swagger_js_url=script,
            swagger_css_url=style,
            swagger_favicon_url=icon,
        )

    return answer


def _asset(file: Path, media_type: str) -> _Answer:
    async def answer(_request: Request) -> Response:
        return FileResponse(file, media_type=media_type, headers={"Cache-Control": _DAY})

    return answer
