"""Rewritten queries in the database: kept by model, query and instructions, until they expire."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from retrieval import Platform, Settings, connect
from retrieval.adapters.store.search.rewrites import cached_rewrites, keep_rewrites
from retrieval.domain.errors import DatabaseError
from retrieval.jobs.registry import JOBS
from retrieval.jobs.run import run_job
from tests.support.cluster import not_on_a_cluster
from tests.support.jobs import target_of

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=30)


async def cached(platform: Platform, query: str, *, model: str = "m", instructions: str = "") -> list[str] | None:
    """The cached rewrites of the query at ``NOW``."""
    return await cached_rewrites(platform.database, platform.tenant_id, model, query, NOW, instructions=instructions)


async def keep(
    platform: Platform,
    query: str,
    *rewrites: str,
    model: str = "m",
    instructions: str = "",
    until: datetime = LATER,
) -> None:
    """Keep the rewrites of the query."""
    where = (platform.database, platform.tenant_id)
    await keep_rewrites(*where, model, query, rewrites, expires_at=until, instructions=instructions)


async def test_rewrites_come_back_as_they_were_kept(platform: Platform) -> None:
    """In their order, whatever characters they have; space between words makes no other query."""
    assert await cached(platform, "who is at Acme") is None
    await keep(platform, "who is at Acme", "Acme", 'a "quoted" {one}', "数据库, 👩🏽‍🚀")
    assert await cached(platform, " who  is at\nAcme ") == ["Acme", 'a "quoted" {one}', "数据库, 👩🏽‍🚀"]
    await keep(platform, "nothing")
    assert await cached(platform, "nothing") == []


@pytest.mark.parametrize("query", ["a\x00b", "\ud800", "x" * 100_000])
async def test_any_query_has_a_place(platform: Platform, query: str) -> None:
    """A query may have characters that PostgreSQL's text cannot hold, and lengths that no index takes."""
    await keep(platform, query, "one")
    assert await cached(platform, query) == ["one"]


async def test_another_model_or_other_instructions_start_afresh(platform: Platform) -> None:
    """Rewrites are stored separately for each model and each text of instructions."""
    await keep(platform, "query", "first", instructions="1")
    assert await cached(platform, "query", model="n", instructions="1") is None
    assert await cached(platform, "query", instructions="2") is None
    assert await cached(platform, "Query", instructions="1") is None
    assert await cached(platform, "query", instructions="1") == ["first"]


async def test_expired_rewrites_are_not_read_and_are_replaced(platform: Platform) -> None:
    """The last valid moment is the one before the expiry; a new rewrite replaces an expired one."""
    await keep(platform, "query", "old", until=NOW)
    assert await cached(platform, "query") is None
    await keep(platform, "query", "new")
    assert await cached(platform, "query") == ["new"]
    await keep(platform, "query", "late comer", until=NOW + timedelta(seconds=1))
    assert await cached(platform, "query") == ["new"]


async def test_many_may_keep_the_same_query_at_once(platform: Platform) -> None:
    """No writer fails, and one complete entry remains."""
    await asyncio.gather(*(keep(platform, "query", f"{number} a", f"{number} b") for number in range(8)))
    first, second = await cached(platform, "query") or []
    assert (first[1:], second) == (" a", f"{first[0]} b")


async def test_each_tenant_has_rewrites_of_its_own(
    platform: Platform, database_url: str, settings: Settings, tenant: str
) -> None:
    """Rewrites would reveal another tenant's queries."""
    await keep(platform, "query", "secret")
    async with connect(database_url, settings=settings, tenant=f"{tenant} too") as other:
        assert await cached(other, "query") is None


@not_on_a_cluster("its small tables have no foreign keys")
async def test_nothing_is_kept_for_a_tenant_that_there_is_not(platform: Platform) -> None:
    """The numbers of tenants begin at 1."""
    with pytest.raises(DatabaseError):
        await keep_rewrites(platform.database, 0, "m", "query", ["x"], expires_at=LATER)


async def test_expired_rewrites_are_pruned(platform: Platform) -> None:
    """The job removes them and leaves the rest."""
    target = await target_of(platform, await platform.collection("docs"))
    await keep(platform, "old", "x", until=datetime.now(UTC) - timedelta(seconds=1))
    await keep(platform, "new", "x", until=datetime.now(UTC) + timedelta(days=1))
    report = await run_job(platform.workplace, JOBS["prune"], target)
    assert report.details["query_rewrites"] == 1
    assert await cached(platform, "new") == ["x"]
