"""A profile: the legs that answer a search, their fusion and their weights. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from retrieval.domain.checks import checks_argument_names, written
from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.frozen import Frozen
from retrieval.domain.search import profile_parts
from retrieval.domain.search.diversity import REFINING, Diversity, Refining
from retrieval.domain.search.profile_parts import Exploration, Learned, Recording
from retrieval.domain.search.query import Synonyms, checked_synonyms
from retrieval.domain.search.relevance import Calibration
from retrieval.domain.search.reranking import Rerank
from retrieval.domain.search.signals import AttributeValue, Question, Signal, signals_as_dict, signals_from_dict
from retrieval.domain.serialization import Serializable

RRF_K = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke, Büttcher, SIGIR 2009)."""

MAX_RRF_K = 1_000_000
"""Beyond it no rank makes a difference."""

MAX_WEIGHT = 1e12

DEPTH = 50
"""Candidates that a leg is asked for, unless a profile says otherwise."""

MAX_DEPTH = 1000


class LegName(StrEnum):
    """The sources of candidates."""

    DENSE = "dense"
    LEXICAL = "lexical"
    RECENT = "recent"
    """The latest items by ``occurred_at``; items without it are not candidates."""
    POPULAR = "popular"
    """The memories that were retrieved most."""
    RELEVANT = "relevant"
    """The memories with the highest base relevance, the latest first."""
    LINKED = "linked"
    """The memories that are linked to the entities of the question."""
    TAGGED = "tagged"
    """The items that have the tags of the question: those with most of them first."""
    RATED = "rated"
    """The items with the best verdicts; those without any are in the middle, the latest stored first."""


_WORDLESS_LEGS = frozenset(LegName) - {LegName.DENSE, LegName.LEXICAL}
"""The legs that can return candidates for a question without words."""


