"""Signals: the facts that they are computed from, the signals by name, and how a profile keeps them. Pure."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar

from retrieval.domain.checks import (
    checks_argument_names,
    choices_hint,
    is_finite,
    is_number,
    is_storable,
    stored_time,
    written,
)
from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.domain.frozen import Frozen
from retrieval.domain.learning.arm import rate
from retrieval.domain.search.profile_parts import check_choice, check_positive, check_share, check_weight, check_whole
from retrieval.domain.serialization import plain
from retrieval.domain.words import apart, has_marks, lowered, terms

EntityKey = tuple[str, str]
"""Its type and its id, such as ``("questions", "q1")``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about a candidate."""

    title: str = ""
    body: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    happened_at: datetime | None = None
    """The time when it happened, or else when it was stored."""
    cosine: float | None = None
    """Its vector's cosine with the query's, -1 to 1; None: one of the two is missing."""
    base_relevance: float = 1.0
    accesses: int = 0
    entities: frozenset[EntityKey] = frozenset()
    tags: frozenset[str] = frozenset()
    uses: int = 0
    raw_successes: int = 0
    """The number of good verdicts, 0 to ``uses``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The facts about the question."""

    now: datetime
    words: str = ""
    entities: frozenset[EntityKey] = frozenset()
    tags: frozenset[str] = frozenset()
    has_vector: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal(ABC):
    """A signal with its weight. Raises ``InvalidProfileError`` for a weight that is negative, NaN or infinite."""

    name: ClassVar[str]
    reads: ClassVar[frozenset[str]] = frozenset()
    """Of ``title``, ``body``, ``attributes``, ``tags`` and ``verdicts``, those that the value is computed from.

    They are long or in other tables, so they are read only where a signal needs them.
    """
    weight: float

    def __post_init__(self) -> None:
        check_weight(f"the weight of signal {self.key!r}", self.weight)
        for each in fields(self):
            if each.name.endswith("attribute") and not (is_storable(name := getattr(self, each.name)) and name):
                raise InvalidProfileError(f"the {each.name} of signal {self.name!r} is {written(name)}; name one")

    @property
    def key(self) -> str:
        """The name in profiles and explanations: the signal's name, with what distinguishes it within its kind."""
        return self.name

    def compares(self, question: Question) -> bool:
        """True if the question has what the signal compares candidates with; if not, all values are 0."""
        return True

    @abstractmethod
    def value(self, facts: Facts, question: Question) -> float:
        """0 (speaks against it, or nothing is known) to 1."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: the weight, and the signal's own numbers."""
        return {each.name: plain(getattr(self, each.name)) for each in fields(self) if each.init}


