"""Authentication: checks API keys, and limits the requests per minute of each key.

A key's token bucket holds a tenth of its requests per minute, but at least ten and at most a minute's: the size of a
burst. It starts full. The number of buckets is bounded: the least recently used one is dropped, and would start full
again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from starlette.datastructures import Headers

from retrieval.adapters.clock import Clock
from retrieval.adapters.store.deadline import in_background
from retrieval.adapters.store.installation.access import StoredKey, find_key, note_key_used
from retrieval.domain.api_key import ApiKey, Caller, is_key, key_id_of
from retrieval.domain.errors import RetrievalError
from retrieval.surfaces.http.limits import Latest
from retrieval.surfaces.http.problems import AuthenticationError, RateLimitedError
from retrieval.surfaces.tenants import ServedPlatforms, has_failed

MOST_BUCKETS = 10_000

RATE_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
"""Requests per minute, requests that may still be made at once, and seconds until the bucket is full again."""

_LEAST_BURST = 10


class Allowance(NamedTuple):
    """The current allowance of a key."""

    wait_seconds: float
    """0: the request is allowed; otherwise the seconds to wait before it is repeated."""
    limit: int
    """Requests per minute."""
    remaining: int
    """Requests that may still be made at once."""
    reset_seconds: int
    """The seconds until the bucket is full again."""

    def headers(self) -> dict[str, str]:
        """The headers that report the allowance to the client."""
        return dict(zip(RATE_HEADERS, map(str, self[1:]), strict=True))


class RateLimits:
    """The token buckets of a process; ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Clock, *, most_buckets: int = MOST_BUCKETS) -> None:
        self._clock = clock
        self._buckets = Latest[str, tuple[float, float]](most_buckets)
        """The tokens of each bucket, and the time of that number."""

    def take(self, key_id: str, per_minute: int) -> Allowance:
        """Take one token from the key's bucket, if it has one."""
        size, rate = burst(per_minute), per_minute / 60
        now = self._clock()
        tokens, at = self._buckets.get(key_id, (size, now))
        tokens = min(size, tokens + (now - at) * rate)
        wait = max(0.0, (1 - tokens) / rate)
        tokens -= wait == 0
        self._buckets.keep(key_id, (tokens, now))
        return Allowance(wait, per_minute, int(tokens), math.ceil((size - tokens) / rate))

    def __len__(self) -> int:
        return len(self._buckets)


def burst(per_minute: int) -> int:
    """The number of requests that may be made at once."""
    return min(per_minute, max(_LEAST_BURST, per_minute // 10))


_log = logging.getLogger(__name__)

REMEMBERED_SECONDS = 5.0
"""The seconds that a looked-up key is kept in memory."""

MOST_REMEMBERED = 10_000
"""The number of keys, and of ids that belong to no key, that are kept in memory."""

NOTED_EVERY = timedelta(minutes=1)
"""The precision of the stored time of a key's last use."""


class KeyGate:
    """Admits callers by their API keys, within the rate limit of each key; close it at the end.

    ``find`` looks a key up by its id, and ``used`` notes a use of a key; ``per_minute`` is the limit of keys without
    one of their own. ``clock`` is monotonic, in seconds; ``now`` returns the time with a time zone. A gate belongs to
    one event loop.
    """

    def __init__(
        self,
        find: Callable[[str], Coroutine[Any, Any, StoredKey | None]],
        used: Callable[[StoredKey, datetime], Awaitable[None]],
        *,
        per_minute: int,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        most_remembered: int = MOST_REMEMBERED,
    ) -> None:
        self._find, self._used, self._per_minute = find, used, per_minute
        self._clock, self._now = clock, now
        self._limits = RateLimits(clock)
        self._lookups = Latest[str, tuple[float, asyncio.Task[StoredKey | None]]](most_remembered)
        self._noted = Latest[str, datetime](most_remembered)
        self._notes: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Wait for the calls of the database in progress."""
        lookups = [lookup for _, lookup in self._lookups.values()]
        await asyncio.gather(*self._notes, *lookups, return_exceptions=True)

    async def key(self, headers: Headers) -> ApiKey:
        """The active key of the request. Raises ``DatabaseError`` if it cannot be looked up.

        Raises the same ``AuthenticationError`` for a missing, unknown, expired or revoked key.
        """
        text = sent_key(headers)
        key_id = key_id_of(text)
        if key_id is not None:
            stored, now = await self._stored(key_id), self._now()
            if stored is not None and is_key(text, stored.secret_hash) and stored.key.state(now) == "active":
                self._note(stored, now)
                return stored.key
        raise AuthenticationError

    async def caller(self, headers: Headers) -> tuple[Caller, Allowance]:
        """The caller that the key identifies, and the key's remaining allowance.

        Raises the errors of ``key``, and ``RateLimitedError``.
        """
        key = await self.key(headers)
        per_minute = key.requests_per_minute or self._per_minute
        allowance = self._limits.take(key.key_id, per_minute)
        if allowance.wait_seconds:
            wait = math.ceil(allowance.wait_seconds)
            raise RateLimitedError(
                f"this API key may make {per_minute:,} requests a minute; try again in {wait} s",
                headers={"Retry-After": str(wait), **allowance.headers()},
            )
        return Caller(key.tenant, key.scopes, key.key_id, key), allowance

    async def _stored(self, key_id: str) -> StoredKey | None:
        """The stored key; one look-up serves all requests of the next seconds, unless it fails."""
        until, lookup = self._lookups.get(key_id, (0.0, None))
        if lookup is None or until <= self._clock() or has_failed(lookup):
            until, lookup = self._clock() + REMEMBERED_SECONDS, in_background(self._find(key_id))
        self._lookups.keep(key_id, (until, lookup))  # the latest, so that unknown ids do not push out a key in use
        return await asyncio.shield(lookup)

    def _note(self, stored: StoredKey, now: datetime) -> None:
        """Store the time of the key's use, in the background."""
        key_id = stored.key.key_id
        last = self._noted.get(key_id) or stored.key.last_used_at
        if last is not None and now - last < NOTED_EVERY:
            return
        self._noted.keep(key_id, now)
        note = in_background(self._store_use(stored, now))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def _store_use(self, stored: StoredKey, now: datetime) -> None:
        try:
            await self._used(stored, now)
        except RetrievalError as error:
            _log.info("the use of API key %s was not noted: %s", stored.key.key_id, error)


def gate_of(served: ServedPlatforms) -> KeyGate:
    """The gate of the keys that the server's database stores."""

    async def find(key_id: str) -> StoredKey | None:
        return await find_key((await served.host()).database, key_id)

    async def used(stored: StoredKey, at: datetime) -> None:
        await note_key_used((await served.host()).database, stored.tenant_id, stored.key.key_id, at)

    return KeyGate(find, used, per_minute=served.settings.http_requests_per_minute)


def sent_key(headers: Headers) -> str:
    """The key in the headers of a request; empty if there is none, or if the headers differ."""
    keys, authorizations = headers.getlist("x-api-key"), headers.getlist("authorization")
    if len(keys) > 1 or len(authorizations) > 1:
        return ""  # a proxy may have checked another one
    sent = {key.strip() for key in keys}
    for authorization in filter(None, authorizations):
        scheme, _, token = authorization.partition(" ")
        sent.add(token.strip() if scheme.lower() == "bearer" else "")
    return sent.pop() if len(sent) == 1 else ""
