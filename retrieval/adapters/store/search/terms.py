"""The statistics of a collection's words, and the BM25 weights that follow from them: ``sql/search/terms.sql``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace

_log = logging.getLogger(__name__)

DRIFT = 0.01
"""The relative change of the average length after which all items are weighed again."""

_STEP = 1000
_HELD_SECONDS = 0.02
"""The seconds until an item that a writer holds is checked again."""

_FOLD = Compiled("SELECT fold_statistics(%(collection_id)s)")
_BEGIN = Compiled("SELECT begin_weighing(%(collection_id)s, %(drift)s)")
_WEIGH = Compiled("SELECT refresh_weights(%(collection_id)s, %(step)s)")
_WEIGHTS_OFF = """
    SELECT t.collection_id FROM collection_statistics t
    WHERE t.collection_id = ANY(%(ids)s) AND (t.weighing_after IS NOT NULL
        OR length_drift(t.documents, t.total_length, t.weighed_length) > %(drift)s)
"""
_CHANGED = "SELECT FROM statistics_changes w WHERE w.collection_id = ANY(%(ids)s)"
_ARE_OFF = Compiled(f"SELECT EXISTS ({_WEIGHTS_OFF}) OR EXISTS ({_CHANGED})")


async def fold_statistics(at: CollectionPlace) -> None:
    """Add the differences that writers have left to the collection's statistics, which are then exact."""
    await at.write(_FOLD)


def weights_off(collection_ids: Sequence[int]) -> Compiled:
    """The statement that finds those of the collections whose weights wait to be computed again, or are under way."""
    return Compiled(_WEIGHTS_OFF, {"ids": list(collection_ids), "drift": DRIFT})


async def are_weights_off(at: CollectionPlace) -> bool:
    """Whether weights have to be computed again, or differences added to the statistics."""
    rows = await at.database.read(at.tenant_id, _ARE_OFF.bind(ids=[at.collection_id], drift=DRIFT))
    return bool(rows[0][0])


async def refresh_weights(at: CollectionPlace, drift: float = DRIFT) -> int:
    """Weigh every item again if the average length has drifted; returns the number of items weighed.

    Step by step, each in its own transaction: searches and writes go on. If it is interrupted, the next refresh
    continues.
    """
    await at.write(_BEGIN, drift=drift)
    weighed = 0
    while step := (await at.write(_WEIGH, step=_STEP))[0][0]:
        if step < 0:
            await asyncio.sleep(_HELD_SECONDS)
        else:
            weighed += int(step)
    return weighed


# No writer is active meanwhile, so the count is complete.
_HOLD = "SELECT pg_advisory_xact_lock(writers_lock(%(collection_id)s)), fold_statistics(%(collection_id)s)"
_MISSING = """
    SELECT item.item_id FROM items AS item
    WHERE item.collection_id = %(collection_id)s AND item.status <> 'archived' AND NOT EXISTS (
        SELECT FROM item_terms AS terms WHERE terms.collection_id = item.collection_id AND terms.item_id = item.item_id)
    ORDER BY item.item_id
"""
_INDEX = "SELECT index_terms(%(collection_id)s, %(items)s), fold_statistics(%(collection_id)s)"

_RECOUNT_TERMS = """
    WITH counted AS MATERIALIZED (
        SELECT lexeme, count(*)::integer AS document_frequency
        FROM item_terms, unnest(lexemes) AS lexeme
        WHERE collection_id = %(collection_id)s
        GROUP BY lexeme
    ),
    mended AS (
        INSERT INTO term_statistics AS known (collection_id, lexeme, document_frequency)
        SELECT %(collection_id)s, counted.lexeme, counted.document_frequency FROM counted
        ORDER BY counted.lexeme
        ON CONFLICT (collection_id, lexeme) DO UPDATE SET
            document_frequency = excluded.document_frequency,
            term = CASE WHEN lexeme_id(known.collection_id, known.term) = known.lexeme THEN known.term END
        WHERE known.document_frequency <> excluded.document_frequency
            OR lexeme_id(known.collection_id, known.term) <> known.lexeme
        RETURNING 1
    ),
    removed AS (
        DELETE FROM term_statistics AS known
        WHERE known.collection_id = %(collection_id)s
            AND NOT EXISTS (SELECT FROM counted WHERE counted.lexeme = known.lexeme)
        RETURNING known.document_frequency
    )
    SELECT (SELECT count(*) FROM mended) + (SELECT count(*) FROM removed WHERE document_frequency <> 0)
"""

# Without its totals a collection finds nothing by words.
_ADD_TOTALS = """
    INSERT INTO collection_statistics (collection_id, documents, total_length)
    SELECT terms.collection_id, count(*), sum(terms.length)
    FROM item_terms AS terms WHERE terms.collection_id = %(collection_id)s
    GROUP BY terms.collection_id
    ON CONFLICT (collection_id) DO NOTHING
"""
_RECOUNT_TOTALS = """
    WITH counted AS (
        SELECT count(*) AS documents, coalesce(sum(length), 0) AS total_length
        FROM item_terms WHERE collection_id = %(collection_id)s
    )
    UPDATE collection_statistics AS total
    SET documents = counted.documents, total_length = counted.total_length
    FROM counted
    WHERE total.collection_id = %(collection_id)s
        AND (total.documents, total.total_length) IS DISTINCT FROM (counted.documents, counted.total_length)
"""

_HAS_UNNAMED = "SELECT EXISTS (SELECT FROM term_statistics WHERE collection_id = %(collection_id)s AND term IS NULL)"
_NAME = "SELECT name_terms(%(collection_id)s)"


async def recount_terms(at: CollectionPlace) -> int:
    """Recount a collection's term statistics and correct them; returns the number of wrong rows, normally 0.

    Items without indexed words are indexed first. Terms that no item has any longer are removed; they are not wrong. In
    one transaction, which writers of the collection wait for; searches go on.
    """
    known = {"collection_id": at.collection_id}
    async with at.database.transaction(at.tenant_id) as connection:
        await connection.execute(_HOLD, known)
        if missing := [row[0] for row in await connection.rows(_MISSING, known)]:
            _log.warning("collection %s: %d items were not in the index of words", at.collection_id, len(missing))
            await connection.execute(_INDEX, {**known, "items": missing})
        wrong = int(await connection.value(_RECOUNT_TERMS, known))
        for statement in (_ADD_TOTALS, _RECOUNT_TOTALS):
            wrong += (await connection.execute(statement, known)).rowcount
        if await connection.value(_HAS_UNNAMED, known):
            await connection.execute(_NAME, known)
    if wrong:
        _log.warning("collection %s: %d rows of its term statistics were wrong", at.collection_id, wrong)
    return wrong
