"""The figures: exact on a few searches counted by hand, and limited to one tenant."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg import errors as pg
from psycopg import sql

from retrieval import Context, Feedback, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation.access import add_analyst, analysts, remove_analyst
from retrieval.adapters.store.records.analytics import analytics_statement
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError, NotFoundError, UnknownCollectionError
from retrieval.domain.records.analytics import AnalyticsTable, AnalyticsView, ViewQuestion
from retrieval.domain.records.slate import ShownItem, Slot
from tests.support.analytics_reference import mark, written_into
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA
from tests.support.markdown import blocks

FIRST, SECOND = datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)
END = datetime(2026, 3, 4, tzinfo=UTC)

VIEWS = {
    "contexts", "exploration", "feedback", "latency", "losses", "poor_queries", "positions", "profiles", "queries",
    "rated", "recall", "rising_items", "shown_items", "unused_items", "usage", "usage_by_day",
}  # fmt: skip
NOT_OF_A_PERIOD = {"losses", "recall", "unused_items", "usage"}

SEARCHES = """
    INSERT INTO retrievals (collection_id, retrieval_id, retrieved_at, query, condition, request, profile_version,
        model_version, policy, statistics_at, seed, eligible, hits, path, notes, timings_ms, retrieval_time_ms,
        top_score, generation_triggered, backtrack_count, pool_items)
    SELECT %(id)s, lpad(n::text, 32, '0')::uuid, at::timestamptz, query, '{}', '{}', profile, model, 'off/1',
        at::timestamptz, 1, 0, hits, path, '{}', timings::jsonb, ms, score, false, 0, '{}'
    FROM (VALUES
        (1, '2026-03-02 10:00+00', 'one', 1, 0, 2, 'exact', '{"embed": 1, "candidates": 2, "total": 4}', 4, 0.9),
        (2, '2026-03-02 11:00+00', 'one', 1, 0, 2, 'exact', '{"embed": 3, "candidates": 4, "total": 8}', 8, 0.5),
        (3, '2026-03-03 10:00+00', 'two', 2, 1, 0, 'none', '{"candidates": 1, "total": 2}', 2, NULL),
        (4, '2026-03-03 11:00+00', 'three', 2, 1, 2, 'exact', '{"embed": 5, "candidates": 1, "total": 6}', 6, 0.7)
    ) AS found (n, at, query, profile, model, hits, path, timings, ms, score)
    ON CONFLICT DO NOTHING
"""
SHOWN = """
    UPDATE retrievals AS r SET shown_items = hits.items, shown_scores = array_fill(1, ARRAY[2]),
        shown_slots = hits.slots, propensities = hits.chances
    FROM (SELECT n, array_agg(item ORDER BY rank) AS items, array_agg(slot ORDER BY rank) AS slots,
        array_agg(p ORDER BY rank) AS chances FROM (VALUES
        (1, 'a', 1, 'exploit', 1), (1, 'b', 2, 'explore', 0.5),
        (2, 'b', 1, 'swap', 1), (2, 'a', 2, 'swap', 1),
        (4, 'a', 1, 'exploit', 1), (4, 'gone', 2, 'explore', 0.25)
    ) AS hit (n, item, rank, slot, p) GROUP BY n) AS hits
    WHERE r.collection_id = %(id)s AND r.retrieval_id = lpad(hits.n::text, 32, '0')::uuid
"""
VERDICTS = """
    INSERT INTO feedback (collection_id, item_id, feedback_key, subject, retrieval_id, actor, kind, reward, weight,
        contexts, occurred_at, received_at, superseded_at, discounted)
    SELECT r.collection_id, item, gen_random_uuid(), gen_random_uuid(), r.retrieval_id, said.actor, kind, reward,
        weight, CASE said.actor WHEN 'ann' THEN '{"",domain=db}' ELSE '{""}' END::text[], r.retrieved_at,
        r.retrieved_at + interval '1 minute', superseded::timestamptz, discounted
    FROM (VALUES
        (1, 'a', 'ann', 'rating', 1, 1, NULL, ''), (1, 'a', 'bob', 'click', 0, 0.5, NULL, ''),
        (1, 'b', 'ann', 'rating', 0, 1, NULL, ''),
        (2, 'b', 'ann', 'rating', 0.5, 1, '2026-03-02 12:00+00', ''), (2, 'b', 'ann', 'rating', 0.75, 1, NULL, ''),
        (2, 'a', 'eve', 'rating', 1, 0, NULL, 'quarantined'),
        (4, 'a', 'ann', 'rating', 0.5, 1, NULL, ''), (4, 'gone', 'ann', 'rating', 0.25, 1, NULL, '')
    ) AS said (n, item, actor, kind, reward, weight, superseded, discounted)
    JOIN retrievals AS r ON r.collection_id = %(id)s AND r.retrieval_id = lpad(said.n::text, 32, '0')::uuid
    ON CONFLICT DO NOTHING
