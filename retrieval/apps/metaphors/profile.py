"""How metaphors are ranked for a problem."""

from __future__ import annotations

from retrieval.domain.learned import Combination, Learned
from retrieval.domain.profile import MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.recording import Recording
from retrieval.domain.signals.vector_similarity import VectorSimilarity

LEARNED_SHARE = 0.6
TRUSTED_FROM = 20
"""Verdicts from which on a model is used without having won a trial: a corpus is small, and verdicts come slowly."""

METAPHORS_PROFILE = Profile(
    legs={LegName.DENSE.value: 1.0},
    fusion=Fusion(kind=FusionKind.UNION),
    # What is far away by meaning may still be what helped: the whole of a usual corpus is scored.
    depth=MAX_DEPTH,
    signals=(VectorSimilarity(weight=1.0),),
    learned=Learned(combination=Combination.SUM, share=LEARNED_SHARE, trusted_from=TRUSTED_FROM),
    # An answer can be replayed where all that it was chosen among is kept.
    recording=Recording(pool=MAX_DEPTH),
)
"""The cosine alone until a model of what helped is in use, then 0.4 × cosine + 0.6 × learned reward."""
