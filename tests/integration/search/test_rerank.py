"""Searches that a reranker finishes: the order, the explanation, the record, and what happens where it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from retrieval import Collection, Fusion, Platform, Profile, Settings, connect
from retrieval import sync as plain
from retrieval.adapters.store.records.retrievals import read_pools
from retrieval.collection import handle_of
from retrieval.domain.errors import ConfigurationError, RerankerUnavailableError
from retrieval.domain.search.diversity import Diversity, Refining
from retrieval.domain.search.profile import FusionKind
from retrieval.domain.search.profile_parts import Exploration, PolicyName, Recording
from retrieval.domain.search.reranking import Rerank, Reranker
from retrieval.engine.target import NamedProfile, Unanswerable, target_slate
from retrieval.services.evaluate import evaluate_collection, parse_metrics
from retrieval.services.judgements import JudgedQuery
from tests.support.rerank_server import KEY, OverlapReranker, RerankServer, hangs, is_cut, says

ITEMS = [
    {"_id": "a", "title": "Timeout", "text": "timeout timeout timeout"},
    {"_id": "b", "title": "Pool", "text": "the database timeout after a long wait for the pool"},
    {"_id": "c", "title": "Disk", "text": "log files fill the disk of the database and of the timeout queue"},
    {"_id": "d", "title": "Cake", "text": "baked for forty minutes"},
]
QUERY = "database timeout pool"
LEXICAL = Profile(legs={"lexical": 1.0})
RERANKED = replace(LEXICAL, rerank=Rerank(candidates=10, milliseconds=2000))


class FixedReranker:
    """A reranker that returns the scores that a test sets."""

    name = "told/1"

    def __init__(self, answer: Any = None, *, seconds: float = 0.0) -> None:
        self.answer, self.seconds, self.calls = answer, seconds, 0

    async def rerank(self, _query: str, texts: Sequence[str]) -> Any:
        """The scores that the test set."""
        self.calls += 1
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return [0.5] * len(texts) if self.answer is None else self.answer

    async def aclose(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def open_stored(
    settings: Settings, database_url: str, reranker: Reranker | None = None, /, **others: object
) -> AsyncIterator[tuple[Platform, Collection]]:
    """An open platform with the items."""
    own_settings = settings.changed(database_url=SecretStr(database_url), embedder="hashing", **others)
    async with connect(settings=own_settings, reranker=reranker) as platform:
        collection = await platform.collection("docs")
        await collection.add(ITEMS)
        yield platform, collection


def ids(hits: Any) -> list[str]:
    """The ids of hits."""
    return [hit.item_id for hit in hits]


async def test_the_reranker_makes_the_order_and_the_explanation_says_so(settings: Settings, database_url: str) -> None:
    """It is sent title and text of the candidates; contributions add up to the score."""
    reranker = OverlapReranker()
    async with open_stored(settings, database_url, reranker) as (_, collection):
        before = await collection.search(QUERY, profile=LEXICAL)
        assert not reranker.said
        hits = await collection.search(QUERY, profile=RERANKED)

    [(query, texts)] = reranker.said
    assert query == QUERY
    assert "Pool\nthe database timeout after a long wait for the pool" in texts
    assert len(texts) == len(before) == 3
    assert ids(hits)[0] == "b"
    assert hits[0].score == pytest.approx(1.0)
    assert "reranked by overlap/1" in hits[0].explanation.fusion
    for hit in hits:
        parts = {part.leg: part for part in hit.explanation.contributions}
        assert hit.explanation.score == pytest.approx(hit.score)
        assert parts["rerank"].value == pytest.approx(parts["rerank"].raw_score)
    assert hits.timings_ms["rerank"] >= 0
    assert "rerank" not in before.timings_ms


@pytest.mark.parametrize(
    "base",
    [
        Profile(),
        LEXICAL,
        Profile(fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), refining=Refining(share=0.25)),
        Profile(fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), diversity=Diversity(relevance_share=0.7)),
    ],
)
async def test_a_weight_shares_the_score_and_a_replay_computes_it_again(
    settings: Settings, database_url: str, base: Profile
) -> None:
    """score = (1 - weight) × relevance + weight × reranker; whom it was not sent comes behind, in the fused order."""
    reranker = OverlapReranker()
    profile = replace(base, rerank=Rerank(candidates=2, weight=0.4, milliseconds=2000))
    async with open_stored(settings, database_url, reranker) as (platform, collection):
        fused = await collection.search(QUERY, profile=base, limit=4)
        hits = await collection.search(QUERY, profile=profile, limit=4)
        assert len(reranker.said[-1][1]) == 2
        assert set(ids(hits)[:2]) == set(ids(fused)[:2]) or not base.diversity.is_off
        for hit in hits:
            parts = {part.leg: part for part in hit.explanation.contributions}
            assert sum(part.value for part in parts.values()) == pytest.approx(hit.score)
            assert ("rerank" in parts) == (hit.item_id in ids(fused)[:2]) or not base.diversity.is_off
        assert 0 <= min(hit.score for hit in hits) <= max(hit.score for hit in hits) <= 1
        calls = len(reranker.said)
        replay = await platform.replay(str(hits.retrieval_id))
        search = await platform.retrieval(str(hits.retrieval_id))

    assert replay.is_reproduced, replay.why_not
    assert replay.is_same_today, replay.differences
    assert len(reranker.said) == calls, "a replay asks no reranker"
    assert search.request["reranker"] == "overlap/1"
    for hit, impression in zip(hits, search.impressions, strict=True):
        assert impression.signals.keys() == {part.leg for part in hit.explanation.contributions}
        assert impression.score == pytest.approx(hit.score)


async def test_a_reranked_search_explores_and_is_replayed(settings: Settings, database_url: str) -> None:
    """Exploration draws after the reranking, so that propensities are those of the shown hits."""
    profile = replace(RERANKED, exploration=Exploration(policy=PolicyName.THOMPSON_SLOTS, swaps=0.5))
    async with open_stored(settings, database_url, OverlapReranker()) as (platform, collection):
        for _ in range(5):
            hits = await collection.search(QUERY, profile=profile, limit=3)
            replay = await platform.replay(str(hits.retrieval_id))
            assert replay.is_reproduced, replay.why_not


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ([1.0], "1 scores for 3 texts"),
        ([float("nan")] * 3, "not a number from 0 to 1"),
        ([0.1, 0.2, 7.0], "7.0"),
        (["a", 0.1, 0.2], "not a number"),
        ([True, 0.1, 0.2], "True"),
        (0.5, "not a list of scores"),
        ({"a": 1}, "1 scores"),
        (RerankerUnavailableError("it is down"), "it is down"),
        (RuntimeError("secret text"), "raised RuntimeError"),
    ],
)
async def test_a_reranker_that_fails_or_lies_leaves_the_order(
    settings: Settings, database_url: str, answer: Any, note: str
) -> None:
    """The hits have the fused order, with a note, which is recorded."""
    async with open_stored(settings, database_url, FixedReranker(answer)) as (platform, collection):
        fused = await collection.search(QUERY, profile=LEXICAL)
        hits = await collection.search(QUERY, profile=RERANKED)
        replay = await platform.replay(str(hits.retrieval_id))
        search = await platform.retrieval(str(hits.retrieval_id))

    assert [(hit.item_id, hit.score) for hit in hits] == [(hit.item_id, hit.score) for hit in fused]
    [message] = hits.notes
    assert message.startswith("the hits were not reranked: ")
    assert note in message
    assert "secret" not in message
    assert list(search.notes) == [message]
    assert replay.is_reproduced, replay.why_not


async def test_a_slow_reranker_costs_its_budget_once(settings: Settings, database_url: str) -> None:
    """The breaker opens: the next searches do not wait, and ``outages`` says why."""
    reranker = FixedReranker(seconds=60)
    profile = replace(LEXICAL, rerank=Rerank(milliseconds=200))
    async with open_stored(settings, database_url, reranker) as (platform, collection):
        for _ in range(3):
            started = time.monotonic()
            hits = await collection.search(QUERY, profile=profile)
            assert time.monotonic() - started < 30
            assert hits.notes
        assert reranker.calls == 1
        [outage] = platform.outages
        assert (outage.role, outage.name) == ("reranker", "told/1")


async def test_a_measurement_waits_for_the_reranker(settings: Settings, database_url: str) -> None:
    """Neither the profile's time nor an open breaker ends it: the figures would be those of the fused order."""
    reranker = FixedReranker(seconds=0.4)
    profile = replace(LEXICAL, rerank=Rerank(milliseconds=100))
    async with open_stored(settings, database_url, reranker) as (platform, collection):
        assert (await collection.search(QUERY, profile=profile)).notes
        assert platform.outages
        queries, handle = [JudgedQuery(query_id=str(n), text=QUERY) for n in range(2)], handle_of(collection)
        report = await evaluate_collection(
            handle,
            queries,
            {"0": {"a": 1}, "1": {"a": 1}},
            metrics=parse_metrics("R@1"),
            profile=profile,
        )
    assert not report.notes
    assert reranker.calls == 3


