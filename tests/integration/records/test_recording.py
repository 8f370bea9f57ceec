"""Searches are recorded and sampled behind the answer, and neither can break a search."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import pytest

from retrieval import Collection, Context, EmbeddingSpace, Platform, Profile, SearchResult, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store import deadline
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.records import recording_statement, recordings
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.adapters.store.search import recall
from retrieval.adapters.store.search.recall import Sample, latest_samples
from retrieval.adapters.store.tables import retrievals
from retrieval.collection import handle_of
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.records.recorded import RecordedSearch
from retrieval.domain.records.retrieval_id import time_of
from retrieval.domain.records.search_record import Impression
from retrieval.domain.search.diversity import Refining
from retrieval.domain.search.filters import Contains, Or
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.domain.search.profile_parts import Combination, Exploration, Learned, PolicyName, Recording
from retrieval.engine import recorder as sampling
from retrieval.engine.record import EncodedRecord
from retrieval.engine.recorder import MOST_SAMPLES_WAITING
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from retrieval.services.indexes import IndexOutcome, keep_index
from tests.support.database import SCHEMA
from tests.support.jobs import target_of
from tests.support.recording import answered_search

STARTED = datetime.now(UTC)


async def _fill(platform: Platform) -> Collection:
    collection = await platform.collection("docs")
    await collection.add([{"_id": f"i{n}", "text": f"word{n % 7} common", "group": n % 3} for n in range(30)])
    return collection


async def _smoke(collection: Collection) -> list[SearchResult]:
    """Searches that differ in everything that a search can differ in."""
    own = Profile(legs={"lexical": 1.0}, recording=Recording(pool=3))
    both = {"dense": 1.0, "lexical": 1.0}
    summed = replace(own, legs=both, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM))
    contexts = [Context(), Context(domain="d", complexity=0.7, actor="ann", session="s", backtracks=1, generated=True)]
    return [
        await collection.search("common word1", context=contexts[0]),
        await collection.search('"word2 common" -word5', where={"group": [0, 1]}, limit=3, context=contexts[1]),
        await collection.search(vector=np.ones(256), legs=["dense", "lexical"], limit=2),
        await collection.search("word3", profile=own, group_by="group"),
        await collection.search("nothing has such words", legs=["lexical"]),
        await collection.search("word4", profile=summed),
        await collection.search("word4", profile=replace(summed, refining=Refining(share=0.3))),
    ]


async def _record_of(platform: Platform, result: SearchResult) -> RecordedSearch:
    assert result.retrieval_id is not None
    search = await find_recorded(platform.database, platform.tenant_id, result.retrieval_id)
    assert search is not None
    return search


def _values(records: list[Any], name: str) -> set[str]:
    return {repr(getattr(record, name)) for record in records}


async def _learned(platform: Platform) -> list[SearchResult]:
    """Searches of a collection whose items were judged: before a model of that, with it, and exploring."""
    collection = await platform.collection("learning")
    await collection.add([{"_id": f"i{n:02}", "text": f"common text word{n % 9} word{n % 7}"} for n in range(100)])
    searches = await collection.search_each(
        [f"common word{n % 9} q{n}" for n in range(60)], context=Context(domain="shop")
    )
    events = [
        Feedback(retrieval_id=search.retrieval_id, item_id=hit.item_id, helpful=int(hit.item_id[1:]) % 2 == 0)
        for search in searches
        for hit in search
    ]
    await platform.feedback_each(events)
    for job in ("clusters", "learn"):
        report = await run_job(platform.workplace, job_named(job), await target_of(platform, collection))
        assert report.outcome == "done"
    await collection.refresh()
    explored = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, swaps=1.0)
    exploring = replace(collection.profile, exploration=explored)
    stacked = replace(collection.profile, learned=Learned(combination=Combination.LOGIT_STACK))
    later = [await collection.search(f"common word{n}", profile=exploring) for n in range(2)]
    later.append(await collection.search("common word3", profile=stacked))
    return [searches[0], await collection.search("common word3"), *later]


async def test_every_column_is_filled_and_distinguishes_searches(platform: Platform) -> None:
    """No column is the same for all of a few searches that differ: it would say nothing."""
    results = [*await _smoke(await _fill(platform)), *await _learned(platform)]
    await platform.recorded()
    recorded = [await _record_of(platform, result) for result in results]
    columns = {column.name for column in retrievals.columns} - {"pool_scores_exact"}
    assert {name for name in columns if len(_values(recorded, name)) == 1} == set()
    hits = [hit for search in recorded for hit in search.impressions]
    names = {field.name for field in fields(Impression)}
    assert {name for name in names if len(_values(hits, name)) == 1} == set()
    assert set().union(*(search.pool_signals for search in recorded)) == {
        *("legs", "ranks", "bests", "relevance", "scaled", "score", "eligible", "uses", "raw_successes"),
        *("learned", "effective_sample_size", "logit_mean", "affinity", "length", "propensity"),
    }


async def test_a_record_says_what_the_caller_saw(platform: Platform) -> None:
    """Hits, scores, contributions, path, notes and times are those of the answer."""
    collection = await _fill(platform)
    result = await collection.search("common word1", vector=np.ones(256), limit=7)
    await platform.recorded()
    search = await _record_of(platform, result)
    assert [(impression.item_id, impression.rank, impression.score) for impression in search.impressions] == [
        (hit.item_id, hit.rank, hit.score) for hit in result
    ]
    assert search.impressions[0].signals == {
        part.leg: {"rank": part.rank, "raw": part.raw_score, "weight": part.weight, "value": part.value}
        for part in result[0].explanation.contributions
    }
    assert search.pool_items[:7] == [hit.item_id for hit in result]
    assert (search.hits, search.path, tuple(search.notes)) == (7, result.path, result.notes)
    assert search.timings_ms == result.timings_ms
    assert search.retrieval_time_ms == result.timings_ms["total"]
    assert search.profile_version == result.profile_version
    assert search.vector == pytest.approx([1 / 16] * 256, rel=1e-3)
    assert search.retrieved_at == time_of(search.retrieval_id)
    assert STARTED - timedelta(seconds=1) <= search.retrieved_at <= datetime.now(UTC) + timedelta(seconds=1)


async def test_the_parts_of_a_stacks_scores_follow_from_the_record(platform: Platform) -> None:
    """The record keeps only the candidates and the stack's weights, from which the parts follow."""
    result = (await _learned(platform))[-1]
    await platform.recorded()
    search = await _record_of(platform, result)
    contributions = [hit.explanation.contributions for hit in result]
    assert search.shown_signals == {part.leg: part.weight for part in contributions[0]}
    assert {"relevance", "affinity", "length"} < set(search.shown_signals or ())
    for impression, parts in zip(search.impressions, contributions, strict=True):
        assert {name: part["rank"] for name, part in impression.signals.items()} == {
            part.leg: part.rank for part in parts
        }
        for part in parts:
            signal = impression.signals[part.leg]
            assert (signal["raw"], signal["weight"], signal["value"]) == pytest.approx(
                (part.raw_score, part.weight, part.value)
            )


