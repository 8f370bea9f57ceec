"""Which items a filter lets through, by the indexes that there are for it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.conditions import condition
from retrieval.adapters.store.tables import items
from retrieval.domain.attribute import Filterable
from retrieval.domain.filters import Filter


def matching(collection_id: int, wanted: Filter, filterable: Filterable = ()) -> sa.Select[Any]:
    """The keys (``item_id``) of the matching items, each once; ``filterable`` are the attributes with an index.

    The collection's number stands in the text: the planner's idea of its size needs it.
    """
    owner = sa.literal_column(str(int(collection_id)), sa.BigInteger)
    return sa.select(items.c.item_id).where(items.c.collection_id == owner, condition(wanted, collection_id))
