"""Feedback through the platform: what counts, what is refused, decay, and the replacement of names."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import psycopg
import pytest

from retrieval import Context, Feedback, Platform
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.learning import feedback
from retrieval.adapters.store.learning.arms import read_arms, recount_arms
from retrieval.adapters.store.learning.training import read_verdicts
from retrieval.adapters.store.round_trip import run_together
from retrieval.domain.errors import (
    InvalidRequestError,
    UnknownCollectionError,
    UnknownItemError,
    UnknownRetrievalError,
)
from retrieval.domain.learning.arm import Arm
from retrieval.engine.feedback import take_valid_feedback, timed
from tests.support.database import SCHEMA

SITUATION = Context(domain="db", complexity=0.2)
NEVER = "01890a5d-ac96-774b-bcce-b302099a8057"


async def _stored(platform: Platform) -> int:
    collection = await platform.collection("docs")
    await collection.add([{"_id": item_id, "text": f"timeout {item_id}"} for item_id in "abcd"])
    return (await collection.refresh()).collection_id


async def _search(platform: Platform, limit: int = 3) -> tuple[UUID, list[str]]:
    """A search in the situation, with its hits."""
    result = await (await platform.collection("docs")).search("timeout", context=SITUATION, limit=limit)
    assert result.retrieval_id is not None
    return result.retrieval_id, [hit.item_id for hit in result]


async def _arm(platform: Platform, item_id: str, bucket: str = "") -> Arm:
    number = (await (await platform.collection("docs")).refresh()).collection_id
    where = CollectionPlace(platform.database, platform.tenant_id, number)
    arms = await read_arms(where, item_ids=[item_id], buckets=[bucket], now=platform.now)
    return arms[item_id].arms.get(bucket, Arm())


async def _raw(platform: Platform, item_id: str, bucket: str = "") -> tuple[int, int]:
    arm = await _arm(platform, item_id, bucket)
    return arm.uses, arm.raw_successes


async def test_feedback_of_a_hit_counts_in_the_situation_of_its_search(platform: Platform) -> None:
    """In the item by itself, the domain and the range of complexity, and nowhere else."""
    await _stored(platform)
    retrieval, (first, *_) = await _search(platform)
    report = await platform.feedback(retrieval, first, reward=0.75)
    assert report.as_dict() == {"recorded": 1, "repeated": 0, "superseding": 0, "discounted": {}}
    for bucket in SITUATION.buckets():
        arm = await _arm(platform, first, bucket)
        assert (arm.uses, arm.raw_successes) == (1, 1)
        assert arm.successes == pytest.approx(0.75, rel=1e-6)
        assert arm.failures == pytest.approx(0.25, rel=1e-6)
    assert await _raw(platform, first, "domain=web") == (0, 0)


@pytest.mark.parametrize("new", [False, True])
async def test_a_verdict_that_is_changed_back_counts_if_it_is_new(platform: Platform, *, new: bool) -> None:
    """Otherwise it is taken for a retry of the first verdict; within a list too."""
    await _stored(platform)
    retrieval, (first, second, *_) = await _search(platform)
    for helpful in (True, False, True):
        await platform.feedback(retrieval, first, helpful=helpful, new=new)
    events = [Feedback(retrieval_id=retrieval, item_id=second, helpful=helpful) for helpful in (True, False, True)]
    report = await platform.feedback_each(events, new=new)
    assert (report.recorded, report.repeated) == ((3, 0) if new else (2, 1))
    assert await _raw(platform, first) == (1, int(new))
    if new:
        assert await _raw(platform, second) == (1, 1)


async def test_a_repeated_call_counts_once(platform: Platform) -> None:
    """Events are the same by their content, or by the given key, alone or within a batch."""
    await _stored(platform)
    retrieval, (first, second, *_) = await _search(platform)
    for _ in range(2):
        report = await platform.feedback(retrieval, first, helpful=True)
    assert (report.recorded, report.repeated) == (0, 1)
    event = Feedback(collection="docs", item_id=second, helpful=True, key="order 17")
    assert (await platform.feedback_each([event, event])).as_dict()["repeated"] == 1
    assert (await platform.feedback_each([event])).repeated == 1
    assert await _raw(platform, first) == (1, 1)
    assert await _raw(platform, second) == (1, 1)
    for _ in range(2):
        await platform.feedback(collection="docs", item_id=second, helpful=True)
    assert await _raw(platform, second) == (3, 3)


@pytest.mark.parametrize("is_late", [False, True])
async def test_the_later_verdict_counts_whichever_arrives_first(platform: Platform, *, is_late: bool) -> None:
    """By the time of the event; another kind or another actor is another subject."""
    await _stored(platform)
    retrieval, (first, *_) = await _search(platform)
    early = datetime(2026, 3, 1, tzinfo=UTC)
    verdicts = [(True, early), (False, early + timedelta(seconds=1))]
    reports = [
        await platform.feedback(retrieval, first, helpful=helpful, at=at, actor="u1")
        for helpful, at in (verdicts[::-1] if is_late else verdicts)
    ]
    assert [report.superseding for report in reports] == ([0, 0] if is_late else [0, 1])
    arm = await _arm(platform, first)
    assert (arm.uses, arm.raw_successes, arm.last_used_at) == (1, 0, verdicts[1][1])
    assert arm.successes == 0
    await platform.feedback(retrieval, first, helpful=True, at=early, actor="u2")
    await platform.feedback(retrieval, first, helpful=True, at=early, actor="u1", kind="click")
    assert await _raw(platform, first) == (3, 2)


async def test_in_a_batch_one_verdict_of_a_subject_counts(platform: Platform) -> None:
    """The latest one counts, of the batch and of the stored ones."""
    await _stored(platform)
    day = datetime(2026, 3, 1, tzinfo=UTC)
    events = [
        Feedback(collection="docs", item_id="a", actor="u", reward=reward, at=day + timedelta(hours=hour))
        for reward, hour in ((0.1, 1), (0.9, 3), (0.2, 2))
    ]
    assert (await platform.feedback_each(events[:1])).recorded == 1
    report = await platform.feedback_each(events)
    assert (report.recorded, report.repeated, report.superseding) == (2, 1, 1)
    assert await _raw(platform, "a") == (1, 1)
    assert (await _arm(platform, "a")).last_used_at == day + timedelta(hours=3)


async def test_verdicts_of_one_subject_in_one_call_are_read_a_few_times_each(platform: Platform) -> None:
    """Not once for each of the others."""
    await _stored(platform)
    events = [Feedback(collection="docs", item_id="a", actor="u", reward=n / 300) for n in range(300)]
    columns = feedback._columns(timed(events, platform.now), platform.now, UUID(NEVER))  # noqa: SLF001
    statement = feedback._RECORD.bind(**columns, key_id="", skip_refused=False)  # noqa: SLF001 - to count in its transaction
    reads = Compiled("SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'feedback'::regclass")
    async with platform.database.transaction(platform.tenant_id) as connection:
        recorded, fetched = [answer.rows()[0][0] for answer in await run_together(connection, [statement, reads])]
    assert recorded == 300
    assert fetched < 10 * 300


async def test_of_verdicts_that_are_written_at_once_one_counts(platform: Platform) -> None:
    """The latest; what others of the subject wrote meanwhile is seen once the item is held, and no call fails."""
    number = await _stored(platform)
    day = datetime(2026, 3, 1, tzinfo=UTC)
    calls = [
        [
            Feedback(collection="docs", item_id=item_id, actor="u", reward=hour / 100, at=day + timedelta(hours=hour))
            for item_id in ("ab" if hour % 2 else "ba")
        ]
        for hour in range(1, 25)
    ]
    reports = await asyncio.gather(*(platform.feedback_each(call) for call in calls))
    assert [(report.recorded, report.repeated) for report in reports] == [(2, 0)] * 24
    for item_id in "ab":
        arm = await _arm(platform, item_id)
        assert (arm.uses, arm.raw_successes, arm.last_used_at) == (1, 0, day + timedelta(hours=24))
        assert arm.successes / (arm.successes + arm.failures) == pytest.approx(0.24, rel=1e-9)
    live = Compiled("SELECT item_id, reward FROM feedback WHERE collection_id = %(id)s AND superseded_at IS NULL")
    assert sorted(await platform.database.read(platform.tenant_id, live.bind(id=number))) == [("a", 0.24), ("b", 0.24)]


async def test_a_verdict_on_an_item_that_was_not_shown_does_not_count(platform: Platform) -> None:
    """The report says why; the item's arm stays empty."""
    await _stored(platform)
    retrieval, hits = await _search(platform, limit=1)
    other = ({"a", "b"} - set(hits)).pop()
    report = await platform.feedback(retrieval, other, helpful=True)
    assert (report.recorded, report.discounted) == (1, {"not shown": 1})
    assert await _raw(platform, other) == (0, 0)


