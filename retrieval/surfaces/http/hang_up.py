"""Hanging up on a client that does not read its answer: an extension of ASGI, from our connection to the exchange."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Scope

_NAME, _CALL = "retrieval.hang_up", "call"

Extensions = dict[str, dict[object, object]]


def extensions(abort: Callable[[], None]) -> Extensions:
    """What a server puts into the scope of its requests; ``abort`` drops the connection and what it has yet to send."""
    return {_NAME: {_CALL: abort}}


def hang_up(scope: Scope) -> None:
    """Drop the request's connection at once, where the server can."""
    abort = scope.get("extensions", {}).get(_NAME, {}).get(_CALL)
    if abort is not None:
        abort()
