"""Errors as problem documents (RFC 9457): their types, their words, and why a request is refused.

A problem is named after the error's class: ``UnknownCollectionError`` is ``/problems/unknown-collection``. A class
without an entry of its own has that of its base class, so a new error needs no entry.

An error about the request is answered with the platform's message. Of an error of the database, a service or the
settings the client only gets advice; addresses and messages of servers stand in the log.

    RefusalError
    ├── AuthenticationError         401: no key, or none that lets in
    ├── ForbiddenError              403: the key lacks a scope
    ├── RateLimitedError            429: too many requests
    ├── IdempotencyMismatchError    422: another request bore that Idempotency-Key
    └── IdempotencyConflictError    409: that request is being answered, or its answer was not kept

Each carries the ``status`` of its answer and the ``headers`` that go with it.

RefusalError
├── MalformedBodyError      400: the body is not what its content type says
├── BrokenStreamError       400: a stream of items broke off before its end
├── BodyTimeoutError        408: the body did not arrive in time
├── UnreadAnswerError       408: the client sends on and on, and does not read what it is answered
├── BodyTooLargeError       413: the body has more bytes than the service takes
├── EncodedBodyError        415: the body is compressed, or encoded in another way
├── MediaTypeError          415: the body is not sent as what is taken
├── MisdirectedError        421: it was meant for another host, or a page of another host sent it
└── OverloadedError         503: more requests are being answered than the service takes
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar

from pydantic_core import ErrorDetails

from retrieval.domain import errors
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import Advice, RetrievalError
from retrieval.surfaces.refused_values import refusal_of

_ADVICE = {
    Advice.MAKE_COLLECTION: "make it with: PUT /v1/collections/{name}",
    Advice.LIST_PROFILES: "see: GET /v1/collections/{name}/profiles",
    Advice.DECLARE_ANEW: "whoever runs the service can change it, with: retrieval collections filterable",
    Advice.MAP_ID: "map the column of the ids: ?map=id=NAME",
    Advice.MAP_OR_MAKE_ID: "map the entry of the ids: ?map=id=NAME, or make ids of the texts: ?id_from=text",
    Advice.MAP_TEXT: "map the column or entry of the texts: ?map=text=NAME",
    Advice.NAME_TEXT: "map the column or entry of the texts: ?map=text=NAME",
    Advice.CLEAN_TEXT: "take it out",
}
"""The advice of an error over HTTP."""


def detail_of(error: BaseException) -> str:
    """The fact and the advice of an error on one line, with HTTP requests in place of commands."""
    if isinstance(error, RetrievalError) and error.advice is not None:
        return one_line(f"{error.fact}; {_ADVICE[error.advice]}")
    return one_line(str(error))


class RefusalError(RetrievalError):
    """The service does not serve the request."""

    status: ClassVar[int] = 400

    def __init__(self, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers: dict[str, str] = dict(headers or {})


class AuthenticationError(RefusalError):
    """The request has no valid API key; the answer does not say why a key is invalid."""

    status = 401

    def __init__(self) -> None:
        super().__init__(
            "a valid API key is needed: send it as Authorization: Bearer KEY; "
            "make one with: retrieval keys create NAME",
            headers={"WWW-Authenticate": 'Bearer realm="retrieval"'},
        )


class ForbiddenError(RefusalError):
    """The key is known and does not allow this."""

    status = 403

    def __init__(self, scope: Scope) -> None:
        challenge = f'Bearer realm="retrieval", error="insufficient_scope", scope="{scope}"'
        super().__init__(
            f"this needs a key with the scope {scope.value!r}; make one with: "
            f"retrieval keys create NAME --scope {scope.value}",
            headers={"WWW-Authenticate": challenge},
        )
        self.scope = scope


class RateLimitedError(RefusalError):
    """Too many requests; ``wait_seconds`` is how long to wait, and the header ``Retry-After`` says so too."""

    status = 429

    def __init__(self, message: str, wait_seconds: float, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, headers={"Retry-After": str(max(1, math.ceil(wait_seconds))), **(headers or {})})
        self.wait_seconds = wait_seconds


class IdempotencyMismatchError(RefusalError):
    """Another request was made with the same ``Idempotency-Key``."""

    status = 422

    def __init__(self) -> None:
        super().__init__("another request bore this Idempotency-Key within a day; choose a new key for a new request")


class IdempotencyConflictError(RefusalError):
    """The same request is being answered, or was answered and the answer is not kept."""

    status = 409


class MalformedBodyError(RefusalError):
    """The body does not have the format of its content type."""

    status = 400


class BodyTimeoutError(RefusalError):
    """The body did not arrive in time."""

    status = 408

    def __init__(self) -> None:
        super().__init__("the body did not arrive in time; send it faster, or in smaller parts")


class UnreadAnswerError(RefusalError):
    """The client does not read its answer."""

    status = 408

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"more than {limit:,} bytes of the answer were not read; read it while you send, or send less at once, and "
            "send again what has no line"
        )


class BrokenStreamError(RefusalError):
    """The stream broke off before its end, or became larger than the service takes."""

    status = 400

    def __init__(self) -> None:
        super().__init__("the stream broke off, or is larger than the service takes; send again what has no answer")


class BodyTooLargeError(RefusalError):
    """The body has more bytes than the service takes."""

    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body has more than {limit:,} bytes, the most for this request; send items in several requests or as "
            "a stream, and search with fewer words and values"
        )


class EncodedBodyError(RefusalError):
    """The body is compressed, or encoded in another way."""

    status = 415

    def __init__(self) -> None:
        super().__init__(
            "bodies are taken as they are; send it without Content-Encoding", headers={"Accept-Encoding": "identity"}
        )


class MediaTypeError(RefusalError):
    """The body's content type is not the one that is taken."""

    status = 415

    def __init__(self, content_type: str, taken: str = "application/json", named: str = "the body") -> None:
        came = f"as {content_type!r:.80}" if content_type else "without a type"
        super().__init__(f"send {named} with Content-Type: {taken}; it came {came}")


