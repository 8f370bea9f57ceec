"""Feedback as it is stored, and read back for training."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.feedback import Feedback

PAGE_EVENTS = 2000

_RECORD = Compiled("""
    SELECT place, outcome, discounted FROM record_feedback(
        %(events)s, %(retrieved_from)s::timestamptz, %(retrieved_to)s::timestamptz, %(skip_refused)s
    )
""")
_QUARANTINE = "SELECT quarantine_actor(%s, %s, %s)"
_EVENTS = """
    SELECT f.item_id, f.contexts, f.reward, f.weight, f.kind, f.occurred_at, f.retrieval_id,
           i.rank, i.signals, i.slot, i.propensity
    FROM feedback AS f
    LEFT JOIN impressions AS i ON i.collection_id = f.collection_id AND i.retrieval_id = f.retrieval_id
        AND i.item_id = f.item_id AND i.retrieved_at = f.retrieved_at
    WHERE f.collection_id = %(collection_id)s AND f.superseded_at IS NULL AND f.weight > 0
        AND f.occurred_at >= coalesce(%(since)s, '-infinity'::timestamptz)
    ORDER BY f.occurred_at, f.item_id, f.feedback_key
"""


class Outcome(NamedTuple):
    """What became of an event: ``recorded``, ``repeated``, ``superseding``, ``superseded``, or why it is refused."""

    place: int
    """Which event it is, from 0."""
    what: str
    discounted: str
    """Why it does not count; empty: it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A live event that counts, as a model learns from it."""

    item_id: str
    contexts: tuple[str, ...]
    """The context buckets; the first is that of the item by itself."""
    reward: float
    weight: float
    kind: str
    occurred_at: datetime
    retrieval_id: UUID | None
    """None: it was given directly, and what follows is None too."""
    rank: int | None
    signals: Mapping[str, Any] | None
    slot: str | None
    propensity: float | None


async def record_feedback(
    database: Database,
    tenant_id: int,
    events: Sequence[Feedback],
    now: datetime,
    *,
    skip_refused: bool = False,
    make_key: Callable[[], UUID] = uuid4,
) -> list[Outcome]:
    """Store the events and add them to their arms, in one statement and one round trip; gives what became of each.

    If one is refused, those that are refused are all that is given, and nothing is stored, unless ``skip_refused``.
    ``now`` is when events happened that do not say it. ``make_key`` gives the key of an event that has none of its own.
    """
    payload = [_as_json(place, event, now, make_key) for place, event in enumerate(events)]
    # With its keys in it, the statement may be sent again should the connection be lost.
    moments = [event.retrieved_at for event in events if event.retrieved_at is not None]
    statement = _RECORD.bind(
        events=Jsonb(payload),
        retrieved_from=min(moments, default=None),
        retrieved_to=max(moments, default=None),
        skip_refused=skip_refused,
    )
    return [Outcome(*row) for row in await database.read(tenant_id, statement)]


async def quarantine_actor(database: Database, tenant_id: int, actor: str, reason: str, *, is_held: bool) -> int:
    """Keep an actor's feedback from counting in all collections of the tenant, or let it count; gives the events."""
    async with database.transaction(tenant_id) as connection:
        row = await (await connection.execute(_QUARANTINE, (actor, reason, is_held))).fetchone()
    return 0 if row is None else int(row[0])


async def read_events(
    database: Database, tenant_id: int, collection_id: int, *, since: datetime | None = None
) -> AsyncIterator[list[Event]]:
    """The live events of a collection that count, from ``since`` on by event time, in pages; all of one moment."""
    async with database.snapshot(tenant_id) as connection, connection.cursor(name="events") as cursor:
        await cursor.execute(_EVENTS, {"collection_id": collection_id, "since": since})
        while rows := await cursor.fetchmany(PAGE_EVENTS):
            yield [_event(row) for row in rows]


def _as_json(place: int, event: Feedback, now: datetime, make_key: Callable[[], UUID]) -> dict[str, Any]:
    key = event.own_key or make_key()
    retrieved_at = event.retrieved_at
    return {
        "place": place,
        "collection": event.collection,
        "item_id": event.item_id,
        "feedback_key": str(key),
        "subject": str(event.subject or key),
        "retrieval_id": None if event.retrieval_id is None else str(event.retrieval_id),
        "retrieved_at": None if retrieved_at is None else retrieved_at.isoformat(),
        "actor": event.actor,
        "session": event.session,
        "kind": event.kind,
        "reward": event.reward,
        "weight": event.weight,
        "contexts": event.contexts,
        "note": event.note,
        "occurred_at": (event.at or now).isoformat(),
    }


def _event(row: tuple[Any, ...]) -> Event:
    item_id, contexts, *others = row
    names = ("reward", "weight", "kind", "occurred_at", "retrieval_id", "rank", "signals", "slot", "propensity")
    return Event(item_id=item_id, contexts=tuple(contexts), **dict(zip(names, others, strict=True)))
