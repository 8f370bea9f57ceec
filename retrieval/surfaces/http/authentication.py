"""Authentication: checks API keys, and counts the requests of each key by the minute.

A token bucket holds a tenth of a minute's allowance, at least ten requests and at most a minute's: as many may come at
once. It starts full. The number of buckets is bounded: the bucket that was used longest ago is dropped, and would start
full again.
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
"""Requests a minute, requests that may still be made at once, and seconds until the bucket is full again."""

_LEAST_BURST = 10


@dataclass(frozen=True, slots=True)
class Allowance:
    """The present allowance of a key."""

    wait_seconds: float
    """0: the request may go on; otherwise the seconds to wait before it is made again."""
    limit: int
    """Requests a minute."""
    remaining: int
    """Requests that may still be made at once."""
    reset_seconds: int
    """The seconds until the bucket is full again."""

    def headers(self) -> dict[str, str]:
        """The headers that tell a client."""
        return dict(zip(RATE_HEADERS, map(str, (self.limit, self.remaining, self.reset_seconds)), strict=True))


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimits:
    """The token buckets of a process; ``clock`` gives seconds that never go back."""

    def __init__(self, clock: Clock, *, most_buckets: int = MOST_BUCKETS) -> None:
        self._clock = clock
        self._buckets = Latest[str, _Bucket](most_buckets)

    def take(self, key_id: str, per_minute: int) -> Allowance:
        """Take one token from the key's bucket, if it holds one."""
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
    """The number of requests that may come at once."""
    return min(per_minute, max(_LEAST_BURST, per_minute // 10))


_log = logging.getLogger(__name__)

REMEMBERED_SECONDS = 5.0
"""The seconds that a looked-up key is kept in memory."""

MOST_REMEMBERED = 10_000
"""Keys, and as many ids of no key."""

NOTED_EVERY = timedelta(minutes=1)
"""The precision of the stored time of a key's last use."""

FindKey = Callable[[str], Awaitable[StoredKey | None]]
NoteUsed = Callable[[StoredKey, datetime], Awaitable[None]]


@dataclass(slots=True)
class _Remembered:
    found: StoredKey | None
    until: float


class Authenticator:
    """Checks API keys; belongs to one event loop: ``async with Authenticator(...) as authenticator``.

    ``find`` looks a key up by its id, and ``used`` notes a use of a key. ``clock`` gives seconds that never go back,
    ``now`` the time with a time zone.
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
        self._known = Latest[str, _Remembered](most_remembered)
        self._unknown = Latest[str, _Remembered](most_remembered)
        self._lookups: dict[str, asyncio.Task[StoredKey | None]] = {}
        self._noted = Latest[str, datetime](most_remembered)
        self._notes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for the checks in progress."""
        await asyncio.gather(*self._notes, *self._lookups.values(), return_exceptions=True)

    async def key_of(self, authorization: str | None, api_key: str | None) -> ApiKey:
        """The key that the headers ``Authorization`` (as a bearer token) or ``X-API-Key`` hold, if it lets in.

        Raises ``AuthenticationError`` for none, an unknown, an expired and a revoked one alike.
        """
        text = given_key(authorization, api_key)
        key_id = None if text is None else key_id_of(text)
        if text is not None and key_id is not None:
            found = await self._stored(key_id)
            now = self._now()
            if found is not None and is_key(text, found.secret_hash) and found.key.state(now) == "active":
                self._note(found, now)
                return found.key
        raise AuthenticationError

    async def _stored(self, key_id: str) -> StoredKey | None:
        remembered = self._known.get(key_id) or self._unknown.get(key_id)
        if remembered is not None and remembered.until > self._clock():
            return remembered.found
        return await asyncio.shield(self._lookups.get(key_id) or self._started(key_id))

    def _started(self, key_id: str) -> asyncio.Task[StoredKey | None]:
        """Start one look-up for all requests that wait for it; it does not have the first request's deadline."""
        lookup = asyncio.get_running_loop().create_task(self._looked_up(key_id), context=Context())
        self._lookups[key_id] = lookup
        lookup.add_done_callback(lambda done: self._ended(key_id, done))
        return lookup

    def _ended(self, key_id: str, lookup: asyncio.Task[StoredKey | None]) -> None:
        del self._lookups[key_id]
        if not lookup.cancelled():
            # Reads its error where no request waits for it any more.
            lookup.exception()

    async def _looked_up(self, key_id: str) -> StoredKey | None:
        found = await self._find(key_id)
        remembered, other = (self._known, self._unknown) if found is not None else (self._unknown, self._known)
        other.pop(key_id, None)
        remembered.keep(key_id, _Remembered(found, self._clock() + REMEMBERED_SECONDS))
        return found

    def _note(self, found: StoredKey, now: datetime) -> None:
        """Store the use of the key, in the background."""
        key_id = found.key.key_id
        last = self._noted.get(key_id) or found.key.last_used_at
        if last is not None and now - last < NOTED_EVERY:
            return
        self._noted.keep(key_id, now)
        note = asyncio.get_running_loop().create_task(self._noting(found, now), context=Context())
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def _noting(self, found: StoredKey, now: datetime) -> None:
        try:
            await self._used(found, now)
        except RetrievalError as error:
            _log.info("the use of API key %s was not noted: %s", found.key.key_id, error)


def given_key(authorization: str | None, api_key: str | None) -> str | None:
    """The key in the headers of a request; None where there is none, or where the two headers differ."""
    scheme, _, token = (authorization or "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else None
    if authorization and bearer is None:
        return None
    if bearer is not None and api_key is not None and bearer != api_key.strip():
        return None
    return bearer if bearer is not None else (api_key.strip() if api_key else None)


class KeyGate:
    """Lets callers in by their API keys, each as often as its key may ask: ``async with KeyGate(...) as gate``."""

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
        """The key that the request bears.

        Raises ``AuthenticationError``, and ``DatabaseError`` where no key can be looked up.
        """
        return await self._authenticator.key_of(_single(headers, "authorization"), _single(headers, "x-api-key"))

    async def caller(self, headers: Headers) -> tuple[Caller, Allowance]:
        """The bearer of the key, and the rest of the key's allowance.

        Raises ``AuthenticationError``, ``RateLimitedError``, and ``DatabaseError`` where no key can be looked up.
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

    async def _used(self, found: StoredKey, at: datetime) -> None:
        await note_key_used((await self._served.host()).database, found.tenant_id, found.key.key_id, at)


def _single(headers: Headers, name: str) -> str | None:
    """The header's value. Raises ``AuthenticationError`` for more than one: a proxy may read the other one."""
    found = headers.getlist(name)
    if len(found) > 1:
        raise AuthenticationError
    return found[0] if found else None
