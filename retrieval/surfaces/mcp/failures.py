"""Errors for MCP clients: one line with the remedy, without internals of the server.

For an error about the call the client gets the platform's message. For an error of the database, a service or the
settings it gets only advice; addresses and messages of servers are in the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from retrieval.domain import errors
from retrieval.domain.checks import choices_hint, clean_text, refusal_of, written

_UNREACHABLE = (
    "the database cannot be reached. Try again in a moment: the server reconnects by itself. If it lasts, let the "
    "user check that PostgreSQL runs, with: retrieval db status"
)
_NOT_SET_UP = (
    "the database is not set up for this version. Let the user run: retrieval db upgrade; then try again, and nothing "
    "has to be restarted"
)
_ON_THE_SERVER: tuple[tuple[type[errors.RetrievalError], str], ...] = (
    (errors.DatabaseUnreachableError, _UNREACHABLE),
    (errors.EmbeddedServerError, _UNREACHABLE),
    (errors.PoolExhaustedError, "too many calls at the same time. Try again in a moment"),
    (errors.SchemaRevisionError, _NOT_SET_UP),
    (
        errors.DatabaseError,
        "the database refused the request. Let the user see the server's log, and: retrieval db status",
    ),
    (
        errors.EmbedderError,
        "the embedding service did not answer. Try again in a moment, or search by tags without a query",
    ),
    (
        errors.ConfigurationError,
        "the server's settings do not work. Let the user see its log, change them and restart it",
    ),
)
_ADVICE = {
    errors.Advice.MAKE_COLLECTION: "let the user make it with: retrieval ingest NAME FILE",
    errors.Advice.CALIBRATE: "leave min_relevance out, or let the user fit it with: retrieval calibrate NAME",
    errors.Advice.CLEAN_TEXT: "leave it out",
}
"""The advice of errors, for a client."""

UNEXPECTED = "an unexpected error. Let the user see the server's log"


def is_the_callers(error: BaseException) -> bool:
    """Whether the caller can correct the error by another call."""
    return isinstance(error, errors.InvalidRequestError | errors.NotFoundError | errors.ConflictError)


def failure_line(error: BaseException) -> str:
    """The line about an error for a client."""
    if isinstance(error, ValidationError):
        return wrong_arguments(error)
    if is_the_callers(error):
        return clean_text(_message(error), is_line=True)
    if isinstance(error, errors.RetrievalError):
        return next((line for kind, line in _ON_THE_SERVER if isinstance(error, kind)), UNEXPECTED)
    return UNEXPECTED


def _message(error: BaseException) -> str:
    if isinstance(error, errors.EmptyQueryError):
        return "the query is empty; say in words what to find"
    if isinstance(error, errors.RetrievalError) and error.advice in _ADVICE:
        return f"{error.fact}; {_ADVICE[error.advice]}"
    return str(error)


def wrong_arguments(error: ValidationError) -> str:
    """``limit: must be 50 or less`` for each invalid argument, in one line."""
    refusals = dict.fromkeys(
        f"{_argument(refusal['loc'])}: {_lowered(refusal_of(refusal))}" for refusal in error.errors()
    )
    return f"wrong arguments: {clean_text('; '.join(refusals), is_line=True)}"


def unknown_arguments(names: Iterable[str], known: Iterable[str]) -> str:
    """The line about arguments that a tool does not have."""
    wrong, taken = list(names), list(known)
    hint = choices_hint(wrong[0], taken) if taken else "the tool takes none"
    return f"wrong arguments: there is no {', '.join(f'{written(name)}' for name in wrong)}; {hint}"


def _argument(location: tuple[Any, ...]) -> str:
    # Numbers are positions in a list, names are members of an object: no argument has a union type.
    name, *inner = location or ("arguments",)
    return f"{name}{''.join(f'[{part}]' if isinstance(part, int) else f'.{part}' for part in inner)}"


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:]
