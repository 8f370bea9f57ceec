"""When two metaphors have the same name."""

from __future__ import annotations

import pytest

from retrieval.apps.metaphors.metaphor import name_key


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
    assert name_key("The A") == "the a"
    assert name_key("!?") == "!?"
    assert name_key("The Sailor's Knot") == name_key("sailors knot")
