"""Retrieval after a metaphor failed: without it, away from it, and with what its failure asks for."""

from __future__ import annotations

import numpy as np
import pytest
import pytest_asyncio

from retrieval import Platform
from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor, MetaphorCorpus, MetaphorRetriever, Problem
from retrieval.apps.metaphors.metaphor import GENERATE_BELOW
from retrieval.domain.errors import InvalidRequestError
from tests.support.metaphors import CORPUS, ScriptedLLM, suggestion

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLOW = Problem(id="flow", description="water pressure flows, plants and prices", domain="logistics")
PIPES, RIVER, MARKET, CHESS, GARDEN, ORCHESTRA = CORPUS


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def retriever(house: Platform, corpus: MetaphorCorpus) -> MetaphorRetriever:
    """A retriever without a language model, on the read-only corpus."""
    return MetaphorRetriever(corpus, platform=house)


def ids(pairs: list[tuple[Metaphor, float]]) -> list[str]:
    """The ids, best first."""
    return [metaphor.id for metaphor, _ in pairs]


async def test_failed_and_excluded_metaphors_do_not_come_back(retriever: MetaphorRetriever) -> None:
    """All other metaphors come, if requested."""
    answer = await retriever.retrieve_after_backtrack(FLOW, PIPES, "it broke", ["chess"], limit=9)
    assert sorted(ids(answer)) == ["garden", "market", "orchestra", "river"]
    assert answer.metrics.backtrack_count == 2
    once = await retriever.retrieve_after_backtrack(FLOW, PIPES, "it broke", backtracks=5)
    assert once.metrics.backtrack_count == 5


async def test_metaphors_similar_to_the_failed_one_rank_lower(retriever: MetaphorRetriever, house: Platform) -> None:
    """The river is water too: its lead over the market melts. With the question where it was, nothing changes."""
    unmoved = MetaphorRetriever(retriever.corpus, platform=house, away=0)
    before = await unmoved.retrieve_after_backtrack(FLOW, PIPES, "it broke")
    after = await retriever.retrieve_after_backtrack(FLOW, PIPES, "it broke")
    assert lead(after) < lead(before) - 0.05
    assert list(before) == list(await retriever.retrieve(FLOW, exclude=["pipes"]))
    further = MetaphorRetriever(retriever.corpus, platform=house, away=0.9)
    assert lead(await further.retrieve_after_backtrack(FLOW, PIPES, "it broke")) < lead(after)


def lead(pairs: list[tuple[Metaphor, float]]) -> float:
    """The lead of the river over the market."""
    scores = {metaphor.id: score for metaphor, score in pairs}
    return scores["river"] - scores["market"]


async def test_over_the_standard_corpus_answers_move_away_and_still_fit(house: Platform) -> None:
    """On average they are less like what failed, and nearly as much like the problem."""
    corpus = await MetaphorCorpus.open(house, "standard")
    moved, unmoved = (MetaphorRetriever(corpus, platform=house, away=away) for away in (0.4, 0.0))
    stored = await corpus.collection.embeddings([metaphor.id for metaphor in STANDARD_CORPUS])
    to_failed: tuple[list[float], list[float]] = ([], [])
    to_problem: tuple[list[float], list[float]] = ([], [])
    for metaphor in STANDARD_CORPUS[::9]:
        problem = Problem(id=metaphor.id, description=metaphor.examples[0])
        [question] = await corpus.collection.vectors_of([problem.description])
        (failed, _), *_ = await moved.retrieve(problem, limit=1)
        for place, retriever in enumerate((moved, unmoved)):
            answer = await retriever.retrieve_after_backtrack(problem, failed, "it broke")
            vectors = np.stack([stored[key] for key in ids(answer)])
            to_failed[place].append(float(np.mean(vectors @ stored[failed.id])))
            to_problem[place].append(float(np.mean(vectors @ question)))
    assert np.mean(to_failed[0]) < 0.95 * np.mean(to_failed[1])
    assert np.mean(to_problem[0]) > 0.9 * np.mean(to_problem[1])


@pytest.mark.parametrize(
    ("reason", "attribute"),
    [("it is Too Abstract", "concreteness"), ("there is a missing concept", "richness")],
)
async def test_the_reason_says_what_is_preferred(
    retriever: MetaphorRetriever, house: Platform, reason: str, attribute: str
) -> None:
    """0.7 × similarity + 0.3 × how concrete, or how rich in operations."""
    unmoved = MetaphorRetriever(retriever.corpus, platform=house, away=0)
    after = await unmoved.retrieve_after_backtrack(FLOW, CHESS, reason)
    preferring = await retriever.retrieve(
        FLOW,
        exclude=["chess"],
        prefer_concrete=attribute == "concreteness",
        prefer_rich_operations=attribute == "richness",
    )
    assert list(after) == list(preferring)
    similar = {metaphor.id: score for metaphor, score in await retriever.retrieve_by_embedding(FLOW)}
    for metaphor, score in after:
        preference = metaphor.concreteness if attribute == "concreteness" else min(1, len(metaphor.operations) / 6)
        assert preference is not None
        assert score == pytest.approx(0.7 * similar[metaphor.id] + 0.3 * preference, abs=1e-5)
    assert ids(after) != ids(await retriever.retrieve(FLOW, exclude=["chess"]))


