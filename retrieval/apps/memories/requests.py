"""Requests for memories: checked arguments, the profiles that rank, and retrieved memories. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from retrieval.domain.checks import checked_list, checked_positive, checked_whole, choices_hint, tokens_by, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.frozen import Frozen
from retrieval.domain.items.memory import Links, Memory, checked_links, checked_name
from retrieval.domain.search import signals
from retrieval.domain.search.hit import Explanation
from retrieval.domain.search.profile import Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Recording
from retrieval.domain.search.signals import Signal

MIN_SCORE = 0.3
"""The default of the least score of a returned memory."""

DECAY_DAYS = 14.0
"""The decay of recency: e^(-days / 14)."""


def _union(legs: tuple[str, ...], *parts: Signal) -> Profile:
    return Profile(
        legs=Frozen(dict.fromkeys(legs, 1.0)),
        depth=100,
        fusion=Fusion(kind=FusionKind.UNION),
        signals=parts,
        min_score=MIN_SCORE,
    )


SEED_PROFILE = _union(
    ("lexical", "recent", "popular", "relevant", "linked"),
    signals.BaseRelevance(weight=0.30),
    signals.Recency(weight=0.25, decay_days=DECAY_DAYS),
    signals.KeywordOverlap(weight=0.20),
    signals.Popularity(weight=0.15),
    signals.EntityOverlap(weight=0.10),
)
"""The hybrid profile: words, time, use, links and base relevance, without vectors."""

SEMANTIC_PROFILE = _union(
    ("dense", "lexical", "recent", "popular", "relevant", "linked"),
    signals.BaseRelevance(weight=0.21),
    signals.Recency(weight=0.175, decay_days=DECAY_DAYS),
    signals.KeywordOverlap(weight=0.14),
    signals.Popularity(weight=0.105),
    signals.EntityOverlap(weight=0.07),
    signals.VectorSimilarity(weight=0.30),
)
"""The hybrid's weights times .7, and .3 for the similarity of meaning."""

STRATEGIES: Mapping[str, Profile] = MappingProxyType(
    {
        "keyword": _union(("lexical",), signals.KeywordOverlap(weight=1.0)),
        "entity": _union(("linked",), signals.EntityOverlap(weight=1.0)),
        "recency": _union(("recent",), signals.Recency(weight=1.0, decay_days=DECAY_DAYS)),
        "popularity": _union(("popular", "recent"), signals.Popularity(weight=1.0)),
        "hybrid": SEED_PROFILE,
    }
)
"""The strategies by name; each of the first four is a single signal."""

PROFILES: Mapping[str, Profile] = MappingProxyType({**STRATEGIES, "semantic": SEMANTIC_PROFILE})
"""The values of ``strategy``: the strategies, and the hybrid with meaning."""

TIMELINE_PROFILE = Profile(
    legs=Frozen({"recent": 1.0}),
    fusion=Fusion(kind=FusionKind.UNION),
    signals=(signals.Recency(weight=1.0, decay_days=DECAY_DAYS),),
    recording=Recording(rate=0.0),
)
"""The latest memories. Not recorded, because without a question there is no answer to judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevantMemory(Memory):
    """One memory of an answer."""

    computed_relevance_score: float
    """The sum of the signals' contributions: 0 to 1 if the weights sum to 1. Higher is better."""
    rank: int
    """The rank, from 1."""
    explanation: Explanation
    """The signals with their values and weights, and the legs that brought it."""
    relevance: float | None = None
    """The probability that it answers the query, as ``Hit.relevance``; None: not known."""
    retrieval_id: UUID | None = None
    """The id of the recorded answer, for feedback; None: it is not recorded."""
    history: tuple[Memory, ...] = ()
    """The superseded versions, newest first; empty unless the call asked for them."""

    @property
    def signals(self) -> dict[str, float]:
        """The value of each signal by its name, 0 to 1; 0 for a signal for which the question has no input."""
        return {part.leg: part.raw_score for part in self.explanation.contributions if part.leg in signals.SIGNALS}


CHARACTERS_A_TOKEN = 4

TokenCounter = Callable[[str], int]
"""Returns the number of tokens of a text."""


