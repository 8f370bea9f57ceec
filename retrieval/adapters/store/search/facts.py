"""The facts about candidates that signals use, read in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from retrieval.adapters.store.arrays import half_vector
from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.adapters.store.tables import arms, items, memories, memory_links
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import ANYWHERE
from retrieval.domain.search.signals import READ, Facts


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of one search."""

    item_ids: Sequence[str]
    vector: Vector | None = None
    """The query's vector, shape (dimensions,), unit length; with a space, the cosines are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsRequest:
    """A request for facts about the candidates of several searches."""

    collection_id: int
    searches: Sequence[Candidates]
    read: frozenset[str] = READ
    """The wanted ones of those facts that are read only where they are needed."""
    with_entities: bool = False
    """Whether their links are requested."""
    space: StoredSpace | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """An item that there is."""

    facts: Facts
    expires_at: datetime | None


async def read_facts(database: Database, tenant_id: int, request: FactsRequest) -> list[dict[str, Known]]:
    """Read the facts about the candidates that exist, by item id, for each search; each item is read once."""
    all_ids = list(dict.fromkeys(item_id for search in request.searches for item_id in search.item_ids))
    if not all_ids:
        return [{} for _ in request.searches]
    wanted = {"collection_id": request.collection_id, "item_ids": all_ids}
    statements = [_items(request.read).bind(**wanted)]
    if request.with_entities:
        statements.append(_LINKS.bind(**wanted))
    statements += [asked for search in request.searches for asked in _cosines_of(request, search)]
    answers = iter(await database.read_each(tenant_id, statements))
    rows = {row[0]: row for row in next(answers)}
    entities: dict[str, set[tuple[str, str]]] = {}
    for item_id, kind, entity_id in next(answers) if request.with_entities else ():
        entities.setdefault(item_id, set()).add((kind, entity_id))
    linked = {item_id: frozenset(some) for item_id, some in entities.items()}
    each = []
    for search in request.searches:
        cosines: dict[str, float] = dict(next(answers)) if _cosines_of(request, search) else {}
        each.append(
            {
                item_id: _known(rows[item_id], cosines.get(item_id), linked.get(item_id, _NONE))
                for item_id in search.item_ids
                if item_id in rows
            }
        )
    return each


_NONE: frozenset[tuple[str, str]] = frozenset()
_LINKS = compiled(
    sa.select(memory_links.c.item_id, memory_links.c.entity_type, memory_links.c.entity_id).where(
        memory_links.c.collection_id == sa.bindparam("collection_id", type_=sa.BigInteger),
        memory_links.c.item_id == sa.func.any(sa.bindparam("item_ids", type_=sa.types.NullType())),
    )
)


@lru_cache(maxsize=32)
def _items(read: frozenset[str]) -> Compiled:
    nothing = {"title": sa.text("''"), "body": sa.text("''"), "attributes": sa.text("NULL"), "tags": sa.text("NULL")}
    columns = [items.c[name] if name in read else nothing[name] for name in nothing]
    rows = items.outerjoin(memories, _same_item(memories))
    counts: list[Any] = [sa.text("NULL"), sa.text("NULL")]
    if "verdicts" in read:
        rows = rows.outerjoin(arms, sa.and_(_same_item(arms), arms.c.context == sa.literal_column(f"'{ANYWHERE}'")))
        counts = [arms.c.uses, arms.c.raw_successes]
    return compiled(
        sa.select(
            items.c.item_id,
            *columns,
            sa.func.coalesce(items.c.occurred_at, items.c.created_at),
            *(memories.c[name] for name in ("base_relevance", "accesses", "expires_at")),
            *counts,
        )
        .select_from(rows)
        .where(
            items.c.collection_id == sa.bindparam("collection_id", type_=sa.BigInteger),
            items.c.item_id == sa.func.any(sa.bindparam("item_ids", type_=sa.types.NullType())),
        )
    )


def _same_item(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.collection_id == items.c.collection_id, table.c.item_id == items.c.item_id)


def _cosines_of(request: FactsRequest, search: Candidates) -> list[Compiled]:
    """The statement that reads a search's cosines; none where they are not wanted."""
    if request.space is None or search.vector is None:
        return []
    wanted = {"collection_id": request.collection_id, "item_ids": list(search.item_ids)}
    return [Compiled(_cosines(request.space.table_name), wanted | {"vector": half_vector(search.vector)})]


@lru_cache(maxsize=256)
def _cosines(table_name: str) -> str:
    # The negative inner product of unit vectors is the negative cosine similarity.
    statement = sql.SQL(
        "SELECT item_id, -(vector <#> %(vector)s) FROM {} "
        "WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)"
    )
    return statement.format(sql.Identifier(table_name)).as_string()


def _known(row: Row, cosine: float | None, entities: frozenset[tuple[str, str]]) -> Known:
    _, title, body, attributes, tags, happened_at, relevance, accesses, expires_at, uses, raw_successes = row
    facts = Facts(
        title=title,
        body=body,
        attributes=attributes or {},
        happened_at=happened_at,
        cosine=cosine,
        base_relevance=1.0 if relevance is None else relevance,
        accesses=accesses or 0,
        entities=entities,
        tags=frozenset(tags or ()),
        uses=uses or 0,
        raw_successes=raw_successes or 0,
    )
    return Known(facts, expires_at)