async def test_an_actor_has_a_daily_cap(platform: Platform) -> None:
    """Events beyond the cap are stored and do not count, one by one and in batches, in the order of the call."""
    await _stored(platform)
    await (await platform.collection("docs")).set_learning(daily_cap=3)
    events = [
        Feedback(collection="docs", item_id=item_id, helpful=True, actor="u", kind=kind)
        for kind in "xy"
        for item_id in "ba"
    ]
    assert not (await platform.feedback_each(events[:2])).discounted
    assert (await platform.feedback_each(events)).discounted == {"over the daily cap": 1}
    alone = await platform.feedback(collection="docs", item_id="c", helpful=True, actor="u")
    assert alone.discounted == {"over the daily cap": 1}
    assert not (await platform.feedback(collection="docs", item_id="c", helpful=True, actor="v")).discounted
    assert [await _raw(platform, item_id) for item_id in "abc"] == [(1, 1), (2, 2), (1, 1)]
    await (await platform.collection("docs")).set_learning(daily_cap=6)
    assert not (await platform.feedback(collection="docs", item_id="d", helpful=True, actor="u")).discounted


async def test_a_key_has_a_cap_of_its_own_for_each_item_whatever_actors_it_names(platform: Platform) -> None:
    """Events beyond the cap are stored and do not count, in batches or singly; each key and item has its own cap."""
    await _stored(platform)
    scopes = ["feedback", "read"]
    key, other = [(await platform.create_key("app", scopes=scopes, feedback_cap=5)).key for _ in range(2)]
    events = [Feedback(collection="docs", item_id="a", helpful=True, actor=f"a{number}") for number in range(20)]
    report = await platform.feedback_each(events, api_key=key)
    assert (report.recorded, report.discounted) == (20, {"over the cap of the key": 15})
    assert (await platform.feedback_each(events, api_key=key)).repeated == 20
    assert await _raw(platform, "a") == (5, 5)
    alone = [await platform.feedback_each([replace(events[0], actor=actor)], api_key=key) for actor in "xyz"]
    assert [report.discounted for report in alone] == [{"over the cap of the key": 1}] * 3
    for item_id, by in (("b", key), ("a", other), ("a", None)):
        event = Feedback(collection="docs", item_id=item_id, helpful=True)
        assert not (await platform.feedback_each([event], api_key=by)).discounted
    assert [await _raw(platform, item_id) for item_id in "ab"] == [(7, 7), (1, 1)]


