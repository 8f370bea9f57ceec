"""Recall: rewrites, their cache, time, and determinism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from retrieval import Collection, Platform
from retrieval.adapters.llms.sim import SimFaults, SimLLM
from retrieval.adapters.store.database import Database
from retrieval.apps.recall import DualRetriever, Recalled
from retrieval.domain.errors import InvalidRequestError
from tests.support.openai_server import OpenAIServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)
MINE = {"user": "me"}

Make = Callable[..., DualRetriever]


def ids(entities: Recalled) -> list[str]:
    """The keys, in order."""
    return [entity.id for entity in entities]


async def test_rewrites_find_what_the_question_does_not_say(make: Make) -> None:
    """Coworkers are colleagues: the rewrite's own ranking brings them, as the explanation shows."""
    entities = await make().search("who are my colleagues", where=MINE)
    assert entities.degraded is None
    assert any("coworkers" in query for query in entities.queries)
    ben = next(entity for entity in entities if entity.id == "ben")
    legs = {part.leg for part in ben.explanation.contributions}
    assert "lexical" not in legs
    assert any(leg.startswith("lexical:") for leg in legs)
    assert ben.score == pytest.approx(ben.explanation.score)


async def test_a_plain_question_asks_no_model(make: Make, server: OpenAIServer) -> None:
    """This also applies if deep search is switched off."""
    assert ids(await make().search("Acme", where=MINE))[0] == "ann"
    assert (await make().search("who works at Acme", where=MINE, deep_search=False)).queries == ()
    assert server.received == []


async def test_the_model_is_called_once_per_question(make: Make, server: OpenAIServer, memories: Collection) -> None:
    """The database keeps rewrites by model and seed for every process of the tenant."""
    first = await make().search("who plays chess", where=MINE)
    assert await make().search("who  plays chess ", where=MINE) == first
    assert len(server.received) == 1
    await make(seed=7).search("who plays chess", where=MINE)
    assert len(server.received) == 2
    entities = await DualRetriever(memories, SimLLM(1)).search("who plays chess", where=MINE)
    assert entities.queries
    assert len(server.received) == 2


