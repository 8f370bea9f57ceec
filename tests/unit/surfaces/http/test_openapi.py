"""The description of the service is complete, for people and for programs that read it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from retrieval.apps.tickets import RetrievalRequest
from retrieval.domain.errors import InvalidItemError
from retrieval.services.add import AddReport
from retrieval.surfaces.http.bulk import MEDIA_TYPE, _summary
from retrieval.surfaces.http.openapi import operations
from retrieval.surfaces.http.problems import problem_of
from retrieval.surfaces.http.routes import collections, items, profiles, search, tickets
from retrieval.surfaces.http.routes import learning as feedback
from tests.support.serving import description

# The description is made within the tests: every process of a run loads this module, and to make it takes a second.


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """The target of a reference."""
    while "$ref" in part:
        schema: Any = description()
        for step in part["$ref"].removeprefix("#/").split("/"):
            schema = schema[step]
        part = schema
    return part


def has_example(content: dict[str, Any]) -> bool:
    """Whether some media type is shown by an example."""
    schemas = [media.get("schema", {}) for media in content.values()]
    keys = [set(part) for part in (*content.values(), *schemas, *map(resolved, schemas))]
    return any({"example", "examples"} & names for names in keys)


def test_every_operation_says_what_it_is(subtests: pytest.Subtests) -> None:
    """Its name is that of its method; it has a title, a description, and a documented group."""
    groups = {tag["name"] for tag in description()["tags"]}
    for path, method, operation in operations(description()):
        with subtests.test(path=path, method=method):
            assert re.fullmatch(r"[a-z][a-z_]*[a-z]", operation["operationId"])
            assert operation["summary"]
            assert operation["description"]
            assert set(operation["tags"]) <= groups


def test_every_operation_shows_an_example_and_its_errors(subtests: pytest.Subtests) -> None:
    """Each request body and each answer has an example; errors are problem documents."""
    with_key = [each for each in operations(description()) if each[0].startswith(("/v1/", "/v2/"))]
    assert len(with_key) > 40
    for path, method, operation in with_key:
        with subtests.test(path=path, method=method):
            _check_examples_and_errors(operation)


def _check_examples_and_errors(operation: dict[str, Any]) -> None:
    if "requestBody" in operation:
        assert has_example(operation["requestBody"]["content"])
    answers = {status: resolved(answer) for status, answer in operation["responses"].items()}
    good = [answer for status, answer in answers.items() if status < "300"]
    assert any(has_example(answer["content"]) for answer in good if "content" in answer) or any(
        "content" not in answer for answer in good
    )
    assert {"401", "403", "422", "429", "503", "504"} <= set(answers)
    for status, answer in answers.items():
        assert answer["description"]
        assert status < "400" or "application/problem+json" in answer["content"], status
    assert operation["security"] == [{"bearer": []}, {"header": []}]


def test_names_of_operations_are_unique() -> None:
    """Programs are generated from them."""
    names = [operation["operationId"] for _, _, operation in operations(description())]
    assert len(set(names)) == len(names)


def test_nothing_is_described_that_is_not_sent() -> None:
    """FastAPI's own form of validation errors is nowhere."""
    assert "HTTPValidationError" not in str(description())


@pytest.mark.parametrize(
    "model",
    [
        collections.CollectionSettings, items.ItemSent, items.ItemChanges, items.AddRequest, items.DeleteRequest,
        search.SearchBody, search.BatchRequest, feedback.FeedbackEvent, feedback.FeedbackBatch, feedback.TaskOutcome,
        profiles.ProfileChange, profiles.PreviewRequest, tickets.TicketPreviewRequest,
    ],
)  # fmt: skip
def test_examples_are_what_may_be_sent(model: type[Any]) -> None:
    """A copied example passes validation."""
    adapter = TypeAdapter(model)
    examples = adapter.json_schema()["examples"]
    assert examples
    for example in examples:
        adapter.validate_python(example)


def test_examples_of_tickets_are_what_may_be_sent() -> None:
    """The request is the application's own."""
    assert RetrievalRequest.model_validate(tickets.SEARCH_EXAMPLE).top_k == 10


def test_every_member_of_a_problem_is_described() -> None:
    """Those of invalid items, of invalid requests, and those that an answer adds."""
    refused = InvalidItemError("the item has no text", item_id="T-1").at("items", 0)
    described = description()["components"]["schemas"]["Problem"]["properties"]
    assert described.keys() == {*problem_of(refused), "instance", "request_id"}


def test_the_example_of_a_stream_has_every_figure_of_its_summary() -> None:
    """The token is there only if the service uses read replicas."""
    answer = description()["paths"]["/v1/collections/{name}/items/bulk"]["post"]["responses"]["200"]
    *_, last = answer["content"][MEDIA_TYPE]["example"].splitlines()
    assert json.loads(last)["summary"].keys() == _summary(AddReport(), {}, None)["summary"].keys()


def test_an_attributes_docstring_is_its_description() -> None:
    """In JSON's words: null for None, and one backtick for code."""
    described = description()["components"]["schemas"]
    assert described["Hit"]["properties"]["rank"]["description"] == "The rank, from 1."
    assert "null: it is not" in described["SearchResult"]["properties"]["retrieval_id"]["description"]
    assert "`archived` items" in described["ItemChanges"]["properties"]["status"]["description"]
