"""Bodies in JSON, read strictly: the framework takes UTF-16, members that stand twice, and what is no number."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from retrieval.domain.json_text import JSONTextError, json_of
from retrieval.surfaces.http.request_refusals import MalformedBodyError


class JSONBodies(APIRoute):
    """A route whose body is read by ``json_of``; ``answers.on_status`` tells what is wrong with it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return handle


class _StrictRequest(Request):
    async def json(self) -> Any:
        """What the body says. Raises ``MalformedBodyError``, which the framework wraps."""
        try:
            return json_of(await self.body())
        except JSONTextError as error:
            raise MalformedBodyError(f"the body cannot be read: {error}") from None
