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
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from starlette.datastructures import Headers

from retrieval.adapters.store.installation.access import StoredKey, find_key, note_key_used
from retrieval.domain.api_key import ApiKey, Caller, is_key, key_id_of
from retrieval.domain.errors import RetrievalError
from retrieval.engine.stages import Clock
from retrieval.surfaces.http.limits import Latest
from retrieval.surfaces.http.problems import AuthenticationError, RateLimitedError
from retrieval.surfaces.tenants import ServedPlatforms

MOST_BUCKETS = 10_000

RATE_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
"""Requests per minute, requests that may still be made at once, and seconds until the bucket is full again."""

_LEAST_BURST = 10


@dataclass(frozen=True, slots=True)
class Allowance:
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
        return dict(zip(RATE_HEADERS, map(str, (self.limit, self.remaining, self.reset_seconds)), strict=True))


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimits:
    """The token buckets of a process; ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Clock, *, most_buckets: int = MOST_BUCKETS) -> None:
        self._clock = clock
        self._buckets = Latest[str, _Bucket](most_buckets)

    def take(self, key_id: str, per_minute: int) -> Allowance:
        """Take one token from the key's bucket, if it has one."""
        size, rate = burst(per_minute), per_minute / 60
        now = self._clock()
        bucket = self._buckets.get(key_id) or _Bucket(size, now)
        self._buckets.keep(key_id, bucket)
        tokens = min(size, bucket.tokens + (now - bucket.at) * rate)
        wait = max(0.0, (1 - tokens) / rate)
        bucket.tokens, bucket.at = tokens - (wait == 0), now
        return Allowance(wait, per_minute, int(bucket.tokens), math.ceil((size - bucket.tokens) / rate))

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

FindKey = Callable[[str], Awaitable[StoredKey | None]]
NoteUsed = Callable[[StoredKey, datetime], Awaitable[None]]


@dataclass(slots=True)
class _CachedLookup:
    key: StoredKey | None
    until: float


class Authenticator:
    """Checks API keys; belongs to one event loop: ``async with Authenticator(...) as authenticator``.

    ``find`` looks a key up by its id, and ``used`` notes a use of a key. ``clock`` is monotonic, in seconds; ``now``
    returns the time with a time zone.
    """

    def __init__(
        self,
        find: FindKey,
        used: NoteUsed,
        *,
        clock: Clock,
        now: Callable[[], datetime],
        most_remembered: int = MOST_REMEMBERED,
    ) -> None:
        self._find, self._used = find, used
        self._clock, self._now = clock, now
        self._known = Latest[str, _CachedLookup](most_remembered)
        self._unknown = Latest[str, _CachedLookup](most_remembered)
        self._lookups: dict[str, asyncio.Task[StoredKey | None]] = {}
        self._noted = Latest[str, datetime](most_remembered)
        self._notes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for the checks in progress."""
        await asyncio.gather(*self._notes, *self._lookups.values(), return_exceptions=True)

    async def key_of(self, authorization: str | None, api_key: str | None) -> ApiKey:
        """The active key in the header ``Authorization`` (as a bearer token) or ``X-API-Key``.

        Raises the same ``AuthenticationError`` for a missing, unknown, expired or revoked key.
        """
        text = sent_key(authorization, api_key)
        key_id = None if text is None else key_id_of(text)
        if text is not None and key_id is not None:
            stored = await self._stored(key_id)
            now = self._now()
            if stored is not None and is_key(text, stored.secret_hash) and stored.key.state(now) == "active":
                self._note(stored, now)
                return stored.key
        raise AuthenticationError

    async def _stored(self, key_id: str) -> StoredKey | None:
        remembered = self._known.get(key_id) or self._unknown.get(key_id)
        if remembered is not None and remembered.until > self._clock():
            return remembered.key
        return await asyncio.shield(self._lookups.get(key_id) or self._start_lookup(key_id))

    def _start_lookup(self, key_id: str) -> asyncio.Task[StoredKey | None]:
        """Start one look-up for all waiting requests, in a context without the first request's deadline."""
        lookup = asyncio.get_running_loop().create_task(self._look_up(key_id), context=Context())
        self._lookups[key_id] = lookup
        lookup.add_done_callback(lambda done: self._end_lookup(key_id, done))
        return lookup

    def _end_lookup(self, key_id: str, lookup: asyncio.Task[StoredKey | None]) -> None:
        del self._lookups[key_id]
        if not lookup.cancelled():
            # Retrieve the error, in case no request waits for it any more: asyncio would log it.
            lookup.exception()

    async def _look_up(self, key_id: str) -> StoredKey | None:
        stored = await self._find(key_id)
        cache, other = (self._known, self._unknown) if stored is not None else (self._unknown, self._known)
        other.pop(key_id, None)
        cache.keep(key_id, _CachedLookup(stored, self._clock() + REMEMBERED_SECONDS))
        return stored

    def _note(self, stored: StoredKey, now: datetime) -> None:
        """Store the time of the key's use, in the background."""
        key_id = stored.key.key_id
        last = self._noted.get(key_id) or stored.key.last_used_at
        if last is not None and now - last < NOTED_EVERY:
            return
        self._noted.keep(key_id, now)
        note = asyncio.get_running_loop().create_task(self._store_use(stored, now), context=Context())
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def _store_use(self, stored: StoredKey, now: datetime) -> None:
        try:
            await self._used(stored, now)
        except RetrievalError as error:
            _log.info("the use of API key %s was not noted: %s", stored.key.key_id, error)


