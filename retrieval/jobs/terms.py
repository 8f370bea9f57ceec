"""Term statistics, counted anew: what writers count along the way is exact, and this proves it or mends it."""

from __future__ import annotations

import logging

from retrieval.adapters.store.database import Connection, Database

_log = logging.getLogger(__name__)

# Nobody writes meanwhile: what is counted is all that there is.
_HOLD = "SELECT pg_advisory_xact_lock(writers_lock(%(id)s)), fold_statistics(%(id)s)"
_MISSING = """
    SELECT item.item_id FROM items AS item
    WHERE item.collection_id = %(id)s AND item.status <> 'archived' AND NOT EXISTS (
        SELECT FROM item_terms AS terms WHERE terms.collection_id = item.collection_id AND terms.item_id = item.item_id)
    ORDER BY item.item_id
"""
_INDEX = "SELECT index_terms(%(id)s, %(items)s), fold_statistics(%(id)s)"

_RECOUNT_TERMS = """
    WITH counted AS MATERIALIZED (
        SELECT lexeme, count(*)::integer AS document_frequency
        FROM item_terms, unnest(lexemes) AS lexeme
        WHERE collection_id = %(id)s
        GROUP BY lexeme
    ),
    mended AS (
        INSERT INTO term_statistics AS known (collection_id, lexeme, document_frequency)
        SELECT %(id)s, counted.lexeme, counted.document_frequency FROM counted
        ORDER BY counted.lexeme
        ON CONFLICT (collection_id, lexeme) DO UPDATE SET document_frequency = excluded.document_frequency
        WHERE known.document_frequency <> excluded.document_frequency
        RETURNING 1
    ),
    removed AS (
        DELETE FROM term_statistics AS known
        WHERE known.collection_id = %(id)s AND NOT EXISTS (SELECT FROM counted WHERE counted.lexeme = known.lexeme)
        RETURNING known.document_frequency
    )
    SELECT (SELECT count(*) FROM mended) + (SELECT count(*) FROM removed WHERE document_frequency <> 0)
"""

_RECOUNT_TOTALS = """
    WITH counted AS (
        SELECT count(*) AS documents, coalesce(sum(length), 0) AS total_length
        FROM item_terms WHERE collection_id = %(id)s
    )
    UPDATE collection_statistics AS total
    SET documents = counted.documents, total_length = counted.total_length
    FROM counted
    WHERE total.collection_id = %(id)s
        AND (total.documents, total.total_length) IS DISTINCT FROM (counted.documents, counted.total_length)
"""

_HAS_UNNAMED = "SELECT EXISTS (SELECT FROM term_statistics WHERE collection_id = %(id)s AND term IS NULL)"
_NAME = "SELECT name_terms(%(id)s)"


async def recount_terms(database: Database, tenant_id: int, collection_id: int) -> int:
    """Count a collection's term statistics anew and mend them; gives how many rows were wrong, normally 0.

    Items whose words are in no index are indexed first. Terms that no item holds any more are removed; they are not
    wrong. In one transaction, which writers of the collection wait for; searches go on.
    """
    known = {"id": collection_id}
    async with database.transaction(tenant_id) as connection:
        await connection.execute(_HOLD, known)
        if missing := [row[0] for row in await (await connection.execute(_MISSING, known)).fetchall()]:
            _log.warning("collection %s: %d items were not in the index of words", collection_id, len(missing))
            await connection.execute(_INDEX, {**known, "items": missing})
        wrong = int(await _value(connection, _RECOUNT_TERMS, known))
        wrong += (await connection.execute(_RECOUNT_TOTALS, known)).rowcount
        if await _value(connection, _HAS_UNNAMED, known):
            await connection.execute(_NAME, known)
    if wrong:
        _log.warning("collection %s: %d rows of its term statistics were wrong", collection_id, wrong)
    return wrong


async def _value(connection: Connection, statement: str, parameters: dict[str, int]) -> int:
    row = await (await connection.execute(statement, parameters)).fetchone()
    return 0 if row is None else int(row[0])
