"""What a search is about besides its words: vectors in files, entities and moments as people type them, profiles."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from retrieval.domain.errors import InvalidRequestError, InvalidVectorError, NotFoundError
from retrieval.domain.json_text import JSONTextError, json_of

if TYPE_CHECKING:
    from retrieval.collection import Collection
    from retrieval.domain.profile import Profile
    from retrieval.platform import Platform


def vector_of(option: str, file: str | None) -> list[float] | None:
    """The vector in a JSON file, a list of numbers; None without a file.

    Raises ``NotFoundError`` without the file, ``InvalidVectorError`` for anything else in it.
    """
    if file is None:
        return None
    try:
        value = json_of(Path(file).read_bytes())
    except OSError as error:
        raise NotFoundError(f"cannot read {option} {file!r}: {error.strerror or error}; name a JSON file") from error
    except JSONTextError:
        value = None
    if not isinstance(value, list) or not all(type(number) in (int, float) for number in value):
        raise InvalidVectorError(
            f"{option} {file!r} holds no vector; write a JSON list of numbers, such as [0.1, -0.2]"
        )
    return value


def entities_of(pairs: Sequence[str]) -> dict[str, list[str]] | None:
    """Entities by type, from ``questions:q1`` and the like; None without any. Raises ``InvalidRequestError``."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        kind, _, name = (part.strip() for part in pair.partition(":"))
        if not (kind and name):
            raise InvalidRequestError(f"cannot read --entity {pair!r}: write TYPE:ID, such as questions:q1")
        found.setdefault(kind, []).append(name)
    return found or None


def moment_of(text: str | None) -> datetime | None:
    """The moment of ``--as-of``; None without one. Raises ``InvalidRequestError``."""
    from retrieval.surfaces.since import time_of

    return None if text is None else time_of("--as-of", text)


async def profiles_named(platform: Platform, collection: Collection, names: Sequence[str]) -> dict[str, Profile]:
    """The profiles by what a person calls them: a stored version, ``active``, or a JSON file.

    Raises ``InvalidRequestError`` for one that is named twice, ``NotFoundError``, ``InvalidProfileError``.
    """
    from retrieval.jobs.named_profile import named_profile

    if len(set(names)) < len(names):
        raise InvalidRequestError(f"a profile is named twice: {', '.join(names)}; name each once")
    whose = (platform.database, platform.tenant_id, await collection.refresh())
    return {name: (await named_profile(*whose, name)).profile for name in names}


async def profile_named(platform: Platform, collection: Collection, name: str | None) -> Profile | None:
    """The one profile of that name; None without one: the collection's own."""
    return None if name is None else (await profiles_named(platform, collection, [name]))[name]
