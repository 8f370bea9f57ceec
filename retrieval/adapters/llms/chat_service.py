"""What a language model's endpoint is asked for, and what its refusals are raised as."""

from __future__ import annotations

from retrieval.adapters.endpoints.refusals import Service
from retrieval.domain.errors import LLMRejectedError, LLMUnavailableError


class RefusedRequestError(LLMRejectedError):
    """The endpoint does not take something about the request: perhaps the form of answer that it asks for."""


CHAT = Service(
    serves="chat completions",
    operation="chat",
    settings="RETRIEVAL_LLM",
    refused_advice="RETRIEVAL_LLM_MODEL",
    unavailable=LLMUnavailableError,
    rejected=LLMRejectedError,
    too_long=LLMRejectedError,
    refused=RefusedRequestError,
)
"""Chat completions."""
