"""What kind of problem each class of our errors is to a client: its name, its status, what may be said of it.

The name is the class's: ``UnknownCollectionError`` is ``/problems/unknown-collection``. What a class does not say for
itself, its base says for it; so a new error is a problem from the start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from retrieval.domain import errors
from retrieval.domain.errors import RetrievalError
from retrieval.surfaces.http.refusals import RefusalError
from retrieval.surfaces.http.request_refusals import OverloadedError

_LOG = "whoever runs the service finds the reason in its log, under this request_id"
INTERNAL = f"an unexpected error; {_LOG}"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem."""

    type: str
    """A URI relative to the service's."""
    title: str
    status: int
    """Of HTTP."""
    told: str | None
    """What a client is told; None: the error's own message, which is about the client's request."""
    retry_after: int | None
    """Seconds after which it may be over; None: it will not be by waiting."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    told: str | None = None
    retry_after: int | None = None


_AWAY = "the database cannot be reached; try again in a moment: the service reconnects by itself"
_NOT_SET_UP = f"the database is not set up for this service; {_LOG}"
_SERVICE = "the {} service did not answer; try again in a moment"
_REJECTED = f"the {{}} service refused what it was sent; {_LOG}"
_ANSWERS: dict[type[RetrievalError], _Answer] = {
    RetrievalError: _Answer(500, INTERNAL),
    errors.ConfigurationError: _Answer(500, f"the service's settings do not allow this; {_LOG}"),
    errors.DatabaseError: _Answer(503, f"the database refused; {_LOG}", 10),
    errors.DatabaseUnreachableError: _Answer(503, _AWAY, 2),
    errors.EmbeddedServerError: _Answer(503, _AWAY, 2),
    errors.UnsupportedDatabaseError: _Answer(503, _NOT_SET_UP, 10),
    errors.SchemaRevisionError: _Answer(503, _NOT_SET_UP, 10),
    errors.MissingPrivilegeError: _Answer(503, _NOT_SET_UP, 10),
    errors.PoolExhaustedError: _Answer(503, "too many requests wait for the database; try again in a moment", 1),
    errors.DatabaseBusyError: _Answer(503, "the database gave up waiting for others; try again in a moment", 1),
    errors.DeadlineError: _Answer(
        504, "not done in time; ask for less, or allow more time with the header X-Request-Timeout (seconds)"
    ),
    errors.InvalidRequestError: _Answer(422),
    errors.NotFoundError: _Answer(404),
    errors.ConflictError: _Answer(409),
    errors.VersionConflictError: _Answer(412),
    errors.EmbedderError: _Answer(502, _REJECTED.format("embedding")),
    errors.EmbedderUnavailableError: _Answer(503, _SERVICE.format("embedding"), 2),
    errors.LLMError: _Answer(502, _REJECTED.format("language model's")),
    errors.LLMUnavailableError: _Answer(503, _SERVICE.format("language model's"), 2),
}


def problem_type(kind: type[BaseException]) -> ProblemType:
    """What an error of that class is to a client; one that is none of ours is an ``internal`` one."""
    if kind not in _KNOWN:
        _KNOWN[kind] = _made(kind)
    return _KNOWN[kind]


_KNOWN: dict[type[BaseException], ProblemType] = {}


def _made(kind: type[BaseException]) -> ProblemType:
    if not issubclass(kind, RetrievalError):
        return ProblemType("/problems/internal", "Something unexpected happened", 500, INTERNAL, None)
    answer = _refused(kind) if issubclass(kind, RefusalError) else _answer(kind)
    return ProblemType(f"/problems/{_slug(kind)}", _title(kind), answer.status, answer.told, answer.retry_after)


def _refused(kind: type[RefusalError]) -> _Answer:
    return _Answer(kind.status, retry_after=kind.retry_after if issubclass(kind, OverloadedError) else None)


def _answer(kind: type[BaseException]) -> _Answer:
    return next(_ANSWERS[base] for base in kind.__mro__ if base in _ANSWERS)


def _slug(kind: type[BaseException]) -> str:
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+(?![a-z])|[A-Z][a-z]*", kind.__name__.removesuffix("Error"))
    return "-".join(words).lower() or "internal"


def _title(kind: type[BaseException]) -> str:
    """What happened: the first sentence of the class's docstring, without its markup."""
    first = (kind.__doc__ or kind.__name__).strip().splitlines()[0]
    return re.split(r"; |\. ", first, maxsplit=1)[0].rstrip(".").replace("``", "")
