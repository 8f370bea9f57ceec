"""Recall of HNSW indexes: sampled queries, their repetition, the measured recall, and the resulting effort.

A probe uses no prepared statements, so that each statement is planned for its own settings: with a cached plan the
exact search might use the index, and the recall would look perfect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from psycopg.types.json import Jsonb

from retrieval.adapters.store.arrays import half_vector
from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.items.conditions import matching
from retrieval.adapters.store.round_trip import run_together
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import LegResults, bound, leg_results_of, settings
from retrieval.adapters.store.search.indexes import BEYOND
from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.filters import Filter, parse_where
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName

_STORE_SAMPLE = Compiled("""
    INSERT INTO query_samples (collection_id, space_id, vector, condition, result_limit)
    VALUES (%(collection_id)s, %(space_id)s, %(vector)s, %(condition)s, %(limit)s)
""")
_LATEST = Compiled("""
    SELECT s.vector, s.condition, s.result_limit FROM query_samples s
    WHERE s.collection_id = %(collection_id)s AND s.space_id = %(space_id)s
    ORDER BY s.sample_id DESC LIMIT %(most)s
""")
_NEWER = Compiled("""
    SELECT EXISTS (
        SELECT FROM query_samples s
        WHERE s.collection_id = %(collection_id)s AND s.space_id = %(space_id)s AND s.sampled_at > coalesce(
            (SELECT max(m.measured_at) FROM recall_measurements m
             WHERE m.collection_id = %(collection_id)s AND m.space_id = %(space_id)s
                 AND m.measured_at <= now()), '-infinity')  -- the clock may have been ahead
    )
""")


@dataclass(frozen=True, slots=True)
class Sample:
    """A recorded query, in the collection's space."""

    vector: Vector
    condition: Filter | None
    limit: int
    """The number of nearest items that were requested."""


async def keep_sample(
    at: CollectionPlace, space_id: int, *, vector: Vector, condition_json: Mapping[str, Any] | None, limit: int
) -> None:
    """Store a search that an HNSW index answered; ``condition_json``: its filter by ``as_mapping``.

    Searches that compared every vector have recall 1, so samples of them are useless. ``vector``: shape (dimensions,).
    """
    condition = None if condition_json is None else Jsonb(dict(condition_json))
    await at.write(_STORE_SAMPLE, space_id=space_id, vector=half_vector(vector), condition=condition, limit=limit)


async def latest_samples(at: CollectionPlace, space_id: int, *, most: int) -> list[Sample]:
    """The latest samples, at most ``most``."""
    rows = await at.read(_LATEST, space_id=space_id, most=most)
    return [Sample(np.asarray(row[0].to_numpy(), dtype=np.float32), parse_where(row[1]), row[2]) for row in rows]


async def has_newer_samples(at: CollectionPlace, space_id: int) -> bool:
    """Whether a query was sampled since recall was last measured."""
    rows = await at.read(_NEWER, space_id=space_id)
    return bool(rows[0][0])


_TIE = 1e-6
"""Scores that differ by less are equal: either of two equal items may be found."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of repeating a sample by the index and exactly."""

    recall: float
    """The share of the true nearest items that the index found, 0 to 1."""
    is_short: bool
    """Whether the index found fewer items than exist."""
    matches: int | None
    """The number of items that pass the filter; None without a filter."""
    effort: int


async def probe(database: Database, tenant_id: int, request: CandidateRequest, sample: Sample) -> Probe:
    """Search exactly and by the index; ``request``: the dense leg's, with the sample's filter and limit, approximate.

    A search that falls short is repeated exactly in operation, so its recall counts as 1.
    """
    async with database.snapshot(tenant_id) as connection:
        exact = await _search(connection, replace(request, path=Path.EXACT), sample)
        matches = await _count(connection, request)
        await database.set_locally(connection, settings(request))
        approximate = await _search(connection, request, sample)
    truth, scores = _scores(exact), _scores(approximate)
    return Probe(
        recall=1.0 if approximate.fell_short else recall_of(scores, truth),
        is_short=len(scores) < len(truth),
        matches=matches,
        effort=request.effort,
    )


def recall_of(scores: Sequence[float], exact: Sequence[float]) -> float:
    """The share of the exact scores that is among ``scores``, both best first; 1 if there are none."""
    if not exact:
        return 1.0
    good = sum(score >= exact[-1] - _TIE for score in scores)
    return min(good, len(exact)) / len(exact)


