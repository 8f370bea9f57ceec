"""Metaphors as items, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor, Operation
from retrieval.apps.metaphors.metaphor import (
    embedded_text,
    metaphor_item,
    metaphor_of,
    provenance_of,
    richness,
)

PLUMBING = STANDARD_CORPUS[0]
BARE = Metaphor(id="bare", name="Bare")


@pytest.mark.parametrize("metaphor", [PLUMBING, BARE], ids=lambda one: one.id)
def test_what_is_stored_is_what_comes_back(metaphor: Metaphor) -> None:
    """Nothing is lost or added, also of a metaphor that has a name only."""
    assert metaphor_of(metaphor_item(metaphor)) == metaphor


def test_its_vector_stands_for_name_description_and_examples() -> None:
    """The item's text is what is embedded, and its operations are not part of it."""
    text = metaphor_item(PLUMBING).text

    assert text == embedded_text(PLUMBING)
    assert text.startswith(f"{PLUMBING.name}\n{PLUMBING.description}\nHelped with: {PLUMBING.examples[0]}; ")
    assert PLUMBING.operations[0].effects[0] not in text
    assert embedded_text(BARE) == "Bare"


def test_what_it_is_filtered_and_preferred_by_stands_in_attributes() -> None:
    """Domain, concreteness and richness; a concreteness that was not said is left out."""
    attributes = metaphor_item(PLUMBING).attributes

    assert attributes["domain"] == "engineering"
    assert attributes["concreteness"] == PLUMBING.concreteness
    assert attributes["richness"] == 1.0
    assert "concreteness" not in metaphor_item(BARE).attributes


@pytest.mark.parametrize(("operations", "expected"), [(0, 0.0), (3, 0.5), (6, 1.0), (9, 1.0)])
def test_richness_is_the_share_of_six_operations(operations: int, expected: float) -> None:
    """More than six make it no richer."""
    given = tuple(Operation(name=f"step {number}") for number in range(operations))

    assert richness(replace(BARE, operations=given)) == expected


def test_its_origin_is_kept() -> None:
    """Source, status and provenance are the item's, and do not change the metaphor."""
    item = metaphor_item(BARE, source="generated", status="candidate", provenance={"model": "sim"})

    assert (item.kind, item.source, item.status) == ("metaphor", "generated", "candidate")
    assert provenance_of(item) == {"model": "sim"}
    assert provenance_of(metaphor_item(BARE)) == {}
    assert metaphor_of(item) == BARE
