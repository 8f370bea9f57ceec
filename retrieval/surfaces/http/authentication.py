"""Authentication: keys are checked, and requests are counted by the minute.

A bucket holds a tenth of a minute's allowance, at least ten requests and never more than a minute's: so much may come
at once. It starts full. The buckets are bounded: of very many, the one that was used longest ago is forgotten, and is
full again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from retrieval.adapters.store.installation.access import StoredKey
from retrieval.domain.api_key import ApiKey, is_key, key_id_of
from retrieval.domain.errors import RetrievalError
from retrieval.engine.stages import Clock
from retrieval.surfaces.http.limits import Latest
from retrieval.surfaces.http.problems import AuthenticationError, RateLimitedError

MOST_BUCKETS = 10_000

RATE_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
"""Requests a minute, requests that may still be made at once, and seconds until as many as ever may be."""

_LEAST_BURST = 10


@dataclass(frozen=True, slots=True)
class Allowance:
    """The present allowance of a key."""

    wait_seconds: float
    """0: the request may go on; else it may be made again so much later."""
    limit: int
    """Requests a minute."""
    remaining: int
    """Requests that may still be made at once."""
    reset_seconds: int
    """When as many as ever may be made at once."""

    def headers(self) -> dict[str, str]:
        """The headers that tell a client."""
        return dict(zip(RATE_HEADERS, map(str, (self.limit, self.remaining, self.reset_seconds)), strict=True))


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimits:
    """The buckets of a process; ``clock`` gives seconds that only ever rise."""

    def __init__(self, clock: Clock, *, most_buckets: int = MOST_BUCKETS) -> None:
        self._clock = clock
        self._buckets = Latest[str, _Bucket](most_buckets)

    def take(self, key_id: str, per_minute: int) -> Allowance:
        """Take one token from the key's bucket, if it holds one."""
        return self._asked(key_id, per_minute, wanted=1)

    def look(self, key_id: str, per_minute: int) -> Allowance:
        """The same without taking it."""
        return self._asked(key_id, per_minute, wanted=0)

    def __len__(self) -> int:
        return len(self._buckets)

    def _asked(self, key_id: str, per_minute: int, *, wanted: int) -> Allowance:
        size, rate = burst(per_minute), per_minute / 60
        now = self._clock()
        bucket = self._bucket(key_id, size, now)
        tokens = min(size, bucket.tokens + (now - bucket.at) * rate)
        wait = max(0.0, (1 - tokens) / rate)
        if wait == 0:
            tokens -= wanted
        bucket.tokens, bucket.at = tokens, now
        return Allowance(wait, per_minute, int(tokens), math.ceil((size - tokens) / rate))

    def _bucket(self, key_id: str, size: int, now: float) -> _Bucket:
        bucket = self._buckets.get(key_id) or _Bucket(size, now)
        self._buckets.keep(key_id, bucket)
        return bucket


