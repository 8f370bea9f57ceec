"""A session starts from a real database: it gets the principles that the store would choose, and they are recorded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from retrieval import Feedback, Platform, Settings
from retrieval.apps.principles import PrincipleStore
from retrieval.apps.principles.principle import best
from retrieval.apps.principles.startup import candidates
from retrieval.apps.principles.startup.start import SessionStart, end_session, start_session
from retrieval.apps.principles.startup.surroundings import Surroundings
from retrieval.apps.probation import CANDIDATE
from retrieval.domain.errors import SchemaRevisionError
from retrieval.domain.search.profile_parts import Recording
from tests.integration.apps.principles.conftest import StoppedClock

SECONDS = 60.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a manifest, in no repository."""
    (tmp_path / "package.json").write_text('{"dependencies": {"react": "19"}}')
    return tmp_path


@pytest.fixture
def places(database_url: str, settings: Settings) -> Settings:
    """The test's tenant on the test's server."""
    return Settings(database_url=SecretStr(database_url), tenant=settings.tenant)


async def started(places: Settings, folder: Path, now: datetime, **options: Any) -> SessionStart:
    """One start of a session, recorded."""
    given: list[SessionStart] = []
    until = time.monotonic() + SECONDS
    await start_session(places, print, given.append, folder=folder, until=until, clock=lambda: now, **options)
    [shown] = given
    return shown


async def add_judged(store: PrincipleStore, db: Platform, name: str, uses: int, successes: int, *tags: str) -> None:
    """Store an active principle with that many verdicts."""
    await store.add_principle(f"{name} lesson", tags=tags, principle_id=name)
    await db.feedback_each(
        Feedback(collection="principles", item_id=name, helpful=number < successes) for number in range(uses)
    )


async def test_a_session_is_given_the_best_and_some_that_are_new(
    db: Platform, store: PrincipleStore, clock: StoppedClock, places: Settings, project: Path
) -> None:
    """By score and tags as the store ranks them, the explored ones within the limit; sunk ones never."""
    for number in range(6):
        tags = ["frontend", "react"][: number % 3]
        await add_judged(store, db, f"old-{number}", 8, 7 - number, *tags)
    await add_judged(store, db, "sunk", 9, 0, "react")
    clock.now += timedelta(days=30)
    await store.add_principle("new lesson", tags=["react"], principle_id="new", status=CANDIDATE)

    session = await started(places, project, clock.now, session="s-1", limit=4, explore=2)

    ranked = best(await store.get_all_principles(), session.tags)
    rows = [(choice.principle.id, choice.score, choice.is_exploratory) for choice in session.principles]
    assert [row for row in rows if not row[2]] == [(hit.principle.id, hit.score, False) for hit in ranked[:3]]
    assert rows[3:] == [("new", 0.6, True)]
    assert session.principles[0].principle == ranked[0].principle
    [alone] = (await started(places, project, clock.now, session="s-2", limit=1)).principles
    assert not alone.is_exploratory


async def test_the_principles_shown_are_those_of_the_session_start(
    store: PrincipleStore, db: Platform, clock: StoppedClock, places: Settings, project: Path
) -> None:
    """The store finds it by the session's name, and a verdict about it counts."""
    for number in range(3):
        await store.add_principle(f"lesson {number}", tags=["react"])
    session = await started(places, project, clock.now, session="from-the-hook", limit=2, explore=1)

    loaded = await store.loaded("from-the-hook")

    assert session.session == "from-the-hook"
    assert session.surroundings.project_tags[:2] == ("javascript", "node")
    assert [
        (choice.principle.id, choice.is_exploratory, choice.propensity, choice.rank_propensity) for choice in loaded
    ] == [
        (choice.principle.id, choice.is_exploratory, choice.propensity, choice.rank_propensity)
        for choice in session.principles
    ]
    assert loaded.retrieval_id is not None
    await db.feedback(loaded.retrieval_id, loaded[0].principle.id, helpful=True)
    assert (await store.get([loaded[0].principle.id]))[loaded[0].principle.id].use_count == 1


async def test_a_profile_that_records_nothing_is_obeyed(
    store: PrincipleStore, db: Platform, clock: StoppedClock, places: Settings, tmp_path: Path
) -> None:
    """The session gets its principles, without a record of them."""
    await store.add_principle("a lesson")
    collection = await db.collection("principles")
    await collection.set_profile(replace(collection.profile, recording=Recording(rate=0.0)))

    session = await started(places, tmp_path, clock.now, session="s-2")

    assert len(session.principles) == 1
    assert len(await store.loaded("s-2")) == 0


