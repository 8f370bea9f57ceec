"""A token that every request over HTTP has to bear, where one is set."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class BearerToken:
    """Lets requests through that bear ``Authorization: Bearer <token>``, and answers the others with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] == "http" and not self._is_borne(Headers(scope=scope).get("authorization", "")):
            refusal = JSONResponse(
                {"error": "a token is needed: send the header Authorization: Bearer <RETRIEVAL_MCP_TOKEN>"},
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_borne(self, header: str) -> bool:
        scheme, _, given = header.partition(" ")
        # In constant time, so that the token cannot be guessed byte by byte.
        return hmac.compare_digest(given.strip().encode(), self._token) and scheme.lower() == "bearer"
