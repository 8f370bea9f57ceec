"""A write is split into calls that the database can take."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.adapters.store.items.items import CALL_CHARACTERS, ItemWrite
from retrieval.domain.items.item import Item

LONG = "x" * (CALL_CHARACTERS // 2)


@pytest.mark.parametrize("fields", [{"title": LONG}, {"body": LONG}, {"attributes": {"log": LONG}}])
def test_long_items_are_written_by_several_calls(fields: dict[str, Any]) -> None:
    """Whichever of their fields is long; all calls except the last one go on."""
    write = ItemWrite(1, [Item.as_stored(item_id=str(number), **fields) for number in range(5)])
    calls = write.calls()
    assert [int.from_bytes(call.parameters["ids"].data[12:16], "big") for call in calls] == [2, 2, 1]
    assert [call.parameters["goes_on"] for call in calls] == [True, True, False]