async def test_the_cap_of_a_key_is_exact_also_for_those_who_write_at_once(platform: Platform) -> None:
    """Writers of one item wait for each other, so that each sees the others' events."""
    await _stored(platform)
    key = (await platform.create_key("app", scopes=["feedback", "read"], feedback_cap=20)).key
    calls = [
        platform.feedback_each(
            [
                Feedback(collection="docs", item_id="a", helpful=True, actor=f"{call}-{number}")
                for number in range(call % 3 + 1)
            ],
            api_key=key,
        )
        for call in range(24)
    ]
    reports = await asyncio.gather(*calls)
    assert sum(report.recorded for report in reports) == 48
    assert sum(report.discounted.get("over the cap of the key", 0) for report in reports) == 28
    assert await _raw(platform, "a") == (20, 20)


async def test_a_key_of_yesterday_may_say_as_much_today(platform: Platform) -> None:
    """The cap is a day's, of UTC, by arrival."""
    number = await _stored(platform)
    key = (await platform.create_key("app", scopes=["feedback", "read"], feedback_cap=1)).key
    event = Feedback(collection="docs", item_id="a", helpful=True)
    assert not (await platform.feedback_each([event], api_key=key)).discounted
    assert (await platform.feedback_each([event], api_key=key)).discounted == {"over the cap of the key": 1}
    earlier = Compiled(
        "UPDATE feedback SET received_at = (received_at AT TIME ZONE 'UTC' - interval '1 day') AT TIME ZONE 'UTC' "
        "WHERE collection_id = %(id)s"
    )
    await platform.database.write(platform.tenant_id, earlier.bind(id=number))
    assert not (await platform.feedback_each([event], api_key=key)).discounted


