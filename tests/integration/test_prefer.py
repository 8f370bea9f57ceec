"""Searches that prefer what a filter lets through, and leave nothing out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from retrieval import Collection, Platform, Profile
from retrieval.domain.errors import InvalidRequestError, UnknownFieldError

MAY = {"occurred_at": {"gte": datetime(2026, 5, 1, tzinfo=UTC), "lt": datetime(2026, 6, 1, tzinfo=UTC)}}


@pytest.fixture
async def notes(platform: Platform) -> Collection:
    """Twelve notes of one year, a month each, of which the later ones speak more of the pool."""
    collection = await platform.collection("notes", profile=Profile())
    await collection.add(
        [
            {
                "_id": f"n{month:02}",
                "text": "lobby " * (12 - month) + "pool " * month,
                "occurred_at": datetime(2026, month, 15, tzinfo=UTC).isoformat(),
            }
            for month in range(1, 13)
        ]
    )
    return collection


async def test_what_is_preferred_ranks_higher_and_nothing_is_left_out(notes: Collection) -> None:
    """May's note becomes the first; the others keep their order behind it."""
    plain = [hit.item_id for hit in await notes.search("pool", limit=12)]
    preferring = [hit.item_id for hit in await notes.search("pool", limit=12, prefer=MAY)]
    assert plain[0] != "n05"
    assert preferring == ["n05", *(item_id for item_id in plain if item_id != "n05")]


async def test_the_explanation_shows_what_preference_adds(notes: Collection) -> None:
    """A ranking of each leg within what is preferred, for each wording, and the parts add up."""
    found = await notes.search("pool", prefer=MAY, rewrites=["lobby"])
    parts = {part.leg: part.value for part in found[0].explanation.contributions}
    assert found[0].item_id == "n05"
    assert {"dense", "lexical:preferred", "dense:preferred", "lexical:1:preferred", "dense:1:preferred"} <= set(parts)
    assert parts["lexical:preferred"] == pytest.approx(1 / 61)
    assert found[0].score == pytest.approx(sum(parts.values()))


async def test_a_filter_holds_for_what_is_preferred_too(notes: Collection) -> None:
    """Preference adds nothing that the filter leaves out."""
    found = await notes.search("pool", where={"item_id": ["n01", "n02"]}, prefer=MAY)
    assert {hit.item_id for hit in found} == {"n01", "n02"}


async def test_one_leg_with_a_preference_is_fused(notes: Collection) -> None:
    """The leg's ranking and its ranking of what is preferred."""
    found = await notes.search("pool", prefer=MAY, legs=["lexical"], limit=3)
    assert found[0].item_id == "n05"
    assert found[0].explanation.fusion == "rrf"
    assert [part.leg for part in found[1].explanation.contributions] == ["lexical"]


async def test_a_preference_for_an_unknown_field_is_an_error(notes: Collection) -> None:
    """As in a filter."""
    with pytest.raises(UnknownFieldError, match="moth"):
        await notes.search("pool", prefer={"moth": 5})


async def test_it_is_recorded_and_can_be_replayed(platform: Platform, notes: Collection) -> None:
    """The record holds what was preferred, and today's answer is the same."""
    found = await notes.search("pool", prefer=MAY, limit=5)
    assert found.retrieval_id is not None
    replayed = await platform.replay(found.retrieval_id)
    assert replayed.is_reproduced
    assert replayed.is_same_today


async def test_of_several_preferences_the_first_counts_most(platform: Platform, notes: Collection) -> None:
    """The second's rankings weigh half of what the first's do; the record holds both, and can be replayed."""
    june = {"occurred_at": {"gte": datetime(2026, 6, 1, tzinfo=UTC), "lt": datetime(2026, 7, 1, tzinfo=UTC)}}
    found = await notes.search("pool", limit=12, prefer=[MAY, june])
    assert [hit.item_id for hit in found[:2]] == ["n05", "n06"]
    assert len(found) == 12
    second = {part.leg: part for part in found[1].explanation.contributions}
    assert second["lexical:preferred:2"].weight == 0.5
    assert second["lexical:preferred:2"].value == pytest.approx(0.5 / 61)
    assert found[1].score == pytest.approx(sum(part.value for part in second.values()))
    assert [hit.item_id for hit in await notes.search("pool", limit=2, prefer=[june, MAY])] == ["n06", "n05"]
    assert found.retrieval_id is not None
    replayed = await platform.replay(found.retrieval_id)
    assert replayed.is_reproduced
    assert replayed.is_same_today


@pytest.mark.parametrize("prefer", [[], [{}], [None], None])
async def test_preferring_nothing_changes_nothing(notes: Collection, prefer: Any) -> None:
    """The explanation has the legs alone."""
    found = await notes.search("pool", prefer=prefer)
    assert {part.leg for part in found[0].explanation.contributions} <= {"dense", "lexical"}


async def test_a_preference_that_is_given_twice_counts_once(notes: Collection) -> None:
    """Where it stands first."""
    once, twice = [await notes.search("pool", prefer=[MAY] * number) for number in (1, 2)]
    assert once.hits == twice.hits


@pytest.mark.parametrize(
    ("prefer", "why"), [([MAY] * 5, "at most 4"), (["May"], "must be a mapping"), ("May", "must be")]
)
async def test_preferences_that_cannot_be_are_refused(notes: Collection, prefer: Any, why: str) -> None:
    """The error says what to give."""
    with pytest.raises(InvalidRequestError, match=why):
        await notes.search("pool", prefer=prefer)
