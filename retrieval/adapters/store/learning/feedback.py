"""Store events of feedback, and read their counts by item and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4, uuid5

import sqlalchemy as sa

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.conditions import matching
from retrieval.adapters.store.learning.ratings import anywhere
from retrieval.adapters.store.records.recording_statement import moments, numbers, texts, uuids
from retrieval.adapters.store.round_trip import Row, WrittenValue
from retrieval.adapters.store.tables import arms, items, literal
from retrieval.domain.learning.arm import Standing
from retrieval.domain.learning.context import ANYWHERE, Context
from retrieval.domain.learning.feedback import Feedback, FeedbackReport
from retrieval.domain.search.filters import Filter

_Kind = tuple[int, Callable[[Any], bytes]]
_TEXTS, _UUIDS, _TIMES, _NUMBERS = (1009, texts), (2951, uuids), (1185, moments), (1022, partial(numbers, code="d"))
"""The OIDs of arrays, the same on every server, and their encoders."""

_RECORD = Compiled(
    """
    SELECT recorded, repeated, superseding, discounted, refused, problems FROM record_feedback(
        %(owners)s, %(item_ids)s, %(feedback_keys)s, %(subjects)s, %(retrieval_ids)s, %(retrieval_times)s, %(actors)s,
        %(sessions)s, %(kinds)s, %(rewards)s, %(weights)s, %(domains)s, %(complexities)s, %(notes)s, %(event_times)s,
        %(retrieved_from)s::timestamptz, %(retrieved_to)s::timestamptz, %(key_id)s, %(skip_refused)s
    )
    """,
    keep=0,
)
_ACTORS = Compiled("""
    SELECT r.retrieval_id::text, r.actor FROM retrievals r
    WHERE r.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
        AND r.retrieval_id = ANY(%(retrieval_ids)s::uuid[]) AND r.retrieved_at = ANY(%(moments)s)
""")
_QUARANTINE = Compiled("SELECT quarantine_actor(%(actor)s, %(reason)s, %(is_held)s)")
_CAP = Compiled("""
    INSERT INTO learning_states (collection_id, daily_cap) VALUES (%(collection_id)s, %(events)s)
    ON CONFLICT (collection_id) DO UPDATE SET daily_cap = excluded.daily_cap
""")


async def record_feedback(
    database: Database,
    tenant_id: int,
    events: Sequence[Feedback],
    now: datetime,
    *,
    key_id: str = "",
    call_key: UUID | None = None,
    skip_refused: bool = False,
) -> tuple[FeedbackReport, dict[int, str]]:
    """Store the events and add them to their arms, in one statement and one round trip.

    Returns the report of those that were stored, and the reasons why others were not, by their number from 0.
    If one is refused, nothing is stored, unless ``skip_refused``. ``now`` is the time of events without a time.
    ``key_id``: the API key of the request, whose cap then applies; empty: there is none. ``call_key`` is the same in
    all repetitions of the call; events without a key of their own get theirs from it.
    """
    # The statement contains the events' keys, so that it can be sent again if the connection is lost.
    columns = await aside(lambda: _columns(events, now, call_key or uuid4()), is_long=len(events) >= LONG)
    statement = _RECORD.bind(**columns, key_id=key_id, skip_refused=skip_refused)
    [(recorded, repeated, superseding, discounted, refused, problems)] = await database.read(tenant_id, statement)
    reasons = {index - 1: problem for index, problem in zip(refused or (), problems or (), strict=True)}
    counts = dict(Counter(discounted or ()))
    report = FeedbackReport(recorded=recorded, repeated=repeated, superseding=superseding, discounted=counts)
    return report, reasons


async def actors_of(database: Database, tenant_id: int, events: Iterable[Feedback]) -> dict[str, str]:
    """Return the actor of each search that the events are about, by ``retrieval_id``; empty: it has no actor."""
    times = {str(event.retrieval_id): event.retrieved_at for event in events if event.retrieved_at is not None}
    if not times:
        return {}
    statement = _ACTORS.bind(
        tenant_id=tenant_id, retrieval_ids=list(times), moments=list(dict.fromkeys(times.values()))
    )
    return dict(await database.read(tenant_id, statement))


async def quarantine_actor(database: Database, tenant_id: int, actor: str, reason: str, *, is_held: bool) -> int:
    """Exclude an actor's feedback in all collections of the tenant, or let it count again; returns its events."""
    statement = _QUARANTINE.bind(actor=actor, reason=reason, is_held=is_held)
    return int((await database.write(tenant_id, statement))[0][0])


async def set_daily_cap(at: CollectionPlace, events: int) -> None:
    """Limit the events of one actor that count in a day; stored events do not change."""
    await at.write(_CAP, events=events)


