"""The design of the metaphors' retrieval, section by section, as tests."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from retrieval import Platform, Settings
from retrieval.apps.metaphors import (
    METAPHORS_PROFILE,
    STANDARD_CORPUS,
    Metaphor,
    MetaphorCorpus,
    MetaphorRetriever,
    Operation,
    Problem,
    RetrievalMetrics,
    RetrievalModel,
    combine_scores,
    validate_metaphor,
)
from retrieval.apps.metaphors.generator import SUGGESTIONS, suggestion_prompt
from retrieval.apps.metaphors.metaphor import why_generate
from retrieval.domain.learning.context import Context
from retrieval.sync import MetaphorCorpus as WaitingCorpus
from retrieval.sync import MetaphorRetriever as WaitingRetriever
from retrieval.sync import connect as connect_and_wait
from tests.support.metaphors import CORPUS, ScriptedLLM, suggestion

PROBLEM = Problem(id="p", description="water pressure flows unevenly", domain="logistics", complexity=0.5)
PIPES, RIVER = CORPUS[:2]
NewCorpus = Callable[..., Awaitable[MetaphorCorpus]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def retriever(house: Platform, corpus: MetaphorCorpus) -> AsyncIterator[MetaphorRetriever]:
    """A retriever on the read-only corpus."""
    yield MetaphorRetriever(corpus, platform=house)


def parameters(method: Callable[..., Any]) -> dict[str, object]:
    """The parameters of a method but ``self``, with their defaults."""
    named = list(inspect.signature(method).parameters.values())[1:]
    return {parameter.name: parameter.default for parameter in named}


def test_interface_retrieve_takes_problem_limit_exclude_and_context() -> None:
    """In that order, five by default."""
    assert list(parameters(MetaphorRetriever.retrieve).items())[1:4] == [
        ("limit", 5), ("exclude", None), ("context", None),
    ]  # fmt: skip
    assert next(iter(parameters(MetaphorRetriever.retrieve))) == "problem"


@pytest.mark.asyncio(loop_scope="module")
async def test_interface_pairs_are_sorted_by_score_descending(retriever: MetaphorRetriever) -> None:
    """A list of (metaphor, score)."""
    answer = await retriever.retrieve(PROBLEM, 4)
    assert isinstance(answer, list)
    assert all(isinstance(metaphor, Metaphor) and isinstance(score, float) for metaphor, score in answer)
    assert [score for _, score in answer] == sorted((score for _, score in answer), reverse=True)


def test_the_methods_have_the_stated_names_and_parameters() -> None:
    """The retriever has the methods that a model and a corpus need."""
    stated = {
        "retrieve_by_embedding": ["problem"],
        "retrieve_by_learning": ["problem"],
        "retrieve_by_generation": ["problem", "existing_candidates"],
        "retrieve_with_exploration": ["problem", "exploration_rate"],
        "retrieve_after_backtrack": ["problem", "failed_metaphor", "failure_reason", "exclude"],
        "retrieve_batch": ["problems", "limit"],
    }
    for name, expected in stated.items():
        assert list(parameters(getattr(MetaphorRetriever, name)))[: len(expected)] == expected
    assert parameters(MetaphorRetriever.retrieve_with_exploration)["exploration_rate"] == 0.1
    assert parameters(MetaphorRetriever.retrieve_batch)["limit"] == 5
    assert all(hasattr(RetrievalModel, name) for name in ("is_trained", "predict", "get_uncertainty"))


@pytest.mark.asyncio(loop_scope="module")
async def test_embedding_similarity_orders_the_corpus(retriever: MetaphorRetriever, corpus: MetaphorCorpus) -> None:
    """By the cosine of problem and metaphor, given or made."""
    ranking = await retriever.retrieve_by_embedding(PROBLEM)
    assert len(ranking) == await corpus.count()
    [vector] = await corpus.collection.vectors_of([PROBLEM.description])
    by_vector = await retriever.retrieve_by_embedding(replace(PROBLEM, embedding=tuple(vector.tolist())))
    assert [metaphor.id for metaphor, _ in by_vector] == [metaphor.id for metaphor, _ in ranking]
    embedded = await corpus.embed(PIPES)
    assert embedded.embedding is not None
    cosine = sum(ours * other for ours, other in zip(embedded.embedding, vector.tolist(), strict=True))
    assert dict((metaphor.id, score) for metaphor, score in ranking)["pipes"] == pytest.approx(cosine, abs=1e-3)  # noqa: C402


@pytest.mark.asyncio(loop_scope="module")
async def test_learned_retrieval_starts_cold_with_similarity(retriever: MetaphorRetriever) -> None:
    """Before there is anything learned."""
    assert list(await retriever.retrieve_by_learning(PROBLEM)) == list(await retriever.retrieve_by_embedding(PROBLEM))


def test_learned_retrieval_knows_the_stated_features() -> None:
    """Domain, complexity range, and the cluster of the problem, each a bucket that metaphors have statistics in."""
    buckets = Context(domain=PROBLEM.domain, complexity=PROBLEM.complexity).buckets(3)
    assert buckets == ("", "domain=logistics", "complexity=medium", "cluster=3")


def test_combined_retrieval_lets_learning_dominate() -> None:
    """0.4 and 0.6, in the profile and in ``combine_scores``."""
    assert METAPHORS_PROFILE.learned.share == 0.6
    ((metaphor, score),) = combine_scores([(PIPES, 1.0)], [(PIPES, 0.5)])
    assert metaphor == PIPES
    assert score == pytest.approx(0.4 * 1 + 0.6 * 0.5)
    assert inspect.signature(combine_scores).parameters["weights"].default == (0.4, 0.6)


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        ((0.29,), True),
        ((0.3,), False),
        ((0.9, "no good candidates"), True),
        ((0.9, "another reason"), False),
        ((0.9, "", 2), True),
    ],
)
def test_generative_retrieval_is_for_when_the_corpus_has_nothing(situation: tuple[Any, ...], expected: bool) -> None:  # noqa: FBT001
    """A top score below 0.3, a context that says so, and backtracks; for an unusual domain see ``test_generation``."""
    assert (why_generate(*situation) is not None) == expected


def test_generative_retrieval_asks_for_three_with_their_operations() -> None:
    """The prompt has problem, domain and the names of the metaphors that do not fit."""
    prompt = suggestion_prompt(PROBLEM, ["pipes", "river"])
    assert SUGGESTIONS == 3
    assert all(
        word in prompt for word in (PROBLEM.description, "logistics", '["pipes", "river"]', "Suggest 3 different")
    )
    assert all(word in prompt for word in ("name", "domain", "operations", "why it might apply"))


@pytest.mark.asyncio(loop_scope="module")
async def test_generated_metaphors_get_a_slight_penalty(house: Platform, new_corpus: NewCorpus) -> None:
    """The score is 0.9 × similarity; the prompt names the three best of the corpus as not fitting."""
    llm = ScriptedLLM([suggestion("Sluice", "water pressure flows unevenly over gates")])
    retriever = MetaphorRetriever(await new_corpus(), llm, platform=house)
    best = await retriever.retrieve_by_embedding(PROBLEM, 3)
    answer = await retriever.retrieve(PROBLEM, context="no good candidates")
    assert all(f'"{metaphor.name}"' in llm.prompts[0] for metaphor, _ in best)
    explanation = answer.explanations[[metaphor.name for metaphor, _ in answer].index("Sluice")]
    assert explanation.contributions[0].weight == 0.9


@pytest.mark.asyncio(loop_scope="module")
async def test_exploration_adds_rate_times_uncertainty(retriever: MetaphorRetriever) -> None:
    """The bonus is added to the expected reward of each metaphor of the corpus."""
    base = {metaphor.id: score for metaphor, score in await retriever.retrieve_by_learning(PROBLEM)}
    answer = await retriever.retrieve_with_exploration(PROBLEM, exploration_rate=0.2)
    for metaphor, score in answer:
        bonus = 0.2 * await retriever.model.get_uncertainty(PROBLEM, metaphor)
        assert score == pytest.approx(base[metaphor.id] + bonus)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("too abstract", {"prefer_concrete": True}),
        ("missing concept", {"prefer_rich_operations": True}),
        ("something else", {"context": "something else"}),
    ],
)
async def test_backtrack_aware_retrieval_depends_on_the_reason(
    house: Platform, corpus: MetaphorCorpus, reason: str, options: dict[str, Any]
) -> None:
    """Concrete ones, ones with more operations, or a general retry; what failed is excluded either way."""
    still = MetaphorRetriever(corpus, platform=house, away=0)
    after = await still.retrieve_after_backtrack(PROBLEM, PIPES, reason, ["chess"])
    assert list(after) == list(await still.retrieve(PROBLEM, exclude=["chess", "pipes"], **options))


def test_static_corpus_has_the_stated_metaphors() -> None:
    """Plumbing and the ecosystem, with their operations."""
    by_id = {metaphor.id: metaphor for metaphor in STANDARD_CORPUS}
    stated = {
        "plumbing": {"locate_constriction", "add_reservoir", "increase_pipe_diameter", "add_bypass"},
        "ecosystem": {"increase_biodiversity", "remove_invasive_species", "strengthen_symbiosis"},
    }
    for key, operations in stated.items():
        assert operations <= {operation.name for operation in by_id[key].operations}
    assert (by_id["plumbing"].domain, by_id["ecosystem"].domain) == ("engineering", "biology")
    assert len(STANDARD_CORPUS) >= 40


@pytest.mark.asyncio(loop_scope="module")
async def test_dynamic_corpus_refuses_a_known_id_and_iterates_over_both(new_corpus: NewCorpus) -> None:
    """Static metaphors come first; the default source is ``generated``."""
    corpus = await new_corpus(CORPUS[:2])
    await corpus.add(CORPUS[2])
    with pytest.raises(ValueError, match="already exists"):
        await corpus.add(CORPUS[0])
    assert [metaphor.id async for metaphor in corpus] == ["pipes", "river", "market"]
    assert (await corpus.origins(["market"]))["market"].source == "generated"


@pytest.mark.parametrize(
    ("changes", "valid", "issues"),
    [
        ({}, True, []),
        ({"operations": ()}, False, ["Too few operations (need at least 2)"]),
        ({"description": "short"}, True, ["Description too short"]),
        ({"examples": ()}, True, ["No examples provided (recommended)"]),
    ],
)
def test_quality_checks_tell_what_is_invalid_and_what_only_warns(
    changes: dict[str, Any],
    valid: bool,  # noqa: FBT001
    issues: list[str],
) -> None:
    """Operations make it invalid, texts do not."""
    assert validate_metaphor(replace(STANDARD_CORPUS[0], **changes)) == (valid, issues)


def test_quality_checks_want_an_effect_of_every_operation() -> None:
    """The operation is named."""
    operations = (Operation(name="fold"), Operation(name="cut", effects=("two parts",)))
    valid, issues = validate_metaphor(replace(STANDARD_CORPUS[0], operations=operations))
    assert (valid, issues) == (False, ["Operation 'fold' has no effects"])


@pytest.mark.asyncio(loop_scope="module")
async def test_performance_texts_are_embedded_once_and_batches_at_once(
    retriever: MetaphorRetriever, embedder: Any
) -> None:
    """One call for a batch, none for the same problems again."""
    problems = [Problem(id=str(number), description=f"a queue of {number}") for number in range(4)]
    embedder.calls = 0
    first = await retriever.retrieve_batch(problems)
    again = await retriever.retrieve_batch(problems)
    assert embedder.calls == 1
    assert {key: list(pairs) for key, pairs in first.items()} == {key: list(pairs) for key, pairs in again.items()}


def test_metrics_are_the_stated_five() -> None:
    """By their names."""
    assert [field.name for field in fields(RetrievalMetrics)] == [
        "retrieval_time_ms", "top_score", "score_spread", "generation_triggered", "backtrack_count",
    ]  # fmt: skip


def test_all_of_it_can_be_called_as_the_design_writes_it(database_url: str, settings: Settings) -> None:
    """Without await."""
    with connect_and_wait(
        settings=settings.changed(database_url=SecretStr(database_url), embedder="hashing")
    ) as platform:
        corpus = WaitingCorpus.open(platform, static=CORPUS)
        retriever = WaitingRetriever(corpus, platform=platform)
        answer = retriever.retrieve(PROBLEM, limit=2, exclude=["chess"])
        again = retriever.retrieve_after_backtrack(PROBLEM, answer[0][0], "too abstract", ["chess"])
        assert answer[0][0] not in [metaphor for metaphor, _ in again]
        retriever.record_outcome(answer, answer[0][0], helpful=True)
        assert not retriever.model.is_trained()
        assert retriever.model.predict(PROBLEM, answer[0][0]) == pytest.approx(2 / 3)
