"""The chicken and the egg on the real store: what the benchmark simulates happens here too, in its direction."""

from __future__ import annotations

import random

from retrieval.apps.principles import PrincipleStore
from retrieval.apps.probation import CANDIDATE
from tests.integration.apps.principles.conftest import StoppedClock

HELPS = {"good": 1.0, "bad": 0.0}


async def test_new_ones_are_judged_good_ones_rise_and_bad_ones_sink(store: PrincipleStore, clock: StoppedClock) -> None:
    """Sessions judge the principles that they see: beside proven ones, candidates become active or archived."""
    for number in range(2):
        await store.add_principle(f"proven {number}", tags=["sql"], principle_id=f"proven {number}")
    for name in HELPS:
        await store.add_principle(name, tags=["sql"], principle_id=name, status=CANDIDATE)
    chance, pages = random.Random(5), list[list[str]]()
    for session in range(6):
        clock.now = clock.now.replace(day=1 + session)
        hits = await store.search_principles(tags=["sql"], limit=2, include_exploration=True, session=f"s{session}")
        pages.append([hit.principle.id for hit in hits])
        for hit in hits:
            helped = chance.random() < HELPS.get(hit.principle.id, 0.8)
            await store.record_usage(hit.principle.id, was_helpful=helped, session=f"s{session}")

    after = await store.get(list(HELPS))
    assert {name: principle.status for name, principle in after.items()} == {"good": "active", "bad": "archived"}
    assert any("good" in slate for slate in pages)
    assert "good" in [hit.principle.id for hit in await store.search_principles(tags=["sql"], limit=2)]
    assert "bad" not in pages[-1]
