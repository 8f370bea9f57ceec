"""What a search without hits says: which part of its filter lets nothing through, and what is near to it."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval import Platform
from retrieval.domain.errors import UnknownFieldError

ITEMS = [
    {"id": "1", "text": "boundary layer transition", "area": "aero", "year": 1958, "tags": ["wing"]},
    {"id": "2", "text": "heat transfer", "area": "aero", "year": 1960, "checked": True},
    {"id": "3", "text": "soup with potatoes", "area": "food", "year": 1990},
]

NOTHING = "the filter lets nothing through: no item has "


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"area": "areo"}, 'area = "areo"; did you mean "aero"?'),
        ({"area": ["AERO", "x"]}, 'area = "AERO" or "x"; did you mean "aero"?'),
        ({"area": "zebra"}, 'area = "zebra"; there are "aero", "food"'),
        ({"year": "1960"}, 'year = "1960"; its values are numbers, such as '),
        ({"year": 1961}, "year = 1961; its values are from 1958 to 1990"),
        ({"year": {"gte": 2000}}, "year \u2265 2000; its values are from 1958 to 1990"),
        ({"checked": "true"}, 'checked = "true"; its values are true or false, such as true'),
        ({"tags": "wings"}, 'tags = "wings"; did you mean "wing"?'),
        ({"kind": "note"}, 'kind = "note"'),
        ({"area": "aero", "year": 1961}, "year = 1961; its values are from 1958 to 1990"),
        (
            {"area": "food", "year": 1960},
            'area = "food" and year = 1960; without area = "food" or without year = 1960 ',
        ),
        ({"not": {"area": ["aero", "food"]}}, '{"not": {"area": {"in": ["aero", "food"]}}}'),
    ],
)
async def test_the_part_that_lets_nothing_through_is_told(
    platform: Platform, where: dict[str, Any], reason: str
) -> None:
    """With values that are near, or the type that its values have."""
    papers = await platform.collection("papers")
    await papers.add(ITEMS)
    [note] = (await papers.search("heat", where=where)).why_no_hits
    assert note.startswith(NOTHING + reason)


@pytest.mark.parametrize(
    ("where", "reason"),
    [({"year": []}, "year is to be one of an empty list"), ({"not": {}}, '"not" holds an empty filter')],
)
async def test_a_filter_that_no_item_can_pass_is_told_as_such(
    platform: Platform, where: dict[str, Any], reason: str
) -> None:
    """Not by how the platform reads it."""
    papers = await platform.collection("papers")
    await papers.add(ITEMS)
    [note] = (await papers.search("heat", where=where)).why_no_hits
    assert note.startswith(f"the filter lets nothing through: {reason}")


async def test_what_no_filter_is_to_blame_for_is_told_too(platform: Platform) -> None:
    """An empty collection, words that no item holds, a phrase, and a score that none reaches."""
    papers = await platform.collection("papers")
    assert (await papers.search("heat")).why_no_hits == ("the collection has no items yet",)
    await papers.add(ITEMS)
    assert (await papers.search("zebra", legs=["lexical"])).why_no_hits == (
        "the legs that ran found no item, or none scored high enough",
    )
    [note] = (await papers.search("zebra", legs=["lexical"], where={"area": "aero"})).why_no_hits
    assert note.startswith("items pass the filter, but the legs that ran found no item")
    assert (await papers.search('"heat soup"')).why_no_hits == (f'{NOTHING}the words "heat soup"',)


async def test_a_search_with_hits_says_nothing_and_costs_nothing_more(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a trial, which nobody reads."""
    papers = await platform.collection("papers")
    await papers.add(ITEMS)
    monkeypatch.delattr("retrieval.engine.no_hits.reasons")
    assert (await papers.search("heat", where={"area": "aero"})).why_no_hits == ()
    assert (await papers.unrecorded().search("heat", where={"area": "areo"})).why_no_hits == ()


async def test_a_declared_attribute_that_no_item_has_is_not_offered(platform: Platform) -> None:
    """It may be filtered by all the same."""
    papers = await platform.collection("papers", filterable={"yeast": "number", "year": "number"})
    await papers.add(ITEMS)
    with pytest.raises(UnknownFieldError, match="did you mean 'year'") as refused:
        await papers.search("heat", where={"yeas": 1960})
    assert "yeast" not in str(refused.value)
    [note] = (await papers.search("heat", where={"yeast": 1960})).why_no_hits
    assert note == f"{NOTHING}yeast = 1960"