async def test_nothing_is_sent_without_a_profile_or_to_another_model(settings: Settings, database_url: str) -> None:
    """A reranker that is configured is not asked by that alone; nor one that the profile does not mean."""
    reranker = OverlapReranker()
    async with open_stored(settings, database_url, reranker) as (_, collection):
        assert not (await collection.search(QUERY)).notes
        other = replace(RERANKED, rerank=Rerank(model="cohere/rerank-v3.5"))
        hits = await collection.search(QUERY, profile=other)
        [note] = hits.notes
        assert note == (
            "the hits were not reranked: the profile asks for cohere/rerank-v3.5, and overlap/1 is configured; "
            "configure the one, or change rerank.model in the profile"
        )
        assert not reranker.said
        own = replace(RERANKED, rerank=Rerank(model="overlap/1"))
        assert not (await collection.search(QUERY, profile=own)).notes
        assert len(reranker.said) == 1


async def test_without_a_reranker_or_words_a_note_says_so(settings: Settings, database_url: str) -> None:
    """The search is answered all the same."""
    async with open_stored(settings, database_url) as (_, collection):
        hits = await collection.search(QUERY, profile=RERANKED)
        assert hits.notes == ("the hits were not reranked: there is no reranker; set RETRIEVAL_RERANKER",)
    async with open_stored(settings, database_url, OverlapReranker()) as (_, collection):
        recent = replace(RERANKED, legs={"rated": 1.0})
        assert (await collection.search("", profile=recent)).notes == (
            "the hits were not reranked: the search has no words",
        )
        assert not (await collection.search("nothing has these words xyzzy", profile=RERANKED)).hits


