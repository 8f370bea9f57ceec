"""The statement that stores recorded searches, and how they are written for it. Light to import."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from retrieval.domain.recorded import Impression, RecordedSearch

TYPES = """
    collection_id bigint, retrieval_id uuid, retrieved_at timestamptz, actor text, session text, domain text,
    complexity double precision, cluster integer, query text, vector halfvec, condition jsonb, request jsonb,
    profile_version integer, model_version integer, policy text, statistics_at timestamptz, seed bigint,
    eligible integer, hits integer, path text, notes text[], timings_ms jsonb, retrieval_time_ms double precision,
    top_score double precision, score_spread double precision, generation_triggered boolean,
    backtrack_count integer, pool_items text[], pool_signals jsonb
"""
"""The columns of a recorded search, with their types."""

SHOWN_TYPES = """
    item_id text, rank integer, score double precision, signals jsonb, slot text, propensity double precision,
    rank_propensity double precision, pulls double precision
"""
"""The columns of an impression, with their types."""


def names_of(types: str) -> list[str]:
    """The columns of a list of columns with their types."""
    return [one.split()[0] for one in types.split(",")]


COLUMNS = ", ".join(names_of(TYPES))
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
    for name in names_of(TYPES)
)
SHOWN_COLUMNS = ", ".join(names_of(SHOWN_TYPES))
_SHOWN_VALUES = ", ".join(
    "coalesce(gone.pseudonym, i.item_id)" if name == "item_id" else f"i.{name}" for name in names_of(SHOWN_TYPES)
)

# Stored twice it is stored once: the answer to a statement can get lost, which is then sent again. The losses count
# where the first search is new, for the same reason: a repetition may bring others, but it begins with the same.
STORE = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM ROWS FROM (json_to_recordset(%(searches)s::json) AS ({TYPES}, impressions json))
            WITH ORDINALITY AS r ({COLUMNS}, impressions, place)
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
        INSERT INTO retrievals ({COLUMNS})
        SELECT {_KEPT_VALUES} FROM given g CROSS JOIN names ON CONFLICT DO NOTHING RETURNING retrieval_id
    ), shown AS (
        INSERT INTO impressions (collection_id, retrieval_id, retrieved_at, {SHOWN_COLUMNS})
        SELECT g.collection_id, g.retrieval_id, g.retrieved_at, {_SHOWN_VALUES}
        FROM kept JOIN given g USING (retrieval_id)
        CROSS JOIN json_to_recordset(g.impressions) AS i ({SHOWN_TYPES})
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
"""  # noqa: S608 - of the names above


_FIELDS = [one.name for one in fields(RecordedSearch) if one.name not in ("vector", "impressions")]
_SHOWN_FIELDS = [one.name for one in fields(Impression)]


def encoded(search: RecordedSearch) -> str:
    """The search as ``store_recordings`` takes it. Raises ``ValueError`` for a number that is none."""
    return json.dumps(values_of(search), default=plain, allow_nan=False)


def values_of(search: RecordedSearch) -> dict[str, Any]:
    """What stands in the columns, by name."""
    values = {name: getattr(search, name) for name in _FIELDS}
    shown = [{name: getattr(each, name) for name in _SHOWN_FIELDS} for each in search.impressions]
    vector = None if search.vector is None else list(search.vector)
    return {**values, "vector": vector, "impressions": shown}


def plain(value: object) -> Any:
    """A value that JSON has no kind for, as one that it has."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return str(value)  # identifiers and times
