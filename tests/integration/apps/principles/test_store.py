"""Principles on a real server: found, judged, explored, promoted and retired."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from retrieval import Context, Feedback, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.round_trip import Row
from retrieval.apps.principles import PRINCIPLES_PROFILE, Outcome, Principle, PrincipleStore
from retrieval.apps.principles.search import WORDS_PROFILE
from retrieval.apps.probation import ACTIVE, CANDIDATE
from retrieval.collection import handle_of
from retrieval.domain.errors import InvalidItemError, InvalidLimitError, InvalidRequestError, UnknownItemError
from retrieval.domain.items.item import Item
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.signals import Rating
from retrieval.services.items import set_status
from tests.integration.apps.principles.conftest import NOW, StoppedClock


async def add_judged(store: PrincipleStore, db: Platform, name: str, uses: int, successes: int, *tags: str) -> None:
    """Store an active principle with that many verdicts."""
    await store.add_principle(f"{name} lesson", tags=tags, principle_id=name)
    await db.feedback_each(
        Feedback(collection="principles", item_id=name, helpful=number < successes) for number in range(uses)
    )


async def test_a_principle_is_read_back_with_what_became_of_it(store: PrincipleStore, clock: StoppedClock) -> None:
    """Tags normalised, the id made from the text; use, success and last use follow the verdicts."""
    added = await store.add_principle("  Bind parameters!", "Injections.", [" SQL", "sql", "Security"], actor="ann")
    assert (added.title, added.tags, added.status, added.score) == (
        "Bind parameters!",
        ("sql", "security"),
        ACTIVE,
        0.5,
    )
    assert added.id.startswith("bind-parameters-")
    assert NOW <= added.created_at < NOW + timedelta(seconds=1)
    assert (added.success_rate, added.last_used_at) == (None, None)

    clock.now += timedelta(days=1)
    await store.record_usage(added.id, was_helpful=True)
    after = await store.record_usage(added.id, was_helpful=False, note="not here")

    assert (after.use_count, after.success_count, after.success_rate, after.score) == (2, 1, 0.5, 0.5)
    assert after.last_used_at is not None
    assert after.last_used_at - NOW >= timedelta(days=1)
    assert (await store.get([added.id, "none"])) == await store.get(added.id) == {added.id: after}


async def test_a_repeated_text_is_the_existing_principle(store: PrincipleStore, clock: StoppedClock) -> None:
    """Without an id nothing changes; under a known id text and tags do, and age and use stay."""
    first = await store.add_principle("Measure before you optimise", tags=["performance"])
    for wording in ("measure before you OPTIMISE", "Measure  before\u3000you optimise "):
        assert await store.add_principle(wording, tags=["other"], status=CANDIDATE) == first

    await store.record_usage(first.id)
    clock.now += timedelta(days=3)
    changed = await store.add_principle("Measure first", tags=["perf"], principle_id=first.id)
    assert (changed.title, changed.tags, changed.use_count) == ("Measure first", ("perf",), 1)
    assert changed.created_at == first.created_at


async def test_of_those_who_say_the_same_at_once_one_is_kept(store: PrincipleStore, db: Platform) -> None:
    """One that proves itself while another is still adding it is not made a candidate again."""

    class Meanwhile(PrincipleStore):
        async def get(self, principle_ids: Sequence[str]) -> dict[str, Principle]:
            principles = await super().get(principle_ids)
            if not principles:
                proved = await store.add_principle("Halve it", tags=["mine"], status=CANDIDATE)
                for number in range(3):
                    await store.record_usage(proved.id, session=f"s{number}")
            return principles

    last = await (await Meanwhile.open(db)).add_principle("halve it", tags=["other"], status=CANDIDATE)
    assert (last.status, last.tags, last.title, last.use_count) == (ACTIVE, ("mine",), "Halve it", 3)

    every = await asyncio.gather(*(store.add_principle("Say it once", tags=[tag]) for tag in "abcdef"))
    assert all(answer == every[0] for answer in every)


async def test_an_item_of_another_kind_is_not_a_principle(store: PrincipleStore, db: Platform) -> None:
    """It is neither judged nor written over."""
    collection = await db.collection("principles")
    await collection.add([Item(item_id="note", title="a note", kind="note")])
    with pytest.raises(UnknownItemError, match="there is no principle 'note'"):
        await store.record_usage("note")
    with pytest.raises(InvalidItemError, match="'note' already exists; give it another id"):
        await store.add_principle("x", principle_id="note")
    assert (await collection.get(["note"]))["note"].kind == "note"
    assert (await collection.standings(["note"]))["note"].uses == 0


async def test_of_a_session_the_latest_verdict_counts(store: PrincipleStore) -> None:
    """A return to the first verdict counts too; another session's verdict is added, and without a session each is."""
    await store.add_principle("a lesson", principle_id="a")
    for helpful in (True, False, True):
        last = await store.record_usage("a", was_helpful=helpful, session="s1", actor="ann")
    assert (last.use_count, last.success_count) == (1, 1)

    await store.record_usage("a", "trace 1", was_helpful=False)
    last = await store.record_usage("a", "trace 1", was_helpful=False)
    assert (last.use_count, last.success_count) == (2, 1)

    for _ in range(2):
        last = await store.record_usage("a", actor="ann")
    assert (last.use_count, last.success_count) == (4, 3)


