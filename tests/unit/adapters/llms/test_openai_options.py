"""Options of the OpenAI language model: what cannot work is refused before any request."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.adapters.llms.openai import OpenAILLM
from retrieval.domain.errors import ConfigurationError


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_answer_bytes": 0}, "max_answer_bytes"),
        ({"temperature": 3}, "temperature"),
        ({"model": ""}, "RETRIEVAL_LLM_MODEL"),
        ({"model": "x" * 201}, "RETRIEVAL_LLM_MODEL"),
        ({"model": 5}, "RETRIEVAL_LLM_MODEL"),
        ({"timeout_seconds": "x"}, "timeout_seconds"),
        ({"temperature": "x"}, "temperature"),
        ({"base_url": "http://[::1"}, "RETRIEVAL_LLM_BASE_URL"),
        ({"base_url": 5}, "RETRIEVAL_LLM_BASE_URL"),
        ({"base_url": "https://"}, "RETRIEVAL_LLM_BASE_URL"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], said: str) -> None:
    """The message names what to change and never holds the key."""
    usual: dict[str, Any] = {"model": "small", "api_key": "sk-secret"}
    with pytest.raises(ConfigurationError, match=said) as caught:
        OpenAILLM(**{**usual, **changes})
    assert "sk-secret" not in str(caught.value)
