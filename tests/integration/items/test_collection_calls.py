"""Calls of a collection beside searches: items, vectors, learned rewards, and composed answers."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from retrieval import Collection, Context, EmbeddingSpace, Item, Platform, Profile, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.items import listing
from retrieval.adapters.store.items.composed import StatementCache
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.collection import handle_of
from retrieval.domain.errors import (
    EmbedderRejectedError,
    EmptyQueryError,
    InvalidLimitError,
    InvalidRequestError,
    RetrievalError,
    UnknownFieldError,
    UnknownRetrievalError,
)
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.domain.learning.arm import Expectation
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.domain.search.profile_parts import Learned, Recording
from retrieval.engine.learning import count_verdicts, is_trained
from retrieval.engine.target import NamedProfile, Unanswerable
from retrieval.jobs.learning import is_there_to_learn
from retrieval.services.compare import compare_profiles
from retrieval.services.workplace import JobTarget
from tests.support.database import SCHEMA

pytestmark = pytest.mark.asyncio(loop_scope="module")

NUMBER = 30
IDS = [f"i{number:02}" for number in range(NUMBER)]


def _item(number: int) -> Item:
    return Item(
        item_id=IDS[number],
        body=f"{'disk' if number % 2 else 'network'} text word{number}",
        tags=("even", "all") if number % 2 == 0 else ("all",),
        kind="note",
        attributes={"level": number % 3},
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(database_url: str) -> AsyncIterator[Platform]:
    """A platform whose collection ``docs`` holds thirty items and one that is archived."""
    settings = Settings(tenant=f"calls-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as opened:
        docs = await opened.collection("docs")
        await docs.add([*map(_item, range(NUMBER)), Item(item_id="old", body="network", status="archived")])
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def docs(platform: Platform) -> Collection:
    """The read-only collection."""
    return await platform.collection("docs")


async def _own(platform: Platform, name: str, profile: Profile | None = None) -> Collection:
    """A collection of one test, with the same items."""
    own = await platform.collection(name, profile=profile)
    await own.add([_item(number) for number in range(NUMBER)])
    return own


async def test_a_scan_gives_every_item_once_in_the_order_of_its_key(docs: Collection) -> None:
    """The page size does not matter; archived items come only on request."""
    assert [item.item_id async for item in docs.scan(batch=7)] == IDS
    assert [item async for item in docs.scan({"tags": "even"}, batch=5)] == [
        _item(number) for number in range(0, 30, 2)
    ]
    assert [item.item_id async for item in docs.scan({"status": "archived"})] == ["old"]
    assert [item.item_id async for item in docs.scan({"level": 2, "kind": "note"}, batch=10)] == IDS[2::3]


async def test_a_scan_says_what_it_cannot_do(docs: Collection) -> None:
    """A field that no item has, or a page of nothing, is an error and no empty answer."""
    with pytest.raises(UnknownFieldError, match="no item has a field 'levle'; did you mean 'level'"):
        await anext(docs.scan({"levle": 1}))
    with pytest.raises(UnknownFieldError, match="no item has a field 'id'; did you mean 'item_id'"):
        await anext(docs.scan({"id": "1"}))
    with pytest.raises(InvalidRequestError, match="batch is 0; it must be a whole number from 1 to 10,000"):
        await anext(docs.scan(batch=0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda docs: docs.search("disk", profile={"legs": {"dense": 1}}), "profile is a dict; .* Profile.from_dict"),
        (lambda docs: docs.search("disk", where={"title": "disk"}), "'title' is searched, not filtered"),
        (lambda docs: docs.add({"_id": "1", "text": "x"}), "items come in a list, .* not as a single dictionary"),
        (lambda docs: docs.add(5), "items come in a list, .* not as int"),
        (lambda docs: docs.ingest("products.csv"), "retrieval.read_items"),
        (lambda docs: docs.ingest([{"_id": "1"}]), "add"),
    ],
)
async def test_an_argument_of_a_wrong_type_is_refused_with_the_right_type(
    docs: Collection, call: Any, message: str
) -> None:
    """The message covers common mistakes; nothing is stored."""
    with pytest.raises(RetrievalError, match=message):
        await call(docs)
    assert [item.item_id async for item in docs.scan()] == IDS


async def test_a_name_is_refused_as_an_embedder() -> None:
    """Names are for settings."""
    with pytest.raises(InvalidRequestError, match="RETRIEVAL_EMBEDDER"):
        connect(embedder="openai")  # type: ignore[arg-type]


async def test_vectors_of_words_are_those_that_searches_look_for(docs: Collection) -> None:
    """A search by such a vector finds the same items as a search by the words."""
    vectors = await docs.vectors_of(["disk text", "network word4"])
    assert vectors.shape == (2, HashingEmbedder().space.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-3)
    by_words = await docs.search("network word4", legs=["dense"], limit=5)
    by_vector = await docs.search(vector=vectors[1], legs=["dense"], limit=5)
    assert [(hit.item_id, hit.score) for hit in by_vector] == [(hit.item_id, hit.score) for hit in by_words]
    assert (await docs.vectors_of([])).shape == (0, HashingEmbedder().space.dimensions)
    with pytest.raises(EmptyQueryError, match="query 2 is empty"):
        await docs.vectors_of(["disk", " "])


async def test_a_missing_embedder_of_a_space_is_named(platform: Platform) -> None:
    """A collection with vectors of another model is not one that was made without an embedder."""
    space = EmbeddingSpace(provider="other", model="other", dimensions=2)
    others = await platform.collection("others", space=space)
    with pytest.raises(InvalidRequestError, match="no embedder for the space other/other"):
        await others.vectors_of(["x"])


@pytest.mark.parametrize("role", TextRole)
async def test_unusable_vectors_of_an_embedder_are_its_error(
    docs: Collection, monkeypatch: pytest.MonkeyPatch, role: TextRole
) -> None:
    """The caller gave no vector, so the call is not at fault."""

    async def short(_: HashingEmbedder, texts: Sequence[str], __: TextRole) -> Vectors:
        return np.ones((len(texts), 3), dtype=np.float32)

    monkeypatch.setattr(HashingEmbedder, "embed", short)
    with pytest.raises(EmbedderRejectedError, match=r"the embedder is at fault: .* has 3 dimensions"):
        await docs.vectors_of(["unusual words"], role=role)


async def test_a_collection_without_an_embedder_has_no_vectors_of_words(platform: Platform) -> None:
    """The message names the missing embedder."""
    own = await platform.collection("given", space=EmbeddingSpace(provider="test", model="given", dimensions=3))
    with pytest.raises(InvalidRequestError, match="collection 'given' has no embedder"):
        await own.vectors_of(["disk"])


async def test_stored_vectors_are_read_by_item(docs: Collection) -> None:
    """At unit length; of the items that have one."""
    vectors = await docs.embeddings(["i03", "i04", "old", "nobody"])
    assert set(vectors) == {"i03", "i04"}
    assert float(np.linalg.norm(vectors["i03"])) == pytest.approx(1, abs=1e-6)
    hit = (await docs.search("disk", legs=["dense"], where={"item_id": "i03"}))[0]
    cosine = float(vectors["i03"] @ (await docs.vectors_of(["disk"]))[0])
    assert hit.explanation.contributions[0].raw_score == pytest.approx(cosine, abs=1e-3)


async def test_values_are_counted_by_tag_and_within_a_filter(docs: Collection) -> None:
    """Each tag of an item counts; archived items do not."""
    tags = await docs.value_counts("tags")
    assert [(tag.value, tag.items, tag.vectors) for tag in tags] == [("all", 30, 30), ("even", 15, 15)]
    levels = await docs.value_counts("level", where={"tags": "even"})
    assert [(count.value, count.items) for count in levels] == [("0", 5), ("1", 5), ("2", 5)]
    assert [(count.value, count.items) for count in await docs.value_counts("kind")] == [("note", 30)]
    assert await docs.value_counts("/level") == await docs.value_counts("attributes.level")
    assert [count.items for count in await docs.value_counts("/level")] == [10, 10, 10]
    with pytest.raises(InvalidRequestError, match="the values of 'occurred_at' are not counted"):
        await docs.value_counts("occurred_at")
    with pytest.raises(UnknownFieldError, match="did you mean 'level'"):
        await docs.value_counts("levle")


async def test_a_count_is_that_of_the_items_which_its_filter_finds(platform: Platform) -> None:
    """However a number was written; a list counts once for each of its elements, and an empty one has none."""
    own = await platform.collection("numbers")
    minutes = [30, 30.0, 2.5, 2.50, 0, -0.0, 1e2, 100, [30, 2.5, 30.0], [0], []]
    await own.add({"id": f"n{n}", "title": "disk", "minutes": value} for n, value in enumerate(minutes))
    counts = {"0": 3, "100": 2, "2.5": 3, "30": 3}
    assert {count.value: count.items for count in await own.value_counts("minutes")} == {**counts, "": 1}
    assert (await own.search("disk", facets=["minutes"])).facets["minutes"] == counts
    assert len([item async for item in own.scan({"minutes": 30})]) == 3


async def test_without_a_model_standings_are_raw_counts(platform: Platform) -> None:
    """Standings are raw counts; expectations those of Beta(successes + 1, failures + 1)."""
    own = await _own(platform, "counts")
    in_shop = Feedback(collection="counts", item_id="i01", helpful=True, context=Context(domain="shop"))
    await platform.feedback_each([in_shop, in_shop, Feedback(collection="counts", item_id="i01", helpful=False)])
    standings = await own.standings(["i01", "i02", "nobody"])
    assert {key: (standing.uses, standing.successes) for key, standing in standings.items()} == {
        "i01": (3, 2),
        "i02": (0, 0),
    }
    assert standings["i02"].last_used_at is None
    assert standings["i02"].created_at <= datetime.now(UTC)
    assert not await is_trained(handle_of(own))
    expected = await own.expectations(["i01", "i02"], context=Context(domain="shop"), query="disk")
    assert expected == {"i01": Expectation.of_counts(3, 2), "i02": Expectation.of_counts(0, 0)}
    assert [await count_verdicts(handle_of(own), domain=domain, at_most=9) for domain in (None, "shop", "other")] == [
        3,
        2,
        0,
    ]
    assert [await count_verdicts(handle_of(own), at_most=most) for most in (1, 3, 10**9)] == [1, 3, 3]
    assert [await count_verdicts(handle_of(own), domain=domain, at_most=1) for domain in ("shop", "other")] == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"relevance": [1]}, "relevance is .1.; it must be numbers from 0 to 1 by item id"),
        ({"relevance": {"i01": 10**5000}}, "the relevance of 'i01' is a number of many digits"),
        ({"vector": [1.0, 2.0]}, "dimensions"),
        ({"query": 5}, "query is 5; it must be a text"),
    ],
)
async def test_invalid_arguments_of_expectations_are_refused(
    docs: Collection, arguments: dict[str, Any], message: str
) -> None:
    """Whether there is a model to ask or not."""
    with pytest.raises(InvalidRequestError, match=message):
        await docs.expectations(["i01"], **arguments)


ANSWER = [
    ShownItem(item_id="i02", score=0.9, signals={"relevance": 0.4, "learned": 0.95}),
    ShownItem(item_id="i01", score=0.7, slot=Slot.EXPLORE, propensity=0.25, rank_propensity=0.125),
]


async def test_a_composed_answer_is_recorded_like_a_search(platform: Platform) -> None:
    """With its situation, its scores and its own time; feedback on it counts in the buckets of its context."""
    own = await _own(platform, "composed")
    situation = Context(domain="shop", complexity=0.9, session="s1", actor="ann", backtracks=2, generated=True)
    answer = await own.record_answer(
        "what to do", ANSWER, context=situation, origin="advice", retrieval_time_ms=12.5, notes=["made by hand"]
    )
    assert answer is not None
    assert answer.version == 7
    await platform.feedback(answer, "i01", helpful=True)
    record = await find_recorded(platform.database, platform.tenant_id, answer)
    assert record is not None
    assert (record.origin, record.query, record.policy, record.hits) == ("advice", "what to do", "advice/1", 2)
    assert (record.domain, record.complexity, record.session, record.actor) == ("shop", 0.9, "s1", "ann")
    assert (record.pool_items, record.pool_signals["scaled"]) == (["i01", "i02"], [0.7, 0.4])
    items_shown = [
        (impression.item_id, impression.rank, impression.slot, impression.propensity, impression.rank_propensity)
        for impression in record.impressions
    ]
    assert items_shown == [("i02", 1, Slot.EXPLOIT, 1.0, 1.0), ("i01", 2, Slot.EXPLORE, 0.25, 0.125)]
    assert [await count_verdicts(handle_of(own), domain=domain, at_most=9) for domain in (None, "shop")] == [1, 1]
    (row,) = await platform.analytics("queries", collection="composed")
    assert (row["retrieval_time_ms"], row["top_score"], row["notes"]) == (12.5, 0.9, ["made by hand"])
    assert row["score_spread"] == pytest.approx(0.2)
    assert (row["generation_triggered"], row["backtrack_count"], row["origin"]) == (True, 2, "advice")
    with pytest.raises(UnknownRetrievalError):
        await platform.feedback(uuid.uuid4(), "i01", helpful=True)


async def test_a_composed_answer_is_neither_replayed_nor_compared(platform: Platform) -> None:
    """A composed answer cannot be computed again, and both calls say so."""
    own = await _own(platform, "unasked")
    answer = await own.record_answer("what to do", ANSWER, origin="advice", retrieval_time_ms=1)
    assert answer is not None
    replay = await platform.replay(answer)
    assert not replay.is_reproduced
    assert "an application composed it (advice)" in replay.why_not[0]
    assert replay.changes == ("an application composed it (advice), so it cannot be asked again",)
    stored = await own.refresh()
    now = NamedProfile(name="now", profile=stored.profile, version=stored.profile_version)
    other = NamedProfile(name="other", profile=Profile(legs={"lexical": 1}))
    since = datetime.now(UTC) - timedelta(days=1)
    compared = await compare_profiles(platform.database, platform.tenant_id, stored, now, other, since=since)
    assert (compared.searches, compared.left_out) == (0, {Unanswerable.COMPOSED.value: 1})


async def test_the_answers_of_a_session_are_listed(platform: Platform) -> None:
    """The newest first: searches and composed answers, or those of one origin, of this session only."""
    own = await _own(platform, "sessions")
    mine, other = Context(session="mine"), Context(session="other")
    first = await own.record_answer("start", ANSWER, origin="start", retrieval_time_ms=1, context=mine)
    search = await own.search("disk text", limit=2, context=mine)
    last = await own.record_answer("more", [], origin="more", retrieval_time_ms=1, context=mine)
    await own.record_answer("start", ANSWER, origin="start", retrieval_time_ms=1, context=other)
    answers = await own.answers_of("mine")
    assert {answer.retrieval_id for answer in answers} == {first, search.retrieval_id, last}
    times = [answer.retrieved_at for answer in answers]
    assert times == sorted(times, reverse=True)
    (started,) = await own.answers_of("mine", origin="start")
    assert (started.retrieval_id, started.origin, started.query) == (first, "start", "start")
    assert [(hit.item_id, hit.rank, hit.score, hit.slot) for hit in started.hits] == [
        ("i02", 1, 0.9, Slot.EXPLOIT), ("i01", 2, 0.7, Slot.EXPLORE),
    ]  # fmt: skip
    (searched,) = await own.answers_of("mine", origin="")
    assert [hit.item_id for hit in searched.hits] == [hit.item_id for hit in search]
    assert len(await own.answers_of("mine", limit=2)) == 2
    with pytest.raises(InvalidRequestError, match="name a session"):
        await own.answers_of("")
    with pytest.raises(InvalidLimitError, match="limit is 0"):
        await own.answers_of("mine", limit=0)


async def test_profiles_and_trials_say_whether_an_answer_is_recorded(platform: Platform, docs: Collection) -> None:
    """As for searches: a rate of 0 and ``unrecorded`` record nothing, and with ``wait`` the record is stored."""
    assert await docs.unrecorded().record_answer("q", ANSWER, origin="advice", retrieval_time_ms=1) is None
    silent = await platform.collection("silent", profile=Profile(recording=Recording(rate=0)))
    assert await silent.record_answer("q", ANSWER, origin="advice", retrieval_time_ms=1) is None
    careful = await platform.collection("careful", profile=Profile(recording=Recording(wait=True)))
    answer_id = await careful.record_answer("q", [], origin="advice", retrieval_time_ms=1)
    assert answer_id is not None
    assert await find_recorded(platform.database, platform.tenant_id, answer_id) is not None


GOOD = {f"i{number:02}" for number in range(0, NUMBER, 3)}


async def _advise(platform: Platform, own: Collection, answers: int) -> None:
    """Composed answers of two items each, with verdicts on them."""
    for number in range(answers):
        items_shown = [ShownItem(item_id=IDS[(2 * number + place) % NUMBER], score=0.5) for place in range(2)]
        situation = Context(domain="shop")
        answer = await own.record_answer(
            f"disk word{number}", items_shown, origin="advice", retrieval_time_ms=1, context=situation
        )
        events = [
            Feedback(retrieval_id=answer, item_id=hit.item_id, helpful=hit.item_id in GOOD) for hit in items_shown
        ]
        await platform.feedback_each(events)


async def test_few_new_verdicts_are_enough_to_look_where_few_are_trusted(platform: Platform) -> None:
    """Not one fewer than the profile trusts."""
    own = await _own(platform, "looking", Profile(learned=Learned(trusted_from=20)))
    await _advise(platform, own, 9)
    target = JobTarget(platform.tenant_id, await own.refresh())
    assert not await is_there_to_learn(platform.workplace, target)
    await _advise(platform, own, 1)
    assert await is_there_to_learn(platform.workplace, target)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def trained(platform: Platform) -> tuple[Collection, dict[str, Any]]:
    """A collection whose profile trusts what forty verdicts teach, and what its learning gave."""
    own = await _own(platform, "trusting", Profile(learned=Learned(trusted_from=20)))
    await _advise(platform, own, 20)
    return own, await own.learn()


SITUATION = Context(domain="shop")


async def test_a_trusted_model_is_used_without_winning(
    platform: Platform, trained: tuple[Collection, dict[str, Any]]
) -> None:
    """It is used from that many verdicts on; its trial still runs, and a profile without trust uses relevance."""
    own, details = trained
    assert (details["published"], details["verdicts"], details["passed"], details["clusters"]) == (True, 40, [], 4)
    assert details["reason"].startswith("trusted from 20 verdicts on, as the profile says; its trial: ")
    assert await is_trained(handle_of(own))
    model = (await own.models())[0]
    assert (model.is_published, model.metrics["sum"]["passed"]) == (True, False)
    by_model = await own.search("disk text", limit=NUMBER, context=SITUATION)
    assert "learned" in {part.leg for part in by_model[0].explanation.contributions}
    alone = await own.search("disk text", profile=Profile(), limit=5)
    assert {part.leg for hit in alone for part in hit.explanation.contributions} == {"dense", "lexical"}
    replayed = await platform.replay(by_model.retrieval_id or "")
    assert replayed.is_reproduced, replayed.why_not


async def test_expectations_are_those_that_searches_count_with(trained: tuple[Collection, dict[str, Any]]) -> None:
    """The mean of the learned reward in this context and cluster, for words or their vector."""
    own, _ = trained
    parts = {
        hit.item_id: hit.explanation.contributions
        for hit in await own.search("disk text", limit=NUMBER, context=SITUATION)
    }
    rewards = {key: part.raw_score for key, each in parts.items() for part in each if part.leg == "learned"}
    expected = await own.expectations(IDS, context=SITUATION, query="disk text")
    assert {key: expected[key].mean for key in rewards} == pytest.approx(rewards)
    assert expected["i00"].mean > expected["i01"].mean
    assert expected["i00"].uses == 2
    assert 0 < expected["i00"].sd < 0.5
    vector = (await own.vectors_of(["disk text"]))[0]
    by_vector = await own.expectations(IDS, context=SITUATION, vector=vector)
    assert {key: reward.mean for key, reward in by_vector.items()} == pytest.approx(
        {key: reward.mean for key, reward in expected.items()}
    )


async def test_a_composed_answer_is_recorded_with_cluster_and_model(
    platform: Platform, trained: tuple[Collection, dict[str, Any]]
) -> None:
    """They are those of the same search, so that feedback counts in the same buckets."""
    own, _ = trained
    search = await own.search("disk text", context=SITUATION)
    answer = await own.record_answer("disk text", [], origin="advice", retrieval_time_ms=1, context=SITUATION)
    await platform.recorded()
    assert search.retrieval_id is not None
    assert answer is not None
    other = await find_recorded(platform.database, platform.tenant_id, search.retrieval_id)
    recorded = await find_recorded(platform.database, platform.tenant_id, answer)
    assert other is not None
    assert recorded is not None
    assert recorded.cluster is not None
    assert (recorded.cluster, recorded.model_version) == (other.cluster, other.model_version) == (other.cluster, 1)


async def test_a_model_is_trusted_no_longer_than_its_verdicts_are_there(platform: Platform) -> None:
    """Once they are quarantined or withdrawn, learning takes it out of use; one that somebody chose stays."""
    own = await _own(platform, "spammed", Profile(learned=Learned(trusted_from=20)))
    spam = [Feedback(collection="spammed", item_id=IDS[number], helpful=True, actor="spam") for number in range(21)]
    await platform.feedback_each(spam)
    assert (await own.learn())["published"]
    assert not await is_there_to_learn(platform.workplace, JobTarget(platform.tenant_id, await own.refresh()))
    await platform.quarantine("spam")
    assert await is_there_to_learn(platform.workplace, JobTarget(platform.tenant_id, await own.refresh()))
    await own.use_model(1)
    assert "withdrawn" not in await own.learn()
    assert await is_trained(handle_of(own))
    assert not await is_there_to_learn(platform.workplace, JobTarget(platform.tenant_id, await own.refresh()))
    await own.use_model(None)
    assert not await is_trained(handle_of(own)), "the newest model did not pass"
    await platform.release("spam")
    assert (await own.learn())["published"]
    await platform.feedback(collection="spammed", item_id=IDS[0], weight=0, reward=0, actor="spam")
    await platform.feedback(collection="spammed", item_id=IDS[1], weight=0, reward=0, actor="spam")
    assert await is_there_to_learn(platform.workplace, JobTarget(platform.tenant_id, await own.refresh()))
    assert (await own.learn())["withdrawn"] == 3
    assert not await is_trained(handle_of(own))
    assert not await is_there_to_learn(platform.workplace, JobTarget(platform.tenant_id, await own.refresh()))


async def test_a_model_of_a_later_time_hides_no_verdicts(platform: Platform) -> None:
    """It was fitted while the clock was ahead: verdicts are counted again, not in a year."""
    own = await _own(platform, "early", Profile(learned=Learned(trusted_from=20)))
    await platform.feedback_each(
        [Feedback(collection="early", item_id=IDS[number], helpful=True, actor=f"a{number}") for number in range(21)]
    )
    await own.learn()
    target = JobTarget(platform.tenant_id, await own.refresh())
    assert not await is_there_to_learn(platform.workplace, target)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            "UPDATE learned_models SET statistics_at = '2100-01-01' WHERE collection_id = %s",
            (target.collection.collection_id,),
        )
    assert await is_there_to_learn(platform.workplace, target)


@pytest.mark.parametrize("few", [2, 1_000], ids=["many match", "few match"])
async def test_a_page_has_the_items_that_match(platform: Platform, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, however many items have the filter's facets, and whatever else the filter demands."""
    monkeypatch.setattr(listing, "_FEW_LISTED", few)
    monkeypatch.setattr(listing, "_STATEMENTS", StatementCache())
    docs = await platform.collection("docs")
    level = [id_ for number, id_ in enumerate(IDS) if number % 3 == 1]
    even = [id_ for id_ in level if int(id_[1:]) % 2 == 0]
    assert [stored.item.item_id for stored in await docs.page({"level": 1}, limit=4)] == level[:4]
    assert [stored.item.item_id for stored in await docs.page({"level": 1}, after=level[3])] == level[4:]
    assert [item.item_id async for item in docs.scan({"level": 1, "tags": "even"}, batch=2)] == even
    assert [item.item_id async for item in docs.scan({"level": 1, "item_id": {"lt": "i10"}}, batch=2)] == level[:3]
    assert await docs.page({"level": 7}) == []
    assert [stored.item.item_id for stored in await docs.page({"status": "archived"})] == ["old"]


async def test_items_without_a_text_are_reported(platform: Platform) -> None:
    """They are stored, for they may be meant; where none has a text, the note says where it may be."""
    notes = await platform.collection("notes")
    report = await notes.add([{"id": "1", "descr": "a disk", "level": "low"}, {"id": "2", "level": "up"}])
    assert (report.added, report.notes) == (2, ("2 of 2 items have no text; if 'descr' holds it, call that 'text'",))
    assert (await notes.add([{"id": "3", "descr": "a disk"}, {"id": "2", "title": "A printer"}])).notes == (
        "1 of 2 items has no text; an item's 'title' and 'text' are searched",
    )
    assert not (await notes.add([{"id": "4"}], embeddings=await notes.vectors_of(["disk"]))).notes
