"""The signals by name, and how a profile keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.signals.attribute_value import AttributeValue
from retrieval.domain.signals.base_relevance import BaseRelevance
from retrieval.domain.signals.entity import EntityOverlap
from retrieval.domain.signals.keyword import KeywordOverlap
from retrieval.domain.signals.popularity import Popularity
from retrieval.domain.signals.priority import Priority
from retrieval.domain.signals.rating import Rating
from retrieval.domain.signals.recency import Recency
from retrieval.domain.signals.resolution_time import ResolutionTime
from retrieval.domain.signals.signal import Signal
from retrieval.domain.signals.tag_match import TagMatch
from retrieval.domain.signals.vector_similarity import VectorSimilarity

_KINDS: tuple[type[Signal], ...] = (
    AttributeValue, BaseRelevance, EntityOverlap, KeywordOverlap, Popularity, Priority, Rating, Recency, ResolutionTime,
    TagMatch, VectorSimilarity,
)  # fmt: skip
SIGNALS: Mapping[str, type[Signal]] = {kind.name: kind for kind in _KINDS}
"""Every signal by its name."""


def signals_as_dict(signals: Iterable[Signal]) -> dict[str, Any]:
    """What a profile keeps: by key the weight and the signal's own numbers."""
    return {signal.key: signal.as_dict() for signal in signals}


def signals_from_dict(stored: object) -> tuple[Signal, ...]:
    """The signals that ``signals_as_dict`` gave; a bare number is a weight, ``attribute:wit`` names the attribute.

    Raises ``InvalidProfileError`` for an unknown signal, an unknown number of one, or one outside its range.
    """
    if not isinstance(stored, Mapping):
        raise InvalidProfileError('signals are a mapping such as {"recency": {"weight": 0.25, "decay_days": 14}}')
    return tuple(_signal(name, given) for name, given in stored.items())


def _signal(name: object, given: object) -> Signal:
    head, colon, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
    kind = SIGNALS.get(head)
    if kind is None or (colon and kind is not AttributeValue):
        raise InvalidProfileError(f"there is no signal {name!r:.80}; the signals are {', '.join(SIGNALS)}")
    numbers: dict[Any, Any] = dict(given) if isinstance(given, Mapping) else {"weight": given}
    if colon and numbers.setdefault("attribute", attribute) != attribute:
        raise InvalidProfileError(f"signal {name!r:.80} is given the attribute {numbers['attribute']!r:.80}; name one")
    try:
        return kind(**numbers)
    except TypeError as error:
        raise InvalidProfileError(f"not a signal {name!r}: {error}; see docs/reference/profiles.md") from error
