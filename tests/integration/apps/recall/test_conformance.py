"""The design of dual retrieval, section by section."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from retrieval import Collection
from retrieval.adapters.llms.sim import SimFaults, SimLLM
from retrieval.apps.recall import RECALL_PROFILE, SEARCH_LIMIT_MAX, DualRetriever, Entity, Memory
from retrieval.domain.errors import EmptyQueryError, InvalidLimitError, InvalidRequestError, RetrievalError
from retrieval.domain.search.hit import Path, SearchResult
from retrieval.domain.search.profile import FusionKind

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)
MINE = {"user": "me"}


@pytest.fixture
def retriever(memories: Collection) -> DualRetriever:
    """A retriever with a simulated model."""
    return DualRetriever(memories, SimLLM(42), seed=43, clock=lambda: NOW, rewrite_timeout_seconds=60)


class TestContext:
    """Answers that simple matching cannot find."""

    async def test_vocabulary_mismatch(self, retriever: DualRetriever) -> None:
        """A question for colleagues finds coworkers by its words."""
        entities = await retriever.search("who are my colleagues", where=MINE)
        ben = next(entity for entity in entities if entity.id == "ben")
        assert any(part.leg.startswith("lexical:") for part in ben.explanation.contributions)

    async def test_implicit_relationships(self, retriever: DualRetriever) -> None:
        """The question for acquaintances at Acme finds the people who work there."""
        assert (await retriever.search("Who do I know at Acme?", where=MINE))[0].id == "ann"

    async def test_temporal_queries(self, retriever: DualRetriever) -> None:
        """Events of last week are found in messages since its beginning."""
        entities = await retriever.search("What happened last week?", where=MINE, limit=5)
        assert {entity.id for entity in entities} == {"cleo", "launch", "lunch", "retro", "trap"}


class TestRequirements:
    """Fast path, deep path, simulation first, graceful degradation."""

    async def test_a_simple_query_takes_the_fast_path(self, memories: Collection) -> None:
        """The model is not called."""
        llm = SimLLM()
        assert (await DualRetriever(memories, llm).search("Acme", where=MINE))[0].id == "ann"
        assert llm.calls == 0

    async def test_the_same_seed_gives_the_same_rewrites(self, memories: Collection) -> None:
        """In every retriever with that seed."""
        first, other = (DualRetriever(memories, SimLLM(5), seed=5, rewrite_timeout_seconds=60) for _ in range(2))
        assert await first.rewrite_query("why did it fail") == await other.rewrite_query("why did it fail")

    async def test_a_failed_model_falls_back_to_fast_search(self, memories: Collection) -> None:
        """If the model fails, and says why."""
        failing = DualRetriever(memories, SimLLM(faults=SimFaults(fail_rate=1)))
        entities = await failing.search("Who runs Globex?", where=MINE)
        assert entities == await failing.search("Who runs Globex?", where=MINE, deep_search=False)
        assert entities.degraded is not None


class TestHeuristics:
    """Questions for which deep search helps."""

    @pytest.mark.parametrize(
        "term",
        ["who", "what", "when", "where", "why", "how", "related to", "about", "regarding", "involving", "yesterday",
         "last week", "recently", "before", "similar", "like", "connections"],
    )  # fmt: skip
    async def test_each_stated_term_triggers(self, retriever: DualRetriever, term: str) -> None:
        """It may be anywhere in the query, as a whole word, in any case."""
        assert retriever.needs_deep_search(f"things {term} Acme")
        assert retriever.needs_deep_search(term.upper())
        assert not retriever.needs_deep_search(f"things {term}x Acme")


class TestQueryRewriting:
    """A query becomes two to three variations."""

    async def test_the_example(self, retriever: DualRetriever) -> None:
        """The example runs as printed."""
        rewrites = await retriever.rewrite_query("Who do I know at Acme?")
        assert rewrites == ["Acme", "works at Acme", "Acme Corp employee"]

    async def test_a_model_that_fails_leaves_the_question(self, memories: Collection) -> None:
        """As its only wording."""
        failing = DualRetriever(memories, SimLLM(faults=SimFaults(fail_rate=1)))
        assert await failing.rewrite_query("Who do I know at Acme?") == ["Who do I know at Acme?"]

    @pytest.mark.parametrize("query", ["what's new with the launch", "why", "notes about Ben", "last week's lunch"])
    async def test_there_are_two_to_three(self, retriever: DualRetriever, query: str) -> None:
        """Different from the query and from one another."""
        rewrites = await retriever.rewrite_query(query)
        assert 2 <= len(rewrites) <= 3
        assert len({query.casefold(), *(rewrite.casefold() for rewrite in rewrites)}) == len(rewrites) + 1


class TestRRF:
    """score(doc) = Σ 1 / (k + rank_in_list), k = 60."""

    async def test_the_formula(self, retriever: DualRetriever) -> None:
        """Items in several lists score higher."""
        first = await retriever.search("Acme", where=MINE, limit=3)
        merged = retriever.merge_rrf(list(first), list(first)[:1])
        assert merged[0].id == first[0].id
        assert merged[0].score == pytest.approx(2 / 61)
        assert merged[1].score == pytest.approx(1 / 62)

    async def test_a_search_is_fused_by_it(self, retriever: DualRetriever) -> None:
        """Every leg's ranking of every wording is one list."""
        assert RECALL_PROFILE.fusion.kind is FusionKind.RRF
        assert RECALL_PROFILE.fusion.k == 60
        entities = await retriever.search("Who do I know at Acme?", where=MINE)
        ranks = [part.rank for part in entities[0].explanation.contributions]
        assert len(ranks) > 2
        assert entities[0].score == pytest.approx(sum(1 / (60 + rank) for rank in ranks))


