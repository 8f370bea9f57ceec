"""Large requests leave room for the others: few are answered at a time, and their bodies are read beside the loop.

The framework reads a body's JSON, and what the route's model makes of it, on the event loop. A route of this class
gives it the model's instance instead, which it takes as it is; small bodies go the framework's way.

A large search waits for its place: what all of them hold at once is looked at by the garbage collector while nothing
else runs, and each has a connection. What is written waits for nothing but its own reading.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from retrieval.adapters.aside import LONG_BODY, aside, read_json
from retrieval.surfaces.http.limits import is_write
from retrieval.surfaces.http.request_refusals import MalformedBodyError

MOST_ERRORS = 100
"""Places of a body that are told to be wrong; each costs as much as a hit."""


LARGE_AT_ONCE = 4
"""Large searches that one process answers at the same time."""

LARGE_PAGE = 100
"""From so many hits on a search is large: each takes some 20 µs to write, and a text may have megabytes."""

_HAS_PLACE = "has_place_of_large"


@asynccontextmanager
async def place_of_large(request: Request, *, is_large: bool) -> AsyncIterator[None]:
    """Wait for one of the few places where the request is large and has none yet."""
    if not is_large or getattr(request.state, _HAS_PLACE, False):
        yield
        return
    places: asyncio.Semaphore = request.app.state.large
    async with places:
        setattr(request.state, _HAS_PLACE, True)
        yield


class LargeBodies(APIRoute):
    """A route that reads large bodies aside."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handler = super().get_route_handler()
        kind = self.body_field.field_info.annotation if self.body_field else None
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return handler

        async def handle(request: Request) -> Response:
            read = _ReadAside(request, kind)
            try:
                is_large = not is_write(request.scope) and len(await read.body()) >= LONG_BODY
                async with place_of_large(request, is_large=is_large):
                    return await handler(read)
            except _RefusedBodyError as refused:
                raise refused.error from None

        return handle


class _RefusedBodyError(HTTPException):
    """Carries an error past the framework, which would take it for JSON that is none."""

    def __init__(self, error: Exception) -> None:
        super().__init__(422)
        self.error = error


class _ReadAside(Request):
    """The request, its body read by a model."""

    def __init__(self, request: Request, kind: type[BaseModel]) -> None:
        super().__init__(request.scope, request.receive)
        self._kind = kind

    async def json(self) -> Any:
        """What the framework validates: an instance of the model where the body is large."""
        body = await self.body()
        return await aside(lambda: _read(body, self._kind), is_long=len(body) >= LONG_BODY)


def _read(body: bytes, kind: type[BaseModel]) -> Any:
    if len(body) < LONG_BODY:
        return json.loads(body)
    sent = read_json(body)
    try:
        return kind.model_validate(sent, from_attributes=True)  # as the framework does
    except ValidationError as error:
        raise _RefusedBodyError(_told(error, sent)) from None
    except Exception as error:  # noqa: BLE001 - an application's model may raise errors of its own
        raise _RefusedBodyError(error) from None


def _told(error: ValidationError, sent: Any) -> Exception:
    if (wrong := error.error_count()) > MOST_ERRORS:
        return MalformedBodyError(
            f"the body is wrong in {wrong:,} places, too many to tell; try with a smaller one, and see /openapi.json"
        )
    found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]
    return RequestValidationError(found, body=sent)
