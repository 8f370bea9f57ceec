"""The hits of a page: the best of each group, few near-duplicates; and the reason on a page without hits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from retrieval import Collection, EmbeddingSpace, Platform
from retrieval.domain.errors import UnknownFieldError
from retrieval.domain.search.diversity import Diversity
from retrieval.domain.search.profile import Profile

SPACE = EmbeddingSpace(provider="test", model="groups", dimensions=3)
DENSE = {"dense": 1.0}
NORTH = [1.0, 0.0, 0.0]


def _at(*angles: float) -> NDArray[np.float64]:
    """Unit vectors at these angles in degrees from the query, shape (n, 3)."""
    radians = np.deg2rad(angles)
    return np.stack([np.cos(radians), np.sin(radians), np.zeros(len(angles))], axis=1)


@pytest.fixture
async def conversations(platform: Platform) -> Collection:
    """500 turns of one conversation nearest to the query, then twelve conversations of two turns, and two loners."""
    collection = await platform.collection("turns", space=SPACE)
    large = [{"_id": f"a{number:03}", "text": "word", "talk": "large"} for number in range(500)]
    small = [{"_id": f"b{number:03}", "text": "word", "talk": f"talk{number // 2:02}"} for number in range(24)]
    loners = [{"_id": f"c{number}", "text": "word"} for number in range(2)]
    angles = [*np.linspace(0.1, 20, 500), *range(30, 54), 60, 61]
    await collection.add([*large, *small, *loners], embeddings=_at(*angles))
    return collection


async def test_each_group_has_its_best_hit_and_the_page_is_full(conversations: Collection) -> None:
    """Although the nearest 500 items are of one group; an item without a group is one of its own."""
    hits = await conversations.search(vector=NORTH, legs=["dense"], group_by="talk", limit=10)
    assert [hit.item_id for hit in hits] == ["a000", *(f"b{number:03}" for number in range(0, 18, 2))]
    assert [hit.rank for hit in hits] == list(range(1, 11))
    every = await conversations.search(vector=NORTH, legs=["dense"], group_by="talk", limit=100)
    assert [hit.item_id for hit in every] == ["a000", *(f"b{number:03}" for number in range(0, 24, 2)), "c0", "c1"]


async def test_groups_of_a_fused_and_filtered_search(conversations: Collection) -> None:
    """Both legs run, and all hits match the filter."""
    hits = await conversations.search("word", vector=NORTH, group_by="talk", where={"talk": {"ne": "large"}}, limit=5)
    assert len(hits) == 5
    assert len({hit.attributes.get("talk", hit.item_id) for hit in hits}) == 5
    assert "large" not in {hit.attributes.get("talk") for hit in hits}


async def test_fields_of_every_item_are_groups_too(platform: Platform) -> None:
    """An item with an empty field lacks it, and is a group by itself."""
    notes = await platform.collection("notes", space=SPACE)
    full = {"text": "word", "kind": "note", "source": "desk", "tags": ["x"]}
    await notes.add(
        [{"_id": "a", **full}, {"_id": "b", **full}, {"_id": "c", "text": "word"}, {"_id": "d", "text": "word"}]
    )
    for field in ("kind", "source", "tags"):
        assert [hit.item_id for hit in await notes.search("word", group_by=field)] == ["a", "c", "d"]
    assert len(await notes.search("word", group_by="status")) == 1


async def test_a_group_of_thousands_does_not_make_the_page_short(platform: Platform) -> None:
    """The legs go as deep as it takes."""
    collection = await platform.collection("turns", space=SPACE)
    items = [{"_id": f"{number:04}", "talk": "large" if number < 1500 else f"t{number}"} for number in range(1506)]
    await collection.add(items, embeddings=_at(*np.linspace(0.01, 80, 1506)))
    hits = await collection.search(vector=NORTH, legs=["dense"], group_by="talk", limit=5)
    assert [hit.item_id for hit in hits] == ["0000", "1500", "1501", "1502", "1503"]


async def test_grouping_by_a_field_that_no_item_has_is_an_error(conversations: Collection) -> None:
    """With the nearest one there is."""
    with pytest.raises(UnknownFieldError, match="no item has a field 'talks'; did you mean 'talk'"):
        await conversations.search("word", group_by="talks")


@pytest.fixture
async def copies(platform: Platform) -> Collection:
    """Five texts far apart, each thirty times with hardly a difference."""
    collection = await platform.collection("copies", space=SPACE)
    items = [{"_id": f"{text}{copy:02}"} for text in "abcde" for copy in range(30)]
    angles = [20 * place + copy / 100 for place in range(5) for copy in range(30)]
    await collection.add(items, embeddings=_at(*angles))
    return collection


async def test_near_duplicates_of_a_better_hit_are_left_out(copies: Collection) -> None:
    """One hit represents its thirty copies, and other items fill the page."""
    profile = Profile(legs=DENSE, diversity=Diversity(collapse_above=0.999))
    hits = await copies.search(vector=NORTH, profile=profile, limit=5)
    assert [hit.item_id for hit in hits] == ["a00", "b00", "c00", "d00", "e00"]
    assert len(await copies.search(vector=NORTH, profile=profile, limit=20)) == 5
    assert len(await copies.search(vector=NORTH, profile=Profile(legs=DENSE), limit=20)) == 20


@pytest.mark.parametrize("group_by", [None, "item_id"])
async def test_no_page_has_a_near_duplicate_of_a_page_before(copies: Collection, group_by: str | None) -> None:
    """A page chooses again among more candidates, but against what was shown."""
    profile = Profile(legs=DENSE, diversity=Diversity(collapse_above=0.999, relevance_share=0.3))
    shown, after = [], ""
    for _ in range(4):
        page = await copies.search(vector=NORTH, profile=profile, limit=2, after=after, group_by=group_by)
        shown += [hit.item_id[0] for hit in page]
        if page.next is None:
            break
        after = page.next
    assert sorted(shown) == list("abcde")


async def test_alike_hits_are_pushed_down_by_the_formula(platform: Platform) -> None:
    """λ = .5, at 0°, 10°, 40° and 60° on alternate sides; the comment has the calculation."""
    collection = await platform.collection("mmr", space=SPACE)
    await collection.add([{"_id": name} for name in "abcd"], embeddings=_at(0, 10, 40, -60))
    # Relevance between the lowest cosine (.5) and the highest (1): a 1, b .970, c .532, d 0.
    # After a, less the cosine to it: b .970 − .985 = −.015, c .532 − .766 = −.234, d 0 − .5 = −.5: b.
    # After b, less the greater cosine to a and b: c .532 − .866 = −.334, d 0 − .5 = −.5: c.
    plain = await collection.search(vector=NORTH, profile=Profile(legs=DENSE), limit=4)
    assert [hit.item_id for hit in plain] == ["a", "b", "c", "d"]
    half = Profile(legs=DENSE, diversity=Diversity(relevance_share=0.5))
    assert [hit.item_id for hit in await collection.search(vector=NORTH, profile=half, limit=4)] == list("abcd")
    # λ = .3: after a, .3 × relevance − .7 × cosine: b .291 − .689 = −.398, c .160 − .536 = −.377, d 0 − .35 = −.35: d.
    # After d: b .291 − .7 × .985 = −.398, c .160 − .7 × .766 = −.377: c.
    third = Profile(legs=DENSE, diversity=Diversity(relevance_share=0.3))
    hits = await collection.search(vector=NORTH, profile=third, limit=4)
    assert [hit.item_id for hit in hits] == ["a", "d", "c", "b"]
    assert hits[1].score == pytest.approx(0.5, abs=1e-3)


async def test_a_stored_profile_diversifies_too(copies: Collection) -> None:
    """As a profile of the call does."""
    await copies.set_profile(Profile(legs=DENSE, diversity=Diversity(collapse_above=0.999)))
    assert len({hit.item_id[0] for hit in await copies.search(vector=NORTH, limit=5)}) == 5


ITEMS = [
    {
        "id": "1",
        "text": "boundary layer transition",
        "area": "aero",
        "year": 1958,
        "tags": ["wing"],
        "size": 3,
        "a b": "x",
        "of": ["c d"],
    },
    {"id": "2", "text": "heat transfer", "area": "aero", "year": 1960, "checked": True, "size": [1, "x"]},
    {"id": "3", "text": "soup with potatoes", "area": "food", "year": 1990, "size": {"least": 2}},
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
        ({"size": 99}, "size = 99; its values are from 1 to 3"),
        ({"checked": "true"}, 'checked = "true"; its values are true or false'),
        ({"tags": "wings"}, 'tags = "wings"; did you mean "wing"?'),
        ({"kind": "note"}, 'kind = "note"'),
        ({"a b": "y z"}, '"a b" = "y z"; there are "x"'),
        ({"of": "zebra"}, 'of = "zebra"; there are "c d"'),
        ({"area": "aero", "year": 1961}, "year = 1961; its values are from 1958 to 1990"),
        (
            {"area": "food", "year": 1960},
            'area = "food" and year = 1960; without area = "food" or without year = 1960 ',
        ),
        ({"not": {"area": ["aero", "food"]}}, '{"not": {"area": {"in": ["aero", "food"]}}}'),
    ],
)
async def test_the_part_of_a_filter_that_no_item_passes_is_named(
    platform: Platform, where: dict[str, Any], reason: str
) -> None:
    """With values that are near, or the type that its values have."""
    papers = await platform.collection("papers")
    await papers.add(ITEMS)
    [note] = (await papers.search("heat", where=where)).why_no_hits
    assert note.startswith(NOTHING + reason)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"year": []}, "year is to be one of an empty list"),
        ({"not": {}}, '"not" has an empty filter'),
        ({"or": []}, '"or" has an empty list'),
    ],
)
async def test_a_filter_that_no_item_can_pass_is_explained(
    platform: Platform, where: dict[str, Any], reason: str
) -> None:
    """Not by how the platform reads it."""
    papers = await platform.collection("papers")
    await papers.add(ITEMS)
    [note] = (await papers.search("heat", where=where)).why_no_hits
    assert note.startswith(f"the filter lets nothing through: {reason}")


async def test_empty_answers_without_a_filter_are_explained(platform: Platform) -> None:
    """An empty collection, words that no item holds, a phrase, and a score that none reaches."""
    papers = await platform.collection("papers")
    assert (await papers.search("heat")).why_no_hits == ("the collection has no items yet",)
    await papers.add(ITEMS)
    assert (await papers.search("zebra", legs=["lexical"])).why_no_hits == (
        "no item has a word of the query, apart from stop words; to find misspelt words, search with typos",
    )
    assert (await papers.search("zebra", legs=["lexical"])).notes == ()
    assert (await papers.search("zebra", legs=["lexical"], syntax=False)).why_no_hits == (
        "the legs that ran found no item, or none scored high enough",
    )
    [note] = (await papers.search("zebra", legs=["lexical"], where={"area": "aero"})).why_no_hits
    assert note.startswith("items pass the filter, but the legs that ran found no item")
    assert (await papers.search('"heat soup"')).why_no_hits == ('no item has the words "heat soup"',)


async def test_a_filter_that_only_archived_items_pass_is_explained(platform: Platform) -> None:
    """Searches find no archived item; that no leg found one would be no explanation."""
    papers = await platform.collection("papers")
    await papers.add([*ITEMS, {"_id": "old", "text": "heat of old", "status": "archived"}])
    [note] = (await papers.search("heat", where={"status": "archived"})).why_no_hits
    assert note.startswith("only archived items pass the filter")


async def test_each_of_many_queries_without_hits_says_why(platform: Platform) -> None:
    """As the filter that they share explains it, and as a least score of their own."""
    papers = await platform.collection("papers")
    await papers.add(ITEMS)
    queries = ["heat", "soup"]
    assert [result.why_no_hits for result in await papers.search_each(queries)] == [(), ()]
    [first_reasons, second_reasons] = [
        result.why_no_hits for result in await papers.search_each(queries, where={"area": "areo"})
    ]
    assert first_reasons == second_reasons == (f'{NOTHING}area = "areo"; did you mean "aero"?',)
    [(first,), (second,)] = [result.why_no_hits for result in await papers.search_each(queries, min_score=9)]
    assert "score 9" in first
    assert "score 9" in second


async def test_many_queries_say_what_each_of_them_alone_would_say(platform: Platform) -> None:
    """Also about phrases and words, which each query has for itself."""
    papers = await platform.collection("papers")
    await papers.add(ITEMS)
    queries = ['"heat soup"', "zebra", '"soup heat"', "heat"]
    results = await papers.search_each(queries, legs=["lexical"])
    alone = [await papers.search(query, legs=["lexical"]) for query in queries]
    assert [result.why_no_hits for result in results] == [result.why_no_hits for result in alone]
    assert len({result.why_no_hits for result in results}) == len(queries)


async def test_a_search_with_hits_says_nothing_and_costs_nothing_more(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unrecorded trial says nothing either."""
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
