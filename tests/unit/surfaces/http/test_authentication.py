"""The key of a request, with stored keys and a clock of the test."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from starlette.datastructures import Headers

from retrieval.adapters.store.installation.access import StoredKey
from retrieval.domain.api_key import RANDOM_BYTES, ApiKey, Scope, key_hash, key_id_of, key_text
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.surfaces.http.authentication import (
    REMEMBERED_SECONDS,
    KeyGate,
    sent_key,
)
from retrieval.surfaces.http.problems import AuthenticationError

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TEXT = key_text(bytes(RANDOM_BYTES))
WRONG_SECRET = TEXT[:-1] + "q"


def text_of(number: int) -> str:
    """The text of some other key."""
    return key_text((number << 8).to_bytes(8, "big") + bytes(RANDOM_BYTES - 8))


@dataclass
class Keys:
    """The stored keys, the number of look-ups, and the time."""

    stored: dict[str, StoredKey] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    used: list[tuple[str, datetime]] = field(default_factory=list)
    seconds: float = 0.0
    error: Exception | None = None
    waits: asyncio.Event | None = None
    asked_first: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, text: str, **changes: object) -> StoredKey:
        """Store a key with these changes."""
        key = ApiKey(key_id=key_id_of(text) or "", tenant="acme", name="web", scopes=frozenset({Scope.READ}))
        self.stored[key.key_id] = StoredKey(replace(key, **changes), 1, key_hash(text))  # type: ignore[arg-type]
        return self.stored[key.key_id]

    def gate(self, most_remembered: int = 10) -> KeyGate:
        """A gate for these keys."""
        return KeyGate(
            self.find, self.note, per_minute=60, clock=lambda: self.seconds, now=self.now,
            most_remembered=most_remembered,
        )  # fmt: skip

    async def find(self, key_id: str) -> StoredKey | None:
        """As the store does it."""
        self.asked.append(key_id)
        self.asked_first.set()
        if self.waits is not None:
            await self.waits.wait()
        if self.error is not None:
            raise self.error
        return self.stored.get(key_id)

    async def note(self, key: StoredKey, at: datetime) -> None:
        """As the store does it."""
        if self.error is not None:
            raise self.error
        self.used.append((key.key.key_id, at))

    def now(self) -> datetime:
        """The time of day."""
        return NOW + timedelta(seconds=self.seconds)


@pytest.fixture
def keys() -> Keys:
    """With one key."""
    store = Keys()
    store.add(TEXT)
    return store


@pytest.fixture
async def gate(keys: Keys) -> AsyncIterator[KeyGate]:
    """Over those keys."""
    opened = keys.gate()
    yield opened
    await opened.aclose()


async def key_of(gate: KeyGate, text: str) -> ApiKey:
    """The key of a request that bears the text."""
    return await gate.key(Headers({"authorization": f"Bearer {text}"}))


@pytest.mark.parametrize(
    ("authorization", "api_key", "given"),
    [
        ("Bearer rtv_x", None, "rtv_x"),
        ("bearer  rtv_x ", None, "rtv_x"),
        (None, "rtv_x", "rtv_x"),
        ("Bearer rtv_x", "rtv_x", "rtv_x"),
        ("", "rtv_x", "rtv_x"),
        ("Bearer rtv_x", "rtv_y", ""),
        ("Basic rtv_x", "rtv_x", ""),
        ("rtv_x", None, ""),
        ("Bearer", None, ""),
        (None, "", ""),
        (None, None, ""),
    ],
)
def test_a_key_stands_in_either_header(authorization: str | None, api_key: str | None, given: str) -> None:
    """If two headers disagree, or hold something else, the caller is unknown."""
    headers = {"authorization": authorization, "x-api-key": api_key}
    assert sent_key(Headers({name: value for name, value in headers.items() if value is not None})) == given


async def test_a_key_lets_in_as_what_it_was_made_for(gate: KeyGate) -> None:
    """Its tenant and its scopes come only from the database."""
    key = await key_of(gate, TEXT)
    assert key.tenant == "acme"
    assert key.scopes == {Scope.READ}


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", {}),
        ("rtv_nonsense", {}),
        ("é", {}),
        (WRONG_SECRET, {}),
        (text_of(1), {}),
        (TEXT, {"revoked_at": NOW}),
        (TEXT, {"expires_at": NOW}),
    ],
)
async def test_every_invalid_key_gets_the_same_answer(
    keys: Keys, gate: KeyGate, text: str, changes: dict[str, object]
) -> None:
    """Missing, malformed, guessed, unknown, revoked, expired: 401, one text, and nothing of the request."""
    keys.add(TEXT, **changes)
    with pytest.raises(AuthenticationError) as refused:
        await key_of(gate, text)
    assert str(refused.value) == str(AuthenticationError())
    assert (refused.value.status, refused.value.headers) == (401, {"WWW-Authenticate": 'Bearer realm="retrieval"'})


async def test_a_key_is_looked_up_once_in_five_seconds(keys: Keys, gate: KeyGate) -> None:
    """A revoked key works for at most that time; an unknown key is not looked up again either."""
    await key_of(gate, TEXT)
    for _ in range(3):
        await key_of(gate, TEXT)
        with pytest.raises(AuthenticationError):
            await key_of(gate, text_of(1))
    assert len(keys.asked) == 2
    keys.add(TEXT, revoked_at=NOW)
    await key_of(gate, TEXT)
    keys.seconds = REMEMBERED_SECONDS
    with pytest.raises(AuthenticationError):
        await key_of(gate, TEXT)


async def test_a_key_made_a_moment_ago_gets_in(keys: Keys, gate: KeyGate) -> None:
    """The negative result is forgotten as fast."""
    with pytest.raises(AuthenticationError):
        await key_of(gate, text_of(1))
    keys.add(text_of(1))
    keys.seconds = REMEMBERED_SECONDS
    assert (await key_of(gate, text_of(1))).key_id == key_id_of(text_of(1))


async def test_a_key_expires_at_its_moment_although_it_is_remembered(keys: Keys, gate: KeyGate) -> None:
    """The clock is looked at for each request."""
    keys.add(TEXT, expires_at=NOW + timedelta(seconds=2))
    await key_of(gate, TEXT)
    keys.seconds = 2
    with pytest.raises(AuthenticationError):
        await key_of(gate, TEXT)
    assert len(keys.asked) == 1


async def test_requests_at_the_same_moment_share_one_look_up(keys: Keys, gate: KeyGate) -> None:
    """A cancelled caller does not end the look-up for the others."""
    keys.waits = asyncio.Event()
    waiting = [asyncio.create_task(key_of(gate, TEXT)) for _ in range(5)]
    await keys.asked_first.wait()
    waiting[0].cancel()
    keys.waits.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert {key.key_id for key in results[1:] if isinstance(key, ApiKey)} == {key_id_of(TEXT)}
    assert len(keys.asked) == 1


async def test_without_a_database_no_key_is_called_wrong(keys: Keys, gate: KeyGate) -> None:
    """The error of the database comes through, and the next request asks again."""
    keys.error = DatabaseUnreachableError("away")
    with pytest.raises(DatabaseUnreachableError):
        await key_of(gate, TEXT)
    keys.error = None
    assert (await key_of(gate, TEXT)).key_id == key_id_of(TEXT)


async def test_remembered_keys_are_bounded(keys: Keys) -> None:
    """The id that was not sent for longest is dropped first: unknown ids push out no key in use."""
    gate = keys.gate(most_remembered=3)
    for text in (TEXT, *map(text_of, (1, 2)), TEXT, *map(text_of, (3, 4)), TEXT, text_of(1)):
        with contextlib.nullcontext() if text == TEXT else pytest.raises(AuthenticationError):
            await key_of(gate, text)
    assert keys.asked == [key_id_of(text) for text in (TEXT, *map(text_of, (1, 2, 3, 4, 1)))]


async def test_the_use_of_a_key_is_noted_once_a_minute_behind_the_request(keys: Keys, gate: KeyGate) -> None:
    """Refused requests are not noted; closing waits for running updates."""
    for keys.seconds in (0, 1, 59, 60, 61):
        await key_of(gate, TEXT)
    with pytest.raises(AuthenticationError):
        await key_of(gate, WRONG_SECRET)
    await gate.aclose()
    assert keys.used == [(key_id_of(TEXT), NOW), (key_id_of(TEXT), NOW + timedelta(minutes=1))]


async def test_a_use_that_cannot_be_noted_does_not_keep_anybody_out(
    keys: Keys, gate: KeyGate, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the error, with the key's id."""
    caplog.set_level(logging.INFO)
    await key_of(gate, TEXT)
    keys.error = DatabaseUnreachableError("away")
    await gate.aclose()
    assert f"API key {key_id_of(TEXT)} was not noted" in caplog.text
    assert TEXT not in caplog.text
