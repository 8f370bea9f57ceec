"""Recorded searches with their impressions: many of them stored by one statement, each read by its identifier."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date
from typing import Any
from uuid import UUID

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.recorded import Impression, RecordedSearch
from retrieval.domain.retrieval_id import time_of
from retrieval.domain.slate import Slot

Losses = Mapping[tuple[int, date, str], int]
"""How many searches were not recorded, by collection, day and reason."""

_TYPES = """
    collection_id bigint, retrieval_id uuid, retrieved_at timestamptz, actor text, session text, domain text,
    complexity double precision, cluster integer, query text, vector halfvec, condition jsonb, request jsonb,
    profile_version integer, model_version integer, policy text, statistics_at timestamptz, seed bigint,
    eligible integer, hits integer, path text, notes text[], timings_ms jsonb, retrieval_time_ms double precision,
    top_score double precision, score_spread double precision, generation_triggered boolean,
    backtrack_count integer, pool_items text[], pool_signals jsonb
"""
_SHOWN_TYPES = """
    item_id text, rank integer, score double precision, signals jsonb, slot text, propensity double precision,
    rank_propensity double precision, pulls double precision
"""


def _names(types: str) -> list[str]:
    return [one.split()[0] for one in types.split(",")]


_COLUMNS = ", ".join(_names(_TYPES))
# An item that was forgotten since the search found it is recorded by a pseudonym, wherever the record names it.
_RENAMED = {
    "pool_items": """
        ARRAY(
            SELECT coalesce(gone.pseudonym, place.item_id)
            FROM unnest(g.pool_items) WITH ORDINALITY AS place (item_id, rank)
            LEFT JOIN gone ON gone.collection = g.collection_id AND gone.item = place.item_id
            ORDER BY place.rank
        )
    """,
    "condition": "renamed_texts(g.condition, names.old, names.new)",
    "request": """
        g.request || jsonb_build_object('preferred', renamed_texts(g.request -> 'preferred', names.old, names.new))
    """,
}
_KEPT_VALUES = ", ".join(
    f"CASE WHEN names.old IS NULL THEN g.{name} ELSE {_RENAMED[name]} END" if name in _RENAMED else f"g.{name}"
    for name in _names(_TYPES)
)
_SHOWN_COLUMNS = ", ".join(_names(_SHOWN_TYPES))
_SHOWN_VALUES = ", ".join(
    "coalesce(gone.pseudonym, i.item_id)" if name == "item_id" else f"i.{name}" for name in _names(_SHOWN_TYPES)
)

# Stored twice it is stored once: the answer to a statement can get lost, which is then sent again. The losses count
# where the first search is new, for the same reason: a repetition may bring others, but it begins with the same.
_STORE = Compiled(f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM ROWS FROM (json_to_recordset(%(searches)s::json) AS ({_TYPES}, impressions json))
            WITH ORDINALITY AS r ({_COLUMNS}, impressions, place)
        WHERE r.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
    ), named AS MATERIALIZED (
        SELECT g.collection_id, place.item_id FROM given g CROSS JOIN unnest(g.pool_items) AS place (item_id)
        UNION
        SELECT g.collection_id, place.item ->> 'item_id'
        FROM given g CROSS JOIN json_array_elements(g.impressions) AS place (item)
    ), gone AS MATERIALIZED (
        SELECT missing.* FROM (
            SELECT array_agg(named.collection_id) AS collections, array_agg(named.item_id) AS ids FROM named
        ) AS every CROSS JOIN missing_items(every.collections, every.ids) AS missing
    ), names AS MATERIALIZED (
        SELECT array_agg(gone.item) AS old, array_agg(gone.pseudonym) AS new FROM gone
    ), kept AS (
        INSERT INTO retrievals ({_COLUMNS})
        SELECT {_KEPT_VALUES} FROM given g CROSS JOIN names ON CONFLICT DO NOTHING RETURNING retrieval_id
    ), shown AS (
        INSERT INTO impressions (collection_id, retrieval_id, retrieved_at, {_SHOWN_COLUMNS})
        SELECT g.collection_id, g.retrieval_id, g.retrieved_at, {_SHOWN_VALUES}
        FROM kept JOIN given g USING (retrieval_id)
        CROSS JOIN json_to_recordset(g.impressions) AS i ({_SHOWN_TYPES})
        LEFT JOIN gone ON gone.collection = g.collection_id AND gone.item = i.item_id
    ), lost AS (
        INSERT INTO recording_losses (collection_id, day, reason, retrievals)
        SELECT l.collection_id, l.day, l.reason, l.retrievals
        FROM json_to_recordset(%(losses)s::json) AS l (collection_id bigint, day date, reason text, retrievals bigint)
        WHERE l.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
            AND (%(are_alone)s OR EXISTS (SELECT FROM kept JOIN given g USING (retrieval_id) WHERE g.place = 1))
        ON CONFLICT (collection_id, day, reason)
            DO UPDATE SET retrievals = recording_losses.retrievals + excluded.retrievals
    )
    SELECT g.retrieval_id FROM given g
""")  # noqa: S608 - of the names above
_FIND = Compiled(f"""
    SELECT {_COLUMNS} FROM retrievals r
    WHERE r.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
        AND r.retrieval_id = %(retrieval_id)s AND r.retrieved_at = %(retrieved_at)s
""")  # noqa: S608 - of the names above
_FIND_SHOWN = Compiled(f"""
    SELECT {_SHOWN_COLUMNS} FROM impressions i
    WHERE i.collection_id IN (SELECT c.collection_id FROM collections c WHERE c.tenant_id = %(tenant_id)s)
        AND i.retrieval_id = %(retrieval_id)s AND i.retrieved_at = %(retrieved_at)s
    ORDER BY i.rank
""")  # noqa: S608 - of the names above
_LOST = Compiled("""
    SELECT l.reason, sum(l.retrievals)::bigint FROM recording_losses l
    WHERE l.collection_id = %(collection_id)s GROUP BY l.reason ORDER BY l.reason
""")