"""
KNOWN = """
    WITH decay AS (
        INSERT INTO learning_states (collection_id, half_life_days, landmark)
        VALUES (%(id)s, 10, now() - interval '10 days')
    ), lost AS (
        INSERT INTO recording_losses VALUES (%(id)s, '2026-03-02', 'overflow', 7)
    ), measured AS (
        INSERT INTO recall_measurements (collection_id, space_id, bucket, samples, recall, short_pages, effort)
        SELECT %(id)s, min(space_id), 'all', 20, 0.995, 0, 100 FROM embedding_spaces
        ON CONFLICT DO NOTHING
    )
    INSERT INTO arms (collection_id, item_id, context, successes, failures, uses, raw_successes, last_used_at)
    VALUES (%(id)s, 'a', '', 3, 1, 10, 8, '2026-03-03 11:00+00'),
        (%(id)s, 'a', 'domain=db', 1, 0, 1, 1, '2026-03-02+00'), (%(id)s, 'b', '', 0, -1e-17, 0, 0, NULL)
"""
MANY = """
    INSERT INTO retrievals (collection_id, retrieval_id, retrieved_at, query, condition, request, profile_version,
        model_version, policy, statistics_at, seed, eligible, hits, path, notes, timings_ms, retrieval_time_ms,
        top_score, generation_triggered, backtrack_count, pool_items)
    SELECT %(id)s, gen_random_uuid(), '2026-03-02 10:00+00', 'query ' || n, '{}', own.request::jsonb, own.version, 0,
        'off/1', now(), 1, 0, 3, 'exact', '{}', '{}', 1, n / 20.0, false, 0, '{}'
    FROM generate_series(1, 20) AS n
    CROSS JOIN LATERAL (VALUES (1, '{}'), (0, format('{"profile": {"depth": %%s}}', n / 2))) AS own (version, request)
    ON CONFLICT DO NOTHING
"""


async def fill(platform: Platform) -> None:
    """Two days of searches in ``docs``; in ``many`` twenty with scores to 1, and as many with profiles of their own."""
    docs, many = await platform.collection("docs"), await platform.collection("many")
    await docs.add([{"_id": item_id, "title": f"Item {item_id}", "text": "text"} for item_id in "abc"])
    await docs.add([{"_id": "d", "text": "text", "status": "archived"}])
    async with platform.database.transaction(platform.tenant_id) as connection:
        for statement in (SEARCHES, SHOWN, VERDICTS, KNOWN):
            await connection.execute(statement.encode(), {"id": (await docs.refresh()).collection_id})
        await connection.execute(MANY.encode(), {"id": (await many.refresh()).collection_id})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(database_url: str) -> AsyncIterator[tuple[Platform, Platform]]:
    """Two tenants with the same collections, searches and feedback."""
    settings = Settings(tenant="analytics-1", database_schema=SCHEMA, embedder="none")
    async with (
        connect(database_url, settings=settings, embedder=HashingEmbedder()) as first,
        connect(database_url, settings=settings.changed(tenant="analytics-2"), embedder=HashingEmbedder()) as second,
    ):
        for platform in (first, second):
            await fill(platform)
        yield first, second


async def rows_of(platform: Platform, view: str, collection: str | None = "docs") -> AnalyticsTable:
    """The rows of a view, of the two days where it is about a period."""
    period: dict[str, Any] = {} if view in NOT_OF_A_PERIOD else {"since": FIRST, "until": END}
    if view == "rising_items":
        period["since"] = SECOND
    return await platform.analytics(view, collection=collection, **period)


def columns_of(table: AnalyticsTable, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of each row."""
    return [tuple(row[name] for name in columns) for row in table]


