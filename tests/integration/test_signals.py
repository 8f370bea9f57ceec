"""Searches whose score is a sum of signals, and searches by several wordings of one question."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from psycopg import sql

from retrieval import Collection, Platform, SearchResult
from retrieval.domain.errors import EmptyQueryError, InvalidRequestError
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.signals import (
    BaseRelevance,
    KeywordOverlap,
    Priority,
    Rating,
    Recency,
    TagMatch,
    VectorSimilarity,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
UNION = Fusion(kind=FusionKind.UNION)
SIGNALS = (Recency(weight=0.3), KeywordOverlap(weight=0.4), Priority(weight=0.1), VectorSimilarity(weight=0.2))
PROFILE = Profile(fusion=UNION, signals=SIGNALS)


@pytest.fixture
async def notes(platform: Platform) -> Collection:
    """Thirty notes, one a day, the first the latest, by turns of four priorities."""
    collection = await platform.collection("notes")
    priorities = ("Critical", "High", "Medium", "Low")
    await collection.add(
        [
            {
                "_id": f"n{day:02}",
                "text": f"{'pool timeout' if day % 3 else 'pool'} seen again {'in the lobby' if day % 2 else ''}",
                "priority": priorities[day % 4],
                "floor": day % 3,
                "occurred_at": (NOW - timedelta(days=day)).isoformat(),
            }
            for day in range(30)
        ]
    )
    return collection


async def _asked(notes: Collection, profile: Profile = PROFILE, limit: int = 30) -> SearchResult:
    return await notes.search("pool timeout lobby", profile=profile, limit=limit, as_of=NOW)


async def test_the_score_is_the_sum_of_the_signals(notes: Collection) -> None:
    """Weight × value of each, which the explanation shows beside the legs that brought the hit, weighing nothing."""
    found = await _asked(notes)
    assert len(found) == 30
    for hit in found:
        parts = {part.leg: part for part in hit.explanation.contributions}
        assert set(parts) <= {"recency", "keyword", "priority", "vector_similarity", "dense", "lexical"}
        assert parts["lexical"].value == parts["lexical"].weight == 0
        assert parts["recency"].raw_score == pytest.approx(np.exp(-int(hit.item_id[1:]) / 14))
        assert parts["vector_similarity"].raw_score == pytest.approx(parts["dense"].raw_score)
        signals = [parts[signal.name] for signal in SIGNALS]
        assert hit.score == pytest.approx(sum(part.weight * part.raw_score for part in signals))
        assert hit.score == pytest.approx(hit.explanation.score)
        assert hit.explanation.fusion == "union"
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


async def test_hits_below_the_least_score_are_left_out(notes: Collection) -> None:
    """The page may be short, and nothing else changes."""
    every = await _asked(notes)
    least = every[9].score
    some = await _asked(notes, Profile(fusion=UNION, signals=SIGNALS, min_score=least))
    assert [hit.item_id for hit in some] == [hit.item_id for hit in every[:10]]


async def test_the_best_of_each_group_by_signals(notes: Collection) -> None:
    """Grouped by an attribute, each hit with its texts."""
    every = await _asked(notes)
    found = await notes.search("pool timeout lobby", profile=PROFILE, as_of=NOW, group_by="floor")
    best = [next(hit for hit in every if hit.attributes["floor"] == floor) for floor in (0, 1, 2)]
    assert {hit.item_id for hit in found} == {hit.item_id for hit in best}
    assert all("pool" in hit.body for hit in found)


async def test_what_memories_say_counts_and_expired_ones_are_no_candidates(
    notes: Collection, platform: Platform
) -> None:
    """Base relevance comes from their table; an item without a row there has 1. Expired is by the clock."""
    statement = sql.SQL(
        "INSERT INTO memories (collection_id, item_id, happened_at, base_relevance, expires_at) "
        "SELECT collection_id, item_id, now(), 0.5, CASE item_id WHEN 'n01' THEN {}::timestamptz END "
        "FROM items WHERE item_id IN ('n01', 'n02')"
    ).format(sql.Literal(platform.now.isoformat()))
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(statement)
    profile = Profile(fusion=UNION, signals=(BaseRelevance(weight=1),))
    scores = {hit.item_id: hit.score for hit in await _asked(notes, profile)}
    assert (scores["n00"], scores["n02"], "n01" in scores) == (1.0, 0.5, False)
    before = await notes.search("pool", profile=profile, limit=30, as_of=platform.now - timedelta(days=1))
    assert "n01" not in {hit.item_id for hit in before}


async def test_similarity_counts_whatever_leg_brought_the_candidate(notes: Collection) -> None:
    """Without a dense leg the query is embedded all the same."""
    profile = Profile(legs={"lexical": 1}, fusion=UNION, signals=(VectorSimilarity(weight=1),))
    found = await notes.search("pool timeout lobby", profile=profile, limit=30)
    by_dense = {hit.item_id: hit.score for hit in await notes.search("pool timeout lobby", legs=["dense"], limit=30)}
    assert found[0].score > 0.5
    assert all(hit.score == pytest.approx(max(0.0, by_dense[hit.item_id])) for hit in found)
    assert not found.notes


async def test_other_wordings_bring_what_the_query_does_not(notes: Collection, platform: Platform) -> None:
    """Every leg runs once more for each; the fusion is over all rankings, which are named by the wording's number."""
    await notes.add([{"_id": "x", "text": "workmates met"}, {"_id": "y", "text": "colleagues of old"}])
    found = await notes.search("coworkers", legs=["lexical"], rewrites=["workmates", 'colleagues -old "met'])
    assert {hit.item_id for hit in found} == {"x", "y"}
    parts = {hit.item_id: [part.leg for part in hit.explanation.contributions] for hit in found}
    assert parts == {"x": ["lexical:1", "lexical:2"], "y": ["lexical:2"]}
    assert all(hit.score == pytest.approx(hit.explanation.score) for hit in found)
    assert all(part.weight == 1 for hit in found for part in hit.explanation.contributions)
    await platform.recorded()
    again = await platform.replay(found.retrieval_id or "")
    assert (again.is_reproduced, again.is_same_today) == (True, True)


