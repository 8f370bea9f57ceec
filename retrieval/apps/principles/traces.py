"""The traces of sessions: stored, found by time, and what those that went well were about."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from retrieval.apps.principles.asked import TimeRange, checked_count, ended
from retrieval.apps.principles.collection import LATEST_PROFILE, traces_collection
from retrieval.apps.principles.tags import frequent_tags, normalised_tags
from retrieval.apps.principles.trace import Outcome, Trace, outcome_of, trace_of
from retrieval.collection import Collection
from retrieval.domain.errors import InvalidRequestError, UnknownFieldError
from retrieval.domain.retrieval_id import uuid7
from retrieval.platform import Platform

LATEST = 20
"""Traces that recent tags are taken from."""


class Traces:
    """The traces beside the principles of that name."""

    def __init__(self, platform: Platform, name: str, chance: random.Random) -> None:
        self._platform = platform
        self._name = name
        self._chance = chance
        self._opened: Collection | None = None

    async def add(
        self,
        title: str,
        tags: Sequence[str],
        outcome: Outcome | str,
        at: datetime | None,
        *,
        note: str,
        trace_id: str | None,
        session: str,
    ) -> Trace:
        """See ``PrincipleStore.add_trace``."""
        now = self._platform.now
        trace = Trace(
            id=str(uuid7(int(now.timestamp() * 1000), self._chance)) if trace_id is None else trace_id,
            title=title,
            tags=normalised_tags(tags),
            outcome=outcome_of(outcome, note),
            at=now if at is None else at,
            session=session,
        )
        await (await self._collection()).add([trace.item()])
        return trace

    async def search(self, limit: int, time_range: TimeRange | None, status: str | None) -> list[Trace]:
        """See ``PrincipleStore.search_traces``."""
        most, where = checked_count("limit", limit), ended(time_range, status)
        collection = await self._collection()
        try:
            hits = await collection.unrecorded().search(where=where or None, limit=most, profile=LATEST_PROFILE)
        except UnknownFieldError:
            return []  # there is no trace yet, so that none has an outcome
        return [trace_of(hit) for hit in hits]

    async def recent_tags(self, days: float, most: int) -> list[str]:
        """See ``PrincipleStore.recent_tags``."""
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= 36500:
            raise InvalidRequestError(f"days is {days!r:.80}; it must be a number above 0, such as 7")
        now = self._platform.now
        latest = await self.search(LATEST, (now - timedelta(days=days), now), None)
        return frequent_tags((one.tags for one in latest if one.is_success), checked_count("most", most))

    async def _collection(self) -> Collection:
        if self._opened is None:
            self._opened = await traces_collection(self._platform, self._name)
        return self._opened
