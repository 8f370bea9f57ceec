"""What an OpenAI-compatible endpoint's refusals mean for the caller."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from openai import APIStatusError

from retrieval.adapters.embedders.retries import TryAgainError, retry_after
from retrieval.domain.errors import EmbedderError, EmbedderRejectedError

_LONGEST_DETAIL = 200
_PASSING = frozenset({408, 409, 425, 429})
_TOO_LONG = re.compile(
    r"context.?length|too (long|large|many)|max\w*.{0,60}tokens|less than \d+ tokens|tokens per request",
    re.IGNORECASE | re.DOTALL,
)


class TooLongError(EmbedderRejectedError):
    """The texts of one request, together or one of them, have too many tokens."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What messages say about where a request went."""

    host: str
    model: str
    api_key: str = field(repr=False)
    """Never said: it is taken out of whatever the server answers."""

    def refusal(self, error: APIStatusError, now: datetime) -> EmbedderError:
        """The error to raise for an answer with that status; ``now`` is time zone aware.

        ``TryAgainError`` for what passes, ``TooLongError`` for too many tokens, ``EmbedderRejectedError`` for
        what only a person can change.
        """
        status, detail = error.status_code, self._detail(error)
        if status == 429 and error.code == "insufficient_quota":
            return EmbedderRejectedError(f"{self.host}: the key's quota is used up (429); see the account's billing")
        if status in _PASSING or status >= 500:
            wait = retry_after(error.response.headers, now)
            return TryAgainError(f"{self.host} answered {status}{detail}", retry_after_seconds=wait)
        if status == 413 or (status in {400, 422} and _TOO_LONG.search(detail)):
            return TooLongError(f"{self.host}: too many tokens for {self.model!r}{detail}")
        return EmbedderRejectedError(self._advice(status, detail))

    def _advice(self, status: int, detail: str) -> str:
        if status == 401:
            # The server's own words often quote a part of the key.
            return f"{self.host} refused the key (401); check RETRIEVAL_EMBEDDING_API_KEY"
        if status == 403:
            return f"{self.host}: the key may not use {self.model!r} (403){detail}; allow it or choose another"
        if status == 404:
            return (
                f"{self.host} has no model {self.model!r} or no embeddings (404){detail}; check "
                "RETRIEVAL_EMBEDDING_MODEL and RETRIEVAL_EMBEDDING_BASE_URL (it often ends in /v1)"
            )
        return (
            f"{self.host} refused the request ({status}){detail}; check RETRIEVAL_EMBEDDING_MODEL "
            "and RETRIEVAL_EMBEDDING_DIMENSIONS"
        )

    def _detail(self, error: APIStatusError) -> str:
        """The server's own words, on one line and without the key, after a colon; empty when it has none."""
        said = error.body.get("message") if isinstance(error.body, dict) else None
        words = " ".join(said.split()) if isinstance(said, str) else ""
        if self.api_key:
            words = words.replace(self.api_key, "[key]")
        return f": {words[:_LONGEST_DETAIL].rstrip('.')}" if words else ""