async def test_rewrites_are_searched_in_the_same_round_trip(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement a wording, all in one, and the hits of all in another."""
    retriever = make()
    queries = await retriever.rewrite_query("who works at Acme")
    round_trips: list[int] = []
    read_each = Database.read_each

    async def noted(self: Database, tenant_id: int | None, each: Sequence[Any], *more: Any) -> Any:
        round_trips.append(len(each))
        return await read_each(self, tenant_id, each, *more)

    monkeypatch.setattr(Database, "read_each", noted)
    await retriever.search("who works at Acme", where=MINE)
    assert 1 + len(queries) in round_trips
    assert round_trips.count(1 + len(queries)) == 1


async def test_the_same_seed_gives_the_same_answers(memories: Collection) -> None:
    """Rewrites and results, scores among them, in two retrievers and after a reset."""
    first, other = (
        DualRetriever(memories, SimLLM(42), seed=42, clock=lambda: NOW, rewrite_timeout_seconds=60) for _ in range(2)
    )
    questions = ["who works at Acme?", "what happened last week", "similar to chess"]
    answers = [await first.search(question) for question in questions]
    assert answers == [await other.search(question) for question in questions]
    first.reset()
    assert answers == [await first.search(question) for question in questions]


async def test_reset_restores_the_models_state(memories: Collection) -> None:
    """The faults of a simulated model come at the same questions again, though answers were kept."""
    llm = SimLLM(3, faults=SimFaults(fail_rate=0.5))
    retriever = DualRetriever(memories, llm, seed=3, rewrite_timeout_seconds=60)

    async def failures() -> list[bool]:
        return [(await retriever.search(f"who knows Ann {n}")).degraded is not None for n in range(8)]

    first = await failures()
    assert set(first) == {True, False}
    retriever.reset()
    assert await failures() == first


async def test_another_seed_of_the_retriever_varies_the_rewrites(memories: Collection) -> None:
    """The rewrites of the same simulated model differ."""
    question = "who are my colleagues at the company meeting"
    varied = [await DualRetriever(memories, SimLLM(9), seed=seed).rewrite_query(question) for seed in range(6)]
    assert len({tuple(rewrites) for rewrites in varied}) > 1


async def test_a_model_without_a_state_is_reset_too(make: Make) -> None:
    """There is nothing to restore: the same question has the same answer after it."""
    retriever = make()
    before = ids(await retriever.search("launch", where=MINE))
    retriever.reset()
    assert before
    assert ids(await retriever.search("launch", where=MINE)) == before


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (datetime(2026, 11, 10, 9, tzinfo=UTC), datetime(2026, 11, 11, 9, tzinfo=UTC), {"launch"}),
        (datetime(2026, 11, 10, 9, 0, 1, tzinfo=UTC), datetime(2026, 11, 11, 9, 0, 1, tzinfo=UTC), {"lunch"}),
        (
            datetime(2026, 11, 10, 10, tzinfo=ZoneInfo("Europe/Berlin")),
            datetime(2026, 11, 10, 10, 1, tzinfo=ZoneInfo("Europe/Berlin")),
            {"launch"},
        ),
    ],
)
async def test_a_time_range_is_half_open_and_knows_zones(
    make: Make, start: datetime, end: datetime, expected: set[str]
) -> None:
    """The range includes its start and excludes its end, in any time zone."""
    entities = await make().search("launch", where=MINE, time_range=(start, end))
    assert set(ids(entities)) == expected
    assert entities.time_range == (start, end)


async def test_a_time_range_holds_for_rewrites_and_goes_before_the_words(make: Make) -> None:
    """The time in the question is then ignored."""
    day = (datetime(2026, 11, 5, tzinfo=UTC), datetime(2026, 11, 6, tzinfo=UTC))
    entities = await make().search("who met last week", where=MINE, time_range=day)
    assert entities.queries
    assert ids(entities) == ["ann"]
    assert entities.time is None


@pytest.mark.parametrize(
    "time_range",
    [
        (datetime(2026, 11, 5), datetime(2026, 11, 6)),  # noqa: DTZ001 - that is what is refused
        (datetime(2026, 11, 6, tzinfo=UTC), datetime(2026, 11, 5, tzinfo=UTC)),
        (datetime(2026, 11, 6, tzinfo=UTC), datetime(2026, 11, 6, tzinfo=UTC)),
        (datetime(2026, 11, 6, tzinfo=UTC),),
        ("2026-11-05", "2026-11-06"),
        "last week",
    ],
)
async def test_a_time_range_that_cannot_be_is_refused(make: Make, time_range: Any) -> None:
    """Without a zone, empty, the wrong way round, or no two times."""
    with pytest.raises(InvalidRequestError, match=r"time|starts"):
        await make().search("launch", time_range=time_range)


async def test_a_time_in_the_question_is_preferred(make: Make) -> None:
    """Memories of that time and the day after rank higher; no memory is left out."""
    plain = await make(time_expressions="off").search("the launch on 17 November", where=MINE, deep_search=False)
    entities = await make().search("the launch on 17 November", where=MINE, deep_search=False)
    assert ids(plain)[0] == "launch"
    assert plain.time is None
    assert ids(entities)[0] == "retro"
    assert set(ids(entities)) == set(ids(plain))
    assert entities.time is not None
    assert entities.time.text == "17 November"
    assert entities.time_range == (datetime(2026, 11, 17, tzinfo=UTC), datetime(2026, 11, 19, tzinfo=UTC))


async def test_a_period_counted_back_from_now_is_preferred_until_now(make: Make) -> None:
    """Memories of last week come first, and those told since follow."""
    entities = await make().search("team last week", where=MINE, deep_search=False)
    assert entities.time_range == (datetime(2026, 11, 9, tzinfo=UTC), NOW + timedelta(days=1))


async def test_vague_words_are_noted_and_do_not_rank(make: Make) -> None:
    """The application decides the meaning of "recently"."""
    entities = await make().search("team recently", where=MINE, deep_search=False)
    assert entities.time is not None
    assert entities.time.is_soft
    assert entities.time_range is None


async def test_a_time_in_the_question_can_bind(make: Make) -> None:
    """A binding time excludes all other memories; a vague word binds nothing."""
    retriever = make(time_expressions="filter")
    assert set(ids(await retriever.search("the launch last week", where=MINE))) == {"cleo", "launch", "lunch", "trap"}
    assert len(await retriever.search("the launch recently", where=MINE)) == 7


async def test_a_search_can_be_as_of_another_time(make: Make) -> None:
    """In that moment's zone; one without a zone is refused."""
    entities = await make().search(
        "yesterday", where=MINE, as_of=datetime(2026, 11, 11, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
    )
    assert entities.time is not None
    assert entities.time.start == datetime(2026, 11, 10, tzinfo=ZoneInfo("Asia/Tokyo"))
    with pytest.raises(InvalidRequestError, match="time zone"):
        await make().search("yesterday", as_of=datetime(2026, 11, 11))  # noqa: DTZ001 - that is what is refused


async def test_a_question_is_plain_text(make: Make) -> None:
    """Quotes and a minus in it mean nothing."""
    assert ids(await make().search('"Acme designer" -Ann', where=MINE))[0] == "ann"


async def test_an_answer_can_be_replayed(house: Platform, make: Make) -> None:
    """It is one recorded search, with its rewrites and its preference."""
    entities = await make().search("who moved the launch in November 2026", where=MINE)
    assert entities.queries
    assert entities.retrieval_id is not None
    replayed = await house.replay(entities.retrieval_id)
    assert replayed.is_reproduced
    assert replayed.is_same_today


@pytest.mark.parametrize(
    "options",
    [
        {"seed": "42"},
        {"seed": True},
        {"rewrite_timeout_seconds": 0},
        {"rewrite_timeout_seconds": float("nan")},
        {"time_expressions": "sometimes"},
    ],
)
async def test_options_that_cannot_be_are_refused(memories: Collection, options: dict[str, Any]) -> None:
    """The constructor of the retriever names the refused option."""
    with pytest.raises(InvalidRequestError, match=next(iter(options))):
        DualRetriever(memories, None, **options)
