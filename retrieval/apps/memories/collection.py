"""The collection that memories lie in."""

from __future__ import annotations

from retrieval.apps.memories.profile import SEED_PROFILE
from retrieval.collection import Collection
from retrieval.domain.memory import FILTERABLE
from retrieval.platform import Platform

COLLECTION = "memories"
"""The collection of a store or an engine that names no other."""


async def memories_collection(platform: Platform, name: str = COLLECTION) -> Collection:
    """The collection of that name; made if missing, ranked by the hybrid, with projects and users by index."""
    return await platform.collection(name, profile=SEED_PROFILE, filterable=FILTERABLE)
