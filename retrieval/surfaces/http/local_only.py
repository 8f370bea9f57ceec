"""A service without keys serves this machine alone: not pages of others that a browser on it has open."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.surfaces.http.answers import answer_to
from retrieval.surfaces.http.request_refusals import MisdirectedError
from retrieval.surfaces.listening import is_local


class LocalOnly:
    """Refuses requests that name another host than this machine, or come from a page of another.

    A page can have its own name lead to this machine's address; the name still stands in what its browser sends.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] == "http" and (refusal := _refusal(Headers(scope=scope))):
            await answer_to(MisdirectedError(refusal), scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refusal(headers: Headers) -> str:
    if not is_local(_host(f"//{headers.get('host', '')}")):
        return "this service serves this machine alone: call it as 127.0.0.1 or localhost"
    origin = headers.get("origin")
    if origin is not None and not is_local(_host(origin)):
        return "this service serves this machine alone, and no pages of other hosts"
    return ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