async def test_many_searches_of_one_call_are_recorded_each(platform: Platform) -> None:
    """In one context, under an identifier each."""
    collection = await _fill(platform)
    results = await collection.search_each(["word1", "word2", "word3"], context=Context(session="s"))
    await platform.recorded()
    recorded = [await _record_of(platform, result) for result in results]
    assert [search.query for search in recorded] == ["word1", "word2", "word3"]
    assert {search.session for search in recorded} == {"s"}
    assert platform.recording.recorded == len({search.retrieval_id for search in recorded}) == 3


async def test_only_the_share_that_the_profile_asks_for_is_recorded(platform: Platform) -> None:
    """At 0 no search is recorded; at one half, about half are. An unrecorded search has no identifier."""
    collection = await _fill(platform)
    none = Profile(recording=Recording(rate=0))
    assert (await collection.search("common", profile=none)).retrieval_id is None
    half = replace(none, recording=Recording(rate=0.5))
    results = await collection.search_each(["common"] * 100, profile=half)
    assert 20 <= sum(result.retrieval_id is not None for result in results) <= 80
    assert (await collection.unrecorded().search("common")).retrieval_id is None


@pytest.mark.usefixtures("waiting")
async def test_closing_the_platform_records_what_waits(database_url: str, settings: Settings) -> None:
    """A program that ends after its search has recorded it, and one that it began before."""
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await _fill(platform)
        result = await collection.search("common")
        assert platform.recording.waiting == 1
        running = asyncio.create_task(collection.search("common"))
        await asyncio.sleep(0)
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
        for answered in (result, await running):
            assert (await _record_of(platform, answered)).query == "common"