def near(*rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The rows, with fractions compared to six digits."""
    return [
        tuple(pytest.approx(value, rel=1e-6) if isinstance(value, float) else value for value in row) for row in rows
    ]


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_catalogue_lists_every_view_with_a_sentence_and_its_columns(two: tuple[Platform, Platform]) -> None:
    """Nothing is undescribed, and only what sums up a period is a function."""
    views = {view.name: view for view in await two[0].analytics_views()}
    assert set(views) == VIEWS
    assert all(view.about.endswith(".") and view.columns[0].name == "collection" for view in views.values())
    lists = {name for name, view in views.items() if not view.is_function}
    assert lists == NOT_OF_A_PERIOD | {"queries", "rated"}
    assert all(views[name].time_column for name in lists)


async def test_usage_counts_raw_and_decayed(two: tuple[Platform, Platform]) -> None:
    """Eight of ten has Wilson's interval; a half-life halves the decayed number, not the mean; nothing is below 0."""
    rows = await rows_of(two[0], "usage")
    columns = ("item_id", "title", "context", "uses", "successes", "success_rate", "success_low", "success_high")
    assert columns_of(rows, *columns) == near(
        ("a", "Item a", "", 10, 8, 0.8, 0.49016247, 0.94331779),
        ("a", "Item a", "domain=db", 1, 1, 1.0, 0.20654931, 1.0),
        ("b", "Item b", "", 0, 0, None, None, None),
    )
    decayed = columns_of(rows, "pulls", "reward")
    assert decayed[0] == (pytest.approx(2.0, rel=1e-3), 0.75)
    assert decayed[2] == (0, None)


async def test_unused_items_were_never_shown_or_never_used(two: tuple[Platform, Platform]) -> None:
    """A display is not a use, and an archived item is not reported."""
    rows = await rows_of(two[0], "unused_items")
    assert sorted(columns_of(rows, "item_id", "state", "last_shown_at")) == [
        ("b", "never used", datetime(2026, 3, 2, 11, tzinfo=UTC)),
        ("c", "never shown", None),
    ]


async def test_rising_items_are_used_more_than_before_and_others_sink(two: tuple[Platform, Platform]) -> None:
    """The greatest changes first, so that a limit leaves out neither kind.

    ``b`` fell from two uses to none and ``a`` from two to one; ``gone`` rose from none, and is no longer stored.
    """
    rows = await rows_of(two[0], "rising_items")
    columns = ("item_id", "title", "used", "used_before", "shown", "shown_before", "rise")
    assert columns_of(rows, *columns) == near(
        ("b", "Item b", 0, 2, 0, 2, 1 / 3), ("gone", None, 1, 0, 1, 0, 2.0), ("a", "Item a", 1, 2, 1, 2, 2 / 3)
    )


async def test_rising_items_of_all_times_are_compared_with_nothing(two: tuple[Platform, Platform]) -> None:
    """No period before the year 1 is asked for."""
    period: dict[str, Any] = {"since": datetime(1, 1, 1, tzinfo=UTC), "until": datetime(9999, 12, 31, tzinfo=UTC)}
    rows = await two[0].analytics("rising_items", collection="docs", **period)
    assert rows
    assert all(row["used_before"] == row["shown_before"] == 0 for row in rows)


async def test_usage_by_day_adds_up_from_the_beginning_of_the_period(two: tuple[Platform, Platform]) -> None:
    """The most used items first, day by day; a superseded or discounted verdict is not in it."""
    rows = await rows_of(two[0], "usage_by_day")
    columns = ("item_id", "context", "day", "uses", "successes", "success_rate")
    assert columns_of(rows, *columns) == near(
        ("a", "", FIRST.date(), 2, 1, 0.5),
        ("a", "", SECOND.date(), 3, 2, 2 / 3),
        ("a", "domain=db", FIRST.date(), 1, 1, 1.0),
        ("a", "domain=db", SECOND.date(), 2, 2, 1.0),
        ("b", "", FIRST.date(), 2, 1, 0.5),
        ("b", "domain=db", FIRST.date(), 2, 1, 0.5),
        ("gone", "", SECOND.date(), 1, 0, 0.0),
        ("gone", "domain=db", SECOND.date(), 1, 0, 0.0),
    )
    assert columns_of(rows, "success_low", "success_high")[0] == near((0.09453121, 0.90546879))[0]
    later = await two[0].analytics("usage_by_day", collection="docs", since=SECOND, until=END, limit=1)
    assert columns_of(later, "item_id", "uses") == [("a", 1)]


async def test_a_limit_of_usage_by_day_leaves_out_rare_contexts_before_items(platform: Platform) -> None:
    """With the contexts of the most used item first, the plot of the most used items would lack the others."""
    await (await platform.collection("docs")).add([{"_id": item_id, "text": item_id} for item_id in "ab"])
    contexts = [("a", Context(domain=domain)) for domain in ("x", "y", "z")] + [("b", None)] * 2
    await platform.feedback_each(
        [Feedback(collection="docs", item_id=item_id, helpful=True, context=context) for item_id, context in contexts]
    )
    rows = await platform.analytics("usage_by_day", collection="docs", limit=2)
    assert columns_of(rows, "item_id", "context", "uses") == [("a", "", 3), ("b", "", 2)]


async def test_contexts_have_the_mean_reward_of_their_feedback(two: tuple[Platform, Platform]) -> None:
    """Bob's click counts in no context but that of all; the errors are of the events' rewards."""
    rows = await rows_of(two[0], "contexts")
    columns = ("context", "items", "uses", "reward", "reward_se")
    assert columns_of(rows, *columns) == near(("", 3, 6, 2.5 / 6, 1 / 6), ("domain=db", 3, 5, 0.5, 0.1767767))


async def test_shown_items_count_impressions_and_what_they_earned(two: tuple[Platform, Platform]) -> None:
    """The reward of an impression is the mean of its verdicts by weight: 1 and 0 at half weight make 2/3."""
    rows = await rows_of(two[0], "shown_items")
    columns = ("item_id", "shown", "explored", "mean_rank", "rated", "reward", "reward_se")
    assert columns_of(rows, *columns) == near(
        ("a", 3, 0, 4 / 3, 2, 7 / 12, 1 / 12), ("b", 2, 1, 1.5, 2, 0.375, 0.375), ("gone", 1, 1, 2.0, 1, 0.25, None)
    )


async def test_rated_impressions_leave_out_what_does_not_count(two: tuple[Platform, Platform]) -> None:
    """Superseded and discounted verdicts are not in the reward."""
    rows = await rows_of(two[0], "rated")
    assert columns_of(rows, "item_id", "rank", "slot", "reward", "weight", "verdicts") == near(
        ("a", 1, "exploit", 0.5, 1.0, 1),
        ("gone", 2, "explore", 0.25, 1.0, 1),
        ("b", 1, "swap", 0.75, 1.0, 1),
        ("a", 1, "exploit", 2 / 3, 1.5, 2),
        ("b", 2, "explore", 0.0, 1.0, 1),
    )


async def test_queries_are_the_log(two: tuple[Platform, Platform]) -> None:
    """The newest first; a search without a result says so."""
    rows = await rows_of(two[0], "queries")
    assert columns_of(rows, "query", "hits", "is_empty", "top_score", "profile_version", "retrieval_time_ms") == near(
        ("three", 2, False, 0.7, 2, 6.0),
        ("two", 0, True, None, 2, 2.0),
        ("one", 2, False, 0.5, 1, 8.0),
        ("one", 2, False, 0.9, 1, 4.0),
    )


async def test_poor_queries_found_nothing_or_scored_among_the_lowest(two: tuple[Platform, Platform]) -> None:
    """The lowest of twenty scores is poor; none of three is, and none among scores of different profiles of calls."""
    rows = await rows_of(two[0], "poor_queries", None)
    columns = ("collection", "query", "reason", "searches", "profile_version", "top_score")
    assert sorted(columns_of(rows, *columns)) == [
        ("docs", "two", "no result", 1, 2, None),
        ("many", "query 1", "low score", 1, 1, pytest.approx(0.05)),
    ]


async def test_latency_has_percentiles_by_day_path_and_stage(two: tuple[Platform, Platform]) -> None:
    """Between two searches a percentile is interpolated."""
    rows = await rows_of(two[0], "latency")
    columns = ("day", "path", "stage", "searches", "p50_ms", "p95_ms", "slowest_ms")
    assert columns_of(rows, *columns) == near(
        (SECOND.date(), "exact", "candidates", 1, 1.0, 1.0, 1.0),
        (SECOND.date(), "exact", "embed", 1, 5.0, 5.0, 5.0),
        (SECOND.date(), "exact", "total", 1, 6.0, 6.0, 6.0),
        (SECOND.date(), "none", "candidates", 1, 1.0, 1.0, 1.0),
        (SECOND.date(), "none", "total", 1, 2.0, 2.0, 2.0),
        (FIRST.date(), "exact", "candidates", 2, 3.0, 3.9, 4.0),
        (FIRST.date(), "exact", "embed", 2, 2.0, 2.9, 3.0),
        (FIRST.date(), "exact", "total", 2, 6.0, 7.8, 8.0),
    )


async def test_losses_are_by_day_and_reason(two: tuple[Platform, Platform]) -> None:
    """Unrecorded searches are counted; a day belongs to a period that has a part of it."""
    assert columns_of(await rows_of(two[0], "losses"), "day", "reason", "retrievals") == [(FIRST.date(), "overflow", 7)]
    later = FIRST + timedelta(hours=12)
    assert len(await two[0].analytics("losses", since=later)) == 1
    assert len(await two[0].analytics("losses", since=SECOND)) == 0
    assert len(await two[0].analytics("losses", until=FIRST)) == 0


async def test_exploration_has_its_share_and_its_cost(two: tuple[Platform, Platform]) -> None:
    """The whole period comes first, with a standard error; then each day."""
    rows = await rows_of(two[0], "exploration")
    counts = ("day", "shown", "explored", "swapped", "explored_share", "exploit_rated", "explore_rated")
    assert columns_of(rows, *counts) == near(
        (None, 6, 2, 2, 1 / 3, 2, 2),
        (FIRST.date(), 4, 1, 2, 0.25, 1, 1),
        (SECOND.date(), 2, 1, 0, 0.5, 1, 1),
    )
    assert columns_of(rows, "exploit_reward", "explore_reward", "cost", "cost_se") == near(
        (7 / 12, 0.125, 11 / 24, 0.15023131),
        (2 / 3, 0.0, 2 / 3, None),
        (0.5, 0.25, 0.25, None),
    )


async def test_positions_have_all_impressions_and_swapped_ones_apart(two: tuple[Platform, Platform]) -> None:
    """A swapped impression without a rating has the reward NULL, not 0."""
    rows = await rows_of(two[0], "positions")
    assert columns_of(rows, "rank", "shown", "rated", "reward", "reward_se") == near(
        (1, 3, 3, 23 / 36, 0.07349309), (2, 3, 2, 0.125, 0.125)
    )
    assert columns_of(rows, "swapped", "lowered_rated", "lowered_reward", "raised_rated", "raised_reward") == [
        (0, 0, None, 0, None),
        (1, 0, None, 1, 0.75),
    ]


async def test_positions_compare_the_two_items_of_each_swap(platform: Platform) -> None:
    """Rewards that do not depend on the rank show no effect of it, however much the items differ."""
    collection = await platform.collection("swaps")
    rewards = {"a": 0.9, "b": 0.6, "c": 0.3, "d": 0.0}
    await collection.add([{"id": item_id, "text": "text"} for item_id in rewards])
    for order, pair in (("bacd", "ab"), ("acbd", "bc"), ("abdc", "cd"), ("abdc", "cd"), ("abcd", "")):
        shown = [ShownItem(item_id=item, score=1.0, slot=Slot.SWAP if item in pair else Slot.EXPLOIT) for item in order]
        answer = await collection.record_answer("query", shown, origin="desk", retrieval_time_ms=1.0)
        assert answer is not None
        await platform.recorded()
        for item_id, reward in rewards.items():
            await platform.feedback(answer, item_id, reward=reward)
    rows = await platform.analytics("positions", collection="swaps")
    assert columns_of(rows, "rank", "swapped", "lowered_rated", "lowered_reward", "raised_rated", "raised_reward") == [
        (1, 0, 0, None, 0, None),
        (2, 1, 1, 0.9, 1, 0.6),
        (3, 1, 1, 0.6, 1, 0.3),
        (4, 2, 2, 0.3, 2, 0.0),
    ]
    assert columns_of(rows, "lowered_reward_se", "raised_reward_se")[-1] == (0.0, 0.0)


async def test_profiles_stand_side_by_side(two: tuple[Platform, Platform]) -> None:
    """The standard error takes the impressions of one search together; of a single search there is none."""
    rows = await rows_of(two[0], "profiles")
    columns = ("profile_version", "model_version", "searches", "empty_searches", "top_score", "p50_ms", "p95_ms")
    assert columns_of(rows, *columns) == near((2, 1, 2, 1, 0.7, 4.0, 5.8), (1, 0, 2, 0, 0.7, 6.0, 7.8))
    assert columns_of(rows, "rated", "rated_searches", "reward", "reward_se") == near(
        (2, 1, 0.375, None), (3, 2, 17 / 36, 5 / 27)
    )


async def test_feedback_is_by_kind_and_actor_with_what_does_not_count_apart(two: tuple[Platform, Platform]) -> None:
    """A superseded verdict is an event that does not count; a discounted one says why."""
    rows = await rows_of(two[0], "feedback")
    columns = ("kind", "actor", "discounted", "events", "superseded", "counting", "weight", "reward")
    assert columns_of(rows, *columns) == near(
        ("rating", "ann", "", 6, 1, 5, 5.0, 0.5),
        ("click", "bob", "", 1, 0, 1, 0.5, 0.0),
        ("rating", "eve", "quarantined", 1, 0, 0, 0.0, 1.0),
    )


async def test_a_period_a_collection_and_a_limit_narrow_what_is_given(two: tuple[Platform, Platform]) -> None:
    """An age counts back from now; rows cannot be changed; plain values are JSON's."""
    platform = two[0]
    assert columns_of(await platform.analytics("queries", since=SECOND, limit=1), "query") == [("three",)]
    assert len(await platform.analytics("queries", collection="docs", until=SECOND)) == 2
    assert len(await platform.analytics("queries", since=timedelta(minutes=1))) == 0
    assert len(await platform.analytics("queries", collection="docs", since=timedelta(hours=14), until=END)) == 2
    assert columns_of(await platform.analytics("profiles", collection="docs", until=SECOND), "profile_version") == [
        (1,)
    ]
    assert len(await platform.analytics("profiles", since=timedelta(minutes=1))) == 0
    rows = await platform.analytics("queries", collection="docs")
    with pytest.raises(TypeError):
        rows[0]["query"] = "x"  # type: ignore[index]
    assert rows.as_dicts()[0]["retrieved_at"] == "2026-03-03T11:00:00+00:00"
    assert [row["query"] for row in rows[1:3]] == ["two", "one"]


@pytest.mark.parametrize(
    ("view", "wrong", "error", "message"),
    [
        ("nothing", {}, NotFoundError, "there is no view 'nothing'; there are: contexts, exploration"),
        ("queries; DROP TABLE items", {}, NotFoundError, "there is no view"),
        ("usage", {"collection": "nowhere"}, UnknownCollectionError, "there is no collection 'nowhere'"),
        ("usage", {"since": FIRST.replace(tzinfo=None)}, InvalidRequestError, "with a time zone"),
        ("usage", {"since": "yesterday"}, InvalidRequestError, "must be a datetime"),
        ("usage", {"until": timedelta(days=1)}, InvalidRequestError, "must be a datetime"),
        ("usage", {"since": timedelta(days=10**8)}, InvalidRequestError, "before all times"),
        ("rising_items", {"until": datetime(1, 1, 2, tzinfo=UTC)}, InvalidRequestError, "before all times"),
        ("usage", {"since": timedelta(days=-1)}, InvalidRequestError, "must be 0 or more"),
        ("usage", {"limit": 0}, InvalidLimitError, "from 1 to"),
        ("usage", {"limit": 2**63}, InvalidLimitError, "from 1 to"),
    ],
)
async def test_invalid_arguments_are_refused(
    two: tuple[Platform, Platform], view: str, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Names are looked up, never put into a statement."""
    with pytest.raises(error, match=message):
        await two[0].analytics(view, **wrong)


async def read_all(connection: psycopg.AsyncConnection[Any], views: list[AnalyticsView]) -> dict[str, int]:
    """The number of rows of each view, over all of time and all collections."""
    figures = {}
    for view in views:
        statement = analytics_statement(
            view, ViewQuestion(since=FIRST, until=END) if view.is_function else ViewQuestion(), END
        )
        cursor = await connection.execute(statement.text.encode(), statement.parameters)
        figures[view.name] = len(await cursor.fetchall())
    return figures


async def test_every_view_shows_a_tenant_what_it_shows_the_other_and_no_more(
    two: tuple[Platform, Platform], database_url: str
) -> None:
    """Both tenants hold the same, and see as much; everybody's is twice that, and without a tenant there is nothing."""
    views = await two[0].analytics_views()
    visible = []
    for platform in two:
        async with platform.database.transaction(platform.tenant_id) as acting:
            visible.append(await read_all(acting, views))
    async with two[0].database.transaction(None) as acting:
        nothing = await read_all(acting, views)
    async with await psycopg.AsyncConnection.connect(database_url) as everybody:
        await everybody.execute(f"SET search_path = {SCHEMA}".encode())
        lists = [view for view in views if not view.is_function]
        everything = await read_all(everybody, lists)
    assert visible[0] == visible[1]
    assert all(visible[0].values())
    assert not any(nothing.values())
    assert all(everything[name] >= 2 * visible[0][name] for name in everything)


@pytest_asyncio.fixture(loop_scope="module")
async def analyst(
    two: tuple[Platform, Platform], database_url: str
) -> AsyncIterator[tuple[str, psycopg.AsyncConnection[Any]]]:
    """A login that was made the first tenant's analyst, and its session."""
    login = f'ann "{uuid.uuid4().hex[:12]}'
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as session:
        await session.execute(sql.SQL("CREATE ROLE {} LOGIN NOINHERIT").format(sql.Identifier(login)))
        await add_analyst(two[0].database, two[0].tenant_id, login)
        await session.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(login)))
        await session.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(SCHEMA)))
        yield login, session
        await session.execute("RESET SESSION AUTHORIZATION")
        await session.execute("DELETE FROM retrieval.analyst_logins WHERE login = %s", (login,))
        await session.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(login)))
        await session.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(login)))


