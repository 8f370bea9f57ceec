"""Statements that filters of one shape share: each filter has its own values in its own places."""

from __future__ import annotations

from retrieval import Platform
from retrieval.domain.filters import And, Field, OneOf, Or

KIND, SOURCE, STATUS = (Field(name, is_attribute=False) for name in ("kind", "source", "status"))


async def test_a_filter_object_that_stands_at_two_places_spoils_no_other_filter(platform: Platform) -> None:
    """The first filter of a shape holds one object twice; the next one of that shape finds what it says."""
    collection = await platform.collection("docs")
    rows = [("A", "x", "u"), ("B", "x", "u"), ("A", "s1", "t1"), ("B", "s1", "t1")]
    await collection.add(
        [{"_id": str(n), "text": "disk", "kind": k, "source": s, "status": t} for n, (k, s, t) in enumerate(rows)]
    )
    twice = OneOf(KIND, ("none",))
    first = And((Or((twice, OneOf(SOURCE, ("s1",)))), Or((twice, OneOf(STATUS, ("t1",))))))
    second = And(
        (Or((OneOf(KIND, ("A",)), OneOf(SOURCE, ("none",)))), Or((OneOf(KIND, ("B",)), OneOf(STATUS, ("u",)))))
    )
    assert {hit.item_id for hit in await collection.search("disk", where=first)} == {"2", "3"}
    assert {hit.item_id for hit in await collection.search("disk", where=second)} == {"0"}
