"""Errors as problem documents (RFC 9457): their types and texts, and the refusals of the service.

A problem is named after the error's class: ``UnknownCollectionError`` is ``/problems/unknown-collection``. A class
without an entry has that of its base class, so a new error needs no entry.

For an error about the request the client gets the platform's message. For an error of the database, a model's service
or the settings it gets only advice; addresses and messages of servers are in the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar, NamedTuple

from pydantic_core import ErrorDetails

from retrieval.domain import errors
from retrieval.domain.api_key import Scope
from retrieval.domain.checks import refusal_of, shown_line, written
from retrieval.domain.errors import Advice, RetrievalError

_ADVICE = {
    Advice.MAKE_COLLECTION: "make it with: PUT /v1/collections/{name}, which needs a key with the scope 'admin'",
    Advice.REMEMBER: (
        "make it with: PUT /v1/collections/{name}, with the filterable attributes of memories and a key with the scope "
        "'admin'"
    ),
    Advice.LIST_PROFILES: "see: GET /v1/collections/{name}/profiles",
    Advice.DECLARE_ANEW: "the service's operator can change it with: retrieval collections filterable",
    Advice.CALIBRATE: (
        "the service's operator can fit it with: retrieval calibrate; or give min_score instead of min_relevance"
    ),
    Advice.BEGIN_REEMBEDDING: "begin one with: POST /v1/collections/{name}/reembedding",
    Advice.END_REEMBEDDING: (
        "let a worker end it; until it is removing, POST /v1/collections/{name}/reembedding/abort, or .../finish after "
        "the switch, ends it"
    ),
    Advice.MAP_ID: "map the column of the ids: ?map=id=NAME",
    Advice.MAP_OR_MAKE_ID: "map the entry of the ids: ?map=id=NAME, or make ids of the texts: ?id_from=text",
    Advice.MAP_TEXT: "map the column or entry of the texts: ?map=text=NAME",
    Advice.NAME_TEXT: "map the column or entry of the texts: ?map=text=NAME",
    Advice.CLEAN_TEXT: "take it out",
    Advice.GIVE_VECTORS: (
        "leave it out, and the text is embedded; or send your own vectors to POST .../items as 'embeddings'; or keep "
        "it as data, in 'metadata'"
    ),
}
"""The advice of an error over HTTP."""


def detail_of(error: BaseException) -> str:
    """The fact and the advice of an error on one line, with HTTP requests in place of commands."""
    if isinstance(error, RetrievalError) and error.advice is not None:
        return shown_line(f"{error.fact}; {_ADVICE[error.advice]}")
    return shown_line(str(error))


class RefusalError(RetrievalError):
    """The service does not serve the request."""

    status: ClassVar[int] = 400
    retry_after: ClassVar[int | None] = None
    """The seconds after which a retry may succeed; None: waiting does not help, or ``headers`` say how long."""
    message: ClassVar[str] = ""
    """The message of an error that is raised without one."""
    fixed_headers: ClassVar[Mapping[str, str]] = {}
    """The headers of every response to this error."""

    def __init__(self, message: str | None = None, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(self.message if message is None else message)
        waiting = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        self.headers: dict[str, str] = {**self.fixed_headers, **waiting, **(headers or {})}


class AuthenticationError(RefusalError):
    """The request has no valid API key; the response does not say why a key is invalid."""

    status = 401
    message = (
        "a valid API key is needed: send it as Authorization: Bearer KEY; make one with: retrieval keys create NAME"
    )
    fixed_headers: ClassVar = {"WWW-Authenticate": 'Bearer realm="retrieval"'}


class ForbiddenError(RefusalError):
    """The key does not allow this."""

    status = 403

    def __init__(self, scope: Scope) -> None:
        challenge = f'Bearer realm="retrieval", error="insufficient_scope", scope="{scope}"'
        super().__init__(
            f"this needs a key with the scope {scope.value!r}; make one with: "
            f"retrieval keys create NAME --scope {scope.value}",
            headers={"WWW-Authenticate": challenge},
        )


class RateLimitedError(RefusalError):
    """Too many requests; the header ``Retry-After`` says how long to wait."""

    status = 429


class IdempotencyMismatchError(RefusalError):
    """Another request was made with the same ``Idempotency-Key``."""

    status = 422
    message = "another request had this Idempotency-Key within a day; choose a new key for a new request"


class IdempotencyConflictError(RefusalError):
    """The same request is in progress, or was answered and the response was not stored."""

    status = 409


class MalformedBodyError(RefusalError):
    """The body does not have the format of its content type."""


class BodyTimeoutError(RefusalError):
    """The body did not arrive in time."""

    status = 408
    message = "the body did not arrive in time; send it faster, or in smaller parts"


class UnreadAnswerError(RefusalError):
    """The client does not read the response."""

    status = 408


class BrokenStreamError(RefusalError):
    """The stream ended early, or exceeded the size limit."""

    message = "the stream ended early, or exceeds the size limit; send the lines without a result again"


class StoppingError(RefusalError):
    """The stream ended early, because the service is shutting down."""

    status = 503
    retry_after = 1
    message = "the service is shutting down; send the lines without a result again in a moment"


class BodyTooLargeError(RefusalError):
    """The body exceeds the size limit."""

    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body has more than {limit:,} bytes, the limit for this request; send items in several requests or as "
            "a stream, and search with fewer words and values"
        )


class EncodedBodyError(RefusalError):
    """The body is compressed, or encoded in another way."""

    status = 415
    message = "encoded bodies are not accepted; send it without Content-Encoding"
    fixed_headers: ClassVar = {"Accept-Encoding": "identity"}


class MediaTypeError(RefusalError):
    """The body's content type is not accepted."""

    status = 415

    def __init__(self, content_type: str, accepted: str = "application/json", content: str = "the body") -> None:
        actual = f"as {written(content_type)}" if content_type else "without a type"
        super().__init__(f"send {content} with Content-Type: {accepted}; it came {actual}")


