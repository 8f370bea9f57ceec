"""Feedback loses weight by when it happened, until nothing is left."""

from __future__ import annotations

from datetime import timedelta

import pytest

from retrieval import Feedback, Platform
from retrieval.adapters.store.learning.arms import read_arms, recount_arms
from retrieval.domain.learning.arm import Arm


async def _stored(platform: Platform, *, half_life: float) -> int:
    collection = await platform.collection("docs")
    await collection.add([{"_id": one, "text": "timeout"} for one in "ab"])
    await collection.set_half_life(half_life)
    return (await collection.refresh()).collection_id


async def _arm(platform: Platform, item_id: str) -> Arm:
    number = (await (await platform.collection("docs")).refresh()).collection_id
    where = (platform.database, platform.tenant_id, number)
    return (await read_arms(*where, item_ids=[item_id], buckets=[""], now=platform.now))[item_id].anywhere


async def test_what_nobody_said_is_what_a_row_has_at_first(platform: Platform) -> None:
    """A collection without settings of its own decays as one whose settings were made and not changed."""
    number = (await (await platform.collection("docs")).refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        before = await (await connection.execute("SELECT * FROM learning_state(%s)", (number,))).fetchone()
        await connection.execute("INSERT INTO learning_states (collection_id) VALUES (%s)", (number,))
        stored = await connection.execute("SELECT landmark, half_life_days, daily_cap FROM learning_states")
        assert before == await stored.fetchone()


@pytest.mark.parametrize("age", [399, 990, 3000])
async def test_what_is_almost_nothing_is_no_error(platform: Platform, age: int) -> None:
    """The least verdict, ages before the landmark, read ages after it: as little as that, or nothing."""
    number = await _stored(platform, half_life=1 / 24)
    past = platform.now - timedelta(hours=age)
    await platform.feedback(collection="docs", item_id="a", reward=1 - 2**-53, weight=1e-9, at=past)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            "UPDATE learning_states SET landmark = landmark - %s WHERE collection_id = %s",
            (timedelta(hours=age), number),
        )
    arm = await _arm(platform, "a")
    assert (arm.uses, arm.raw_successes) == (1, 1)
    assert 0 <= arm.failures <= arm.successes < 1e-200
    usage = await platform.analytics("usage")
    assert 0 <= usage.values[0][usage.columns.index("pulls")] < 1e-200


async def test_what_is_said_to_be_ahead_weighs_as_much_as_now(platform: Platform) -> None:
    """Alone, in a batch, and when a later verdict takes it back; a recount finds nothing off."""
    number = await _stored(platform, half_life=1 / 24)
    ahead = platform.now + timedelta(hours=23)
    said = [
        Feedback(collection="docs", item_id=one, helpful=True, actor=actor, at=ahead)
        for actor in ("ann", "bob")
        for one in "ab"
    ]
    await platform.feedback_each(said[:1])
    await platform.feedback_each(said[1:])
    for one in "ab":
        assert (await _arm(platform, one)).successes == pytest.approx(2, rel=0.05)
    later = [
        Feedback(collection="docs", item_id=one, helpful=False, actor="ann", at=ahead + timedelta(minutes=1))
        for one in "ab"
    ]
    await platform.feedback_each(later[:1])
    await platform.feedback_each(later)
    for one in "ab":
        arm = await _arm(platform, one)
        assert [arm.successes, arm.failures] == pytest.approx([1, 1], rel=0.05)
    where = (platform.database, platform.tenant_id, number)
    assert await recount_arms(*where, ["a", "b"], tolerance=1e-9) == (2, 0)
