"""The learned reward in retrieval: its share of the score, its context, and its effect on candidates."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from retrieval import Context, Feedback, Platform
from retrieval.apps.metaphors import Metaphor, MetaphorCorpus, MetaphorRetriever, Problem, combine_scores
from retrieval.domain.records.slate import ShownItem
from tests.integration.apps.metaphors.conftest import CountingEmbedder
from tests.support.metaphors import CORPUS, ScriptedLLM, metaphor, suggestion

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = [
    *CORPUS,
    *(metaphor(f"m{number}", f"word{number} other{number} thing{number % 5}", domain="many") for number in range(24)),
]
"""Enough metaphors for clusters."""
PIPES = Problem(id="pipes", description="water pressure flows through pipes", domain="logistics", complexity=0.1)
CHESS, MARKET, GARDEN, ORCHESTRA = CORPUS[3], CORPUS[2], CORPUS[4], CORPUS[5]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def trained(house: Platform) -> MetaphorCorpus:
    """A corpus whose metaphors were judged in several situations, and a model that knows of it.

    Chess helps in logistics and not in finance; the market where complexity is high and not where it is low; the garden
    with problems about plants and not with those about water.
    """
    corpus = await MetaphorCorpus.open(house, "trained", MANY)
    assert not await MetaphorRetriever(corpus, platform=house).model.is_trained()
    await corpus.collection.learn()  # clusters, so that verdicts count in theirs
    await house.feedback_each([await verdict(corpus, number, case) for number in range(5) for case in CASES])
    report = await corpus.collection.learn()
    assert report["published"], report
    return corpus


WATER, PLANTS = "water pressure flows through pipes", "plants grow where soil is prepared"
CASES: list[tuple[str, Context, Metaphor, float]] = [
    (WATER, Context(domain="logistics"), CHESS, 1.0),
    (WATER, Context(domain="finance"), CHESS, 0.0),
    (WATER, Context(complexity=0.9), MARKET, 1.0),
    (WATER, Context(complexity=0.1), MARKET, 0.0),
    (PLANTS, Context(), GARDEN, 1.0),
    (WATER, Context(), GARDEN, 0.0),
]


async def verdict(corpus: MetaphorCorpus, number: int, case: tuple[str, Context, Metaphor, float]) -> Feedback:
    """A verdict on a metaphor that was shown for a problem."""
    description, context, position, reward = case
    question = f"{description} {number}"
    answer = await corpus.collection.record_answer(
        question,
        [ShownItem(item_id=position.id, score=0.5)],
        context=context,
        vector=(await corpus.collection.vectors_of([question]))[0],
        origin="test",
        retrieval_time_ms=1.0,
    )
    return Feedback(retrieval_id=answer, item_id=position.id, reward=reward)


@pytest.fixture
def retriever(house: Platform, trained: MetaphorCorpus) -> MetaphorRetriever:
    """On the trained corpus, without a language model."""
    return MetaphorRetriever(trained, platform=house)


async def test_once_trained_learning_weighs_more_than_similarity(retriever: MetaphorRetriever) -> None:
    """0.4 × similarity + 0.6 × expected reward, both from 0 to 1, best first."""
    assert await retriever.model.is_trained()
    answer = await retriever.retrieve(PIPES, limit=len(MANY))
    similar, learned = await retriever.retrieve_by_embedding(PIPES), await retriever.retrieve_by_learning(PIPES)
    for ranking in (answer, similar, learned):
        assert all(0 <= score <= 1 for _, score in ranking)
        assert [score for _, score in ranking] == sorted((score for _, score in ranking), reverse=True)
    expected = {metaphor.id: score for metaphor, score in combine_scores(similar, learned)}
    assert {metaphor.id: score for metaphor, score in answer} == pytest.approx(expected, abs=1e-4)
    assert learned.notes == ()
    assert learned[0][0] == CHESS
    assert ids(answer).index("chess") < ids(similar).index("chess")
    assert [explanation.score for explanation in answer.explanations] == pytest.approx([score for _, score in answer])


@pytest.mark.parametrize(
    ("where", "elsewhere", "judged"),
    [
        ({"domain": "logistics"}, {"domain": "finance"}, CHESS),
        ({"complexity": 0.8}, {"complexity": 0.2}, MARKET),
        ({"description": PLANTS}, {"description": WATER}, GARDEN),
    ],
    ids=["domain", "complexity range", "cluster of the problem"],
)
async def test_each_feature_of_the_problem_moves_the_prediction(
    retriever: MetaphorRetriever, where: dict[str, Any], elsewhere: dict[str, Any], judged: Metaphor
) -> None:
    """A metaphor is expected to help where it helped before, and not where it failed."""
    bare = Problem(id="new", description=WATER)
    helped, failed = (replace(bare, **feature) for feature in (where, elsewhere))
    there, here = [await retriever.model.predict(problem, judged) for problem in (helped, failed)]
    assert there > here + 0.1
    untried = [await retriever.model.predict(problem, ORCHESTRA) for problem in (helped, failed)]
    assert there - here > abs(untried[0] - untried[1])


async def test_more_trials_reduce_the_uncertainty(retriever: MetaphorRetriever) -> None:
    """The standard deviation of the prediction."""
    tried = await retriever.model.get_uncertainty(PIPES, CHESS)
    untried = await retriever.model.get_uncertainty(PIPES, ORCHESTRA)
    assert 0 < tried < untried <= 0.5


async def test_exploration_adds_to_the_expected_reward(retriever: MetaphorRetriever) -> None:
    """Rate × standard deviation, over the whole corpus; without a rate the learned reward alone ranks."""
    learned = {metaphor.id: score for metaphor, score in await retriever.retrieve_by_learning(PIPES)}
    plain = await retriever.retrieve_with_exploration(PIPES, 0.0)
    assert {metaphor.id: score for metaphor, score in plain} == pytest.approx(learned)
    curious = await retriever.retrieve_with_exploration(PIPES, 0.1)
    assert len(curious) == len(MANY)
    for candidate, score in [*curious[:3], *curious[-3:]]:
        bonus = 0.1 * await retriever.model.get_uncertainty(PIPES, candidate)
        assert score == pytest.approx(learned[candidate.id] + bonus, abs=1e-6)
    assert curious.notes == ()


async def test_a_candidate_counts_nine_tenths_of_its_cosine_whatever_was_learned(
    house: Platform, trained: MetaphorCorpus
) -> None:
    """It has no expected reward yet."""
    llm = ScriptedLLM([suggestion("Canal lock", "water pressure flows through narrow locks for boats")])
    retriever = MetaphorRetriever(trained, llm, platform=house)
    answer = await retriever.retrieve(PIPES, limit=len(MANY) + 1, context="no good candidates")
    candidates = await trained.candidates()
    stored = await trained.collection.embeddings([candidates[0].id])
    [question] = await trained.collection.vectors_of([PIPES.description])
    cosine = float(np.dot(question, stored[candidates[0].id]))
    scores = {metaphor.id: score for metaphor, score in answer}
    assert cosine > 0.3
    assert scores[candidates[0].id] == pytest.approx(0.9 * cosine, abs=1e-3)
    plain = await MetaphorRetriever(trained, platform=house).retrieve(PIPES, limit=len(MANY))
    assert {key: score for key, score in scores.items() if key != candidates[0].id} == pytest.approx(
        {metaphor.id: score for metaphor, score in plain}, abs=1e-6
    )
    await trained.reject(candidates[0].id)


@pytest.mark.usefixtures("trained")
async def test_after_a_backtrack_the_problem_is_of_the_kind_that_it_was(
    house: Platform, embedder: CountingEmbedder
) -> None:
    """The learned reward uses the cluster of the problem, not of the moved question."""
    # Verdicts lose weight with each second, and so the time stands still.
    now = time.time()
    async with Platform(house.settings, embedder=embedder, wall_clock=lambda: now) as still:
        retriever = MetaphorRetriever(await MetaphorCorpus.open(still, "trained", MANY), platform=still, away=1.0)
        problem = Problem(id="kind", description=PLANTS)
        answer = await retriever.retrieve_after_backtrack(problem, CORPUS[4], "it broke", limit=1000, backtracks=1)
        for (candidate, _), explanation in zip(answer, answer.explanations, strict=True):
            (learned,) = [part.raw_score for part in explanation.contributions if part.leg == "learned"]
            assert learned == pytest.approx(await retriever.model.predict(problem, candidate), abs=1e-6)
        assert answer.retrieval_id is not None
        again = await still.replay(answer.retrieval_id)
        assert again.is_reproduced
        assert again.is_same_today, again.differences[:2]


async def test_a_helpful_metaphor_rises_from_any_rank(house: Platform) -> None:
    """The limit applies to one ranking of the whole corpus, and the answer can be replayed."""
    water = [metaphor(f"w{number:03}", f"water pressure {'again ' * (number % 9)}w{number}") for number in range(110)]
    far = metaphor("far", "quite another matter")
    corpus = await MetaphorCorpus.open(house, "large", [*water, far])
    problem = Problem(id="deep", description="water pressure", domain="logistics")
    retriever = MetaphorRetriever(corpus, platform=house)
    assert ids(await retriever.retrieve(problem, 1000))[-1] == "far"
    judged = [("far", 1.0, number) for number in range(30)] + [(metaphor.id, 0.0, 0) for metaphor in water]
    await house.feedback_each(
        [
            Feedback(
                item_id=key, collection="large", context=Context(domain="logistics", session=str(run)), reward=reward
            )
            for key, reward, run in judged
        ]
    )
    assert (await corpus.collection.learn())["published"]
    answer = await retriever.retrieve(problem, 5)
    assert ids(answer)[0] == "far"
    every = await retriever.retrieve(problem, 1000)
    assert ids(every)[0] == "far"
    # Among nearly equal metaphors, the time of the question decides.
    assert [score for _, score in answer] == pytest.approx([score for _, score in every[:5]], abs=1e-6)
    assert answer.retrieval_id is not None
    assert (await house.replay(answer.retrieval_id)).is_reproduced


def ids(pairs: Sequence[tuple[Metaphor, float]]) -> list[str]:
    """The ids, best first."""
    return [metaphor.id for metaphor, _ in pairs]
