"""The profile that a new collection starts with: weights tuned for its embedding space."""

from __future__ import annotations

from retrieval.domain.embedding import EmbeddingSpace
from retrieval.domain.profile import Fusion, FusionKind, Profile
from retrieval.domain.refining import Refining

# Found by benchmarks/default_weights.py; its results are kept beside it, and docs/decisions says how one was chosen.
_TUNED = {
    ("minilm", "all-MiniLM-L6-v2"): Profile(
        legs={"dense": 0.65, "lexical": 0.35},
        fusion=Fusion(kind=FusionKind.WEIGHTED_SUM),
        depth=30,
        refining=Refining(share=0.25),
    ),
}

_UNTUNED = Profile(legs={"dense": 1.0, "lexical": 1.0})


def default_profile(space: EmbeddingSpace | None) -> Profile:
    """The space's tuned profile; for any other space both legs count the same, by rank (RRF, k = 60)."""
    return _TUNED.get((space.provider, space.model), _UNTUNED) if space else _UNTUNED