def burst(per_minute: int) -> int:
    """How many requests may come at once."""
    return min(per_minute, max(_LEAST_BURST, per_minute // 10))


_log = logging.getLogger(__name__)

REMEMBERED_SECONDS = 5.0
"""How long what the database said of a key is believed."""

MOST_REMEMBERED = 10_000
"""Keys, and as many ids of no key."""

NOTED_EVERY = timedelta(minutes=1)
"""How exactly the last use of a key is kept."""

FAILURES_PER_MINUTE = 60
"""Keys that do not let in, by the client's address; beyond them its keys share ``SPARE_LOOKUPS_PER_MINUTE``."""

SPARE_LOOKUPS_PER_MINUTE = 3000
"""Keys looked up in the database all the same, from all such addresses together: a good one may be behind them too."""

FindKey = Callable[[str], Awaitable[StoredKey | None]]
NoteUsed = Callable[[StoredKey, datetime], Awaitable[None]]


@dataclass(slots=True)
class _Remembered:
    found: StoredKey | None
    until: float


class Authenticator:
    """Belongs to one event loop: ``async with Authenticator(...) as authenticator``.

    ``find`` looks a key up by its id, ``used`` notes that one was used; ``clock`` only ever rises, ``now`` gives the
    time of day, time zone aware.
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
        self._failures = RateLimits(clock)
        self._spare = RateLimits(clock)
        self._lookups: dict[str, asyncio.Task[StoredKey | None]] = {}
        self._noted = Latest[str, datetime](most_remembered)
        self._notes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._notes, *self._lookups.values(), return_exceptions=True)

    async def key_of(self, authorization: str | None, api_key: str | None, address: str) -> ApiKey:
        """The key that the headers ``Authorization`` (as a bearer token) or ``X-API-Key`` hold, if it lets in.

        Raises ``AuthenticationError`` for none, an unknown, an expired and a revoked one alike, and
        ``RateLimitedError`` where too many such came from the address: for another that does not let in, and for
        whatever was not looked up.
        """
        text = given_key(authorization, api_key)
        key_id = None if text is None else key_id_of(text)
        if text is not None and key_id is not None:
            found = await self._stored(key_id, address)
            now = self._now()
            if found is not None and is_key(text, found.secret_hash) and found.key.state(now) == "active":
                self._note(found, now)
                return found.key
        self._check_failures(address)
        raise AuthenticationError

    async def _stored(self, key_id: str, address: str) -> StoredKey | None:
        remembered = self._known.get(key_id) or self._unknown.get(key_id)
        if remembered is not None and remembered.until > self._clock():
            return remembered.found
        if key_id not in self._known:
            # A key that was good a moment ago is looked up in any case: others behind the same address may guess.
            self._check_spare(address)
        lookup = self._lookups.get(key_id) or self._started(key_id)
        return await asyncio.shield(lookup)

    def _started(self, key_id: str) -> asyncio.Task[StoredKey | None]:
        """A look-up for all who ask meanwhile: it has nothing of the first one's, not its deadline either."""
        lookup = asyncio.get_running_loop().create_task(self._looked_up(key_id), context=Context())
        self._lookups[key_id] = lookup
        lookup.add_done_callback(lambda done: self._ended(key_id, done))
        return lookup

    def _ended(self, key_id: str, lookup: asyncio.Task[StoredKey | None]) -> None:
        del self._lookups[key_id]
        if not lookup.cancelled():
            # Perhaps nobody waits for it any more, and then nobody else would hear of its error.
            lookup.exception()

    async def _looked_up(self, key_id: str) -> StoredKey | None:
        found = await self._find(key_id)
        remembered, other = (self._known, self._unknown) if found is not None else (self._unknown, self._known)
        other.pop(key_id, None)
        remembered.keep(key_id, _Remembered(found, self._clock() + REMEMBERED_SECONDS))
        return found

    def _check_spare(self, address: str) -> None:
        if self._failures.look(network_of(address), FAILURES_PER_MINUTE).wait_seconds:
            _check_wait(self._spare.take("", SPARE_LOOKUPS_PER_MINUTE).wait_seconds)

    def _check_failures(self, address: str) -> None:
        _check_wait(self._failures.take(network_of(address), FAILURES_PER_MINUTE).wait_seconds)

    def _note(self, found: StoredKey, now: datetime) -> None:
        """Have the use remembered, behind the request."""
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


def _check_wait(seconds: float) -> None:
    if seconds:
        raise RateLimitedError("too many requests without a valid API key came from here; wait a moment", seconds)


def given_key(authorization: str | None, api_key: str | None) -> str | None:
    """The key that a request gives; None: it gives none, or two headers differ."""
    scheme, _, token = (authorization or "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else None
    if authorization and bearer is None:
        return None
    if bearer is not None and api_key is not None and bearer != api_key.strip():
        return None
    return bearer if bearer is not None else (api_key.strip() if api_key else None)


def network_of(address: str) -> str:
    """The network of an address, by which callers are told apart: of IPv6, an owner has 2^64 addresses."""
    if ":" not in address:
        return address
    return ":".join(_expanded(address).split(":")[:4])


def _expanded(address: str) -> str:
    from ipaddress import IPv6Address

    try:
        return IPv6Address(address.partition("%")[0]).exploded
    except ValueError:
        return address