def _columns(events: Sequence[Feedback], now: datetime, call_key: UUID) -> dict[str, Any]:
    """The encoded columns of the events, and the first and last time of their searches.

    NULL for a column that is empty in all events.
    """
    times = [event.retrieved_at for event in events]
    search_times = [time for time in times if time is not None]
    subjects = [event.subject for event in events]
    contexts = [event.context or _NOWHERE for event in events]
    keys = [
        event.key_about(subject) or uuid5(call_key, str(index))
        for index, (event, subject) in enumerate(zip(events, subjects, strict=True))
    ]
    columns: Mapping[str, tuple[_Kind, Sequence[Any]]] = {
        "owners": (_TEXTS, [event.collection or "" for event in events]),
        "item_ids": (_TEXTS, [event.item_id for event in events]),
        "feedback_keys": (_UUIDS, keys),
        "subjects": (_UUIDS, subjects),
        "retrieval_ids": (_UUIDS, [event.retrieval_id for event in events]),
        "retrieval_times": (_TIMES, times),
        "actors": (_TEXTS, [event.actor for event in events]),
        "sessions": (_TEXTS, [event.session for event in events]),
        "kinds": (_TEXTS, [event.kind for event in events]),
        "rewards": (_NUMBERS, [event.reward for event in events]),
        "weights": (_NUMBERS, [event.weight for event in events]),
        "domains": (_TEXTS, [context.domain for context in contexts]),
        "complexities": (_NUMBERS, [context.complexity for context in contexts]),
        "notes": (_TEXTS, [event.note for event in events]),
        "event_times": (_TIMES, [event.at or now for event in events]),
    }
    return {
        **{
            name: WrittenValue(write(values) if any(values) else None, oid)
            for name, ((oid, write), values) in columns.items()
        },
        "retrieved_from": min(search_times, default=None),
        "retrieved_to": max(search_times, default=None),
    }


_NOWHERE = Context()

# Each item's arm is looked up by its key: a join may read all arms of a collection.
_READ = Compiled("""
    SELECT i.item_id, i.created_at, coalesce(a.uses, 0), coalesce(a.raw_successes, 0), a.last_used_at
    FROM items AS i
    LEFT JOIN LATERAL (
        SELECT known.uses, known.raw_successes, known.last_used_at FROM arms AS known
        WHERE known.collection_id = %(collection_id)s AND known.item_id = i.item_id AND known.context = %(anywhere)s
        LIMIT 1
    ) AS a ON true
    WHERE i.collection_id = %(collection_id)s AND i.item_id = ANY(%(item_ids)s)
""").bind(anywhere=ANYWHERE)
_COLUMNS = ("uses", "raw_successes", "last_used_at")
_COUNT = """
    SELECT coalesce(sum(known.uses), 0)::bigint FROM (
        SELECT a.uses FROM arms AS a
        WHERE a.collection_id = %(collection_id)s AND a.context = {bucket} AND a.uses > 0
        LIMIT %(most)s
    ) AS known
"""
# Constant text, because the partial index of arms of all contexts applies only to its exact condition.
_COUNT_ALL, _COUNT_IN = (Compiled(_COUNT.format(bucket=bucket)) for bucket in ("''", "%(bucket)s"))


async def read_standings(at: CollectionPlace, item_ids: Sequence[str]) -> dict[str, Standing]:
    """The standings of those items that exist, by item id."""
    rows = await at.read(_READ, item_ids=list(item_ids))
    return {row[0]: _standing(row) for row in rows}


async def standings_matching(
    database: Database, tenant_id: int, collection: StoredCollection, filter_: Filter
) -> list[Standing]:
    """The standings of all active items that match the filter, by item id; reads nothing else of the items."""
    owner = collection.collection_id
    keys = matching(owner, filter_, collection.filterable, looks_up=True).cte("matching")
    counts = sa.select(*(arms.c[name] for name in _COLUMNS))
    counts = counts.where(anywhere(owner), arms.c.item_id == keys.c.item_id).limit(1)
    arm = counts.lateral("known")
    is_item = sa.and_(items.c.collection_id == literal(owner), items.c.item_id == keys.c.item_id)
    stored = sa.select(items.c.created_at).where(is_item).limit(1).lateral("stored")
    statement = (
        sa.select(keys.c.item_id, stored.c.created_at, *(arm.c[name] for name in _COLUMNS))
        .select_from(keys.join(stored, sa.true()).outerjoin(arm, sa.true()))
        .order_by(keys.c.item_id)
    )
    return [_standing(row) for row in await database.read(tenant_id, compiled(statement))]


def _standing(row: Row) -> Standing:
    item_id, created_at, uses, successes, last_used_at = row
    return Standing(
        item_id=item_id, created_at=created_at, uses=uses or 0, successes=successes or 0, last_used_at=last_used_at
    )


async def count_verdicts(at: CollectionPlace, *, bucket: str, at_most: int) -> int:
    """The number of verdicts that count in a context bucket, at most ``at_most``, from as many arms."""
    statement = _COUNT_ALL if bucket == ANYWHERE else _COUNT_IN.bind(bucket=bucket)
    rows = await at.read(statement, most=at_most)
    return min(int(rows[0][0]), at_most)
