"""The retrieval engine finds what a comparison of every memory finds, and says why."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import sql
from pydantic import SecretStr

from retrieval import Item, Platform, Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.records.retrievals import read_pools
from retrieval.apps.memories import SEED_PROFILE, MemoryStore, RetrievalEngine
from retrieval.apps.memories.engine import NOTHING, MatchEntities
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.relevance import Calibration
from retrieval.domain.search.signals import STOP_WORDS
from retrieval.engine.target import by_relevance, in_order

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
TYPES = ("insights", "summary", "triage", "protocols", "plans")
WORDS = "protein folding enzyme assay membrane buffer signal cell yeast growth heat shock plate lysis gel band".split()  # noqa: SIM905


@dataclass(frozen=True)
class KnownMemory:
    """A memory as the test knows it."""

    memory_id: str
    project: str
    kind: str
    words: frozenset[str]
    relevance: float
    accesses: int
    happened_at: datetime
    links: frozenset[tuple[str, str]]

    def score(self, query: str, entities: frozenset[tuple[str, str]], now: datetime) -> float:
        """The design's formula, in plain Python; what the question does not ask for leaves its weight to the rest."""
        query_words = set(query.lower().split()) - STOP_WORDS
        keyword = len(query_words & self.words) / len(query_words) if query_words else 0.0
        entity = len(entities & self.links) / len(entities) if entities else 0.0
        days = max((now - self.happened_at).total_seconds(), 0) / 86400
        use = min(1.0, math.log10(self.accesses + 1) / math.log10(101))
        score = 0.30 * self.relevance + 0.25 * math.exp(-days / 14) + 0.20 * keyword + 0.15 * use + 0.10 * entity
        return score / (0.70 + (0.20 if query_words else 0) + (0.10 if entities else 0))


def random_memory(number: int, chance: random.Random) -> KnownMemory:
    """A memory with something of everything, in one of two projects."""
    return KnownMemory(
        memory_id=f"m{number:03}",
        project="p" if number % 4 else "other",
        kind=chance.choice(TYPES),
        words=frozenset(chance.sample(WORDS, chance.randint(2, 6))),
        relevance=chance.choice([1.0, 1.0, 1.0, chance.random()]),
        accesses=chance.choice([0, 0, 1, 5, 40, 150]),
        happened_at=NOW - timedelta(days=chance.uniform(-1, 60)),
        links=frozenset((chance.choice(["questions", "papers"]), f"e{chance.randint(0, 5)}") for _ in range(2)),
    )


@pytest.fixture
async def open_platform(database_url: str, settings: Settings) -> AsyncIterator[Platform]:
    """A platform without vectors, for whom it is always the same moment."""
    changed = settings.changed(database_url=SecretStr(database_url))
    async with Platform(changed, wall_clock=NOW.timestamp) as opened:
        yield opened


async def remember(platform: Platform, memories: Sequence[KnownMemory]) -> None:
    """Store the memories with their earlier access counts."""
    await MemoryStore(platform).store_memories(
        {
            "memory_id": memory.memory_id, "project_id": memory.project, "interaction_type": memory.kind,
            "content": " ".join(sorted(memory.words)), "relevance_score": memory.relevance,
            "occurred_at": memory.happened_at,
            "links": {kind: [entity for of, entity in memory.links if of == kind] for kind, _ in memory.links},
        }
        for memory in memories
    )  # fmt: skip
    await set_accesses(platform, {memory.memory_id: memory.accesses for memory in memories})


async def set_accesses(platform: Platform, accesses: Mapping[str, int]) -> None:
    """Have the memories of this tenant retrieved so often."""
    cases = sql.SQL(" ").join(
        sql.SQL("WHEN item_id = {} THEN {}").format(sql.Literal(key), sql.Literal(number))
        for key, number in accesses.items()
    )
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(sql.SQL("UPDATE memories SET accesses = CASE {} ELSE 0 END").format(cases))


def question(chance: random.Random) -> dict[str, Any]:
    """A random question."""
    arguments: dict[str, Any] = {"query": " ".join(chance.sample([*WORDS, "the", "of"], chance.randint(0, 4)))}
    if chance.random() < 0.5:
        arguments["entity_ids"] = {
            "questions": ["e1", f"e{chance.randint(2, 5)}"],
            "papers": ["e0"][: chance.randint(0, 1)],
        }
        arguments["match_entities"] = chance.choice(["filter", "prefer"])
    if chance.random() < 0.4:
        arguments["interaction_types"] = chance.sample(TYPES, 2)
    if chance.random() < 0.4:
        arguments["as_of"] = NOW - timedelta(days=chance.uniform(0, 30))
    return arguments | {"limit": chance.choice([1, 5, 10, 50]), "min_score": chance.choice([0.0, 0.3, 0.45])}


