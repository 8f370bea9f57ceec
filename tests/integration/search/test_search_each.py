"""Many queries at once: the answers of one after another, in few statements and one call of the embedder."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import Database
from retrieval.domain.errors import WrongDimensionError
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.domain.search.diversity import Diversity, Refining
from retrieval.domain.search.hit import Hit, SearchResult
from retrieval.domain.search.profile import Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.signals import Recency, VectorSimilarity
from tests.support.database import SCHEMA

WORDS = ["connection", "timeout", "disk", "full", "login", "certificate", "report", "slow", "node", "restart", "backup"]
QUERIES = ["connection timeout", "disk", "slow report query", "no such thing", "backup restore node"]

BOTH_SCORES = Profile(legs={"dense": 0.6, "lexical": 0.4}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), depth=10)

DIVERSE = replace(BOTH_SCORES, diversity=Diversity(collapse_above=0.999))

REFINED = replace(BOTH_SCORES, refining=Refining(share=0.3))

MANY_LEGS = replace(BOTH_SCORES, legs={leg: 0.5 for leg in LegName if leg is not LegName.LINKED})

TINY = Profile(legs={"dense": 5e-324, "lexical": 1.0})


class CountingEmbedder(HashingEmbedder):
    """Counts the texts that it embeds."""

    def __init__(self) -> None:
        super().__init__(64)
        self.asked: list[tuple[TextRole, list[str]]] = []

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """As the other does."""
        self.asked.append((role, list(texts)))
        return await super().embed(texts, role)


@dataclass(frozen=True)
class Docs:
    """A collection, with its embedder."""

    platform: Platform
    collection: Collection
    embedder: CountingEmbedder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def docs(database_url: str) -> AsyncIterator[Docs]:
    """300 short texts of fourteen words."""
    chance = np.random.default_rng(5)
    items = [
        {"_id": f"{number:03}", "text": " ".join(chance.choice(WORDS, size=4)), "group": number % 7, "title": "t"}
        for number in range(300)
    ]
    embedder = CountingEmbedder()
    settings = Settings(tenant="each", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=embedder) as platform:
        collection = await platform.collection("docs")
        await collection.add(items)
        # Their vectors are cached from now on: no later search writes them during a count.
        await collection.search_each(QUERIES)
        yield Docs(platform, collection, embedder)


def _as_seen(result: SearchResult) -> dict[str, Any]:
    own = {"timings_ms", "retrieval_id", "why_no_hits"}
    # Only single searches correct misspelt words; a batch says so.
    notes = [note for note in result.notes if not note.endswith("with typos")]
    return {name: value for name, value in result.as_dict().items() if name not in own} | {"notes": notes}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "same",
    [
        {"legs": ["dense"]},
        {"legs": ["lexical"]},
        {},
        {"where": {"group": [1, 2]}},
        {"profile": BOTH_SCORES},
        {"profile": REFINED},
        {"where": {"group": {"lt": 3}}, "legs": ["dense"], "limit": 100},
        {"group_by": "group", "limit": 5},
        {"profile": Profile(diversity=Diversity(collapse_above=0.9, relevance_share=0.6))},
    ],
    ids=["dense", "lexical", "hybrid", "filtered", "both scores", "refined", "filtered dense", "grouped", "diverse"],
)
async def test_many_queries_are_answered_as_one_by_one(docs: Docs, same: dict[str, Any]) -> None:
    """Hits, scores, explanations, path, reason, rows weighed: all but the times, and why there are no hits."""
    each = await docs.collection.search_each(QUERIES, **same)
    assert len(each) == len(QUERIES)
    for query, result in zip(QUERIES, each, strict=True):
        assert _as_seen(result) == _as_seen(await docs.collection.search(query, **same))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", [None, {"group": [1, 2, 3]}], ids=["all", "filtered"])
async def test_a_weighted_sum_knows_the_score_of_a_candidate_in_both_legs(docs: Docs, where: Any) -> None:
    """The other leg's score is the one that a deeper search finds there. The page size does not change it."""
    deep = replace(BOTH_SCORES, depth=300)
    for query in QUERIES:
        page = await docs.collection.search(query, where=where, profile=BOTH_SCORES, limit=10)
        larger = await docs.collection.search(query, where=where, profile=BOTH_SCORES, limit=40)
        every = await docs.collection.search(query, where=where, profile=deep, limit=300)
        scores = {hit.item_id: (hit.score, _raw(hit)) for hit in every}
        assert {hit.item_id: (hit.score, _raw(hit)) for hit in page}.items() <= scores.items()
        assert {hit.item_id: (hit.score, _raw(hit)) for hit in larger}.items() <= scores.items()


