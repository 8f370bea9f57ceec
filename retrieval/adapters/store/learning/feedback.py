"""Feedback as it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.learning.feedback import Feedback

_RECORD = Compiled("""
    SELECT place, outcome, discounted FROM record_feedback(
        %(events)s, %(retrieved_from)s::timestamptz, %(retrieved_to)s::timestamptz, %(skip_refused)s
    )
""")
_ACTORS = Compiled("""
    SELECT r.retrieval_id::text, r.actor FROM retrievals r
    WHERE r.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
        AND r.retrieval_id = ANY(%(retrieval_ids)s::uuid[]) AND r.retrieved_at = ANY(%(moments)s)
""")
_QUARANTINE = "SELECT quarantine_actor(%s, %s, %s)"
_CAP = """
    INSERT INTO learning_states (collection_id, daily_cap) VALUES (%(collection_id)s, %(events)s)
    ON CONFLICT (collection_id) DO UPDATE SET daily_cap = excluded.daily_cap
"""


class StoredOutcome(NamedTuple):
    """An event's outcome: ``recorded``, ``repeated``, ``superseding``, ``superseded``, or the reason of a refusal."""

    place: int
    """The event's number, from 0."""
    what: str
    discounted: str
    """Why it does not count; empty: it does."""


async def record_feedback(
    database: Database,
    tenant_id: int,
    events: Sequence[Feedback],
    now: datetime,
    *,
    key_id: str = "",
    skip_refused: bool = False,
    make_key: Callable[[], UUID] = uuid4,
) -> list[StoredOutcome]:
    """Store the events and add them to their arms, in one statement and one round trip; gives what became of each.

    If one is refused, those that are refused are all that is given, and nothing is stored, unless ``skip_refused``.
    ``now`` is when events happened that do not say it. ``make_key`` gives the key of an event that has none of its own.
    ``key_id`` is of the API key that they came by, whose cap then holds; empty: of none.
    """
    payload = await aside(
        lambda: [_as_json(place, event, now, make_key, key_id) for place, event in enumerate(events)],
        is_long=len(events) >= LONG,
    )
    # With its keys in it, the statement may be sent again should the connection be lost.
    moments = [event.retrieved_at for event in events if event.retrieved_at is not None]
    statement = _RECORD.bind(
        events=Jsonb(payload),
        retrieved_from=min(moments, default=None),
        retrieved_to=max(moments, default=None),
        skip_refused=skip_refused,
    )
    return [StoredOutcome(*row) for row in await database.read(tenant_id, statement)]


async def actors_of(database: Database, tenant_id: int, events: Iterable[Feedback]) -> dict[str, str]:
    """Whom the searches that the events are about were recorded for, by ``retrieval_id``; empty: for nobody."""
    moments = {str(one.retrieval_id): one.retrieved_at for one in events if one.retrieved_at is not None}
    if not moments:
        return {}
    statement = _ACTORS.bind(
        tenant_id=tenant_id, retrieval_ids=list(moments), moments=list(dict.fromkeys(moments.values()))
    )
    return dict(await database.read(tenant_id, statement))


async def quarantine_actor(database: Database, tenant_id: int, actor: str, reason: str, *, is_held: bool) -> int:
    """Keep an actor's feedback from counting in all collections of the tenant, or let it count; gives the events."""
    async with database.transaction(tenant_id) as connection:
        row = await (await connection.execute(_QUARANTINE, (actor, reason, is_held))).fetchone()
    return 0 if row is None else int(row[0])


async def set_daily_cap(database: Database, tenant_id: int, collection_id: int, events: int) -> None:
    """Let so many events of one actor count in a day; what is stored stays as it is."""
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_CAP, {"collection_id": collection_id, "events": events})


def _as_json(place: int, event: Feedback, now: datetime, make_key: Callable[[], UUID], key_id: str) -> dict[str, Any]:
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
        "key_id": key_id,
    }
