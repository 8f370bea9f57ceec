"""Spans of OpenTelemetry, through its API only; an application that wants them installs an SDK.

Without an SDK, or if a trace is not sampled, a span costs one check. Spans contain names, numbers and paths, but no
queries, results or error messages, which quote queries and results.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from types import TracebackType
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.environment_variables import OTEL_PYTHON_TRACER_PROVIDER
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

SpanContext = AbstractContextManager["Span | None"]
"""A span as a context manager; entering it gives None if it is not recorded."""

_NAMES_PROVIDER = OTEL_PYTHON_TRACER_PROVIDER in os.environ
"""Whether the environment names the provider of spans."""


def tracer() -> Tracer | None:
    """The tracer; None if spans are not recorded."""
    # Without a provider, the library would look for one in the environment at every span.
    if not _NAMES_PROVIDER and getattr(trace, "_TRACER_PROVIDER", trace) is None:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else _tracer_of(provider)


def span(name: str, kind: SpanKind = SpanKind.INTERNAL, parent: Context | None = None) -> SpanContext:
    """A span that replaces the current span, and records the class of an error.

    Its parent is the current span, or ``parent``, such as a client's.
    """
    maker = tracer()
    return _NOTHING if maker is None else Current(maker.start_span(name, parent, kind))


@lru_cache(maxsize=1)
def _tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("retrieval")


_NOTHING: Final = nullcontext()


class Current(AbstractContextManager["Span | None"]):
    """Makes a started span the current one, until the end of the ``with`` block ends it."""

    __slots__ = ("_manager", "_span")

    def __init__(self, span: Span) -> None:
        self._span = span
        # By default, messages and tracebacks of errors would be recorded.
        self._manager = trace.use_span(
            self._span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        )

    def __enter__(self) -> Span | None:
        self._manager.__enter__()
        return self._span if self._span.is_recording() else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            mark_failed(self._span, kind)
        self._manager.__exit__(kind, error, trace)


def mark_failed(span: Span, kind: type[BaseException]) -> None:
    """Mark a span as failed, with the error's class."""
    span.set_attribute("error.type", kind.__name__)
    span.set_status(Status(StatusCode.ERROR))
