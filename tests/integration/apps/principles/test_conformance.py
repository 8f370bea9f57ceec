"""The design of the principles' retrieval, section by section, as tests."""

from __future__ import annotations

import inspect
import random
from collections import Counter
from datetime import timedelta

import pytest

from retrieval import Feedback, Platform
from retrieval.apps.principles import PRINCIPLES_PROFILE, Outcome, PrincipleStore, Trace
from retrieval.apps.principles.principle import (
    FEWER_USES_THAN,
    MAX_PRINCIPLES,
    SLOTS,
    TAG_BOOST,
    YOUNGER_THAN,
    choose,
    principle_item,
)
from retrieval.apps.probation import CANDIDATE
from retrieval.domain.search.signals import Rating, TagMatch, VectorSimilarity
from tests.integration.apps.principles.conftest import NOW, StoppedClock


async def proven_principles(db: Platform, count: int, *tags: str) -> None:
    """A number of old principles that always helped, so that a page by score is full."""
    names = [f"proven {number}" for number in range(count)]
    items = [principle_item(name, name, "", tags, "active", actor="", created_at=db.now) for name in names]
    await (await db.collection("principles")).add(items)
    await db.feedback_each(Feedback(collection="principles", item_id=name, helpful=True) for name in names * 8)


async def test_problem_untested_principles_are_surfaced(
    store: PrincipleStore, db: Platform, clock: StoppedClock
) -> None:
    """Used to be scored, scored to be loaded: a page that is full of proven ones shows new ones all the same."""
    await proven_principles(db, MAX_PRINCIPLES + 2)
    clock.now += YOUNGER_THAN + timedelta(days=1)
    for number in range(2):
        await store.add_principle(f"new {number}", principle_id=f"new {number}")

    hits = await store.search_principles(include_exploration=True)
    assert [hit.principle.id[:3] for hit in hits] == ["pro"] * 5 + ["new"] * 2
    choices = choose(await store.get_all_principles(), set(), random.Random(1), now=db.now)
    assert len(choices) == MAX_PRINCIPLES
    assert {hit.principle.id for hit in choices if hit.is_exploratory} == {"new 0", "new 1"}


def test_1_search_has_the_stated_parameters_and_defaults() -> None:
    """Words, tags, exploration, a limit of 5, and the lower threshold of .3 for what is asked on demand."""
    parameters = inspect.signature(PrincipleStore.search_principles).parameters
    assert list(parameters)[1:3] == ["query", "tags"]
    assert (parameters["limit"].default, parameters["include_exploration"].default) == (5, False)
    assert parameters["min_principle_score"].default == 0.3


async def test_1_search_is_by_tags_by_score_and_by_meaning(store: PrincipleStore, db: Platform) -> None:
    """Tags filter; the query's meaning decides among principles that are as good."""
    await proven_principles(db, 2, "sql")
    await store.add_principle("roll back a bad release", tags=["deployment"], principle_id="rollback")
    await store.add_principle("colours of a page", tags=["css"], principle_id="css")
    hits = await store.search_principles("the release is bad", min_principle_score=0.3)

    assert hits[0].principle.id == "rollback"
    assert {hit.principle.id for hit in await store.search_principles("the release is bad", ["sql"])} == {
        "proven 0", "proven 1",
    }  # fmt: skip


async def test_1_search_explores_one_or_two_untested_ones(store: PrincipleStore, db: Platform) -> None:
    """Only if asked to; they are marked."""
    await proven_principles(db, 2, "sql")
    for number in range(4):
        await store.add_principle(f"new {number}", status=CANDIDATE)

    assert not any(hit.is_exploratory for hit in await store.search_principles())
    assert sum(hit.is_exploratory for hit in await store.search_principles(include_exploration=True)) == SLOTS == 2