Analyst = tuple[str, psycopg.AsyncConnection[Any]]


async def test_an_analyst_sees_one_tenants_figures_and_items(two: tuple[Platform, Platform], analyst: Analyst) -> None:
    """All views, with just the rows that the tenant itself sees; and the tables below, with the tenant's rows alone."""
    views = await two[0].analytics_views()
    async with two[0].database.transaction(two[0].tenant_id) as acting:
        own = await read_all(acting, views)
        ids = await (await acting.execute("SELECT collection_id FROM collections")).fetchall()
    assert await read_all(analyst[1], views) == own
    for table in ("collections", "items", "retrievals", "impressions", "feedback", "arms", "profiles"):
        query = sql.SQL("SELECT DISTINCT collection_id FROM {}").format(sql.Identifier(table))
        cursor = await analyst[1].execute(query)
        visible = await cursor.fetchall()
        assert visible
        assert set(visible) <= set(ids)


async def test_an_analyst_estimates_the_tenants_own_searches_alone(
    two: tuple[Platform, Platform], analyst: Analyst
) -> None:
    """What the tenant itself estimates of its searches, and nothing of another tenant's."""
    estimates = (
        "SELECT * FROM off_policy_weighing(%(own)s, '-infinity', NULL, 10, {targets})",
        "SELECT * FROM off_policy_comparison(%(own)s, '-infinity', 0, 10, {targets}) ORDER BY 1, 2",
        "SELECT * FROM interleaved_results(%(own)s, '-infinity', 'active', 'v1')",
    )
    answers = []
    for of in two:
        async with of.database.transaction(of.tenant_id) as acting:
            [(own, retrieval_id, item_id)] = await (
                await acting.execute("SELECT collection_id, retrieval_id, item_id FROM impressions LIMIT 1")
            ).fetchall()
            values = {"own": own, "ids": [retrieval_id] * 2, "items": [item_id] * 2}
            targets = "'{1,2}', %(ids)s, %(items)s, '{1,0.5}', '{0,0}'"
            texts = [text.format(targets=targets).encode() for text in estimates]
            expected = [await (await acting.execute(text, values)).fetchall() for text in texts]
        seen = [await (await analyst[1].execute(text, values)).fetchall() for text in texts]
        answers.append((expected, seen))
    (own_expected, own_seen), (other_expected, other_seen) = answers
    assert own_seen == own_expected
    assert own_seen[0][0][0] == other_expected[0][0][0] == 1
    assert other_seen[0][0][0] == 0
    assert other_seen[1:] == [[], []]


