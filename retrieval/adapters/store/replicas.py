"""Read replicas: searches read from a standby that is fresh enough, or from the primary if there is none.

While there are searches, primary and replicas are asked for their log positions once a second. A replica that has
replayed the primary's position of some time has everything that was committed by then, whatever its clock says. A write
returns a token, the primary's position after it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.deadline import LateError, in_background, within
from retrieval.adapters.store.translate import URL_SETTING, server_name
from retrieval.domain import errors
from retrieval.domain.checks import written

_log = logging.getLogger(__name__)

READ_URLS_SETTING = "RETRIEVAL_READ_DATABASE_URLS"
"""What the replicas' URLs are called in messages."""

LOOK_SECONDS = 1.0
"""The seconds between two queries for the positions of primary and replica."""

ANSWER_SECONDS = 5.0
"""The seconds that a replica has to answer such a query; searches do not read from a slower replica."""

_PAUSES = (0.05, 0.25)
"""The seconds after which a replica that lags is asked again."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.02
"""The seconds between two checks whether a replica has replayed a token's position."""

_MOST_POSITIONS = 3600
"""The positions of an hour: a replica that lags further behind is useless."""

_POSITION = Compiled("SELECT pg_current_wal_insert_lsn()::text")
_SYSTEM = Compiled("SELECT system_identifier FROM pg_control_system()")
_REPLAYED = Compiled(
    "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text, (SELECT system_identifier FROM pg_control_system())"
)
_TOKEN = re.compile(r"[0-9A-F]{1,8}/[0-9A-F]{1,8}")

_NOT_YET, _NO_STANDBY = "it was not asked yet", "it is not a standby"
_ANOTHER = f"it is a copy of another database server than {URL_SETTING} names"

_AHEAD = "it has data that the primary does not have, as after a failover that lost writes; copy it again"

_AFTER_WRITE: ContextVar[int] = ContextVar("retrieval_after_write", default=0)
"""The position that a replica must have replayed for the task's searches."""


@contextmanager
def _at_or_after(position: int) -> Iterator[None]:
    before = _AFTER_WRITE.set(position)
    try:
        yield
    finally:
        _AFTER_WRITE.reset(before)


_ANY_STATE: AbstractContextManager[None] = nullcontext()


def reading_after(token: str | None) -> AbstractContextManager[None]:
    """Make the searches in the ``with`` block read at least the state of that token; None: any state.

    Raises ``InvalidRequestError`` for anything but a token.
    """
    return _ANY_STATE if token is None else _at_or_after(checked_token(token))


def checked_token(token: object) -> int:
    """The position in a token. Raises ``InvalidRequestError``."""
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise errors.InvalidRequestError(
            f"{written(token, 60)} is not a token of a write; give the token as the write returned it"
        )
    high, low = token.split("/")
    return (int(high, 16) << 32) + int(low, 16)


async def token_of(primary: Database) -> str:
    """The token of everything that was committed so far."""
    return str((await primary.read(None, _POSITION))[0][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """The state of a replica."""

    server: str
    """Host, port and database."""
    lag_seconds: float | None
    """The age of its state: it has everything that was committed that long ago; None: unknown."""
    passed_over: str
    """The reason why searches pass it over; empty: they read from it."""


@dataclass(slots=True, eq=False)
class _Replica:
    url: str
    database: Database | None = None
    """None until it was reached for the first time."""
    noted: int = 0
    """The primary's position when the replica was last looked at."""
    replayed: int = 0
    """The position that the replica has reached."""
    fresh_at: float = float("-inf")
    """The replica has everything that was committed before that time of the clock."""
    positions: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POSITIONS))
    """The times and positions of the primary that the replica had not reached when it was last asked, oldest first."""
    ahead_at: int | None = None
    """A position that the replica had and the primary had not; None: none was seen."""
    fault: str = _NOT_YET
    """The reason why the replica cannot be read from; empty: it can be read from."""
    looked_at: float = float("-inf")
    looking: asyncio.Task[None] | None = None


