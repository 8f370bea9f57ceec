"""When a model serves a profile: it won its trial, or the profile trusts what so many verdicts taught."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.learning.learned_model import LearnedModel, LearnedReward
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
def test_a_profile_may_trust_a_model_of_so_many_verdicts(trusted_from: int | None, *, is_served: bool) -> None:
    """Whatever its trial said, in either combination."""
    assert LOST.serves(Learned(trusted_from=trusted_from)) is is_served
    assert LOST.serves(Learned(trusted_from=trusted_from, share=0.5)) is is_served
    assert LOST.serves(Learned(trusted_from=trusted_from, combination=Combination.LOGIT_STACK)) is is_served


def test_trust_cannot_make_up_for_what_there_is_not() -> None:
    """A stack that weighs nothing has no order, and what is off stays off."""
    empty = replace(LOST, stack=LogitStack())
    assert not empty.serves(Learned(trusted_from=1, combination=Combination.LOGIT_STACK))
    assert not LOST.serves(Learned(trusted_from=1, combination=Combination.OFF))


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "20", 1_000_001])
def test_a_number_of_verdicts_is_a_whole_number(number: object) -> None:
    """The message names the range."""
    with pytest.raises(InvalidProfileError, match=r"learned trusted_from is .*; it must be a whole number from 1 to"):
        Learned(trusted_from=number)  # type: ignore[arg-type]


def test_a_profile_is_stored_with_its_trust() -> None:
    """And one that was stored before trust was known has none."""
    learned = Learned(trusted_from=20)
    assert Learned(**learned.as_dict()) == learned
    assert Learned(combination=Combination.SUM, share=0.6).trusted_from is None