async def test_a_stored_profile_reranks_every_search(settings: Settings, database_url: str) -> None:
    """Searches of one call, pages, groups and sync ones too."""
    reranker = OverlapReranker()
    async with open_stored(settings, database_url, reranker) as (_, collection):
        await collection.set_profile(RERANKED)
        each = await collection.search_each([QUERY, "log files disk"])
        assert [ids(answer)[0] for answer in each] == ["b", "c"]
        first = await collection.search(QUERY, limit=2, after="")
        second = await collection.search(QUERY, limit=2, after=first.next)
        assert [*ids(first), *ids(second)] == ids(await collection.search(QUERY))
        assert ids(await collection.search(QUERY, group_by="status")) == ["b"]
    assert all(texts for texts in reranker.said)

    def ask() -> list[str]:
        own_settings = settings.changed(database_url=SecretStr(database_url), embedder="hashing")
        with plain.connect(settings=own_settings, reranker=OverlapReranker()) as platform:
            return ids(platform.collection("docs").search(QUERY))

    assert (await asyncio.to_thread(ask))[0] == "b"


async def test_a_comparison_uses_recorded_scores_where_it_has_them(settings: Settings, database_url: str) -> None:
    """Only recorded scores of the reranker can tell what another profile would have shown."""
    async with open_stored(settings, database_url, OverlapReranker()) as (platform, collection):
        hits = await collection.search(QUERY, profile=RERANKED, limit=1)
        await collection.search(QUERY, profile=replace(LEXICAL, recording=Recording(wait=True)), limit=1)
        await platform.recorded()
        stored_id = collection._handle.stored.collection_id  # noqa: SLF001 - the tables know it by number
        async with platform.database.transaction(platform.tenant_id) as connection:
            since = datetime.now(UTC) - timedelta(days=1)
            plainly, reranked = [pool async for pool in read_pools(connection, stored_id, since=since, most=10)]
    half = NamedProfile(name="half", profile=replace(RERANKED, rerank=Rerank(weight=0.5)))
    other = NamedProfile(name="other", profile=replace(RERANKED, rerank=Rerank(model="cohere/rerank-v3.5")))
    without = NamedProfile(name="without", profile=LEXICAL)

    assert target_slate(reranked, half) == {hits[0].item_id: 1.0}
    assert not isinstance(target_slate(reranked, without), Unanswerable)
    assert target_slate(reranked, other) is Unanswerable.RERANKED
    assert target_slate(plainly, half) is Unanswerable.RERANKED


