"""What recall searches by."""

from __future__ import annotations

from retrieval.domain.profile import RRF_K, Fusion, FusionKind, Profile

RECALL_PROFILE = Profile(legs={"dense": 1.0, "lexical": 1.0}, fusion=Fusion(kind=FusionKind.RRF, k=RRF_K))
"""By meaning and by words, once more for each rewrite, all merged by reciprocal rank fusion with k = 60."""
