"""Limits on the size of requests, and on the number of concurrent requests."""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.types import Scope

from retrieval.domain.errors import InvalidRequestError
from retrieval.settings import Settings
from retrieval.surfaces.http.problems import BodyTooLargeError

TIMEOUT_HEADER = b"x-request-timeout"

_BULK = re.compile(r"/v1/collections/.+/items/bulk", re.DOTALL)
_UPLOAD = "/console/data/upload"
_LARGE = {
    "POST": re.compile(rf"/v1/collections/.+/(?:items|documents)|/v1/feedback/batch|/v1/outcome|{_UPLOAD}", re.DOTALL),
    "PUT": re.compile(r"/v1/collections/.+/(?:items|documents)/.+", re.DOTALL),
    "PATCH": re.compile(r"/v1/collections/.+/items/.+", re.DOTALL),
}
"""The methods and paths that write items, documents or batches of feedback: only their bodies may be large."""


def most_body_bytes(scope: Scope, settings: Settings) -> int:
    """The greatest number of bytes of the request's body; a stream of items is never in memory as a whole."""
    if is_stream(scope):
        return settings.http_max_bulk_bytes
    most = settings.http_max_body_bytes
    return most if is_large_write(scope) else min(settings.http_max_search_bytes, most)


def most_seconds(header: bytes | None, settings: Settings) -> float:
    """The seconds that the request may take, or for one that ``goes_on`` the time between two of its parts.

    They are those in its header, up to the service's limit. Raises ``InvalidRequestError`` for a header that is not a
    number of seconds.
    """
    if header is None:
        return settings.http_deadline_seconds
    try:
        seconds = float(header)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise InvalidRequestError("the header X-Request-Timeout takes seconds above 0, such as 2.5")
    return min(seconds, settings.http_deadline_seconds)


def is_large_write(scope: Scope) -> bool:
    """Whether the request writes items, documents or a batch of feedback: its body may be large."""
    writes = _LARGE.get(scope["method"])
    return writes is not None and writes.fullmatch(scope["path"]) is not None


def is_stream(scope: Scope) -> bool:
    """Whether the request is a stream of items, not a request about an item called ``bulk``."""
    path: str = scope["path"]
    return path.endswith("/bulk") and scope["method"] == "POST" and _BULK.fullmatch(path) is not None


def goes_on(scope: Scope) -> bool:
    """Whether the request's time restarts with each part: a stream, and files that a person may send slowly."""
    return is_stream(scope) or (scope["path"] == _UPLOAD and scope["method"] == "POST")


def check_length(header: bytes | None, limit: int) -> None:
    """Raise ``BodyTooLargeError`` if the header ``Content-Length`` is above the limit."""
    if header is not None and header.isdigit() and int(header) > limit:
        raise BodyTooLargeError(limit)


@dataclass(slots=True, eq=False)
class Load:
    """The requests in flight of one process."""

    limit: int
    """The greatest number of concurrent requests."""
    in_flight: int = 0
    shed: int = 0
    """The number of requests refused for lack of room."""
    shares: Counter[str] = field(default_factory=Counter)
    """The number of requests in flight by API key; keys without any are left out."""

    def enter(self) -> RequestRoom | None:
        """Room for one request, which must ``leave`` it; None if there is no room."""
        if self.in_flight >= self.limit:
            self.shed += 1
            return None
        self.in_flight += 1
        return RequestRoom(self)


class RequestRoom:
    """The room of one request."""

    __slots__ = ("_key_id", "_load")

    def __init__(self, load: Load) -> None:
        self._load: Load | None = load
        self._key_id = ""

    def belongs_to(self, key_id: str) -> bool:
        """Whether the API key may use this room: for its first request, or if fewer are in use by it than are free.

        So a single busy key gets half of the room, each of two busy keys a third, and some room is always left.
        """
        load = self._load
        if load is None or not key_id:
            return True
        share = load.shares[key_id]
        if share and share >= load.limit - load.in_flight:
            load.shed += 1
            return False
        load.shares[key_id] = share + 1
        self._key_id = key_id
        return True

    def leave(self) -> None:
        """Give the room back; a second call does nothing."""
        load, self._load = self._load, None
        if load is None:
            return
        load.in_flight -= 1
        if self._key_id:
            load.shares[self._key_id] -= 1
            if not load.shares[self._key_id]:
                del load.shares[self._key_id]


K = TypeVar("K")
V = TypeVar("V")


class Latest(OrderedDict[K, V]):
    """A mapping of at most ``most`` values; the oldest value is dropped first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, value: V) -> None:
        """Store the value as the latest."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