async def test_a_sessions_verdict_is_one_on_the_answer_that_showed_it(store: PrincipleStore, db: Platform) -> None:
    """The latest one; whichever answer it is on, or none, one verdict of the session counts."""
    await store.add_principle("lesson a", principle_id="a")
    await store.record_usage("a", session="s1")
    answers = [await store.search_principles("lesson", session="s1", include_exploration=True) for _ in range(2)]
    await store.search_principles(tags=["none"], session="s1")
    after = await store.record_usage("a", was_helpful=False, session="s1", trace_id="t")
    assert (after.use_count, after.success_count) == (1, 0)
    after = await store.record_usage("a", session="s1", retrieval_id=answers[0].retrieval_id)
    assert (after.use_count, after.success_count) == (1, 1)
    # Another actor's verdict on that answer counts separately, once.
    for helpful in (True, False, True):
        after = await store.record_usage("a", was_helpful=helpful, retrieval_id=answers[1].retrieval_id, actor="ann")
    assert (after.use_count, after.success_count) == (2, 2)

    async with db.database.transaction(db.tenant_id) as connection:
        rows = await connection.execute("SELECT actor, retrieval_id FROM feedback WHERE superseded_at IS NULL")
        assert dict(await rows.fetchall()) == {"": answers[0].retrieval_id, "ann": answers[1].retrieval_id}
        rows = await connection.execute("SELECT retrieval_id FROM feedback ORDER BY occurred_at LIMIT 2")
        assert await rows.fetchall() == [(None,), (answers[1].retrieval_id,)]


async def test_a_candidate_is_settled_after_verdicts_from_elsewhere(store: PrincipleStore, db: Platform) -> None:
    """A call of ``settle`` settles it."""
    new = await store.add_principle("a lesson", status=CANDIDATE)
    for _ in range(3):
        hits = await store.search_principles("lesson", include_exploration=True)
        await db.feedback(hits.retrieval_id, new.id, helpful=True)
    assert (await store.get([new.id]))[new.id].status == CANDIDATE
    assert (await store.settle(new.id)).status == ACTIVE
    with pytest.raises(UnknownItemError):
        await store.settle("none")


async def test_an_unknown_principle_cannot_be_judged(store: PrincipleStore) -> None:
    """The message says what to do."""
    with pytest.raises(UnknownItemError, match="there is no principle 'x' in collection 'principles'; give an id"):
        await store.record_usage("x")


async def test_a_search_adds_up_score_tags_and_likeness(store: PrincipleStore, db: Platform) -> None:
    """Failed principles, candidates and principles without any of the tags are left out."""
    await add_judged(store, db, "good", 8, 8, "sql", "api")
    await add_judged(store, db, "fair", 4, 2, "sql")
    await add_judged(store, db, "sunk", 8, 0, "sql")
    await add_judged(store, db, "else", 8, 8, "git")
    await store.add_principle("untested", tags=["sql"], status=CANDIDATE)

    hits = await store.search_principles(tags=["SQL", "api"])
    assert [(hit.principle.id, round(hit.score, 9)) for hit in hits] == [("good", 0.9 + 0.2), ("fair", 0.5 + 0.1)]
    assert all(hit.explanation and hit.explanation.score == pytest.approx(hit.score) for hit in hits)

    answer = await store.search_principles("fair lesson")
    assert {hit.principle.id for hit in answer} == {"good", "fair", "else"}
    alike = {part.leg: part.value for part in answer[0].explanation.contributions} if answer[0].explanation else {}
    assert alike["vector_similarity"] > 0
    assert len(await store.search_principles()) == 3
    assert [hit.principle.id for hit in await store.search_principles(min_principle_score=0.8)] == ["else", "good"]