async def test_a_search_that_waits_is_on_record_when_it_answers(platform: Platform) -> None:
    """Nothing has to be flushed first."""
    collection = await _fill(platform)
    await collection.set_profile(replace(collection.profile, recording=Recording(wait=True)))
    result = await collection.search("common")
    assert platform.recording.waiting == 0
    assert (await _record_of(platform, result)).query == "common"


async def test_a_record_that_was_sent_twice_is_stored_once(platform: Platform) -> None:
    """An answer of the database that got lost does no harm, nor does it count losses twice; others may come along."""
    stored = await (await _fill(platform)).refresh()
    chance = random.Random(1)
    first, other = (
        recording_statement.encoded(answered_search(chance=chance, collection_id=stored.collection_id).record())
        for _ in range(2)
    )
    losses = {(stored.collection_id, datetime.now(UTC).date(), "overflow"): 2}
    for texts in ([first], [first, other]):
        stored_ids = await recordings.store_recordings(platform.database, platform.tenant_id, texts, losses)
        assert len(stored_ids) == len(texts)
    (status,) = await platform.statistics()
    assert status.unrecorded == {"overflow": 2}


async def test_a_row_is_sent_in_the_columns_and_types_of_its_table(platform: Platform) -> None:
    """In one order; the vector alone has another type, for an extension's has another number in each database."""
    query = (
        "SELECT attname::text, replace(format_type(atttypid, NULL), 'timestamp with time zone', 'timestamptz') "
        "FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"
    )
    async with platform.database.transaction(platform.tenant_id) as connection:
        table, row_columns = [
            await (await connection.execute(query, (name,))).fetchall() for name in ("retrievals", "sent_retrieval")
        ]
    assert row_columns == list(recording_statement.COLUMNS.items())
    assert [column for column in table if column not in row_columns] == [("vector", "halfvec")]


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records wait until somebody asks for them, however long the test takes."""
    monkeypatch.setattr("retrieval.engine.recorder.LINGER_SECONDS", 3600.0)


@pytest.mark.usefixtures("waiting")
async def test_a_record_waits_without_the_texts_of_its_hits(platform: Platform) -> None:
    """They may be large: hits that came with their candidates, and hits that were read behind the fusion."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(n), "text": f"common {'secret' * 9} {n}"} for n in range(5)])
    for legs in (["lexical"], ["lexical", "dense"]):
        assert "secret" in (await collection.search("common", legs=legs))[0].body
    await asyncio.sleep(0)  # a record is encoded after its answer
    waiting = list(handle_of(collection).shared.recorder._queue)  # noqa: SLF001 - nobody else sees them
    assert [type(search.answered) for search in waiting] == [EncodedRecord, EncodedRecord]
    assert "secret" not in repr(waiting)
    await platform.recorded()


