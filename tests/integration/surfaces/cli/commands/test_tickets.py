"""``retrieval tickets``, from its arguments to its output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import retrieval.sync
from retrieval import Settings
from retrieval.apps.tickets import TICKET_FILTERABLE, PreviewConfig, RetrievalRequest, ticket_item
from retrieval.domain.errors import ConfigurationError, InvalidRequestError
from retrieval.surfaces.cli.app import app
from retrieval.sync import RetrievalService

TICKETS: list[dict[str, Any]] = [
    {"ticket_id": "MM-1", "title": "Database connection timeout", "priority": "High", "resolution_time_hours": 4.5,
     "domain": "MM", "created": "2024-05-01T08:00Z"},
    {"ticket_id": "MM-2", "title": "Connection pool exhausted", "priority": "Low", "resolution_time_hours": 90,
     "domain": "MM", "created": "2024-05-02T08:00Z"},
    {"ticket_id": "CIW-1", "title": "Report database timeout", "priority": "Critical", "domain": "CIW"},
]  # fmt: skip


def call(*words: str) -> Result:
    """The result of ``retrieval tickets`` with these arguments."""
    return CliRunner().invoke(app, ["tickets", *words])


def json_output(*words: str) -> Any:
    """The JSON output of the program."""
    result = call(*words, "--json")
    assert result.exception is None, result.exception
    return json.loads(result.output)


@pytest.fixture
def service(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[RetrievalService]:
    """The service in Python, with the history stored, on what the program finds by its environment."""
    for name, value in {"DATABASE_URL": database_url, "TENANT": settings.tenant, "EMBEDDER": "hashing"}.items():
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    monkeypatch.setenv("RETRIEVAL_SCHEMA", settings.database_schema)
    with retrieval.sync.connect(database_url, settings=settings.model_copy(update={"embedder": "hashing"})) as platform:
        platform.collection("tickets", filterable=TICKET_FILTERABLE).add([ticket_item(ticket) for ticket in TICKETS])
        yield RetrievalService(platform=platform)


def test_the_program_answers_as_the_service_does(service: RetrievalService) -> None:
    """Search, preview and figures: the same fields with the same values."""
    request: dict[str, Any] = {"title": "Connection timeout", "description": "At peak hours", "domain_filter": "MM"}
    weights: dict[str, Any] = {"vector_weight": 0.6, "priority_weights": {"High": 0.9}}
    words = ("--description", "At peak hours", "--domain", "MM", "--vector-weight", "0.6")
    wider = ("--candidates", "50")
    more = (*wider, "--priority-weight", "High=0.9", "--exclude", "MM-2", "--as-of", "2024-05-03", "--top-k", "5")
    narrowed: dict[str, Any] = {
        **weights,
        "top_k": 5,
        "candidates": 50,
        "as_of": "2024-05-03T00:00:00Z",
        "exclude_ids": ["MM-2"],
    }
    response = service.process(RetrievalRequest(**request, **narrowed))
    assert [ticket.ticket_id for ticket in response.similar_tickets] == ["MM-1"]
    assert json_output("search", "Connection timeout", *words, *more) == response.model_dump(mode="json")
    preview = service.preview_search("Connection timeout", "At peak hours", "MM", PreviewConfig(**narrowed))
    assert json_output("preview", "Connection timeout", *words, *more) == preview.model_dump(mode="json")
    assert json_output("stats") == service.get_index_stats()
    assert json_output("health") == service.health_check()


@pytest.mark.usefixtures("service")
def test_tickets_are_printed_for_people() -> None:
    """Two lines a ticket, with the parts of its score; a preview shows what moves."""
    lines = call("search", "Database connection timeout", "--preset", "semantic_match", "-n", "1").output.splitlines()
    assert lines[0].startswith(" 1. 0.")
    assert lines[0].endswith("  MM-1  Database connection timeout")
    assert lines[1].endswith("(High, 4.5 h, MM)")
    assert lines[2] == "1 ticket of 3 · similarity 0.9, metadata 0.1"
    printed = call("preview", "timeout", "--preset", "balanced", "--preset", "priority_focused").output.splitlines()
    assert [line.split(" ")[0] for line in printed if not line.startswith(" ")] == ["balanced", "priority_focused"]
    assert ["total", "vectors", "3"] in [line.split() for line in call("stats").output.splitlines()]


@pytest.mark.parametrize(
    ("words", "said_of_it"),
    [
        (["--top-k", "101"], "top_k: must be 100 or less"),
        (["--vector-weight", "1.9"], "vector_weight: must be 1 or less"),
        (["--candidates", "0"], "candidates: must be 1 or more"),
        (["--priority-weight", "High"], "cannot read --priority-weight 'High': write NAME=W"),
        (["--priority-weight", "High=2"], "priority_weights: High: must be 1 or less"),
        (["--preset", "fast"], "here are: semantic_match"),
    ],
)
def test_invalid_arguments_are_refused_before_a_database_is_opened(words: list[str], said_of_it: str) -> None:
    """One line names the fault."""
    refused = call("search", "timeout", *words).exception
    assert isinstance(refused, InvalidRequestError)
    assert said_of_it in str(refused)


@pytest.mark.usefixtures("service")
def test_a_missing_collection_is_reported_with_the_command_that_creates_it() -> None:
    """``search`` prints an error, ``health`` ends with exit code 1."""
    assert isinstance(call("stats", "--collection", "none").exception, ConfigurationError)
    health = call("health", "--collection", "none")
    assert (health.exit_code, "unhealthy" in health.output) == (1, True)