async def test_a_key_of_another_tenant_counts_nothing(platform: Platform) -> None:
    """Its cap does not apply here."""
    await _stored(platform)
    async with platform.of_tenant(f"{platform.settings.tenant}-other") as stranger:
        key = (await stranger.create_key("app", scopes=["feedback", "read"])).key
    report = await platform.feedback_each([Feedback(collection="docs", item_id="a", helpful=True)], api_key=key)
    assert report.discounted == {"over the cap of the key": 1}


async def test_a_key_with_feedback_alone_speaks_for_the_actor_of_the_search_or_for_itself(platform: Platform) -> None:
    """It names no actor, because everybody who opens the web page has the key."""
    await _stored(platform)
    key = (await platform.create_key("page", scopes=["feedback"])).key
    collection = await platform.collection("docs")
    searches = [await collection.search("timeout", context=Context(actor=actor)) for actor in ("ann", "")]
    events = [
        Feedback(retrieval_id=search.retrieval_id, item_id=search[0].item_id, helpful=True) for search in searches
    ]
    for named in (replace(events[0], actor="bob"), Feedback(collection="docs", item_id="a", helpful=True, actor="ann")):
        with pytest.raises(InvalidRequestError, match="'feedback' may not name an actor; leave actor out"):
            await platform.feedback_each([events[0], named], api_key=key)
    assert (await platform.feedback_each(events, api_key=key)).recorded == 2
    assert await platform.quarantine("ann") == 1
    assert await platform.quarantine(f"key:{key.key_id}") == 1
    with pytest.raises(UnknownRetrievalError):
        await platform.feedback_each([Feedback(retrieval_id=NEVER, item_id="a", helpful=True)], api_key=key)


async def test_a_call_that_is_repeated_with_its_key_counts_once(platform: Platform) -> None:
    """After an error the caller does not know whether the events are stored, and these have no key of their own."""
    await _stored(platform)
    events = [Feedback(collection="docs", item_id="a", helpful=True)] * 2
    for call_key, recorded in ((UUID(int=1), 2), (UUID(int=1), 0), (UUID(int=2), 2)):
        report = await platform.feedback_each(events, call_key=call_key)
        assert (report.recorded, report.repeated) == (recorded, 2 - recorded)
    assert await _raw(platform, "a") == (4, 4)
    with pytest.raises(InvalidRequestError, match="call_key is a str; it must be a UUID"):
        await platform.feedback_each(events, call_key="again")  # type: ignore[arg-type]


