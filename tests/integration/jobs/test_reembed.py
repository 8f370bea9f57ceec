"""A collection moves to another embedding space of the same dimensions, so mixed vectors would raise no error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.collections import collection_in_space
from retrieval.adapters.store.learning.clusters import keep_centroids, read_centroids
from retrieval.adapters.store.search.reembeddings import (
    REMOVING,
    ReembeddingState,
    Switching,
    note_reembedding,
    set_tokens_aside,
)
from retrieval.adapters.store.search.vectors import StoredSpace, count_pending, register_space, sample_vectors
from retrieval.collection import handle_of
from retrieval.domain.errors import EmbedderRejectedError, EmbedderUnavailableError, InvalidRequestError, NotFoundError
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.domain.search.relevance import SHIPPED
from retrieval.jobs.reembed import condensed_ndcg
from retrieval.jobs.registry import JOBS
from retrieval.jobs.run import run_job
from retrieval.services.indexes import keep_index
from retrieval.services.items import set_status
from retrieval.services.workplace import JobTarget

ITEMS = 60


class Counting(HashingEmbedder):
    """The target's embedder: it counts its texts, and can be unavailable or refuse texts."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.texts: list[str] = []
        self.queries: list[str] = []
        self.is_away = self.has_no_answer_to_queries = self.refuses_all = False
        self.refused = ""
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Embed like the base class."""
        if self.meanwhile is not None:
            once, self.meanwhile = self.meanwhile, None
            await once()
        if self.is_away or (self.has_no_answer_to_queries and role is TextRole.QUERY):
            raise EmbedderUnavailableError("the service is away")
        if self.refuses_all or self.refused in texts:
            raise EmbedderRejectedError("the service refuses it")
        (self.texts if role is TextRole.DOCUMENT else self.queries).extend(texts)
        return await super().embed(texts, role)


@pytest.fixture
def counting() -> Counting:
    """The embedder of the target space."""
    return Counting()


@pytest.fixture
async def moving(database_url: str, settings: Settings, counting: Counting) -> AsyncIterator[Platform]:
    """Another process of the same tenant, whose new collections are in the target space."""
    async with connect(database_url, settings=settings, embedder=counting) as opened:
        yield opened


def text(number: int) -> str:
    """A text whose words no other one has."""
    return f"subject{number:03} detail{number * 7:04} note{number * 13:04}"


async def fill(platform: Platform, items: int = ITEMS) -> Collection:
    """A collection in the former space, where two items have the same text."""
    collection = await platform.collection("docs", profile=None)
    await collection.add([{"_id": f"{number:03}", "text": text(max(number, 1))} for number in range(items)])
    return collection


async def first(collection: Collection, number: int) -> tuple[str, float]:
    """The nearest item to a text, and how near; the item that has it is at 1 where the spaces are the same."""
    [hit, *_] = await collection.search(text(number), legs=["dense"], limit=1)
    return hit.item_id, hit.score


async def pending(platform: Platform, collection: Collection, space: StoredSpace) -> int:
    """Items that have no vector of their text in the space."""
    return await count_pending(
        CollectionPlace(platform.database, platform.tenant_id, (await collection.refresh()).collection_id), space
    )


async def test_the_whole_way(platform: Platform, moving: Platform, counting: Counting) -> None:
    """Begun, filled, compared, switched for another process at once, returned from, switched again, removed."""
    old, new = await fill(platform), await moving.collection("docs")
    for number in range(2, 12):
        await old.search(text(number))
    await platform.recorded()
    cost = await moving.reembed_cost("docs", price=2.0)
    assert (cost.items, cost.texts) == (ITEMS, ITEMS - 1)
    assert cost.price == pytest.approx(cost.tokens * 2 / 1e6, abs=1e-4)
    assert counting.texts == []

    begun = await moving.reembed("docs", batch_texts=16)
    assert (begun.state, begun.pending) == (ReembeddingState.FILLING, ITEMS)
    ready = await moving.reembedding("docs", "run")
    assert (ready.state, ready.pending, ready.note) == (ReembeddingState.READY, 0, "")
    assert sorted(counting.texts) == sorted({text(max(number, 1)) for number in range(ITEMS)})
    assert ready.paid_texts == ITEMS - 1 + len(counting.queries)
    assert ready.comparison is not None
    assert (ready.comparison["questions"], ready.comparison["recall"]) == (10, 1.0)
    assert ready.comparison["overlap"] > 0

    assert (await old.info()).space != (target := ready.target)
    switched = await moving.reembedding("docs", "switch")
    assert (switched.state, switched.pending) == (ReembeddingState.SWITCHED, 0)
    assert switched.removes_at is not None
    with pytest.raises(InvalidRequestError, match=r"is switched still; .* retrieval reembed docs finish"):
        await moving.reembed("docs", to=HashingEmbedder().space)
    # The first platform read the collection less than a second ago, and has no embedder for the target.
    assert (await new.info()).space == target
    for number in range(2, 8):
        item_id, score = await first(new, number)
        assert (item_id, round(score, 2)) == (f"{number:03}", 1.0)

    back = await moving.reembedding("docs", "rollback")
    assert back.state is ReembeddingState.READY
    assert (await first(new, 5))[0] == (await first(old, 5))[0] == "005"
    assert (await old.info()).space == ready.former
    await moving.reembedding("docs", "switch")
    assert (await moving.reembedding("docs", "finish")).state is ReembeddingState.REMOVING
    state = await moving.reembedding("docs", "run")
    assert (state.state, state.removes_at) == (ReembeddingState.DONE, None)
    stored = await new.refresh()
    former = await register_space(moving.database, HashingEmbedder().space)
    assert (
        await sample_vectors(CollectionPlace(moving.database, moving.tenant_id, stored.collection_id), former, 10) == []
    )
    assert (await first(new, 9))[0] == "009"
    assert len(counting.texts) == ITEMS - 1, "a text was paid for twice"


async def test_a_reader_that_has_not_heard_of_the_switch_never_compares_two_spaces(
    platform: Platform, moving: Platform
) -> None:
    """Its statement detects the move; the reader loads the collection again, and searches in the other space."""
    await fill(platform)
    reader = await moving.collection("docs")
    assert round((await first(reader, 3))[1], 2) == 1.0
    await moving.reembed("docs")
    await moving.reembedding("docs", "run")
    before = await reader.refresh()
    # One row changes, whatever the reader's copy is.
    handle = handle_of(reader)
    await moving.reembedding("docs", "switch")
    handle.stored, handle.embedder = before, handle.shared.embedders(before.space)
    handle._read_at = handle.shared.clock()  # noqa: SLF001 - it believes that it has just read
    item_id, score = await first(reader, 3)
    assert (item_id, round(score, 2)) == ("003", 1.0)
    assert handle.stored.space != before.space
    handle.stored, handle.embedder = before, handle.shared.embedders(before.space)
    handle._read_at = handle.shared.clock()  # noqa: SLF001
    each = await reader.search_each([text(4), text(5)], legs=["dense"], limit=1)
    assert [result[0].item_id for result in each] == ["004", "005"]
    assert all(round(result[0].score, 2) == 1.0 for result in each)


async def test_concurrent_writes_are_in_both_spaces(platform: Platform, moving: Platform) -> None:
    """Added, changed, archived and removed items, and facets; on neither side a vector is of a former text."""
    old = await fill(platform)
    await moving.reembed("docs")
    await moving.reembedding("docs", "run")
    target = await register_space(moving.database, HashingEmbedder(seed=1).space)
    former = await register_space(moving.database, HashingEmbedder().space)

    await old.add([{"_id": "003", "text": "another thing entirely"}, {"_id": "new", "text": "fresh words"}])
    await old.add([{"_id": "004", "text": text(4), "tags": ["red"]}])
    await old.delete(["005"])
    await set_status(handle_of(old), "006", "archived")
    assert await pending(platform, old, target) == 2
    assert "003" not in await vectors(moving, old, target)
    assert not {"005", "006"} & await vectors(moving, old, target)
    assert await pending(platform, old, former) == 0
    red = await old.search(text(4), legs=["dense"], where={"tags": ["red"]})
    assert [hit.item_id for hit in red] == ["004"]

    switched = await moving.reembedding("docs", "switch")
    assert switched.state is ReembeddingState.SWITCHED
    new = await moving.collection("docs")
    assert await pending(moving, new, target) == 0
    assert [hit.item_id for hit in await new.search("another thing entirely", legs=["dense"], limit=1)] == ["003"]
    red = await new.search(text(4), legs=["dense"], where={"tags": ["red"]})
    assert [hit.item_id for hit in red] == ["004"]

    await new.add([{"_id": "007", "text": "after the switch"}])
    assert "007" not in await vectors(moving, new, former)
    assert await JOBS["reembed"].is_needed(moving.workplace, await target_of(moving))
    await moving.reembedding("docs", "run")
    assert await pending(moving, new, former) == 0
    await new.add([{"_id": "008", "text": "before the return"}])
    await moving.reembedding("docs", "rollback")
    for query, item_id in (("after the switch", "007"), ("before the return", "008")):
        assert [hit.item_id for hit in await new.search(query, legs=["dense"], limit=1)] == [item_id]


async def test_a_writer_that_has_not_heard_of_the_switch_leaves_nothing_behind(
    platform: Platform, moving: Platform
) -> None:
    """Its vectors go to the former space, while that is kept; the item is pending in the new one until the job runs."""
    collection = await fill(platform)
    believed = await collection.refresh()
    await moving.reembed("docs")
    await moving.reembedding("docs", "run")
    await moving.reembedding("docs", "switch")
    target = await register_space(moving.database, HashingEmbedder(seed=1).space)
    former = believed.space
    assert former is not None

    handle = handle_of(collection)

    async def write(item: dict[str, Any]) -> None:
        handle.stored, handle.embedder = believed, handle.shared.embedders(former)
        handle._read_at = handle.shared.clock()  # noqa: SLF001
        await collection.add([item])

    await write({"_id": "003", "text": "another thing entirely"})
    assert "003" not in await vectors(moving, collection, target), "a vector of a former text was left"
    assert "003" in await vectors(moving, collection, former)
    await moving.reembedding("docs", "run")
    assert await pending(moving, collection, target) == 0
    await moving.reembedding("docs", "finish")
    await moving.reembedding("docs", "run")
    await write({"_id": "004", "text": "more of it"})
    assert await vectors(moving, collection, former) == set(), "a vector was stored in a space that is gone"


async def test_the_budget_of_a_day_is_kept(moving: Platform, platform: Platform, counting: Counting) -> None:
    """Tokens are reserved before the embedder is called; the next day the job continues."""
    await fill(platform)
    days = [datetime.fromisoformat("2031-05-01T12:00:00+00:00")]
    workplace = replace(moving.workplace, now=lambda: days[0])
    tokens = (await moving.reembed_cost("docs")).tokens
    budget = tokens // 3
    await moving.reembed("docs", tokens_a_day=budget, batch_texts=7)
    paid = []
    for _ in range(6):
        report = await run_job(workplace, JOBS["reembed"], await target_of(moving))
        paid.append(len(counting.texts))
        if report.details["state"] == ReembeddingState.READY.value:
            break
        assert "budget" in report.details["note"]
        again = await run_job(workplace, JOBS["reembed"], await target_of(moving))
        assert (again.details["embedded"], len(counting.texts)) == (0, paid[-1])
        days[0] += timedelta(days=1)
    assert len(paid) == 4, paid
    assert max(later - sooner for sooner, later in zip([0, *paid], paid, strict=False)) <= ITEMS / 3
    assert len(counting.texts) == ITEMS - 1


async def test_a_text_larger_than_the_budget_is_named(moving: Platform, platform: Platform) -> None:
    """Otherwise the move would wait for ever."""
    await fill(platform, 3)
    await moving.reembed("docs", tokens_a_day=1)
    state_found = await moving.reembedding("docs", "run")
    assert "more than the budget of a day" in state_found.note


async def test_the_rate_is_kept(moving: Platform, platform: Platform) -> None:
    """A batch takes at least as long as its tokens may."""
    await fill(platform, 20)
    tokens = (await moving.reembed_cost("docs")).tokens
    await moving.reembed("docs", tokens_a_minute=tokens * 60, batch_texts=5)  # one second in all
    began = asyncio.get_running_loop().time()
    assert (await moving.reembedding("docs", "run")).state is ReembeddingState.READY
    assert asyncio.get_running_loop().time() - began >= 1.0


async def test_what_an_aborted_run_waited_for_is_not_noted(
    moving: Platform, platform: Platform, counting: Counting
) -> None:
    """The run finds its embedder away, or its budget spent, after somebody has aborted the move."""
    await fill(platform)
    await moving.reembed("docs")
    counting.is_away = True
    counting.meanwhile = lambda: moving.reembedding("docs", "abort")
    overtaken = await moving.reembedding("docs", "run")
    assert (overtaken.state, overtaken.note) == (ReembeddingState.REMOVING, REMOVING)


async def test_a_reembedding_is_paused_resumed_and_aborted(
    moving: Platform, platform: Platform, counting: Counting
) -> None:
    """A paused move embeds nothing; an aborted one leaves no vector; a new one pays for no text again."""
    collection = await fill(platform)
    await moving.reembed("docs")
    assert (await moving.reembedding("docs", "pause")).is_paused
    assert not await JOBS["reembed"].is_needed(moving.workplace, await target_of(moving))
    await moving.reembedding("docs", "run")
    assert counting.texts == []
    place = CollectionPlace(moving.database, moving.tenant_id, (await target_of(moving)).collection.collection_id)
    await note_reembedding(place, "what a run that began before found", list(ReembeddingState))
    assert (await moving.reembedding("docs")).note == "paused"
    await moving.reembedding("docs", "resume")
    for refused in (moving.reembed, moving.reembed_cost):
        with pytest.raises(InvalidRequestError, match=r"is filling still; .* retrieval reembed docs abort"):
            await refused("docs")
    with pytest.raises(
        InvalidRequestError, match="cannot do 'rollback' now: it is filling; possible now: pause, switch, abort"
    ):
        await moving.reembedding("docs", "rollback")
    await moving.reembedding("docs", "run")
    given_up = await moving.reembedding("docs", "abort")
    assert (given_up.state, "a worker, or the action run, removes" in given_up.note) == (
        ReembeddingState.REMOVING,
        True,
    )
    with pytest.raises(InvalidRequestError, match=r"is removing still; .* retrieval reembed docs run"):
        await moving.reembed("docs")
    over = await moving.reembedding("docs", "run")
    assert (over.state, over.note) == (ReembeddingState.ABORTED, "")
    assert not await JOBS["reembed"].is_needed(moving.workplace, await target_of(moving))
    with pytest.raises(InvalidRequestError, match="it is aborted; possible now: to begin another one"):
        await moving.reembedding("docs", "switch")
    target = await register_space(moving.database, counting.space)
    assert await vectors(moving, collection, target) == set()
    calls = len(counting.texts)
    await moving.reembed("docs", switch=True)
    again = await moving.reembedding("docs", "run")
    assert (again.state, again.paid_texts, len(counting.texts)) == (ReembeddingState.SWITCHED, 0, calls)


async def test_an_embedder_that_is_away_is_waited_for(moving: Platform, platform: Platform, counting: Counting) -> None:
    """The note says so, searches go on, and the next run goes on."""
    collection = await fill(platform)
    await moving.reembed("docs")
    counting.is_away = True
    state_found = await moving.reembedding("docs", "run")
    assert (state_found.state, "away" in state_found.note) == (ReembeddingState.FILLING, True)
    assert (await first(collection, 8))[0] == "008"
    counting.is_away = False
    assert (await moving.reembedding("docs", "run")).state is ReembeddingState.READY


async def test_an_embedder_that_is_away_does_not_use_up_the_budget(
    moving: Platform, platform: Platform, counting: Counting
) -> None:
    """The tokens of texts without an answer are given back."""
    await fill(platform)
    await moving.reembed("docs", tokens_a_day=10_000)
    counting.is_away = True
    paid = [(await moving.reembedding("docs", "run")).paid_texts for _ in range(4)]
    assert paid == [0] * 4
    counting.is_away = False
    assert (await moving.reembedding("docs", "run")).state is ReembeddingState.READY
    assert len(counting.texts) == ITEMS - 1


async def test_a_refused_text_is_not_paid_for(moving: Platform, platform: Platform, counting: Counting) -> None:
    """The others are embedded; the note says what to do, and then the move proceeds."""
    collection = await fill(platform)
    tokens = (await moving.reembed_cost("docs")).tokens
    await moving.reembed("docs", tokens_a_day=tokens)
    counting.refused = text(7)
    runs = [await moving.reembedding("docs", "run") for _ in range(3)]
    assert [run.paid_texts for run in runs] == [ITEMS - 2] * 3
    assert {run.spent_today for run in runs} == {runs[0].paid_tokens}
    assert runs[0].paid_tokens < tokens
    assert runs[-1].note.startswith(
        "the embedder refuses 1 item: change, archive or remove what it refuses (item '007'"
    )
    [told] = [one.found for one in (await moving.doctor("docs")).findings if one.check == "reembed"]
    assert "is filling and waits: the embedder refuses 1 item" in told
    await collection.delete("007")
    assert (await moving.reembedding("docs", "run")).state is ReembeddingState.READY


async def test_an_embedder_that_refuses_every_text_spends_no_budget(
    moving: Platform, platform: Platform, counting: Counting
) -> None:
    """Else the tokens that every run books would use the budget up before the embedder is mended."""
    await fill(platform)
    await moving.reembed("docs", tokens_a_day=(await moving.reembed_cost("docs")).tokens)
    counting.refuses_all = True
    runs = [await moving.reembedding("docs", "run") for _ in range(3)]
    assert {(run.paid_texts, run.spent_today) for run in runs} == {(0, 0)}
    assert "abort, and begin again with another one" in runs[-1].note
    counting.refuses_all = False
    assert (await moving.reembedding("docs", "run")).state is ReembeddingState.READY


async def test_tokens_are_released_though_the_move_was_paused_meanwhile(moving: Platform, platform: Platform) -> None:
    """The embedder refused texts while somebody paused the move: they are not paid for either."""
    await fill(platform)
    await moving.reembed("docs")
    place = CollectionPlace(moving.database, moving.tenant_id, (await target_of(moving)).collection.collection_id)
    assert await set_tokens_aside(place, tokens=100, texts=3, today=moving.now.date())
    await moving.reembedding("docs", "pause")
    assert not await set_tokens_aside(place, tokens=100, texts=3, today=moving.now.date())
    assert await set_tokens_aside(place, tokens=-40, texts=-1, today=moving.now.date())
    paused = await moving.reembedding("docs")
    assert (paused.paid_tokens, paused.paid_texts, paused.spent_today) == (60, 2, 60)


async def test_the_comparison_waits_for_the_embedder(moving: Platform, platform: Platform, counting: Counting) -> None:
    """The note says so, the questions' tokens are not spent, and the next run compares."""
    collection = await fill(platform)
    await collection.search(text(9))
    await platform.recorded()
    await moving.reembed("docs")
    counting.has_no_answer_to_queries = True
    runs = [await moving.reembedding("docs", "run") for _ in range(3)]
    assert [run.note for run in runs] == ["the comparison waits for the embedder: the service is away"] * 3
    assert [run.paid_texts for run in runs] == [ITEMS - 1] * 3
    counting.has_no_answer_to_queries = False
    compared = await moving.reembedding("docs", "run")
    assert (compared.state, compared.comparison and compared.comparison["questions"]) == (ReembeddingState.READY, 1)


