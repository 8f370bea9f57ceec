"""What a preview is asked, and what it shows: one search, ranked under several weightings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from retrieval.apps.tickets.config import Candidates, TopK
from retrieval.apps.tickets.models import SimilarTicket
from retrieval.apps.tickets.moment import Moment
from retrieval.apps.tickets.presets import PRESETS, preset
from retrieval.apps.tickets.priorities import PriorityWeights
from retrieval.apps.tickets.weights import Hours, Share, Weights, check_weights, with_complement

CUSTOM = "custom"


class Weighting(BaseModel):
    """One way to weigh the candidates. Raises pydantic's ``ValidationError`` as ``RetrievalRequest`` does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    vector_weight: Share
    metadata_weight: Share
    priority_weights: PriorityWeights | None = None
    time_normalization_hours: Hours | None = None
    """None: the configuration's."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_weights(self.weights)
        return self

    @property
    def weights(self) -> Weights:
        """Both weights."""
        return Weights(self.vector_weight, self.metadata_weight)

    @classmethod
    def of_preset(cls, name: str) -> Weighting:
        """The preset of that name. Raises ``ProcessingError`` where there is none."""
        chosen = preset(name)
        return cls(name=chosen.name, vector_weight=chosen.weights.vector, metadata_weight=chosen.weights.metadata)


class PreviewConfig(BaseModel):
    """What a preview compares: the first weighting is what the others are held against.

    ``{"top_k": 20, "vector_weight": 0.6, "metadata_weight": 0.4}`` compares those weights, as ``custom``, with the
    service's own. Beside one weight alone the other is 1 minus it. Without weights and weightings the service's own
    are compared with the four presets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    top_k: TopK | None = None
    """Tickets shown of each ranking; None: the configuration's."""
    candidates: Candidates | None = None
    """How many of the nearest tickets are ranked, as in a request; None: as many as are shown."""
    weightings: list[Weighting] = Field(default_factory=list, max_length=20)
    """Weightings, or names of presets; none: the service's own and the four presets."""
    vector_weight: Share | None = None
    metadata_weight: Share | None = None
    priority_weights: PriorityWeights | None = None
    """Of the weighting ``custom``."""
    time_normalization_hours: Hours | None = None
    as_of: Moment | None = None
    exclude_ids: list[str] = Field(default_factory=list)

    @field_validator("weightings", mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            given = [{"name": name, **_weights_in(name, one)} for name, one in given.items()]
        elif isinstance(given, str):
            given = [given]
        elif not isinstance(given, Sequence):
            raise ValueError("weightings is a list of weightings or names of presets, or pairs of weights by name")
        return [Weighting.of_preset(one) if isinstance(one, str) else one for one in given]

    @model_validator(mode="before")
    @classmethod
    def _both_weights(cls, given: Any) -> Any:
        return with_complement(given) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _checked(self) -> Self:
        names = [*(one.name for one in self.weightings), *([CUSTOM] if self._has_custom else [])]
        if len(set(names)) < len(names):
            raise ValueError(f"a weighting is named twice: {', '.join(names)}")
        if self.vector_weight is not None and self.metadata_weight is not None:
            check_weights(Weights(self.vector_weight, self.metadata_weight))
        return self

    @property
    def _has_custom(self) -> bool:
        """Whether it says weights of its own."""
        return any(
            change is not None for change in (self.vector_weight, self.priority_weights, self.time_normalization_hours)
        )

    def chosen(self, own: Weights) -> list[Weighting]:
        """The weightings to compare; ``own`` are the weights of a request that gives none."""
        default = Weighting(name="default", vector_weight=own.vector, metadata_weight=own.metadata)
        base = next((Weighting.of_preset(name) for name, one in PRESETS.items() if one.weights == own), default)
        if self.weightings and not self._has_custom:
            return self.weightings
        if not self._has_custom:
            return [base, *(Weighting.of_preset(name) for name in PRESETS if name != base.name)]
        custom = Weighting(
            name=CUSTOM,
            vector_weight=own.vector if self.vector_weight is None else self.vector_weight,
            metadata_weight=own.metadata if self.metadata_weight is None else self.metadata_weight,
            priority_weights=self.priority_weights,
            time_normalization_hours=self.time_normalization_hours,
        )
        return [*(self.weightings or [base]), custom]


class MovedTicket(BaseModel):
    """A ticket under one weighting, and how it stands against the first."""

    model_config = ConfigDict(frozen=True)

    ticket: SimilarTicket
    """Scored by this weighting."""
    rank: int
    """From 1."""
    rank_before: int
    """Under the first weighting, from 1, among all candidates."""
    moved: int
    """Places up; negative: down."""
    contributions: dict[str, float]
    """What each signal adds to the score: vector_similarity, priority, resolution_time."""
    changes: dict[str, float]
    """Of each contribution, against the first weighting."""
    against_others: dict[str, float]
    """How much more than on average over the tickets of both pages it changed: what moves a ticket."""
    why: str
    """The same in words."""


class WeightingPreview(BaseModel):
    """The ranking of one weighting."""

    model_config = ConfigDict(frozen=True)

    weighting: Weighting
    tickets: list[MovedTicket]
    """The best ``top_k``, best first."""
    entered: list[str]
    """Tickets of this page that are not on the first weighting's."""
    left: list[MovedTicket]
    """Tickets of the first weighting's page that are not on this one, in its order."""
    summary: str


class SearchPreview(BaseModel):
    """The same candidates under each weighting."""

    model_config = ConfigDict(frozen=True)

    query: str
    domain: str | None
    candidates: int
    """Tickets that were scored, the nearest."""
    baseline: str
    """The first weighting's name."""
    previews: list[WeightingPreview]


def _weights_in(name: object, one: Any) -> dict[str, Any]:
    """A weighting without a name: a mapping, or a pair."""
    if isinstance(one, Mapping):
        return dict(one)
    if not isinstance(one, Sequence) or isinstance(one, str) or len(one) != 2:
        raise ValueError(f"weighting {name!r:.80} is {one!r:.80}; give a pair such as (0.7, 0.3)")
    vector, metadata = one
    return {"vector_weight": vector, "metadata_weight": metadata}