@pytest.mark.parametrize("shape", ["cohere", "jina", "voyage", "tei"])
async def test_an_endpoint_reranks_and_its_faults_degrade(settings: Settings, database_url: str, shape: str) -> None:
    """By settings alone, with each of the four shapes; the key goes into the header, and nowhere else."""
    async with RerankServer() as server:
        options: dict[str, Any] = {
            "reranker": shape,
            "reranker_model": "" if shape == "tei" else "small",
            "reranker_api_key": SecretStr(KEY),
            "reranker_base_url": f"{server.url}/{shape}",
        }
        async with open_stored(settings, database_url, **options) as (_, collection):
            assert ids(await collection.search(QUERY, profile=RERANKED))[0] == "b"
            [(path, headers, body)] = server.received
            assert (path, headers["authorization"]) == (shape, f"Bearer {KEY}")
            assert KEY not in str(body)
            texts = body["texts" if shape == "tei" else "documents"]
            assert len(texts) == 3
            row = {"index": 9, "relevance_score": 0.5, "score": 0.5}
            for fault in (says([row] * 3), says({"results": []}), says({"message": KEY}, 401), says("text")):
                server.faults.append(fault)
                [note] = (await collection.search(QUERY, profile=RERANKED)).notes
                assert KEY not in note
            server.faults.extend([is_cut, says({}, 500)])
            hits = await collection.search(QUERY, profile=replace(LEXICAL, rerank=Rerank(milliseconds=5000)))
            assert "tried 2 times" in hits.notes[0]
            assert not (await collection.search(QUERY, profile=RERANKED)).notes
            server.faults.append(hangs)
            profile = replace(LEXICAL, rerank=Rerank(milliseconds=200))
            [note] = (await collection.search(QUERY, profile=profile)).notes
            assert "within 0.2 s; raise rerank.milliseconds" in note


async def test_a_callers_reranker_stays_open_and_an_invalid_one_is_refused(
    settings: Settings, database_url: str
) -> None:
    """The giver closes it."""
    reranker = OverlapReranker()
    async with open_stored(settings, database_url, reranker) as (platform, _):
        assert platform.reranker is reranker
    assert not reranker.closed
    with pytest.raises(ConfigurationError, match="RETRIEVAL_RERANKER"):
        connect(settings=settings, reranker="cohere")  # type: ignore[arg-type]
