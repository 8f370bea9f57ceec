"""What errors advise over HTTP."""

from __future__ import annotations

import pytest

from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.surfaces.http.models.learning import FeedbackEvent as Said
from retrieval.surfaces.http.problems import over_http, problem_of


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("no 'a b'; make it with: retrieval ingest 'a b' FILE", "no 'a b'; make it with: PUT /v1/collections/{name}"),
        (
            "collection 'a' has no profile 9; see: retrieval profiles list a",
            "collection 'a' has no profile 9; see: GET /v1/collections/{name}/profiles",
        ),
        ("nothing of the kind", "nothing of the kind"),
    ],
)
def test_requests_stand_in_place_of_commands(told: str, expected: str) -> None:
    """The rest stays as it is."""
    assert over_http(told) == expected
    assert problem_of(UnknownCollectionError(told))["detail"] == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Said(item_id="a", collection="c"), "feedback needs reward, a number from 0 to 1, or helpful, true or false"),
        (Said(item_id="a", collection="c", reward=0.5, helpful=True), "give reward or helpful, not both"),
    ],
)
def test_arguments_are_called_as_members(said: Said, expected: str) -> None:
    """Whoever writes JSON has no keywords."""
    with pytest.raises(InvalidRequestError) as refused:
        said.event()
    assert problem_of(refused.value)["detail"] == expected
