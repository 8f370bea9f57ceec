"""The design of the memories' retrieval, section by section, as tests."""

# ruff: noqa: SLF001 - the design states the names of the private methods too
from __future__ import annotations

import inspect
import math
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from retrieval import Platform, Settings
from retrieval.apps.memories import SEED_PROFILE, STRATEGIES, MemoryStore, RetrievalEngine
from retrieval.domain.checks import STORED_NOTE
from retrieval.domain.errors import InvalidRequestError
from retrieval.sync import MemoryStore as WaitingStore
from retrieval.sync import RetrievalEngine as WaitingEngine
from retrieval.sync import connect as connect_and_wait

NOW = datetime(2025, 11, 22, 10, tzinfo=UTC)
METHODS = """
    retrieve_relevant_memories retrieve_context_for_task retrieve_timeline
    _extract_text _tokenize _format_content
    _compute_hybrid_score _compute_recency_score _compute_popularity_score _compute_keyword_score _compute_entity_score
    _get_candidate_memories _get_related_types
""".split()  # noqa: SIM905 - grouped as the design groups them


@pytest.fixture
async def stopped(database_url: str, settings: Settings) -> AsyncIterator[Platform]:
    """A platform without vectors, for whom it is always the same moment."""
    changed = settings.changed(database_url=SecretStr(database_url))
    async with Platform(changed, wall_clock=NOW.timestamp) as opened:
        yield opened


@pytest.fixture
def engine(stopped: Platform) -> RetrievalEngine:
    """The engine, as its callers make it."""
    return RetrievalEngine(stopped)


def defaults(method: str) -> dict[str, object]:
    """The parameters of a method that have a default, with it."""
    parameters = inspect.signature(getattr(RetrievalEngine, method)).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }


def test_structure_all_thirteen_methods_exist() -> None:
    """By their names, with and without ``await``."""
    assert len(METHODS) == 13
    assert all(callable(getattr(engine, name)) for name in METHODS for engine in (RetrievalEngine, WaitingEngine))


def test_key_methods_have_the_stated_parameters_and_defaults() -> None:
    """Ten relevant memories of at least .3, five of a context, twenty of the last day."""
    relevant = inspect.signature(RetrievalEngine.retrieve_relevant_memories).parameters
    assert list(relevant)[1:7] == ["project_id", "query", "interaction_types", "entity_ids", "limit", "min_score"]
    stated = {"query": None, "interaction_types": None, "entity_ids": None, "limit": 10, "min_score": 0.3}
    assert defaults("retrieve_relevant_memories").items() >= stated.items()
    context = inspect.signature(RetrievalEngine.retrieve_context_for_task).parameters
    assert list(context)[1:5] == ["project_id", "task_type", "current_entities", "limit"]
    assert defaults("retrieve_context_for_task").items() >= {"current_entities": None, "limit": 5}.items()
    assert defaults("retrieve_timeline") == {"hours": 24, "limit": 20}


def test_retrieval_strategies_are_five() -> None:
    """Keyword, entity, recency, popularity, hybrid."""
    assert list(STRATEGIES) == ["keyword", "entity", "recency", "popularity", "hybrid"]


def test_hybrid_scoring_weights_sum_to_one() -> None:
    """.30, .25, .20, .15, .10."""
    weights = {name: weight for name, weight in SEED_PROFILE.weights.items() if weight}
    assert weights == {
        "base_relevance": 0.30, "recency": 0.25, "keyword": 0.20, "popularity": 0.15, "entity": 0.10,
    }  # fmt: skip
    assert math.isclose(sum(weights.values()), 1)


def test_keyword_based_retrieval(engine: RetrievalEngine) -> None:
    """Two of three words, without stop words, whatever their case."""
    assert engine._tokenize("The protein folding of a cell") == {"protein", "folding", "cell"}
    score = engine._compute_keyword_score("protein folding mechanisms", "Study of Protein folding in cells")
    assert round(score, 2) == 0.67


def test_entity_based_retrieval(engine: RetrievalEngine) -> None:
    """Two of three entities."""
    entities, of_memory = {"questions": ["q1", "q2"], "hypotheses": ["h1"]}, {"questions": ["q1"], "hypotheses": ["h1"]}
    assert round(engine._compute_entity_score(entities, of_memory), 2) == 0.67


@pytest.mark.parametrize(("days", "stated"), [(0, 1.0), (7, 0.7), (30, 0.3), (90, 0.1)])
def test_recency_follows_the_formula_and_not_the_examples(engine: RetrievalEngine, days: int, stated: float) -> None:
    """e^(-days / 14): only the first of the design's examples matches the formula."""
    score = engine._compute_recency_score(NOW - timedelta(days=days))
    assert score == pytest.approx(math.exp(-days / 14))
    assert (abs(score - stated) < 0.05) == (days == 0)


def test_recency_needs_times_with_a_zone(engine: RetrievalEngine) -> None:
    """Otherwise the age would depend on the machine."""
    with pytest.raises(InvalidRequestError, match="happened_at is 2025-11-22"):
        engine._compute_recency_score(NOW.replace(tzinfo=None))
    with pytest.raises(InvalidRequestError, match="now is 2025-11-22"):
        engine._compute_recency_score(NOW, NOW.replace(tzinfo=None))


@pytest.mark.parametrize(("accesses", "stated"), [(0, 0.3), (1, 0.5), (10, 0.8), (100, 1.0), (1000, 1.0)])
def test_popularity_follows_the_formula_and_not_the_examples(
    engine: RetrievalEngine, accesses: int, stated: float
) -> None:
    """log10(count + 1) / log10(101), at most 1: only the last of the design's examples matches the formula."""
    score = engine._compute_popularity_score(accesses)
    assert score == pytest.approx(min(1, math.log10(accesses + 1) / math.log10(101)))
    assert (abs(score - stated) < 0.05) == (accesses >= 100)