async def test_both_can_be_preferred_at_once(retriever: MetaphorRetriever) -> None:
    """They share the 0.3."""
    similar = {metaphor.id: score for metaphor, score in await retriever.retrieve_by_embedding(FLOW)}
    for metaphor, score in await retriever.retrieve(FLOW, prefer_concrete=True, prefer_rich_operations=True):
        preference = (metaphor.concreteness or 0) + min(1, len(metaphor.operations) / 6)
        assert score == pytest.approx(0.7 * similar[metaphor.id] + 0.15 * preference, abs=1e-5)


async def test_a_reason_without_good_candidates_calls_for_generation(house: Platform, corpus: MetaphorCorpus) -> None:
    """The prompt names the failed metaphor and the reason."""
    llm = ScriptedLLM([suggestion("", "")])
    retriever = MetaphorRetriever(corpus, llm, platform=house)
    answer = await retriever.retrieve_after_backtrack(FLOW, PIPES, "no good candidates for prices")
    assert answer.why_generated is not None
    assert "Previous attempt with 'pipes' failed because: no good candidates for prices" in llm.prompts[0]
    assert '"pipes"' in llm.prompts[0]


@pytest.mark.parametrize("wanted_id", ["concrete", "rich_operations"])
async def test_a_preference_does_not_hide_a_poor_fit(house: Platform, corpus: MetaphorCorpus, wanted_id: str) -> None:
    """Its score rises by the preference; only similarity decides whether the model is asked."""
    odd = Problem(id="odd", description="zebras quarrel at midnight")
    retriever = MetaphorRetriever(corpus, ScriptedLLM([suggestion("", "")]), platform=house)
    answer = await retriever.retrieve(
        odd, prefer_concrete=wanted_id == "concrete", prefer_rich_operations=wanted_id == "rich_operations"
    )
    assert answer[0][1] > GENERATE_BELOW
    assert "below 0.3" in (answer.why_generated or "")


async def test_the_prompt_names_the_best_before_excluded_metaphors(house: Platform, corpus: MetaphorCorpus) -> None:
    """Only some of the names are in the prompt."""
    llm = ScriptedLLM([suggestion("", "")])
    retriever = MetaphorRetriever(corpus, llm, platform=house)
    problem = Problem(id="order", description="plants grow where pieces threaten")
    await retriever.retrieve(problem, exclude=["market", "orchestra"], context="no good candidates")
    prompt = llm.prompts[0]
    assert max(prompt.index('"garden"'), prompt.index('"chess"')) < min(
        prompt.index('"market"'), prompt.index('"orchestra"')
    )


async def test_a_first_backtrack_alone_does_not(house: Platform, corpus: MetaphorCorpus) -> None:
    """The moved question scores lower, which does not mean that the corpus fits the problem badly."""
    llm = ScriptedLLM([suggestion("", "")])
    retriever = MetaphorRetriever(corpus, llm, platform=house)
    (first, score), *_ = await retriever.retrieve(FLOW)
    strict = MetaphorRetriever(corpus, llm, platform=house, generate_below=0.9 * score)
    answer = await strict.retrieve_after_backtrack(FLOW, ORCHESTRA, "it broke")
    assert first.id != ORCHESTRA.id
    assert answer[0][1] < score
    assert not llm.prompts
    assert (await strict.retrieve_after_backtrack(FLOW, ORCHESTRA, "it broke", [first.id])).why_generated is not None


async def test_a_metaphor_of_no_corpus_can_fail_too(retriever: MetaphorRetriever) -> None:
    """Its own vector or its text is used instead of its stored vector."""
    stranger = Metaphor(id="stranger", name="Stranger", description=PIPES.description)
    vector = (await retriever.corpus.embed(stranger)).embedding
    for failed in (stranger, Metaphor(id="stranger", name="Stranger", embedding=vector)):
        answer = await retriever.retrieve_after_backtrack(FLOW, failed, "it broke", ["pipes"])
        assert lead(answer) < lead(await retriever.retrieve(FLOW, exclude=["pipes"])) - 0.05


async def test_an_answer_after_a_failure_can_be_replayed(retriever: MetaphorRetriever, house: Platform) -> None:
    """It is a search by the moved vector."""
    answer = await retriever.retrieve_after_backtrack(FLOW, PIPES, "too abstract")
    assert answer.retrieval_id is not None
    assert (await house.replay(answer.retrieval_id)).is_reproduced


@pytest.mark.parametrize(("failed", "reason"), [("pipes", "it broke"), (PIPES, None), (PIPES, 7)])
async def test_invalid_failures_are_refused(retriever: MetaphorRetriever, failed: object, reason: object) -> None:
    """The arguments are a metaphor and a text."""
    with pytest.raises(InvalidRequestError):
        await retriever.retrieve_after_backtrack(FLOW, failed, reason)  # type: ignore[arg-type]
