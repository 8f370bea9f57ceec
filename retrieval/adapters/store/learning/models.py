"""Read and store models of the learned reward, which never change once stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from retrieval.adapters.store.arrays import half_vector, half_vectors, texts
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection
from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.serialization import Serializable

KEPT = 10
"""The published versions that can be used again; older ones keep only their definition."""

_DEFINITION = Compiled("""
    SELECT m.definition FROM learned_models AS m
    WHERE m.collection_id = %(collection_id)s AND m.version = %(version)s
""")
_LATEST = Compiled("""
    SELECT version, kind, is_published, reason, events, metrics, statistics_at, created_at
    FROM learned_models WHERE collection_id = %(collection_id)s
    ORDER BY version DESC
    LIMIT 20
""")
# Locks the state's row, so that simultaneous publishers get different version numbers.
_HOLD = """
    INSERT INTO learning_states AS known (collection_id) VALUES (%(collection_id)s)
    ON CONFLICT (collection_id) DO UPDATE SET model_version = known.model_version
    RETURNING model_version, model_is_chosen
"""
_ADD = """
    INSERT INTO learned_models
        (collection_id, version, kind, definition, metrics, events, statistics_at, is_published, reason)
    SELECT %(collection_id)s, coalesce(max(m.version), 0) + 1, %(kind)s, %(definition)s, %(metrics)s, %(events)s,
           %(statistics_at)s, %(is_published)s, %(reason)s
    FROM learned_models AS m WHERE m.collection_id = %(collection_id)s
    RETURNING version
"""
_QUERIES = """
    INSERT INTO rewarded_queries (collection_id, item_id, version, vector, rewards)
    SELECT %(collection_id)s, entry.item_id, %(version)s, entry.vector, entry.rewards
    FROM unnest(%(item_ids)s::text[], %(vectors)s::halfvec[], %(rewards)s::double precision[])
        AS entry (item_id, vector, rewards)
    ORDER BY entry.item_id
    ON CONFLICT DO NOTHING
"""
_USE = """
    UPDATE learning_states SET model_version = %(version)s, model_is_chosen = %(is_chosen)s
    WHERE collection_id = %(collection_id)s
"""
_IS_CHOSEN = Compiled("SELECT l.model_is_chosen FROM learning_states AS l WHERE l.collection_id = %(collection_id)s")
_VERSIONS = """
    SELECT m.version, m.is_published, m.reason FROM learned_models AS m
    WHERE m.collection_id = %(collection_id)s
    ORDER BY m.version DESC
"""
_FORGET = """
    DELETE FROM rewarded_queries
    WHERE collection_id = %(collection_id)s AND version < (
        SELECT min(p.version) FROM (
            SELECT m.version FROM learned_models AS m
            WHERE m.collection_id = %(collection_id)s AND m.is_published
            ORDER BY m.version DESC
            LIMIT %(kept)s
        ) AS p
    )