class MisdirectedError(RefusalError):
    """The request was meant for another host, or a page of another host sent it."""

    status = 421


class OverloadedError(RefusalError):
    """More requests are being answered than the service takes."""

    status = 503
    retry_after = 1

    def __init__(self, message: str = "too many requests are being answered; try again in a moment") -> None:
        super().__init__(message, headers={"Retry-After": str(self.retry_after)})


_LOG = "whoever runs the service finds the reason in its log, under this request_id"
INTERNAL = f"an unexpected error; {_LOG}"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A kind of problem."""

    type: str
    """A URI relative to the service's."""
    title: str
    status: int
    """The HTTP status."""
    told: str | None
    """The text for the client; None: the error's own message, which is about the client's request."""
    retry_after: int | None
    """The seconds after which a retry may succeed; None: waiting does not help."""


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
    errors.NoLanguageModelError: _Answer(503),
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
    errors.RerankerError: _Answer(502, _REJECTED.format("reranking")),
    errors.RerankerUnavailableError: _Answer(503, _SERVICE.format("reranking"), 2),
}


def problem_type(kind: type[BaseException]) -> ProblemType:
    """The type of problem for a class of error; of a class that is not the product's own: ``internal``."""
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
    """The title: the first sentence of the class's docstring, without its markup."""
    first = (kind.__doc__ or kind.__name__).strip().splitlines()[0]
    return re.split(r"; |\. ", first, maxsplit=1)[0].rstrip(".").replace("``", "")


MEDIA_TYPE = "application/problem+json"

INVALID = "/problems/invalid-request"

Problem = dict[str, Any]
"""``type``, ``title``, ``status``, ``detail``, ``instance``, ``request_id``, and further members of the type."""

_SEARCHES = re.compile(r"/v1/collections/[^/]+/(?:search(/batch)?|preview)")

_PLACES: dict[type[errors.InvalidRequestError], str] = {
    errors.InvalidFilterError: "/where",
    errors.InvalidVectorError: "/vector",
    errors.EmptyQueryError: "/query",
    errors.InvalidLimitError: "/limit",
}
"""The members of a search that these errors are about, for errors without a place."""
_OF_EACH = {"/vector": "/vectors", "/query": "/queries"}
"""The names of the members in a batch."""


def problem_of(error: BaseException, *, instance: str = "", request_id: str = "") -> Problem:
    """The document that tells of the error; ``instance`` is the path that was asked."""
    kind = problem_type(type(error))
    problem: Problem = {
        "type": kind.type,
        "title": kind.title,
        "status": kind.status,
        "detail": detail_of(error) if kind.told is None else kind.told,
    }
    if isinstance(error, errors.InvalidItemError) and error.item_id is not None:
        problem["item_id"] = error.item_id
    if isinstance(error, errors.InvalidRequestError):
        problem |= _pointed(error, problem["detail"], _SEARCHES.fullmatch(instance))
    return problem | _occurrence(instance, request_id)


