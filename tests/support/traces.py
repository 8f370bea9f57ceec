"""The spans of one test, kept in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler


@dataclass
class Spans:
    """The finished spans, in the order of their ends."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    @property
    def finished(self) -> list[ReadableSpan]:
        """All finished spans."""
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name."""
        return [span for span in self.finished if span.name == name]

    def only(self, name: str) -> ReadableSpan:
        """The only span of this name."""
        [span] = self.named(name)
        return span

    def children_of(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """The direct children of the span."""
        return [
            span for span in self.finished if span.parent is not None and span.parent.span_id == parent.context.span_id
        ]

    def text(self) -> str:
        """All spans as JSON, a line each."""
        return "\n".join(json.dumps(json.loads(span.to_json())) for span in self.finished)

    def attributes_of(self, name: str) -> dict[str, Any]:
        """The attributes of the only span of this name."""
        return dict(self.only(name).attributes or {})


def record_spans(monkeypatch: pytest.MonkeyPatch, sampler: Sampler = ALWAYS_ON) -> Spans:
    """Record the spans until the test ends: the provider of the process can be set only once."""
    spans = Spans()
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(spans.exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return spans