async def test_spaces_are_compared_by_verdicts(moving: Platform, platform: Platform) -> None:
    """Questions with feedback are compared by nDCG; the switch is automatic if quality is not lower."""
    collection = await fill(platform)
    for number in range(2, 6):
        hits = await collection.search(text(number))
        await platform.recorded()
        assert hits.retrieval_id is not None
        await platform.feedback(hits.retrieval_id, hits[0].item_id, helpful=True)
        await platform.feedback(hits.retrieval_id, hits[1].item_id, helpful=False)
    await moving.reembed("docs", switch=True)
    state = await moving.reembedding("docs", "run")
    assert state.comparison is not None
    assert (state.comparison["judged"], state.comparison["ndcg_in_use"], state.comparison["ndcg_target"]) == (
        4,
        1.0,
        1.0,
    )
    assert state.state is ReembeddingState.SWITCHED


def test_ndcg_of_what_is_judged() -> None:
    """Items without a verdict take no place."""
    assert condensed_ndcg(["x", "a", "y", "b"], {"a": 1.0, "b": 0.0}) == 1.0
    assert condensed_ndcg(["b", "a"], {"a": 1.0, "b": 0.0}) == pytest.approx(0.6309, abs=1e-4)
    assert condensed_ndcg(["c"], {"a": 1.0}) == 0.0
    assert condensed_ndcg(["c"], {}) == 0.0


