"""Tags of principles and traces."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.apps.principles.choosing import frequent_tags, normalised_tags
from retrieval.domain.errors import InvalidRequestError


def test_tags_are_stripped_and_casefolded_each_once() -> None:
    """In the order given; none for None."""
    assert normalised_tags([" SQL", "straße", "STRASSE", "sql"]) == ("sql", "strasse")
    assert normalised_tags(None) == ()


@pytest.mark.parametrize("tags", ["sql", [""], ["  "], [1], ["a\x00b"], 3, [str(one) for one in range(51)]])
def test_what_is_no_list_of_tags_is_refused(tags: Any) -> None:
    """A single text too, of which each character would be one."""
    with pytest.raises(InvalidRequestError, match="tag"):
        normalised_tags(tags)


def test_the_most_frequent_come_first_then_the_first() -> None:
    """Each of a trace counts once."""
    assert frequent_tags([["a", "b", "b"], ["c", "b"], ["c", "d"]], 3) == ["b", "c", "a"]
