"""Spans of OpenTelemetry, through its API only; an application that wants them installs an SDK.

Without an SDK, or if a trace is not sampled, a span costs one check. Spans contain names, numbers and paths, but no
queries, results or error messages, which quote queries and results.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
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
    return _NOTHING if maker is None else _current(maker.start_span(name, parent, kind))


@lru_cache(maxsize=1)
def _tracer_of(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("retrieval")


_NOTHING: Final = nullcontext()


@contextmanager
def _current(span: Span) -> Iterator[Span | None]:
    """Make a started span the current one, and end it."""
    # By default, messages and tracebacks of errors would be recorded.
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span if span.is_recording() else None
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
