"""A session is started: its folder is looked at while the database is opened; principles are chosen and recorded."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from retrieval.adapters.store.records.session_start import (
    KnownPrinciple,
    StartQuestion,
    read_start,
    record_start,
)
from retrieval.apps.principles.choosing import MIN_PRINCIPLE_SCORE, TAG_BOOST, choose, rivals
from retrieval.apps.principles.exploration import FEWER_USES_THAN, YOUNGER_THAN
from retrieval.apps.principles.principle import ACTIVE, CANDIDATE, Principle
from retrieval.apps.principles.startup.folder import look_around
from retrieval.apps.principles.startup.hook_input import HookInput
from retrieval.apps.principles.startup.opening import Opening
from retrieval.apps.principles.startup.start_options import StartOptions
from retrieval.apps.principles.startup.start_settings import StartSettings
from retrieval.apps.principles.startup.started import Started, started_record
from retrieval.apps.principles.startup.surroundings import Surroundings
from retrieval.apps.probation import FAILED_BELOW, LEAST_TO_FAIL
from retrieval.domain.retrieval_id import uuid7

MOST_UNSURE = 150
"""Of more principles that may be explored the latest so many compete, half of them with a tag of the session."""

PRINCIPLE, TRACES = "principle", "{}_traces"
"""The kind of the items, and where traces lie, as what is too slow to load here says them."""

RECENT, LATEST_TRACES, RECENT_TAGS = timedelta(days=7), 20, 10

Say = Callable[[str], None]


@dataclass(slots=True)
class _Chosen:
    """What was shown, and what its record needs besides."""

    started: Started
    collection_id: int
    eligible: int
    """How many competed to be explored."""
    seed: int


class SessionStart:
    """One start of a session. ``say`` takes hints; ``deadline`` is in seconds of ``time.monotonic``."""

    def __init__(self, options: StartOptions, settings: StartSettings, deadline: float, say: Say) -> None:
        self._options = options
        self._began = time.monotonic()
        self._deadline = deadline
        self._say = say
        self._opening = Opening(settings, deadline)
        self._chosen: _Chosen | None = None

    def started(self, hook: HookInput, now: datetime) -> Started:
        """What the session is given. Raises ``RetrievalError`` where nothing can be had."""
        folder = self._options.folder or Path(hook.folder or ".")
        context = look_around(folder, self._deadline, self._say)
        answer = read_start(self._opening.connection(), self._question(context, now), seconds=self._left())
        seed = int.from_bytes(os.urandom(8)) >> 1
        principles = [_principle(one) for one in answer.principles]
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
