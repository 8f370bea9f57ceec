"""A session is started: its folder is looked at while the database is opened; principles are chosen and shown."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from retrieval.adapters.store.installation.direct import DirectConnection, connected
from retrieval.adapters.store.installation.embedded.join import JoinedServer, check_is_made, joined_server
from retrieval.adapters.store.installation.embedded.place import default_home
from retrieval.adapters.store.installed_sql import Names
from retrieval.adapters.store.records.session_start import KnownPrinciple, StartQuestion, read_start, record_start
from retrieval.apps.principles.choosing import (
    FEWER_USES_THAN,
    MIN_PRINCIPLE_SCORE,
    TAG_BOOST,
    YOUNGER_THAN,
    choose,
    rivals,
)
from retrieval.apps.principles.principle import ACTIVE, CANDIDATE, Principle
from retrieval.apps.principles.startup.options import StartOptions
from retrieval.apps.principles.startup.started import Started, started_record
from retrieval.apps.principles.startup.surroundings import HookInput, Surroundings, look_around
from retrieval.apps.probation import FAILED_BELOW, LEAST_TO_FAIL
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError, EmbeddedServerError
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.settings import Settings


@contextlib.contextmanager
def watchdog(seconds: float, when_late: Callable[[], None]) -> Iterator[None]:
    """Within it, after so many seconds, ``when_late`` is called in a thread of its own, and the process ends with 0.

    What blocks in the kernel cannot be interrupted; it can be left.
    """
    timer = threading.Timer(seconds, _end, [when_late])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(when_late: Callable[[], None]) -> None:
    try:
        when_late()
    finally:
        os._exit(0)


class DatabaseOpening:
    """Begins to open the database as it is made; ``deadline`` is in seconds of ``time.monotonic``."""

    def __init__(self, settings: Settings, deadline: float) -> None:
        self._settings = settings
        self._deadline = deadline
        self._connection: DirectConnection | None = None
        self._leave: list[JoinedServer | _Started] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._open, daemon=True)
        self._thread.start()

    def connection(self) -> DirectConnection:
        """The connection, once there is one. Raises what stands in its way."""
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if self._error is not None:
            raise self._error
        if self._connection is None:
            raise DatabaseUnreachableError("the database did not answer in time; check that it runs")
        return self._connection

    def close(self) -> None:
        """Leave the connection, and the embedded server, as far as they were had."""
        if self._connection is not None:
            self._connection.close()
        while self._leave:
            self._leave.pop().close()

    def _open(self) -> None:
        try:
            url = self._settings.database_url
            self._connection = self._connected(url.get_secret_value()) if url else self._embedded()
        except Exception as error:  # noqa: BLE001 - it is raised where the connection is asked for
            self._error = error

    def _embedded(self) -> DirectConnection:
        """Joined where it runs; else, or where it turns out to be gone, started in the ordinary way."""
        home = self._settings.home or default_home()
        try:
            joined = joined_server(home)
            if joined is not None:
                self._leave.append(joined)
                return self._connected(joined.url)
        except DatabaseUnreachableError:
            self._leave.pop().close()
        except OSError as error:
            raise EmbeddedServerError(f"the embedded PostgreSQL in {home} cannot be used: {error}") from error
        check_is_made(home)
        started = _Started(home, self._left())
        self._leave.append(started)
        return self._connected(started.url)

    def _connected(self, url: str) -> DirectConnection:
        names = Names(self._settings.database_schema)
        return connected(url, names, self._settings.tenant, seconds=self._left())

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise DatabaseError("the time is over")
        return left


class _Started:
    """A server that was started; whoever is the last to leave it stops it."""

    def __init__(self, home: Path, seconds: float) -> None:
        from retrieval.adapters.store.installation.embedded.server import start_embedded

        self._server = start_embedded(home, timeout_seconds=seconds)
        self.url = self._server.url

    def close(self) -> None:
        """Give the lease back."""
        self._server.close()


MOST_UNSURE = 150
"""The most unsure principles that compete, the latest first, half of them with a tag of the session."""

PRINCIPLE, TRACES = "principle", "{}_traces"
"""The kind of the items, and where traces lie, as what is too slow to load here says them."""

RECENT, LATEST_TRACES, RECENT_TAGS = timedelta(days=7), 20, 10

Say = Callable[[str], None]


@dataclass(slots=True)
class _Chosen:
    """The principles that were shown, and what else their record needs."""

    started: Started
    collection_id: int
    eligible: int
    """The number of principles that competed to be explored."""
    seed: int


class SessionStart:
    """One start of a session. ``say`` takes hints; ``deadline`` is in seconds of ``time.monotonic``."""

    def __init__(self, options: StartOptions, settings: Settings, deadline: float, say: Say) -> None:
        self._options = options
        self._began = time.monotonic()
        self._deadline = deadline
        self._say = say
        self._opening = DatabaseOpening(settings, deadline)
        self._chosen: _Chosen | None = None

    def started(self, hook: HookInput, now: datetime) -> Started:
        """Gives the session's principles. Raises ``RetrievalError`` where none can be had."""
        folder = self._options.folder or Path(hook.folder or ".")
        context = look_around(folder, self._deadline, self._say)
        answer = read_start(self._opening.connection(), self._question(context, now), seconds=self._left())
        seed = int.from_bytes(os.urandom(8)) >> 1
        principles = [_principle(principle) for principle in answer.principles]
        tags = frozenset((*context.tags, *answer.recent_tags))
        most, slots = self._options.limit, self._options.explore
        chance = random.Random(seed)  # noqa: S311 - it explores, and keeps no secret
        chosen = choose(principles, tags, chance, now=now, most=most, slots=slots)
        started = Started(
            session=self._options.session or hook.session or str(uuid7(_milliseconds(now), random.SystemRandom())),
            surroundings=context,
            recent_tags=answer.recent_tags,
            principles=tuple(chosen),
        )
        eligible = len(rivals(principles, tags, now=now, most=most, slots=slots))
        if chance.random() < answer.recorded:
            self._chosen = _Chosen(started, answer.collection_id, eligible, seed)
        return started

    def record(self, now: datetime) -> None:
        """Store what was shown, if anything was and it is to be recorded. Raises the errors of ``DatabaseError``."""
        if self._chosen is None or not self._chosen.started.principles:
            return
        record = started_record(
            self._chosen.started,
            retrieval_id=uuid7(_milliseconds(now), random.SystemRandom()),
            collection_id=self._chosen.collection_id,
            seed=self._chosen.seed,
            eligible=self._chosen.eligible,
            took_ms=1000 * (time.monotonic() - self._began),
        )
        record_start(self._opening.connection(), record, seconds=self._left())

    def close(self) -> None:
        """Leave the database."""
        self._opening.close()

    def _question(self, context: Surroundings, now: datetime) -> StartQuestion:
        return StartQuestion(
            collection=self._options.collection,
            traces=TRACES.format(self._options.collection),
            tags=context.tags,
            most=self._options.limit + self._options.explore,
            certain=max(0, self._options.limit - self._options.explore),
            kind=PRINCIPLE,
            in_use=(ACTIVE, CANDIDATE),
            active=ACTIVE,
            least_score=MIN_PRINCIPLE_SCORE,
            boost=TAG_BOOST,
            fewer_uses_than=FEWER_USES_THAN,
            young_since=now - YOUNGER_THAN,
            most_unsure=MOST_UNSURE,
            failed_from=LEAST_TO_FAIL,
            failed_below=FAILED_BELOW,
            since=now - RECENT,
            now=now,
            latest_traces=LATEST_TRACES,
            recent_tags=RECENT_TAGS,
        )

    def _left(self) -> float:
        return max(0.001, self._deadline - time.monotonic())


def _principle(known: KnownPrinciple) -> Principle:
    return Principle(
        id=known.item_id,
        title=known.title,
        body=known.body,
        tags=tuple(known.tags),
        status=known.status,
        added_by=known.source,
        created_at=datetime.fromtimestamp(known.created_at, UTC),
        use_count=known.uses,
        success_count=known.successes,
        last_used_at=None if known.last_used_at is None else datetime.fromtimestamp(known.last_used_at, UTC),
    )


def _milliseconds(now: datetime) -> int:
    return int(now.timestamp() * 1000)
