"""Read what only the doctor asks about the collections of a tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.learning.arms import ARM_TOLERANCE
from retrieval.adapters.store.search.reembeddings import ReembeddingState
from retrieval.adapters.store.search.vectors import JOINS_ALL

LOSS_DAYS = 7
"""The days for which unrecorded searches are reported."""


class TenantFacts(NamedTuple):
    """Facts about a tenant's collections, by collection number; a collection without a fact is missing there."""

    missing_months: Sequence[str] = ()
    without_words: Mapping[int, int] = {}
    """Items that the index of words lacks."""
    lost: Mapping[int, Mapping[str, int]] = {}
    """Searches of the last days that should have been recorded and were not, by reason."""
    reembeddings: Mapping[int, tuple[ReembeddingState, str]] = {}
    """A re-embedding that is not over, and the reason why it does not proceed, empty if it does."""


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


async def read_tenant_facts(database: Database, tenant_id: int, collection_ids: Sequence[int]) -> TenantFacts:
    """Read the facts in two round trips."""
    ids = list(collection_ids)
    statements = [_MONTHS, _LOST.bind(ids=ids, days=LOSS_DAYS), _REEMBEDDINGS.bind(ids=ids)]
    months, losses, moving = await database.read_each(tenant_id, statements)
    lost: dict[int, dict[str, int]] = {}
    for collection_id, reason, number in losses:
        lost.setdefault(collection_id, {})[reason] = number
    return TenantFacts(
        missing_months=[row[0] for row in months],
        without_words=dict(await database.read(tenant_id, _WITHOUT_WORDS.bind(ids=ids), JOINS_ALL)),
        lost=lost,
        reembeddings={row[0]: (ReembeddingState(row[1]), row[2]) for row in moving},
    )


_DISAGREEMENTS = Compiled("""
    SELECT d.kind, count(*), (array_agg(d.disagreeing ORDER BY d.disagreeing))[:3]
    FROM disagreements(%(id)s, %(tolerance)s) AS d GROUP BY d.kind ORDER BY d.kind
""")


async def read_disagreements(at: CollectionPlace) -> list[tuple[str, int, list[str]]]:
    """The kinds of derived rows that disagree with their source: their number, and the first three.

    Reads every row of the collection.
    """
    async with at.database.transaction(at.tenant_id) as connection:
        await connection.execute("SET LOCAL statement_timeout = 0")
        statement = _DISAGREEMENTS.bind(id=at.collection_id, tolerance=ARM_TOLERANCE)
        rows = await (await connection.execute(statement.text, statement.parameters)).fetchall()
    return [(row[0], int(row[1]), list(row[2])) for row in rows]


_MEND = Compiled("SELECT mend_disagreements(%(collection_id)s)")


async def mend_disagreements(at: CollectionPlace) -> int:
    """Make the rows of the collection's items that disagree again, without arms and records; returns their number."""
    return int((await at.write(_MEND))[0][0])
