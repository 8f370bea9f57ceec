"""The advice of errors over HTTP, and the errors of unknown methods and members."""

from __future__ import annotations

import pytest
from httpx import ASGITransport, AsyncClient

from retrieval.domain.errors import Advice, InvalidRequestError, UnknownCollectionError
from retrieval.settings import Settings
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.http.problems import detail_of, problem_of
from retrieval.surfaces.http.routes.learning import FeedbackEvent


def test_requests_stand_in_place_of_commands() -> None:
    """The fact stays as it is; so does an error that advises nothing."""
    error = UnknownCollectionError("there is no 'a b'").advising(Advice.MAKE_COLLECTION, name="'a b'", file="FILE")

    assert str(error) == "there is no 'a b'; make it with: retrieval ingest 'a b' FILE"
    advice = "make it with: PUT /v1/collections/{name}, which needs a key with the scope 'admin'"
    assert problem_of(error)["detail"] == f"there is no 'a b'; {advice}"
    assert detail_of(InvalidRequestError("nothing\n of the kind")) == "nothing of the kind"


@pytest.mark.parametrize("advice", Advice)
def test_each_advice_has_words_for_requests(advice: Advice) -> None:
    """A new one is not forgotten here."""
    values = {"name": "c", "file": "f", "attribute": "a", "kind": "text", "action": "abort"}
    detail = detail_of(InvalidRequestError("it failed").advising(advice, **values))

    assert detail.startswith("it failed; ")
    assert "clean_text" not in detail


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            FeedbackEvent(item_id="a", collection="c"),
            "feedback needs reward, a number from 0 to 1, or helpful, true or false",
        ),
        (FeedbackEvent(item_id="a", collection="c", reward=0.5, helpful=True), "give reward or helpful, not both"),
    ],
)
def test_arguments_are_called_as_members(value: FeedbackEvent, expected: str) -> None:
    """JSON has no keyword arguments."""
    with pytest.raises(InvalidRequestError) as refused:
        value.event()
    assert problem_of(refused.value)["detail"] == expected


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/collections/tickets/search", "POST"),
        ("POST", "/v1/collections/tickets/items/T-1", "DELETE, GET, PATCH, PUT"),
        ("BREW", "/v1/collections/tickets/items", "GET, POST"),
    ],
)
async def test_a_method_that_a_path_does_not_have_is_answered_with_those_it_has(
    method: str, path: str, allowed: str
) -> None:
    """In the detail, and in the header as RFC 9110 wants it: those of all routes of the path."""
    app = create_app(Settings(), insecure_local=True)
    async with AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1") as client:
        answer = await client.request(method, path)

    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    assert answer.json()["detail"] == f"{method} is not allowed here; allowed: {allowed}"