ESCAPES = (
    "SET retrieval.tenant = '{other}'",
    "SELECT set_config('retrieval.tenant', '{other}', false)",
    pytest.param(
        f"SET ROLE {SCHEMA}_analyst",
        marks=not_on_a_cluster("nodes are logged in at as the role that acts, which is nobody's analyst"),
    ),
)


@pytest.mark.parametrize("escape", ESCAPES)
async def test_nothing_that_an_analyst_sets_shows_another_tenant(
    two: tuple[Platform, Platform], analyst: Analyst, escape: str
) -> None:
    """The login decides, not a setting or a role."""
    session = analyst[1]
    before = await (await session.execute("SELECT collection_id, item_id FROM items ORDER BY 1, 2")).fetchall()
    await session.execute(escape.format(other=two[1].tenant_id).encode())
    assert await (await session.execute("SELECT collection_id, item_id FROM items ORDER BY 1, 2")).fetchall() == before
    assert await (await session.execute("SELECT analyst_tenant()")).fetchone() == (two[0].tenant_id,)


@pytest.mark.parametrize(
    "statement",
    [
        f"SET ROLE {SCHEMA}_app",
        f"SET ROLE {SCHEMA}_definer",
        "SELECT * FROM analyst_logins",
        "UPDATE analyst_logins SET tenant_id = 1",
        "INSERT INTO feedback SELECT * FROM feedback",
        "UPDATE items SET body = ''",
        "DELETE FROM retrievals",
        "TRUNCATE arms",
        "SELECT * FROM retrievals_default",
        "SELECT * FROM tenants",
        "SELECT ensure_tenant('mine')",
        "CREATE TABLE mine (x int)",
        "CREATE POLICY mine ON items USING (true)",
    ],
)
async def test_an_analyst_writes_nothing_and_takes_on_no_other_role(analyst: Analyst, statement: str) -> None:
    """Figures are to be read."""
    with pytest.raises(pg.InsufficientPrivilege):
        await analyst[1].execute(statement.encode())


