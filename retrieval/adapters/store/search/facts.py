"""The facts about candidates that signals use, read in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.arrays import half_vector
from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search.vectors import StoredSpace, for_table
from retrieval.adapters.store.tables import arms, items, memories, memory_links
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import ANYWHERE
from retrieval.domain.search.signals import Facts


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of one search."""

    item_ids: Sequence[str]
    vector: Vector | None = None
    """The query's vector, shape (dimensions,), unit length, for the cosines; None: no cosines."""


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """The facts about an existing item, and its expiry."""

    facts: Facts
    expires_at: datetime | None


async def read_facts(
    at: CollectionPlace,
    searches: Sequence[Candidates],
    *,
    names: frozenset[str],
    with_entities: bool,
    space: StoredSpace | None,
) -> list[dict[str, ItemFacts]]:
    """The facts about the existing candidates of each search, by item id; each item is read once.

    ``names``: what the signals read (``Signal.reads``); ``with_entities``: whether to read the items' links; ``space``:
    that of the cosines, None: no cosines.
    """
    all_ids = list(dict.fromkeys(item_id for search in searches for item_id in search.item_ids))
    if not all_ids:
        return [{} for _ in searches]
    values = {"collection_id": at.collection_id, "item_ids": all_ids}
    statements = [_items(names).bind(**values)]
    if with_entities:
        statements.append(_LINKS.bind(**values))
    cosines_of = [_cosines_of(at.collection_id, space, search) for search in searches]
    statements += [statement for statement in cosines_of if statement is not None]
    answers = iter(await at.database.read_each(at.tenant_id, statements))
    rows = {row[0]: row for row in next(answers)}
    entities: dict[str, set[tuple[str, str]]] = {}
    for item_id, kind, entity_id in next(answers) if with_entities else ():
        entities.setdefault(item_id, set()).add((kind, entity_id))
    links = {item_id: frozenset(pairs) for item_id, pairs in entities.items()}
    facts = []
    for search, statement in zip(searches, cosines_of, strict=True):
        cosines: dict[str, float] = {} if statement is None else dict(next(answers))
        facts.append(
            {
                item_id: _facts_of(rows[item_id], cosines.get(item_id), links.get(item_id, _NONE))
                for item_id in search.item_ids
                if item_id in rows
            }
        )
    return facts


_NONE: frozenset[tuple[str, str]] = frozenset()
_LINKS = compiled(
    sa.select(memory_links.c.item_id, memory_links.c.entity_type, memory_links.c.entity_id).where(
        memory_links.c.collection_id == sa.bindparam("collection_id", type_=sa.BigInteger),
        memory_links.c.item_id == sa.func.any(sa.bindparam("item_ids", type_=sa.types.NullType())),
    )
)


@lru_cache(maxsize=32)
def _items(names: frozenset[str]) -> Compiled:
    unread = {"title": sa.text("''"), "body": sa.text("''"), "attributes": sa.text("NULL"), "tags": sa.text("NULL")}
    columns = [items.c[name] if name in names else unread[name] for name in unread]
    rows = items.outerjoin(memories, _same_item(memories))
    counts: list[Any] = [sa.text("NULL"), sa.text("NULL")]
    if "verdicts" in names:
        rows = rows.outerjoin(arms, sa.and_(_same_item(arms), arms.c.context == sa.literal_column(f"'{ANYWHERE}'")))
        counts = [arms.c.uses, arms.c.raw_successes]
    happened_at = sa.func.coalesce(items.c.occurred_at, items.c.created_at)
    of_memory = (memories.c[name] for name in ("base_relevance", "accesses", "expires_at"))
    return compiled(
        sa.select(items.c.item_id, *columns, happened_at, *of_memory, *counts)
        .select_from(rows)
        .where(
            items.c.collection_id == sa.bindparam("collection_id", type_=sa.BigInteger),
            items.c.item_id == sa.func.any(sa.bindparam("item_ids", type_=sa.types.NullType())),
        )
    )


def _same_item(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.collection_id == items.c.collection_id, table.c.item_id == items.c.item_id)


# The negative inner product of unit vectors is the negative cosine similarity.
_COSINES = """
    SELECT item_id, -(vector <#> %(vector)s) FROM {table}
    WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)
"""


def _cosines_of(collection_id: int, space: StoredSpace | None, search: Candidates) -> Compiled | None:
    """The statement that reads a search's cosines; None without a space or a vector."""
    if space is None or search.vector is None:
        return None
    values = {"collection_id": collection_id, "item_ids": list(search.item_ids)}
    return for_table(_COSINES, space.table_name).bind(**values, vector=half_vector(search.vector))


def _facts_of(row: Row, cosine: float | None, entities: frozenset[tuple[str, str]]) -> ItemFacts:
    _, title, body, attributes, tags, happened_at, relevance, accesses, expires_at, uses, raw_successes = row
    facts = Facts(
        title=title, body=body, attributes=attributes or {}, happened_at=happened_at, cosine=cosine,
        base_relevance=1.0 if relevance is None else relevance, accesses=accesses or 0, entities=entities,
        tags=frozenset(tags or ()), uses=uses or 0, raw_successes=raw_successes or 0,
    )  # fmt: skip
    return ItemFacts(facts, expires_at)
