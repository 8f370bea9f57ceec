"""Read the state of all collections of a tenant at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation.queue import FAILED
from retrieval.adapters.store.items.collection_facts import read_facts
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.recall import Measurement
from retrieval.adapters.store.search.reembeddings import ReembeddingState
from retrieval.adapters.store.search.vectors import JOINS_ALL

LOSS_DAYS = 7
"""The days for which unrecorded searches are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallState:
    """The result of the last recall measurement in a collection's active space."""

    recall: float
    samples: int
    measured_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionState:
    """One collection."""

    stored: StoredCollection
    pending: int = 0
    """Items that wait for their vector."""
    are_weights_off: bool = False
    """Whether BM25 weights have to be computed again."""
    without_words: int = 0
    """Items that the index of words lacks."""
    recall: RecallState | None = None
    lost: Mapping[str, int]
    """Searches of the last week that should have been recorded and were not, by reason."""
    failed: Mapping[str, str]
    """The error of each job whose last run failed."""
    reembedding: tuple[ReembeddingState, str] | None = None
    """The state of a re-embedding that is not over, and the reason why it does not proceed, empty if it does."""


_MONTHS = Compiled("""
    SELECT 'retrievals' || to_char(m.month AT TIME ZONE 'UTC', '_YYYY_MM') FROM missing_months() AS m (month) ORDER BY 1
""")
_LOST = Compiled("""
    SELECT l.collection_id, l.reason, sum(l.retrievals)::bigint FROM recording_losses l
    WHERE l.collection_id = ANY(%(ids)s) AND l.day > current_date - %(days)s::integer
    GROUP BY l.collection_id, l.reason ORDER BY l.collection_id, l.reason
""")
_WITHOUT_WORDS = Compiled("""
    SELECT item.collection_id, count(*) FROM items AS item
    WHERE item.collection_id = ANY(%(ids)s) AND item.status <> 'archived' AND NOT EXISTS (
        SELECT FROM item_terms AS terms
        WHERE terms.collection_id = item.collection_id AND terms.item_id = item.item_id)
    GROUP BY item.collection_id
""")
_REEMBEDDINGS = Compiled("""
    SELECT m.collection_id, m.state, m.note FROM reembeddings m
    WHERE m.collection_id = ANY(%(ids)s) AND m.state <> 'done'
""")


async def read_tenant(
    database: Database, tenant_id: int, collections: Sequence[StoredCollection], *, drift: float
) -> tuple[list[str], list[CollectionState]]:
    """Read the missing months and the state of these collections of the tenant, in four round trips.

    ``drift``: how far the average length may move, as a share, before the weights count as off.
    """
    ids = [collection.collection_id for collection in collections]
    facts = await read_facts(database, tenant_id, collections, drift=drift)
    statements = [_MONTHS, _LOST.bind(ids=ids, days=LOSS_DAYS), _REEMBEDDINGS.bind(ids=ids)]
    months, lost, moving = await database.read_each(tenant_id, statements)
    without_words: dict[int, int] = dict(await database.read(tenant_id, _WITHOUT_WORDS.bind(ids=ids), JOINS_ALL))
    reembeddings = {row[0]: (ReembeddingState(row[1]), row[2]) for row in moving}
    losses: dict[int, dict[str, int]] = {}
    for collection_id, reason, number in lost:
        losses.setdefault(collection_id, {})[reason] = number
    states = [
        CollectionState(
            stored=collection,
            pending=facts.pending.get(collection.collection_id, 0),
            are_weights_off=collection.collection_id in facts.weights_off,
            without_words=without_words.get(collection.collection_id, 0),
            recall=_overall(facts.recall.get(collection.collection_id, ())),
            lost=losses.get(collection.collection_id, {}),
            failed={
                run.job: run.details.get("error", "")
                for run in facts.runs.get(collection.collection_id, ())
                if run.outcome == FAILED
            },
            reembedding=reembeddings.get(collection.collection_id),
        )
        for collection in collections
    ]
    return [row[0] for row in months], states


def _overall(measurements: Sequence[Measurement]) -> RecallState | None:
    """The mean of one run's measurements over all samples; None: nothing was measured."""
    samples = sum(each.samples for each in measurements)
    times = [each.measured_at for each in measurements if each.measured_at is not None]
    if not samples or not times:
        return None
    recall = sum(each.recall * each.samples for each in measurements) / samples
    return RecallState(recall=recall, samples=samples, measured_at=max(times))


_DISAGREEMENTS = Compiled("""
    SELECT d.kind, count(*), (array_agg(d.disagreeing ORDER BY d.disagreeing))[:3]
    FROM disagreements(%(id)s, %(tolerance)s) AS d GROUP BY d.kind ORDER BY d.kind
""")


async def read_disagreements(
    database: Database, tenant_id: int, collection_id: int, *, tolerance: float
) -> list[tuple[str, int, list[str]]]:
    """The kinds of derived rows that disagree with their source: their number, and the first three.

    Reads every row of the collection. ``tolerance``: the relative difference of an arm that counts as rounding.
    """
    async with database.transaction(tenant_id) as connection:
        await connection.execute("SET LOCAL statement_timeout = 0")
        statement = _DISAGREEMENTS.bind(id=collection_id, tolerance=tolerance)
        rows = await (await connection.execute(statement.text, statement.parameters)).fetchall()
    return [(row[0], int(row[1]), list(row[2])) for row in rows]