def best(memories: Sequence[KnownMemory], arguments: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Ids with scores, best first, by comparing every memory of the project."""
    entities = frozenset(
        (kind, entity_id) for kind, ids in arguments.get("entity_ids", {}).items() for entity_id in ids
    )
    is_filter = entities and arguments.get("match_entities") == "filter"
    pairs = [
        (memory.memory_id, memory.score(arguments["query"], entities, arguments.get("as_of", NOW)))
        for memory in memories
        if memory.project == "p"
        and (not is_filter or memory.links & entities)
        and memory.kind in arguments.get("interaction_types", TYPES)
        and memory.happened_at <= arguments.get("as_of", datetime.max.replace(tzinfo=UTC))
    ]
    best_pairs = [(key, score) for key, score in pairs if score >= arguments["min_score"]]
    return sorted(best_pairs, key=lambda pair: (-pair[1], pair[0]))[: arguments["limit"]]


async def test_the_hits_are_those_of_comparing_every_memory(open_platform: Platform) -> None:
    """The same memories with the same scores, for random questions with all options."""
    chance = random.Random(11)
    memories = [random_memory(number, chance) for number in range(200)]
    await remember(open_platform, memories)
    engine = RetrievalEngine(open_platform, count_accesses=False)

    for _ in range(25):
        arguments = question(chance)
        results = await engine.retrieve_relevant_memories("p", **arguments)
        true = best(memories, arguments)
        assert [round(memory.computed_relevance_score, 9) for memory in results] == [
            round(score, 9) for _, score in true
        ], arguments
        assert {memory.memory_id for memory in results[:-1]} <= {key for key, score in true} | _equals(
            results[-1:], true
        ), arguments


def _equals(last: Sequence[Any], true: Sequence[tuple[str, float]]) -> set[str]:
    """The memories with the score of the last one, which are interchangeable."""
    return {memory.memory_id for memory in last if true and math.isclose(memory.computed_relevance_score, true[-1][1])}


async def test_the_score_is_explained_by_signals(open_platform: Platform) -> None:
    """Each signal with its value, adding up to the score; and the memory's own fields."""
    memory = KnownMemory("m1", "p", "insights", frozenset({"protein"}), 0.5, 10, NOW - timedelta(days=14), frozenset())
    await remember(open_platform, [memory])

    (result,) = await RetrievalEngine(open_platform).retrieve_relevant_memories("p", "protein folding")

    assert result.signals == pytest.approx(
        {"base_relevance": 0.5, "recency": math.exp(-1), "keyword": 0.5, "popularity": 0.51957, "entity": 0.0}, abs=1e-5
    )
    assert result.computed_relevance_score == pytest.approx(result.explanation.score)
    weights = {part.leg: part.weight for part in result.explanation.contributions if part.leg in result.signals}
    assert weights == pytest.approx(
        {
            "base_relevance": 0.3 / 0.9,
            "recency": 0.25 / 0.9,
            "keyword": 0.2 / 0.9,
            "popularity": 0.15 / 0.9,
            "entity": 0,
        }
    )
    assert (result.text, result.accesses, result.relevance_score, result.rank) == ("protein", 10, 0.5, 1)
    assert result.as_dict()["occurred_at"] == memory.happened_at.isoformat()


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
async def test_a_good_old_memory_is_found_without_words(open_platform: Platform, strategy: str) -> None:
    """A signal to which the call gives nothing to compare takes no part, here and where a score is computed alone."""
    old = KnownMemory("m1", "p", "insights", frozenset({"protein"}), 0.9, 0, NOW - timedelta(days=400), frozenset())
    await remember(open_platform, [old])
    engine = RetrievalEngine(open_platform, count_accesses=False)

    for query in (None, " ", "the of"):
        if strategy == "semantic" and query == "the of":
            continue  # words with their own vector
        [memory] = await engine.retrieve_relevant_memories("p", query, strategy=strategy)
        assert memory.computed_relevance_score == pytest.approx(0.9 * 0.3 / 0.7)
        assert memory.explanation.score == pytest.approx(memory.computed_relevance_score)
        assert memory.retrieval_id is not None
        await open_platform.recorded()
        assert (await open_platform.replay(memory.retrieval_id)).is_reproduced
    assert engine._compute_hybrid_score(memory, now=NOW) == pytest.approx(0.9 * 0.3 / 0.7)  # noqa: SLF001
    assert "### Memory 1 (insights)" in await engine.retrieve_context_for_task("p", "insights", strategy=strategy)


async def test_by_the_record_another_profile_can_be_judged(open_platform: Platform) -> None:
    """A signal that took no part is on record with the value 0: a target that weighs it ranks the same candidates."""
    chance = random.Random(3)
    await remember(open_platform, [random_memory(number, chance) for number in range(40)])
    await RetrievalEngine(open_platform).retrieve_relevant_memories("p", "protein", limit=5)
    await RetrievalEngine(open_platform).retrieve_relevant_memories("p", limit=5)
    await open_platform.recorded()

    collection = await open_platform.collection("memories")
    async with open_platform.database.transaction(open_platform.tenant_id) as connection:
        collection_id = (await collection.refresh()).collection_id
        pools = [
            pool
            async for pool in read_pools(connection, collection_id, since=datetime(2020, 1, 1, tzinfo=UTC), most=10)
        ]
    assert len(pools) == 2
    for pool in pools:
        ranked = by_relevance(pool, SEED_PROFILE)
        assert ranked is not None
        assert {candidate.item_id for candidate in in_order(ranked)[: pool.limit]} == set(pool.shown)


async def test_relevant_memories_and_contexts_count_accesses_and_timelines_do_not(open_platform: Platform) -> None:
    """Each returned memory counts one access; a context counts the memories that it shows."""
    store, engine = MemoryStore(open_platform), RetrievalEngine(open_platform)
    for number in range(3):
        await store.store_memory("p", "insights", f"protein {number}", memory_id=f"m{number}")
    await engine.retrieve_relevant_memories("p", "protein", limit=2)
    context = await engine.retrieve_context_for_task("p", "insights", limit=3, max_characters=600)
    await engine.retrieve_timeline("p")
    await RetrievalEngine(open_platform, count_accesses=False).retrieve_relevant_memories("p")
    await open_platform.accesses_counted()

    memories = await store.get_memories(["m0", "m1", "m2"])
    assert list(await store.get_memories("m1")) == ["m1"]
    assert sum(memory.accesses for memory in memories.values()) == 2 + context.count("### Memory ")
    assert 0 < context.count("### Memory ") < 3


async def test_a_context_prefers_entities_and_knows_related_types(open_platform: Platform) -> None:
    """Linked memories come first, then the others; memories of other types do not appear."""
    store = MemoryStore(open_platform)
    await store.store_memory("p", "insights", "not linked", memory_id="far")
    await store.store_memory("p", "summary", "linked", memory_id="near", linked_question_ids=["q1"])
    await store.store_memory("p", "chat", "unrelated", memory_id="chat", linked_question_ids=["q1"])

    text = await RetrievalEngine(open_platform).retrieve_context_for_task("p", "insights", {"questions": ["q1"]})

    assert [line for line in text.splitlines() if line.startswith("### ")] == [
        "### Memory 1 (summary)",
        "### Memory 2 (insights)",
    ]


async def test_a_timeline_is_the_latest_first(open_platform: Platform) -> None:
    """The timeline has all memories of the last hours, whatever their relevance, and none of the future."""
    store, engine = MemoryStore(open_platform), RetrievalEngine(open_platform)
    for hours in (-1, 1, 5, 23, 25):
        moment = NOW - timedelta(hours=hours)
        await store.store_memory("p", "chat", f"{hours}", memory_id=f"{hours}", occurred_at=moment, relevance_score=0)

    assert [memory.memory_id for memory in await engine.retrieve_timeline("p")] == ["1", "5", "23"]
    assert [memory.memory_id for memory in await engine.retrieve_timeline("p", hours=48, limit=2)] == ["1", "5"]
    assert await engine.retrieve_timeline("other") == []


async def test_superseded_and_expired_memories_are_not_found(open_platform: Platform) -> None:
    """By no leg, before any job ran."""
    store, engine = MemoryStore(open_platform), RetrievalEngine(open_platform)
    await store.store_memory("p", "insights", "protein old", memory_id="old")
    record = {"project_id": "p", "interaction_type": "insights", "content": "protein"}
    await store.supersede("old", {**record, "memory_id": "new"})
    await store.store_memories([{**record, "memory_id": "gone", "expires_at": NOW}])

    assert [memory.memory_id for memory in await engine.retrieve_relevant_memories("p", "protein")] == ["new"]
    assert [memory.memory_id for memory in await engine.retrieve_timeline("p")] == ["new"]


@pytest.mark.parametrize(
    ("strategy", "arguments", "first", "number"),
    [
        ("keyword", {"query": "protein folding"}, "words", 1),
        ("entity", {"entity_ids": {"questions": ["q1"]}}, "linked", 1),
        ("recency", {}, "late", 4),
        ("popularity", {}, "used", 1),
        ("popularity", {"min_score": 0}, "used", 4),
    ],
)
async def test_each_strategy_ranks_by_its_signal_alone(
    open_platform: Platform, strategy: str, arguments: dict[str, Any], first: str, number: int
) -> None:
    """Its best memory comes first, with that signal's value as its score; those never retrieved have 0."""
    store = MemoryStore(open_platform)
    old = NOW - timedelta(days=10)
    await store.store_memory("p", "chat", "protein folding", memory_id="words", occurred_at=old)
    await store.store_memory("p", "chat", "x", memory_id="linked", occurred_at=old, linked_question_ids=["q1"])
    await store.store_memory("p", "chat", "y", memory_id="late")
    await store.store_memory("p", "chat", "z", memory_id="used", occurred_at=old)
    await set_accesses(open_platform, {"used": 100})

    memories = await RetrievalEngine(open_platform).retrieve_relevant_memories("p", strategy=strategy, **arguments)

    assert memories[0].memory_id == first
    assert memories[0].computed_relevance_score == pytest.approx(1.0)
    assert len(memories[0].signals) == 1
    assert len(memories) == number


@pytest.mark.parametrize("match_entities", ["filter", "prefer"])
async def test_an_old_memory_of_all_entities_ranks_before_later_ones_of_one(
    open_platform: Platform, match_entities: MatchEntities
) -> None:
    """However many later memories each of the entities has."""
    store = MemoryStore(open_platform)
    both, fact = ["q1", "q2"], {"project_id": "p", "interaction_type": "chat", "content": "x"}
    old = [
        {**fact, "memory_id": f"old{n}", "linked_question_ids": both, "occurred_at": NOW - timedelta(days=90 + n)}
        for n in range(3)
    ]
    late = [
        {**fact, "memory_id": f"late{n}", "linked_question_ids": [both[n % 2]], "occurred_at": NOW - timedelta(hours=n)}
        for n in range(300)
    ]
    await store.store_memories([*old, *late])

    memories = await RetrievalEngine(open_platform).retrieve_relevant_memories(
        "p", strategy="entity", entity_ids={"questions": both}, limit=4, match_entities=match_entities
    )

    assert {memory.memory_id: memory.computed_relevance_score for memory in memories[:3]} == {
        "old0": 1.0, "old1": 1.0, "old2": 1.0,
    }  # fmt: skip
    assert memories[3].computed_relevance_score == 0.5


async def test_words_of_scripts_without_spaces_count(open_platform: Platform) -> None:
    """The memory with the question's words comes first, although it is the oldest."""
    store = MemoryStore(open_platform)
    contents = ["会議は金曜日に移動した。", "昨日は雨だった。", "予算は承認された。"]
    for days, content in enumerate(reversed(contents)):
        await store.store_memory("p", "chat", content, occurred_at=NOW - timedelta(days=days))

    memories = await RetrievalEngine(open_platform).retrieve_relevant_memories("p", "会議の金曜日")

    assert memories[0].text == contents[0]
    assert memories[0].signals["keyword"] == pytest.approx(3 / 5)


async def test_an_item_that_was_stored_as_such_is_a_memory(open_platform: Platform) -> None:
    """Missing fields have the values of a new memory; it can be rated, superseded and listed."""
    store, engine = MemoryStore(open_platform), RetrievalEngine(open_platform)
    await store.store_memory("p", "note", "the pump leaks", memory_id="m")
    collection = await open_platform.collection("memories")
    attributes = {"project_id": "p"}
    await collection.add(
        [
            Item(item_id="i0", body="the pump leaks", attributes=attributes),
            Item(item_id="i1", body="the pump leaks", attributes=attributes, occurred_at=NOW),
            Item(item_id="i2", body="a valve", attributes=attributes, occurred_at=NOW),
        ]
    )
    memories = await engine.retrieve_relevant_memories("p", "pump", limit=2, min_score=0)
    everything = await engine.retrieve_relevant_memories("p", "pump", min_score=0)
    assert (len(memories), {memory.memory_id for memory in everything}) == (2, {"m", "i0", "i1"})

    item = await store.get_memory("i0")
    assert (item.relevance_score, item.accesses, item.links, item.occurred_at) == (1.0, 0, {}, item.created_at)
    await store.set_relevance("i0", 0.25)
    assert {memory.memory_id for memory in await store.list_memories("p")} == {"m", "i1", "i2"}  # memories with a time
    await store.supersede("i1", "i0")
    assert (await store.get_memory("i0")).relevance_score == 0.25
    assert (await store.get_memory("i1")).superseded_by == "i0"
    assert {memory.memory_id for memory in await store.list_memories("p")} == {"m", "i2"}
    assert not (await store.store_memory("p", "note", "stored over it", memory_id="i0")).is_new


async def test_a_memory_whose_successor_was_forgotten_can_be_superseded_again(open_platform: Platform) -> None:
    """Until then it is in no list, and no memory has the name of its successor."""
    store = MemoryStore(open_platform)
    old = (await store.store_memory("p", "note", "the flange is of steel", duplicates="keep")).memory_id
    brass = {"project_id": "p", "interaction_type": "note", "content": "the flange is of brass"}
    await store.forget(await store.supersede(old, brass))
    gold = await store.supersede(old, brass | {"content": "the flange is of gold"})
    assert (await store.get_memory(old)).superseded_by == gold
    with pytest.raises(InvalidRequestError, match="was superseded by"):
        await store.supersede(old, brass)


async def test_nothing_is_found_where_nothing_is(open_platform: Platform) -> None:
    """An empty collection, an unknown project, concurrent first calls."""
    engine = RetrievalEngine(open_platform)

    answers = await asyncio.gather(*(engine.retrieve_relevant_memories("p", "protein") for _ in range(3)))

    assert answers == [[], [], []]
    assert "(0 relevant memories)" in await engine.retrieve_context_for_task("p", "insights")


async def test_a_context_of_a_type_without_memories_says_which_types_there_are(open_platform: Platform) -> None:
    """An unknown task's memories are of its own type alone."""
    engine, store = RetrievalEngine(open_platform), MemoryStore(open_platform)
    await store.store_memory("p", "insights", "The cat sleeps.", "ann")

    text = await engine.retrieve_context_for_task("p", "pets", query="cat")

    assert text.endswith("Nothing is remembered of the types: pets. There are memories of the types: insights.")
    assert (await engine.retrieve_context_for_task("p", "insights", min_score=1)).endswith(NOTHING)
    other = await engine.retrieve_context_for_task("other", "pets")
    assert other.endswith("The project other has no memories. If it should have some, check its name.")


async def test_a_query_that_nothing_answers_finds_nothing_by_a_least_relevance(platform: Platform) -> None:
    """The score of a new memory is above the least one whatever the query is; its relevance tells."""
    engine, store = RetrievalEngine(platform), MemoryStore(platform)
    for number, text in enumerate(("Ann is away in August.", "Deliveries come on Tuesdays.", "The oven is too cold.")):
        await store.store_memory("shop", "fact", text, memory_id=str(number), duplicates="keep")
    calibration = Calibration(space=HashingEmbedder().space.name, both=(-4, 6, -6, 8, -8), dense=(-4, 8, -8))
    collection = await platform.collection("memories", create=False)
    await collection.set_profile(Profile(calibration=calibration))

    everything = await engine.retrieve_relevant_memories("shop", "zebra quantum lattice")
    assert len(everything) == 3
    assert all(memory.relevance is not None and memory.relevance < 0.1 for memory in everything)
    assert await engine.retrieve_relevant_memories("shop", "zebra quantum lattice", min_relevance=0.1) == []
    (memory,) = await engine.retrieve_relevant_memories("shop", "deliveries on Tuesdays", min_relevance=0.1)
    assert memory.memory_id == "1"
    assert memory.as_dict()["relevance"] == memory.relevance


async def test_meanings_count_where_a_call_names_no_strategy_and_there_are_vectors(
    platform: Platform, open_platform: Platform
) -> None:
    """The strategy is then semantic, as in other searches; without vectors it is hybrid, without a note."""
    for place, strategy in ((platform, "semantic"), (open_platform, "hybrid")):
        await MemoryStore(place, strategy).store_memory("p", "chat", "tea and cake")
        engine = RetrievalEngine(place, strategy)
        (by_default,) = await engine.retrieve_relevant_memories("p", "tea", min_score=0)
        (named,) = await engine.retrieve_relevant_memories("p", "tea", min_score=0, strategy=strategy)
        assert by_default.signals.keys() == named.signals.keys()
        assert ("vector_similarity" in named.signals) == (strategy == "semantic")


async def test_meaning_without_an_embedder_is_logged_once(
    open_platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    """A list of memories has no notes; the log says why no vectors count."""
    engine = RetrievalEngine(open_platform)
    await MemoryStore(open_platform).store_memory("p", "chat", "x")
    for _ in range(2):
        await engine.retrieve_relevant_memories("p", "x", strategy="semantic")
    assert [
        record.message
        for record in caplog.records
        if "collection 'memories'" in record.message and "embed" in record.message
    ]
    assert sum("memories of collection" in record.message for record in caplog.records) == 1


async def test_a_strategy_without_what_it_starts_from_is_an_error(open_platform: Platform) -> None:
    """Words for the keywords, entities for the entities."""
    engine = RetrievalEngine(open_platform)
    await MemoryStore(open_platform).store_memory("p", "chat", "x")

    for strategy, message in (("keyword", "needs a query with words"), ("entity", "entity_ids")):
        with pytest.raises(InvalidRequestError, match=message):
            await engine.retrieve_relevant_memories("p", strategy=strategy)


async def test_a_flag_is_true_or_false(open_platform: Platform) -> None:
    """The text "no" is not taken for a yes."""
    no: Any = "no"
    with pytest.raises(InvalidRequestError, match="count_accesses is 'no'; it must be True or False"):
        RetrievalEngine(open_platform, count_accesses=no)
    with pytest.raises(InvalidRequestError, match="include_history is 'no'; it must be True or False"):
        await RetrievalEngine(open_platform).retrieve_relevant_memories("p", include_history=no)
    with pytest.raises(InvalidRequestError, match="include_superseded is 'no'; it must be True or False"):
        await MemoryStore(open_platform).list_memories("p", include_superseded=no)


@pytest.mark.parametrize("types", ["chat", [5], 5])
async def test_types_that_are_no_list_of_texts_are_refused(open_platform: Platform, types: Any) -> None:
    """By each call that takes them; the letters of a text are no types."""
    await MemoryStore(open_platform).store_memory("p", "note", "x")
    engine = RetrievalEngine(open_platform)
    for call in (engine.retrieve_relevant_memories, engine.why_nothing):
        with pytest.raises(InvalidRequestError, match="interaction"):
            await call("p", interaction_types=types)


@pytest.mark.parametrize("query", [5, ["tea"], b"tea", {"query": "tea"}])
async def test_a_query_that_is_no_text_is_refused(open_platform: Platform, query: Any) -> None:
    """In one line."""
    engine = RetrievalEngine(open_platform)
    with pytest.raises(InvalidRequestError, match="the query must be text"):
        await engine.retrieve_relevant_memories("p", query)
    with pytest.raises(InvalidRequestError, match="the query must be text"):
        await engine.retrieve_context_for_task("p", "chat", query=query)


@pytest.mark.parametrize("query", [None, "tea"])
async def test_expired_memories_take_no_place_in_a_page_as_of_an_earlier_time(
    open_platform: Platform, query: str | None
) -> None:
    """The clock decides about expiry: a page as of the past is full of memories that still exist."""
    store, now = MemoryStore(open_platform), open_platform.now
    expired = {"occurred_at": now - timedelta(days=6), "expires_at": now - timedelta(days=1)}
    await store.store_memories(
        {"project_id": "p", "interaction_type": "note", "content": f"tea {n}", "memory_id": f"gone{n}", **expired}
        for n in range(3)
    )
    await store.store_memory("p", "note", "tea", memory_id="stays", occurred_at=now - timedelta(days=10))
    past = now - timedelta(days=5)

    results = await RetrievalEngine(open_platform).retrieve_relevant_memories("p", query, as_of=past, limit=2)
    assert [memory.memory_id for memory in results] == ["stays"]
    memories = await open_platform.collection("memories")
    hits = await memories.search(query, profile=SEED_PROFILE, as_of=past)
    assert [hit.item_id for hit in hits] == ["stays"]
