"""Scores that are a sum of signals, searches by several wordings, and what refining and preferences add to a score."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from psycopg import sql

from retrieval import Collection, EmbeddingSpace, Platform, Profile, SearchResult
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.adapters.store.records.retrievals import read_pools
from retrieval.domain.errors import EmptyQueryError, InvalidRequestError, UnknownFieldError
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.search.diversity import REFINING, Refining
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.domain.search.signals import (
    BaseRelevance,
    KeywordOverlap,
    Priority,
    Rating,
    Recency,
    TagMatch,
    VectorSimilarity,
)
from retrieval.engine.target import NamedProfile, Unanswerable, target_slate
from tests.support.database import SCHEMA

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


async def _search(notes: Collection, profile: Profile = PROFILE, limit: int = 30) -> SearchResult:
    return await notes.search("pool timeout lobby", profile=profile, limit=limit, as_of=NOW)


async def test_the_score_is_the_sum_of_the_signals(notes: Collection) -> None:
    """It is the sum of weight × value; the explanation also shows the legs that found the hit, with contribution 0."""
    hits = await _search(notes)
    assert len(hits) == 30
    for hit in hits:
        parts = {part.leg: part for part in hit.explanation.contributions}
        assert set(parts) <= {"recency", "keyword", "priority", "vector_similarity", "dense", "lexical"}
        assert parts["lexical"].value == parts["lexical"].weight == 0
        assert parts["recency"].raw_score == pytest.approx(np.exp(-int(hit.item_id[1:]) / 14))
        assert parts["vector_similarity"].raw_score == pytest.approx(parts["dense"].raw_score)
        signals = [parts[signal.name] for signal in SIGNALS]
        assert hit.score == pytest.approx(sum(part.weight * part.raw_score for part in signals))
        assert hit.score == pytest.approx(hit.explanation.score)
        assert hit.explanation.fusion == "union"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


async def test_hits_below_the_least_score_are_left_out(notes: Collection) -> None:
    """The page may be short, and nothing else changes."""
    every = await _search(notes)
    least = every[9].score
    some = await _search(notes, Profile(fusion=UNION, signals=SIGNALS, min_score=least))
    assert [hit.item_id for hit in some] == [hit.item_id for hit in every[:10]]


async def test_the_best_of_each_group_by_signals(notes: Collection) -> None:
    """Grouped by an attribute, each hit with its texts."""
    every = await _search(notes)
    hits = await notes.search("pool timeout lobby", profile=PROFILE, as_of=NOW, group_by="floor")
    best = [next(hit for hit in every if hit.attributes["floor"] == floor) for floor in (0, 1, 2)]
    assert {hit.item_id for hit in hits} == {hit.item_id for hit in best}
    assert all("pool" in hit.body for hit in hits)


async def test_signals_of_memories_count_and_expired_memories_are_left_out(
    notes: Collection, platform: Platform
) -> None:
    """Base relevance comes from their table; an item without a row there has 1. Expired is by the clock."""
    statement = sql.SQL(
        "INSERT INTO memories (collection_id, item_id, happened_at, base_relevance, expires_at) "
        "SELECT collection_id, item_id, now(), 0.5, CASE WHEN item_id = 'n01' THEN {}::timestamptz END "
        "FROM items WHERE item_id IN ('n01', 'n02') ON CONFLICT DO NOTHING"
    ).format(sql.Literal(platform.now.isoformat()))
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(statement)
    profile = Profile(fusion=UNION, signals=(BaseRelevance(weight=1),))
    scores = {hit.item_id: hit.score for hit in await _search(notes, profile)}
    assert (scores["n00"], scores["n02"], "n01" in scores) == (1.0, 0.5, False)
    before = await notes.search("pool", profile=profile, limit=30, as_of=platform.now - timedelta(days=1))
    assert "n01" not in {hit.item_id for hit in before}


async def test_similarity_counts_whatever_leg_brought_the_candidate(notes: Collection) -> None:
    """Without a dense leg the query is embedded all the same."""
    profile = Profile(legs={"lexical": 1}, fusion=UNION, signals=(VectorSimilarity(weight=1),))
    hits = await notes.search("pool timeout lobby", profile=profile, limit=30)
    by_dense = {hit.item_id: hit.score for hit in await notes.search("pool timeout lobby", legs=["dense"], limit=30)}
    assert hits[0].score > 0.5
    assert all(hit.score == pytest.approx(max(0.0, by_dense[hit.item_id])) for hit in hits)
    assert not hits.notes


async def test_other_wordings_bring_what_the_query_does_not(notes: Collection, platform: Platform) -> None:
    """Every leg runs once more for each; the fusion is over all rankings, which are named by the wording's number."""
    await notes.add([{"_id": "x", "text": "workmates met"}, {"_id": "y", "text": "colleagues of old"}])
    hits = await notes.search("coworkers", legs=["lexical"], rewrites=["workmates", 'colleagues -old "met'])
    assert {hit.item_id for hit in hits} == {"x", "y"}
    parts = {hit.item_id: [part.leg for part in hit.explanation.contributions] for hit in hits}
    assert parts == {"x": ["lexical:1", "lexical:2"], "y": ["lexical:2"]}
    assert all(hit.score == pytest.approx(hit.explanation.score) for hit in hits)
    assert all(part.weight == 1 for hit in hits for part in hit.explanation.contributions)
    await platform.recorded()
    again = await platform.replay(hits.retrieval_id or "")
    assert (again.is_reproduced, again.is_same_today) == (True, True)