async def test_base_relevance_is_one_by_default_and_adjustable(stopped: Platform, engine: RetrievalEngine) -> None:
    """It counts .30 of the .70 that take part in a call without words and entities."""
    store = MemoryStore(stopped)
    stored = await store.store_memory("proj-123", "insights", "protein folding")
    (before,) = await engine.retrieve_relevant_memories("proj-123")
    await store.set_relevance(stored.memory_id, 0.5)
    (after,) = await engine.retrieve_relevant_memories("proj-123")
    assert (before.relevance_score, after.relevance_score) == (1.0, 0.5)
    await stopped.accesses_counted()
    assert before.computed_relevance_score - after.computed_relevance_score == pytest.approx(0.15 / 0.7, abs=0.04)


async def test_relevant_memories_as_the_design_asks_for_them(stopped: Platform, engine: RetrievalEngine) -> None:
    """Project, types and entities filter; each memory has its score, at least ``min_score``, as the formula has it."""
    store = MemoryStore(stopped)
    linked: dict[str, Any] = {"linked_question_ids": ["q1"], "linked_hypothesis_ids": ["h1"]}
    await store.store_memory("proj-123", "insights", "Study of protein folding in cells", memory_id="both", **linked)
    await store.store_memory("proj-123", "summary", "protein", memory_id="one", linked_question_ids=["q1"])
    await store.store_memory("proj-123", "triage", "protein folding", memory_id="other type", **linked)
    await store.store_memory("proj-123", "insights", "protein folding", memory_id="not linked")
    await store.store_memory("proj-9", "insights", "protein folding", memory_id="other project", **linked)

    entity_ids = {"questions": ["q1"], "hypotheses": ["h1"]}
    memories = await engine.retrieve_relevant_memories(
        project_id="proj-123",
        query="protein folding",
        interaction_types=["insights", "summary"],
        entity_ids=entity_ids,
        limit=5,
        min_score=0.5,
    )

    assert [memory.memory_id for memory in memories] == ["both", "one"]
    for memory in memories:
        assert memory.computed_relevance_score >= 0.5
        assert memory.computed_relevance_score == pytest.approx(
            engine._compute_hybrid_score(memory, "protein folding", entity_ids)
        )
    assert engine._extract_text(memories[0]) == "Study of protein folding in cells"


async def test_context_for_a_task_has_the_stated_format(stopped: Platform, engine: RetrievalEngine) -> None:
    """A title with the number, and of each memory its type, time, relevance, summary and content."""
    content = {"key_findings": ["a", "b"], "recommendations": ["c"]}
    store = MemoryStore(stopped)
    await store.store_memory(
        "proj-123", "insights", content, summary="Generated insights for hypothesis testing", occurred_at=NOW,
        linked_question_ids=["q1"],
    )  # fmt: skip
    await store.store_memory("proj-123", "summary", "What was found so far. " * 100, occurred_at=NOW)

    context = await engine.retrieve_context_for_task(
        project_id="proj-123",
        task_type="insights",
        current_entities={"questions": ["q1"], "hypotheses": ["h1"]},
        limit=5,
    )

    title, note, first, second = context.split("\n\n")
    assert title == "## Previous Context (2 relevant memories)"
    assert first == (
        "### Memory 1 (insights)\n**Created**: 2025-11-22T10:00:00\n**Relevance**: 0.75\n"
        "> **Summary**: Generated insights for hypothesis testing\n"
        "> **Content**: Key findings: [a, b], Recommendations: [c]\n"
        "**Record**: added by nobody named · not rated yet · retrieved 0 times before"
    )
    assert note == STORED_NOTE
    assert re.match(r"### Memory 2 \(summary\)\n", second)
    assert second.splitlines()[-2].endswith("...")
    assert engine._format_content(content) == "Key findings: [a, b], Recommendations: [c]"


async def test_a_timeline_is_sorted_by_time(stopped: Platform, engine: RetrievalEngine) -> None:
    """It has the memories of the last hours, up to the limit."""
    store = MemoryStore(stopped)
    for hours in (30, 2, 50):
        await store.store_memory(
            "proj-123", "chat", "x", memory_id=f"{hours}", occurred_at=NOW - timedelta(hours=hours)
        )

    timeline = await engine.retrieve_timeline(project_id="proj-123", hours=48, limit=10)

    assert [memory.memory_id for memory in timeline] == ["2", "30"]


def test_related_types_of_the_five_services(engine: RetrievalEngine) -> None:
    """Each reads its own kind first: past summaries for continuity, past plans for learning."""
    for task in ("insights", "summary", "triage", "protocol", "plan"):
        assert task in engine._get_related_types(task)
        assert len(engine._get_related_types(task)) > 1


def test_the_integration_pattern_runs_without_await(database_url: str, settings: Settings) -> None:
    """As the services call it: context, a prompt, an answer, a memory; with ids that may be missing."""
    project: dict[str, list[str]] = {"question_ids": ["q1"]}
    with connect_and_wait(database_url, settings=settings) as db:
        for number in (0, 1):
            context = WaitingEngine(db).retrieve_context_for_task(
                project_id="proj-123",
                task_type="insights",
                current_entities={
                    "questions": project.get("question_ids", []),
                    "hypotheses": project.get("hypothesis_ids", []),
                },
                limit=5,
            )
            assert f"({number} relevant memories)" in context
            WaitingStore(db).store_memory(
                project_id="proj-123",
                interaction_type="insights",
                content={"insights": ["folding needs heat"]},
                user_id="ann",
                linked_question_ids=project.get("question_ids", []),
                linked_hypothesis_ids=project.get("hypothesis_ids", []),
            )