async def test_the_requested_number_is_found(store: PrincipleStore, db: Platform) -> None:
    """However many have sunk, or are candidates."""
    collection = await db.collection("principles")
    await collection.add(
        Item(item_id=f"p{number}", title=f"lesson {number}", kind="principle", tags=("sql",), occurred_at=NOW,
             status="candidate" if number % 3 == 1 else "active")
        for number in range(90)
    )  # fmt: skip
    sunk = [f"p{number}" for number in range(2, 90, 3) for _ in range(5)]
    await db.feedback_each(
        Feedback(collection="principles", item_id=principle_id, helpful=False) for principle_id in sunk
    )
    assert len(await store.search_principles("lesson 7", ["sql"], limit=30)) == 30
    assert len(await store.search_principles(limit=30)) == 30


async def test_explored_ones_follow_are_marked_and_recorded(store: PrincipleStore, db: Platform) -> None:
    """Two follow the others, with their probabilities; a verdict on them refers to that answer."""
    for number in range(3):
        await add_judged(store, db, f"good{number}", 20, 19 - number, "sql")
    for number in range(4):
        await store.add_principle(f"new lesson {number}", tags=["sql"], status=CANDIDATE, principle_id=f"new{number}")
    hits = await store.search_principles("a lesson", ["sql"], limit=2, include_exploration=True, session="s1")

    assert [hit.is_exploratory for hit in hits] == [False, False, True, True]
    assert all(hit.principle.id.startswith("good") for hit in hits[:2])
    assert all(0 < hit.propensity < 1 for hit in hits[2:])
    assert all(hit.explanation and hit.explanation.score == pytest.approx(hit.score) for hit in hits)
    assert hits.retrieval_id is not None

    [answer] = await (await db.collection("principles")).answers_of("s1")
    assert [(hit.item_id, hit.slot) for hit in answer.hits] == [
        (hit.principle.id, Slot.EXPLORE if hit.is_exploratory else Slot.EXPLOIT) for hit in hits
    ]
    report = await db.feedback(hits.retrieval_id, hits[3].principle.id, helpful=True)
    assert not report.discounted


async def test_a_principle_without_the_questions_tags_is_explored_too(store: PrincipleStore, db: Platform) -> None:
    """Otherwise agents that always give tags would never try it."""
    await add_judged(store, db, "proven", 20, 19, "sql")
    await store.add_principle("a lesson without tags", principle_id="untagged")
    await store.add_principle("a lesson of another tag", tags=["docs"], principle_id="other")
    hits = await store.search_principles("a lesson", ["sql"], include_exploration=True)
    assert [(hit.principle.id, hit.is_exploratory) for hit in hits[:1]] == [("proven", False)]
    assert {hit.principle.id for hit in hits if hit.is_exploratory} == {"untagged", "other"}


async def test_only_young_or_little_used_principles_are_explored(
    store: PrincipleStore, db: Platform, clock: StoppedClock
) -> None:
    """Archived principles, failed ones and those that are shown anyway are not explored."""
    await add_judged(store, db, "old", 9, 9)
    clock.now += timedelta(days=8)
    await add_judged(store, db, "young", 9, 9)
    await add_judged(store, db, "sunk", 9, 0)
    await add_judged(store, db, "few", 4, 0)
    await store.add_principle("failed", principle_id="failed", status=CANDIDATE)
    for _ in range(5):
        failed = await store.record_usage("failed", was_helpful=False)
    assert failed.status == "archived"

    assert {principle.id for principle in await store.get_exploratory_principles(10)} == {"young", "few"}
    hits = await store.search_principles(include_exploration=True)
    assert [(hit.principle.id, hit.is_exploratory) for hit in hits] == [
        ("old", False), ("young", False), ("few", True),
    ]  # fmt: skip


async def test_an_answer_has_a_thousand_at_the_most(store: PrincipleStore, db: Platform) -> None:
    """The explored ones among them."""
    items = [Item(item_id=f"p{n:04}", title=f"{n}", kind="principle", occurred_at=NOW) for n in range(1002)]
    await (await db.collection("principles")).add(items)
    assert len(await store.search_principles(limit=999, include_exploration=True)) == 1000


