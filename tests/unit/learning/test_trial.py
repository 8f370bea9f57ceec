"""The trial: a model is used only if it does surely better on questions that it was not fitted on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from retrieval.domain.learning.context import ANYWHERE
from retrieval.domain.search.profile_parts import Combination
from retrieval.learning.examples import Event, Examples, Slate, cosine, directions, without_own
from retrieval.learning.learned_model import LearnedModel, LearnedReward
from retrieval.learning.stack import LogitStack
from retrieval.learning.trial import TrialOutcome, log_losses, trial

ITEMS = [f"i{number}" for number in range(30)]
GOOD = set(ITEMS[::3])


def _examples(questions: int, *, seed: int = 1, is_learnable: bool = True) -> Examples:
    """Ten items shown to each question; which help is a matter of the item, or of chance."""
    rng = np.random.default_rng(seed)
    rated, slates = [], []
    for number in range(questions):
        item_ids = [ITEMS[place] for place in rng.choice(len(ITEMS), 10, replace=False)]
        relevance = sorted(rng.random(10).tolist(), reverse=True)
        lucky = set(item_ids[:3]) if is_learnable else set(rng.choice(item_ids, 3, replace=False))
        rewards = [float(item in GOOD) if is_learnable else float(item in lucky) for item in item_ids]
        for rank, (item, fits, reward) in enumerate(zip(item_ids, relevance, rewards, strict=True), 1):
            rated.append(
                Event(
                    item_id=item, buckets=(ANYWHERE,), reward=reward, relevance=fits, rank=rank, question=f"q{number}"
                )
            )
        slates.append(
            Slate(
                question=f"q{number}",
                vector=None,
                buckets=(ANYWHERE,),
                item_ids=item_ids,
                relevance=relevance,
                legs={},
                rewards=rewards,
            )
        )
    return Examples(rated=rated, slates=slates, clusters={})


def test_learnable_rewards_pass_in_both_combinations() -> None:
    """Rewards that follow the item are foretold better, and put it first."""
    outcomes = trial(_examples(60), share=0.6)
    assert {combination: outcome.passed for combination, outcome in outcomes.items()} == {
        Combination.SUM: True, Combination.LOGIT_STACK: True,
    }  # fmt: skip
    assert all(outcome.metrics["value_more_at_least"] > 0 for outcome in outcomes.values())


def test_random_rewards_pass_in_neither_combination() -> None:
    """However many verdicts there are."""
    outcomes = trial(_examples(60, is_learnable=False), share=0.6)
    assert not any(outcome.passed for outcome in outcomes.values())


def test_few_searches_are_too_few_to_tell() -> None:
    """The reason says how many are needed."""
    outcomes = trial(_examples(10), share=0.6)
    for outcome in outcomes.values():
        assert not outcome.passed
        assert outcome.reason.endswith("are too few to tell; 50 are needed")


def test_the_blend_does_not_know_the_answer_of_its_own_question() -> None:
    """An item that only this question rewarded has no affinity to it; an item that another question rewarded has."""
    query, other = np.eye(2, dtype=np.float32)
    first = Event(item_id="a", buckets=(ANYWHERE,), reward=1.0, relevance=0.5, question="q", vector=query)
    alone = [first]
    assert without_own(alone, directions(alone)) == [0.0]
    both = [first, replace(first, question="r", vector=(query + other) / np.float32(np.sqrt(2)))]
    assert without_own(both, directions(both)) == pytest.approx([0.7071, 0.7071], abs=1e-3)
    assert cosine(query, directions(both)["a"].total) == pytest.approx(0.9239, abs=1e-3)


def test_searches_for_the_same_count_as_one() -> None:
    """Two questions stay two, however often they are asked."""
    few = _examples(2)
    slates = [replace(slate, question=f"q{number % 2}") for number, slate in enumerate([*few.slates] * 40)]
    outcomes = trial(replace(few, slates=slates), share=0.6)
    assert all(outcome.reason.startswith("2 rated questions are too few") for outcome in outcomes.values())


def test_a_verdict_whose_question_is_not_known_is_in_no_fit_of_a_trial() -> None:
    """It could be a verdict on the very question that is held out."""
    examples = _examples(4)
    forgotten = replace(examples, rated=[*examples.rated, replace(examples.rated[0], question=None)])
    for inside in (True, False):
        part = forgotten.of(frozenset({"q1"}), inside=inside)
        assert None not in {event.question for event in part.rated}


def _long_ones_help(*, looks: float = 0.0, wrong: float = 0.0, questions: int = 120) -> Examples:
    """Items that are shown once, of which long ones help. An item is rated with probability 1 / rank ** looks."""
    rng = np.random.default_rng(1)
    octets = {f"i{number}": 200 if number % 2 else 2000 for number in range(questions * 10)}
    rated, slates = [], []
    for number in range(questions):
        item_ids = [f"i{number * 10 + place}" for place in rng.permutation(10)]
        relevance = sorted(rng.random(10).tolist(), reverse=True)
        rewards: list[float | None] = [
            float((octets[item] > 1000) != (rng.random() < wrong)) if rng.random() < rank**-looks else None
            for rank, item in enumerate(item_ids, 1)
        ]
        for rank, (item, fits, reward) in enumerate(zip(item_ids, relevance, rewards, strict=True), 1):
            if reward is not None:
                event = Event(
                    item_id=item, buckets=(ANYWHERE,), reward=reward, relevance=fits, rank=rank, question=f"q{number}"
                )
                rated.append(event)
        slates.append(
            Slate(
                question=f"q{number}", vector=None, buckets=(ANYWHERE,), item_ids=item_ids, relevance=relevance,
                legs={}, rewards=rewards,
            )
        )  # fmt: skip
    return Examples(rated=rated, slates=slates, clusters={}, octets=octets)


def _stack_of(examples: Examples) -> TrialOutcome:
    return trial(examples, share=0.6)[Combination.LOGIT_STACK]


def test_a_model_learns_that_long_items_help() -> None:
    """Also for items without verdicts: length is a property of all items."""
    examples = _long_ones_help()
    assert _stack_of(examples).passed
    assert not _stack_of(replace(examples, octets={})).passed


def test_rewards_of_single_items_count_if_they_improve_the_stack() -> None:
    """It is left out if a property of all items explains the rewards."""
    assert not trial(_examples(60), share=0.6)[Combination.LOGIT_STACK].is_shared
    assert _stack_of(_long_ones_help()).is_shared


def _in_use(passed: frozenset[Combination] = frozenset(Combination), **weights: float) -> LearnedModel:
    return LearnedModel(
        version=1, reward=LearnedReward(), by_item=LearnedReward(), stack=LogitStack(weights=weights), passed=passed
    )


def test_what_is_in_use_stays_while_it_is_better_on_average() -> None:
    """By a bound it would come and go. It must be in use in that combination, and the sum with that share."""
    examples = _long_ones_help(wrong=0.42, questions=80)
    first = _stack_of(examples)
    assert not first.passed
    assert first.metrics["log_loss_less"] > 0 > first.metrics["log_loss_less_at_least"]
    again = trial(examples, share=0.6, in_use=_in_use(length=1.0))[Combination.LOGIT_STACK]
    assert again.passed
    assert again.is_shared
    assert again.metrics == first.metrics
    assert again.reason.endswith("enough to stay in use")
    # A sum is in use, not the stack.
    other = _in_use(frozenset({Combination.SUM}), length=1.0)
    assert not trial(examples, share=0.6, in_use=other)[Combination.LOGIT_STACK].passed


def test_what_is_in_use_and_no_better_any_more_does_not_pass() -> None:
    """Neither of random verdicts nor of too few."""
    for examples in (_examples(60, is_learnable=False), _examples(10)):
        outcomes = trial(examples, share=0.6, in_use=_in_use(learned=1.0))
        assert not any(outcome.passed for outcome in outcomes.values())


def test_a_model_passes_that_learned_from_what_was_looked_at() -> None:
    """First places have most of the verdicts; moving other items there is not counted against the model."""
    assert _stack_of(_long_ones_help(looks=1.0)).passed


def test_a_model_passes_though_three_verdicts_of_ten_are_wrong() -> None:
    """They say less, and nothing else."""
    assert _stack_of(_long_ones_help(wrong=0.3)).passed


def test_log_loss_is_the_mean_surprise() -> None:
    """-ln of the probability of the outcome; a reward in between counts for both outcomes."""
    losses = log_losses(np.array([0.8, 0.8, 0.5]), np.array([1.0, 0.0, 0.3]))

    assert losses == pytest.approx([-math.log(0.8), -math.log(0.2), math.log(2)])


def test_certainty_that_was_wrong_costs_much_and_not_everything() -> None:
    """Predictions are clipped a millionth away from 0 and 1."""
    assert log_losses(np.array([0.0]), np.array([1.0])) == pytest.approx([-math.log(1e-6)])
