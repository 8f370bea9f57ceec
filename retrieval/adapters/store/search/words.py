"""What is asked about the words of a query beside its candidates: which are unknown, and what is near to those."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection

# The lexemes that no writer's difference has been added up for are known as well: what was written a moment ago is found.
_UNKNOWN = """
    SELECT word.spelling, (SELECT min(one.lexeme) FROM unnest(to_tsvector(%(config)s::regconfig, word.spelling)) AS one)
    FROM unnest(%(words)s::text[]) AS word (spelling)
    WHERE EXISTS (SELECT FROM unnest(to_tsvector(%(config)s::regconfig, word.spelling)))
        AND NOT EXISTS (
            SELECT FROM unnest(to_tsvector(%(config)s::regconfig, word.spelling)) AS one
            JOIN term_statistics AS known
                ON known.collection_id = %(collection_id)s AND known.lexeme = lexeme_id(%(collection_id)s, one.lexeme)
                    AND known.document_frequency > 0
        )
        AND NOT EXISTS (
            SELECT FROM unnest(to_tsvector(%(config)s::regconfig, word.spelling)) AS one
            JOIN statistics_changes AS change
                ON change.collection_id = %(collection_id)s
                    AND change.lexemes @> ARRAY[lexeme_id(%(collection_id)s, one.lexeme)]
        )
"""

_KNOWN = """
    WITH asked AS MATERIALIZED (
        SELECT one.spelling, word.lexeme COLLATE "C" AS term
        FROM unnest(%(spellings)s::text[]) AS one (spelling),
            unnest(to_tsvector(%(config)s::regconfig, one.spelling)) AS word
    ),
    fresh AS MATERIALIZED (
        SELECT DISTINCT one.term COLLATE "C" AS term
        FROM statistics_changes AS change CROSS JOIN LATERAL unnest(change.terms) AS one (term)
        WHERE change.collection_id = %(collection_id)s
    )
    SELECT asked.spelling, known.document_frequency
    FROM asked
    JOIN term_statistics AS known
        ON known.collection_id = %(collection_id)s AND known.term = asked.term AND known.document_frequency > 0
    UNION ALL
    SELECT asked.spelling, 1 FROM asked JOIN fresh ON fresh.term = asked.term
"""

_BEGINNING = """
    SELECT asked.beginning, found.term, found.document_frequency
    FROM unnest(%(beginnings)s::text[]) AS asked (beginning)
    CROSS JOIN LATERAL (
        (
            SELECT known.term, known.document_frequency FROM term_statistics AS known
            WHERE known.collection_id = %(collection_id)s AND known.document_frequency > 0
                AND known.term >= asked.beginning COLLATE "C"
                AND known.term < (asked.beginning || U&'\\+10FFFF') COLLATE "C"
            LIMIT %(most)s
        )
        UNION ALL
        SELECT one.term COLLATE "C", 1
        FROM statistics_changes AS change CROSS JOIN LATERAL unnest(change.terms) AS one (term)
        WHERE change.collection_id = %(collection_id)s AND starts_with(one.term, asked.beginning)
    ) AS found
"""


async def unknown_words(
    database: Database, tenant_id: int, collection: StoredCollection, words: Sequence[str]
) -> dict[str, str]:
    """The words that no item holds in any form, each with its term; those that the language leaves out are known."""
    rows = await database.read(tenant_id, Compiled(_UNKNOWN, {**_whose(collection), "words": list(words)}))
    return dict(rows)


async def known_spellings(
    database: Database, tenant_id: int, collection: StoredCollection, spellings: Sequence[str]
) -> dict[str, int]:
    """Those of the spellings that some item holds in some form, with the number of items."""
    rows = await database.read(tenant_id, Compiled(_KNOWN, {**_whose(collection), "spellings": list(spellings)}))
    known: dict[str, int] = {}
    for spelling, items in rows:
        known[spelling] = max(items, known.get(spelling, 0))
    return known


async def terms_beginning(
    database: Database, tenant_id: int, collection: StoredCollection, beginnings: Sequence[str], *, most: int
) -> dict[str, dict[str, int]]:
    """For each of the beginnings the collection's terms that begin so, ``most`` of them, with the number of items."""
    parameters = {**_whose(collection), "beginnings": list(beginnings), "most": most}
    found: dict[str, dict[str, int]] = {one: {} for one in beginnings}
    for beginning, term, items in await database.read(tenant_id, Compiled(_BEGINNING, parameters)):
        found[beginning][term] = max(items, found[beginning].get(term, 0))
    return found


def _whose(collection: StoredCollection) -> dict[str, object]:
    return {"collection_id": collection.collection_id, "config": collection.text_search_config}
