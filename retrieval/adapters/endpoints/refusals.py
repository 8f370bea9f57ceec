"""What an OpenAI-compatible endpoint's refusals, and answers that cannot be read, mean for the caller."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from openai import APIStatusError

from retrieval.adapters.endpoints.retries import TryAgainError, retry_after
from retrieval.domain.errors import RetrievalError
from retrieval.domain.json_text import JSONSyntaxError, JSONTextError, json_of

_LONGEST_DETAIL = 200
_PASSING = frozenset({408, 409, 425, 429})
_TOO_LONG = re.compile(
    r"context.?length|too (long|large|many)|max\w*.{0,60}tokens|less than \d+ tokens|tokens per request",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What an endpoint is asked for, in messages and as errors."""

    serves: str
    """In the plural: ``embeddings``."""
    operation: str
    """In traces, as OpenTelemetry names it: ``embeddings``, ``chat``."""
    settings: str
    """How the names of its settings begin: ``RETRIEVAL_EMBEDDING``."""
    refused_advice: str
    """What to check where it refuses a request."""
    unavailable: type[RetrievalError]
    """Trying again later may help."""
    rejected: type[RetrievalError]
    """Only a person can change it."""
    too_long: type[RetrievalError]
    """The request has too many tokens."""
    refused: type[RetrievalError]
    """Something about the request itself is not taken."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What messages say about where a request went."""

    service: Service
    host: str
    model: str
    api_key: str = field(repr=False)
    """Never said: it is taken out of whatever the server answers."""

    def refusal(self, error: APIStatusError, now: datetime) -> Exception:
        """The error to raise for an answer with that status; ``now`` is time zone aware.

        ``TryAgainError`` for what passes, else one of the service's.
        """
        status, detail = error.status_code, self._detail(error)
        if status == 429 and error.code == "insufficient_quota":
            return self.service.rejected(f"{self.host}: the key's quota is used up (429); see the account's billing")
        if status in _PASSING or status >= 500:
            wait = retry_after(error.response.headers, now)
            return TryAgainError(f"{self.host} answered {status}{detail}", retry_after_seconds=wait)
        if status == 413 or (status in {400, 422} and _TOO_LONG.search(detail)):
            return self.service.too_long(f"{self.host}: too many tokens for {self.model!r}{detail}")
        if status in {401, 403, 404}:
            return self.service.rejected(self._advice(status, detail))
        return self.service.refused(
            f"{self.host} refused the request ({status}){detail}; check {self.service.refused_advice}"
        )

    def _advice(self, status: int, detail: str) -> str:
        settings = self.service.settings
        if status == 401:
            # The server's own words often quote a part of the key.
            return f"{self.host} refused the key (401); check {settings}_API_KEY"
        if status == 403:
            return f"{self.host}: the key may not use {self.model!r} (403){detail}; allow it or choose another"
        return (
            f"{self.host} has no model {self.model!r} or no {self.service.serves} (404){detail}; check "
            f"{settings}_MODEL and {settings}_BASE_URL (it often ends in /v1)"
        )

    def _detail(self, error: APIStatusError) -> str:
        """The server's own words, on one line and without the key, after a colon; empty when it has none."""
        said = error.body.get("message") if isinstance(error.body, dict) else None
        words = self.without_key(" ".join(said.split())) if isinstance(said, str) else ""
        return f": {words[:_LONGEST_DETAIL].rstrip('.')}" if words else ""

    def without_key(self, words: str) -> str:
        """The words with the key taken out."""
        return words.replace(self.api_key, "[key]") if self.api_key else words


def fields_of(body: bytes, *, whose: str, rejected: type[RetrievalError]) -> dict[str, Any] | None:
    """The members of the JSON object that an answer is; None for an answer that is something else.

    ``whose`` answer it is, for messages. Raises ``TryAgainError`` for a body that ends too soon, and ``rejected`` for
    JSON that is not taken.
    """
    try:
        fields = json_of(body)
    except JSONTextError as error:
        # What begins as JSON and ends too soon was cut on the way; anything else never was an answer.
        begins, ends = body.lstrip().startswith(b"{"), body.rstrip().endswith(b"}")
        if not body.strip() or (begins and (not ends or isinstance(error, JSONSyntaxError))):
            raise TryAgainError(f"{whose} was cut short") from None
        if begins:
            raise rejected(f"{whose} cannot be used: {error}") from None
        return None
    return fields if isinstance(fields, dict) else None