class Replicas:
    """The replicas of one installation and their states, as one process knows them."""

    def __init__(
        self,
        primary: Database,
        urls: Sequence[str],
        open_: Callable[[str], Awaitable[Database]],
        *,
        max_lag_seconds: float,
        wait_seconds: float,
    ) -> None:
        self._primary = primary
        self._open = open_
        self._replicas = [_Replica(url) for url in urls]
        self._max_lag = max_lag_seconds
        self._wait = wait_seconds
        self._system: int | None = None
        self._turn = 0
        self._asked_at = float("-inf")

    @property
    def states(self) -> list[ReplicaState]:
        """The state of each replica, in the order of the setting."""
        return [self._state(replica) for replica in self._replicas]

    async def look(self) -> None:
        """Ask all replicas now, and return once each has answered or is passed over."""
        self._begin_to_look(every=0)
        await asyncio.wait(self._looking())

    async def chosen(self) -> Database | None:
        """The replica to read from, at or after the position of ``reading_after``; None: read from the primary."""
        position = _AFTER_WRITE.get()
        now, before = time.monotonic(), self._asked_at
        self._asked_at = now
        self._begin_to_look(every=LOOK_SECONDS)
        # After a pause without searches, the replicas' state is unknown.
        until = now + self._wait if now - before > 2 * LOOK_SECONDS else now
        while now < until and not self._usable() and (looking := self._looking()):
            await asyncio.wait(looking, timeout=until - now, return_when=asyncio.FIRST_COMPLETED)
            now = time.monotonic()
        if not (fresh := self._fresh(position)) and position:
            await self._until_one_has(position)
            fresh = self._fresh(position)
        if not fresh:
            return None
        self._turn += 1
        return fresh[self._turn % len(fresh)].database

    def failed(self, database: Database, error: errors.RetrievalError) -> None:
        """Pass over a replica that could not be reached, until it answers again."""
        if not isinstance(error, errors.DatabaseUnreachableError):
            return
        for replica in self._replicas:
            if replica.database is database:
                self._pass_over(replica, str(error))

    async def aclose(self) -> None:
        """Close the connections."""
        if looking := self._looking():
            for task in looking:
                task.cancel()
            await asyncio.wait(looking)
        for replica in self._replicas:
            if replica.database is not None:
                await replica.database.close()

    def _usable(self) -> list[_Replica]:
        now = time.monotonic()
        return [replica for replica in self._replicas if not replica.fault and now - replica.fresh_at <= self._max_lag]

    def _fresh(self, position: int) -> list[_Replica]:
        return [replica for replica in self._usable() if replica.replayed >= position]

    def _state(self, replica: _Replica) -> ReplicaState:
        age = time.monotonic() - replica.fresh_at
        lag = None if replica.fault or age == float("inf") else max(0.0, age)
        late = "it lags behind" if lag is None or lag > self._max_lag else ""
        return ReplicaState(server=server_name(replica.url), lag_seconds=lag, passed_over=replica.fault or late)

    def _pass_over(self, replica: _Replica, fault: str) -> None:
        if replica.fault in ("", _NOT_YET):
            _log.warning("searches pass over the replica at %s: %s", server_name(replica.url), fault)
        replica.fault = fault

    def _looking(self) -> set[asyncio.Task[None]]:
        return {task for replica in self._replicas if (task := replica.looking) is not None and not task.done()}

    def _begin_to_look(self, every: float) -> None:
        now = time.monotonic()
        for replica in self._replicas:
            if now - replica.looked_at >= every and (replica.looking is None or replica.looking.done()):
                replica.looked_at = now
                replica.looking = in_background(self._look_at(replica))

    async def _until_one_has(self, position: int) -> None:
        """Wait until a replica has replayed the position, for the allowed time at most, also if a replica hangs."""
        with suppress(LateError, errors.DeadlineError):
            await within(self._ask_until_one_has(position), self._wait)

    async def _ask_until_one_has(self, position: int) -> None:
        pause = 0.0
        while usable := self._usable():
            nearest = max(usable, key=lambda replica: replica.replayed)
            if nearest.replayed >= position:
                return
            await asyncio.sleep(pause)
            pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            try:
                await self._ask(nearest)
            except errors.DatabaseError as error:
                self.failed(nearest.database or self._primary, error)
                return

    async def _look_at(self, replica: _Replica) -> None:
        await self._note_position(replica)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                replica.database = replica.database or await self._open(replica.url)
                fault = await self._ask(replica)
                for pause in _PAUSES:
                    if fault or not replica.positions:
                        break
                    await asyncio.sleep(pause)
                    fault = await self._ask(replica)
        except TimeoutError:
            fault = f"it did not answer within {ANSWER_SECONDS:g} seconds"
        except errors.SchemaRevisionError as error:
            found = str(error).partition("; ")[0]
            fault = f"{found}: it lags behind, or {READ_URLS_SETTING} names another database than {URL_SETTING}"
        except errors.RetrievalError as error:
            fault = str(error)
        if fault:
            self._pass_over(replica, fault)
            return
        if replica.fault not in ("", _NOT_YET):
            _log.warning("searches read from the replica at %s again", server_name(replica.url))
        replica.fault = ""

    async def _note_position(self, replica: _Replica) -> None:
        """Note the primary's position. If the primary does not answer, the replica only grows older."""
        now = time.monotonic()
        with suppress(errors.DatabaseError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._system is None:
                    self._system = (await self._primary.read(None, _SYSTEM))[0][0]
                replica.noted = checked_token(await token_of(self._primary))
                replica.positions.append((now, replica.noted))

    async def _ask(self, replica: _Replica) -> str:
        """Read and note the replica's position; returns the reason if it cannot be used."""
        if replica.database is None:
            return _NOT_YET
        is_standby, replayed, system = (await replica.database.read(None, _REPLAYED))[0]
        if not is_standby or replayed is None:
            return _NO_STANDBY
        if self._system not in (None, system):
            return _ANOTHER
        position = checked_token(replayed)
        if position == replica.ahead_at or await self._is_ahead(replica, position):
            # Its positions are of another history than the primary's, so they say nothing.
            replica.ahead_at, replica.replayed, replica.fresh_at = position, 0, float("-inf")
            replica.positions.clear()
            return _AHEAD
        replica.replayed = max(replica.replayed, position)
        while replica.positions and replica.positions[0][1] <= replica.replayed:
            replica.fresh_at = replica.positions.popleft()[0]
        return ""

    async def _is_ahead(self, replica: _Replica, position: int) -> bool:
        """Whether the replica has a position that the primary, asked later, has not: it followed a former primary.

        Such a replica cannot follow, so it stays at that position, also once the primary has passed it.
        """
        if position <= replica.noted:
            return False
        with suppress(errors.DatabaseError):
            return position > checked_token(await token_of(self._primary))
        return False
