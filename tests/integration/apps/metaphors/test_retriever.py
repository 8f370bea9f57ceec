"""Retrieval from the corpus: by similarity as long as nothing is learned, with exclusion, batches and figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from retrieval import Platform
from retrieval.apps.metaphors import Metaphor, MetaphorCorpus, MetaphorRetriever, Problem
from retrieval.collection import handle_of
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError, UnknownItemError
from retrieval.domain.records.slate import Slot
from retrieval.engine.learning import count_verdicts
from tests.support.metaphors import CORPUS

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLOW = Problem(id="flow", description="water pressure flows unevenly", domain="logistics", complexity=0.5)
NewCorpus = Callable[..., Awaitable[MetaphorCorpus]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def retriever(house: Platform, corpus: MetaphorCorpus) -> MetaphorRetriever:
    """A retriever without a language model, on the read-only corpus."""
    return MetaphorRetriever(corpus, platform=house)


def ids(pairs: list[tuple[Metaphor, float]]) -> list[str]:
    """The ids, best first."""
    return [metaphor.id for metaphor, _ in pairs]


async def cosines(corpus: MetaphorCorpus, problem: Problem) -> dict[str, float]:
    """The cosine of the problem and each metaphor, 0 where it is negative."""
    stored = await corpus.embeddings([metaphor.id for metaphor in CORPUS])
    [question] = await corpus.collection.vectors_of([problem.description])
    return {key: max(0.0, float(np.dot(question, vector))) for key, vector in stored.items()}


async def test_scores_are_cosines_best_first(retriever: MetaphorRetriever, corpus: MetaphorCorpus) -> None:
    """The whole corpus is ranked, and each metaphor is returned unchanged."""
    answer = await retriever.retrieve(FLOW, limit=6)
    expected = await cosines(corpus, FLOW)
    assert {metaphor.id: score for metaphor, score in answer} == pytest.approx(expected, abs=1e-3)
    assert [score for _, score in answer] == sorted([score for _, score in answer], reverse=True)
    assert set(ids(answer)[:2]) == {"pipes", "river"}
    assert answer[0][0] in CORPUS
    assert [explanation.score for explanation in answer.explanations] == pytest.approx([score for _, score in answer])


async def test_by_embedding_is_the_same_as_long_as_nothing_is_learned(retriever: MetaphorRetriever) -> None:
    """Without a limit it returns the whole corpus; it records nothing."""
    ranking = await retriever.retrieve_by_embedding(FLOW)
    assert list(ranking) == list(await retriever.retrieve(FLOW, limit=6))
    assert ranking.retrieval_id is None
    assert list(await retriever.retrieve_by_embedding(FLOW, 2)) == list(ranking)[:2]


async def test_by_learning_falls_back_to_similarity_and_says_so(retriever: MetaphorRetriever) -> None:
    """As long as no model is trained."""
    answer = await retriever.retrieve_by_learning(FLOW)
    assert list(answer) == list(await retriever.retrieve_by_embedding(FLOW))
    assert answer.notes == ("nothing is learned yet: these are by similarity",)
    assert not await retriever.model.is_trained()


async def test_an_excluded_metaphor_never_comes_back(retriever: MetaphorRetriever) -> None:
    """The answer has as many metaphors as requested, if that many are left."""
    answer = await retriever.retrieve(FLOW, limit=4, exclude=["pipes", "chess", "unknown"])
    assert len(answer) == 4
    assert not {"pipes", "chess"} & set(ids(answer))
    assert len(await retriever.retrieve(FLOW, limit=1000, exclude=["pipes"])) == 5
    assert list(await retriever.retrieve(FLOW, exclude=[metaphor.id for metaphor in CORPUS])) == []


async def test_a_problem_may_bring_its_own_vector(retriever: MetaphorRetriever, corpus: MetaphorCorpus) -> None:
    """It goes before the description."""
    vector = (await corpus.embeddings(["chess"]))["chess"]
    answer = await retriever.retrieve(replace(FLOW, embedding=vector), limit=1)
    assert ids(answer) == ["chess"]
    assert answer[0][1] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({"limit": 0}, InvalidLimitError, "1 to 1,000"),
        ({"limit": 1001}, InvalidLimitError, "1 to 1,000"),
        ({"limit": True}, InvalidLimitError, "1 to 1,000"),
        ({"limit": 2.5}, InvalidLimitError, "1 to 1,000"),
        ({"exclude": [7]}, InvalidRequestError, "exclude"),
        ({"exclude": "pipes"}, InvalidRequestError, "exclude"),
        ({"exclude": 7}, InvalidRequestError, "exclude"),
        ({"context": 7}, InvalidRequestError, "context"),
        ({"backtracks": -1}, InvalidRequestError, "backtracks"),
        ({"problem": "flow"}, InvalidRequestError, "Problem"),
        ({"problem": replace(FLOW, embedding=(1.0, 2.0))}, InvalidRequestError, "dimensions"),
    ],
)
async def test_invalid_questions_are_refused(
    retriever: MetaphorRetriever, arguments: dict[str, Any], error: type[Exception], why: str
) -> None:
    """In one line that names it."""
    with pytest.raises(error, match=why) as raised:
        await retriever.retrieve(**{"problem": FLOW, **arguments})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"generate_below": 1.1}, {"generate_below": "low"}, {"generate_after_backtracks": -1}, {"away": 2},
        {"generation_timeout_seconds": 0}, {"llm": "gpt"}, {"platform": None}, {"corpus": None},
    ],
)  # fmt: skip
async def test_invalid_parts_of_a_retriever_are_refused(
    house: Platform, corpus: MetaphorCorpus, options: dict[str, Any]
) -> None:
    """Its constructor refuses it."""
    arguments: dict[str, Any] = {"corpus": corpus, "platform": house, **options}
    with pytest.raises(InvalidRequestError):
        MetaphorRetriever(**arguments)


async def test_a_batch_is_embedded_in_one_call(retriever: MetaphorRetriever, embedder: Any) -> None:
    """Each problem gets the same answer as alone."""
    problems = [Problem(id=f"p{number}", description=f"plants and plans number {number}") for number in range(12)]
    embedder.calls = 0
    answers = await retriever.retrieve_batch(problems, limit=3)
    assert embedder.calls == 1
    assert list(answers) == [problem.id for problem in problems]
    for problem in problems:
        alone = await retriever.retrieve(problem, limit=3)
        assert ids(answers[problem.id]) == ids(alone)
        assert [score for _, score in answers[problem.id]] == pytest.approx([score for _, score in alone], abs=1e-6)
    assert await retriever.retrieve_batch([]) == {}


async def test_a_batch_with_an_id_twice_is_refused(retriever: MetaphorRetriever) -> None:
    """The answers could not be distinguished."""
    with pytest.raises(InvalidRequestError, match="same id"):
        await retriever.retrieve_batch([FLOW, FLOW])


async def test_an_answer_can_be_replayed(retriever: MetaphorRetriever, house: Platform) -> None:
    """It is a recorded search."""
    answer = await retriever.retrieve(FLOW, exclude=["pipes"])
    assert answer.retrieval_id is not None
    assert (await house.replay(answer.retrieval_id)).is_reproduced


async def test_the_figures_of_a_retrieval_are_in_the_view(
    house: Platform, corpus: MetaphorCorpus, retriever: MetaphorRetriever
) -> None:
    """The same as in the answer, by its identifier."""
    answer = await retriever.retrieve(FLOW, backtracks=1)
    await house.recorded()
    rows = await house.analytics("queries", collection=corpus.collection.name)
    (row,) = [row for row in rows if row["retrieval_id"] == answer.retrieval_id]
    scores = [score for _, score in answer]
    assert answer.metrics.top_score == scores[0] == pytest.approx(row["top_score"])
    assert answer.metrics.score_spread == pytest.approx(scores[0] - scores[4])
    assert row["score_spread"] == pytest.approx(answer.metrics.score_spread)
    assert row["retrieval_time_ms"] == answer.metrics.retrieval_time_ms > 0
    assert row["generation_triggered"] is answer.metrics.generation_triggered is False
    assert row["backtrack_count"] == answer.metrics.backtrack_count == 1
    assert (row["domain"], row["complexity"], row["session"]) == ("logistics", 0.5, "flow")


async def test_exploration_adds_a_bonus_for_what_is_uncertain(house: Platform, new_corpus: NewCorpus) -> None:
    """Similarity + rate × standard deviation as long as nothing is learned: rarely tried metaphors rise."""
    corpus = await new_corpus()
    retriever = MetaphorRetriever(corpus, platform=house)
    similar = {metaphor.id: score for metaphor, score in await retriever.retrieve_by_embedding(FLOW)}
    first = await retriever.retrieve_with_exploration(FLOW)
    assert {metaphor.id: score for metaphor, score in first} == pytest.approx(
        {key: score + 0.1 * (1 / 12) ** 0.5 for key, score in similar.items()}
    )
    for number in range(8):
        again = await retriever.retrieve(replace(FLOW, id=f"again {number}"))
        await retriever.record_outcome(again, ids(again)[0], helpful=True)
    tried = ids(await retriever.retrieve(FLOW))[0]
    far = await retriever.retrieve_with_exploration(FLOW, exploration_rate=5, limit=5)
    assert tried not in ids(far)
    assert far.retrieval_id is not None
    await house.recorded()
    (answer,) = [
        answer for answer in await corpus.collection.answers_of("flow") if answer.retrieval_id == far.retrieval_id
    ]
    assert answer.origin == "metaphors.retrieve_with_exploration"
    assert [hit.slot for hit in answer.hits] == [Slot.EXPLOIT] * 4 + [Slot.EXPLORE]


@pytest.mark.parametrize("rate", [-0.1, float("nan"), "0.1", True])
async def test_an_invalid_rate_is_refused(retriever: MetaphorRetriever, rate: Any) -> None:
    """Below 0, NaN, no number."""
    with pytest.raises(InvalidRequestError, match="exploration_rate"):
        await retriever.retrieve_with_exploration(FLOW, rate)


async def test_a_prediction_is_for_metaphors_of_the_corpus(retriever: MetaphorRetriever) -> None:
    """It is one half with the greatest uncertainty for an untried metaphor, and an error for an unknown one."""
    chess = CORPUS[3]
    assert await retriever.model.predict(FLOW, chess) == 0.5
    assert await retriever.model.get_uncertainty(FLOW, chess) == pytest.approx((1 / 12) ** 0.5)
    with pytest.raises(UnknownItemError, match="not in the corpus"):
        await retriever.model.predict(FLOW, Metaphor(id="unknown", name="Unknown"))


async def test_outcomes_count_for_the_metaphor_and_the_domain(house: Platform, new_corpus: NewCorpus) -> None:
    """Also those of answers that were not recorded."""
    corpus = await new_corpus()
    retriever = MetaphorRetriever(corpus, platform=house)
    answer = await retriever.retrieve(FLOW)
    await retriever.record_outcome(answer, answer[0][0], helpful=True)
    await retriever.record_outcome(await retriever.retrieve_by_embedding(FLOW), answer[0][0].id, reward=0.0)
    assert await count_verdicts(handle_of(corpus.collection), domain="logistics", at_most=9) == 2
    standing = (await corpus.collection.standings([answer[0][0].id]))[answer[0][0].id]
    assert (standing.uses, standing.successes) == (2, 1)
    assert await corpus.settle(answer[0][0].id) == "active"
    for helpful in (False, True):
        await retriever.record_outcome(answer, answer[0][0], helpful=helpful)
        standing = (await corpus.collection.standings([answer[0][0].id]))[answer[0][0].id]
        assert (standing.uses, standing.successes) == (2, int(helpful))
    with pytest.raises(InvalidRequestError, match="retrieve"):
        await retriever.record_outcome([], "chess", helpful=True)  # type: ignore[arg-type]
