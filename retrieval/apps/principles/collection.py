"""The collections that principles and traces lie in."""

from __future__ import annotations

from retrieval.apps.principles.profile import PRINCIPLES_PROFILE, WORDS_PROFILE
from retrieval.collection import Collection
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.profile import Fusion, FusionKind, Profile
from retrieval.domain.recording import Recording
from retrieval.domain.signals.recency import Recency
from retrieval.platform import Platform

COLLECTION = "principles"
"""The collection of a store that names no other."""

LATEST_PROFILE = Profile(
    legs={"recent": 1.0},
    fusion=Fusion(kind=FusionKind.UNION),
    signals=(Recency(weight=1.0, decay_days=7.0),),
    recording=Recording(rate=0.0),
)
"""Traces by time; nothing was asked that could be answered well or badly, so it is not recorded."""


def traces_name(name: str) -> str:
    """What the collection of the traces is called that belong to these principles."""
    return f"{name}_traces"


async def principles_collection(platform: Platform, name: str = COLLECTION) -> Collection:
    """The collection of that name; made if missing, ranked by what use, tags and meaning say."""
    collection = await platform.collection(name, profile=PRINCIPLES_PROFILE)
    has_vectors = await collection.space() is not None
    fitting, other = (PRINCIPLES_PROFILE, WORDS_PROFILE) if has_vectors else (WORDS_PROFILE, PRINCIPLES_PROFILE)
    # As they are stored, where signals have no order; a profile that somebody chose stays.
    if collection.profile.as_dict() == other.as_dict():
        await collection.set_profile(fitting, note="the default with vectors" if has_vectors else "by words alone")
    return collection


async def traces_collection(platform: Platform, name: str = COLLECTION) -> Collection:
    """The collection of the traces; made if missing."""
    return await platform.collection(traces_name(name), profile=LATEST_PROFILE)


def checked_platform(db: object) -> Platform:
    """The platform. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(db, Platform):
        raise InvalidRequestError(f"db is {db!r:.80}; give an open platform, as `async with connect()` gives")
    return db
