"""What has been asked of an endpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Counts since the embedder or language model was made."""

    requests: int = 0
    """Requests sent, repeated ones included."""
    tokens: int = 0
    """Tokens as the provider counted them in its answers; one that does not count adds nothing."""
    retries: int = 0
    """How many of the requests repeated one that had failed."""