async def test_1_what_is_told_of_a_principle(store: PrincipleStore) -> None:
    """Id, title, tags, score, last use, success rate (none without a use) and use count."""
    principle_id = await store.add_principle("a lesson", tags=["sql"], principle_id="a")
    [hit] = await store.search_principles()
    told = hit.principle
    assert (told.id, told.title, told.tags, told.score, told.use_count) == ("a", "a lesson", ("sql",), 0.5, 0)
    assert (told.last_used_at, told.success_rate) == (None, None)

    used = await store.record_usage(principle_id.id, None, True)  # noqa: FBT003 - as the design calls it
    assert (used.use_count, used.success_rate, used.last_used_at is not None) == (1, 1.0, True)


async def test_2_each_matching_tag_adds_a_tenth(store: PrincipleStore) -> None:
    """Project tags, recent tags and keywords count together, in addition to the score."""
    await store.add_principle("a", tags=["react", "frontend", "css"], principle_id="a")
    [choice] = choose(await store.get_all_principles(), {"react", "frontend", "sql"}, random.Random(1), now=NOW)
    [hit] = await store.search_principles(tags=["react", "frontend", "sql"])

    assert TAG_BOOST == 0.1
    assert choice.score == pytest.approx(0.5 + 0.2)
    assert hit.score == pytest.approx(0.5 + 0.2)
    assert PRINCIPLES_PROFILE.signals == (Rating(weight=1.0), TagMatch(), VectorSimilarity(weight=2.0))


async def test_2_tags_of_the_last_sessions_that_went_well(store: PrincipleStore, db: Platform) -> None:
    """The ten most frequent tags of the successful traces among the latest 20 of 7 days."""
    parameters = inspect.signature(PrincipleStore.recent_tags).parameters
    assert (parameters["days"].default, parameters["most"].default) == (7, 10)
    assert inspect.signature(PrincipleStore.search_traces).parameters["limit"].default == 20
    await store.add_trace("the first", ["early"])
    traces = [
        Trace(
            id=str(number),
            title="t",
            tags=("last" if number == 20 else "early", f"tag {number % 12}"),
            outcome=Outcome(status="success"),
            at=NOW - timedelta(hours=number),
        )
        for number in range(1, 21)
    ]
    await (await db.collection("principles_traces")).add(trace.item() for trace in traces)

    tags = await store.recent_tags()
    assert tags[0] == "early"
    assert len(tags) == 10
    assert "last" not in tags


async def test_2_scores_are_given_for_all(store: PrincipleStore, db: Platform) -> None:
    """The best first."""
    await store.add_principle("new", principle_id="new")
    await proven_principles(db, 1)
    scores = await store.get_principle_scores()
    assert [(principle.id, score) for principle, score in scores] == [("proven 0", 0.9), ("new", 0.5)]


def test_3_few_uses_or_few_days() -> None:
    """Fewer than 5, or 7."""
    assert (5, timedelta(days=7)) == (FEWER_USES_THAN, YOUNGER_THAN)


async def test_3_exploration_follows_thompson_sampling(store: PrincipleStore, db: Platform) -> None:
    """Principles that helped in their few uses are drawn more often than others, and each is drawn sometimes."""
    for name, helpful in (("good", True), ("bad", False), ("new", None)):
        await store.add_principle(name, principle_id=name)
        if helpful is not None:
            await db.feedback_each(Feedback(collection="principles", item_id=name, helpful=helpful) for _ in range(2))
    ids = Counter([(await store.get_exploratory_principles(1))[0].id for _ in range(30)])

    assert ids["good"] > ids["new"] > ids["bad"]


async def test_questions_principles_can_be_added_on_the_fly(store: PrincipleStore) -> None:
    """They are candidates: explored, and found for their score once they have proved themselves."""
    new = await store.add_principle("said by an agent", status=CANDIDATE, actor="agent")
    assert [hit.is_exploratory for hit in await store.search_principles(include_exploration=True)] == [True]
    for session in ("a", "b", "c"):
        await store.record_usage(new.id, was_helpful=True, session=session)
    assert [hit.is_exploratory for hit in await store.search_principles(include_exploration=True)] == [False]
