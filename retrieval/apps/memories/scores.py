"""The formulas of the hybrid score as functions, for tests and for what scores memories elsewhere. Pure.

Each is a signal of the platform with plain arguments. The design that they come from gives examples beside two of its
formulas which these do not fulfil: recency .7 after a week and .3 after a month, popularity .3, .5 and .8 after none,
one and ten accesses. The formulas hold: .61 and .12, 0, .15 and .52.
"""

from __future__ import annotations

from datetime import datetime

from retrieval.apps.memories.entities import entity_set
from retrieval.apps.memories.profile import DECAY_DAYS, SEED_PROFILE
from retrieval.domain.entity_links import Links
from retrieval.domain.profile import Profile
from retrieval.domain.signals.entity import EntityOverlap
from retrieval.domain.signals.keyword import KeywordOverlap
from retrieval.domain.signals.popularity import Popularity
from retrieval.domain.signals.recency import Recency
from retrieval.domain.signals.signal import Asked, Facts

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_UNTIMED = Asked(now=_EPOCH)


def compute_keyword_score(query: str, text: str) -> float:
    """Words of the query that stand in the text / words of the query, without stop words; 0 to 1."""
    return KeywordOverlap(weight=1.0).value(Facts(body=text), Asked(now=_EPOCH, words=query))


def compute_entity_score(query_entities: Links, memory_entities: Links) -> float:
    """Entities asked about that the memory is linked to / entities asked about; 0 to 1."""
    asked = Asked(now=_EPOCH, entities=entity_set(query_entities))
    return EntityOverlap(weight=1.0).value(Facts(entities=entity_set(memory_entities)), asked)


def compute_recency_score(happened_at: datetime, now: datetime) -> float:
    """e^(-days / 14); 1 for what is still to come. Both times are aware."""
    return Recency(weight=1.0, decay_days=DECAY_DAYS).value(Facts(happened_at=happened_at), Asked(now=now))


def compute_popularity_score(accesses: int) -> float:
    """log10(accesses + 1) / log10(101), at most 1."""
    return Popularity(weight=1.0).value(Facts(accesses=accesses), _UNTIMED)


def compute_hybrid_score(facts: Facts, asked: Asked, profile: Profile = SEED_PROFILE) -> float:
    """The sum of the profile's signals, each times its weight, in the profile's order.

    A signal to which the question gives nothing to compare takes no part: the others share its weight.
    """
    return sum(signal.weight * signal.value(facts, asked) for signal in profile.taking_part(asked).signals)
