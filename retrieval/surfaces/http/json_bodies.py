"""Bodies in JSON, read strictly, and large ones beside the loop.

The framework takes UTF-16, members that stand twice, and what is no number, and reads a body, and what the route's
model makes of it, on the event loop. A route of this class reads by ``json_of``, and gives the framework the model's
instance where the body is large, which it takes as it is.

A large search waits for its place: what all of them hold at once is looked at by the garbage collector while nothing
else runs, and each has a connection. What is written waits for nothing but its own reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from retrieval.adapters.aside import LONG_BODY, aside, uncollected
from retrieval.domain.json_text import JSONTextError, json_of
from retrieval.surfaces.http.limits import is_write
from retrieval.surfaces.http.request_refusals import MalformedBodyError

MOST_ERRORS = 100
"""Places of a body that are told to be wrong; each costs as much as a hit."""

MOST_VALUES = 150_000
"""Values in the body of a search: 100 vectors of 1,024 dimensions and more. Reading them lets nothing else run."""

MOST_MEMBERS = 20_000
"""Members of objects in the body of a search, such as 100 searches with 100 conditions each."""

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


class JSONBodies(APIRoute):
    """A route whose body is read by ``json_of``, aside where it is large; ``answers.on_status`` tells its faults."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handler = super().get_route_handler()
        annotation = self.body_field.field_info.annotation if self.body_field else None
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None

        async def handle(request: Request) -> Response:
            read = _ReadStrictly(request, model)
            try:
                is_search = model is not None and not is_write(request.scope)
                is_large = is_search and len(await read.body()) >= LONG_BODY
                if is_large:
                    _check_values(await read.body())
                async with place_of_large(request, is_large=is_large):
                    return await handler(read)
            except _RefusedBodyError as refused:
                raise refused.taken() from None

        return handle


class _RefusedBodyError(HTTPException):
    """Carries an error past the framework, which would take it for JSON that is none."""

    def __init__(self, error: Exception) -> None:
        super().__init__(422)
        self.args = (error,)

    def taken(self) -> Exception:
        """Give the error away. If both held each other, the body would stay until the garbage collector comes."""
        error: Exception
        [error], self.args = self.args, ()
        return error


class _ReadStrictly(Request):
    """The request, whose body is read by ``json_of`` and, where it is large, by the route's model."""

    def __init__(self, request: Request, model: type[BaseModel] | None) -> None:
        super().__init__(request.scope, request.receive)
        self._model = model

    async def json(self) -> Any:
        """The value that the body holds; an instance of the model where the body is large."""
        body = await self.body()
        try:
            return await aside(lambda: _read(body, self._model), is_long=len(body) >= LONG_BODY)
        except JSONTextError as error:
            raise _RefusedBodyError(MalformedBodyError(f"the body cannot be read: {error}")) from None


def _check_values(body: bytes) -> None:
    """Refuse a body of too many values, by the characters that stand between them; those within texts count too."""
    for characters, most, named in (
        (b",[{", MOST_VALUES, "commas and brackets"),
        (b":", MOST_MEMBERS, "colons"),
    ):
        if (found := len(body) - len(body.translate(None, characters))) > most:
            raise MalformedBodyError(
                f"the body has {found:,} {named}; a search may have {most:,}: send fewer values, or several searches"
            )


def _read(body: bytes, model: type[BaseModel] | None) -> Any:
    if len(body) < LONG_BODY:
        return json_of(body)
    with uncollected():
        sent = json_of(body)
    if model is None:
        return sent
    try:
        return model.model_validate(sent, from_attributes=True)  # as the framework does
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
