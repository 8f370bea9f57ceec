"""Relevance and learned reward combined: by a share, and by the logit stack."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.event import Event
from retrieval.learning.logit import sigmoid
from retrieval.learning.stack import LogitStack, combine, fit_stack

shares = st.floats(0, 1)


@given(shares, shares, shares)
@settings(max_examples=30, deadline=None)
def test_the_sum_is_the_contract_and_its_parts_add_up(relevance: float, learned: float, share: float) -> None:
    """(1 - share) × relevance + share × learned."""
    (found,) = combine([relevance], [learned], share)

    assert found.score == pytest.approx((1 - share) * relevance + share * learned)
    assert sum(found.parts.values()) == pytest.approx(found.score)


@given(shares, shares, shares)
@settings(max_examples=30, deadline=None)
def test_a_stack_never_scores_the_better_lower_and_its_parts_add_up_to_the_logit(
    relevance: float, learned: float, dense: float
) -> None:
    """Also with a leg's score."""
    stack = LogitStack(intercept=-0.4, weights={"relevance": 0.5, "learned": 1.5, "dense": 0.2})
    found, better = (
        stack.combine([relevance], [mean], {"dense": [dense]})[0] for mean in (learned, min(1.0, learned + 0.1))
    )

    assert float(sigmoid(np.array(sum(found.parts.values())))) == pytest.approx(found.score)
    assert better.score >= found.score


def logged(count: int, seed: int = 1) -> tuple[list[Event], list[float]]:
    """Events whose reward depends on the learned mean twice as much as on relevance, and on the rank."""
    rng = np.random.default_rng(seed)
    relevance, learned = rng.uniform(0.1, 0.9, (2, count))
    rank = rng.integers(1, 8, count)
    logits = 0.5 * np.log(relevance / (1 - relevance)) + np.log(learned / (1 - learned)) - 0.7 * np.log(rank)
    helped = rng.random(count) < 1 / (1 + np.exp(-logits))
    rows = zip(relevance.tolist(), rank.tolist(), helped.tolist(), strict=True)
    events = [
        Event(item_id="a", buckets=(), reward=float(won), relevance=fit, rank=place, signals={"dense": 0.5})
        for fit, place, won in rows
    ]
    return events, learned.tolist()


def test_weights_are_found_in_the_log_with_the_rank_as_a_nuisance() -> None:
    """Those that made the log, within their error."""
    stack = fit_stack(*logged(4_000), legs=["dense"])

    assert stack.weights["relevance"] == pytest.approx(0.5, abs=0.12)
    assert stack.weights["learned"] == pytest.approx(1.0, abs=0.15)
    assert stack.rank_weight == pytest.approx(-0.7, abs=0.15)
    assert stack.events == 4_000


def test_a_weight_is_never_negative() -> None:
    """Where what fits better was rated worse, relevance counts nothing rather than against."""
    events = [Event(item_id="a", buckets=(), reward=float(n % 2), relevance=0.9 - 0.8 * (n % 2)) for n in range(200)]

    assert fit_stack(events, [0.5] * 200).weights["relevance"] == 0.0


def test_without_events_relevance_and_learned_weigh_alike() -> None:
    """And events without a relevance are no events for it."""
    assert fit_stack([], []) == LogitStack()
    assert fit_stack([Event(item_id="a", buckets=(), reward=1.0)], [0.5]) == LogitStack()
    assert LogitStack().weights == {"relevance": 1.0, "learned": 1.0}


def test_a_stored_stack_comes_back_equal() -> None:
    """Through JSON and back nothing is lost."""
    stack = fit_stack(*logged(50))

    assert LogitStack.from_dict(json.loads(json.dumps(stack.as_dict()))) == stack


def test_what_cannot_be_combined_is_refused() -> None:
    """Numbers outside 0 to 1, lengths that differ, and stored values of another kind."""
    for call in (
        lambda: combine([0.5], [0.5], 1.5),
        lambda: combine([1.5], [0.5], 0.5),
        lambda: combine([0.5], [float("nan")], 0.5),
        lambda: LogitStack().combine([0.5, 0.5], [0.5]),
        lambda: fit_stack([], [0.5]),
        lambda: LogitStack.from_dict({"kind": "other"}),
        lambda: LogitStack.from_dict({"kind": "logit_stack", "weight": 1}),
    ):
        with pytest.raises(InvalidRequestError):
            call()
