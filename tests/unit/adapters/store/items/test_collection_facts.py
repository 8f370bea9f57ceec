"""The statements that count items by their values."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from retrieval.adapters.store.items.collection_facts import facet_counts, value_counts
from retrieval.domain.search.filters import parse_field
from tests.support.facts import collection


@pytest.mark.parametrize("field", ["colour", "tags", "kind"])
async def test_equal_counts_have_one_order_in_every_database(field: str) -> None:
    """A database sorts texts by the alphabet that it was made with."""
    database = AsyncMock(read=AsyncMock(return_value=[]), read_each=AsyncMock(return_value=[]))
    counted, stored = parse_field(field), collection()
    await value_counts(database, 1, stored, counted, None)
    await facet_counts(database, 1, stored, [counted], None)

    for statement in (database.read.await_args.args[1], database.read_each.await_args.args[1][0]):
        assert 'value COLLATE "C"' in statement.text.partition("ORDER BY")[2]
