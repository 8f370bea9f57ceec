"""One sampled search twice, through the index and by comparing everything, in one snapshot.

Nothing is prepared, so each statement is planned for its own settings: a kept plan would answer the exact search with
the index's rows, and the recall would look perfect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sqlalchemy as sa

from retrieval.adapters.store.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.candidates import Found, bound, found, settings
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.matching import matching
from retrieval.adapters.store.samples import Sample
from retrieval.domain.hit import Path
from retrieval.domain.profile import LegName

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
    """Ask both ways; ``request`` is the dense leg's, for the sample's filter and limit, on the approximate path.

    A search of which the index brings too little is answered exactly in the end, and so counts as found.
    """
    async with database.snapshot(tenant_id) as connection:
        exact = await _ask(connection, replace(request, path=Path.EXACT), sample)
        matches = await _count(connection, request)
        for name, value in settings(request).items():
            await connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        walked = await _ask(connection, request, sample)
    truth, scores = _scores(exact), _scores(walked)
    return Probe(
        recall=1.0 if walked.fell_short else recall_of(scores, truth),
        is_short=len(scores) < len(truth),
        matches=matches,
        effort=request.effort,
    )


def recall_of(found: list[float], exact: list[float]) -> float:
    """The share of the true best that was found, by their scores, best first; 1 where there is nothing to find."""
    if not exact:
        return 1.0
    good = sum(score >= exact[-1] - _TIE for score in found)
    return min(good, len(exact)) / len(exact)


async def _ask(connection: Connection, request: CandidateRequest, sample: Sample) -> Found:
    statement = bound(request, Query(vector=sample.vector))
    cursor = await connection.execute(statement.text.encode(), statement.parameters, binary=True)
    return found(await cursor.fetchall(), request)


def _scores(answer: Found) -> list[float]:
    return [one.score for one in answer.rankings[LegName.DENSE]]


async def _count(connection: Connection, request: CandidateRequest) -> int | None:
    if request.condition is None:
        return None
    keys = matching(request.collection_id, request.condition, request.filterable).subquery()
    statement = compiled(sa.select(sa.func.count()).select_from(keys))
    row = await (await connection.execute(statement.text.encode(), statement.parameters)).fetchone()
    return 0 if row is None else int(row[0])