def encoded(search: RecordedSearch) -> str:
    """The search as ``store_recordings`` takes it. Raises ``ValueError`` for a number that is none."""
    values = {one.name: getattr(search, one.name) for one in fields(search)}
    shown = [{one.name: getattr(each, one.name) for one in fields(each)} for each in search.impressions]
    vector = None if search.vector is None else list(search.vector)
    return json.dumps({**values, "vector": vector, "impressions": shown}, default=_plain, allow_nan=False)


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return str(value)  # identifiers and times


async def store_recordings(
    database: Database, tenant_id: int, searches: Sequence[str], losses: Losses
) -> frozenset[UUID]:
    """Store encoded searches and what was lost, in one round trip and one transaction; gives those that are stored.

    Those of a collection that was removed are not. Items that are gone by now bear a random pseudonym in them, which is
    one for a batch; the statement waits for who forgets items or changes what feedback weighs. The losses are stored
    where the first search is, or none is given, and once: sent again with it they must be the same.
    """
    lost = [
        {"collection_id": collection_id, "day": str(day), "reason": reason, "retrievals": number}
        for (collection_id, day, reason), number in sorted(losses.items())
    ]
    statement = _STORE.bind(
        tenant_id=tenant_id,
        searches=f"[{','.join(searches)}]",
        losses=json.dumps(lost),
        are_alone=not searches,
    )
    return frozenset(row[0] for row in await database.write(tenant_id, statement))


async def find_recorded(database: Database, tenant_id: int, retrieval_id: UUID) -> RecordedSearch | None:
    """The tenant's recorded search of that identifier, or None."""
    key = {"tenant_id": tenant_id, "retrieval_id": retrieval_id, "retrieved_at": time_of(retrieval_id)}
    found, shown = await database.read_each(tenant_id, [_FIND.bind(**key), _FIND_SHOWN.bind(**key)])
    if not found:
        return None
    values = dict(zip(_names(_TYPES), found[0], strict=True))
    vector = None if values["vector"] is None else values["vector"].to_list()
    impressions = [_impression(dict(zip(_names(_SHOWN_TYPES), row, strict=True))) for row in shown]
    return RecordedSearch(**{**values, "vector": vector}, impressions=impressions)


async def recording_losses(database: Database, tenant_id: int, collection_id: int) -> dict[str, int]:
    """How many of a collection's searches were not recorded, by reason."""
    rows = await database.read(tenant_id, _LOST.bind(collection_id=collection_id))
    return dict(rows)


def _impression(values: dict[str, Any]) -> Impression:
    return Impression(**{**values, "slot": Slot(values["slot"])})
