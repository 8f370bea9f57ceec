"""Spans: none without a recorder, and never an error's message."""

from __future__ import annotations

import asyncio
import contextvars

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode, get_current_span

from retrieval.adapters.store.deadline import in_background
from retrieval.adapters.store.round_trip import server_of
from retrieval.adapters.tracing import span
from tests.support.traces import record_spans


def test_without_an_exporter_no_span_is_created() -> None:
    """Each span is the same nothing."""
    with span("first") as traced:
        assert traced is None

    assert span("first") is span("second")


def test_an_unsampled_span_has_no_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span that is not sampled reaches no exporter."""
    spans = record_spans(monkeypatch, ALWAYS_OFF)
    with span("search") as traced:
        assert traced is None

    assert spans.finished == []


def test_a_span_within_another_is_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current span is the parent, and is current again afterwards."""
    spans = record_spans(monkeypatch)
    with span("search"), span("embed"):
        pass

    assert [span.name for span in spans.children_of(spans.only("search"))] == ["embed"]
    assert not get_current_span().is_recording()


def test_a_span_that_fails_names_the_error_and_not_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of errors and their causes may quote the query."""
    spans = record_spans(monkeypatch)
    with pytest.raises(ValueError, match="secret"), span("search"):
        raise ValueError("a secret thing")

    search = spans.only("search")
    assert search.status.status_code is StatusCode.ERROR
    assert search.attributes == {"error.type": "ValueError"}
    assert "secret" not in spans.text()


async def test_work_in_the_background_belongs_to_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its span nor its request's context continues into it."""
    spans, request = record_spans(monkeypatch), contextvars.ContextVar("request", default="none")

    async def work() -> str:
        with span("record"):
            return request.get()

    request.set("first")
    with span("search"):
        value = await in_background(work())
        assert await asyncio.create_task(work()) == "first"

    assert value == "none"
    assert [span.parent is None for span in spans.named("record")] == [True, False]


@pytest.mark.parametrize(
    ("url", "attributes"),
    [
        (
            "postgresql://user:hidden@db.example:5433/tickets",
            {"server.address": "db.example", "server.port": "5433", "db.namespace": "tickets"},
        ),
        ("postgresql://user:hid@den@db.example/tickets", {}),
        ("postgresql://user:hid/den@db.example/tickets", {}),
        ("nothing of the kind", {}),
    ],
)
def test_a_server_is_named_without_what_opens_it(url: str, attributes: dict[str, str]) -> None:
    """Host, port and database; of a URL that may show its password anywhere, nothing."""
    assert server_of(url) == {"db.system.name": "postgresql", **attributes}