async def test_feedback_waits_for_the_record_of_a_search_that_another_process_has_just_answered(
    platform: Platform, database_url: str
) -> None:
    """Processes behind one address share their clients, and each stores its records a moment after its answers."""
    from retrieval import connect

    await _stored(platform)
    docs = await platform.collection("docs")
    key = (await platform.create_key("page", scopes=["feedback"])).key
    async with connect(database_url, settings=platform.settings) as other:
        for api_key in (None, key):
            found = await docs.search("timeout", context=Context(actor="ann"))
            event = Feedback(retrieval_id=found.retrieval_id, item_id=found[0].item_id, helpful=True)
            assert (await other.feedback_each([event], api_key=api_key)).recorded == 1
    assert await platform.quarantine("ann") == 1  # the event of the key, which names no actor


@pytest.mark.parametrize("events", [0, 1_000_001, 1.5, True])
async def test_a_cap_that_makes_no_sense_is_refused(platform: Platform, events: int) -> None:
    """The error names the range, for a collection's cap and for a key's."""
    collection = await platform.collection("docs")
    with pytest.raises(InvalidRequestError, match="1 to 1,000,000"):
        await collection.set_learning(daily_cap=events)
    with pytest.raises(InvalidRequestError, match="1 to 1,000,000"):
        await platform.create_key("app", feedback_cap=events)


async def test_a_quarantine_takes_an_actors_events_out_and_a_release_puts_them_back(platform: Platform) -> None:
    """The original weights are restored; verdicts received meanwhile count from the release on."""
    await _stored(platform)
    day = datetime(2026, 3, 1, tzinfo=UTC)
    for actor, at in (("u1", day), ("u2", day - timedelta(days=9))):
        await platform.feedback(collection="docs", item_id="a", reward=0.7, weight=0.5, actor=actor, at=at)
    before = await _arm(platform, "a")
    assert await platform.quarantine("u1", reason="spam") == 1
    arm = await _arm(platform, "a")
    assert (arm.uses, arm.last_used_at) == (1, day - timedelta(days=9))
    meanwhile = await platform.feedback(collection="docs", item_id="b", helpful=True, actor="u1", at=day)
    assert meanwhile.discounted == {"quarantined": 1}
    assert await platform.quarantine("u1") == 0
    assert await platform.release("u1") == 2
    after = await _arm(platform, "a")
    assert after[2:] == before[2:]
    assert after.pulls == pytest.approx(before.pulls, rel=1e-5)
    assert await _raw(platform, "b") == (1, 1)


async def test_a_quarantine_outlives_the_collections_of_its_time(platform: Platform) -> None:
    """It is the tenant's: it needs no collection, includes later ones, and ends with the release alone."""
    assert await platform.quarantine("eve") == 0
    await platform.collection("old")
    new = await platform.collection("new")
    await new.add([{"_id": "a", "text": "a timeout"}])
    await platform.remove_collection("old")
    report = await platform.feedback(collection="new", item_id="a", helpful=True, actor="eve")
    assert report.discounted == {"quarantined": 1}
    async with platform.of_tenant(f"{platform.settings.tenant}-other") as other:
        await (await other.collection("new")).add([{"_id": "a", "text": "a timeout"}])
        assert not (await other.feedback(collection="new", item_id="a", helpful=True, actor="eve")).discounted
    assert await platform.release("eve") == 1
    assert not (await platform.feedback(collection="new", item_id="a", helpful=True, actor="eve")).discounted


@pytest.mark.parametrize("reason", ["a\0b", "\ud800", "x" * 10_001], ids=["NUL", "half", "long"])
async def test_the_reason_of_a_quarantine_is_a_text_that_can_be_stored(platform: Platform, reason: str) -> None:
    """It is the caller's fault, and not the database's."""
    await _stored(platform)
    with pytest.raises(InvalidRequestError, match=r"^reason "):
        await platform.quarantine("u1", reason=reason)


