"""Fuzzing of the service: every answer matches its description, without an internal error."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import schemathesis
from anyio.from_thread import start_blocking_portal
from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient, Response
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy
from pydantic import SecretStr
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from retrieval import Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.tickets import TICKET_FILTERABLE, ticket_item
from retrieval.surfaces.http.app import create_app
from tests.support.database import SCHEMA
from tests.support.serving import description

EXAMPLES = 3
"""The number of examples for each operation and generation method."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

schemathesis.serializer.alias("application/x-ndjson", "text/plain")

Ask = Callable[[Case[Any]], Response]


@asynccontextmanager
async def fill(app: FastAPI) -> AsyncIterator[dict[str, str]]:
    """The application open, with things to find; gives the names that paths may name."""
    async with app.router.lifespan_context(app):
        platform = await app.state.service.host()
        docs = await platform.collection("docs", filterable={"level": "number"})
        await docs.add(
            {"_id": f"i{n}", "title": f"Disk {n}", "text": "full log", "level": n, "p": "High"} for n in range(5)
        )
        tickets = await platform.collection("tickets", filterable=TICKET_FILTERABLE)
        await tickets.add([ticket_item({"ticket_id": "MM-1", "title": "Timeout", "priority": "High", "domain": "MM"})])
        hits = await docs.search("disk")
        await platform.recorded()
        yield {"name": "docs", "retrieval_id": str(hits.retrieval_id), "item_id": "i1", "view": "queries"}


@pytest.fixture(scope="module")
def ask(database_url: str) -> Iterator[Ask]:
    """Sends a case to the application, on a loop of its own; paths name existing objects."""
    own_settings = Settings(
        tenant=f"fuzz-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url)
    )
    app = create_app(own_settings, embedder=HashingEmbedder(), insecure_local=True)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(fill(app)) as names:

        async def send(**request: Any) -> Response:
            async with AsyncClient(transport=ASGITransport(app=app, raise_app_exceptions=False)) as client:
                return await client.request(**request)

        def answer(case: Case[Any]) -> Response:
            # Resources that other cases need stay.
            values = {"name": "away"} if case.method.upper() == "DELETE" else names
            case.path_parameters.update({name: values[name] for name in case.path_parameters if name in values})
            request = case.as_transport_kwargs(base_url="http://localhost")
            body = {"content": request["data"]} if "data" in request else {}
            arguments = {
                name: request[name] for name in ("method", "url", "headers", "params", "json") if name in request
            }
            return portal.call(lambda: send(**arguments, **body))

        yield answer


def takes_something(operation: Any) -> bool:
    """Whether a request to the operation can be wrong."""
    return bool(operation.body or operation.path_parameters or operation.query)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_the_service_keeps_to_its_description(mode: GenerationMode, ask: Ask, subtests: pytest.Subtests) -> None:
    """Answers have the form that is described, requests that cannot be served too."""
    schema = schemathesis.openapi.from_dict(description())
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(operations) > 50
    for operation in operations:
        if mode is GenerationMode.POSITIVE or takes_something(operation):
            with subtests.test(operation=operation.label):
                _check(operation.as_strategy(generation_mode=mode), ask)


def _check(cases: SearchStrategy[Case[Any]], ask: Ask) -> None:
    @settings(max_examples=EXAMPLES)
    @given(case=cases)
    def check(case: Case[Any]) -> None:
        case.validate_response(ask(case), checks=CHECKS)

    check()
