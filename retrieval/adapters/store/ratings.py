"""What the verdicts on an item make of it, in all contexts: ``retrieval.domain.arm.rate`` in SQL."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.tables import arms
from retrieval.domain.context import ANYWHERE

UNRATED = sa.literal_column("0.5", sa.Double)
"""The rating of an item without verdicts."""


def rating(table: sa.FromClause) -> sa.ColumnElement[Any]:
    """(raw_successes + 1) / (uses + 2) of a row of ``arms``, in the words of its index (``arms_by_rating_idx``)."""
    successes = sa.cast(table.c.raw_successes + sa.literal_column("1"), sa.Double)
    return successes / sa.cast(table.c.uses + sa.literal_column("2"), sa.Double)


def anywhere(collection_id: int, table: sa.FromClause = arms) -> sa.ColumnElement[bool]:
    """Whether a row of ``arms`` is of the collection, and of all contexts together."""
    owner = sa.literal_column(str(int(collection_id)), sa.BigInteger)
    return sa.and_(table.c.collection_id == owner, table.c.context == sa.literal_column(f"'{ANYWHERE}'"))
