"""Look-ups of a query's words: unknown words, similar words, and their places in texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.search.snippet import MARKS, READ
from retrieval.domain.words import usual_form

# Each term is looked up separately, with LIMIT, because the planner would else read all terms of the collection.
# Terms in changes that are not added up yet count as known too, so that recent writes are found.
_UNKNOWN = """
    SELECT query.spelling
    FROM (
        SELECT word.spelling, lexeme_id(%(collection_id)s, parsed.lexeme) AS number
        FROM unnest(%(words)s::text[]) AS word (spelling),
            unnest(to_tsvector(%(config)s::regconfig, word.spelling)) AS parsed
        OFFSET 0
    ) AS query
    LEFT JOIN LATERAL (
        SELECT true AS is_there FROM term_statistics AS known
        WHERE known.collection_id = %(collection_id)s AND known.lexeme = query.number AND known.document_frequency > 0
        LIMIT 1
    ) AS counted ON true
    LEFT JOIN LATERAL (
        SELECT true AS is_there FROM statistics_changes AS change
        WHERE change.collection_id = %(collection_id)s AND change.lexemes @> ARRAY[query.number] LIMIT 1
    ) AS waiting ON counted.is_there IS NULL
    GROUP BY query.spelling
    HAVING bool_and(counted.is_there IS NULL AND waiting.is_there IS NULL)
"""

_KNOWN = """
    WITH query AS MATERIALIZED (
        SELECT word.spelling, parsed.lexeme COLLATE "C" AS term
        FROM unnest(%(spellings)s::text[]) AS word (spelling),
            unnest(to_tsvector(%(config)s::regconfig, word.spelling)) AS parsed
    ),
    fresh AS MATERIALIZED (
        SELECT DISTINCT changed.term COLLATE "C" AS term
        FROM statistics_changes AS change CROSS JOIN LATERAL unnest(change.terms) AS changed (term)
        WHERE change.collection_id = %(collection_id)s
    )
    SELECT query.spelling, counted.document_frequency
    FROM query
    CROSS JOIN LATERAL (
        SELECT known.document_frequency FROM term_statistics AS known
        WHERE known.collection_id = %(collection_id)s AND known.term = query.term AND known.document_frequency > 0
        LIMIT 1
    ) AS counted
    UNION ALL
    SELECT query.spelling, 1 FROM query JOIN fresh ON fresh.term = query.term
"""

_BEGINNING = """
    SELECT query.beginning, found.term, found.document_frequency
    FROM unnest(%(beginnings)s::text[]) AS query (beginning)
    CROSS JOIN LATERAL (
        (
            SELECT known.term, known.document_frequency FROM term_statistics AS known
            WHERE known.collection_id = %(collection_id)s AND known.document_frequency > 0
                AND known.term >= query.beginning COLLATE "C"
                AND known.term < (query.beginning || U&'\\+10FFFF') COLLATE "C"
            LIMIT %(most)s
        )
        UNION ALL
        SELECT changed.term COLLATE "C", 1
        FROM statistics_changes AS change CROSS JOIN LATERAL unnest(change.terms) AS changed (term)
        WHERE change.collection_id = %(collection_id)s AND starts_with(changed.term, query.beginning)
    ) AS found
"""

_MARKED = """
    SELECT
        item.item_id, shown.text,
        ts_headline(%(config)s::regconfig, as_read(%(config)s::regconfig, shown.text), query.words, %(options)s)
    FROM (
        SELECT
            replace(
                plainto_tsquery(%(config)s::regconfig, as_read(%(config)s::regconfig, %(words)s))::text, ' & ', ' | '
            )::tsquery AS words
    ) AS query
    CROSS JOIN items AS item
    CROSS JOIN LATERAL (
        SELECT translate(usual_form(left(coalesce(nullif(item.body, ''), item.title), %(read)s)), %(marks)s, '') AS text
    ) AS shown
    WHERE item.collection_id = %(collection_id)s AND item.item_id = ANY(%(ids)s)
"""
_OPTIONS = f"HighlightAll=true, StartSel={MARKS[0]}, StopSel={MARKS[1]}"


async def marked_texts(
    database: Database, tenant_id: int, collection: StoredCollection, words: str, item_ids: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """The items' bodies, or titles without a body, each also as the database reads it, with the query's words marked.

    The first ``READ`` characters by item id; in the second text other characters replace some of the first, and there
    are ``MARKS`` before and after each word, in any form.
    """
    parameters = {
        **_place(collection),
        "words": words,
        "ids": list(item_ids),
        "read": READ,
        "marks": "".join(MARKS),
        "options": _OPTIONS,
    }
    rows = await database.read(tenant_id, Compiled(_MARKED, parameters))
    return {item_id: (text, marked) for item_id, text, marked in rows}


_BEGUN = """
    SELECT item.item_id, item.title, left(item.body, %(read)s)
    FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS wanted (item_id, place)
    JOIN items AS item ON item.collection_id = %(collection_id)s AND item.item_id = wanted.item_id
    ORDER BY wanted.place
"""


async def beginnings_of(at: CollectionPlace, item_ids: Sequence[str], characters: int) -> list[tuple[str, str, str]]:
    """The id, the title and the beginning of the body of each existing item, in the order of ``item_ids``."""
    rows = await at.read(Compiled(_BEGUN), ids=list(item_ids), read=characters)
    return [(item_id, usual_form(title), usual_form(body)) for item_id, title, body in rows]


async def unknown_words(
    database: Database, tenant_id: int, collection: StoredCollection, words: Sequence[str]
) -> list[str]:
    """The words that no item has in any form; stop words of the language count as known."""
    rows = await database.read(
        tenant_id, Compiled(_UNKNOWN, {**_place(collection), "words": list(words)}, keep=collection.collection_id)
    )
    return [spelling for (spelling,) in rows]


async def known_spellings(
    database: Database, tenant_id: int, collection: StoredCollection, each: Iterable[Sequence[str]]
) -> dict[str, int]:
    """The number of items by spelling, for spellings that some item has in any form, in one round trip."""
    # One statement for each list: one with thousands of spellings would be compiled (jit), which costs more.
    statements = [Compiled(_KNOWN, {**_place(collection), "spellings": list(spellings)}) for spellings in each]
    numbers: dict[str, int] = {}
    for rows in await database.read_each(tenant_id, statements):
        for spelling, items in rows:
            numbers[spelling] = max(items, numbers.get(spelling, 0))
    return numbers


async def terms_beginning(
    database: Database, tenant_id: int, collection: StoredCollection, beginnings: Sequence[str], *, most: int
) -> dict[str, dict[str, int]]:
    """Up to ``most`` of the collection's terms by beginning, with the number of items that have each."""
    parameters = {**_place(collection), "beginnings": list(beginnings), "most": most}
    terms: dict[str, dict[str, int]] = {beginning: {} for beginning in beginnings}
    for beginning, term, items in await database.read(tenant_id, Compiled(_BEGINNING, parameters)):
        terms[beginning][term] = max(items, terms[beginning].get(term, 0))
    return terms


def _place(collection: StoredCollection) -> dict[str, object]:
    return {"collection_id": collection.collection_id, "config": collection.text_search_config}
