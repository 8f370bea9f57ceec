"""How the texts of options are read."""

from __future__ import annotations

import pytest

from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.surfaces.cli.options import columns_of, legs_of


def test_legs_are_named_between_commas() -> None:
    """Spaces and repetitions do not count; the order stays."""
    assert legs_of(" lexical, dense,lexical,") == ("lexical", "dense")


def test_without_the_option_the_profile_decides() -> None:
    """None asks for no restriction."""
    assert legs_of(None) is None


@pytest.mark.parametrize("text", ["", " ", ","])
def test_no_leg_at_all_is_refused(text: str) -> None:
    """An empty list of legs could find nothing."""
    with pytest.raises(InvalidRequestError, match="names no leg"):
        legs_of(text)


def test_an_unknown_leg_is_refused_with_those_there_are() -> None:
    """The message names the legs."""
    with pytest.raises(InvalidProfileError, match="the legs are dense, lexical"):
        legs_of("dense,bm25")


def test_columns_are_given_by_field() -> None:
    """Only the first equals sign parts the two."""
    assert columns_of(["_id=ticket_id", "text = a = b"]) == {"_id": "ticket_id", "text": "a = b"}


@pytest.mark.parametrize("pair", ["_id", "_id=", "=ticket_id", ""])
def test_half_a_pair_is_refused(pair: str) -> None:
    """The message shows how to write it."""
    with pytest.raises(InvalidRequestError, match="write FIELD=NAME"):
        columns_of([pair])


def test_a_field_takes_one_column() -> None:
    """Two columns for one field contradict each other."""
    with pytest.raises(InvalidRequestError, match="twice"):
        columns_of(["text=a", "text=b"])