class FusionKind(StrEnum):
    """The method by which ranked lists are merged."""

    RRF = "rrf"
    WEIGHTED_SUM = "weighted_sum"
    UNION = "union"
    """The legs return candidates, and the signals alone make the score."""


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """The fusion of the legs' rankings into one."""

    kind: FusionKind = FusionKind.RRF
    k: int = RRF_K
    """Rank constant of RRF, at least 1; the weighted sum does not use it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", profile_parts.check_choice("fusion", self.kind, FusionKind))
        profile_parts.check_whole("fusion k", self.k, 1, MAX_RRF_K)


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Serializable):
    """Legs with weights, their depth, fusion, refining and reranking, signals, what is learned, explored and recorded.

    Raises ``InvalidProfileError`` for a number outside its range, unknown legs, a signal given twice, signals without
    ``union`` or the other way round, or refining without ``weighted_sum``.
    """

    legs: Mapping[str, float] = field(default_factory=lambda: Frozen({"dense": 1.0, "lexical": 1.0}))
    """Weight by leg name (see ``LegName``); a leg that is not named does not run. A union does not weigh its legs."""
    fusion: Fusion = field(default_factory=Fusion)
    depth: int = DEPTH
    """Candidates asked of each leg; raised to the limit of a search that asks for more."""
    refining: Refining = field(default_factory=Refining)
    """The share by which candidates like the best one gain. Off by default; for a weighted sum."""
    signals: tuple[Signal, ...] = ()
    """The signals that a union scores its candidates by: the sum of weight × value."""
    min_score: float | None = None
    diversity: Diversity = field(default_factory=Diversity)
    """The treatment of near-duplicates and similar hits. Off by default."""
    learned: Learned = field(default_factory=Learned)
    """The share of the learned reward in the score, once a model of it is published."""
    exploration: Exploration = field(default_factory=Exploration)
    """The policy of exploration. Off by default."""
    recording: Recording = field(default_factory=Recording)
    """The searches that are recorded. All by default."""
    calibration: Calibration | None = None
    synonyms: Synonyms = ()
    """Groups of texts that mean the same, which the lexical leg takes for one another."""
    rerank: Rerank | None = None
    """The reranking of the best candidates. None: none, and nothing is sent to a reranker."""

    def __post_init__(self) -> None:
        _check_kinds(self)
        legs = {
            leg_name(name).value: profile_parts.check_weight(f"the weight of leg {name!r}", weight, high=MAX_WEIGHT)
            for name, weight in self.legs.items()
        }
        if not legs or not any(legs.values()):
            raise InvalidProfileError("a profile needs at least one leg with a weight above 0")
        profile_parts.check_whole("depth", self.depth, 1, MAX_DEPTH)
        object.__setattr__(self, "legs", Frozen(legs))
        if self.synonyms != ():
            object.__setattr__(self, "synonyms", checked_synonyms(self.synonyms))
        self._check_signals()
        if not self.refining.is_off and self.fusion.kind is not FusionKind.WEIGHTED_SUM:
            raise InvalidProfileError(f"refining needs the fusion 'weighted_sum', not {self.fusion.kind.value!r}")

    @property
    def weights(self) -> Mapping[str, float]:
        """The parts of the score with their weights: the legs, or in a union the signals, by name."""
        return {signal.key: signal.weight for signal in self.signals} if self.signals else self.legs

    @property
    def needs_question(self) -> bool:
        """True if every leg starts from words or a vector."""
        return _WORDLESS_LEGS.isdisjoint(self.legs) or not any(map(self.legs.get, _WORDLESS_LEGS))

    def weights_of(self, names: Iterable[str]) -> dict[str, float]:
        """The weights of rankings by leg and wording; of what is preferred, the second weighs half."""
        weights = {**self.weights, REFINING: self.refining.share}
        return {
            name: weights.get(leg_of(name), 0.0) / _preference(name) if ":" in name else weights.get(name, 0.0)
            for name in names
        }

    def taking_part(self, question: Question) -> Profile:
        """The same profile for one question: the weight of signals with nothing to compare goes to the others."""
        total = sum(signal.weight for signal in self.signals)
        remaining = sum(signal.weight for signal in self.signals if signal.compares(question))
        if remaining in (0, total):
            return self
        return replace(
            self,
            signals=tuple(
                replace(signal, weight=signal.weight * total / remaining if signal.compares(question) else 0.0)
                for signal in self.signals
            ),
        )

    def _check_signals(self) -> None:
        if not isinstance(self.signals, tuple | list) or not all(isinstance(signal, Signal) for signal in self.signals):
            raise InvalidProfileError(
                f"signals is {written(self.signals)}; give signals in a tuple, such as (Recency(weight=1.0),)"
            )
        object.__setattr__(self, "signals", tuple(self.signals))
        names = [signal.key for signal in self.signals]
        if len(set(names)) < len(names):
            raise InvalidProfileError(f"a signal is given twice: {', '.join(names)}")
        if names and not any(self.weights.values()):
            raise InvalidProfileError("a profile with signals needs at least one with a weight above 0")
        if bool(names) != (self.fusion.kind is FusionKind.UNION):
            raise InvalidProfileError("signals need the fusion 'union', and a union needs signals")
        if self.min_score is not None:
            if not names:
                raise InvalidProfileError("min_score is for profiles with signals: other scores have no fixed scale")
            profile_parts.check_share("min_score", self.min_score)

    def only(self, names: Sequence[str]) -> Profile:
        """The same profile with just these legs; a leg it did not have joins with weight 1."""
        legs = {name.value: self.legs.get(name, 0.0) or 1.0 for name in map(leg_name, names)}
        return replace(self, legs=legs)

    def as_dict(self) -> dict[str, Any]:
        """The profile as plain JSON values, as it is stored."""
        return {**Serializable.as_dict(self), "signals": signals_as_dict(self.signals)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Profile:
        """The profile that ``as_dict`` gave; defaults may be missing. Raises ``InvalidProfileError``."""
        if not isinstance(stored, Mapping) or not isinstance(stored.get("legs"), Mapping):
            raise InvalidProfileError('a profile names its legs, such as {"legs": {"dense": 0.6, "lexical": 0.4}}')
        try:
            present = [name for name in _PARTS if name in stored and not (name in _MAY_MISS and stored[name] is None)]
            values = {**stored, **{name: _part_from_dict(name, stored[name]) for name in present}}
            if "signals" in values:
                values["signals"] = signals_from_dict(values["signals"])
            return cls(**values)
        except InvalidProfileError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InvalidProfileError(f"not a profile: {error}; see docs/reference/profiles.md") from error


_MAY_MISS: Mapping[str, type[Any]] = MappingProxyType({"calibration": Calibration, "rerank": Rerank})
_PARTS: Mapping[str, Any] = MappingProxyType(
    {
        **{part.name: part.default_factory for part in fields(Profile) if isinstance(part.default_factory, type)},
        **_MAY_MISS,
    }
)
"""The parts of a profile that are objects, each with its class; those that may miss come last."""


def _check_kinds(profile: Profile) -> None:
    """Refuse a value of another type where a mapping or an object is needed."""
    if not isinstance(profile.legs, Mapping):
        raise InvalidProfileError(
            f'legs is {written(profile.legs)}; give weights by leg, such as {{"dense": 0.6, "lexical": 0.4}}'
        )
    for name, kind in _PARTS.items():
        value = getattr(profile, name)
        if not isinstance(value, kind) and (value is not None or name not in _MAY_MISS):
            raise InvalidProfileError(f"{name} is {written(value)}; it must be a {kind.__name__}")


def _part_from_dict(name: str, values: Any) -> Any:
    known = [each.name for each in fields(_PARTS[name])]
    if not isinstance(values, Mapping):
        raise InvalidProfileError(f"{name} is an object of {', '.join(known)}, not {written(values, 40)}")
    return _PARTS[name](**values)


PREFERRED = ":preferred"
"""Marks the name of a ranking of what is preferred, after the leg and the number of the wording."""


def leg_of(ranking: str) -> str:
    """The leg of a ranking: ``lexical:2`` is the lexical leg's for a second wording; ``attribute:wit`` is a signal."""
    leg = ranking.partition(":")[0]
    return ranking if leg == AttributeValue.name else leg


def _preference(ranking: str) -> int:
    """The place, from 1, of the preferred filter of a ranking: 2 for ``lexical:preferred:2``; 1 without a number."""
    head, _, place = ranking.rpartition(PREFERRED + ":")
    return int(place) if head and leg_of(ranking) != ranking else 1


def leg_name(name: str) -> LegName:
    """The leg of that name. Raises ``InvalidProfileError`` naming the legs there are."""
    return profile_parts.check_choice("leg", name, LegName)


MAX_VERSION = 2**31 - 1
"""The highest version of a stored profile, and of a learned model."""


def version_of(text: str) -> int | None:
    """The version that a text of digits names; None: it is another text, or names a number that no version has."""
    # int() refuses thousands of digits.
    version = int(text) if text.isdecimal() and len(text) <= len(str(MAX_VERSION)) else None
    return None if version is None or version > MAX_VERSION else version


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile(Serializable):
    """One version of a collection's profile."""

    version: int
    """The version, from 1."""
    profile: Profile
    note: str
    """The note that it was stored with; ``the default`` of the first one."""
    created_at: datetime
    is_active: bool
    """True if the collection searches with it."""
