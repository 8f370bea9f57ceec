"""The leg of the latest items, by when they happened; items without such a time are not among them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.candidate_request import CandidateRequest
from retrieval.adapters.store.ordered_leg import Order, ordered_leg
from retrieval.adapters.store.statement_parts import Matches, literal
from retrieval.adapters.store.tables import items

Part = sa.Select[Any]


def recent_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('recent', item_id, seconds since 1970)."""
    table = items.alias("latest")
    rows = _timed(request, table).with_only_columns(table.c.item_id, _seconds(table))
    walk = rows.order_by(table.c.occurred_at.desc(), table.c.item_id.desc())

    def score_of(item_id: sa.ColumnElement[str]) -> Part:
        one = items.alias("one_of_few")
        return _timed(request, one).where(one.c.item_id == item_id).with_only_columns(_seconds(one))

    return ordered_leg(request, matches, Order("recent", walk, score_of))


def _timed(request: CandidateRequest, table: sa.FromClause) -> Part:
    return sa.select(table.c.item_id).where(
        table.c.collection_id == literal(request.collection_id), table.c.occurred_at.is_not(None)
    )


def _seconds(table: sa.FromClause) -> sa.Label[float]:
    # No index has the order of this expression: the few that match are sorted, not searched for in an index.
    return sa.extract("epoch", table.c.occurred_at).cast(sa.Double).label("score")