async def test_a_verdict_that_does_not_count_still_replaces_the_earlier_one(platform: Platform) -> None:
    """No verdict of that subject counts, and the arm's last use is that of another event."""
    await _stored(platform)
    day = datetime(2026, 3, 1, tzinfo=UTC)
    await (await platform.collection("docs")).set_learning(daily_cap=1)
    await platform.feedback(collection="docs", item_id="a", helpful=True, at=day)
    await platform.feedback(collection="docs", item_id="a", helpful=True, actor="u", at=day + timedelta(days=1))
    assert await _raw(platform, "a") == (2, 2)
    await platform.feedback(collection="docs", item_id="a", helpful=False, actor="u", at=day + timedelta(days=2))
    arm = await _arm(platform, "a")
    assert (arm.uses, arm.raw_successes, arm.last_used_at) == (1, 1, day)


async def test_an_outcome_is_shared_by_the_items_that_were_used(platform: Platform) -> None:
    """One event's weight in equal parts, of a kind of its own."""
    number = await _stored(platform)
    retrieval, hits = await _search(platform)
    assert (await platform.outcome(retrieval, hits[:2], reward=1.0, actor="agent")).recorded == 2
    verdicts = await read_verdicts(
        CollectionPlace(platform.database, platform.tenant_id, number), until=datetime.now(UTC)
    )
    assert sorted((verdict.item_id, verdict.weight, str(verdict.retrieval_id)) for verdict in verdicts) == sorted(
        (item_id, 0.5, str(retrieval)) for item_id in hits[:2]
    )
    with pytest.raises(InvalidRequestError, match="at least one"):
        await platform.outcome(retrieval, [], reward=1.0)


async def test_a_later_outcome_replaces_the_shares_of_the_items_that_it_names(platform: Platform) -> None:
    """The new shares apply; another item's share is withdrawn by a verdict without weight."""
    await _stored(platform)
    retrieval, (first, second, _) = await _search(platform)
    await platform.outcome(retrieval, [first, second], reward=1.0, actor="agent")
    assert (await platform.outcome(retrieval, [second, first], reward=1.0, actor="agent")).repeated == 2
    assert (await platform.outcome(retrieval, [first], reward=1.0, actor="agent")).superseding == 1
    assert (await _arm(platform, first)).pulls == pytest.approx(2 * (await _arm(platform, second)).pulls, rel=1e-4)
    await platform.feedback(retrieval, second, reward=0, weight=0, kind="outcome", actor="agent")
    assert [await _raw(platform, item_id) for item_id in (first, second)] == [(1, 1), (0, 0)]


async def test_an_event_about_something_unknown_refuses_the_batch(platform: Platform) -> None:
    """The error names the first such event; in bulk the others are stored, and each refusal has its place."""
    await _stored(platform)
    retrieval, (first, *_) = await _search(platform)
    good = Feedback(retrieval_id=retrieval, item_id=first, helpful=True)
    bad = {
        UnknownRetrievalError: Feedback(retrieval_id=NEVER, item_id="a", helpful=True),
        UnknownItemError: Feedback(retrieval_id=retrieval, item_id="nowhere", helpful=True),
        UnknownCollectionError: Feedback(collection="nowhere", item_id="a", helpful=True),
        InvalidRequestError: Feedback(
            collection="docs", item_id="a", helpful=True, at=platform.now + timedelta(days=2)
        ),
    }
    for kind, event in bad.items():
        with pytest.raises(kind, match=r"item '\w+'"):
            await platform.feedback_each([good, event])
    assert await _raw(platform, first) == (0, 0)
    where = (platform.database, platform.tenant_id)
    report, refused = await take_valid_feedback(*where, [*bad.values(), good], platform.now)
    assert report.recorded == 1
    assert [(place, type(error)) for place, error in refused] == list(enumerate(bad))


async def test_the_database_gives_a_retrieval_the_buckets_that_its_context_has(platform: Platform) -> None:
    """Feedback must count where the search looked its arms up."""
    edges = [None, 0.0, 0.33, 1 / 3, 0.5, 2 / 3, 0.67, 1.0]
    for domain, complexity, cluster in product(["", "db", "a=b"], edges, [None, 0, 17]):
        async with platform.database.transaction(platform.tenant_id) as connection:
            cursor = await connection.execute(
                "SELECT context_buckets(%s::text, %s::float8, %s::int)", (domain, complexity, cluster)
            )
            assert await cursor.fetchone() == (list(Context(domain=domain, complexity=complexity).buckets(cluster)),)