class MisdirectedError(RefusalError):
    """The request names another host, or a page of another host sent it."""

    status = 421


class OverloadedError(RefusalError):
    """Too many concurrent requests."""

    status = 503
    retry_after = 1
    message = "too many requests are in progress; try again in a moment"


IN_LOG = "; the service's log has the reason"
INTERNAL = f"an unexpected error{IN_LOG}"


class ProblemType(NamedTuple):
    """A kind of problem."""

    type: str
    """A URI relative to that of the service."""
    title: str
    status: int
    """The HTTP status."""
    detail: str | None = None
    """The text for the client; None: the error's own message, which is about the client's request."""
    retry_after: int | None = None
    """The seconds after which a retry may succeed; None: waiting does not help."""

    @property
    def name(self) -> str:
        """The last part of the type, such as ``unknown-collection``."""
        return self.type.rpartition("/")[2]


_AWAY = "the database cannot be reached; try again in a moment: the service reconnects by itself"
_NOT_SET_UP = f"the database is not set up for this service{IN_LOG}"
_SERVICE = "the {} service did not answer; try again in a moment"
_REJECTED = f"the {{}} service refused the request{IN_LOG}"
_LATE = "the deadline was exceeded; request less, or allow more time with the header X-Request-Timeout (seconds)"
_ANSWERS: dict[type[RetrievalError], tuple[int, str | None, int | None]] = {
    RetrievalError: (500, INTERNAL, None),
    errors.ConfigurationError: (500, f"the service's settings do not allow this{IN_LOG}", None),
    errors.NoLanguageModelError: (503, None, None),
    errors.DatabaseError: (503, f"the database refused the request{IN_LOG}", 10),
    errors.DatabaseUnreachableError: (503, _AWAY, 2),
    errors.EmbeddedServerError: (503, _AWAY, 2),
    errors.UnsupportedDatabaseError: (503, _NOT_SET_UP, 10),
    errors.SchemaRevisionError: (503, _NOT_SET_UP, 10),
    errors.MissingPrivilegeError: (503, _NOT_SET_UP, 10),
    errors.PoolExhaustedError: (503, "too many requests wait for the database; try again in a moment", 1),
    errors.DatabaseBusyError: (503, "other transactions held the database too long; try again in a moment", 1),
    errors.DeadlineError: (504, _LATE, None),
    errors.InvalidRequestError: (422, None, None),
    errors.NotFoundError: (404, None, None),
    errors.ConflictError: (409, None, None),
    errors.VersionConflictError: (412, None, None),
    errors.EmbedderError: (502, _REJECTED.format("embedding"), None),
    errors.EmbedderUnavailableError: (503, _SERVICE.format("embedding"), 2),
    errors.LLMError: (502, _REJECTED.format("language model's"), None),
    errors.LLMUnavailableError: (503, _SERVICE.format("language model's"), 2),
    errors.RerankerError: (502, _REJECTED.format("reranking"), None),
    errors.RerankerUnavailableError: (503, _SERVICE.format("reranking"), 2),
}
"""The status, the text for the client and the seconds to wait, as in ``ProblemType``."""