async def test_a_profile_by_use_alone_explores_by_words(store: PrincipleStore, db: Platform) -> None:
    """The use of explored principles does not show whether they fit the question."""
    rated = Profile(legs={"rated": 1.0}, fusion=Fusion(kind=FusionKind.UNION), signals=(Rating(weight=1.0),))
    await add_judged(store, db, "good", 9, 9)
    await store.add_principle("rollback the release", principle_id="new", status=CANDIDATE)
    await (await db.collection("principles")).set_profile(rated)
    again = await PrincipleStore.open(db)
    hits = await again.search_principles("rollback", include_exploration=True)
    assert [(hit.principle.id, hit.is_exploratory) for hit in hits] == [("good", False), ("new", True)]


async def test_explored_ones_are_drawn_among_those_that_fit_the_question(store: PrincipleStore, db: Platform) -> None:
    """If there are more than thirty, those that fit least are not drawn."""
    collection = await db.collection("principles")
    await collection.add(
        Item(item_id=f"p{number}", title=f"{'rollback the release' if number < 30 else 'colours of a page'} {number}",
             kind="principle", status="candidate", occurred_at=NOW)
        for number in range(40)
    )  # fmt: skip
    explored = set[str]()
    for _ in range(4):
        hits = await store.search_principles("rollback the release", include_exploration=True)
        explored |= {hit.principle.id for hit in hits}

    assert explored <= {f"p{number}" for number in range(30)}
    assert len(explored) > 2


async def test_a_candidate_proves_itself_or_fails(store: PrincipleStore) -> None:
    """With the third good verdict it is found for its score; with the fifth bad one it is never found again."""
    for name in ("good", "bad"):
        await store.add_principle(name, principle_id=name, status=CANDIDATE)
    statuses = [(await store.record_usage("good")).status for _ in range(3)]
    assert statuses == [CANDIDATE, CANDIDATE, ACTIVE]
    statuses = [(await store.record_usage("bad", was_helpful=False)).status for _ in range(5)]
    assert statuses == [CANDIDATE] * 4 + ["archived"]

    assert [hit.principle.id for hit in await store.search_principles()] == ["good"]
    assert [principle.id for principle in await store.get_all_principles()] == ["good"]
    assert (await store.get(["bad"]))["bad"].use_count == 5
    later = await store.record_usage("bad", was_helpful=True)
    assert later.status == "archived"
    stats = await store.stats()
    assert (stats.active, stats.candidates, stats.archived, stats.uses, stats.successes) == (1, 0, 1, 9, 4)


async def test_many_judges_at_once_settle_a_candidate_once(store: PrincipleStore) -> None:
    """No verdict is lost, and what somebody changes of the text meanwhile stays."""
    await store.add_principle("first words", principle_id="p", status=CANDIDATE)
    await asyncio.gather(
        *(store.record_usage("p", session=f"s{number}") for number in range(12)),
        store.add_principle("better words", principle_id="p", status=CANDIDATE),
    )
    now = await store.settle("p")
    assert (now.use_count, now.success_count, now.status, now.title) == (12, 12, ACTIVE, "better words")


async def test_of_those_who_change_a_status_at_once_one_does(db: Platform) -> None:
    """Nothing else of the item changes; an archived one is not found, and back again it is, by meaning too."""
    collection = await db.collection("things")
    await collection.add([{"_id": "a", "title": "flange", "text": "of steel", "tags": ["x"], "status": "new"}])
    changed = await asyncio.gather(*(set_status(handle_of(collection), "a", "settled", was="new") for _ in range(4)))
    assert sorted(changed) == [False, False, False, True]
    item = (await collection.get(["a"]))["a"]
    assert (item.status, item.title, item.tags) == ("settled", "flange", ("x",))

    assert await set_status(handle_of(collection), "a", "archived")
    assert not await collection.search("flange")
    assert await set_status(handle_of(collection), "a", "active")
    assert {part.leg for part in (await collection.search("flange"))[0].explanation.contributions} == {
        "dense",
        "lexical",
    }
    assert not await set_status(handle_of(collection), "none", "active")
    assert not await set_status(handle_of(collection), "a", "settled", was="other")
    assert not await set_status(handle_of(collection), "a", "settled", was="")
    for status, was in (("x\x00", None), ("settled", "x\x00"), ("settled", 5)):
        with pytest.raises(InvalidItemError):
            await set_status(handle_of(collection), "a", status, was=was)  # type: ignore[arg-type]