"""
# One row for all items, because sending and reading a row for each would take longer than the lookups. Each item is
# looked up separately, even before the tables are analyzed.
_STACK_VALUES = Compiled(
    """
    SELECT array_agg(w.octets ORDER BY w.place), array_agg(w.cosine ORDER BY w.place)
    FROM (
        SELECT o.place,
               coalesce((
                   SELECT octet_length(i.title) + octet_length(i.body) FROM items AS i
                   WHERE i.collection_id = %(collection_id)s AND i.item_id = o.item_id
               ), 0),
               coalesce((
                   SELECT -(q.vector <#> %(vector)s) FROM rewarded_queries AS q
                   WHERE q.collection_id = %(collection_id)s AND q.item_id = o.item_id AND q.version = %(version)s
               ), 0)
        FROM unnest(%(item_ids)s::text[]) WITH ORDINALITY AS o (item_id, place)
    ) AS w (place, octets, cosine)
""",
    keep=0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel(Serializable):
    """A version of a model, without its definition."""

    serialized_names = MappingProxyType({"is_published": "published"})

    version: int
    kind: str
    is_published: bool
    """Whether it passed its trial, so that searches may use it."""
    reason: str
    """The reason why it was published, or was not."""
    events: int
    """The events that it was fitted on."""
    metrics: Mapping[str, Any]
    statistics_at: datetime
    """The time at which those events were read."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RewardedQueries:
    """The queries that an item was rewarded for."""

    item_id: str
    vector: Vector
    """Their mean, weighted by reward, at unit length; shape (dimensions,)."""
    rewards: float


async def read_definition(at: CollectionPlace, version: int) -> Mapping[str, Any] | None:
    """The definition of a version; None: there is no such version."""
    rows = await at.read(_DEFINITION, version=version)
    return rows[0][0] if rows else None


async def latest_models(at: CollectionPlace) -> list[StoredModel]:
    """The latest twenty versions, the newest first."""
    rows = await at.read(_LATEST)
    return [StoredModel(**dict(zip(StoredModel.__slots__, row, strict=True))) for row in rows]


class Added(NamedTuple):
    """The version of a stored model, and the versions in use before and after; 0: none."""

    version: int
    former: int
    in_use: int


async def add_model(
    connection: Connection,
    collection_id: int,
    *,
    kind: str,
    definition: Mapping[str, Any],
    metrics: Mapping[str, Any],
    events: int,
    statistics_at: datetime,
    is_published: bool,
    reason: str,
    queries: Sequence[RewardedQueries],
) -> Added:
    """Store a model as the next version: in use from now on if it is published; else none is. A chosen one stays."""
    values: dict[str, Any] = {
        "collection_id": collection_id,
        "kind": kind,
        "definition": Jsonb(dict(definition)),
        "metrics": Jsonb(dict(metrics)),
        "events": events,
        "statistics_at": statistics_at,
        "is_published": is_published,
        "reason": reason,
    }
    ((former, is_chosen),) = await connection.rows(_HOLD, values)
    version = int(await connection.value(_ADD, values))
    at = {"collection_id": collection_id, "version": version}
    if is_published:
        columns = {
            "item_ids": [query.item_id for query in queries],
            "vectors": half_vectors([query.vector for query in queries]),
            "rewards": [query.rewards for query in queries],
        }
        await connection.execute(_QUERIES, at | columns)
        await connection.execute(_FORGET, at | {"kept": KEPT})
    in_use = former if is_chosen else version if is_published else 0
    await connection.execute(_USE, at | {"version": in_use, "is_chosen": is_chosen})
    return Added(version, former, in_use)


async def use_model(connection: Connection, collection_id: int, version: int | None) -> None:
    """Search only with that version from now on; 0: with none; None: with the newest if it passed, and with later ones.

    Raises ``InvalidRequestError`` for a version that was not published, or whose rewarded queries were removed.
    """
    values = {"collection_id": collection_id}
    await connection.execute(_HOLD, values)
    rows = await connection.rows(_VERSIONS, values)
    published = [row[0] for row in rows if row[1]][:KEPT]
    chosen = version
    if chosen is None:
        chosen = rows[0][0] if rows and rows[0][1] else 0
    if chosen not in (0, *published):
        reasons = {row[0]: f"only the latest {KEPT} can be" if row[1] else row[2] for row in rows}
        raise InvalidRequestError(
            f"model {written(version, 20)} cannot be used: {reasons.get(chosen, 'it does not exist')}; there are "
            f"{', '.join(map(str, (0, *published)))} (0: none)"
        )
    await connection.execute(_USE, {**values, "version": chosen, "is_chosen": version is not None})


async def is_model_chosen(at: CollectionPlace) -> bool:
    """Whether a caller has chosen the version in use, or to use none."""
    rows = await at.read(_IS_CHOSEN)
    return bool(rows and rows[0][0])


def stack_statement(collection_id: int, *, version: int, item_ids: Sequence[str], vector: Vector | None) -> Compiled:
    """The statement for a stack's signals: one row with arrays of the items' octets, and cosines with rewarded queries.

    They are 0 if unknown; without a vector all cosines are 0.
    """
    return _STACK_VALUES.bind(
        collection_id=collection_id,
        version=version,
        item_ids=texts(item_ids),
        vector=None if vector is None else half_vector(vector),
    )
