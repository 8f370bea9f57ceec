"""Errors as problem documents (RFC 9457): ``application/problem+json``.

What the caller asked is answered with the platform's own words. Of the database, of services and of settings a client
learns what it can do about it; where they lie and what they said stands in the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic_core import ErrorDetails

from retrieval.domain import errors
from retrieval.surfaces.http.problem_types import problem_type
from retrieval.surfaces.http.refusals import RefusalError
from retrieval.surfaces.http.wording import over_http
from retrieval.surfaces.refused_values import refusal_of

MEDIA_TYPE = "application/problem+json"

INVALID = "/problems/invalid-request"

Problem = dict[str, Any]
"""``type``, ``title``, ``status``, ``detail``, ``instance``, ``request_id``, and what a type has besides."""

_SEARCHES = re.compile(r"/v1/collections/[^/]+/(?:search(/batch)?|preview)")

_PLACES: dict[type[errors.InvalidRequestError], str] = {
    errors.InvalidFilterError: "/where",
    errors.InvalidVectorError: "/vector",
    errors.EmptyQueryError: "/query",
    errors.InvalidLimitError: "/limit",
}
"""The members of a search that these errors are about, where they do not tell themselves."""
_OF_EACH = {"/vector": "/vectors", "/query": "/queries"}
"""What they are called in a batch."""


def problem_of(error: BaseException, *, instance: str = "", request_id: str = "") -> Problem:
    """The document that tells of the error; ``instance`` is the path that was asked."""
    kind = problem_type(type(error))
    problem: Problem = {
        "type": kind.type,
        "title": kind.title,
        "status": kind.status,
        "detail": over_http(one_line(str(error))) if kind.told is None else kind.told,
    }
    if isinstance(error, errors.InvalidItemError) and error.item_id is not None:
        problem["item_id"] = error.item_id
    if isinstance(error, errors.InvalidRequestError):
        problem |= _pointed(error, problem["detail"], _SEARCHES.fullmatch(instance))
    return problem | _occurrence(instance, request_id)


def problem_of_status(status: int, detail: str, *, instance: str = "", request_id: str = "") -> Problem:
    """The document of an answer that is no error of ours, such as 405; its type is its status's."""
    title = HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": title, "status": status, "detail": detail or title}
    return problem | _occurrence(instance, request_id)


def invalid(
    found: Iterable[ErrorDetails | Mapping[str, Any]], *, body: object = None, instance: str = "", request_id: str = ""
) -> Problem:
    """The document of a request whose parts are not what they must be, with the place of each that is wrong.

    ``body``: what was sent; places of the models alone, such as the kinds of a value that may be of several, are none.
    """
    kind = problem_type(errors.InvalidRequestError)
    wrong = _together([_wrong(one, body) for one in found])
    places = ", ".join(dict.fromkeys(str(one.get("pointer") or one.get("parameter") or "the body") for one in wrong))
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
    """The steps of the place that there are in the body; and the last one, where something is missing there."""
    for number, step in enumerate(place, 1):
        if step in (body if isinstance(body, Mapping) else range(len(body)) if isinstance(body, list) else ()):
            body = body[step]  # type: ignore[index]
        elif not (is_missing and number == len(place)):
            continue
        yield step


def _first(wrong: Sequence[Mapping[str, str]]) -> str:
    return f"{wrong[0].get('pointer') or wrong[0].get('parameter') or 'the body'}: {wrong[0]['detail']}"


def _together(wrong: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """One entry a place: what may be of several kinds is refused once by each."""
    found: dict[tuple[str | None, ...], dict[str, str]] = {}
    for one in wrong:
        place = tuple(one.get(name) for name in ("pointer", "parameter", "in"))
        if place not in found:
            found[place] = one
        elif one["detail"] not in found[place]["detail"].split("; or: "):
            found[place]["detail"] += f"; or: {one['detail']}"
    return list(found.values())


def _pointed(error: errors.InvalidRequestError, detail: str, search: re.Match[str] | None) -> Problem:
    """Where in the body it lies: as the error tells, or as errors of its class do."""
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