async def test_traces_tell_what_went_well_lately(store: PrincipleStore, clock: StoppedClock) -> None:
    """The latest come first, by time and outcome; then the tags of the successful ones, the most frequent first."""
    assert await store.search_traces(status="success") == []
    assert await store.recent_tags() == []
    await store.add_trace("long ago", ["cobol"], at=NOW - timedelta(days=8))
    for number, (tags, outcome) in enumerate(
        [(["SQL", "git"], "success"), (["css"], "failure"), (["sql", "api"], "Success")]
    ):
        clock.now = NOW + timedelta(hours=number)
        last = await store.add_trace(f"t{number}", tags, outcome, session="s1", note="n")
    assert (last.outcome.status, last.outcome.note, last.tags, last.session) == ("success", "n", ("sql", "api"), "s1")

    assert await store.recent_tags() == ["sql", "api", "git"]
    assert await store.recent_tags(days=30, most=1) == ["sql"]
    assert [trace.title for trace in await store.search_traces()] == ["t2", "t1", "t0", "long ago"]
    assert [trace.title for trace in await store.search_traces(status="failure")] == ["t1"]
    assert [trace.title for trace in await store.search_traces(1, (None, NOW + timedelta(minutes=1)))] == ["t0"]
    assert (await store.search_traces(1))[0] == last
    await store.add_trace("as a value", ["api"], Outcome(status=" Success "))
    assert (await store.search_traces(status="success"))[0].title == "as a value"
    again = await store.add_trace("t2, mended", [], "failure", trace_id=last.id)
    assert (await store.search_traces(1))[0].title == again.title


async def test_the_principles_of_a_session_start_are_stored(store: PrincipleStore, db: Platform) -> None:
    """In the order shown, explored ones marked; the latest start of it."""
    for name in ("a", "b", "c"):
        await store.add_principle(name, principle_id=name)
    collection = await db.collection("principles")
    for item_ids in (["c"], ["b", "a"]):
        items = [
            ShownItem(item_id=principle_id, score=0.5, slot=Slot.EXPLORE if principle_id == "a" else Slot.EXPLOIT)
            for principle_id in item_ids
        ]
        await collection.record_answer(
            "", items, context=Context(session="s1"), origin="session-start", retrieval_time_ms=1.0
        )  # fmt: skip
    await store.search_principles("a", session="s1")

    loaded = await store.loaded("s1")
    assert [(hit.principle.id, hit.is_exploratory) for hit in loaded] == [("b", False), ("a", True)]
    assert len(await store.loaded("another")) == 0


async def test_the_tags_in_use_are_counted(store: PrincipleStore) -> None:
    """Tags of candidates are included."""
    await store.add_principle("a", tags=["sql", "git"])
    await store.add_principle("b", tags=["sql"], status=CANDIDATE)
    assert [(tag.value, tag.items) for tag in await store.list_tags()] == [("sql", 2), ("git", 1)]


async def test_without_vectors_words_take_the_place_of_meaning(database_url: str, settings: Settings) -> None:
    """The share of the question's words that it holds; with vectors their likeness, unless somebody chose otherwise.

    So it is too if the collection was made as one of any items.
    """
    async with connect(database_url, settings=settings) as without:
        await without.collection("principles")
        store = await PrincipleStore.open(without)
        await store.add_principle("measure before you optimise")
        [hit] = await store.search_principles("optimise the loop")
        assert hit.score == pytest.approx(0.5 + 2 * 1 / 2)
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as opened:
        await PrincipleStore.open(opened)
        collection = await opened.collection("principles")
        assert collection.profile.as_dict() == PRINCIPLES_PROFILE.as_dict()
        await collection.set_profile(WORDS_PROFILE, note="chosen")
        await PrincipleStore.open(opened)
        await collection.refresh()
        assert (collection.profile.as_dict(), (await collection.stored_profile()).note) == (
            WORDS_PROFILE.as_dict(),
            "chosen",
        )


async def test_callers_that_open_the_store_at_once_set_its_profile_once(database_url: str, settings: Settings) -> None:
    """Sessions that start together, for example, in a new project without an embedder."""
    async with connect(database_url, settings=settings) as without:
        await asyncio.gather(*(PrincipleStore.open(without) for _ in range(4)))
        versions = await (await without.collection("principles")).profiles()
    assert [(each.version, each.note) for each in versions] == [(2, "the default without vectors"), (1, "the default")]


