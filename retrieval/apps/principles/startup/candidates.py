"""Read the data that a session starts with in one statement: candidate principles, and recent tags.

The principles are those with the best score for the session's tags, and those with few uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.apps.principles import principle
from retrieval.apps.principles.principle import Principle
from retrieval.apps.probation import ACTIVE, FAILED_BELOW, LEAST_TO_FAIL

MOST_UNSURE = 150
"""The most eligible principles that compete, the latest first, half of them with a tag of the session."""

LONGEST_BODY = 500
"""The characters of a body that are read, because only its first line is shown."""

# ``best``: the best by score and tags, with the same order of ties as in choosing. ``unsure``: the latest of the others
# that may be explored, alternating between principles with and without a tag of the session.
_READ = Compiled("""
    WITH home AS MATERIALIZED (
        SELECT c.collection_id, coalesce((p.definition #>> '{recording,rate}')::double precision, 1) AS recorded
        FROM collections AS c LEFT JOIN profiles AS p
            ON p.collection_id = c.collection_id AND p.version = c.profile_version
        WHERE c.tenant_id = current_tenant() AND c.name = %(collection)s
    ), latest AS MATERIALIZED (
        SELECT trace.tags, trace.attributes ->> 'outcome' AS outcome,
               row_number() OVER (ORDER BY trace.occurred_at DESC, trace.item_id) AS place
        FROM (
            SELECT i.tags, i.attributes, i.occurred_at, i.item_id
            FROM collections AS c JOIN items AS i ON i.collection_id = c.collection_id
            WHERE c.tenant_id = current_tenant() AND c.name = %(traces)s
                AND i.status <> 'archived'
                AND i.occurred_at BETWEEN %(since)s::timestamptz AND %(now)s::timestamptz
            ORDER BY i.occurred_at DESC, i.item_id
            LIMIT %(latest_traces)s
        ) AS trace
    ), recent AS MATERIALIZED (
        SELECT element.tag, count(DISTINCT latest.place) AS traces, min(latest.place * 1000 + element.place) AS first
        FROM latest CROSS JOIN unnest(latest.tags) WITH ORDINALITY AS element (tag, place)
        WHERE latest.outcome = 'success'
        GROUP BY element.tag
        ORDER BY traces DESC, first
        LIMIT %(recent_tags)s
    ), wanted AS MATERIALIZED (
        SELECT ARRAY(SELECT unnest(%(tags)s::text[]) UNION SELECT recent.tag FROM recent) AS tags
    ), known AS MATERIALIZED (
        SELECT i.item_id, i.title, left(i.body, %(longest)s) AS body, i.tags, i.status,
               coalesce(i.occurred_at, i.created_at) AS created_at,
               coalesce(a.uses, 0) AS uses, coalesce(a.raw_successes, 0) AS successes, a.last_used_at, i.source,
               (coalesce(a.raw_successes, 0) + 1.0) / (coalesce(a.uses, 0) + 2) AS score
        FROM home JOIN items AS i ON i.collection_id = home.collection_id
        LEFT JOIN arms AS a ON a.collection_id = i.collection_id AND a.item_id = i.item_id AND a.context = ''
        WHERE i.kind = %(kind)s AND i.status = ANY(%(in_use)s::text[])
    ), best AS (
        SELECT known.*, row_number() OVER (ORDER BY known.score + %(boost)s * (
            SELECT count(*) FROM unnest(known.tags) AS own (tag) WHERE own.tag = ANY(wanted.tags)
        ) DESC, known.created_at DESC, known.item_id) AS place
        FROM known CROSS JOIN wanted
        WHERE known.status = %(active)s AND known.score >= %(least_score)s
        ORDER BY place
        LIMIT %(most)s
    ), unsure AS (
        SELECT known.*, row_number() OVER (PARTITION BY known.tags && wanted.tags
                                           ORDER BY known.created_at DESC, known.item_id) AS place
        FROM known CROSS JOIN wanted
        WHERE (known.uses < %(fewer_uses_than)s OR known.created_at > %(young_since)s::timestamptz)
            AND NOT (known.uses >= %(failed_from)s AND known.score < %(failed_below)s)
            AND known.item_id NOT IN (SELECT best.item_id FROM best WHERE best.place <= %(certain)s)
        ORDER BY place, known.tags && wanted.tags DESC
        LIMIT %(most_unsure)s
    ), shown AS (
        SELECT item_id, title, body, tags, status, created_at, uses, successes, last_used_at, source
        FROM best
        UNION SELECT item_id, title, body, tags, status, created_at, uses, successes, last_used_at, source
        FROM unsure
    )
    SELECT home.collection_id, home.recorded,
           ARRAY(SELECT recent.tag FROM recent ORDER BY recent.traces DESC, recent.first),
           (SELECT json_agg(json_build_object(
                'id', s.item_id, 'title', s.title, 'body', s.body, 'tags', s.tags, 'status', s.status,
                'created_at', extract(epoch FROM s.created_at), 'use_count', s.uses, 'success_count', s.successes,
                'last_used_at', extract(epoch FROM s.last_used_at), 'added_by', s.source))
            FROM shown AS s)
    FROM home
""")


async def read_start(
    database: Database, tenant_id: int, collection: str, tags: Sequence[str], *, most: int, explored: int, now: datetime
) -> tuple[int, float, tuple[str, ...], list[Principle]]:
    """Read the candidates for ``most`` principles, ``explored`` of them explored, in one round trip.

    Returns the collection's number, the share of answers that its profile records (0 to 1), the recent tags, and the
    candidates. Neither the collection nor its traces need exist. Raises the errors of ``DatabaseError``.
    """
    rows = await database.read(
        tenant_id,
        _READ.bind(
            collection=collection,
            traces=principle.traces_name(collection),
            tags=list(tags),
            most=most + explored,
            certain=max(0, most - explored),
            kind=principle.KIND,
            in_use=list(principle.IN_USE),
            active=ACTIVE,
            least_score=principle.MIN_PRINCIPLE_SCORE,
            boost=principle.TAG_BOOST,
            fewer_uses_than=principle.FEWER_USES_THAN,
            young_since=now - principle.YOUNGER_THAN,
            most_unsure=MOST_UNSURE,
            failed_from=LEAST_TO_FAIL,
            failed_below=FAILED_BELOW,
            since=now - timedelta(days=principle.RECENT_DAYS),
            now=now,
            latest_traces=principle.LATEST_TRACES,
            recent_tags=principle.RECENT_TAGS,
            longest=LONGEST_BODY,
        ),
    )
    collection_id, recorded, recent, principles = rows[0] if rows else (0, 0.0, (), None)
    return collection_id, recorded, tuple(recent), [_principle(**fields) for fields in principles or ()]


def _principle(*, tags: list[str], created_at: float, last_used_at: float | None, **fields: Any) -> Principle:
    """The principle of a JSON object, whose times are seconds since 1970."""
    return Principle(
        tags=tuple(tags),
        created_at=datetime.fromtimestamp(created_at, UTC),
        last_used_at=None if last_used_at is None else datetime.fromtimestamp(last_used_at, UTC),
        **fields,
    )
