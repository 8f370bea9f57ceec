"""The order in which items were stored, the latest first: what tells those apart that a leg ranks alike."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.candidate_request import CandidateRequest
from retrieval.adapters.store.statement_parts import literal
from retrieval.adapters.store.tables import items

WALKED_AT_MOST = 10_000
"""Items of that order that a search looks at, where no filter says how many may be few."""

Part = sa.Select[Any]


def latest_stored(request: CandidateRequest, *columns: sa.ColumnElement[Any]) -> Part:
    """Rows of (item_id, those columns of ``items``) of the items that are not archived, the latest stored first."""
    return (
        sa.select(items.c.item_id, *columns)
        .where(
            items.c.collection_id == literal(request.collection_id),
            items.c.status != sa.literal_column("'archived'"),
        )
        .order_by(items.c.created_at.desc(), items.c.item_id)
    )


def stored_item(request: CandidateRequest, item_id: sa.ColumnElement[str], *columns: sa.ColumnElement[Any]) -> Part:
    """One row of those columns of ``items``, looked up by the item's key; none where it is archived."""
    return (
        sa.select(*columns)
        .where(
            items.c.collection_id == literal(request.collection_id),
            items.c.item_id == item_id,
            items.c.status != sa.literal_column("'archived'"),
        )
        .limit(1)
    )
