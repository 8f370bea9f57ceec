"""The reward model: what an item earned elsewhere."""

from __future__ import annotations

import pytest

from retrieval.learning.off_policy import RewardModel


def filled(**rewards: dict[str, float]) -> RewardModel:
    """A model that was told these rewards by retrieval."""
    model = RewardModel()
    for retrieval_id, its in rewards.items():
        model.add(retrieval_id, its)
    return model


def test_an_item_is_shrunk_to_what_all_items_earn() -> None:
    """(its rewards + 10 × the mean of all) / (its uses + 10), worked by hand."""
    model = filled(r1={"a": 1.0, "b": 0.0}, r2={"a": 1.0, "b": 0.0})
    assert model.predict("another", "a") == pytest.approx((2 + 10 * 0.5) / 12)
    assert model.predict("another", "never seen") == pytest.approx(0.5)


def test_a_retrieval_hears_nothing_of_itself() -> None:
    """What it earned changes no prediction for it, and those for others."""
    low = filled(r1={"a": 0.0}, r2={"a": 0.5, "b": 1.0})
    high = filled(r1={"a": 1.0}, r2={"a": 0.5, "b": 1.0})
    assert low.predict("r1", "a") == pytest.approx(high.predict("r1", "a"))
    assert low.predict("r1", "b") == pytest.approx(high.predict("r1", "b"))
    assert low.predict("r2", "a") < high.predict("r2", "a")


def test_nothing_rated_is_even_chances() -> None:
    """Also for the only retrieval that was."""
    assert RewardModel().predict("r1", "a") == 0.5
    assert filled(r1={"a": 1.0}).predict("r1", "a") == 0.5