class TestAPI:
    """The names, parameters and defaults."""

    @pytest.mark.parametrize(
        ("method", "expected"),
        [
            (DualRetriever.__init__, {"storage": ..., "llm": ..., "seed": None}),
            (DualRetriever.search, {"query": ..., "limit": 10, "deep_search": True, "time_range": None}),
            (DualRetriever.needs_deep_search, {"query": ...}),
            (DualRetriever.rewrite_query, {"query": ...}),
            (DualRetriever.merge_rrf, {"result_lists": ..., "k": 60}),
            (DualRetriever.reset, {}),
            (Memory.recall, {"query": ..., "limit": 10, "deep_search": True, "time_range": None}),
        ],
        ids=lambda value: getattr(value, "__name__", ""),
    )
    async def test_parameters_and_defaults(self, method: Callable[..., Any], expected: dict[str, Any]) -> None:
        """They are as printed in the design; additional parameters follow."""
        parameters = list(inspect.signature(method).parameters.values())[1:]
        defaults = {
            parameter.name: ... if parameter.default is parameter.empty else parameter.default
            for parameter in parameters
        }
        assert dict(list(defaults.items())[: len(expected)]) == expected

    async def test_search_gives_a_list_of_entities(self, retriever: DualRetriever) -> None:
        """The list is ranked by relevance, each entity with its fields."""
        entities = await retriever.search("Acme", where=MINE)
        assert isinstance(entities, list)
        assert all(isinstance(entity, Entity) for entity in entities)
        assert [entity.score for entity in entities] == sorted((entity.score for entity in entities), reverse=True)
        ann = entities[0]
        assert (ann.id, ann.name, ann.content) == ("ann", "Ann", "Ann works at Acme as a designer.")
        assert ann.event_time == datetime(2026, 11, 5, 9, tzinfo=UTC)
        assert ann.attributes == {"user": "me"}

    async def test_time_range_filters_by_event_time(self, retriever: DualRetriever) -> None:
        """From the first moment on, and before the second."""
        day = (datetime(2026, 11, 8, tzinfo=UTC), datetime(2026, 11, 9, tzinfo=UTC))
        assert [entity.id for entity in await retriever.search("Ben", where=MINE, time_range=day)] == ["ben"]


class _Overflowing:
    """A storage that returns more than requested."""

    async def search(self, query: str, **options: Any) -> SearchResult:
        """Each hit of the real one twice."""
        entities = await self.storage.search(query, **options)
        return SearchResult(hits=entities.hits * 2, path=Path.NONE, why="", profile_version=None)

    def __init__(self, storage: Collection) -> None:
        self.storage = storage


class TestPreconditionsAndPostconditions:
    """Errors that say what to do, also under ``python -O``."""

    @pytest.mark.parametrize("query", ["", " \n"])
    async def test_the_query_must_not_be_empty(self, retriever: DualRetriever, query: str) -> None:
        """This applies to searches, to rewrites, and to the check for rewriting."""
        with pytest.raises(EmptyQueryError):
            await retriever.search(query)
        with pytest.raises(EmptyQueryError):
            await retriever.rewrite_query(query)
        with pytest.raises(EmptyQueryError):
            retriever.needs_deep_search(query)

    async def test_the_query_must_be_text(self, retriever: DualRetriever) -> None:
        """Anything else is refused."""
        with pytest.raises(InvalidRequestError, match=r"must be text, not int$"):
            await retriever.search(7)  # type: ignore[arg-type]

    @pytest.mark.parametrize("limit", [0, -1, SEARCH_LIMIT_MAX + 1, True, 1.5, "10", None])
    async def test_the_limit_is_1_to_the_maximum(self, retriever: DualRetriever, limit: Any) -> None:
        """The message names the range."""
        with pytest.raises(InvalidLimitError, match="from 1 to 100"):
            await retriever.search("Acme", limit=limit)

    @pytest.mark.parametrize("limit", [1, 3, SEARCH_LIMIT_MAX])
    async def test_results_never_exceed_the_limit(self, retriever: DualRetriever, limit: int) -> None:
        """With rewrites too."""
        entities = await retriever.search("Who works at Acme?", where=MINE, limit=limit)
        assert len(entities) == min(limit, 7)

    async def test_a_storage_that_breaks_its_word_is_an_error(self, memories: Collection) -> None:
        """The storage returns more than requested, or an entity twice."""
        broken = DualRetriever(_Overflowing(memories), None)  # type: ignore[arg-type]
        with pytest.raises(RetrievalError, match="for a limit of 2"):
            await broken.search("Acme", limit=2)
        with pytest.raises(RetrievalError, match="twice"):
            await broken.search("Acme", limit=20)


class TestConsequences:
    """Consequences of the design."""

    async def test_deep_search_can_be_switched_off(self, memories: Collection) -> None:
        """The model is not called, whatever the question."""
        llm = SimLLM()
        entities = await DualRetriever(memories, llm).search("Who works at Acme?", where=MINE, deep_search=False)
        assert llm.calls == 0
        assert entities.degraded is None

    async def test_repeated_queries_are_answered_from_the_cache(self, memories: Collection) -> None:
        """The model is called once."""
        llm = SimLLM(77)
        retriever = DualRetriever(memories, llm)
        first, again = [await retriever.search("What does Cleo play?", where=MINE) for _ in range(2)]
        assert first == again
        assert llm.calls == 1
