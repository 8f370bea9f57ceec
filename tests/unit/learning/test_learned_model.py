"""The learned reward through its two verbs, and when a model serves a profile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.learning.examples import Event, arms_of
from retrieval.learning.learned_model import LearnedModel, LearnedReward, learn, rates_before
from retrieval.learning.logistic import RELEVANCE, number_of
from retrieval.learning.stack import LogitStack

REWARD = LearnedReward(events=20)
LOST = LearnedModel(
    version=1,
    reward=REWARD,
    by_item=REWARD,
    stack=LogitStack(weights={"relevance": 3.0}),
    passed=frozenset(),
    share=0.6,
)
WON = replace(LOST, passed=frozenset(Combination))


@pytest.mark.parametrize(("learned", "is_served"), [(Learned(), True), (Learned(share=0.5), False)])
def test_without_trust_only_what_was_tried_and_passed_is_used(learned: Learned, *, is_served: bool) -> None:
    """Another share of the sum was not tried."""
    assert WON.serves(learned) is is_served
    assert not LOST.serves(learned)


@pytest.mark.parametrize(("trusted_from", "is_served"), [(20, True), (1, True), (21, False), (None, False)])
def test_a_profile_may_trust_a_model_with_enough_verdicts(trusted_from: int | None, *, is_served: bool) -> None:
    """The result of its trial does not matter, for either combination."""
    assert LOST.serves(Learned(trusted_from=trusted_from)) is is_served
    assert LOST.serves(Learned(trusted_from=trusted_from, share=0.5)) is is_served
    assert LOST.serves(Learned(trusted_from=trusted_from, combination=Combination.LOGIT_STACK)) is is_served


def test_trust_cannot_make_up_for_what_there_is_not() -> None:
    """A stack without weights gives no order, and ``off`` stays off."""
    empty = replace(LOST, stack=LogitStack())
    assert not empty.serves(Learned(trusted_from=1, combination=Combination.LOGIT_STACK))
    assert not LOST.serves(Learned(trusted_from=1, combination=Combination.OFF))


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "20", 1_000_001])
def test_a_number_of_verdicts_is_a_whole_number(number: object) -> None:
    """The message names the range."""
    with pytest.raises(InvalidProfileError, match=r"learned trusted_from is .*; it must be a whole number from 1 to"):
        Learned(trusted_from=number)  # type: ignore[arg-type]


def test_a_profile_is_stored_with_its_trust() -> None:
    """A profile stored before that field existed has no trust."""
    learned = Learned(trusted_from=20)
    assert Learned(**learned.as_dict()) == learned
    assert Learned(combination=Combination.SUM, share=0.6).trusted_from is None


START = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTERS = {str(number): number % 3 for number in range(30)}


def make_events(count: int, seed: int = 2) -> list[Event]:
    """Thirty items of three clusters, one in time order after the other."""
    rng = np.random.default_rng(seed)
    events = []
    for number in range(count):
        item = str(rng.integers(0, 30))
        chance = (0.8, 0.5, 0.2)[CLUSTERS[item]]
        events.append(
            Event(
                item_id=item,
                buckets=("", f"domain={rng.integers(0, 3)}"),
                reward=float(rng.random() < chance),
                relevance=float(rng.random()),
                occurred_at=START + timedelta(minutes=number),
            )
        )
    return events


EVENTS = make_events(600)
ARMS = arms_of(EVENTS, CLUSTERS)


@pytest.fixture(scope="module")
def logistic() -> LearnedReward:
    """The second kind, of fewer events than it is the default for."""
    return learn(EVENTS, ARMS, kind="logistic")


@pytest.fixture(scope="module")
def shrinkage() -> LearnedReward:
    """The first kind."""
    return learn(EVENTS, ARMS)


@pytest.fixture(params=["shrinkage", "logistic"])
def model(request: pytest.FixtureRequest) -> LearnedReward:
    """Each kind."""
    learned: LearnedReward = request.getfixturevalue(request.param)
    return learned


def test_few_events_are_shrunk_and_many_fitted() -> None:
    """Unless the kind is named."""
    assert learn(EVENTS).kind == "shrinkage"
    assert learn(make_events(2_000)).kind == "logistic"


def test_a_prediction_says_what_to_expect_and_how_surely(model: LearnedReward) -> None:
    """Better clusters earn more; every number is in its range."""
    predicted = model.predict(("", "domain=1"), ARMS)
    mean = dict(zip([item.item_id for item in ARMS], predicted.mean, strict=True))

    assert mean["0"] > mean["1"] > mean["2"]
    assert ((predicted.mean > 0) & (predicted.mean < 1)).all()
    assert ((predicted.sd > 0) & (predicted.sd < 0.5)).all()
    assert (predicted.effective_sample_size > 0).all()
    assert predicted.mean == pytest.approx(1 / (1 + np.exp(-predicted.logit_mean)))


def test_a_stored_model_comes_back_equal(model: LearnedReward) -> None:
    """Through JSON and back it predicts the same."""
    again = LearnedReward.from_dict(json.loads(json.dumps(model.as_dict())))

    assert again == model
    there, back = (each.predict(("domain=1",), ARMS, [0.4] * len(ARMS)) for each in (model, again))
    assert np.array_equal(there.logit_mean, back.logit_mean)
    assert np.array_equal(there.effective_sample_size, back.effective_sample_size)


def test_the_order_of_the_candidates_makes_no_difference(model: LearnedReward) -> None:
    """Each is predicted by itself."""
    there, back = model.predict(("domain=1",), ARMS), model.predict(("domain=1",), ARMS[::-1])

    assert there.mean == pytest.approx(back.mean[::-1])


def test_an_item_that_the_logistic_model_has_not_met_earns_its_shrunk_rate(logistic: LearnedReward) -> None:
    """Its rewards since the fit count at once; relevance has the same effect as for other items."""
    new = ItemArms(item_id="new", arms={"": Arm(30, 2), "domain=1": Arm(12, 1)}, cluster=2)
    shrunk = LearnedReward(shrinkage=logistic.shrinkage).predict(("domain=1",), [new])
    unmet, fitting = (logistic.predict(("domain=1",), [ARMS[0], new], relevance) for relevance in (None, [None, 0.9]))
    assert logistic.logistic is not None
    slope = logistic.logistic.slopes[RELEVANCE]

    assert unmet.mean[1] == pytest.approx(shrunk.mean[0])
    assert unmet.effective_sample_size[1] == shrunk.effective_sample_size[0]
    expected = slope.weight * (number_of(np.array([0.9]))[0] - slope.centre)
    assert fitting.logit_mean[1] - unmet.logit_mean[1] == pytest.approx(expected)


def test_a_rate_before_an_event_knows_nothing_of_it_or_of_later_ones() -> None:
    """Rewards turned round from the middle on change no rate up to there."""
    turned = [*EVENTS[:300], *(Event(item_id=e.item_id, buckets=e.buckets, reward=1 - e.reward) for e in EVENTS[300:])]
    rates, others = rates_before(EVENTS, CLUSTERS), rates_before(turned, CLUSTERS)

    assert np.array_equal(rates[:450], others[:450], equal_nan=True)
    assert not np.allclose(rates[450:], others[450:])
    assert np.isnan(rates[:60]).all()
    assert not np.isnan(rates[60:]).any()


def test_nothing_learned_expects_one_half() -> None:
    """With much uncertainty."""
    prediction = LearnedReward().predict((), [ItemArms(item_id="a")])

    assert prediction.mean == pytest.approx([0.5])
    assert prediction.sd > 0.19
    assert LearnedReward().predict((), []).mean.shape == (0,)


@pytest.mark.parametrize("reward", [{"kind": "forest"}, {"kind": "logistic", "logistic": {"intercept": [1, 2, 3]}}])
def test_a_broken_model_is_refused(reward: dict[str, object]) -> None:
    """The message says what to do."""
    with pytest.raises(InvalidRequestError, match="learn it again"):
        LearnedModel.from_dict(1, {"reward": reward})


def numbers_in(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of the numbers in a JSON value."""
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers_in(part, (*path, name))
    elif isinstance(value, int | float):
        yield path


def test_a_model_with_a_list_in_the_place_of_a_number_is_refused(model: LearnedReward) -> None:
    """Whichever number it is: otherwise the first search with that bucket or item would fail."""
    stored = json.dumps(replace(LOST, reward=model).as_dict())
    places = {path[:4] + path[-1:]: path for path in numbers_in(json.loads(stored))}
    assert len(places) > 20
    for path in places.values():
        definition = part = json.loads(stored)
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = [1.0]
        with pytest.raises(InvalidRequestError, match="learn it again"):
            LearnedModel.from_dict(1, definition)