async def test_the_index_is_there_before_the_switch(
    moving: Platform, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built concurrently in the target space, measured against exact search, and gone with the former space."""
    monkeypatch.setattr("retrieval.services.indexes.index_rows", lambda _dimensions: 50)
    collection = await fill(platform)
    stored = await collection.refresh()
    await keep_index(platform.database, platform.tenant_id, stored)
    await collection.search(text(3))
    await platform.recorded()
    await moving.reembed("docs")
    ready = await moving.reembedding("docs", "run")
    assert ready.comparison is not None
    assert (ready.comparison["is_exact"], ready.comparison["recall"]) == (False, 1.0)
    target = await register_space(moving.database, HashingEmbedder(seed=1).space)
    shadow = await collection_in_space(
        CollectionPlace(moving.database, moving.tenant_id, stored.collection_id), target.space_id
    )
    assert shadow is not None
    assert shadow.ann_index is not None
    await moving.reembedding("docs", "switch")
    assert (await (await moving.collection("docs")).refresh()).ann_index is not None
    await moving.reembedding("docs", "finish")
    assert stored.space is not None
    async with moving.database.only_one(f"indexes of {stored.space.table_name}"):
        state_held = await moving.reembedding("docs", "run")
        assert (state_held.state, "cannot be dropped" in state_held.note) == (ReembeddingState.REMOVING, True)
    state = await moving.reembedding("docs", "run")
    assert (state.state, state.note) == (ReembeddingState.DONE, "")
    async with moving.database.transaction(moving.tenant_id) as connection:
        name = f"{stored.space.table_name}_{stored.collection_id}_hnsw"
        assert await (await connection.execute("SELECT to_regclass(%s)", (name,))).fetchone() == (None,)


async def test_clusters_are_carried_over(moving: Platform, platform: Platform) -> None:
    """A cluster keeps its number and its items, and lies where these do; one without items is nowhere."""
    collection = await fill(platform)
    stored = await collection.refresh()
    assert stored.space is not None
    where = CollectionPlace(platform.database, platform.tenant_id, stored.collection_id)
    vectors_then = dict(await sample_vectors(where, stored.space, ITEMS))
    async with platform.database.transaction(platform.tenant_id) as connection:
        centroids = [vectors_then["002"], vectors_then["003"], vectors_then["004"]]
        await keep_centroids(connection, stored.collection_id, stored.space.space_id, centroids)  # type: ignore[arg-type]
        for item_id, cluster in (("002", 0), ("004", 2)):
            await connection.execute(
                "INSERT INTO item_clusters (collection_id, item_id, cluster) VALUES (%s, %s, %s)",
                (stored.collection_id, item_id, cluster),
            )
    await moving.reembed("docs")
    await moving.reembedding("docs", "run")
    target = await register_space(moving.database, HashingEmbedder(seed=1).space)
    carried = await read_centroids(where, target.space_id)
    there = dict(await sample_vectors(where, target, ITEMS))
    assert carried is not None
    assert carried[0] == pytest.approx(there["002"], abs=2e-3)
    assert carried[1] == pytest.approx(0 * there["002"])
    assert carried[2] == pytest.approx(there["004"], abs=2e-3)


async def test_windows_are_mixed_in_both_spaces(moving: Platform, platform: Platform) -> None:
    """Items that are indexed with their neighbours are so in the target, also after their neighbours change."""
    collection = await platform.collection("talk")
    await collection.set_neighbours(Neighbours(sequence="talk", order="turn", before=1, after=1))
    await collection.add(
        [{"_id": f"{turn}", "text": text(turn + 2), "attributes": {"talk": "a", "turn": turn}} for turn in range(6)]
    )
    await moving.reembed("talk")
    await moving.reembedding("talk", "run")
    await collection.add([{"_id": "2", "text": "something else", "attributes": {"talk": "a", "turn": 2}}])
    await collection.delete(["4"])
    await moving.reembedding("talk", "run")
    target = await register_space(moving.database, HashingEmbedder(seed=1).space)
    number = (await collection.refresh()).collection_id
    vectors_found = dict(await sample_vectors(CollectionPlace(moving.database, moving.tenant_id, number), target, 10))
    fresh = await moving.collection("fresh")
    await fresh.set_neighbours(Neighbours(sequence="talk", order="turn", before=1, after=1))
    texts = {turn: text(turn + 2) for turn in (0, 1, 3, 5)} | {2: "something else"}
    await fresh.add(
        [{"_id": f"{turn}", "text": text, "attributes": {"talk": "a", "turn": turn}} for turn, text in texts.items()]
    )
    number = (await fresh.refresh()).collection_id
    expected = dict(await sample_vectors(CollectionPlace(moving.database, moving.tenant_id, number), target, 10))
    assert set(vectors_found) == set(expected) == {"0", "1", "2", "3", "5"}
    for item_id, vector in expected.items():
        assert vectors_found[item_id] == pytest.approx(vector, abs=2e-3), item_id


async def test_impossible_actions_are_refused(moving: Platform, platform: Platform, counting: Counting) -> None:
    """With what to do next."""
    await fill(platform, 3)
    for action in ("status", "switch", "rollback"):
        with pytest.raises(NotFoundError, match="'docs' has no re-embedding; begin one with: retrieval"):
            await platform.reembedding("docs", action)
    for refused in (platform.reembed, platform.reembed_cost):
        with pytest.raises(InvalidRequestError, match=r"is in the space .* already"):
            await refused("docs", to=HashingEmbedder().space)
    with pytest.raises(InvalidRequestError, match="a collection's name has"):
        await platform.reembedding("docs\0")
    with pytest.raises(InvalidRequestError, match="has no embedder for the space other/one"):
        await moving.reembed("docs", to=EmbeddingSpace(provider="other", model="one", dimensions=3))
    with pytest.raises(InvalidRequestError, match="set RETRIEVAL_EMBEDDER=openai:big@http"):
        await moving.reembed("docs", to="openai:big@http://127.0.0.1:1/v1")
    with pytest.raises(InvalidRequestError, match="batch_texts is 0"):
        await moving.reembed("docs", batch_texts=0)
    with pytest.raises(InvalidRequestError, match=r"there is no action 'dance' .* there are: status, run, pause"):
        await moving.reembedding("docs", "dance")
    await moving.reembed("docs")
    assert (await moving.reembedding("docs")).switching is Switching.WHEN_ASKED
    assert counting.texts == []


async def target_of(platform: Platform) -> JobTarget:
    """The collection as a job sees it."""
    return JobTarget(platform.tenant_id, await (await platform.collection("docs", create=False)).refresh())


async def vectors(platform: Platform, collection: Collection, space: StoredSpace) -> set[str]:
    """The items that have a vector in the space."""
    number = (await collection.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        statement = sql.SQL("SELECT item_id FROM {} WHERE collection_id = %s").format(sql.Identifier(space.table_name))
        return {row[0] for row in await (await connection.execute(statement, (number,))).fetchall()}


async def test_a_model_is_fitted_again_in_the_target(moving: Platform, platform: Platform) -> None:
    """Its rewarded queries are in the former space, and do not count until then; a chosen one is fitted again once."""
    collection = await fill(platform)
    stored = await collection.refresh()
    assert stored.space is not None
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            "INSERT INTO learned_models (collection_id, version, kind, definition, metrics, events, statistics_at, "
            "is_published, reason) VALUES (%s, 1, 'shrinkage', %s, '{}', 1, now(), true, '')",
            (stored.collection_id, Jsonb({"space_id": stored.space.space_id})),
        )
        await connection.execute(
            "INSERT INTO learning_states (collection_id, model_version) VALUES (%s, 1)", (stored.collection_id,)
        )
    assert not await JOBS["learn"].is_needed(moving.workplace, await target_of(moving))
    await moving.reembed("docs")
    await moving.reembedding("docs", "run")
    assert not await JOBS["learn"].is_needed(moving.workplace, await target_of(moving))
    await moving.reembedding("docs", "switch")
    assert await JOBS["learn"].is_needed(moving.workplace, await target_of(moving))
    await collection.use_model(1)
    assert not (await (await moving.collection("docs")).learn())["published"]
    assert (await target_of(moving)).collection.model_version == 1
    assert not await JOBS["learn"].is_needed(moving.workplace, await target_of(moving))
    await moving.reembedding("docs", "rollback")
    assert await JOBS["learn"].is_needed(moving.workplace, await target_of(moving))


async def test_a_calibration_of_the_former_space_holds_the_switch_up(moving: Platform, platform: Platform) -> None:
    """Otherwise searches with a least relevance would be refused from the switch on."""
    collection = await fill(platform)
    stored = await collection.refresh()
    assert stored.space is not None
    shipped = SHIPPED["minilm", "all-MiniLM-L6-v2"]
    own = replace(shipped, space=stored.space.space.name)
    assert (await moving.reembed_cost("docs")).note == ""
    await collection.set_profile(replace(stored.profile, calibration=own), note="calibrated")
    assert "calibrate again after the switch" in (await moving.reembed_cost("docs")).note
    await moving.reembed("docs", switch=True)
    state_held = await moving.reembedding("docs", "run")
    assert (state_held.state, "calibrate again after the switch" in state_held.note) == (ReembeddingState.READY, True)
    with pytest.raises(InvalidRequestError, match="calibrate again after the switch"):
        await moving.reembedding("docs", "switch")
    await collection.set_profile(stored.profile, note="without")
    assert await JOBS["reembed"].is_needed(moving.workplace, await target_of(moving))
    switched = await moving.reembedding("docs", "run")
    assert (switched.state, switched.note) == (ReembeddingState.SWITCHED, "")
