"""Keys that let a program in over HTTP, for one tenant and for what their scopes allow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Scope(StrEnum):
    """What a key allows."""

    READ = "read"
    """Search, and read whatever the tenant has."""
    WRITE = "write"
    """Change items."""
    FEEDBACK = "feedback"
    """Say how good hits were."""
    ADMIN = "admin"
    """All of it; and collections, their profiles and settings."""


EVERY_SCOPE = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is stored, without its secret."""

    key_id: str
    """What the key is called by: it stands in its text, in logs and in the list of keys."""
    tenant: str
    name: str
    """What somebody called it: what it is for."""
    scopes: frozenset[Scope]
    requests_per_minute: int | None = None
    """None: as many as the service allows each key."""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
