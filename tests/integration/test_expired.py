"""Expired memories are found no more, although nobody has removed them yet, and they take nobody's place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from retrieval import Collection, Platform, Profile
from retrieval.apps.memories import MemoryStore
from retrieval.apps.memories.ranking import PROFILES


@pytest.fixture
async def memories(platform: Platform) -> Collection:
    """150 that have expired, and 20 that match no better and happened earlier."""
    now = platform.now
    await MemoryStore(platform).store_memories(
        {
            "memory_id": f"x{n:03}" if n < 150 else f"g{n:03}",
            "project_id": "p",
            "interaction_type": "note",
            "content": "alpha beta" if n < 150 else "alpha beta gamma delta",
            "occurred_at": now - timedelta(days=2, minutes=n),
            "expires_at": now - timedelta(days=1) if n < 150 else now + timedelta(days=1),
        }
        for n in range(170)
    )
    return await platform.collection("memories", create=False)


@pytest.mark.parametrize(
    "profile",
    [
        PROFILES["recency"],
        PROFILES["keyword"],
        Profile(),
        Profile(legs={"lexical": 1.0}),
        Profile(legs={"recent": 1.0}),
    ],
    ids=["recency", "keyword", "fused", "lexical", "recent"],
)
async def test_a_page_is_full_of_what_has_not_expired(memories: Collection, profile: Profile) -> None:
    """The legs go deeper for those that expired ones crowd out, by any profile and for each query of a call."""
    [one, other] = await memories.search_each(["alpha beta", "beta"], profile=profile, limit=10)
    for result in (one, other, await memories.search("alpha beta", profile=profile, where={"project_id": "p"})):
        assert [hit.item_id[0] for hit in result] == ["g"] * 10


async def test_what_has_expired_since_is_not_found_as_of_an_earlier_moment(
    memories: Collection, platform: Platform
) -> None:
    """The clock counts, not the moment that is asked for."""
    then = platform.now - timedelta(days=1, minutes=1)
    found = await memories.search("alpha beta", profile=Profile(legs={"lexical": 1.0}), as_of=then)
    assert [hit.item_id[0] for hit in found] == ["g"] * 10
