"""Limits of the calls to endpoints."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest

from retrieval.adapters.embedders.openai import OpenAIEmbedder
from retrieval.adapters.endpoints.rerank import EndpointReranker
from retrieval.adapters.llms.openai import OpenAILLM
from retrieval.domain.errors import ConfigurationError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout_seconds", -1.0),
        ("timeout_seconds", math.nan),
        ("timeout_seconds", "x"),
        ("max_attempts", 0),
        ("max_concurrency", 0),
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        partial(OpenAIEmbedder, api_key="k"),
        partial(OpenAILLM, model="m", api_key="k"),
        partial(EndpointReranker, "cohere", model="m", api_key="k"),
    ],
    ids=["embedder", "language model", "reranker"],
)
def test_limits_that_allow_no_call_are_refused(make: Callable[..., object], name: str, value: object) -> None:
    """A caller that may make no request at a time would wait forever."""
    with pytest.raises(ConfigurationError, match=f"{name} is .* it must be a number above 0"):
        make(**{name: value})
