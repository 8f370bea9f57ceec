"""A profile as a collection keeps it: a version that never changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval.domain.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """One version."""

    version: int
    """From 1."""
    profile: Profile
    note: str
    """What was said of it when it was stored; ``the default`` of the first one."""
    created_at: datetime
    is_active: bool
    """Whether the collection searches with it."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; times are ISO 8601."""
        return {
            "version": self.version,
            "profile": self.profile.as_dict(),
            "note": self.note,
            "created_at": self.created_at.isoformat(),
            "is_active": self.is_active,
        }