def estimated_tokens(text: str) -> int:
    """The estimated tokens of a text: one for four characters, rounded up."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def bounds_of(
    max_characters: int | None = None, max_tokens: int | None = None, count_tokens: TokenCounter = estimated_tokens
) -> Callable[[str], bool]:
    """Whether a text is within the bounds; None: unlimited.

    Raises ``InvalidRequestError`` for a bound below 1, as does the function if ``count_tokens`` gives no number.
    """
    for name, bound in (("max_characters", max_characters), ("max_tokens", max_tokens)):
        if bound is not None:
            checked_whole(name, bound, 1)
    if not callable(count_tokens):
        raise InvalidRequestError(f"count_tokens is {written(count_tokens)}; it must be a function of a text")

    def fits(text: str) -> bool:
        if max_characters is not None and len(text) > max_characters:
            return False
        if max_tokens is None:
            return True
        return tokens_by(count_tokens, text) <= max_tokens

    return fits


def entity_set(entities: Links | None) -> frozenset[signals.EntityKey]:
    """Every entity with its type. Raises ``InvalidRequestError`` for anything but a mapping of lists of ids."""
    links = checked_links(entities or {})
    return frozenset((entity_type, entity_id) for entity_type, ids in links.items() for entity_id in ids)


_PROTOCOLS = ("protocols", "protocol")
_PLANS = ("plans", "plan")
_EXPERIMENTS = ("experiments", "experiment")

RELATED_TYPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "insights": ("insights", "summary", "triage"),
        "summary": ("summary", "insights", *_PLANS),
        "triage": ("triage", "insights", "summary"),
        "protocols": (*_PROTOCOLS, *_PLANS, "triage"),
        "plans": (*_PLANS, *_EXPERIMENTS, *_PROTOCOLS, "insights"),
        "experiments": (*_EXPERIMENTS, *_PLANS, *_PROTOCOLS, "insights"),
    }
)
"""The types of memories that help with a task of each type, its own first."""

_OTHER_NAMES = MappingProxyType({name: names[0] for names in (_PROTOCOLS, _PLANS, _EXPERIMENTS) for name in names})


def related_types(task_type: str) -> tuple[str, ...]:
    """The interaction types of memories that help with a task, in any case; for an unknown type, only that type.

    The name as it is given is one of them, because types of memories are compared literally. Raises
    ``InvalidRequestError`` for an empty name.
    """
    if not isinstance(task_type, str) or not task_type.strip():
        raise InvalidRequestError(f"task_type is {written(task_type)}; name a kind of task such as 'insights'")
    given = task_type.strip()
    name = given.casefold()
    return tuple(dict.fromkeys((*RELATED_TYPES.get(_OTHER_NAMES.get(name, name), ()), given)))


def checked_types(interaction_types: object) -> list[str]:
    """The distinct types; empty for None. Raises ``InvalidRequestError`` for anything but a list of texts."""
    if interaction_types is None:
        return []
    kinds = checked_list("interaction_types", interaction_types, "['insights']")
    return list(dict.fromkeys(checked_name("an interaction type", kind) for kind in kinds))


def start_of(hours: float, now: datetime) -> datetime:
    """The moment ``hours`` before ``now``, or the earliest possible one.

    Raises ``InvalidRequestError`` for anything but a number above 0.
    """
    try:
        return now - timedelta(hours=checked_positive("hours", hours, "24"))
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)


def chosen_profile(strategy: object, profile: Profile | None) -> Profile:
    """The profile of that strategy, or ``profile`` if there is one.

    Raises ``InvalidRequestError`` for an unknown strategy, and for a profile without signals.
    """
    if profile is not None:
        if not isinstance(profile, Profile) or profile.fusion.kind is not FusionKind.UNION:
            raise InvalidRequestError("memories are ranked by signals: give a profile with the fusion 'union'")
        return profile
    if not isinstance(strategy, str) or strategy not in PROFILES:
        raise InvalidRequestError(f"there is no strategy {written(strategy)}; {choices_hint(strategy, PROFILES)}")
    return PROFILES[strategy]


def check_start(profile: Profile, entities: Links | None) -> None:
    """Raise ``InvalidRequestError`` if a profile finds candidates only by entities, and there are none."""
    legs = {leg for leg, weight in profile.legs.items() if weight}
    if legs == {LegName.LINKED} and not entity_set(entities):
        raise InvalidRequestError(
            "this strategy finds memories only by links: give entity_ids={'questions': ['q1']}, or choose another "
            "strategy"
        )


def checked_match(match_entities: object) -> bool:
    """Whether entities filter. Raises ``InvalidRequestError`` for anything but ``filter`` and ``prefer``."""
    if match_entities not in ("filter", "prefer"):
        raise InvalidRequestError(f"match_entities is {written(match_entities)}; it must be 'filter' or 'prefer'")
    return match_entities == "filter"


def conditions(
    project_id: str, interaction_types: Sequence[str], entities: Links | None, as_of: datetime | None
) -> dict[str, Any]:
    """The filter: the project's memories of these types, linked to one of the entities, of events up to ``as_of``.

    An empty list filters nothing.
    """
    where: dict[str, Any] = {"project_id": checked_name("project_id", project_id)}
    if interaction_types:
        where["kind"] = list(interaction_types)
    if links := sorted(f"{entity_type}:{entity_id}" for entity_type, entity_id in entity_set(entities)):
        where["links"] = links
    if as_of is not None:
        where["occurred_at"] = {"lte": as_of}
    return where