async def _search(connection: Connection, request: CandidateRequest, sample: Sample) -> LegResults:
    statement = bound(request, Query(vector=sample.vector))
    [answer] = await run_together(connection, [statement])
    return leg_results_of(answer.rows(), request)


def _scores(answer: LegResults) -> list[float]:
    return [candidate.score for candidate in answer.rankings[LegName.DENSE]]


async def _count(connection: Connection, request: CandidateRequest) -> int | None:
    if request.condition is None:
        return None
    keys = matching(request.collection_id, request.condition, request.filterable).subquery()
    statement = compiled(sa.select(sa.func.count()).select_from(keys))
    return int(await connection.value(statement.text.encode(), statement.parameters))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measured recall of an index, for searches whose filters match similar numbers of items."""

    bucket: str
    """The range of the number of matching items."""
    samples: int
    recall: float
    """The mean share of the true nearest items that the searches found, 0 to 1."""
    short_pages: int
    """The number of searches that found fewer items than exist."""
    effort: int
    """The least search effort (``hnsw.ef_search``) of the searches."""
    measured_at: datetime | None = None
    """None: it is not stored yet."""


_STORE = Compiled("""
    INSERT INTO recall_measurements (collection_id, space_id, bucket, samples, recall, short_pages, effort)
    VALUES (%(collection_id)s, %(space_id)s, %(bucket)s, %(samples)s, %(recall)s, %(short_pages)s, %(effort)s)
""")

_WORST = Compiled("""
    SELECT c.name, min(m.recall), sum(m.samples)::bigint, max(m.measured_at)
    FROM collections c JOIN recall_measurements m ON m.collection_id = c.collection_id AND m.space_id = c.space_id
    WHERE c.tenant_id = %(tenant_id)s AND m.measured_at = (
        SELECT max(l.measured_at) FROM recall_measurements l
        WHERE l.collection_id = m.collection_id AND l.space_id = m.space_id)
    GROUP BY c.name ORDER BY 2, 1 LIMIT %(limit)s
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionRecall:
    """The last recall measurement of one collection."""

    collection: str
    recall: float
    """The lowest recall of any kind of filter, 0 to 1."""
    samples: int
    measured_at: datetime


async def lowest_recalls(database: Database, tenant_id: int, limit: int) -> list[CollectionRecall]:
    """The tenant's ``limit`` collections with the lowest measured recall, the lowest first."""
    rows = await database.read(tenant_id, _WORST.bind(tenant_id=tenant_id, limit=limit))
    names = ("collection", "recall", "samples", "measured_at")
    return [CollectionRecall(**dict(zip(names, row, strict=True))) for row in rows]


async def store_measurements(at: CollectionPlace, space_id: int, measurements: Sequence[Measurement]) -> None:
    """Store the measurements of one run, with the same time."""
    of_index = _STORE.bind(collection_id=at.collection_id, space_id=space_id)
    rows = [{name: getattr(measurement, name) for name in Measurement.__slots__} for measurement in measurements]
    await at.database.write_each(at.tenant_id, [of_index.bind(**row) for row in rows])


MOST_EFFORT = 800
"""The greatest effort: beyond it, rebuilding the index helps more."""

_RAISE = Compiled("""
    UPDATE ann_indexes
    SET effort_10 = greatest(effort_10, least(%(most)s, ceil(effort_10 * 1.5)::integer)),
        effort_100 = greatest(effort_100, least(%(most)s, ceil(effort_100 * 1.5)::integer))
    WHERE collection_id = %(collection_id)s AND space_id = %(space_id)s
        AND (effort_10 < %(most)s OR effort_100 < %(most)s)
    RETURNING effort_10
""")
_GIVE_UP = Compiled("""
    UPDATE ann_indexes SET effort_10 = %(beyond)s, effort_100 = %(beyond)s, effort_200 = %(beyond)s
    WHERE collection_id = %(collection_id)s AND space_id = %(space_id)s
""")


async def give_up_index(at: CollectionPlace, space_id: int) -> None:
    """Let every search compare all vectors, because no effort gives this index enough recall."""
    await at.write(_GIVE_UP, space_id=space_id, beyond=BEYOND)


async def raise_effort(at: CollectionPlace, space_id: int) -> int | None:
    """Raise the effort of the index by half; returns the effort for ten results.

    None: there is no such index, or its effort is the greatest already.
    """
    rows = await at.write(_RAISE, space_id=space_id, most=MOST_EFFORT)
    return int(rows[0][0]) if rows else None
