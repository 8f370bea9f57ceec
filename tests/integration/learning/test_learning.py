"""Learning from start to end: feedback, the jobs that learn from it, and the searches after them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from retrieval import Collection, Context, Feedback, Platform, SearchResult, Settings, connect
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.adapters.store.learning.feedback import record_feedback
from retrieval.adapters.store.learning.models import add_model
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.adapters.store.round_trip import Row, run_together
from retrieval.collection import handle_of
from retrieval.domain.errors import (
    EmbedderError,
    EmbedderRejectedError,
    EmbedderUnavailableError,
    InvalidRequestError,
)
from retrieval.domain.records.slate import Slot
from retrieval.domain.search.profile_parts import Combination, Exploration, Learned, PolicyName, PosteriorKind
from retrieval.engine.learning import is_trained
from retrieval.engine.target import NamedProfile
from retrieval.jobs.learning import is_there_to_learn
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from retrieval.learning.learned_model import LearnedModel, LearnedReward
from retrieval.learning.stack import LogitStack
from retrieval.services.compare import compare_profiles
from retrieval.services.workplace import JobTarget
from tests.support.cluster import not_on_a_cluster

GOOD = {f"i{number:02}" for number in range(0, 24, 2)}
"""The items that always help; nothing in their texts shows it."""

QUESTIONS = [f"common word{number}" for number in range(60) if number != 39]


async def _fill(platform: Platform, items: int = 24) -> Collection:
    collection = await platform.collection("docs")
    await collection.add(
        [
            {"_id": f"i{number:02}", "text": f"common text word{number} word{(number + 7) % 40}"}
            for number in range(items)
        ]
    )
    return collection


async def _use(platform: Platform, collection: Collection, questions: list[str], actor: str = "") -> None:
    """Search, and rate the hits."""
    results = await collection.search_each(questions, context=Context(domain="shop", complexity=0.2))
    events = [
        Feedback(retrieval_id=result.retrieval_id, item_id=hit.item_id, helpful=hit.item_id in GOOD, actor=actor)
        for result in results
        for hit in result
    ]
    await platform.feedback_each(events)


async def _say_anything(platform: Platform, collection: Collection) -> None:
    """Search, and rate the hits at random."""
    results = await collection.search_each(QUESTIONS, limit=4)
    events = [
        Feedback(retrieval_id=result.retrieval_id, item_id=hit.item_id, helpful=(number * 7 + place * 3) % 4 < 2)
        for number, result in enumerate(results)
        for place, hit in enumerate(result)
    ]
    await platform.feedback_each(events)


async def _learn(platform: Platform, collection: Collection) -> dict[str, object]:
    target = JobTarget(platform.tenant_id, await collection.refresh())
    report = await run_job(platform.workplace, job_named("learn"), target)
    assert report.outcome == "done", report
    await collection.refresh()
    return dict(report.details)


def _share_of_good(result: object) -> float:
    hits = list(result)  # type: ignore[call-overload]
    return sum(hit.item_id in GOOD for hit in hits) / len(hits)


@pytest.mark.parametrize("combination", [Combination.SUM, Combination.LOGIT_STACK])
async def test_helpful_items_come_first_after_learning(platform: Platform, combination: Combination) -> None:
    """A new question finds the items that helped others, and the parts of its hits include the learned reward."""
    collection = await _fill(platform)
    await collection.set_profile(replace(collection.profile, learned=Learned(combination=combination)))
    before = await collection.search("common word39", limit=6)
    await _use(platform, collection, QUESTIONS)
    details = await _learn(platform, collection)
    after = await collection.search("common word39", limit=6, context=Context(domain="shop"))

    assert details["published"]
    assert _share_of_good(after) > max(0.8, _share_of_good(before))
    for hit in after:
        assert hit.score == pytest.approx(hit.explanation.score)
        assert "learned" in {part.leg for part in hit.explanation.contributions}
    await platform.recorded()
    assert after.retrieval_id is not None
    record = await find_recorded(platform.database, platform.tenant_id, after.retrieval_id)
    assert record is not None
    assert record.model_version == 1
    assert len(record.pool_signals["learned"]) == len(record.pool_items)
    assert {impression.pulls > 0 for impression in record.impressions} == {True}


async def test_the_reason_names_the_combination_that_passed(platform: Platform) -> None:
    """A sum without a share of the learned reward is relevance alone, which is no better than itself."""
    collection = await _fill(platform)
    await collection.set_profile(replace(collection.profile, learned=Learned(share=0.0)))
    await _use(platform, collection, QUESTIONS)
    details = await _learn(platform, collection)
    assert details["passed"] == ["logit_stack"]
    assert str(details["reason"]).endswith("a profile with learned.combination logit_stack uses the model")


async def _searched_by_stack(
    platform: Platform, collection: Collection, monkeypatch: pytest.MonkeyPatch, **weights: float
) -> tuple[SearchResult, list[str]]:
    """A search with a published stack of these weights, and the texts of the statements that it sent."""
    model = LearnedModel(
        version=0,
        reward=LearnedReward(),
        by_item=LearnedReward(),
        stack=LogitStack(weights=weights),
        passed=frozenset(Combination),
    )
    learned = Learned(combination=Combination.LOGIT_STACK)
    await collection.set_profile(replace(collection.profile, learned=learned))
    collection_id = (await collection.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        await add_model(
            connection,
            collection_id,
            kind="shrinkage",
            definition=model.as_dict(),
            metrics={},
            events=0,
            statistics_at=platform.now,
            is_published=True,
            reason="",
            queries=[],
        )
    await collection.refresh()
    await collection.search("common")  # which reads the model
    statements: list[str] = []
    read_each = Database.read_each

    async def spied(self: Database, tenant: int, each: Sequence[Compiled], *rest: Any, **named: Any) -> Any:
        statements.extend(statement.text for statement in each)
        return await read_each(self, tenant, each, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Database, "read_each", spied)
        # Each second a search reads the collection again, which this test does not count.
        patched.setattr("retrieval.engine.collection_handle.FRESH_SECONDS", math.inf)
        hits = await collection.search("common", limit=3)
    return hits, statements


async def test_a_search_reads_of_items_what_its_stack_weighs(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement reads lengths and likeness; statistics are read only if the stack weighs rewards."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": f"i{number}", "text": "common" + " text" * number} for number in range(1, 8)])
    hits, statements = await _searched_by_stack(platform, collection, monkeypatch, relevance=0.1, length=1.0)
    assert [hit.item_id for hit in hits] == ["i7", "i6", "i5"]
    assert {part.leg for part in hits[0].explanation.contributions} == {"relevance", "length"}
    assert hits[0].score == pytest.approx(hits[0].explanation.score)
    assert [("rewarded_queries" in text, "FROM arms" in text) for text in statements].count((True, False)) == 1
    assert not any("FROM arms" in text for text in statements)
    _, also = await _searched_by_stack(platform, collection, monkeypatch, relevance=1.0, learned=0.1)
    assert sum("FROM arms" in text for text in also) == 1
    assert len(also) == len(statements) + 1


async def test_a_model_that_is_not_better_is_kept_and_not_used(platform: Platform) -> None:
    """Random verdicts teach nothing: the version is stored with its reason, and searches stay the same."""
    collection = await _fill(platform)
    before = await collection.search("common word39")
    await _say_anything(platform, collection)
    details = await _learn(platform, collection)
    after = await collection.search("common word39")

    assert details["published"] is False
    stored = await collection.refresh()
    assert stored.model_version == 0
    models = await collection.models()
    assert [(model.version, model.is_published) for model in models] == [(1, False)]
    assert "not surely better" in models[0].reason
    with pytest.raises(InvalidRequestError, match=r"model 1 cannot be used: .* not surely better"):
        await collection.use_model(1)
    assert [hit.item_id for hit in after] == [hit.item_id for hit in before]


async def test_a_question_is_one_however_it_is_written(platform: Platform) -> None:
    """In another case, with other marks, or as the same vector: otherwise what is remembered would pass as foretold."""
    collection = await _fill(platform)
    await _use(platform, collection, [f"{question}?" for question in QUESTIONS[:30]])
    await _use(platform, collection, [f"Common  {question[7:].upper()}" for question in QUESTIONS[:30]])
    assert "30 rated questions are too few" in str((await _learn(platform, collection))["reason"])
    vector = (await collection.vectors_of(["text"]))[0]
    for _ in range(2):
        result = await collection.search(vector=vector, limit=1)
        await platform.feedback(result.retrieval_id, result[0].item_id, helpful=True)
    assert "31 rated questions are too few" in str((await _learn(platform, collection))["reason"])


async def test_a_model_can_be_taken_out_of_use(platform: Platform) -> None:
    """Version 0 is relevance alone; a version that was never good enough cannot be chosen."""
    collection = await _fill(platform)
    before = await collection.search("common word39", limit=6)
    await _use(platform, collection, QUESTIONS)
    assert (await _learn(platform, collection))["published"]
    await collection.use_model(0)
    after = await collection.search("common word39", limit=6)
    assert [(hit.item_id, hit.score) for hit in after] == [(hit.item_id, hit.score) for hit in before]
    assert (await _learn(platform, collection))["published"]
    assert (await collection.info()).model_version == 0, "a choice lasts"
    await collection.use_model(1)
    assert (await collection.info()).model_version == 1
    await collection.use_model(None)
    assert (await collection.info()).model_version == 2
    with pytest.raises(
        InvalidRequestError, match=r"model 7 cannot be used: it does not exist; there are 0, 2, 1 \(0: none\)"
    ):
        await collection.use_model(7)
    for wrong in ("latest", True, 1.5):
        with pytest.raises(InvalidRequestError, match=r"version is .*; it must be a whole number from 0"):
            await collection.use_model(wrong)  # type: ignore[arg-type]


async def test_a_model_leaves_use_with_the_verdicts_that_it_was_fitted_on(platform: Platform) -> None:
    """Once their actor is quarantined the job is needed, and no later model, chosen as the latest, brings it back."""
    collection = await _fill(platform)
    before = await collection.search("common word39", limit=6)
    await _use(platform, collection, QUESTIONS, actor="bot")
    assert (await _learn(platform, collection))["published"]
    target = JobTarget(platform.tenant_id, await collection.refresh())
    assert not await is_there_to_learn(platform.workplace, target)
    await platform.quarantine("bot")
    assert await is_there_to_learn(platform.workplace, target)

    details = await _learn(platform, collection)
    assert (details["published"], details["withdrawn"], details["verdicts"]) == (False, 1, 0)
    await collection.use_model(None)
    assert (await collection.info()).model_version == 0
    after = await collection.search("common word39", limit=6)
    assert [(hit.item_id, hit.score) for hit in after] == [(hit.item_id, hit.score) for hit in before]
    assert await _learn(platform, collection) == {
        "verdicts": 0, "published": False, "reason": "there is no feedback that counts",
    }  # fmt: skip


async def test_a_model_that_is_no_longer_better_leaves_use(platform: Platform) -> None:
    """The verdicts that are left teach nothing: the new model is refused, and the former one is not used any more."""
    collection = await _fill(platform)
    await _use(platform, collection, QUESTIONS, actor="bot")
    assert (await _learn(platform, collection))["published"]
    await platform.quarantine("bot")
    await _say_anything(platform, collection)
    details = await _learn(platform, collection)
    assert (details["published"], details["withdrawn"]) == (False, 1)
    assert "no longer better than by relevance alone" in str(details["reason"])
    assert (await collection.info()).model_version == 0


@pytest.mark.parametrize("error", [EmbedderUnavailableError("away"), EmbedderRejectedError("refused")])
async def test_a_model_does_not_leave_use_because_the_embedder_is_away(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, error: EmbedderError
) -> None:
    """The job fails, and comes again; without the vectors of queries that are refused it goes on."""
    collection = await _fill(platform)
    await _use(platform, collection, QUESTIONS)
    assert (await _learn(platform, collection))["published"]

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(CachedEmbedder, "embed_queries", fail)
    target = JobTarget(platform.tenant_id, await collection.refresh())
    report = await run_job(platform.workplace, job_named("learn"), target)
    assert report.outcome == ("failed" if isinstance(error, EmbedderUnavailableError) else "done")
    assert (await collection.info()).model_version == (1 if report.outcome == "failed" else 2)


async def test_a_sum_is_tried_again_once_its_share_is_another(platform: Platform) -> None:
    """A share that no trial tested is not used until then."""
    collection = await _fill(platform)
    await _use(platform, collection, QUESTIONS)
    assert (await _learn(platform, collection))["published"]
    await collection.set_profile(replace(collection.profile, learned=Learned(share=0.3)))
    assert not await is_trained(handle_of(collection))
    assert await is_there_to_learn(platform.workplace, JobTarget(platform.tenant_id, await collection.refresh()))
    assert (await _learn(platform, collection))["published"]
    assert await is_trained(handle_of(collection))


async def test_a_collection_without_feedback_has_nothing_to_learn(platform: Platform) -> None:
    """The job says so, and stores no model."""
    collection = await _fill(platform)
    assert await _learn(platform, collection) == {
        "verdicts": 0, "published": False, "reason": "there is no feedback that counts",
    }  # fmt: skip


@pytest.mark.parametrize("posterior", [PosteriorKind.BETA, PosteriorKind.SHRUNK])
async def test_thompson_slots_show_what_was_never_used_and_say_how_probable_that_was(
    platform: Platform, posterior: PosteriorKind
) -> None:
    """One place of the page is drawn; who won it is marked, and recorded with the propensity of the draw."""
    collection = await _fill(platform)
    exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, posterior=posterior)
    await collection.set_profile(replace(collection.profile, exploration=exploration, depth=50))  # all 24 items
    results = await collection.search_each(["common word3"] * 30, limit=5)
    await platform.recorded()
    result = next(result for result in results if any(hit.slot is Slot.EXPLORE for hit in result))
    (explored,) = (hit for hit in result if hit.slot is Slot.EXPLORE)
    assert 0 < explored.propensity < 1
    assert {hit.propensity for hit in result if hit.slot is Slot.EXPLOIT} == {1.0}
    assert result.retrieval_id is not None
    record = await find_recorded(platform.database, platform.tenant_id, result.retrieval_id)
    assert record is not None
    assert (record.policy, record.eligible) == ("thompson_slots/1", 24)
    assert sum(record.pool_signals["propensity"]) == pytest.approx(5)
    impressions = {impression.item_id: impression for impression in record.impressions}
    assert impressions[explored.item_id].propensity == explored.propensity
    await platform.feedback(result.retrieval_id, explored.item_id, helpful=True)
    stored = await collection.refresh()
    plain = NamedProfile(name="plain", profile=replace(collection.profile, exploration=Exploration()))
    target = NamedProfile(name="exploring", profile=collection.profile, version=stored.profile_version)
    compared = await compare_profiles(
        platform.database, platform.tenant_id, stored, target, plain, since=datetime.now(UTC) - timedelta(days=1)
    )
    assert not compared.verdict.is_conclusive


async def test_an_unrecorded_search_does_not_explore(platform: Platform) -> None:
    """Nothing could be learned from it: an unrecorded search has the order of the scores."""
    collection = await _fill(platform)
    exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, swaps=1.0)
    await collection.set_profile(replace(collection.profile, exploration=exploration))
    result = await collection.unrecorded().search("common word3", limit=5)
    assert {hit.slot for hit in result} == {Slot.EXPLOIT}
    assert [hit.score for hit in result] == sorted((hit.score for hit in result), reverse=True)


async def test_an_item_that_was_used_often_is_not_explored_any_more(platform: Platform) -> None:
    """Once nothing is new or hardly used, every place goes to the scores."""
    collection = await _fill(platform, items=6)
    exploration = Exploration(policy=PolicyName.THOMPSON_SLOTS, younger_than_days=0)
    await collection.set_profile(replace(collection.profile, exploration=exploration))
    events = [
        Feedback(collection="docs", item_id=f"i{number:02}", helpful=True, actor=f"a{user}")
        for number in range(6)
        for user in range(5)
    ]
    await platform.feedback_each(events)
    result = await collection.search("common word3", limit=3)
    assert {hit.slot for hit in result} == {Slot.EXPLOIT}


MANY = 2_000

_READ = """
    SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = 'feedback'::regclass
