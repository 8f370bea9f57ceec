"""Keys of programs for the HTTP service: ``rtv_<key_id>_<secret>``, of which only the SHA-256 is stored."""

from __future__ import annotations

import hmac
import re
from base64 import b32encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from retrieval.domain.checks import checked_choice, checked_texts, checked_time, checked_whole
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.serialization import Serializable


class Scope(StrEnum):
    """A permission of a key."""

    READ = "read"
    """Search, and read all data of the tenant."""
    WRITE = "write"
    """Change items."""
    FEEDBACK = "feedback"
    """Give feedback."""
    ADMIN = "admin"
    """All of these, and change collections, their profiles and settings."""


EVERY_SCOPE = frozenset(Scope)

RANDOM_BYTES = 40
"""The random bytes of a key's text: 8 of id, 32 of secret."""

MOST_PER_MINUTE = 1_000_000
MOST_FEEDBACK_CAP = 1_000_000

_FEEDBACK_ALONE = frozenset({Scope.FEEDBACK})
_CAP_OF_A_PROGRAM, _CAP_OF_A_PAGE = 1000, 100
_LONGEST_NAME = 200
_TEXT = re.compile(r"rtv_([a-z2-7]{12})_[a-z2-7]{52}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Serializable):
    """A key as it is stored, without its secret."""

    key_id: str
    """The key's public name: it is in the key's text, in logs and in the list of keys."""
    tenant: str
    name: str
    """The purpose of the key, as its maker named it."""
    scopes: frozenset[Scope]
    requests_per_minute: int | None = None
    """None: the service's limit for each key."""
    feedback_cap: int = _CAP_OF_A_PROGRAM
    """The number of the key's events of feedback on one item that count in a day (UTC)."""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """The time of the last request with the key, to the minute."""

    def state(self, now: datetime) -> str:
        """``active``, ``expired`` or ``revoked``."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    @property
    def may_name_actors(self) -> bool:
        """True unless its only scope is ``feedback``: everybody who opens a web page has the page's key."""
        return self.scopes != _FEEDBACK_ALONE

    @property
    def may_send_feedback(self) -> bool:
        """True if the key may send feedback: the cap of other keys limits nothing."""
        return bool(self.scopes & {Scope.FEEDBACK, Scope.ADMIN})

    @property
    def actor(self) -> str:
        """The actor of feedback with a key that may not name actors, if no search names the actor."""
        return f"key:{self.key_id}"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; times are ISO 8601."""
        scopes = [scope.value for scope in Scope if scope in self.scopes]
        cap = self.feedback_cap if self.may_send_feedback else None
        return {**Serializable.as_dict(self), "scopes": scopes, "feedback_cap": cap}


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request. The tenant comes from the key, never from the request."""

    tenant: str
    scopes: frozenset[Scope]
    key_id: str = ""
    """Empty where the service was started without keys."""
    key: ApiKey | None = None

    def may(self, scope: Scope) -> bool:
        """True if the caller has that scope, or ``admin``."""
        return not self.scopes.isdisjoint({scope, Scope.ADMIN})


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A new key with its text, which cannot be shown again."""

    text: str = field(repr=False)
    key: ApiKey


def key_text(randomness: bytes) -> str:
    """The text of a new key, of ``RANDOM_BYTES`` that nobody can guess."""
    if len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a key is made of {RANDOM_BYTES} random bytes, not {len(randomness)}")
    return f"rtv_{_letters(randomness[:8])[:12]}_{_letters(randomness[8:])}"


def key_id_of(text: str) -> str | None:
    """The id in the text of a key; None for any other text."""
    match = _TEXT.fullmatch(text)
    return match[1] if match else None


def is_key_id(text: str) -> bool:
    """True if the text can be the id of a key."""
    return re.fullmatch(r"[a-z2-7]{12}", text) is not None


def key_hash(text: str) -> bytes:
    """The SHA-256 of a key's text; nothing else of the secret is stored."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_key(text: str, stored_hash: bytes) -> bool:
    """True if the text is that of the key; the time of the comparison does not depend on the text."""
    return hmac.compare_digest(key_hash(text), stored_hash)


def checked_key_name(name: str) -> str:
    """The name. Raises ``InvalidRequestError`` unless it has 1 to 200 printable characters."""
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidRequestError(f"a key's name says what it is for, in 1 to {_LONGEST_NAME} printable characters")
    return name


def checked_scopes(scopes: Iterable[str]) -> frozenset[Scope]:
    """The scopes of those names, at least one. Raises ``InvalidRequestError``."""
    names = [scopes] if isinstance(scopes, str) else checked_texts("scopes", scopes, "['read']")
    if not names:
        raise InvalidRequestError(f"a key without a scope allows nothing; its scopes are some of {', '.join(Scope)}")
    return frozenset(checked_choice("scope", name, Scope) for name in names)


def checked_per_minute(requests: int | None) -> int | None:
    """The number of requests. Raises ``InvalidRequestError`` below 1 and above ``MOST_PER_MINUTE``."""
    return None if requests is None else checked_whole("requests_per_minute", requests, 1, MOST_PER_MINUTE)


def checked_feedback_cap(events: int | None, scopes: frozenset[Scope]) -> int:
    """The number, from 1; None: 100 for the scope ``feedback`` alone, else 1,000. Raises ``InvalidRequestError``."""
    if events is None:
        return _CAP_OF_A_PAGE if scopes == _FEEDBACK_ALONE else _CAP_OF_A_PROGRAM
    return checked_whole("feedback_cap", events, 1, MOST_FEEDBACK_CAP)


def checked_expiry(expires_at: datetime | None, now: datetime) -> datetime | None:
    """The time. Raises ``InvalidRequestError`` for a time that cannot be stored, or is in the past."""
    if expires_at is not None and checked_time("expires_at", expires_at) <= now:
        raise InvalidRequestError("the key would be expired already; name a time in the future")
    return expires_at


def _letters(data: bytes) -> str:
    """The data in base32, in lower case: a double click selects it whole, and no header or shell changes it."""
    return b32encode(data).decode().rstrip("=").lower()