def _raw(hit: Hit) -> tuple[tuple[str, float], ...]:
    return tuple((part.leg, part.raw_score) for part in hit.explanation.contributions)


@pytest.mark.asyncio(loop_scope="module")
async def test_callers_vectors_give_the_same_hits_as_single_searches(docs: Docs) -> None:
    """With words, without words, and with words alone, in one call."""
    vectors = [*np.random.default_rng(6).normal(size=(2, 64)), None]
    queries = ["disk full", "", "login"]
    each = await docs.collection.search_each(queries, vectors=vectors)
    for query, vector, result in zip(queries, vectors, each, strict=True):
        assert _as_seen(result) == _as_seen(await docs.collection.search(query, vector=vector))
    assert "no words" in each[1].notes[0]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_vector_of_another_space_is_named_with_its_query(docs: Docs) -> None:
    """And with its place among the vectors."""
    with pytest.raises(WrongDimensionError, match="query 2: the vector of the query has 3 dimensions") as caught:
        await docs.collection.search_each(["a", "b"], vectors=[None, [1.0, 2.0, 3.0]])
    assert caught.value.location == ("vectors", 1)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_words_of_all_queries_are_embedded_in_one_call(docs: Docs) -> None:
    """Each text is embedded once, however often it occurs."""
    docs.embedder.asked.clear()
    await docs.collection.search_each(["one of a kind", "two of them", "one of a kind"])
    assert docs.embedder.asked == [(TextRole.QUERY, ["one of a kind", "two of them"])]


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of the statements of each round trip; a transaction of its own is refused."""
    statements: list[list[str]] = []
    read_each = Database.read_each

    async def noted(self: Database, tenant_id: int | None, each: Sequence[Any], *more: Any) -> Any:
        statements.append([statement.text for statement in each])
        return await read_each(self, tenant_id, each, *more)

    def refused(*_: object) -> None:
        raise AssertionError("a search needs no transaction of its own")

    monkeypatch.setattr(Database, "read_each", noted)
    monkeypatch.setattr(Database, "transaction", refused)
    # Each second a search reads the collection again, which this test does not count.
    monkeypatch.setattr("retrieval.engine.collection_handle.FRESH_SECONDS", math.inf)
    return statements


@pytest.mark.asyncio(loop_scope="module")
async def test_many_queries_take_two_round_trips(docs: Docs, round_trips: list[list[str]]) -> None:
    """One with a statement for each query's candidates, one with a single statement for the hits of all."""
    vectors = list(np.random.default_rng(6).normal(size=(len(QUERIES), 64)))
    await docs.collection.search_each(QUERIES, vectors=vectors)
    assert list(map(len, round_trips)) == [len(QUERIES), 1]
    round_trips.clear()
    await docs.collection.search_each(QUERIES, vectors=vectors, legs=["dense"], where={"group": 1})
    assert list(map(len, round_trips)) == [len(QUERIES)]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("profile", "spare"),
    [(Profile(), 1), (BOTH_SCORES, 1), (REFINED, 10), (REFINED, -9), (MANY_LEGS, 1), (TINY, 1)],
)
async def test_a_hit_is_the_same_whether_it_was_guessed_or_not(
    docs: Docs, round_trips: list[list[str]], monkeypatch: pytest.MonkeyPatch, profile: Profile, spare: int
) -> None:
    """A hit that the database did not guess is read in a second round trip, with those alone that are missing."""
    vector = np.random.default_rng(6).normal(size=64)
    apart = await docs.collection.search("disk full", vector=vector, profile=profile, group_by="item_id")
    monkeypatch.setattr("retrieval.engine.plan._SPARE_LIKELY", spare)
    docs.collection._handle.searcher = None  # noqa: SLF001 - its plans guess another number
    round_trips.clear()
    result = await docs.collection.search("disk full", vector=vector, profile=profile)
    assert [hit.as_dict() for hit in result] == [hit.as_dict() for hit in apart]
    assert len(round_trips) == (1 if spare > 0 else 2)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("same", [{}, {"where": {"group": 1}}, {"legs": ["dense"]}, {"group_by": "group"}])