"""
_UPDATED = """
    SELECT pg_stat_get_xact_tuples_updated('arms'::regclass), pg_stat_get_xact_tuples_hot_updated('arms'::regclass)
"""


class _Within:
    """Reads in a transaction that is open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, _: int, statement: Compiled) -> list[Row]:
        [answer] = await run_together(self._connection, [statement])
        return answer.rows()


async def _stored(platform: Platform) -> int:
    collection = await platform.collection("docs")
    await collection.add([{"_id": item_id, "text": "timeout"} for item_id in "ab"])
    return (await collection.refresh()).collection_id


@not_on_a_cluster("what a transaction changes is counted by the node")
@pytest.mark.parametrize("items", ["a", "ab"])
async def test_a_verdict_changes_no_index_of_the_statistics(platform: Platform, items: str) -> None:
    """Alone or in a batch, in each context: an item that has verdicts is updated where it lies in the table."""
    await _stored(platform)
    async with platform.database.transaction(platform.tenant_id) as connection:
        database = cast(Database, _Within(connection))
        for helpful in (True, False, True):
            events = [
                Feedback(collection="docs", item_id=item_id, helpful=helpful, context=Context(domain="network"))
                for item_id in items
            ]
            await record_feedback(database, platform.tenant_id, events, platform.now)
        updated, hot = await (await connection.execute(_UPDATED)).fetchone() or (0, 0)
    assert updated >= 2 * 2 * len(items)
    assert hot == updated