@pytest.mark.parametrize("rewrites", ["words", [""], ["  "], [3], ["x"] * 11, ["a\x00"]])
async def test_invalid_rewrites_are_refused(notes: Collection, rewrites: list[str]) -> None:
    """At most ten texts, none of them empty."""
    with pytest.raises(InvalidRequestError):
        await notes.search("pool", rewrites=rewrites)


async def test_invalid_arguments_of_a_search_by_signals_are_refused(notes: Collection) -> None:
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
    """Words and tags, tags alone, or nothing: .1 for each tag, and the rate of good verdicts."""
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
    for hits in (both, by_tags, by_nothing):
        again = await platform.replay(hits.retrieval_id or "")
        assert (again.is_reproduced, again.is_same_today) == (True, True)


async def test_a_leg_of_tags_needs_some(notes: Collection) -> None:
    """Alone it is an error; with other legs it is left out, like the leg of entities."""
    with pytest.raises(InvalidRequestError, match=r"tags=\["):
        await notes.search(legs=["tagged"])
    assert len(await notes.search(legs=["tagged", "recent"])) == 10


SPACE = EmbeddingSpace(provider="test", model="refining", dimensions=8)
PLAIN = Profile(legs={"dense": 0.6, "lexical": 0.4}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), depth=10)
REFINED = replace(PLAIN, refining=Refining(share=0.4))
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
ASKED = {"vector": np.eye(8)[0] + 0.2}


@pytest.fixture
async def notes_refined(platform: Platform) -> Collection:
    """Eighty notes of some words, each with a vector of its own."""
    collection = await platform.collection("notes", space=SPACE)
    chance = np.random.default_rng(4)
    items = [
        {"_id": f"n{number:02}", "text": " ".join(chance.choice(list("abcdefgh"), size=5)), "group": number % 4}
        for number in range(80)
    ]
    await collection.add(items, embeddings=chance.normal(size=(80, 8)) + 0.7)
    return collection


def _parts(hit: Hit) -> dict[str, Any]:
    return {part.leg: part for part in hit.explanation.contributions}


