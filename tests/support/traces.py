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
class Kept:
    """Spans that ended, in that order."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    @property
    def spans(self) -> list[ReadableSpan]:
        """All of them."""
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of that name."""
        return [one for one in self.spans if one.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only one of that name."""
        [found] = self.named(name)
        return found

    def within(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """Those right below the span."""
        return [one for one in self.spans if one.parent is not None and one.parent.span_id == parent.context.span_id]

    def text(self) -> str:
        """Everything that they say."""
        return "\n".join(json.dumps(json.loads(one.to_json())) for one in self.spans)

    def told(self, name: str) -> dict[str, Any]:
        """The attributes of the only span of that name."""
        return dict(self.one(name).attributes or {})


def keep_spans(monkeypatch: pytest.MonkeyPatch, sampler: Sampler = ALWAYS_ON) -> Kept:
    """Keep the spans until the test ends: the provider of the process can be set only once."""
    kept = Kept()
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(kept.exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return kept