@asynccontextmanager
async def _without_the_table(url: str) -> AsyncIterator[None]:
    """Meanwhile nothing can be recorded."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"REVOKE INSERT ON {SCHEMA}.retrievals FROM {SCHEMA}_app")
        try:
            yield
        finally:
            await connection.execute(f"GRANT INSERT ON {SCHEMA}.retrievals TO {SCHEMA}_app")


@pytest.mark.parametrize("waits", [False, True])
async def test_a_search_whose_record_is_refused_answers_as_always(
    database_url: str, platform: Platform, *, waits: bool
) -> None:
    """The loss is counted, and the next record stores the count; a search with ``wait`` has a note."""
    collection = await _fill(platform)
    await collection.set_profile(replace(collection.profile, recording=Recording(wait=waits)))
    async with _without_the_table(database_url):
        result = await collection.search("common", limit=5)
        await platform.recorded()
    assert len(result) == 5
    assert (result.retrieval_id is None, bool(result.notes)) == (waits, waits)
    assert platform.recording.lost == {"refused": 1}
    await collection.search("common")
    await platform.recorded()
    (status,) = await platform.statistics()
    assert status.unrecorded == {"refused": 1}


async def test_a_database_that_stores_nothing_answers_searches(
    database_url: str, platform: Platform, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By words and by meaning: neither the record nor the vector of a new query has to be stored."""
    await _fill(platform)
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as reading:
        result = await (await reading.collection("docs", create=False)).search("common word1")
        await reading.recorded()
    assert {part.leg for part in result[0].explanation.contributions} >= {"dense", "lexical"}
    assert reading.recording.lost == {"refused": 1}


@pytest.mark.usefixtures("waiting")
async def test_records_outlive_connections_that_are_cut_off(platform: Platform, database_url: str) -> None:
    """The server closes every connection while records wait: they are stored on new ones, each once."""
    collection = await _fill(platform)
    results = [await collection.search("common") for _ in range(3)]
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = ''"
        )
    await platform.recorded()
    assert [(await _record_of(platform, result)).query for result in results] == ["common"] * 3
    assert platform.recording.lost == {}