async def test_a_score_is_as_the_formula_has_it(notes_refined: Collection) -> None:
    """(1 - share) of the fused score and the share of the likeness, worked out from the stored vectors."""
    page = await notes_refined.search("a b", **ASKED, profile=REFINED, limit=10)
    plain = await notes_refined.search("a b", **ASKED, profile=PLAIN, limit=80)
    own = {hit.item_id: hit.score for hit in plain}
    pool = [hit.item_id for hit in plain if any(part.rank <= PLAIN.depth for part in hit.explanation.contributions)]
    vectors = await notes_refined.embeddings(sorted(own))
    middle = np.mean([vectors[item_id] for item_id in pool], axis=0)
    first = vectors[plain[0].item_id] - middle
    assert [hit.score for hit in page] == sorted((hit.score for hit in page), reverse=True)
    for hit in page:
        apart = vectors[hit.item_id] - middle
        likeness = (1 + apart @ first / np.linalg.norm(apart) / np.linalg.norm(first)) / 2
        assert hit.score == pytest.approx(0.6 * own[hit.item_id] + 0.4 * likeness, abs=2e-3)
        assert hit.explanation.score == hit.score
        part = _parts(hit)[REFINING]
        assert (part.weight, part.value) == (0.4, pytest.approx(0.4 * part.raw_score))
    assert _parts(page[0])[REFINING].raw_score == 1.0
    assert [hit.item_id for hit in page] != [hit.item_id for hit in plain[:10]]


@pytest.mark.parametrize("where", [None, {"group": [1, 2, 3]}], ids=["all", "filtered"])
async def test_no_page_changes_a_score(notes_refined: Collection, where: Any) -> None:
    """The pool is the profile's: of three or of sixty hits, each has the same score and the same parts."""
    pages = [
        {
            hit.item_id: (hit.score, {leg: part.raw_score for leg, part in _parts(hit).items()})
            for hit in await notes_refined.search("a b c", **ASKED, profile=REFINED, limit=limit, where=where)
        }
        for limit in (3, 10, 60)
    ]
    assert pages[0].items() <= pages[1].items() <= pages[2].items()


async def test_items_without_a_vector_keep_their_scores(notes_refined: Collection) -> None:
    """This applies to pending items, and to all items without a query vector or with a single leg."""
    await notes_refined.add([{"_id": "waiting", "text": "a b"}])
    page = await notes_refined.search("a b", **ASKED, profile=REFINED, limit=60)
    plain = {hit.item_id: hit for hit in await notes_refined.search("a b", **ASKED, profile=PLAIN, limit=60)}
    waiting = next(hit for hit in page if hit.item_id == "waiting")
    assert waiting.explanation == plain["waiting"].explanation
    assert all(REFINING in _parts(hit) for hit in page if hit.item_id != "waiting")
    for legs in (["lexical"], ["dense"]):
        alone = await notes_refined.search("a b", **ASKED, profile=REFINED, legs=legs, limit=5)
        assert alone.hits == (await notes_refined.search("a b", **ASKED, profile=PLAIN, legs=legs, limit=5)).hits
    words = replace(REFINED, legs={"dense": 1.0, "lexical": 1.0, "recent": 0.5})
    hits = await notes_refined.search("a b", profile=words, limit=5)
    assert all(REFINING not in _parts(hit) for hit in hits)
    assert "dense" in hits.notes[0]


async def test_more_rankings_are_refined_too(notes_refined: Collection) -> None:
    """Preferred rankings, the best of groups, and one leg's preferred rankings."""
    for option in ({"prefer": {"group": 1}}, {"group_by": "group"}):
        hits = await notes_refined.search("a b", **ASKED, profile=REFINED, limit=6, **option)
        assert all(REFINING in _parts(hit) for hit in hits)
        assert all(hit.explanation.score == hit.score for hit in hits)
    dense = replace(REFINED, legs={"dense": 1.0})
    preferred = await notes_refined.search("", **ASKED, profile=dense, prefer={"group": 1}, limit=6)
    assert all(REFINING in _parts(hit) for hit in preferred)


