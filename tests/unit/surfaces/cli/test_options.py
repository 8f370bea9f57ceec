"""How the texts of options are read."""

from __future__ import annotations

import pytest

from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.surfaces.cli.options import legs_of


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
