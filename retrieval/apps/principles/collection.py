"""The collections that principles and traces lie in."""

from __future__ import annotations

from retrieval.apps.principles.search import PRINCIPLES_PROFILE, WORDS_PROFILE
from retrieval.collection import Collection, handle_of
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Recording
from retrieval.domain.search.signals import Recency
from retrieval.platform import Platform

COLLECTION = "principles"
"""The collection of a store that names no other."""

_NEW, _BY_MEANING, _BY_WORDS = "the default", "the default with vectors", "by words alone"
"""The notes of profiles that nobody chose."""

LATEST_PROFILE = Profile(
    legs={"recent": 1.0},
    fusion=Fusion(kind=FusionKind.UNION),
    signals=(Recency(weight=1.0, decay_days=7.0),),
    recording=Recording(rate=0.0),
)
"""Traces by time; nothing was asked that could be answered well or badly, so it is not recorded."""


def traces_name(name: str) -> str:
    """Gives the name of the collection that holds these principles' traces."""
    return f"{name}_traces"


async def principles_collection(platform: Platform, name: str = COLLECTION) -> Collection:
    """The collection of that name; made if missing, ranked by what use, tags and meaning say."""
    collection = await platform.collection(name, profile=PRINCIPLES_PROFILE)
    has_vectors = await collection.space() is not None
    # As they are stored, where signals have no order; a profile that somebody chose stays.
    stored = collection.profile.as_dict(), handle_of(collection).stored.profile_note
    if has_vectors and stored == (WORDS_PROFILE.as_dict(), _BY_WORDS):
        await collection.set_profile(PRINCIPLES_PROFILE, note=_BY_MEANING)
    if not has_vectors and stored[0] == PRINCIPLES_PROFILE.as_dict() and stored[1] in {_NEW, _BY_MEANING}:
        await collection.set_profile(WORDS_PROFILE, note=_BY_WORDS)
    return collection


async def traces_collection(platform: Platform, name: str = COLLECTION) -> Collection:
    """The collection of the traces; made if missing."""
    return await platform.collection(traces_name(name), profile=LATEST_PROFILE)


def checked_platform(db: object) -> Platform:
    """The platform. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(db, Platform):
        raise InvalidRequestError(f"db is {db!r:.80}; give an open platform, as `async with connect()` gives")
    return db