async def test_a_record_has_the_parts_of_refining(notes_refined: Collection, platform: Platform) -> None:
    """The parts are the same in the answer, in its record, and in the analysts' view, for any pool size."""
    for pool in (100, 3):
        profile = replace(REFINED, recording=replace(REFINED.recording, pool=pool))
        result = await notes_refined.search("a b", **ASKED, profile=profile, limit=5)
        await platform.recorded()
        assert result.retrieval_id is not None
        search = await find_recorded(platform.database, platform.tenant_id, result.retrieval_id)
        assert search is not None
        parts = [{part.leg: (part.rank, part.raw_score) for part in hit.explanation.contributions} for hit in result]
        assert [_ranked(impression.signals) for impression in search.impressions] == parts
        async with platform.database.snapshot(platform.tenant_id) as connection:
            rows = await connection.execute(
                f"SELECT signals FROM {SCHEMA}.impressions WHERE retrieval_id = %s ORDER BY rank",  # noqa: S608
                (result.retrieval_id,),
            )
            assert [_ranked(row[0]) for row in await rows.fetchall()] == parts


def _ranked(signals: Any) -> dict[str, tuple[int, float]]:
    return {name: (of["rank"], of["raw"]) for name, of in signals.items()}


async def test_a_refining_profile_is_judged_by_what_its_own_weights_answered(
    notes_refined: Collection, platform: Platform
) -> None:
    """With another share, or none, the outcome is known; with other weights the record does not suffice."""
    await notes_refined.set_profile(REFINED)
    await notes_refined.search("a b", **ASKED, limit=5)
    await platform.recorded()
    stored = await notes_refined.refresh()
    async with platform.database.snapshot(platform.tenant_id) as connection:
        (pool,) = [pool async for pool in read_pools(connection, stored.collection_id, since=EPOCH, most=1)]
    for share in (0.0, 0.2, 0.7):
        other = replace(REFINED, refining=Refining(share=share))
        hits = await notes_refined.search("a b", **ASKED, profile=other, limit=5)
        slate = target_slate(pool, NamedProfile(name="other", profile=other))
        assert slate == {hit.item_id: 1.0 for hit in hits}
    heavier = replace(REFINED, legs={"dense": 0.2, "lexical": 0.8})
    assert target_slate(pool, NamedProfile(name="heavier", profile=heavier)) is Unanswerable.REFINED
    alone = replace(REFINED, legs={"dense": 1.0})
    slate = target_slate(pool, NamedProfile(name="alone", profile=alone))
    assert slate == {hit.item_id: 1.0 for hit in await notes_refined.search("", **ASKED, profile=alone, limit=5)}


MAY = {"occurred_at": {"gte": datetime(2026, 5, 1, tzinfo=UTC), "lt": datetime(2026, 6, 1, tzinfo=UTC)}}


@pytest.fixture
async def notes_preferred(platform: Platform) -> Collection:
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


async def test_preferred_items_rank_higher_and_none_is_left_out(notes_preferred: Collection) -> None:
    """May's note becomes the first; the others keep their order behind it."""
    plain = [hit.item_id for hit in await notes_preferred.search("pool", limit=12)]
    preferring = [hit.item_id for hit in await notes_preferred.search("pool", limit=12, prefer=MAY)]
    assert plain[0] != "n05"
    assert preferring == ["n05", *(item_id for item_id in plain if item_id != "n05")]


async def test_the_explanation_shows_what_preference_adds(notes_preferred: Collection) -> None:
    """Each leg has a ranking within the preference, for each wording, and the parts add up."""
    hits = await notes_preferred.search("pool", prefer=MAY, rewrites=["lobby"])
    parts = {part.leg: part.value for part in hits[0].explanation.contributions}
    assert hits[0].item_id == "n05"
    assert {"dense", "lexical:preferred", "dense:preferred", "lexical:1:preferred", "dense:1:preferred"} <= set(parts)
    assert parts["lexical:preferred"] == pytest.approx(1 / 61)
    assert hits[0].score == pytest.approx(sum(parts.values()))


