"""A store of principles with a clock that the test controls."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from retrieval import Platform, Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.principles import PrincipleStore

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class StoppedClock:
    """A wall clock that a test moves."""

    now: datetime = NOW

    def __call__(self) -> float:
        """Seconds since 1970; each look is a millisecond later than the one before."""
        self.now += timedelta(milliseconds=1)
        return self.now.timestamp()


@pytest.fixture
def clock() -> StoppedClock:
    """The test's clock."""
    return StoppedClock()


@pytest.fixture
async def db(database_url: str, settings: Settings, clock: StoppedClock) -> AsyncIterator[Platform]:
    """A platform with that clock."""
    changed = settings.changed(database_url=SecretStr(database_url))
    async with Platform(changed, embedder=HashingEmbedder(), wall_clock=clock) as opened:
        yield opened


@pytest.fixture
async def store(db: Platform) -> PrincipleStore:
    """An empty store, whose chance is the same each time."""
    return await PrincipleStore.open(db, chance=random.Random(1))
