"""Read the training data of models: verdicts that count, and their searches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.records.retrievals import POOL_COLUMNS, signals_from
from retrieval.adapters.store.round_trip import Row
from retrieval.domain.items.embedding import Vector
from retrieval.domain.records.retrieval_id import time_of
from retrieval.domain.records.search_record import USUAL
from retrieval.domain.search.profile import Profile

MOST_VERDICTS = 200_000
"""The most verdicts that a model is fitted on, the latest."""

_PAGE = 500

# A model of a later time was fitted while a clock was ahead: it would hide verdicts until that time.
_LAST = Compiled("""
    SELECT m.statistics_at, m.events, m.definition -> 'share', m.definition -> 'space_id' FROM learned_models AS m
    WHERE m.collection_id = %(collection_id)s AND m.statistics_at <= now()
    ORDER BY m.version DESC LIMIT 1
""")
# The time is a parameter, so that the planner sees how few rows follow it.
_COUNT = Compiled("""
    SELECT count(*) FROM (
        SELECT FROM feedback AS f
        WHERE f.collection_id = %(collection_id)s AND f.superseded_at IS NULL AND f.weight > 0
            AND f.received_at > coalesce(%(since)s::timestamptz, '-infinity'::timestamptz)
        LIMIT %(most)s
    ) AS counted
""")
_LOST = Compiled("""
    SELECT count(*) FROM (
        SELECT FROM feedback AS f
        LEFT JOIN quarantines AS q ON q.tenant_id = %(tenant_id)s AND q.actor = f.actor
        WHERE f.collection_id = %(collection_id)s AND f.received_at <= %(since)s AND (
            f.superseded_at > %(since)s
            OR (f.superseded_at IS NULL AND f.discounted = 'quarantined' AND q.quarantined_at > %(since)s)
        )
        LIMIT %(most)s
    ) AS counted
""")
_VERDICTS = Compiled("""
    SELECT f.item_id, f.retrieval_id, f.contexts, f.reward, f.weight, f.occurred_at
    FROM feedback AS f
    WHERE f.collection_id = %(collection_id)s AND f.superseded_at IS NULL AND f.weight > 0
        AND f.received_at <= %(until)s
    ORDER BY f.received_at DESC
    LIMIT %(most)s
""")
_SEARCHES = Compiled(f"""
    SELECT
        r.retrieval_id, r.query, r.vector, r.condition, r.request, r.shown_items, r.profile_version, {POOL_COLUMNS}
    FROM unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) AS requested (retrieval_id, retrieved_at)
    JOIN retrievals AS r ON r.collection_id = %(collection_id)s
        AND r.retrieval_id = requested.retrieval_id AND r.retrieved_at = requested.retrieved_at
""")  # noqa: S608 - of the names above
_PROFILES = Compiled("""
    SELECT p.version, p.definition FROM profiles AS p WHERE p.collection_id = %(collection_id)s
""")
_CLUSTERS = Compiled("""
    SELECT k.item_id, k.cluster FROM item_clusters AS k
    WHERE k.collection_id = %(collection_id)s AND k.item_id = ANY(%(item_ids)s)
""")

_OCTETS = Compiled("""
    SELECT i.item_id, octet_length(i.title) + octet_length(i.body) FROM items AS i
    WHERE i.collection_id = %(collection_id)s AND i.item_id = ANY(%(item_ids)s)
""")


class CountedVerdict(NamedTuple):
    """A verdict that counts."""

    item_id: str
    retrieval_id: UUID | None
    contexts: tuple[str, ...]
    reward: float
    weight: float
    occurred_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedSearch:
    """A recorded search with verdicts on its hits."""

    retrieval_id: UUID
    query: str
    vector: Vector | None
    """The vector that the caller passed, shape (dimensions,); None: the query was embedded."""
    condition: Mapping[str, Any]
    """The filter; empty: none."""
    request: Mapping[str, Any]
    """The rest of the request; see ``RecordedSearch``."""
    pool_items: Sequence[str]
    pool_signals: Mapping[str, Any]
    """See ``RecordedSearch``."""
    shown: Sequence[str]
    """Item ids by rank."""


class LastFit(NamedTuple):
    """The facts about the last model that was fitted, in use or not."""

    statistics_at: datetime
    """The time at which its verdicts were read."""
    events: int
    """The verdicts that it was fitted on."""
    share: float | None
    """The share of the learned reward in the sum of its trial; None: unknown."""
    space_id: int | None
    """The space of the queries that it was fitted on; None: there is none."""


async def read_last_fit(at: CollectionPlace) -> LastFit | None:
    """The last fit; None: there is none yet."""
    rows = await at.read(_LAST)
    return LastFit(*rows[0]) if rows else None


async def count_received_verdicts(at: CollectionPlace, *, since: datetime | None, most: int) -> int:
    """The number of verdicts that count and were received after that time (None: ever); counting stops at ``most``."""
    return int((await at.read(_COUNT, since=since, most=most))[0][0])


async def count_lost_verdicts(at: CollectionPlace, *, since: datetime, most: int) -> int:
    """The number of earlier verdicts that were replaced, withdrawn or quarantined since then; at most ``most``."""
    return int((await at.read(_LOST, tenant_id=at.tenant_id, since=since, most=most))[0][0])


async def read_verdicts(at: CollectionPlace, *, until: datetime) -> list[CountedVerdict]:
    """The latest verdicts that count and were received by then, the newest first."""
    rows = await at.read(_VERDICTS, until=until, most=MOST_VERDICTS)
    return [CountedVerdict(row[0], row[1], tuple(row[2]), *row[3:]) for row in rows]


async def read_rated_searches(at: CollectionPlace, retrieval_ids: Sequence[UUID]) -> AsyncIterator[list[RatedSearch]]:
    """Read the searches that are still stored, in pages: together their candidates would take a gigabyte."""
    rows = await at.read(_PROFILES) if retrieval_ids else []
    profiles = {version: Profile.from_dict(definition) for version, definition in rows}
    for start in range(0, len(retrieval_ids), _PAGE):
        page = retrieval_ids[start : start + _PAGE]
        statement = _SEARCHES.bind(collection_id=at.collection_id, ids=list(page), times=[time_of(row) for row in page])
        yield [_search(row, profiles) for row in await at.database.read(at.tenant_id, statement)]


async def read_item_clusters(at: CollectionPlace, item_ids: Sequence[str]) -> dict[str, int]:
    """The clusters of those items that have one, by item id."""
    return dict(await at.read(_CLUSTERS, item_ids=list(item_ids)))


async def read_item_octets(at: CollectionPlace, item_ids: Sequence[str]) -> dict[str, int]:
    """The lengths of title and body in UTF-8, by item id; removed items are missing."""
    return dict(await at.read(_OCTETS, item_ids=list(item_ids)))


def _search(row: Row, profiles: Mapping[int, Profile]) -> RatedSearch:
    search, query, vector, condition, request, shown, version, *pool = row
    own = request.get("profile")
    profile = profiles.get(version) if own is None else Profile.from_dict(own)
    items, signals = signals_from(tuple(pool), profile)
    return RatedSearch(
        retrieval_id=search,
        query=query,
        vector=None if vector is None else np.asarray(vector.to_numpy(), dtype=np.float32),
        condition=condition,
        request={**USUAL, **request},
        pool_items=items,
        pool_signals=signals,
        shown=shown,
    )