@not_on_a_cluster("nodes do not know the functions of a session")
async def test_a_function_of_the_analysts_own_does_not_see_more(
    two: tuple[Platform, Platform], analyst: Analyst
) -> None:
    """A condition that leaks its arguments is called only with the tenant's own rows."""
    session, answers = analyst[1], []
    session.add_notice_handler(lambda notice: answers.append(str(notice.message_primary)))
    await session.execute(
        "CREATE FUNCTION pg_temp.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS "
        "$$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
    )
    await session.execute("SELECT FROM items WHERE pg_temp.leak(collection_id::text)")
    own = {str((await (await two[0].collection(name)).refresh()).collection_id) for name in ("docs", "many")}
    assert answers
    assert set(answers) <= own


async def test_an_analyst_that_was_removed_sees_nothing(two: tuple[Platform, Platform], analyst: Analyst) -> None:
    """The list of analysts is the tenant's; removing takes effect on sessions that are open."""
    login, session = analyst
    assert login in [analyst.login for analyst in await analysts(two[0].database, two[0].tenant_id)]
    assert await analysts(two[1].database, two[1].tenant_id) == []
    with pytest.raises(InvalidRequestError, match="another tenant's analyst"):
        await add_analyst(two[1].database, two[1].tenant_id, login)
    with pytest.raises(NotFoundError, match="not an analyst of this tenant"):
        await remove_analyst(two[1].database, two[1].tenant_id, login)
    await add_analyst(two[0].database, two[0].tenant_id, login)
    await remove_analyst(two[0].database, two[0].tenant_id, login)
    with pytest.raises(pg.InsufficientPrivilege):
        await session.execute("SELECT * FROM retrieval.items")
    assert login not in [analyst.login for analyst in await analysts(two[0].database, two[0].tenant_id)]


