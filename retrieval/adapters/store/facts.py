"""What signals know of the candidates of a search, read in one round trip with the columns of a hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from pgvector import HalfVector
from psycopg import sql

from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.hit_columns import HIT_COLUMNS
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.spaces import StoredSpace
from retrieval.adapters.store.tables import items, memories, memory_links
from retrieval.domain.embedding import Vector
from retrieval.domain.signals.signal import Facts

_OWN = ("created_at",)
_OF_MEMORY = ("base_relevance", "accesses", "expires_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsRequest:
    """Of which items what is wanted."""

    collection_id: int
    item_ids: Sequence[str]
    with_entities: bool = False
    """Whether what they are linked to is wanted."""
    space: StoredSpace | None = None
    vector: Vector | None = None
    """Of the query, shape (dimensions,), unit length; with a space, the cosines are wanted."""


@dataclass(frozen=True, slots=True)
class Known:
    """An item that there is."""

    facts: Facts
    columns: Row
    """Those of a hit."""
    expires_at: datetime | None


async def read_facts(database: Database, tenant_id: int, request: FactsRequest) -> dict[str, Known]:
    """What is known of those items that exist, by item id."""
    if not request.item_ids:
        return {}
    wanted = {"collection_id": request.collection_id, "item_ids": list(request.item_ids)}
    statements = [_ITEMS.bind(**wanted)]
    if request.with_entities:
        statements.append(_LINKS.bind(**wanted))
    has_cosines = request.space is not None and request.vector is not None
    if request.space is not None and request.vector is not None:
        statements.append(Compiled(_cosines(request.space.table_name), wanted | {"vector": HalfVector(request.vector)}))
    rows, *more = await database.read_each(tenant_id, statements)
    cosines: dict[str, float] = {row[0]: row[1] for row in more.pop()} if has_cosines else {}
    entities: dict[str, set[tuple[str, str]]] = {}
    for item_id, kind, entity_id in more[0] if more else ():
        entities.setdefault(item_id, set()).add((kind, entity_id))
    return {row[0]: _known(row, cosines, entities) for row in rows}


_KEY = sa.and_(
    items.c.collection_id == sa.bindparam("collection_id", type_=sa.BigInteger),
    items.c.item_id == sa.func.any(sa.bindparam("item_ids", type_=sa.types.NullType())),
)
_ITEMS = compiled(
    sa.select(
        items.c.item_id,
        *(items.c[name] for name in HIT_COLUMNS),
        *(items.c[name] for name in _OWN),
        *(memories.c[name] for name in _OF_MEMORY),
    )
    .outerjoin_from(
        items,
        memories,
        sa.and_(memories.c.collection_id == items.c.collection_id, memories.c.item_id == items.c.item_id),
    )
    .where(_KEY)
)
_LINKS = compiled(
    sa.select(memory_links.c.item_id, memory_links.c.entity_type, memory_links.c.entity_id).where(
        memory_links.c.collection_id == sa.bindparam("collection_id", type_=sa.BigInteger),
        memory_links.c.item_id == sa.func.any(sa.bindparam("item_ids", type_=sa.types.NullType())),
    )
)


@lru_cache(maxsize=256)
def _cosines(table_name: str) -> str:
    # The negative inner product of unit vectors is the negative cosine similarity.
    statement = sql.SQL(
        "SELECT item_id, -(vector <#> %(vector)s) FROM {} "
        "WHERE collection_id = %(collection_id)s AND item_id = ANY(%(item_ids)s)"
    )
    return statement.format(sql.Identifier(table_name)).as_string()


def _known(row: Row, cosines: Mapping[str, float], entities: Mapping[str, set[tuple[str, str]]]) -> Known:
    item_id, *values = row
    columns = tuple(values[: len(HIT_COLUMNS)])
    named: dict[str, Any] = dict(zip((*HIT_COLUMNS, *_OWN, *_OF_MEMORY), values, strict=True))
    relevance = named["base_relevance"]
    facts = Facts(
        title=named["title"],
        body=named["body"],
        attributes=named["attributes"],
        happened_at=named["occurred_at"] or named["created_at"],
        cosine=cosines.get(item_id),
        base_relevance=1.0 if relevance is None else relevance,
        accesses=named["accesses"] or 0,
        entities=frozenset(entities.get(item_id, ())),
    )
    return Known(facts, columns, named["expires_at"])
