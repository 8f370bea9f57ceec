"""Arms stay what their events make them: the job that recounts them, retention, other half-lives, many writers."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from feedback_events import COLLECTION, LANDMARK, expected_arms, item_ids, made_events, worst_difference

from retrieval import Collection, Feedback, Platform
from retrieval.jobs.learning import has_feedback, keep_arms
from retrieval.services.workplace import JobTarget
from tests.support.jobs import target_of

ITEMS = 12


async def _fill(platform: Platform, events: list[Feedback]) -> tuple[Collection, JobTarget]:
    collection = await platform.collection(COLLECTION)
    await collection.add([{"_id": item_id, "text": "a principle"} for item_id in item_ids(ITEMS)])
    await platform.feedback_each(events)
    return collection, await target_of(platform, collection)


async def _execute(platform: Platform, statement: str, *values: Any) -> list[Any]:
    async with platform.database.transaction(platform.tenant_id) as connection:
        cursor = await connection.execute(statement.encode(), values)
        return await cursor.fetchall() if cursor.description else []


async def _arms(platform: Platform) -> list[Any]:
    return await _execute(
        platform,
        "SELECT item_id, context, successes, failures, uses, raw_successes, last_used_at FROM arms WHERE uses > 0 "
        "ORDER BY item_id, context",
    )


async def test_many_writers_at_once_lose_nothing_and_count_nothing_twice(platform: Platform) -> None:
    """Eight of them, a quarter replays, late and shuffled, alone and in batches: raw exact, decayed within 1e-12."""
    events = made_events(480, items=ITEMS, seed=7)
    await _fill(platform, [])

    async def write(part: list[Feedback], size: int) -> None:
        for start in range(0, len(part), size):
            await platform.feedback_each(part[start : start + size])

    parts = [events[number::8] for number in range(8)]
    await asyncio.gather(*(write(part, 1 if number % 2 else 15) for number, part in enumerate(parts)))
    wrong, worst = worst_difference(expected_arms(events), await _arms(platform))
    assert wrong == 0
    assert worst <= 1e-12


async def test_a_quarantine_amid_writers_leaves_nothing_of_the_actor(platform: Platform) -> None:
    """Whether an event came before it or after, it does not count."""
    await _fill(platform, [])
    events = [
        Feedback(collection=COLLECTION, item_id=item_id, helpful=True, actor="spammer") for item_id in item_ids(ITEMS)
    ]
    for _ in range(3):
        await asyncio.gather(
            *(platform.feedback_each([event]) for event in events[: ITEMS // 2]),
            platform.quarantine("spammer"),
            *(platform.feedback_each([event]) for event in events[ITEMS // 2 :]),
        )
        assert await _arms(platform) == []
        await platform.release("spammer")
        assert len(await _arms(platform)) == ITEMS
        await _execute(platform, "DELETE FROM feedback")
        await _execute(platform, "DELETE FROM arms")


async def test_the_job_finds_nothing_off_and_mends_what_is(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong counts, wrong sums, an arm that is gone: each is mended, counted and warned of."""
    _, target = await _fill(platform, made_events(120, items=ITEMS, seed=3))
    right = await _arms(platform)
    assert await has_feedback(platform.workplace, target)
    caplog.set_level(logging.WARNING)
    report = await keep_arms(replace(platform.workplace, now=lambda: LANDMARK), target)
    assert (report["arms"] >= len(right), report["mended"]) == (True, 0)
    assert not caplog.records
    broken = (
        "UPDATE arms SET uses = uses + 1 WHERE item_id = %s AND context = ''",
        "UPDATE arms SET successes = successes * 1.001 + 0.001 WHERE item_id = %s AND context = ''",
        "DELETE FROM arms WHERE item_id = %s AND context = ''",
    )
    for statement, item_id in zip(broken, sorted({row[0] for row in right}), strict=False):
        await _execute(platform, statement, item_id)
    assert (await keep_arms(replace(platform.workplace, now=lambda: LANDMARK), target))["mended"] == 3
    assert "3 of " in caplog.text
    _, worst = worst_difference(expected_arms(made_events(120, items=ITEMS, seed=3)), await _arms(platform))
    assert worst <= 1e-12


async def test_retention_removes_events_and_leaves_the_arms(platform: Platform) -> None:
    """Their share lies in the baselines, and a later recount starts from there."""
    events = made_events(120, items=ITEMS, seed=4)
    _, target = await _fill(platform, events)
    await _execute(
        platform,
        "UPDATE feedback SET received_at = (received_at AT TIME ZONE 'UTC' - interval '10 days') AT TIME ZONE 'UTC' "
        "WHERE reward > 0.5",
    )
    settings = platform.settings.changed(retention_feedback_days=5)
    workplace = replace(platform.workplace, settings=settings)
    report = await keep_arms(workplace, target)
    assert report["retired"] > 0
    assert (await _execute(platform, "SELECT count(*) FROM feedback WHERE reward > 0.5"))[0][0] == 0
    await keep_arms(workplace, target)
    wrong, worst = worst_difference(expected_arms(events), await _arms(platform))
    assert wrong == 0
    assert worst <= 1e-12


async def test_a_new_half_life_applies_to_every_event(platform: Platform) -> None:
    """The result is the same as with that half-life from the start; the raw counts stay."""
    event = Feedback(collection=COLLECTION, item_id="item-00001", reward=0.75, at=platform.now - timedelta(days=10))
    collection, target = await _fill(platform, [event])
    await collection.set_learning(half_life_days=5)
    row = (await _arms(platform))[0]
    assert row[4] == 1
    assert row[2:4] == (pytest.approx(0.75 / 4, rel=1e-4), pytest.approx(0.25 / 4, rel=1e-4))
    assert (await keep_arms(platform.workplace, target))["mended"] == 0


async def test_the_landmark_moves_when_weights_have_grown_large(platform: Platform) -> None:
    """The present weight of every event stays the same, of removed events too."""
    collection, target = await _fill(platform, made_events(60, items=ITEMS, seed=5))
    await collection.set_learning(half_life_days=1)
    await _execute(platform, "INSERT INTO arm_baselines SELECT * FROM arms WHERE uses > 0")
    await _execute(platform, "DELETE FROM feedback")
    before, moment = await _left(platform, platform.now), platform.now
    later = moment + timedelta(days=101)
    report = await keep_arms(replace(platform.workplace, now=lambda: later), target)
    assert report["landmark_moved"]
    assert await _left(platform, moment) == pytest.approx(before, rel=1e-9)
    assert (await _execute(platform, "SELECT landmark FROM learning_states"))[0][0] == later


async def _left(platform: Platform, moment: datetime) -> float:
    rows = await _execute(
        platform,
        "SELECT sum(a.successes + a.failures) / decay_weight(%s, s.landmark, s.half_life_days) "
        "FROM arms a JOIN learning_states s USING (collection_id) GROUP BY s.landmark, s.half_life_days",
        moment,
    )
    return float(rows[0][0])
