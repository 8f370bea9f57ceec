"""The legs of the memories that were retrieved most, and of those with the highest base relevance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.candidate_request import CandidateRequest
from retrieval.adapters.store.ordered_leg import MOST_OF_ONE, Order, ordered_leg, share_of_time
from retrieval.adapters.store.statement_parts import Matches, literal, parameter
from retrieval.adapters.store.tables import memories

_LITTLE = "0.0001"
"""So much of a base relevance is the time's at the most: a decade is a ten-millionth."""

Part = sa.Select[Any]
Score = Callable[[sa.FromClause], sa.ColumnElement[Any]]


def popular_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('popular', item_id, accesses and a fraction that the later of equals has more of)."""
    walked = memories.alias("most_used")
    walk = _walk(request, walked, _accesses).where(walked.c.accesses > sa.literal_column("0"))
    ordered = walk.order_by(walked.c.accesses.desc(), walked.c.happened_at.desc(), walked.c.item_id)
    only = memories.c.accesses > sa.literal_column("0")
    return ordered_leg(request, matches, Order("popular", ordered, _looked_up(request, _accesses, only)))


def relevant_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('relevant', item_id, base relevance and up to .0001 that the later of equals has more of)."""
    walked = memories.alias("most_relevant")
    walk = _walk(request, walked, _relevance)
    ordered = walk.order_by(walked.c.base_relevance.desc(), walked.c.happened_at.desc(), walked.c.item_id)
    return ordered_leg(request, matches, Order("relevant", ordered, _looked_up(request, _relevance)))


def _is_unexpired(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether the memory is still good by the clock; without a moment all are."""
    now = parameter("now", sa.DateTime(timezone=True))
    return sa.or_(now.is_(None), table.c.expires_at.is_(None), table.c.expires_at > now)


def _walk(request: CandidateRequest, table: sa.FromClause, score: Score) -> Part:
    rows = sa.select(table.c.item_id, score(table).label("score"))
    return rows.where(table.c.collection_id == literal(request.collection_id), _is_unexpired(table))


def _looked_up(
    request: CandidateRequest, score: Score, *only: sa.ColumnElement[bool]
) -> Callable[[sa.ColumnElement[str]], Part]:
    def score_of(item_id: sa.ColumnElement[str]) -> Part:
        mine = memories.c.collection_id == literal(request.collection_id), memories.c.item_id == item_id
        return sa.select(score(memories).label("score")).where(*mine, _is_unexpired(memories), *only)

    return score_of


def _accesses(table: sa.FromClause) -> sa.ColumnElement[Any]:
    share = share_of_time(table.c.happened_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    return table.c.accesses.cast(sa.Double) + share


def _relevance(table: sa.FromClause) -> sa.ColumnElement[Any]:
    return table.c.base_relevance + share_of_time(table.c.happened_at) * sa.literal_column(_LITTLE, sa.Double)
