"""Read arms decayed to a moment, for the learned reward and exploration, and recount them from their events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval.adapters.store.arrays import texts
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.round_trip import Row
from retrieval.domain.learning.arm import Arm, ItemArms

# The ids are the left side of all joins, because arms outlive their items. ``OFFSET 0`` makes the planner look up each
# id, even before the tables are analyzed, instead of reading the whole collection. ``greatest`` removes the rounding
# error of feedback that was added and withdrawn.
_ROWS = """
    WITH decay AS MATERIALIZED (
        SELECT decay_weight(s.landmark, %(now)s::timestamptz, s.half_life_days) AS factor
        FROM learning_state(%(collection_id)s) AS s
    )
    SELECT w.item_id, w.created_at, w.cluster, a.context,
           greatest(a.successes * decay.factor, 0), greatest(a.failures * decay.factor, 0),
           a.uses, a.raw_successes, a.last_used_at
    FROM decay CROSS JOIN (
        SELECT o.item_id,
               (SELECT i.created_at FROM items AS i
                WHERE i.collection_id = %(collection_id)s AND i.item_id = o.item_id),
               (SELECT k.cluster FROM item_clusters AS k
                WHERE k.collection_id = %(collection_id)s AND k.item_id = o.item_id)
        FROM unnest(%(item_ids)s::text[]) AS o (item_id)
        OFFSET 0
    ) AS w (item_id, created_at, cluster)
    LEFT JOIN LATERAL (
        SELECT known.context, known.successes, known.failures, known.uses, known.raw_successes, known.last_used_at
        FROM {known} AND known.context = ANY(%(buckets)s::text[])
        OFFSET 0
    ) AS a ON true
"""
_OF_ITEM = "arms AS known WHERE known.collection_id = %(collection_id)s AND known.item_id = w.item_id"
_OF_EVENTS = "summed_events(%(collection_id)s, ARRAY[w.item_id], %(now)s::timestamptz) AS known WHERE true"
_READ, _PAST = Compiled(_ROWS.format(known=_OF_ITEM), keep=0), Compiled(_ROWS.format(known=_OF_EVENTS))


def arms_statement(collection_id: int, *, item_ids: Sequence[str], buckets: Sequence[str], now: datetime) -> Compiled:
    """The statement whose rows ``arms_from`` reads, for callers that send it together with others."""
    return _READ.bind(collection_id=collection_id, item_ids=texts(item_ids), buckets=texts(buckets), now=now)


def past_arms_statement(
    collection_id: int, *, item_ids: Sequence[str], buckets: Sequence[str], moment: datetime
) -> Compiled:
    """The statement that computes the arms at that moment from their events; ``arms_from`` reads its rows.

    It omits events that were withdrawn, quarantined or capped since.
    """
    return _PAST.bind(collection_id=collection_id, item_ids=list(item_ids), buckets=list(buckets), now=moment)


def arms_from(rows: Sequence[Row]) -> dict[str, ItemArms]:
    """The items with their arms, by item id."""
    arms: dict[str, dict[str, Arm]] = {}
    facts: dict[str, tuple[Any, ...]] = {}
    for item_id, created_at, cluster, bucket, *numbers in rows:
        facts[item_id] = (created_at, cluster)
        its_arms = arms.setdefault(item_id, {})
        if bucket is not None:
            its_arms[bucket] = Arm(*numbers)
    return {
        item_id: ItemArms(item_id=item_id, arms=arms[item_id], created_at=created_at, cluster=cluster)
        for item_id, (created_at, cluster) in facts.items()
    }


async def read_arms(
    at: CollectionPlace, *, item_ids: Sequence[str], buckets: Sequence[str], now: datetime
) -> dict[str, ItemArms]:
    """Each of the items with its arms in those context buckets, decayed to ``now``; an unknown item has no arms."""
    distinct_ids = list(dict.fromkeys(item_ids))
    if not distinct_ids:
        return {}
    statement = arms_statement(at.collection_id, item_ids=distinct_ids, buckets=buckets, now=now)
    return arms_from(await at.database.read(at.tenant_id, statement))


_DECAY = Compiled("SELECT half_life_days, landmark FROM learning_state(%(collection_id)s)")
_ITEMS = Compiled("""
    SELECT item_id FROM (
        (SELECT DISTINCT item_id FROM feedback WHERE collection_id = %(collection_id)s AND item_id > %(after)s
         ORDER BY item_id LIMIT %(most)s)
        UNION
        (SELECT DISTINCT item_id FROM arms WHERE collection_id = %(collection_id)s AND item_id > %(after)s
         ORDER BY item_id LIMIT %(most)s)
    ) AS known ORDER BY item_id LIMIT %(most)s
""")
ARM_TOLERANCE = 1e-9
"""The relative difference of an arm's decayed sum up to which it is rounding, not drift."""

_RECOUNT = Compiled("SELECT arms, mended FROM recount_arms(%(collection_id)s, %(item_ids)s, %(tolerance)s)")
_SET = Compiled("SELECT set_decay(%(collection_id)s, %(half_life_days)s, %(landmark)s, %(now)s)")
_RETIRE = Compiled("SELECT retire_feedback(%(collection_id)s, %(item_ids)s, %(received_before)s)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """The parameters by which the events of a collection lose weight."""

    half_life_days: float
    landmark: datetime
    """The time whose events are stored with the weight 1."""


async def read_decay(at: CollectionPlace) -> Decay:
    """The decay of the collection's events, which is the default unless it was set."""
    half_life_days, landmark = (await at.read(_DECAY))[0]
    return Decay(half_life_days=half_life_days, landmark=landmark)


async def set_decay(at: CollectionPlace, decay: Decay, now: datetime) -> None:
    """Change the decay and recompute the collection's arms; the tenant's feedback waits meanwhile."""
    await at.write(_SET, half_life_days=decay.half_life_days, landmark=decay.landmark, now=now)


async def items_with_feedback(at: CollectionPlace, *, after: str, most: int) -> list[str]:
    """The next items, in order, that have an event or an arm."""
    rows = await at.read(_ITEMS, after=after, most=most)
    return [row[0] for row in rows]


async def recount_arms(at: CollectionPlace, item_ids: Sequence[str]) -> tuple[int, int]:
    """Recompute the items' arms from their events and correct them; returns the numbers of arms and of wrong ones."""
    ((arms, mended),) = await at.write(_RECOUNT, item_ids=list(item_ids), tolerance=ARM_TOLERANCE)
    return int(arms), int(mended)


async def retire_feedback(at: CollectionPlace, item_ids: Sequence[str], *, received_before: datetime) -> int:
    """Remove the items' events that were received before then; their arms stay. Returns the number of events."""
    return int((await at.write(_RETIRE, item_ids=list(item_ids), received_before=received_before))[0][0])