@pytest.mark.parametrize("rewrites", ["words", [""], ["  "], [3], ["x"] * 11, ["a\x00"]])
async def test_rewrites_that_are_no_words_are_refused(notes: Collection, rewrites: list[str]) -> None:
    """At most ten texts, none of them empty."""
    with pytest.raises(InvalidRequestError):
        await notes.search("pool", rewrites=rewrites)


async def test_what_a_search_by_signals_cannot_use_is_refused(notes: Collection) -> None:
    """A moment without a zone, entities without a type, no words for legs that need some."""
    with pytest.raises(InvalidRequestError, match="time zone"):
        await notes.search("pool", as_of=NOW.replace(tzinfo=None))
    with pytest.raises(InvalidRequestError, match="by type"):
        await notes.search("pool", entities=["q1"])  # type: ignore[arg-type]
    with pytest.raises(EmptyQueryError):
        await notes.search(profile=PROFILE)


LEARNED = Profile(
    legs={"tagged": 1, "dense": 1, "lexical": 1, "rated": 1, "recent": 1},
    fusion=UNION,
    signals=(Rating(), TagMatch(), VectorSimilarity(weight=1)),
)


async def test_tags_and_verdicts_make_the_score_with_words_and_without(notes: Collection, platform: Platform) -> None:
    """Words and tags, tags alone, or nothing: what can be asked is; .1 for a tag, and the rate of good verdicts."""
    await notes.add([{"_id": "t1", "text": "unlike", "tags": ["react", "web"]}, {"_id": "t2", "text": "unlike"}])
    await platform.feedback_each([Feedback(item_id="t2", collection="notes", helpful=True, key=key) for key in "ab"])
    both = await notes.search("pool lobby", tags=["react", "web", "x"], profile=LEARNED, limit=50)
    by_tags = await notes.search(tags=["react", "web", "x"], profile=LEARNED, limit=50)
    by_nothing = await notes.search(where={"floor": {"exists": False}}, profile=LEARNED)
    assert len(both) == len(by_tags) == 32
    assert {hit.item_id: hit.score for hit in by_tags}.items() >= {"t1": 0.7, "t2": 0.75, "n00": 0.5}.items()
    assert [(hit.item_id, hit.score) for hit in by_nothing] == [("t2", 0.75), ("t1", 0.5)]
    parts = {part.leg: part for hit in both if hit.item_id == "t1" for part in hit.explanation.contributions}
    assert {"tagged", "rated", "tag_match", "rating"} <= set(parts)
    assert parts["tag_match"].value == 0.2
    assert parts["rating"].value == 0.5
    await platform.recorded()
    for found in (both, by_tags, by_nothing):
        again = await platform.replay(found.retrieval_id or "")
        assert (again.is_reproduced, again.is_same_today) == (True, True)


async def test_a_leg_of_tags_needs_some(notes: Collection) -> None:
    """Alone it says so; beside others it is left out, as that of entities is."""
    with pytest.raises(InvalidRequestError, match=r"tags=\["):
        await notes.search(legs=["tagged"])
    assert len(await notes.search(legs=["tagged", "recent"])) == 10
