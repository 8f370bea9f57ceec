"""Why the service does not serve a request at all: who asks, how often, or that it was asked before.

    RefusalError
    ├── AuthenticationError         401: no key, or none that lets in
    ├── ForbiddenError              403: the key lacks a scope
    ├── RateLimitedError            429: too many requests
    ├── IdempotencyMismatchError    422: another request bore that Idempotency-Key
    └── IdempotencyConflictError    409: that request is being answered, or its answer was not kept

Each carries the ``status`` of its answer and the ``headers`` that go with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from retrieval.domain.api_key import Scope
from retrieval.domain.errors import RetrievalError


class RefusalError(RetrievalError):
    """The service does not serve the request."""

    status: ClassVar[int] = 400

    def __init__(self, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers: dict[str, str] = dict(headers or {})


class AuthenticationError(RefusalError):
    """No valid API key came with the request; what is wrong with one is not told."""

    status = 401

    def __init__(self) -> None:
        super().__init__(
            "a valid API key is needed: send it as Authorization: Bearer KEY; "
            "make one with: retrieval keys create NAME",
            headers={"WWW-Authenticate": 'Bearer realm="retrieval"'},
        )


class ForbiddenError(RefusalError):
    """The key is known and does not allow this."""

    status = 403

    def __init__(self, scope: Scope) -> None:
        challenge = f'Bearer realm="retrieval", error="insufficient_scope", scope="{scope}"'
        super().__init__(
            f"this needs a key with the scope {scope.value!r}; make one with: "
            f"retrieval keys create NAME --scope {scope.value}",
            headers={"WWW-Authenticate": challenge},
        )
        self.scope = scope


class RateLimitedError(RefusalError):
    """Too many requests; ``wait_seconds`` is how long to wait, and the header ``Retry-After`` says so too."""

    status = 429

    def __init__(self, message: str, wait_seconds: float, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, headers={"Retry-After": str(max(1, math.ceil(wait_seconds))), **(headers or {})})
        self.wait_seconds = wait_seconds


class IdempotencyMismatchError(RefusalError):
    """Another request was made with the same ``Idempotency-Key``."""

    status = 422

    def __init__(self) -> None:
        super().__init__("another request bore this Idempotency-Key within a day; choose a new key for a new request")


class IdempotencyConflictError(RefusalError):
    """The request is being answered to somebody else, or was answered and the answer is not kept."""

    status = 409