async def test_a_filter_holds_for_what_is_preferred_too(notes_preferred: Collection) -> None:
    """Preference adds nothing that the filter leaves out."""
    hits = await notes_preferred.search("pool", where={"item_id": ["n01", "n02"]}, prefer=MAY)
    assert {hit.item_id for hit in hits} == {"n01", "n02"}


async def test_one_leg_with_a_preference_is_fused(notes_preferred: Collection) -> None:
    """The leg's ranking is fused with its ranking of the preferred items."""
    hits = await notes_preferred.search("pool", prefer=MAY, legs=["lexical"], limit=3)
    assert hits[0].item_id == "n05"
    assert hits[0].explanation.fusion == "rrf"
    assert [part.leg for part in hits[1].explanation.contributions] == ["lexical"]


async def test_a_preference_for_an_unknown_field_is_an_error(notes_preferred: Collection) -> None:
    """As in a filter."""
    with pytest.raises(UnknownFieldError, match="moth"):
        await notes_preferred.search("pool", prefer={"moth": 5})


async def test_a_preference_is_recorded_and_replayed(platform: Platform, notes_preferred: Collection) -> None:
    """The record has the preference, and today's answer is the same."""
    hits = await notes_preferred.search("pool", prefer=MAY, limit=5)
    assert hits.retrieval_id is not None
    replayed = await platform.replay(hits.retrieval_id)
    assert replayed.is_reproduced
    assert replayed.is_same_today


async def test_of_several_preferences_the_first_counts_most(platform: Platform, notes_preferred: Collection) -> None:
    """The second's rankings weigh half of what the first's do; the record holds both, and can be replayed."""
    june = {"occurred_at": {"gte": datetime(2026, 6, 1, tzinfo=UTC), "lt": datetime(2026, 7, 1, tzinfo=UTC)}}
    hits = await notes_preferred.search("pool", limit=12, prefer=[MAY, june])
    assert [hit.item_id for hit in hits[:2]] == ["n05", "n06"]
    assert len(hits) == 12
    second = {part.leg: part for part in hits[1].explanation.contributions}
    assert second["lexical:preferred:2"].weight == 0.5
    assert second["lexical:preferred:2"].value == pytest.approx(0.5 / 61)
    assert hits[1].score == pytest.approx(sum(part.value for part in second.values()))
    assert [hit.item_id for hit in await notes_preferred.search("pool", limit=2, prefer=[june, MAY])] == ["n06", "n05"]
    assert hits.retrieval_id is not None
    replayed = await platform.replay(hits.retrieval_id)
    assert replayed.is_reproduced
    assert replayed.is_same_today


@pytest.mark.parametrize("prefer", [[], [{}], [None], None])
async def test_preferring_nothing_changes_nothing(notes_preferred: Collection, prefer: Any) -> None:
    """The explanation has the legs alone."""
    hits = await notes_preferred.search("pool", prefer=prefer)
    assert {part.leg for part in hits[0].explanation.contributions} <= {"dense", "lexical"}


async def test_a_preference_that_is_given_twice_counts_once(notes_preferred: Collection) -> None:
    """Its first position counts."""
    once, twice = [await notes_preferred.search("pool", prefer=[MAY] * number) for number in (1, 2)]
    assert once.hits == twice.hits


@pytest.mark.parametrize(
    ("prefer", "why"), [([MAY] * 5, "at most 4"), (["May"], "must be a mapping"), ("May", "must be")]
)
async def test_preferences_that_cannot_be_are_refused(notes_preferred: Collection, prefer: Any, why: str) -> None:
    """The error says what to give."""
    with pytest.raises(InvalidRequestError, match=why):
        await notes_preferred.search("pool", prefer=prefer)
