"""Facts about the curated metaphors."""

from __future__ import annotations

import re

import pytest

from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor, validate_metaphor
from retrieval.apps.metaphors.metaphor import name_key


def test_the_metaphors_are_many_and_from_many_domains() -> None:
    """At least 48 from at least 20 domains, each with an id and a name of its own."""
    assert len(STANDARD_CORPUS) >= 48
    assert len({metaphor.domain for metaphor in STANDARD_CORPUS}) >= 20
    assert len({metaphor.id for metaphor in STANDARD_CORPUS}) == len(STANDARD_CORPUS)
    assert len({name_key(metaphor.name) for metaphor in STANDARD_CORPUS}) == len(STANDARD_CORPUS)


@pytest.mark.parametrize("metaphor", STANDARD_CORPUS, ids=lambda metaphor: metaphor.id)
def test_each_is_complete(metaphor: Metaphor) -> None:
    """It validates without an issue, and says what, how, to what effect, and for which problems."""
    assert validate_metaphor(metaphor) == (True, [])
    assert len(metaphor.description) >= 60
    assert 1 <= len(re.findall(r"[.!?](?:\s|$)", metaphor.description)) <= 3
    assert 3 <= len(metaphor.operations) <= 7
    assert all(1 <= len(operation.effects) <= 3 for operation in metaphor.operations)
    assert all(operation.description and operation.name.isidentifier() for operation in metaphor.operations)
    assert len({operation.name for operation in metaphor.operations}) == len(metaphor.operations)
    assert 2 <= len(metaphor.examples) <= 4
    assert metaphor.concreteness is not None
