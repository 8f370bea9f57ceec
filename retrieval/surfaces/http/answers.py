"""Responses to errors: the problem document that is sent, and the line in the service's log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from retrieval.domain.checks import choices_hint, shown_line, written
from retrieval.domain.errors import RetrievalError
from retrieval.surfaces.http import problems
from retrieval.surfaces.http.json_bodies import members_at
from retrieval.surfaces.http.telemetry import METHODS, current_request_id

_log = logging.getLogger(__name__)

_EXPECTED = {404: "there is no such resource; /docs and /openapi.json list the resources"}


def answer_to(error: Exception, scope: Scope) -> Response:
    """The response to an error; an error that the client cannot fix is logged too."""
    report(error)
    return problem_response(problems.problem_of(error), scope, problems.headers_of(error))


def problem_response(problem: problems.Problem, scope: Scope, headers: Mapping[str, str] | None = None) -> Response:
    """A problem document as a response; it names the request by its path as it was sent, and by its id."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    request = {"instance": path.decode("ascii", "replace"), "request_id": current_request_id()}
    return Response(problems.encoded(problem | request), problem["status"], headers, problems.MEDIA_TYPE)


async def on_error(request: Request, error: Exception) -> Response:
    """Respond to the errors of the platform and of the service."""
    return answer_to(error, request.scope)


async def on_invalid(request: Request, error: Exception) -> Response:
    """Respond to a request that fails validation; the response points at each invalid location."""
    errors = error.errors() if isinstance(error, RequestValidationError) else []
    body = error.body if isinstance(error, RequestValidationError) else None
    errors = [_with_members(detail, request.scope.get("route")) for detail in errors]
    return problem_response(problems.invalid(errors, body=body), request.scope)


async def on_status(request: Request, error: Exception) -> Response:
    """Respond to requests that the framework refuses: unknown paths, and methods that a path does not have."""
    if not isinstance(error, HTTPException):
        raise error
    detail, headers = _EXPECTED.get(error.status_code, str(error.detail)), dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = allowed = ", ".join(_methods(request))
        detail = f"{request.method} is not allowed here; allowed: {allowed}"
    return problem_response(problems.problem_of_status(error.status_code, detail), request.scope, headers)


def _methods(request: Request) -> Iterator[str]:
    """The methods that the routes of the request's path accept."""
    for method in sorted(METHODS):
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            yield method


def _with_members(detail: Any, route: object) -> Any:
    """Add the names of the existing members to the error about an unknown member."""
    if detail.get("type") != "extra_forbidden" or detail["loc"][0] != "body" or not isinstance(route, APIRoute):
        return detail
    kind = route.body_field.field_info.annotation if route.body_field else None
    *location, name = detail["loc"][1:]
    return {**detail, "msg": f"there is no {written(name, 60)} here; {choices_hint(name, members_at(kind, location))}"}


def report(error: Exception) -> None:
    """Log an error that the client cannot fix, but no refusals, of which a busy service has thousands."""
    if isinstance(error, problems.RefusalError):
        return
    if not isinstance(error, RetrievalError):
        _log.error("an unexpected error: %s", type(error).__name__, exc_info=error)
    elif problems.problem_type(type(error)).status >= 500:
        _log.warning("a request was not served: %s", shown_line(str(error)))
