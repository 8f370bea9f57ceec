"""What a request may take: bytes, and time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from retrieval.domain.errors import InvalidRequestError
from retrieval.settings import Settings
from retrieval.surfaces.http.request_refusals import BodyTooLargeError

TIMEOUT_HEADER = b"x-request-timeout"

_BULK = "/items/bulk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request may take; a stream of items may take more, for it is never held at once."""

    body_bytes: int
    bulk_bytes: int
    seconds: float
    """For a stream of items: between two of its parts."""

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """As the settings have them."""
        return cls(
            body_bytes=settings.http_max_body_bytes,
            bulk_bytes=settings.http_max_bulk_bytes,
            seconds=settings.http_deadline_seconds,
        )

    def body_of(self, method: str, path: str) -> int:
        """The most bytes of a body that is sent there."""
        return self.bulk_bytes if is_stream(method, path) else self.body_bytes

    def seconds_of(self, header: bytes | None) -> float:
        """How long the request may take: as it asks for, and no longer than the service allows.

        Raises ``InvalidRequestError`` for what is no number of seconds.
        """
        if header is None:
            return self.seconds
        try:
            seconds = float(header)
        except ValueError:
            seconds = math.nan
        if not seconds > 0:
            raise InvalidRequestError("the header X-Request-Timeout takes seconds above 0, such as 2.5")
        return min(seconds, self.seconds)


def is_stream(method: str, path: str) -> bool:
    """Whether what is sent there flows, item by item; an item may be called like that, and is put or changed."""
    return method == "POST" and path.endswith(_BULK)


def check_length(header: bytes | None, limit: int) -> None:
    """Raise ``BodyTooLargeError`` for a body that says itself that it is too large."""
    if header is not None and header.isdigit() and int(header) > limit:
        raise BodyTooLargeError(limit)
