"""The caller of a request: its tenant and what it may do.

A route takes ``CurrentPlatform`` and names the scope that it ``needs``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError

from retrieval.domain.api_key import ApiKey, Scope
from retrieval.platform import Platform
from retrieval.surfaces.http.refusals import AuthenticationError, ForbiddenError
from retrieval.surfaces.http.service import Service
from retrieval.surfaces.refused_values import names_there_are


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. The tenant comes from the key, never from the request."""

    tenant: str
    scopes: frozenset[Scope]
    key_id: str = ""
    """Empty where the service was started without keys."""
    key: ApiKey | None = None
    """The key of that id."""


CALLER = "caller"
"""The name of the caller in a request's state."""

STILL_ALLOWED = "still_allowed"
"""Where the state of a request that lasts holds what raises ``AuthenticationError`` once its key lets in no more."""


async def current_caller(request: Request) -> Caller:
    """The caller of the request. Raises ``AuthenticationError`` where no caller was let in."""
    caller: Caller | None = getattr(request.state, CALLER, None)
    if caller is None:
        raise AuthenticationError
    return caller


CurrentCaller = Annotated[Caller, Depends(current_caller)]


# It takes the request alone: each dependency that the framework resolves costs as much as an answer to be written.
async def current_platform(request: Request) -> Platform:
    """The caller's tenant's view of the platform."""
    service: Service = request.app.state.service
    return await service.platform((await current_caller(request)).tenant, request.scope)


CurrentPlatform = Annotated[Platform, Depends(current_platform)]


def needs(scope: Scope) -> Any:
    """For a route's ``dependencies``: only callers with that scope, or with ``admin``, get in.

    And only with parameters that the route has.
    """
    return Depends(_checked(scope))


def _checked(scope: Scope) -> Callable[[Caller, Request], Awaitable[None]]:
    enough = {scope, Scope.ADMIN}

    async def check(caller: CurrentCaller, request: Request) -> None:
        if not caller.scopes & enough:
            raise ForbiddenError(scope)
        check_parameters(request)

    return check


def check_parameters(request: Request) -> None:
    """Raise ``RequestValidationError`` for a parameter that the request's route does not have, naming those it has."""
    if not request.scope["query_string"]:
        return
    known = list(dict.fromkeys(_names(request.scope["route"].dependant)))
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        refused = "there is no parameter {!r:.60}; {}"
        raise RequestValidationError(
            [{"loc": ("query", name), "msg": refused.format(name, names_there_are(name, known))} for name in unknown]
        )


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _names(inner)
