"""API keys: their text, their stored form, and the limits of a new one."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from retrieval.domain.api_key import (
    RANDOM_BYTES,
    ApiKey,
    NewApiKey,
    Scope,
    checked_expiry,
    checked_key_name,
    checked_per_minute,
    checked_scopes,
    is_key,
    key_hash,
    key_id_of,
    key_text,
)
from retrieval.domain.errors import InvalidRequestError

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KEY = ApiKey(key_id="a" * 12, tenant="acme", name="web", scopes=frozenset({Scope.READ}), created_at=NOW)
TEXT = key_text(bytes(range(RANDOM_BYTES)))


def test_the_text_of_a_key_holds_its_id_and_its_secret() -> None:
    """It has a fixed prefix for secret scanners, and no character that a shell or a header changes."""
    assert re.fullmatch(r"rtv_[a-z2-7]{12}_[a-z2-7]{52}", TEXT)
    assert key_id_of(TEXT) == TEXT.split("_")[1]


def test_every_byte_of_the_secret_counts() -> None:
    """Two keys that differ in one random byte of the secret have the same id and different texts."""
    for place in range(8, RANDOM_BYTES):
        randomness = bytearray(range(RANDOM_BYTES))
        randomness[place] ^= 1
        other = key_text(bytes(randomness))
        assert key_id_of(other) == key_id_of(TEXT)
        assert other != TEXT
        assert not is_key(other, key_hash(TEXT))


@pytest.mark.parametrize(
    "text", ["", "rtv_", "secret", TEXT[:-1], TEXT + "a", TEXT.upper(), " " + TEXT, TEXT + "\n", "é\ud800", TEXT[4:]]
)
def test_an_invalid_key_has_no_id_and_matches_none(text: str) -> None:
    """A header may have any content, and none raises an error."""
    assert key_id_of(text) is None
    assert not is_key(text, key_hash(TEXT))


def test_the_hash_knows_the_key_and_does_not_hold_it() -> None:
    """The stored hash has a fixed length, and does not contain the text."""
    assert is_key(TEXT, key_hash(TEXT))
    assert len(key_hash(TEXT)) == 32


def test_too_little_randomness_makes_no_key() -> None:
    """A short secret could be guessed."""
    with pytest.raises(ValueError, match="40 random bytes"):
        key_text(b"short")


def test_a_new_key_does_not_show_its_text_by_accident() -> None:
    """Its representation in logs and tracebacks has no secret."""
    assert TEXT not in repr(NewApiKey(TEXT, KEY))


@pytest.mark.parametrize(
    ("key", "state"),
    [
        (KEY, "active"),
        (replace(KEY, expires_at=NOW + timedelta(seconds=1)), "active"),
        (replace(KEY, expires_at=NOW), "expired"),
        (replace(KEY, revoked_at=NOW, expires_at=NOW), "revoked"),
    ],
)
def test_a_key_is_active_until_it_expires_or_is_revoked(key: ApiKey, state: str) -> None:
    """It is expired at exactly that moment."""
    assert key.state(NOW) == state


def test_a_key_as_json_has_its_scopes_in_order() -> None:
    """The list is the same every time."""
    described = replace(KEY, scopes=frozenset(Scope)).as_dict()
    assert described["scopes"] == ["read", "write", "feedback", "admin"]
    assert (described["created_at"], described["revoked_at"]) == ("2026-03-01T00:00:00+00:00", None)


def test_scopes_are_taken_by_name() -> None:
    """One by itself too; a scope twice is one."""
    assert checked_scopes(["read", "feedback", "read"]) == {Scope.READ, Scope.FEEDBACK}
    assert checked_scopes("admin") == {Scope.ADMIN}


@pytest.mark.parametrize("scopes", [[], ["Read"], ["read", "everything"], "re"])
def test_an_unknown_scope_is_refused_with_the_existing_ones(scopes: list[str]) -> None:
    """The message lists them."""
    with pytest.raises(InvalidRequestError, match="read, write, feedback, admin"):
        checked_scopes(scopes)


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "two\nlines", "\x1b[31mred"])
def test_a_name_that_says_nothing_or_too_much_is_refused(name: str) -> None:
    """It appears in lists and logs."""
    with pytest.raises(InvalidRequestError, match="1 to 200 printable"):
        checked_key_name(name)


@pytest.mark.parametrize("requests", [0, -1, 1_000_001])
def test_a_rate_outside_its_range_is_refused(requests: int) -> None:
    """A key without a rate has the service's."""
    with pytest.raises(InvalidRequestError, match="1 to 1,000,000"):
        checked_per_minute(requests)
    assert checked_per_minute(None) is None


@pytest.mark.parametrize(
    ("expires_at", "why"),
    [
        (NOW, "expired already"),
        (datetime(2027, 1, 1), "time zone"),  # noqa: DTZ001 - that is what is refused
        (datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))), "years 1 to 9999"),
        ("2027-01-01", "must be a datetime"),
    ],
)
def test_an_expiry_that_is_over_or_cannot_be_stored_is_refused(expires_at: datetime, why: str) -> None:
    """A key that never lets in is a slip."""
    with pytest.raises(InvalidRequestError, match=why):
        checked_expiry(expires_at, NOW)
