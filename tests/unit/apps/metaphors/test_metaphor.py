"""Metaphors as items and back, their names, and what makes a generated one invalid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor, Operation, validate_metaphor
from retrieval.apps.metaphors.metaphor import (
    embedded_text,
    metaphor_item,
    metaphor_of,
    name_key,
)

PLUMBING = STANDARD_CORPUS[0]
BARE = Metaphor(id="bare", name="Bare")


@pytest.mark.parametrize("metaphor", [PLUMBING, BARE], ids=lambda metaphor: metaphor.id)
def test_a_metaphor_survives_storing(metaphor: Metaphor) -> None:
    """Nothing is lost or added, also of a metaphor that has a name only."""
    assert metaphor_of(metaphor_item(metaphor)) == metaphor


def test_its_vector_stands_for_name_description_and_examples() -> None:
    """The item's text is embedded, and operations are not part of it."""
    text = metaphor_item(PLUMBING).indexed_text

    assert text == embedded_text(PLUMBING)
    assert text.startswith(f"{PLUMBING.name}\n{PLUMBING.description}\nHelped with: {PLUMBING.examples[0]}; ")
    assert PLUMBING.operations[0].effects[0] not in text
    assert embedded_text(BARE) == "Bare"


def test_fields_for_filters_are_attributes() -> None:
    """They are domain, concreteness and richness; a missing concreteness is left out."""
    attributes = metaphor_item(PLUMBING).attributes

    assert attributes["domain"] == "engineering"
    assert attributes["concreteness"] == PLUMBING.concreteness
    assert attributes["richness"] == 1.0
    assert "concreteness" not in metaphor_item(BARE).attributes


@pytest.mark.parametrize(("operations", "expected"), [(0, 0.0), (3, 0.5), (6, 1.0), (9, 1.0)])
def test_richness_is_the_share_of_six_operations(operations: int, expected: float) -> None:
    """More than six make it no richer."""
    steps = tuple(Operation(name=f"step {number}") for number in range(operations))

    assert metaphor_item(replace(BARE, operations=steps)).attributes["richness"] == expected


def test_its_origin_is_kept() -> None:
    """Source, status and provenance are the item's, and do not change the metaphor."""
    item = metaphor_item(BARE, source="generated", status="candidate", provenance={"model": "sim"})

    assert (item.kind, item.source, item.status) == ("metaphor", "generated", "candidate")
    assert item.attributes["provenance"] == {"model": "sim"}
    assert "provenance" not in metaphor_item(BARE).attributes
    assert metaphor_of(item) == BARE


@pytest.mark.parametrize(
    "name", ["ant colony", "The Ant-Colony", "  an ANT  colony!", "ant_colony", "Ant Colony (the)"]
)
def test_case_punctuation_and_articles_make_no_difference(name: str) -> None:
    """They are one name."""
    assert name_key(name) == "ant colony"


def test_names_of_other_scripts_and_of_articles_alone_keep_a_key() -> None:
    """No name has an empty key, which others would share."""
    assert name_key("Der Fluß") == name_key("der fluss")
    assert name_key("河") == "河"
    assert name_key("नदी") == "नदी"
    assert name_key("The A") == "the a"
    assert name_key("!?") == "!?"
    assert name_key("The Sailor's Knot") == name_key("sailors knot")


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
    """A vocabulary needs more than one operation."""
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