def sent_key(authorization: str | None, api_key: str | None) -> str | None:
    """The key in the headers of a request; None if there is none, or if the two headers differ."""
    scheme, _, token = (authorization or "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else None
    if authorization and bearer is None:
        return None
    if bearer is not None and api_key is not None and bearer != api_key.strip():
        return None
    return bearer if bearer is not None else (api_key.strip() if api_key else None)


class KeyGate:
    """Admits callers by their API keys, within the rate limit of each key: ``async with KeyGate(...) as gate``."""

    def __init__(self, served: ServedPlatforms) -> None:
        self._served = served
        self._limits = RateLimits(time.monotonic)
        self._authenticator = Authenticator(self._find, self._used, clock=time.monotonic, now=lambda: datetime.now(UTC))

    async def __aenter__(self) -> Self:
        await self._authenticator.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._authenticator.__aexit__(*error)

    async def key(self, headers: Headers) -> ApiKey:
        """The key of the request. Raises ``AuthenticationError``, and ``DatabaseError`` if it cannot be looked up."""
        return await self._authenticator.key_of(_single(headers, "authorization"), _single(headers, "x-api-key"))

    async def caller(self, headers: Headers) -> tuple[Caller, Allowance]:
        """The caller that the key identifies, and the key's remaining allowance.

        Raises ``AuthenticationError``, ``RateLimitedError``, and ``DatabaseError`` if the key cannot be looked up.
        """
        key = await self.key(headers)
        per_minute = key.requests_per_minute or self._served.settings.http_requests_per_minute
        allowance = self._limits.take(key.key_id, per_minute)
        if allowance.wait_seconds:
            wait = math.ceil(allowance.wait_seconds)
            raise RateLimitedError(
                f"this API key may make {per_minute:,} requests a minute; try again in {wait} s",
                allowance.wait_seconds,
                headers=allowance.headers(),
            )
        return Caller(key.tenant, key.scopes, key.key_id, key), allowance

    async def _find(self, key_id: str) -> StoredKey | None:
        return await find_key((await self._served.host()).database, key_id)

    async def _used(self, stored: StoredKey, at: datetime) -> None:
        await note_key_used((await self._served.host()).database, stored.tenant_id, stored.key.key_id, at)


def _single(headers: Headers, name: str) -> str | None:
    """The header's value. Raises ``AuthenticationError`` for several, of which a proxy may have checked another one."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise AuthenticationError
    return values[0] if values else None
