"""What makes a generated metaphor invalid, and what is only named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval.apps.metaphors import Metaphor, Operation, validate_metaphor

GOOD = Metaphor(
    id="river",
    name="River",
    description="Water that finds its way downhill.",
    operations=(Operation(name="dam", effects=("it rises",)), Operation(name="dig", effects=("it falls",))),
    examples=("traffic",),
)
TOO_FEW = "Too few operations (need at least 2)"


def test_a_good_one_has_no_issue() -> None:
    """Two operations with effects, a description of twenty characters and an example suffice."""
    assert validate_metaphor(replace(GOOD, description="x" * 20)) == (True, [])


@pytest.mark.parametrize("operations", [(), GOOD.operations[:1]])
def test_fewer_than_two_operations_make_it_invalid(operations: tuple[Operation, ...]) -> None:
    """One operation is no vocabulary to think in."""
    assert validate_metaphor(replace(GOOD, operations=operations)) == (False, [TOO_FEW])


def test_each_operation_without_effects_makes_it_invalid_and_is_named() -> None:
    """All of them are named, in their order."""
    bare = tuple(replace(operation, effects=()) for operation in GOOD.operations)

    assert validate_metaphor(replace(GOOD, operations=bare)) == (
        False,
        ["Operation 'dam' has no effects", "Operation 'dig' has no effects"],
    )


def test_a_short_description_and_missing_examples_are_named_only() -> None:
    """It can be used all the same."""
    assert validate_metaphor(replace(GOOD, description="x" * 19, examples=())) == (
        True,
        ["Description too short", "No examples provided (recommended)"],
    )


def test_all_issues_are_named_in_order() -> None:
    """Nothing hides behind the first issue."""
    poor = Metaphor(id="x", name="X", operations=(Operation(name="wait"),))

    assert validate_metaphor(poor) == (
        False,
        [
            TOO_FEW,
            "Operation 'wait' has no effects",
            "Description too short",
            "No examples provided (recommended)",
        ],
    )
