"""A service without keys serves this machine alone: not pages of others that a browser on it has open."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.surfaces.http.answers import answer_to
from retrieval.surfaces.http.request_refusals import MisdirectedError
from retrieval.surfaces.listening import is_local

_HOST, _ORIGIN = b"host", b"origin"
_REFUSALS = {
    _HOST: "this service serves this machine alone: call it as 127.0.0.1 or localhost",
    _ORIGIN: "this service serves this machine alone, and no pages of other hosts",
}


class LocalOnly:
    """Refuses requests that name another host than this machine, or come from a page of another.

    A page can have its own name lead to this machine's address; the name still stands in what its browser sends.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] == "http":
            found = {_HOST: b""} | {name: value for name, value in scope["headers"] if name in _REFUSALS}
            for name, value in found.items():
                if not _is_local(name, value):
                    await answer_to(MisdirectedError(_REFUSALS[name]), scope)(scope, receive, send)
                    return
        await self._app(scope, receive, send)


@lru_cache(maxsize=64)
def _is_local(name: bytes, value: bytes) -> bool:
    url = value.decode("latin-1")
    try:
        host = urlsplit(url if name == _ORIGIN else f"//{url}").hostname
    except ValueError:
        return False
    return host is not None and is_local(host)
