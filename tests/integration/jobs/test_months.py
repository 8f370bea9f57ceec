"""The months of recorded searches: made ahead, filled with what came too early, dropped when they are old."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval import Platform, Settings, connect
from retrieval.adapters.store.records.forgetting import drop_months, ensure_months, is_any_month_due
from retrieval.domain.errors import MissingPrivilegeError
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from tests.support.database import SCHEMA, login, opened
from tests.support.jobs import target_of
from tests.support.recorded import TRACES

NewDatabase = Callable[..., str]


@pytest.fixture
def url(new_database: NewDatabase) -> str:
    """A database of this test's own: the months are the installation's."""
    return new_database()


@pytest.fixture
async def platform(url: str, settings: Settings) -> AsyncIterator[Platform]:
    """A platform on it."""
    async with connect(url, settings=settings) as opened_platform:
        yield opened_platform


def run(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of a superuser's statement, within the schema."""
    with opened(url) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (f"{SCHEMA}, public",))
        cursor = connection.execute(sql.SQL(statement), values)
        return cursor.fetchall() if cursor.description else []


def months(url: str) -> list[datetime]:
    """The first moments of the months that there are."""
    return [row[0] for row in run(url, "SELECT month FROM known_months() ORDER BY 1")]


def months_from_now(number: int) -> datetime:
    """The first moment of this month in UTC, or of one before or after it."""
    now = datetime.now(UTC)
    count = now.year * 12 + now.month - 1 + number
    return datetime(count // 12, count % 12 + 1, 1, tzinfo=UTC)


async def leave_a_trace(platform: Platform, at: datetime) -> None:
    """A recorded search of that moment, with an impression."""
    collection = await (await platform.collection("docs")).refresh()
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            TRACES[0].replace("gen_random_uuid(), now()", "gen_random_uuid(), %(at)s"),
            {"own": collection.collection_id, "at": at},
        )


async def test_opening_a_platform_makes_this_month_and_the_next_two(platform: Platform, url: str) -> None:
    """A platform works without a worker; opening the platform again creates no month."""
    expected = [months_from_now(number) for number in range(3)]
    assert months(url) == expected
    assert await ensure_months(platform.database) == 0


async def test_rows_without_a_month_are_moved_into_one(platform: Platform, url: str) -> None:
    """A month is created for such a row, and searches read it as before."""
    await leave_a_trace(platform, months_from_now(-2) + timedelta(days=3))
    await leave_a_trace(platform, months_from_now(7))
    assert run(url, "SELECT count(*) FROM retrievals_default") == [(2,)]
    assert await ensure_months(platform.database) == 2
    assert run(url, "SELECT count(*) FROM retrievals_default") == [(0,)]
    assert run(url, "SELECT count(*) FROM retrievals UNION ALL SELECT count(*) FROM impressions") == [(2,), (2,)]
    assert months(url) == [months_from_now(number) for number in (-2, 0, 1, 2, 7)]


async def test_a_month_that_was_detached_is_attached_again_with_its_rows(platform: Platform, url: str) -> None:
    """Searches recorded meanwhile move into it; its rows stay unreadable except through their table."""
    part = f"retrievals_{datetime.now(UTC):%Y_%m}"
    await leave_a_trace(platform, datetime.now(UTC))
    run(url, f"ALTER TABLE retrievals DETACH PARTITION {part}")
    await leave_a_trace(platform, datetime.now(UTC))
    assert run(url, "SELECT count(*) FROM retrievals") == [(1,)]
    report = await run_job(
        platform.workplace, job_named("months"), await target_of(platform, await platform.collection("docs"))
    )
    assert report.details == {"made": 1, "dropped": 0}
    assert run(url, "SELECT count(*) FROM retrievals UNION ALL SELECT count(*) FROM retrievals_default") == [(2,), (0,)]
    is_closed = "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE relname = %s"
    assert run(url, is_closed, part) == [(True,)]


@pytest.mark.usefixtures("platform")
async def test_a_month_has_all_that_its_table_has(url: str) -> None:
    """Indexes, checks and the tie to its collection; forced row-level security, and no grants but its owner's."""
    part = f"retrievals_{months_from_now(1):%Y_%m}"
    of_table = "SELECT count(*) FROM pg_index WHERE indrelid = %s::regclass"
    assert run(url, of_table, part) == run(url, of_table, "retrievals")
    constraints = (
        "SELECT DISTINCT contype::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass "
        "AND contype IN ('c', 'f') ORDER BY 1, 2"
    )
    assert run(url, constraints, part) == run(url, constraints, "retrievals")
    facts = "SELECT relrowsecurity, relforcerowsecurity, relowner::regrole::text FROM pg_class WHERE relname = %s"
    assert run(url, facts, part) == [(True, True, f"{SCHEMA}_definer")]
    grants = "SELECT DISTINCT grantee::text FROM information_schema.role_table_grants WHERE table_name = %s"
    assert run(url, grants, part) == [(f"{SCHEMA}_definer",)]


async def test_removing_a_collection_removes_what_was_recorded_of_it(platform: Platform, url: str) -> None:
    """In its month and outside."""
    await leave_a_trace(platform, datetime.now(UTC))
    await leave_a_trace(platform, months_from_now(9))
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("DELETE FROM collections")
    assert run(url, "SELECT count(*) FROM retrievals UNION ALL SELECT count(*) FROM impressions") == [(0,), (0,)]


async def test_the_job_drops_months_that_are_wholly_old_enough(platform: Platform, url: str) -> None:
    """A month that holds one moment that is not stays as it is."""
    for number in (-14, -13, -1):
        await leave_a_trace(platform, months_from_now(number))
    await ensure_months(platform.database)
    collection = await platform.collection("docs")
    assert await is_any_month_due(platform.database, 365)
    report = await run_job(platform.workplace, job_named("months"), await target_of(platform, collection))
    assert report.details == {"made": 0, "dropped": 2}
    assert months(url) == [months_from_now(number) for number in (-1, 0, 1, 2)]
    assert run(url, "SELECT count(*) FROM impressions") == [(1,)]
    assert not await is_any_month_due(platform.database, 365)


async def test_a_login_of_the_application_alone_is_refused_to_drop_months(url: str, settings: Settings) -> None:
    """It makes them, for its searches, but other tenants' records are not its to remove."""
    with login(url) as (name, own):
        run(url, f"GRANT {SCHEMA}_app TO {name}")
        async with connect(own, settings=settings) as platform:
            with pytest.raises(MissingPrivilegeError):
                await drop_months(platform.database, 1)
    assert len(months(url)) == 3


def test_a_retention_below_a_day_is_refused(url: str) -> None:
    """By the database, whatever the settings say."""
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="at least a day"):
        run(url, "SELECT drop_months(0)")