def problem_type(kind: type[BaseException]) -> ProblemType:
    """The type of problem for a class of error; ``internal`` for classes that are not the platform's."""
    if not issubclass(kind, RetrievalError):
        return ProblemType("/problems/internal", "An unexpected error", 500, INTERNAL)
    if issubclass(kind, RefusalError):
        return ProblemType(f"/problems/{_slug(kind)}", _title(kind), kind.status, None, kind.retry_after)
    answer = next(_ANSWERS[base] for base in kind.__mro__ if base in _ANSWERS)
    return ProblemType(f"/problems/{_slug(kind)}", _title(kind), *answer)


def _slug(kind: type[BaseException]) -> str:
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+(?![a-z])|[A-Z][a-z]*", kind.__name__.removesuffix("Error"))
    return "-".join(words).lower()


def _title(kind: type[BaseException]) -> str:
    """The title: the first sentence of the class's docstring, without its markup."""
    first = (kind.__doc__ or kind.__name__).strip().splitlines()[0]
    return re.split(r"; |\. ", first, maxsplit=1)[0].rstrip(".").replace("``", "")


MEDIA_TYPE = "application/problem+json"

Problem = dict[str, Any]
"""``type``, ``title``, ``status``, ``detail``, ``instance``, ``request_id``, and further members of the type."""


def problem_of(error: BaseException) -> Problem:
    """The problem document of the error."""
    kind = problem_type(type(error))
    detail = detail_of(error) if kind.detail is None else kind.detail
    problem: Problem = {"type": kind.type, "title": kind.title, "status": kind.status, "detail": detail}
    if isinstance(error, errors.InvalidItemError) and error.item_id is not None:
        problem["item_id"] = error.item_id
    if isinstance(error, errors.InvalidRequestError) and error.location:
        problem["errors"] = [{"pointer": pointer(error.location), "detail": detail}]
    return problem


def problem_of_status(status: int, detail: str) -> Problem:
    """The document of an HTTP error of the framework, such as 405."""
    title = HTTPStatus(status).phrase
    return {"type": "about:blank", "title": title, "status": status, "detail": detail or title}


def invalid(errors_found: Iterable[ErrorDetails | Mapping[str, Any]], *, body: object = None) -> Problem:
    """The document of a request with invalid parts, which points at each of them.

    ``body``: the body of the request. Steps of pydantic's locations that do not exist in it, such as the types of a
    union, are left out.
    """
    kind = problem_type(errors.InvalidRequestError)
    entries = _merged_by_location([_entry(details, body) for details in errors_found])
    locations = [entry.get("pointer") or entry.get("parameter") or "the body" for entry in entries]
    if len(entries) == 1:
        summary = f"{locations[0]}: {entries[0]['detail']}"
    else:
        summary = f"{', '.join(dict.fromkeys(locations))}; see errors"
    detail = f"invalid: {summary}"
    return {"type": kind.type, "title": kind.title, "status": kind.status, "detail": detail, "errors": entries}


def headers_of(error: BaseException) -> dict[str, str]:
    """The headers of the error's response."""
    if isinstance(error, RefusalError):
        return error.headers
    retry_after = problem_type(type(error)).retry_after
    return {} if retry_after is None else {"Retry-After": str(retry_after)}


def encoded(values: Mapping[str, Any]) -> bytes:
    """The values as JSON; a half of a surrogate pair, which a message may quote, becomes a question mark."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def pointer(parts: Iterable[str | int]) -> str:
    """A JSON pointer (RFC 6901): ``/where/priority``."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def _entry(details: ErrorDetails | Mapping[str, Any], body: object) -> dict[str, str]:
    where, *location = details["loc"] or ("body",)
    detail = shown_line(refusal_of(details))
    if where == "body":
        is_missing = details.get("type") == "missing"
        location = location if body is None else list(_sent_location(body, location, is_missing=is_missing))
        return {"pointer": pointer(location), "detail": detail}
    return {"parameter": ".".join(map(str, location)), "in": str(where), "detail": detail}


def _sent_location(body: object, location: Sequence[str | int], *, is_missing: bool) -> Iterator[str | int]:
    """The steps of the location that exist in the body; also the last step, if that member is missing."""
    for number, step in enumerate(location, 1):
        if step in (body if isinstance(body, Mapping) else range(len(body)) if isinstance(body, list) else ()):
            body = body[step]  # type: ignore[index]
        elif not (is_missing and number == len(location)):
            continue
        yield step


def _merged_by_location(entries: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """One entry for each location: pydantic refuses a value of a union once for each type."""
    by_location: dict[tuple[str | None, ...], dict[str, str]] = {}
    for entry in entries:
        location = tuple(entry.get(name) for name in ("pointer", "parameter", "in"))
        if location not in by_location:
            by_location[location] = entry
        elif entry["detail"] not in by_location[location]["detail"].split("; or: "):
            by_location[location]["detail"] += f"; or: {entry['detail']}"
    return list(by_location.values())
