"""Look-ups of a query's words beside its candidates: unknown words, near words, and their places in texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.search.snippet import MARKS, READ

# Each term is looked up by itself, with LIMIT: the planner would read all terms of the collection at once instead.
# Terms of differences that are not added up yet also count as known, so recent writes are found.
_UNKNOWN = """
    SELECT asked.spelling
    FROM (
        SELECT word.spelling, one.lexeme AS term, lexeme_id(%(collection_id)s, one.lexeme) AS number
        FROM unnest(%(words)s::text[]) AS word (spelling),
            unnest(to_tsvector(%(config)s::regconfig, word.spelling)) AS one
        OFFSET 0
    ) AS asked
    LEFT JOIN LATERAL (
        SELECT true AS is_there FROM term_statistics AS known
        WHERE known.collection_id = %(collection_id)s AND known.lexeme = asked.number AND known.document_frequency > 0
        LIMIT 1
    ) AS counted ON true
    LEFT JOIN LATERAL (
        SELECT true AS is_there FROM statistics_changes AS change
        WHERE change.collection_id = %(collection_id)s AND change.lexemes @> ARRAY[asked.number] LIMIT 1
    ) AS waiting ON counted.is_there IS NULL
    GROUP BY asked.spelling
    HAVING bool_and(counted.is_there IS NULL AND waiting.is_there IS NULL)
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
    SELECT asked.spelling, counted.document_frequency
    FROM asked
    CROSS JOIN LATERAL (
        SELECT known.document_frequency FROM term_statistics AS known
        WHERE known.collection_id = %(collection_id)s AND known.term = asked.term AND known.document_frequency > 0
        LIMIT 1
    ) AS counted
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

_MARKED = """
    SELECT item.item_id, ts_headline(%(config)s::regconfig, shown.text, asked.words, %(options)s)
    FROM (
        SELECT replace(plainto_tsquery(%(config)s::regconfig, %(words)s)::text, ' & ', ' | ')::tsquery AS words
    ) AS asked
    CROSS JOIN items AS item
    CROSS JOIN LATERAL (
        SELECT translate(left(coalesce(nullif(item.body, ''), item.title), %(read)s), %(marks)s, '') AS text
    ) AS shown
    WHERE item.collection_id = %(collection_id)s AND item.item_id = ANY(%(ids)s)
"""
_OPTIONS = f"HighlightAll=true, StartSel={MARKS[0]}, StopSel={MARKS[1]}"


async def marked_texts(
    database: Database, tenant_id: int, collection: StoredCollection, words: str, item_ids: Sequence[str]
) -> dict[str, str]:
    """The bodies of the items, or titles where there is no body, with the words marked that the query has in some form.

    The first ``READ`` characters of each, by item id; ``MARKS`` stand before and behind each word.
    """
    parameters = {
        **_whose(collection),
        "words": words,
        "ids": list(item_ids),
        "read": READ,
        "marks": "".join(MARKS),
        "options": _OPTIONS,
    }
    return dict(await database.read(tenant_id, Compiled(_MARKED, parameters)))


_BEGUN = """
    SELECT item.item_id, item.title, left(item.body, %(read)s)
    FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS wanted (item_id, place)
    JOIN items AS item ON item.collection_id = %(collection_id)s AND item.item_id = wanted.item_id
    ORDER BY wanted.place
"""


async def beginnings_of(
    database: Database, tenant_id: int, collection_id: int, item_ids: Sequence[str], characters: int
) -> list[tuple[str, str, str]]:
    """Read the id, the title and the beginning of the body of each item that exists, in the order given."""
    parameters = {"collection_id": collection_id, "ids": list(item_ids), "read": characters}
    return [tuple(row) for row in await database.read(tenant_id, Compiled(_BEGUN, parameters))]


async def unknown_words(
    database: Database, tenant_id: int, collection: StoredCollection, words: Sequence[str]
) -> list[str]:
    """The words that no item holds in any form; stop words of the language count as known."""
    rows = await database.read(
        tenant_id, Compiled(_UNKNOWN, {**_whose(collection), "words": list(words)}, keep=collection.collection_id)
    )
    return [spelling for (spelling,) in rows]


async def known_spellings(
    database: Database, tenant_id: int, collection: StoredCollection, each: Iterable[Sequence[str]]
) -> dict[str, int]:
    """Find the spellings that some item holds in some form, with the number of items, in one round trip."""
    # One statement for each list: compiling one of thousands of spellings (jit) would cost the database more.
    statements = [Compiled(_KNOWN, {**_whose(collection), "spellings": list(spellings)}) for spellings in each]
    known: dict[str, int] = {}
    for rows in await database.read_each(tenant_id, statements):
        for spelling, items in rows:
            known[spelling] = max(items, known.get(spelling, 0))
    return known


async def terms_beginning(
    database: Database, tenant_id: int, collection: StoredCollection, beginnings: Sequence[str], *, most: int
) -> dict[str, dict[str, int]]:
    """Find ``most`` of the collection's terms with each of the beginnings, and the number of items that hold each."""
    parameters = {**_whose(collection), "beginnings": list(beginnings), "most": most}
    found: dict[str, dict[str, int]] = {beginning: {} for beginning in beginnings}
    for beginning, term, items in await database.read(tenant_id, Compiled(_BEGINNING, parameters)):
        found[beginning][term] = max(items, found[beginning].get(term, 0))
    return found


def _whose(collection: StoredCollection) -> dict[str, object]:
    return {"collection_id": collection.collection_id, "config": collection.text_search_config}
