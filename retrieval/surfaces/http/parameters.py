"""Parameters in addresses: one that an operation does not have is refused, for leaving it out changes the answer."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError


def check_parameters(request: Request) -> None:
    """Raise ``RequestValidationError`` for a parameter that the request's route does not have, naming those it has."""
    if not request.scope["query_string"]:
        return
    known = list(dict.fromkeys(_names(request.scope["route"].dependant)))
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        hint = f"there are: {', '.join(known)}" if known else "there is none"
        raise RequestValidationError(
            [{"loc": ("query", name), "msg": f"there is no parameter {name!r:.60}; {hint}"} for name in unknown]
        )


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _names(inner)