def _clipped(value: float) -> float:
    return min(1.0, max(0.0, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeValue(Signal):
    """The attribute's number, cut to 0 to 1; a profile may have several, such as ``attribute:concreteness``."""

    name: ClassVar[str] = "attribute"
    reads: ClassVar[frozenset[str]] = frozenset({"attributes"})
    attribute: str = "concreteness"
    missing: float = 0.5
    """The value of an item without the attribute, or with one that is not a number: the middle."""

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        check_share(f"what signal {self.key!r} takes for a missing number", self.missing)

    @property
    def key(self) -> str:
        """``attribute:`` and the attribute's name."""
        return f"{self.name}:{self.attribute}"

    def value(self, facts: Facts, question: Question) -> float:
        """The number, 0 to 1."""
        number = facts.attributes.get(self.attribute)
        return _clipped(number) if is_number(number) else self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRelevance(Signal):
    """The relevance that its application set, clipped to 0 to 1; 1 where it set none."""

    name: ClassVar[str] = "base_relevance"

    def value(self, facts: Facts, question: Question) -> float:
        """The relevance, 0 to 1."""
        return _clipped(facts.base_relevance)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityOverlap(Signal):
    """Entities of the question that the item is linked to / entities of the question; 0 where it names none."""

    name: ClassVar[str] = "entity"

    def compares(self, question: Question) -> bool:
        """True if the question names entities."""
        return bool(question.entities)

    def value(self, facts: Facts, question: Question) -> float:
        """The share, 0 to 1."""
        return len(question.entities & facts.entities) / len(question.entities) if question.entities else 0.0


STOP_WORDS = frozenset(
    "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it "  # noqa: SIM905 - a list would take seventy lines
    "its may me my no not of on or our she should so than that the their them then there these they this those to was "
    "we were what when where which who why will with would you your".split()
)
"""Words that say nothing about the subject of a question."""

_FEW = 30
"""Up to this many words, searching for them is faster than splitting the whole text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordOverlap(Signal):
    """Words of the question that are in the item / words of the question; 0 where it has none.

    Whole words, whatever their case, without stop words and stems; of scripts without spaces pairs of characters.
    """

    name: ClassVar[str] = "keyword"
    reads: ClassVar[frozenset[str]] = frozenset({"title", "body"})

    def compares(self, question: Question) -> bool:
        """True if the question has words besides stop words."""
        return bool(tokens(question.words))

    def value(self, facts: Facts, question: Question) -> float:
        """The share, 0 to 1."""
        words = tokens(question.words)
        if not words:
            return 0.0
        text = f"{facts.title}\n{facts.body}"
        spaced, runs = apart(lowered(text))
        if len(words) > _FEW or has_marks(spaced):
            found = {*terms(text), *runs} & words
        else:
            found = {*_any_of(words).findall(spaced), *(pair for pair in words if pair in runs)}
        return len(found) / len(words)


@lru_cache(maxsize=256)
def tokens(text: str) -> frozenset[str]:
    """The words of a text, in lower case, without stop words; of scripts without spaces the pairs of characters."""
    return terms(text) - STOP_WORDS


@lru_cache(maxsize=256)
def _any_of(words: frozenset[str]) -> re.Pattern[str]:
    """A pattern of whole words in lower case: for a few words, several times as fast as splitting the text."""
    return re.compile(rf"\b(?:{'|'.join(sorted(words))})\b")


FULL = 100
"""Accesses from which on the signal is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Popularity(Signal):
    """log10(accesses + 1) / log10(101), at most 1: 0 without accesses, .15 after one, .52 after ten, 1 from 100 on."""

    name: ClassVar[str] = "popularity"

    def value(self, facts: Facts, question: Question) -> float:
        """The popularity, 0 to 1."""
        return min(1.0, math.log10(max(facts.accesses, 0) + 1) / math.log10(FULL + 1))


PRIORITIES = Frozen({"Critical": 1.0, "High": 0.8, "Medium": 0.5, "Low": 0.3})


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority(Signal):
    """The worth of the item's priority, whatever its case and the spaces around it; ``unknown`` for any other."""

    name: ClassVar[str] = "priority"
    reads: ClassVar[frozenset[str]] = frozenset({"attributes"})
    attribute: str = "priority"
    values: Mapping[str, float] = field(default_factory=lambda: PRIORITIES)
    unknown: float = 0.5
    """The value of a priority that is missing or not named: the middle."""
    _by_name: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        if not isinstance(self.values, Mapping):
            raise InvalidProfileError("the values of signal 'priority' are a mapping such as {\"High\": 0.8}")
        for name, worth in self.values.items():
            if not is_storable(name):
                raise InvalidProfileError(
                    f"signal 'priority' has a value for {written(name)}; names are texts without NUL"
                )
            check_share(f"the worth of priority {written(name)}", worth)
        check_share("the worth of an unknown priority", self.unknown)
        object.__setattr__(self, "values", Frozen(self.values))
        by_name = {name.strip().casefold(): worth for name, worth in self.values.items()}
        object.__setattr__(self, "_by_name", by_name)

    def value(self, facts: Facts, question: Question) -> float:
        """The worth, 0 to 1."""
        priority = facts.attributes.get(self.attribute)
        if not isinstance(priority, str):
            return self.unknown
        return self._by_name.get(priority.strip().casefold(), self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating(Signal):
    """(good verdicts + 1) / (verdicts + 2) of all contexts, none of them decayed; .5 without any (see ``rate``)."""

    name: ClassVar[str] = "rating"
    reads: ClassVar[frozenset[str]] = frozenset({"verdicts"})
    weight: float = 1.0

    def value(self, facts: Facts, question: Question) -> float:
        """The rate, above 0 and below 1."""
        return rate(facts.raw_successes, facts.uses)


SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recency(Signal):
    """e^(-days / decay_days): 1 now and for what is still to come, .37 after ``decay_days``; 0 without a time."""

    name: ClassVar[str] = "recency"
    decay_days: float = 14.0

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        check_positive("decay_days of signal 'recency'", self.decay_days, "14")

    def value(self, facts: Facts, question: Question) -> float:
        """The decayed recency, 0 to 1."""
        if facts.happened_at is None:
            return 0.0
        days = (question.now - facts.happened_at).total_seconds() / SECONDS_A_DAY
        return math.exp(-max(days, 0.0) / self.decay_days)


class KnownHours(StrEnum):
    """The rule by which the hours until a resolution are known at the time of the question."""

    ALWAYS = "always"
    UNLESS_LATER = "unless_later"
    """Unless the stored time of the resolution is after the question's."""
    IF_RESOLVED = "if_resolved"
    """If the resolution, by its stored time or by the hours (``resolved_at_of``), is not after the question's time."""


def resolved_at_of(happened_at: datetime | None, stored: object, hours: object) -> datetime | None:
    """The time of a resolution: the stored one, ISO 8601, or else the hours after the item's time; None: not known."""
    resolved_at = stored_time(stored)
    if resolved_at is not None or happened_at is None or not is_finite(hours):
        return resolved_at
    try:
        return happened_at + timedelta(hours=max(0.0, hours))
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolutionTime(Signal):
    """max(0, 1 - hours / normalization_hours): 1 at 0 hours, 0 from ``normalization_hours`` on."""

    name: ClassVar[str] = "resolution_time"
    reads: ClassVar[frozenset[str]] = frozenset({"attributes"})
    attribute: str = "resolution_time_hours"
    resolved_attribute: str = "resolved_at"
    """The time of the resolution, ISO 8601."""
    known: KnownHours = KnownHours.UNLESS_LATER
    normalization_hours: float = 100.0
    unknown_hours: float | None = None
    """The hours that count where they are not known, at least 0; None: the value is 0."""

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        object.__setattr__(self, "known", check_choice("rule of known hours", self.known, KnownHours))
        check_positive("normalization_hours of signal 'resolution_time'", self.normalization_hours, "100")
        if self.unknown_hours is not None:
            check_weight("unknown_hours of signal 'resolution_time'", self.unknown_hours)

    def value(self, facts: Facts, question: Question) -> float:
        """The share, 0 to 1."""
        hours = facts.attributes.get(self.attribute)
        if not (is_finite(hours) and self._is_known(hours, facts, question)):
            hours = self.unknown_hours
        return 0.0 if hours is None else _clipped(1 - hours / self.normalization_hours)

    def _is_known(self, hours: float, facts: Facts, question: Question) -> bool:
        if self.known is KnownHours.ALWAYS:
            return True
        is_needed = self.known is KnownHours.IF_RESOLVED
        stored = facts.attributes.get(self.resolved_attribute)
        resolved_at = resolved_at_of(facts.happened_at if is_needed else None, stored, hours)
        return not is_needed if resolved_at is None else resolved_at <= question.now


@dataclass(frozen=True, slots=True, kw_only=True)
class TagMatch(Signal):
    """Tags of the question that the item has, case and all, at most ``most``, / ``most``."""

    name: ClassVar[str] = "tag_match"
    reads: ClassVar[frozenset[str]] = frozenset({"tags"})
    weight: float = 1.0
    most: int = 10

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        check_whole("most of signal 'tag_match'", self.most, 1)

    def value(self, facts: Facts, question: Question) -> float:
        """The share, 0 to 1."""
        return min(len(question.tags & facts.tags), self.most) / self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSimilarity(Signal):
    """The cosine of the two vectors; 0 where it is negative, or one of them is missing."""

    name: ClassVar[str] = "vector_similarity"

    def compares(self, question: Question) -> bool:
        """True if the question has a vector."""
        return question.has_vector

    def value(self, facts: Facts, question: Question) -> float:
        """The cosine, 0 to 1."""
        return _clipped(facts.cosine or 0.0)


_KINDS: tuple[type[Signal], ...] = (
    AttributeValue, BaseRelevance, EntityOverlap, KeywordOverlap, Popularity, Priority, Rating, Recency, ResolutionTime,
    TagMatch, VectorSimilarity,
)  # fmt: skip
for _kind in _KINDS:
    checks_argument_names(_kind)
SIGNALS: Mapping[str, type[Signal]] = {kind.name: kind for kind in _KINDS}


def signals_as_dict(signals: Iterable[Signal]) -> dict[str, Any]:
    """The signals as a profile stores them: weight and own numbers of each, by key."""
    return {signal.key: signal.as_dict() for signal in signals}


def signals_from_dict(stored: object) -> tuple[Signal, ...]:
    """The signals that ``signals_as_dict`` gave; a bare number is a weight. Raises ``InvalidProfileError``."""
    if not isinstance(stored, Mapping):
        raise InvalidProfileError('signals are a mapping such as {"recency": {"weight": 0.25, "decay_days": 14}}')
    return tuple(_signal(name, numbers) for name, numbers in stored.items())


def _signal(name: object, stored: object) -> Signal:
    head, colon, attribute = name.partition(":") if isinstance(name, str) else ("", "", "")
    kind = SIGNALS.get(head)
    if kind is None or (colon and kind is not AttributeValue):
        raise InvalidProfileError(f"there is no signal {written(name)}; {choices_hint(name, SIGNALS)}")
    numbers: dict[Any, Any] = dict(stored) if isinstance(stored, Mapping) else {"weight": stored}
    if colon and numbers.setdefault("attribute", attribute) != attribute:
        raise InvalidProfileError(
            f"signal {written(name)} is given the attribute {written(numbers['attribute'])}; name one"
        )
    try:
        return kind(**numbers)
    except InvalidProfileError:
        raise
    except (TypeError, InvalidRequestError) as error:
        raise InvalidProfileError(f"not a signal {name!r}: {error}; see docs/reference/profiles.md") from error
