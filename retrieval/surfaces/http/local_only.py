"""A service without keys serves this machine alone: not pages of others that a browser on it has open."""

from __future__ import annotations

import re
from functools import lru_cache

from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.surfaces.http.answers import answer_to
from retrieval.surfaces.http.request_refusals import MisdirectedError
from retrieval.surfaces.listening import is_local

_HOST, _ORIGIN = b"host", b"origin"
_HOST_AND_PORT = rb"(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+)(:[0-9]*)?"
_WRITTEN = {_HOST: re.compile(_HOST_AND_PORT), _ORIGIN: re.compile(rb"https?://" + _HOST_AND_PORT)}
"""How a host is written, and nothing else: parsers do not agree on what ``a@b`` or ``a/b`` is."""

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
            found = [(name, value) for name, value in scope["headers"] if name in _REFUSALS]
            for name, refusal in _REFUSALS.items():
                values = [value for one, value in found if one == name]
                if len(values) > 1 or not (_is_local(name, values[0]) if values else name == _ORIGIN):
                    await answer_to(MisdirectedError(refusal), scope)(scope, receive, send)
                    return
        await self._app(scope, receive, send)


@lru_cache(maxsize=64)
def _is_local(name: bytes, value: bytes) -> bool:
    found = _WRITTEN[name].fullmatch(value)
    return found is not None and is_local(found["host"].strip(b"[]").decode("ascii"))