async def _entries_read(platform: Platform, events: list[Feedback]) -> int:
    async with platform.database.transaction(platform.tenant_id) as connection:
        before = (await (await connection.execute(_READ)).fetchone() or (0,))[0]
        await record_feedback(cast(Database, _Within(connection)), platform.tenant_id, events, platform.now)
        return int((await (await connection.execute(_READ)).fetchone() or (0,))[0] - before)


@not_on_a_cluster("what a transaction reads is counted by the node")
@pytest.mark.parametrize("items", ["a", "ab"])
async def test_actors_of_another_tenant_are_not_counted_through(
    platform: Platform, settings: Settings, database_url: str, items: str
) -> None:
    """They have the same name and say much; alone or in a batch, an event reads few entries of any index."""
    await _stored(platform)
    async with connect(database_url, settings=settings.changed(tenant=f"{settings.tenant}-loud")) as loud:
        number = await _stored(loud)
        async with loud.database.transaction(loud.tenant_id) as connection:
            await connection.execute(
                "INSERT INTO feedback (collection_id, item_id, feedback_key, subject, actor, kind, reward, weight, "
                "contexts, occurred_at) SELECT %s, 'a', gen_random_uuid(), gen_random_uuid(), 'assistant', 'rating', "
                "1, 1, '{\"\"}', now() FROM generate_series(1, %s)",
                (number, MANY),
            )
    events = [Feedback(collection="docs", item_id=item_id, helpful=True, actor="assistant") for item_id in items]
    assert await _entries_read(platform, events) < MANY / 10