async def test_places_to_compete_are_not_taken_by_those_that_may_not(
    store: PrincipleStore, db: Platform, clock: StoppedClock, places: Settings, tmp_path: Path
) -> None:
    """Failed and shown principles do not compete; one place is for a principle without a matching tag."""
    await store.add_principle("with its tag", tags=["sql"], principle_id="near", status=CANDIDATE)
    await store.add_principle("without tags", principle_id="far", status=CANDIDATE)
    clock.now += timedelta(hours=1)
    await add_judged(store, db, "top", 4, 4, "sql")
    for number in range(2):
        await add_judged(store, db, f"failed-{number}", 5, 0, "sql")
    await store.add_trace("done", ["sql"])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(candidates, "MOST_UNSURE", 2)
        session = await started(places, tmp_path, clock.now, limit=3, explore=2)

    assert [choice.principle.id for choice in session.principles] == ["top", "near", "far"]


async def test_tags_of_what_went_well_lately_count(
    store: PrincipleStore, clock: StoppedClock, places: Settings, tmp_path: Path
) -> None:
    """The store's recent tags count, even if nothing else is known about the session."""
    await store.add_principle("one lesson", tags=["zebra"], principle_id="far")
    await store.add_principle("another lesson", tags=["sql"], principle_id="near")
    for number in range(25):
        outcome = "success" if number % 2 else "failure"
        at = clock.now - timedelta(hours=8 * number)
        await store.add_trace(f"trace {number}", ["sql", f"only-{number}"], outcome, at)
    await store.add_trace("failed", ["zebra"], "failure")
    await store.add_trace("to come", ["zebra"], "success", clock.now + timedelta(days=1))

    session = await started(places, tmp_path, clock.now, explore=0)

    assert list(session.recent_tags) == await store.recent_tags()
    assert [choice.principle.id for choice in session.principles] == ["near", "far"]
    assert [round(choice.score, 9) for choice in session.principles] == [0.6, 0.5]


async def test_a_session_that_ends_leaves_a_trace(
    db: Platform, store: PrincipleStore, clock: StoppedClock, places: Settings, tmp_path: Path
) -> None:
    """With its own tags before its project's, once a session; the next session finds them."""
    await store.add_principle("a lesson", tags=["sql"])
    context = Surroundings(recent_commits=("Retry",), project_tags=("react", "node"))
    for outcome in ("failure", "success"):
        await end_session(db, context, folder=tmp_path, session="s-1", outcome=outcome, tags=("SQL",))

    traces = await store.search_traces()
    session = await started(places, tmp_path, clock.now)

    assert [(trace.title, trace.tags, trace.outcome.status, trace.session) for trace in traces] == [
        (f"{tmp_path.name}: Retry", ("sql", "react", "node"), "success", "s-1")
    ]
    assert session.recent_tags == ("sql", "react", "node")


async def test_a_session_ends_in_a_folder_whose_name_is_not_text(
    db: Platform, store: PrincipleStore, tmp_path: Path
) -> None:
    """A replacement character stands for what cannot be stored, as in titles and tags of callers."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    await end_session(db, Surroundings(), folder=folder, session="s-1", tags=("x\udcff",))

    assert [(trace.title, trace.tags) for trace in await store.search_traces()] == [("caf\ufffd", ("x\ufffd",))]


async def test_a_tenant_without_the_collection_gets_no_principles(
    places: Settings, project: Path, clock: StoppedClock
) -> None:
    """A program that reads the JSON gets all of its fields; another tenant's principles are not seen."""
    answer = (await started(places, project, clock.now, session="s-1")).as_dict()
    assert (answer["session_id"], answer["principles"], answer["explored"]) == ("s-1", [], [])
    assert answer["context"]["project_tags"][:2] == ["javascript", "node"]


async def test_a_schema_of_another_revision_is_reported(
    new_database: Callable[..., str], places: Settings, clock: StoppedClock
) -> None:
    """If the schema is newer or missing, the message names the command."""
    for url, revision, advice in (
        (new_database(), "9999", "install the newer program"),
        (new_database(empty=True), None, "is not set up in this database; run: retrieval db upgrade"),
    ):
        if revision is not None:
            with psycopg.connect(url) as connection:
                connection.execute("UPDATE retrieval.alembic_version SET version_num = %s", (revision,))
        there = Settings(database_url=SecretStr(url), tenant=places.tenant)
        with pytest.raises(SchemaRevisionError, match=advice):
            await started(there, Path(), clock.now)
