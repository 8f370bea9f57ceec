"""A time in a question, by default: first what happened then, next what may have been told of it, then the rest."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import pytest_asyncio

from retrieval import Collection, Platform
from retrieval.adapters.llms.sim import SimLLM
from retrieval.apps.recall import DualRetriever, Entity, Memory

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)
"""A Wednesday."""

RELATIVE = {
    "What did Ann paint yesterday?": ("2026-11-17T10:00", "2026-11-18T09:00"),
    "What did Ann paint last night?": ("2026-11-17T21:00", "2026-11-18T09:00"),
    "What did Ann paint the day before yesterday?": ("2026-11-16T10:00", "2026-11-17T09:00"),
    "What did Ann paint two days ago?": ("2026-11-16T10:00", "2026-11-18T09:00"),
    "What did Ann paint last Friday?": ("2026-11-13T10:00", "2026-11-16T09:00"),
    "What did Ann paint last weekend?": ("2026-11-14T10:00", "2026-11-17T09:00"),
    "what Ann painted last week": ("2026-11-11T10:00", "2026-11-17T09:00"),
    "What Did Ann Paint Three Weeks Ago": ("2026-10-28T10:00", "2026-11-12T09:00"),
    "What did Ann paint last month?": ("2026-10-14T10:00", "2026-11-10T09:00"),
    "What did Ann paint last year?": ("2025-06-01T10:00", "2026-03-01T09:00"),
}
"""Ten wordings: when the right memory is of, and when its rival is."""

DATED = {
    "What did Ann paint on 5 May 2023?": ("2023-05-05T10:00", "2023-05-06T09:00"),
    "What did Ann paint on 5/8/2023?": ("2023-05-08T10:00", "2023-05-09T09:00"),
    "What did Ann paint in 2023-05?": ("2023-05-20T10:00", "2023-06-01T09:00"),
    "What did Ann paint in Q3 2025?": ("2025-08-20T10:00", "2025-10-01T09:00"),
}
"""The same, where the rival is of the day after."""

CASES = {**RELATIVE, **DATED}


def memory_of(case: int, key: str, text: str, moment: str) -> Entity:
    """One of a case's."""
    return Entity(
        "Ann", text, id=f"{case:02} {key}", event_time=datetime.fromisoformat(f"{moment}+00:00"), attributes={"n": case}
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def painted(house: Platform) -> Collection:
    """For each question a right memory, five others, and a rival with the same words, first where no time is read."""
    collection = await house.collection("recall times", filterable={"n": "number"})
    memory = Memory(collection, None)
    for case, (right, rival) in enumerate(CASES.values()):
        await memory.store(memory_of(case, "right", "Ann painted a boat.", right))
        await memory.store(memory_of(case, "a rival", "Ann painted a boat.", rival))
        for number, text in enumerate(("Ben met Ann.", "Ann cooked.", "It rained.", "Cleo called.", "Ann slept.")):
            await memory.store(memory_of(case, f"{number}", text, f"2022-0{number + 1}-03T10:00"))
    return collection


async def firsts(retriever: DualRetriever, questions: dict[str, tuple[str, str]]) -> list[str]:
    """The first hit of each question among the memories of its case."""
    first_ids = []
    for question in questions:
        answer = await retriever.search(question, where={"n": list(CASES).index(question)}, limit=3)
        first_ids.append(answer[0].id.partition(" ")[2])
    return first_ids


@pytest.mark.parametrize("llm", [None, SimLLM(42)], ids=["no model", "rewrites"])
async def test_ten_relative_wordings_find_the_right_memory_before_a_later_rival(
    painted: Collection, llm: SimLLM | None
) -> None:
    """10 of 10, by the default mode; without reading the times, none."""
    retriever = DualRetriever(painted, llm, clock=lambda: NOW, rewrite_timeout_seconds=60)
    assert len(RELATIVE) == 10
    assert await firsts(retriever, RELATIVE) == ["right"] * 10
    ignoring = DualRetriever(painted, None, clock=lambda: NOW, time_expressions="off")
    assert "right" not in await firsts(ignoring, RELATIVE)


async def test_dates_in_words_and_in_numbers_do(painted: Collection) -> None:
    """A day, a month and a quarter, each with a rival of the day after."""
    retriever = DualRetriever(painted, None, clock=lambda: NOW)
    assert await firsts(retriever, DATED) == ["right"] * len(DATED)


async def test_later_memories_rank_before_the_rest(house: Platform) -> None:
    """The phrase "last week" ranks that week's memories first, then those told since, then all others."""
    memory = Memory(await house.collection("recall told"), None, clock=lambda: NOW)
    for key, moment in [("a older", "2026-11-01"), ("b later", "2026-11-18"), ("c then", "2026-11-11")]:
        await memory.store(memory_of(0, key, "Ann painted a boat.", f"{moment}T10:00"))
    entities = await memory.recall("What did Ann paint last week?")
    assert [entity.id for entity in entities] == ["00 c then", "00 b later", "00 a older"]
    legs = {entity.id: {part.leg for part in entity.explanation.contributions} for entity in entities}
    assert "lexical:preferred" in legs["00 c then"]
    assert "lexical:preferred:2" in legs["00 b later"]
    weights = {part.leg: part.weight for entity in entities for part in entity.explanation.contributions}
    assert weights["lexical:preferred:2"] == weights["lexical:preferred"] / 2
    assert entities.retrieval_id is not None
    replayed = await house.replay(entities.retrieval_id)
    assert replayed.is_reproduced
    assert replayed.is_same_today


async def test_a_rival_that_fits_the_words_better_does_not_come_first(house: Platform) -> None:
    """Forty later memories that hold more of the question's words."""
    memory = Memory(await house.collection("recall rivals"), None, clock=lambda: NOW)
    await memory.store(memory_of(0, "right", "Ann painted something.", "2026-11-11T10:00"))
    for number in range(40):
        await memory.store(memory_of(0, f"rival {number}", "What did Ann paint last week? A boat.", "2026-11-17T10:00"))
    entities = await memory.recall("What did Ann paint last week?", limit=3)
    assert entities[0].id == "00 right"