@pytest.mark.parametrize("complexity", [0.333333333, 0.666666666])
async def test_feedback_counts_in_the_range_that_its_search_looked_up(platform: Platform, complexity: float) -> None:
    """However close to the edge of a range."""
    await _stored(platform)
    context = Context(complexity=complexity)
    result = await (await platform.collection("docs")).search("timeout", context=context, limit=1)
    assert result.retrieval_id is not None
    await platform.feedback(result.retrieval_id, result[0].item_id, helpful=True)
    assert await _raw(platform, result[0].item_id, context.buckets()[1]) == (1, 1)


async def test_a_sessions_verdicts_on_an_item_are_one_whatever_their_contexts(platform: Platform) -> None:
    """With and without a search; the arm of the former context keeps the time of the uses that still count."""
    await _stored(platform)
    collection = await platform.collection("docs")
    searches = [
        await collection.search("timeout", context=Context(domain=domain), limit=1) for domain in ("shop", "db")
    ]
    await platform.recorded()
    of_shop, of_db = [search.retrieval_id for search in searches]
    item_id = searches[0][0].item_id
    days_ago = platform.now - timedelta(days=9)
    session: dict[str, Any] = {"item_id": item_id, "session": "s", "of_session": True}
    for event, superseding in (
        (Feedback(retrieval_id=of_shop, item_id=item_id, actor="ann", helpful=True, at=days_ago), 0),
        (Feedback(retrieval_id=of_shop, helpful=True, **session), 0),
        (Feedback(retrieval_id=of_db, helpful=False, **session), 1),
        (Feedback(collection="docs", context=Context(domain="crm"), reward=0.5, **session), 1),
        (Feedback(collection="docs", reward=0.6, **session), 1),
    ):
        assert (await platform.feedback_each([event])).superseding == superseding
    assert await _raw(platform, item_id) == (2, 2)
    assert await _raw(platform, item_id, "domain=db") == (0, 0)
    number = (await collection.refresh()).collection_id
    where = CollectionPlace(platform.database, platform.tenant_id, number)
    assert (await recount_arms(where, [item_id]))[1] == 0
    used = [row["last_used_at"] for row in await platform.analytics("usage") if row["context"] == "domain=shop"]
    assert used == [days_ago]


async def test_another_tenants_retrieval_is_unknown(platform: Platform, database_url: str) -> None:
    """A caller that knows the identifier of another tenant's record reads and changes nothing."""
    from retrieval import connect

    await _stored(platform)
    retrieval, (first, *_) = await _search(platform)
    await platform.recorded()
    other = platform.settings.changed(tenant=f"{platform.settings.tenant}-other")
    async with connect(database_url, settings=other) as stranger:
        with pytest.raises(UnknownRetrievalError):
            await stranger.feedback(retrieval, first, helpful=True)
        with pytest.raises(UnknownCollectionError):
            await stranger.feedback(collection="docs", item_id=first, helpful=True)
    assert await _raw(platform, first) == (0, 0)


async def _stored_decayed(platform: Platform, *, half_life: float) -> int:
    collection = await platform.collection("docs")
    await collection.add([{"_id": item_id, "text": "timeout"} for item_id in "ab"])
    await collection.set_learning(half_life_days=half_life)
    return (await collection.refresh()).collection_id


async def _arm_decayed(platform: Platform, item_id: str) -> Arm:
    number = (await (await platform.collection("docs")).refresh()).collection_id
    where = CollectionPlace(platform.database, platform.tenant_id, number)
    return (await read_arms(where, item_ids=[item_id], buckets=[""], now=platform.now))[item_id].anywhere