async def test_an_empty_store_and_a_question_without_words_are_answered(store: PrincipleStore) -> None:
    """With nothing, and by score."""
    assert len(await store.search_principles("what", ["sql"], include_exploration=True)) == 0
    assert await store.get_exploratory_principles() == []
    assert (await store.stats()).success_rate is None
    await store.add_principle("a lesson", principle_id="a")
    assert [hit.principle.id for hit in await store.search_principles("?!")] == ["a"]
    assert [hit.principle.id for hit in await store.search_principles("  ", include_exploration=True)] == ["a"]


async def test_invalid_arguments_are_refused(store: PrincipleStore) -> None:
    """At the door, in a readable line."""
    for wrong in ({"limit": 0}, {"limit": 1001}, {"limit": True}):
        with pytest.raises(InvalidLimitError, match="limit is"):
            await store.search_principles(**wrong)
    with pytest.raises(InvalidRequestError, match="min_principle_score is 2"):
        await store.search_principles(min_principle_score=2)
    with pytest.raises(InvalidRequestError, match="tags come in a list"):
        await store.search_principles(tags="sql")
    no: Any = "no"
    with pytest.raises(InvalidRequestError, match="include_exploration is 'no'; it must be True or False"):
        await store.search_principles(include_exploration=no)
    number: Any = 5
    added = await store.add_principle("a lesson")
    for session in ("", "s-1"):
        with pytest.raises(InvalidRequestError, match="trace_id is 5"):
            await store.record_usage(added.id, number, session=session)
    with pytest.raises(InvalidRequestError, match="a principle needs a title"):
        await store.add_principle(" ")
    for texts, name in (({"title": 5}, "title is 5"), ({"title": "x", "body": None}, "body is None")):
        with pytest.raises(InvalidRequestError, match=name):
            await store.add_principle(**texts)
    with pytest.raises(InvalidRequestError, match="status is 'archived'"):
        await store.add_principle("x", status="archived")
    with pytest.raises(InvalidRequestError, match="days is 0"):
        await store.recent_tags(days=0)
    with pytest.raises(InvalidRequestError, match="time_range"):
        await store.search_traces(time_range=(NOW.replace(tzinfo=None), None))
    with pytest.raises(InvalidRequestError, match=r"time_range starts at .* swap them"):
        await store.search_traces(time_range=(NOW, NOW - timedelta(days=1)))
    with pytest.raises(InvalidRequestError, match="outcome is ''"):
        await store.add_trace("x", [], "")
    with pytest.raises(InvalidRequestError, match="the outcome has a note of its own"):
        await store.add_trace("x", [], Outcome(status="failure"), note="it broke the pool")
    with pytest.raises(InvalidRequestError, match="session is 5"):
        await store.add_trace("x", session=number)
    assert await store.search_traces() == []
    with pytest.raises(InvalidRequestError, match="give an open platform"):
        PrincipleStore("principles")  # type: ignore[arg-type]


async def test_only_of_those_that_are_picked_is_read_what_they_say(
    store: PrincipleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all others only the counts are read, also without a question."""
    for number in range(6):
        await store.add_principle(f"lesson {number}", f"body {number}", status=CANDIDATE)
    texts_read: set[object] = set()
    read_each = Database.read_each

    async def watched(self: Database, *statements: Any) -> list[list[Row]]:
        answers = await read_each(self, *statements)
        texts_read.update(cell for rows in answers for row in rows for cell in row if isinstance(cell, str))
        return answers

    monkeypatch.setattr(Database, "read_each", watched)
    bodies = {f"body {number}" for number in range(6)}
    bodies_drawn = {principle.body for principle in await store.get_exploratory_principles(2)}
    assert texts_read & bodies == bodies_drawn
    texts_read.clear()
    explored = {hit.principle.body for hit in await store.search_principles(include_exploration=True)}
    assert texts_read & bodies == explored
    assert len(explored) == len(bodies_drawn) == 2


async def test_the_cap_of_a_key_holds_for_ratings(platform: Platform, store: PrincipleStore) -> None:
    """Ratings beyond the cap are recorded, and do not count."""
    key = (await platform.create_key("agent", scopes=["feedback", "read"], feedback_cap=1)).key
    added = await store.add_principle("Write the test first")
    uses = [
        (await store.record_usage(added.id, was_helpful=True, session=f"s{number}", api_key=key)).use_count
        for number in range(3)
    ]
    assert uses == [1, 1, 1]