async def test_a_login_that_sees_more_cannot_be_an_analyst(two: tuple[Platform, Platform], database_url: str) -> None:
    """A superuser, a member of the platform's roles and a login that does not exist are refused by name."""
    where = (two[0].database, two[0].tenant_id)
    login = f"login_{uuid.uuid4().hex[:12]}"
    with pytest.raises(NotFoundError, match="there is no login"):
        await add_analyst(*where, login)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(f"CREATE ROLE {login} LOGIN IN ROLE {SCHEMA}_app".encode())
        try:
            with pytest.raises(InvalidRequestError, match="would see every tenant"):
                await add_analyst(*where, login)
            await connection.execute(f"REVOKE {SCHEMA}_app FROM {login}".encode())
            await connection.execute(f"ALTER ROLE {login} BYPASSRLS".encode())
            with pytest.raises(InvalidRequestError, match="would see every tenant"):
                await add_analyst(*where, login)
        finally:
            await connection.execute(f"DROP ROLE {login}".encode())


PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "analytics.md"


async def test_the_documentation_says_what_the_catalogue_says(two: tuple[Platform, Platform]) -> None:
    """Each view has its sentence and its columns there; ``written_into`` writes them."""
    views = await two[0].analytics_views()
    page = PAGE.read_text(encoding="utf-8")
    assert not [view.name for view in views if mark(view) not in page]
    assert page == written_into(page, views)


QUESTIONS = [block for block in blocks(PAGE, "sql") if block.text.startswith("SELECT")]


async def test_the_questions_of_the_documentation_are_answered(analyst: Analyst) -> None:
    """An analyst can copy each."""
    assert len(QUESTIONS) == len(VIEWS)
    for block in QUESTIONS:
        await analyst[1].execute(block.text.encode())