async def test_a_collection_without_settings_has_the_defaults(platform: Platform) -> None:
    """A collection without settings of its own decays as one whose settings were made and not changed."""
    number = (await (await platform.collection("docs")).refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        before = await (await connection.execute("SELECT * FROM learning_state(%s)", (number,))).fetchone()
        await connection.execute("INSERT INTO learning_states (collection_id) VALUES (%s)", (number,))
        stored = await connection.execute("SELECT landmark, half_life_days, daily_cap FROM learning_states")
        assert before == await stored.fetchone()


@pytest.mark.parametrize("age", [399, 990, 3000])
async def test_tiny_weights_are_not_an_error(platform: Platform, age: int) -> None:
    """The least verdict, ages before the landmark, read ages after it: as little as that, or nothing."""
    number = await _stored_decayed(platform, half_life=1 / 24)
    past = platform.now - timedelta(hours=age)
    await platform.feedback(collection="docs", item_id="a", reward=1 - 2**-53, weight=1e-9, at=past)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            "UPDATE learning_states SET landmark = (landmark AT TIME ZONE 'UTC' - %s) AT TIME ZONE 'UTC' "
            "WHERE collection_id = %s",
            (timedelta(hours=age), number),
        )
    arm = await _arm_decayed(platform, "a")
    assert (arm.uses, arm.raw_successes) == (1, 1)
    assert 0 <= arm.failures <= arm.successes < 1e-200
    usage = await platform.analytics("usage")
    assert 0 <= usage.values[0][usage.columns.index("pulls")] < 1e-200


async def test_an_event_slightly_in_the_future_weighs_as_much_as_now(platform: Platform) -> None:
    """This applies to a single event, to a batch, and to its withdrawal; a recount finds no difference."""
    number = await _stored_decayed(platform, half_life=1 / 24)
    ahead = platform.now + timedelta(hours=23)
    events = [
        Feedback(collection="docs", item_id=item_id, helpful=True, actor=actor, at=ahead)
        for actor in ("ann", "bob")
        for item_id in "ab"
    ]
    await platform.feedback_each(events[:1])
    await platform.feedback_each(events[1:])
    for item_id in "ab":
        assert (await _arm_decayed(platform, item_id)).successes == pytest.approx(2, rel=0.05)
    later = [
        Feedback(collection="docs", item_id=item_id, helpful=False, actor="ann", at=ahead + timedelta(minutes=1))
        for item_id in "ab"
    ]
    await platform.feedback_each(later[:1])
    await platform.feedback_each(later)
    for item_id in "ab":
        arm = await _arm_decayed(platform, item_id)
        assert [arm.successes, arm.failures] == pytest.approx([1, 1], rel=0.05)
    where = CollectionPlace(platform.database, platform.tenant_id, number)
    assert await recount_arms(where, ["a", "b"]) == (2, 0)


BLOCKED = """
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_a_name_is_replaced_in_events_that_were_being_written_too(
    platform: Platform, connection: psycopg.AsyncConnection[Any]
) -> None:
    """The replacement waits for writers of feedback, and then includes their events."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "a", "text": "timeout"}])
    for actor in ("ann", "bob"):
        await platform.feedback(collection="docs", item_id="a", helpful=True, actor=actor)
    async with platform.database.transaction(platform.tenant_id) as writer:
        await writer.execute("SELECT pg_advisory_xact_lock_shared(feedback_lock())")
        await writer.execute("UPDATE feedback SET actor = 'ann' WHERE actor = 'bob'")
        replacing = asyncio.create_task(platform.pseudonymise("ann"))
        while (await (await connection.execute(BLOCKED)).fetchone()) != (1,):
            assert not replacing.done()
    assert (await replacing).feedback == 2


async def test_writers_of_feedback_lock_items_in_one_order(connection: psycopg.AsyncConnection[Any]) -> None:
    """By bytes, as a recount does: in the order of a database's language, each would wait for the other."""
    collation = """
        SELECT attcollation::regcollation::text FROM pg_attribute
        WHERE attrelid = %s::regclass AND attname = 'item_id'
    """
    for name in ("added_feedback", "arms"):
        assert await (await connection.execute(collation, (f"{SCHEMA}.{name}",))).fetchall() == [('"C"',)]