@pytest.mark.usefixtures("waiting")
async def test_closing_ends_while_another_session_locks_the_records(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that searched ends, and its statement with it."""
    monkeypatch.setattr(deadline, "CLOSING_SECONDS", 0.3)
    sampled = settings.changed(recall_sample_rate=1.0)
    async with await psycopg.AsyncConnection.connect(database_url) as other, asyncio.timeout(20):
        async with connect(database_url, settings=sampled, embedder=HashingEmbedder()) as platform:
            collection = await _fill(platform)
            await other.execute(f"LOCK TABLE {SCHEMA}.retrievals IN ACCESS EXCLUSIVE MODE".encode())
            assert await collection.search("common")
        waiting = await other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        assert await waiting.fetchone() == (0,)
    assert platform.recording.lost == {"unreachable": 1}


@pytest.mark.usefixtures("waiting")
async def test_searches_of_a_collection_that_was_removed_are_counted_as_lost(platform: Platform) -> None:
    """The other records are stored."""
    collection = await _fill(platform)
    other = await platform.collection("other")
    await other.add([{"_id": "1", "text": "common"}])
    await other.search("common")
    surviving = await collection.search("common")
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("DELETE FROM collections WHERE name = 'other'")
    await platform.recorded()
    assert (await _record_of(platform, surviving)).query == "common"
    assert platform.recording.lost == {"refused": 1}


async def test_a_filter_that_cannot_be_written_down_is_recorded_as_such(platform: Platform) -> None:
    """The search is recorded, and its record says that it cannot be repeated."""
    collection = await _fill(platform)
    result = await collection.search("common", where=Or((Contains("word1"), Contains("word2"))))
    await platform.recorded()
    assert (await _record_of(platform, result)).request["is_whole"] is False


async def test_another_tenant_finds_no_record(platform: Platform, database_url: str, settings: Settings) -> None:
    """An identifier alone opens nothing."""
    result = await (await _fill(platform)).search("common")
    await platform.recorded()
    assert result.retrieval_id is not None
    other = settings.changed(tenant=f"{settings.tenant}-other")
    async with connect(database_url, settings=other) as stranger:
        assert await find_recorded(stranger.database, stranger.tenant_id, result.retrieval_id) is None


SPACE = EmbeddingSpace(provider="test", model="sampling", dimensions=4)
VECTORS = np.random.default_rng(3).normal(size=(40, 4)).astype(np.float32)


async def _indexed(platform: Platform) -> Collection:
    """A collection of 40 items whose HNSW index searches walk."""
    collection = await platform.collection("docs", space=SPACE)
    await collection.add([{"_id": str(n), "text": f"w{n}", "even": n % 2 == 0} for n in range(40)], embeddings=VECTORS)
    stored = await collection.refresh()
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.BUILT
    await collection.refresh()
    return collection


async def _samples(url: str, settings: Settings) -> list[Sample]:
    async with connect(url, settings=settings.changed(recall_sample_rate=0)) as platform:
        stored = await (await platform.collection("docs")).refresh()
        assert stored.space is not None
        return await latest_samples(
            CollectionPlace(platform.database, platform.tenant_id, stored.collection_id),
            stored.space.space_id,
            most=100,
        )


async def test_searches_that_walked_an_index_are_kept_at_the_rate(database_url: str, settings: Settings) -> None:
    """All of them at rate 1, stored by the time the platform is closed; exact ones teach nothing."""
    async with connect(database_url, settings=settings.changed(recall_sample_rate=1)) as platform:
        collection = await _indexed(platform)
        assert (await collection.search(vector=VECTORS[0], legs=["dense"], limit=5)).path == "approximate"
        assert (await collection.search("w3", legs=["lexical"])).path == "none"
        assert (await collection.search(vector=VECTORS[1], legs=["dense"], where={"item_id": "1"})).path == "exact"
    samples = await _samples(database_url, settings)
    assert [(leg.limit, leg.condition) for leg in samples] == [(5, None)]
    assert samples[0].vector == pytest.approx(VECTORS[0] / np.linalg.norm(VECTORS[0]), abs=1e-3)


async def test_any_search_of_a_batch_may_be_kept(database_url: str, settings: Settings) -> None:
    """More are drawn than are stored at the same time; those are not always the first."""
    async with connect(database_url, settings=settings.changed(recall_sample_rate=1)) as platform:
        collection = await _indexed(platform)
        await collection.search_each([""] * 40, vectors=list(VECTORS), legs=["dense"], limit=5)
    directions = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    kept = {int(np.argmax(directions @ sample.vector)) for sample in await _samples(database_url, settings)}
    assert len(kept) == MOST_SAMPLES_WAITING
    assert max(kept) >= MOST_SAMPLES_WAITING


async def test_at_rate_zero_nothing_is_kept(database_url: str, settings: Settings) -> None:
    """Without recording, no sample is stored."""
    async with connect(database_url, settings=settings.changed(recall_sample_rate=0)) as platform:
        collection = await _indexed(platform)
        await collection.search(vector=VECTORS[0], legs=["dense"], limit=5)
    assert await _samples(database_url, settings) == []


async def test_a_sample_that_cannot_be_stored_does_not_break_the_search(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The search returns its hits, and the log has the error."""

    async def failing(*_: Any, **__: Any) -> None:
        raise DatabaseUnreachableError("away")

    monkeypatch.setattr(sampling, "keep_sample", failing)
    assert recall.keep_sample is not failing
    with caplog.at_level("INFO", logger="retrieval.engine.recorder"):
        async with connect(database_url, settings=settings.changed(recall_sample_rate=1)) as platform:
            collection = await _indexed(platform)
            assert len(await collection.search(vector=VECTORS[0], legs=["dense"], limit=5)) == 5
    assert "a sample was not stored: away" in caplog.text
