"""Arms of many items are read at once, as of one time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from retrieval import Collection, Platform
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.learning.arms import arms_from, arms_statement, past_arms_statement, read_arms
from retrieval.domain.learning.arm import ItemArms
from retrieval.domain.learning.feedback import Feedback
from tests.support.cluster import not_on_a_cluster
from tests.support.searching import without_shard

LANDMARK = datetime(2026, 1, 1, tzinfo=UTC)
USED = datetime(2026, 2, 3, 4, 5, tzinfo=UTC)


async def _fill(platform: Platform, arms: list[tuple[Any, ...]]) -> Collection:
    collection = await platform.collection("docs")
    await collection.add([{"_id": item_id, "text": f"text {item_id}"} for item_id in ("a", "b")])
    number = (await collection.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("INSERT INTO item_clusters VALUES (%s, 'a', 7)", (number,))
        for arm in arms:
            await connection.execute("INSERT INTO arms VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", (number, *arm))
    return collection


async def _read(platform: Platform, item_ids: list[str], buckets: list[str], now: datetime) -> dict[str, ItemArms]:
    number = (await (await platform.collection("docs")).refresh()).collection_id
    where = CollectionPlace(platform.database, platform.tenant_id, number)
    return await read_arms(where, item_ids=item_ids, buckets=buckets, now=now)


async def test_arms_are_decayed_to_the_requested_time(platform: Platform) -> None:
    """After a half-life, half of an event is left; the default half-life is 30 days."""
    collection = await _fill(platform, [("a", "", 4.0, 2.0, 6, 4, USED), ("a", "domain=db", 1.0, 0.0, 1, 1, USED)])
    arms = (await _read(platform, ["a", "b"], ["", "domain=db"], LANDMARK + timedelta(days=30)))["a"]
    assert arms.anywhere == (2.0, 1.0, 6, 4, USED)
    assert arms.arms["domain=db"] == (0.5, 0.0, 1, 1, USED)
    async with platform.database.transaction(platform.tenant_id) as connection:
        number = (await collection.refresh()).collection_id
        await connection.execute(
            "INSERT INTO learning_states (collection_id, half_life_days, landmark) VALUES (%s, 10, %s)",
            (number, LANDMARK + timedelta(days=10)),
        )
    arms = (await _read(platform, ["a"], [""], LANDMARK + timedelta(days=30)))["a"]
    assert (arms.anywhere.successes, arms.anywhere.failures) == (1.0, 0.5)


async def test_an_item_is_there_with_what_is_known_of_it(platform: Platform) -> None:
    """The answer has the item's cluster and storage time; an unknown item has no arms, only the requested buckets."""
    await _fill(platform, [("a", "", 1.0, 0.0, 1, 1, USED), ("a", "domain=db", 1.0, 0.0, 1, 1, USED)])
    arms = await _read(platform, ["a", "b", "gone", "a"], ["", "domain=web"], LANDMARK)
    assert list(arms) == ["a", "b", "gone"]
    assert (arms["a"].cluster, list(arms["a"].arms)) == (7, [""])
    assert arms["b"].created_at is not None
    assert (arms["b"].cluster, dict(arms["b"].arms)) == (None, {})
    assert (arms["gone"].created_at, arms["gone"].cluster, dict(arms["gone"].arms)) == (None, None, {})
    assert await _read(platform, [], [""], LANDMARK) == {}


@pytest.mark.parametrize("years", [200, -70])
async def test_a_distant_time_is_not_an_error(platform: Platform, years: int) -> None:
    """After a thousand half-lives nothing is left; a rounding error below zero counts as nothing too."""
    await _fill(platform, [("a", "", 1.0, -1e-17, 1, 1, USED)])
    arm = (await _read(platform, ["a"], [""], LANDMARK + timedelta(days=365 * years)))["a"].anywhere
    assert arm.failures == 0
    assert arm.successes == 0 if years > 0 else arm.successes > 1e250


async def test_past_arms_are_those_that_were_read_then(platform: Platform) -> None:
    """They come from the events, by item: later events and replacements do not matter, retired events count."""
    await _fill(platform, [])
    number = (await (await platform.collection("docs")).refresh()).collection_id
    verdicts = [
        Feedback(collection="docs", item_id=item, reward=reward, actor=actor, at=USED)
        for item, reward, actor in (("a", 0.75, "ann"), ("a", 0.25, "bob"), ("b", 1.0, "ann"))
    ]
    await platform.feedback_each(verdicts)
    moment = await _now(platform)
    then = await _read(platform, ["a", "b", "gone"], ["", "domain=db"], moment)
    assert then["a"].anywhere.uses == 2

    later = [("a", "ann"), ("b", "cy")]
    await platform.feedback_each(
        [Feedback(collection="docs", item_id=item, reward=0.0, actor=actor, at=moment) for item, actor in later]
    )
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("SELECT retire_feedback(%s, ARRAY['b'], %s)", (number, moment))
    arms = arms_from(await platform.database.read(platform.tenant_id, _past(number, moment)))
    assert list(arms) == list(then)
    for item_id, expected in then.items():
        assert arms[item_id].arms.keys() == expected.arms.keys()
        for bucket, arm in expected.arms.items():
            assert arms[item_id].arms[bucket][:4] == pytest.approx(arm[:4])


@not_on_a_cluster("the plan of a function is not shown there")
async def test_past_arms_look_up_each_items_events(platform: Platform) -> None:
    """By the key of the feedback: the rest of the log is not read."""
    await _fill(platform, [])
    number = (await (await platform.collection("docs")).refresh()).collection_id
    statement = _past(number, USED)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await platform.database.set_locally(connection, {"enable_seqscan": "off"})
        cursor = await connection.execute(
            f"EXPLAIN (ANALYZE, TIMING OFF) {statement.text}".encode(), statement.parameters
        )
        plan = "\n".join(without_shard(row[0]) for row in await cursor.fetchall())
    assert "Seq Scan on feedback" not in plan
    condition = next(line for line in _conditions(plan, "feedback") if "Index Cond" in line)
    assert "item_id = ANY (ARRAY[o.item_id])" in condition


async def test_arms_are_looked_up_item_by_item(platform: Platform) -> None:
    """Whatever the planner's estimates, a search never reads the arms of a whole collection."""
    await _fill(platform, [])
    number = (await (await platform.collection("docs")).refresh()).collection_id
    statement = arms_statement(number, item_ids=["a", "b"], buckets=["", "domain=db"], now=USED)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await platform.database.set_locally(connection, {"enable_seqscan": "off"})
        cursor = await connection.execute(
            f"EXPLAIN (ANALYZE, TIMING OFF) {statement.text}".encode(), statement.parameters
        )
        plan = "\n".join(without_shard(row[0]) for row in await cursor.fetchall())
    assert "item_id = o.item_id" in next(line for line in _conditions(plan, "arms") if "Index Cond" in line)


def _past(number: int, moment: datetime) -> Compiled:
    return past_arms_statement(number, item_ids=["a", "b", "gone"], buckets=["", "domain=db"], moment=moment)


def _conditions(plan: str, table: str) -> list[str]:
    """The lines of a plan from the scan of a table on."""
    lines = plan.splitlines()
    return lines[next(place for place, line in enumerate(lines) if f"on {table} " in line) :]


async def _now(platform: Platform) -> datetime:
    async with platform.database.transaction(platform.tenant_id) as connection:
        row = await (await connection.execute("SELECT clock_timestamp()")).fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment
