"""How principles are ranked, said as profiles."""

from __future__ import annotations

from dataclasses import replace

from retrieval.apps.principles.choosing import TAG_BOOST
from retrieval.domain.learned import Combination, Learned
from retrieval.domain.profile import Fusion, FusionKind, Profile
from retrieval.domain.signals.keyword import KeywordOverlap
from retrieval.domain.signals.rating import Rating
from retrieval.domain.signals.signal import Signal
from retrieval.domain.signals.tag_match import TagMatch
from retrieval.domain.signals.vector_similarity import VectorSimilarity

SIMILARITY_WEIGHT = 2.0
"""Of the similarity of meaning, beside the principle's score with 1: measured, see decision 25."""


def principles_profile(similarity_weight: float = SIMILARITY_WEIGHT, *, has_vectors: bool = True) -> Profile:
    """principle score + 0.1 × each matching tag + ``similarity_weight`` × similarity of meaning.

    The principle score is (successes + 1) / (uses + 2). Where there are no vectors, the share of the question's words
    that a principle has takes the place of its similarity. What is learned beyond that does not count: the score is
    the formula's.
    """
    likeness: Signal = VectorSimilarity(weight=similarity_weight)
    if not has_vectors:
        likeness = KeywordOverlap(weight=similarity_weight)
    legs = ("tagged", "dense", "lexical", "rated", "recent")
    return Profile(
        legs={leg: 1.0 for leg in legs if has_vectors or leg != "dense"},
        depth=100,
        fusion=Fusion(kind=FusionKind.UNION),
        signals=(Rating(weight=1.0), TagMatch(weight=10 * TAG_BOOST, most=10), likeness),
        learned=Learned(combination=Combination.OFF),
    )


PRINCIPLES_PROFILE = principles_profile()
"""Where there are vectors."""

WORDS_PROFILE = principles_profile(has_vectors=False)
"""Where there are none."""


def relevance_only(profile: Profile) -> Profile:
    """The profile without what use says of a principle: for who is to be explored, where little of it is known.

    One that goes by use alone says nothing of relevance: then words and tags do.
    """
    legs = {leg: weight for leg, weight in profile.legs.items() if leg != "rated"}
    signals = tuple(one for one in profile.signals if not isinstance(one, Rating))
    if not legs or (profile.signals and not signals):
        return relevance_only(WORDS_PROFILE)
    return replace(profile, legs=legs, signals=signals)
