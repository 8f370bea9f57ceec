"""One sampled search twice, through the index and by comparing everything, in one snapshot.

Nothing is prepared, so each statement is planned for its own settings: a kept plan would answer the exact search with
the index's rows, and the recall would look perfect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlalchemy as sa
from pgvector import HalfVector

from retrieval.adapters.store.candidates import CandidateRequest, candidates_statement, search_settings
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.database import Connection, Database, Row
from retrieval.adapters.store.matching import matching
from retrieval.adapters.store.samples import Sample
from retrieval.domain.hit import Path

_TIE = 1e-6
"""Scores that differ by less are equal: which of two equal items is found does not matter."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What the index found of one sample's truth."""

    recall: float
    """0 to 1."""
    is_short: bool
    """Whether there were more items than the index found."""
    matches: int | None
    """Items that the filter lets through; None without a filter."""
    effort: int


async def probe(database: Database, tenant_id: int, request: CandidateRequest, sample: Sample) -> Probe:
    """Ask both ways; ``request`` is the dense leg's, for the sample's filter and limit, on the approximate path."""
    async with database.snapshot(tenant_id) as connection:
        exact = await _scores(connection, replace(request, path=Path.EXACT), sample)
        matches = await _count(connection, request)
        settings = search_settings(request)
        for name, value in settings.items():
            await connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        found = await _scores(connection, request, sample)
    effort = int(settings.get("hnsw.ef_search", "0"))
    return Probe(recall_of(found, exact), len(found) < len(exact), matches, effort)


def recall_of(found: list[float], exact: list[float]) -> float:
    """The share of the true best that was found, by their scores, best first; 1 where there is nothing to find."""
    if not exact:
        return 1.0
    good = sum(score >= exact[-1] - _TIE for score in found)
    return min(good, len(exact)) / len(exact)


async def _scores(connection: Connection, request: CandidateRequest, sample: Sample) -> list[float]:
    # Every search's parameters are bound; the dense leg uses its vector.
    statement = candidates_statement(request).bind(query="", budget=request.depth, vector=HalfVector(sample.vector))
    rows: list[Row] = await (
        await connection.execute(statement.text.encode(), statement.parameters, binary=True)
    ).fetchall()
    return sorted((float(row[2]) for row in rows), reverse=True)


async def _count(connection: Connection, request: CandidateRequest) -> int | None:
    if request.condition is None:
        return None
    keys = matching(request.collection_id, request.condition).subquery()
    statement = compiled(sa.select(sa.func.count()).select_from(keys))
    row = await (await connection.execute(statement.text.encode(), statement.parameters)).fetchone()
    return 0 if row is None else int(row[0])