async def test_no_vector_is_sent_back(docs: Docs, round_trips: list[list[str]], same: dict[str, Any]) -> None:
    """Vectors are compared in the database: no statement selects one, and each names its columns."""
    vector = np.random.default_rng(6).normal(size=64)
    await docs.collection.search("disk full", vector=vector, **same)
    await docs.collection.search("disk full", vector=vector, profile=BOTH_SCORES, **same)
    for texts in round_trips:
        for text in texts:
            assert "*" not in text.replace("count(*)", "").replace(" * ", "")
            assert "halfvec_send" not in text
            assert "vector" not in text.rpartition("SELECT")[2].partition("FROM")[0]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("profile", [REFINED, Profile(diversity=Diversity(collapse_above=0.9))])
async def test_a_profile_that_compares_candidates_gets_their_vectors_with_them(
    docs: Docs, round_trips: list[list[str]], profile: Profile
) -> None:
    """Each once, in the statement that brings the candidates."""
    vector = np.random.default_rng(6).normal(size=64)
    await docs.collection.search("disk full", vector=vector, profile=profile)
    assert [text.count("halfvec_send") for texts in round_trips for text in texts if "halfvec_send" in text] == [1]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "more", [{"profile": DIVERSE}, {"profile": DIVERSE, "where": {"group": 1}}, {"group_by": "group"}]
)
async def test_texts_are_read_for_the_hits_only(docs: Docs, round_trips: list[list[str]], more: dict[str, Any]) -> None:
    """Where groups or diversity choose the hits, the statement of the candidates reads no title and no body."""
    vector = np.random.default_rng(6).normal(size=64)
    result = await docs.collection.search("disk full", vector=vector, limit=5, **more)
    assert len(result) == 5
    *candidates, hits = [text for texts in round_trips for text in texts]
    for text in candidates:
        assert "body" not in text
        assert "title" not in text
    assert "body" in hits


@pytest.mark.asyncio(loop_scope="module")
async def test_signals_read_what_they_weigh_once_for_all_queries(docs: Docs, round_trips: list[list[str]]) -> None:
    """Recency and similarity read no title, no body and no attributes; those are read for the hits alone."""
    signals = (Recency(weight=0.5), VectorSimilarity(weight=0.5))
    profile = Profile(fusion=Fusion(kind=FusionKind.UNION), signals=signals)
    results = await docs.collection.search_each(QUERIES, profile=profile, limit=3)
    assert all(len(result) == 3 and result[0].body for result in results)
    _, facts, hits = round_trips
    assert len(facts) == 1 + len(QUERIES)
    assert not any(f"items.{name}" in facts[0] for name in ("title", "body", "attributes"))
    assert [len(hits), "items.body" in hits[0]] == [1, True]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_hits_of_one_leg_come_with_their_texts_in_one_statement(
    docs: Docs, round_trips: list[list[str]]
) -> None:
    """As many candidates as hits: their texts are looked up in the same statement."""
    vector = np.random.default_rng(6).normal(size=64)
    hits = await docs.collection.search(vector=vector, limit=5, legs=["dense"])
    assert [len(texts) for texts in round_trips] == [1]
    assert all(hit.title == "t" and hit.body for hit in hits)


@pytest.mark.asyncio(loop_scope="module")
async def test_one_legs_scores_are_its_own(docs: Docs) -> None:
    """The cosine to the query, from −1 to 1."""
    stored = docs.embedder
    (query,) = await stored.embed(["disk full"], TextRole.QUERY)
    hits = await docs.collection.search("disk full", legs=["dense"], limit=3)
    texts = await stored.embed([f"{hit.title}\n{hit.body}" for hit in hits], TextRole.DOCUMENT)
    assert hits[0].explanation.fusion == "none"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    np.testing.assert_allclose([hit.score for hit in hits], texts @ query, atol=0.01)
