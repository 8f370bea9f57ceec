"""Calls that make, list and revoke the API keys of the platform's tenant."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from retrieval.adapters.store.database import Database
from retrieval.domain.errors import UnknownKeyError
from retrieval.settings import Settings

if TYPE_CHECKING:
    from retrieval.domain.api_key import ApiKey, NewApiKey


class KeyCalls(ABC):
    """The calls about API keys, for the platform to inherit; see docs/how-to/serve.md."""

    settings: Settings

    @property
    @abstractmethod
    def database(self) -> Database:
        """The open database."""

    @property
    @abstractmethod
    def tenant_id(self) -> int:
        """The tenant's number in the database."""

    @property
    @abstractmethod
    def now(self) -> datetime:
        """The time of day, in UTC."""

    async def create_key(
        self,
        name: str,
        *,
        scopes: Iterable[str] = ("read",),
        requests_per_minute: int | None = None,
        feedback_cap: int | None = None,
        expires_at: datetime | None = None,
    ) -> NewApiKey:
        """Make a key that lets a program in over HTTP, as this tenant; its ``text`` is told this once.

        ``name`` says what it is for. ``scopes`` are of ``read``, ``write``, ``feedback``, ``admin`` (all of them).
        ``requests_per_minute`` is 1 to 1,000,000, None as many as the service allows each key. ``feedback_cap``
        is how many of its events of feedback on one item count in a day (UTC), 1 to 1,000,000; None: 100 of a key with
        the scope ``feedback`` alone, 1,000 of any other. ``expires_at`` has a time zone; None: it is good until it is
        revoked. Raises ``InvalidRequestError``.
        """
        from retrieval.adapters.store.installation.access import add_key
        from retrieval.domain.api_key import (
            RANDOM_BYTES,
            ApiKey,
            NewApiKey,
            checked_expiry,
            checked_feedback_cap,
            checked_key_name,
            checked_per_minute,
            checked_scopes,
            key_hash,
            key_id_of,
            key_text,
        )

        allowed = checked_scopes(scopes)
        text = key_text(secrets.token_bytes(RANDOM_BYTES))
        key = ApiKey(
            key_id=key_id_of(text) or "",
            tenant=self.settings.tenant,
            name=checked_key_name(name),
            scopes=allowed,
            requests_per_minute=checked_per_minute(requests_per_minute),
            feedback_cap=checked_feedback_cap(feedback_cap, allowed),
            created_at=self.now,
            expires_at=checked_expiry(expires_at, self.now),
        )
        return NewApiKey(text, await add_key(self.database, self.tenant_id, key, key_hash(text)))

    async def keys(self) -> list[ApiKey]:
        """The tenant's keys, without their secrets; the oldest first, with those that are revoked or have expired."""
        from retrieval.adapters.store.installation.access import keys_of

        return await keys_of(self.database, self.tenant_id, self.settings.tenant)

    async def revoke_key(self, key_id: str) -> ApiKey:
        """Let a key in no more, for good; a service takes up to 5 seconds to hear of it.

        ``key_id`` is the key's id, or its whole text. Raises ``UnknownKeyError``, also for another tenant's.
        """
        from retrieval.adapters.store.installation.access import revoke_key
        from retrieval.domain.api_key import is_key_id, key_id_of

        wanted = key_id_of(key_id) or key_id
        revoked = None
        if is_key_id(wanted):
            revoked = await revoke_key(self.database, self.tenant_id, self.settings.tenant, wanted, self.now)
        if revoked is None:
            # What is no id may be a secret with a slip in it: it is not repeated.
            named = f"API key {wanted}" if is_key_id(wanted) else "such API key"
            raise UnknownKeyError(f"there is no {named}; see those there are with: retrieval keys list")
        return revoked