def problem_of_status(status: int, detail: str, *, instance: str = "", request_id: str = "") -> Problem:
    """The document of an HTTP error of the framework, such as 405."""
    title = HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": title, "status": status, "detail": detail or title}
    return problem | _occurrence(instance, request_id)


def invalid(
    found: Iterable[ErrorDetails | Mapping[str, Any]], *, body: object = None, instance: str = "", request_id: str = ""
) -> Problem:
    """The document of a request with invalid parts, which points at each of them.

    ``body``: the body that was sent. Steps of pydantic's places that do not exist in it, such as the types of a union,
    are left out.
    """
    kind = problem_type(errors.InvalidRequestError)
    wrong = _together([_wrong(refusal, body) for refusal in found])
    places = ", ".join(
        dict.fromkeys(str(refusal.get("pointer") or refusal.get("parameter") or "the body") for refusal in wrong)
    )
    told = _first(wrong) if len(wrong) == 1 else f"{places}; see errors"
    problem = {
        "type": kind.type,
        "title": kind.title,
        "status": kind.status,
        "detail": f"not as it must be: {told}",
        "errors": wrong,
    }
    return problem | _occurrence(instance, request_id)


def headers_of(error: BaseException) -> dict[str, str]:
    """The headers that go with the document."""
    if isinstance(error, RefusalError):
        return error.headers
    retry_after = problem_type(type(error)).retry_after
    return {} if retry_after is None else {"Retry-After": str(retry_after)}


def encoded(problem: Problem) -> bytes:
    """The document as it is sent."""
    return json.dumps(problem, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def pointer(parts: Iterable[str | int]) -> str:
    """A JSON pointer (RFC 6901): ``/where/priority``."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def one_line(text: str) -> str:
    """The text without line ends."""
    return " ".join(text.split())


def _wrong(found: ErrorDetails | Mapping[str, Any], body: object) -> dict[str, str]:
    where, *place = found["loc"] or ("body",)
    detail = one_line(refusal_of(found))
    if where == "body":
        place = place if body is None else list(_sent_place(body, place, is_missing=found.get("type") == "missing"))
        return {"pointer": pointer(place), "detail": detail}
    return {"parameter": ".".join(map(str, place)), "in": str(where), "detail": detail}


def _sent_place(body: object, place: Sequence[str | int], *, is_missing: bool) -> Iterator[str | int]:
    """The steps of the place that exist in the body; also the last step, if that member is missing."""
    for number, step in enumerate(place, 1):
        if step in (body if isinstance(body, Mapping) else range(len(body)) if isinstance(body, list) else ()):
            body = body[step]  # type: ignore[index]
        elif not (is_missing and number == len(place)):
            continue
        yield step


def _first(wrong: Sequence[Mapping[str, str]]) -> str:
    return f"{wrong[0].get('pointer') or wrong[0].get('parameter') or 'the body'}: {wrong[0]['detail']}"


def _together(wrong: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """One entry for each place: pydantic refuses a value of a union once for each type."""
    found: dict[tuple[str | None, ...], dict[str, str]] = {}
    for refusal in wrong:
        place = tuple(refusal.get(name) for name in ("pointer", "parameter", "in"))
        if place not in found:
            found[place] = refusal
        elif refusal["detail"] not in found[place]["detail"].split("; or: "):
            found[place]["detail"] += f"; or: {refusal['detail']}"
    return list(found.values())


def _pointed(error: errors.InvalidRequestError, detail: str, search: re.Match[str] | None) -> Problem:
    """The place in the body: that of the error, or else the usual place of its class."""
    usual = (place for kind, place in _PLACES.items() if search and isinstance(error, kind))
    place = pointer(error.place) or next(usual, None)
    if place is not None and search is not None and search[1]:
        place = _OF_EACH.get(place, place)
    return {} if place is None else {"errors": [{"pointer": place, "detail": detail}]}


def _occurrence(instance: str, request_id: str) -> Problem:
    return {
        **({"instance": instance} if instance else {}),
        **({"request_id": request_id} if request_id else {}),
    }
