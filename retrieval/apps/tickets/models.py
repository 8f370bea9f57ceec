"""The requests and the answers of the service."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from retrieval.apps.tickets.config import (
    METADATA_WEIGHT,
    NORMALIZATION_HOURS,
    PRESETS,
    TOP_K,
    VECTOR_WEIGHT,
    Candidates,
    Hours,
    PriorityWeights,
    ProcessingError,
    Share,
    TopK,
    Weights,
    check_weights,
    preset,
    with_complement,
)

_NUMBER = re.compile(r"\s*[+-]?[0-9]*\.?[0-9]*\s*")


def _no_number(value: Any) -> Any:
    """Refuse numbers and texts of digits, which pydantic would take for seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError("give a time with a time zone, such as 2024-05-31T12:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_no_number)]
"""A time with a zone, or ISO 8601 text; never a number."""


class SimilarTicket(BaseModel):
    """A found ticket, with the parts of its score."""

    model_config = ConfigDict(frozen=True)

    ticket_id: str
    title: str
    description: str
    similarity_score: float
    """vector_weight × vector_similarity + metadata_weight × metadata_score: 0 to the sum of the two weights."""
    vector_similarity: float
    """The cosine of the two vectors, 0 to 1: 0 where it is negative."""
    metadata_score: float
    """0.6 × priority + 0.4 × time, 0 to 1."""
    priority: str
    """The priority as it is stored; empty where it has none."""
    labels: list[str]
    resolution_time_hours: float
    """The hours until its resolution; 24, which its score uses, where they are unknown, or were at the time of
    ``as_of``.
    """
    domain: str
    """The domain as it is stored; empty where it has none."""
    resolution: str | None = None
    """The resolution; None where there is none, or was none at the time of ``as_of``."""
    resolution_time_known: bool = True
    """True if the hours are the ticket's own."""


class SearchMetadata(BaseModel):
    """About the search."""

    model_config = ConfigDict(frozen=True)

    query_domain: str | None = None
    """The domain filter."""
    total_found: int
    """Tickets returned."""
    avg_similarity: float
    """Mean of their scores; 0 without any."""
    top_similarity: float
    """The highest of their scores; 0 without any."""
    index_total: int
    """Vectors in the index, whatever the filter; of a large index the number may be some seconds old."""


class RetrievalResponse(BaseModel):
    """Similar tickets, the best first."""

    model_config = ConfigDict(frozen=True)

    similar_tickets: list[SimilarTicket]
    search_metadata: SearchMetadata
    config_used: dict[str, Any]
    """The parameters of the search: four that every search has, and those that were not the defaults."""


class RetrievalRequest(BaseModel):
    """A search: by a text, by a ticket's title and description, or by an embedding of the caller's.

    Without any of these ``RetrievalService.process`` raises ``ProcessingError``. Where there are several, the
    embedding goes before the text and the text before the ticket. Raises pydantic's ``ValidationError`` for a name
    that it does not have, a value outside its range, weights that are both 0, and a preset that does not exist.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, extra="forbid")

    query_text: str | None = None
    query_embedding: list[float] | None = None
    """Shape (dimensions of the collection's space,); 3072 for text-embedding-3-large."""
    title: str | None = None
    description: str | None = None
    """Title and description are joined by a newline, as those of the stored tickets are."""

    top_k: TopK = TOP_K
    """1 to 100; the configuration's where it is not given."""
    candidates: Candidates | None = None
    """The number of nearest tickets that are scored, ``top_k`` to 1000; None: ``top_k``, so that the metadata change
    only their order."""
    domain_filter: str | None = None
    """The only domain whose tickets are found; empty: any."""

    vector_weight: Share = VECTOR_WEIGHT
    """The configuration's where neither weight is given. Beside one alone the other is 1 minus it; two hold as they
    are, whatever their sum."""
    metadata_weight: Share = METADATA_WEIGHT
    preset: str | None = None
    """Weights by name, instead of the two: semantic_match, balanced, priority_focused or fast_resolution."""
    priority_weights: PriorityWeights | None = None
    time_normalization_hours: Hours = NORMALIZATION_HOURS
    """Above 0; the configuration's where it is not given."""

    as_of: Moment | None = None
    """Search as of that time: only tickets that existed before, and only resolutions that were known."""
    exclude_ids: list[str] = Field(default_factory=list)
    """Tickets to leave out."""
    exclude_self: str | None = None
    """The ticket that is asked for, if it is stored itself: it is left out."""

    @field_validator("query_embedding", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else value

    @model_validator(mode="before")
    @classmethod
    def _both_weights(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if given.get("preset") is None:
            return with_complement(given)
        chosen = preset(given["preset"]).weights
        named = {"vector_weight": chosen.vector, "metadata_weight": chosen.metadata}
        if any(given.get(name, weight) != weight for name, weight in named.items()):
            raise ProcessingError(
                f"preset {given['preset']!r:.80} is {chosen.vector:g} and {chosen.metadata:g}; give it or weights"
            )
        return given | named

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_weights(self.weights)
        return self

    @property
    def weights(self) -> Weights:
        """Both weights."""
        return Weights(self.vector_weight, self.metadata_weight)

    @property
    def text(self) -> str:
        """The words to search for; empty where there are none."""
        if self.query_text and self.query_text.strip():
            return self.query_text.strip()
        return f"{(self.title or '').strip()}\n{(self.description or '').strip()}".strip()


CUSTOM = "custom"


class Weighting(BaseModel):
    """A weighting of the candidates. Raises pydantic's ``ValidationError`` as ``RetrievalRequest`` does."""

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
    """The settings of a preview: the others are compared with the first weighting.

    ``{"top_k": 20, "vector_weight": 0.6, "metadata_weight": 0.4}`` compares those weights, as ``custom``, with the
    service's own. Beside one weight alone the other is 1 minus it. Without weights and weightings the service's own
    are compared with the four presets.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    top_k: TopK | None = None
    """Tickets shown of each ranking; None: the configuration's."""
    candidates: Candidates | None = None
    """The number of nearest tickets that are ranked, as in a request; None: as many as are shown."""
    weightings: list[Weighting] = Field(default_factory=list, max_length=20)
    """Weightings, or names of presets; none: the service's own and the four presets."""
    vector_weight: Share | None = None
    metadata_weight: Share | None = None
    priority_weights: PriorityWeights | None = None
    """The priorities' weights of the weighting ``custom``."""
    time_normalization_hours: Hours | None = None
    as_of: Moment | None = None
    exclude_ids: list[str] = Field(default_factory=list)

    @field_validator("weightings", mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            given = [{"name": name, **_weights_in(name, weighting)} for name, weighting in given.items()]
        elif isinstance(given, str):
            given = [given]
        elif not isinstance(given, Sequence):
            raise ValueError("weightings is a list of weightings or names of presets, or pairs of weights by name")
        return [Weighting.of_preset(weighting) if isinstance(weighting, str) else weighting for weighting in given]

    @model_validator(mode="before")
    @classmethod
    def _both_weights(cls, given: Any) -> Any:
        return with_complement(given) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _checked(self) -> Self:
        names = [*(weighting.name for weighting in self.weightings), *([CUSTOM] if self._has_custom else [])]
        if len(set(names)) < len(names):
            raise ValueError(f"a weighting is named twice: {', '.join(names)}")
        if self.vector_weight is not None and self.metadata_weight is not None:
            check_weights(Weights(self.vector_weight, self.metadata_weight))
        return self

    @property
    def _has_custom(self) -> bool:
        """True if it gives weights of its own."""
        return any(
            change is not None for change in (self.vector_weight, self.priority_weights, self.time_normalization_hours)
        )

    def chosen(self, own: Weights) -> list[Weighting]:
        """The weightings to compare; ``own`` are the weights of a request that gives none."""
        default = Weighting(name="default", vector_weight=own.vector, metadata_weight=own.metadata)
        base = next((Weighting.of_preset(name) for name, known in PRESETS.items() if known.weights == own), default)
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
    """A ticket under one weighting, compared with the first weighting."""

    model_config = ConfigDict(frozen=True)

    ticket: SimilarTicket
    """Scored by this weighting."""
    rank: int
    """The rank, from 1."""
    rank_before: int
    """The rank under the first weighting, from 1, among all candidates."""
    moved: int
    """Places up; negative: down."""
    contributions: dict[str, float]
    """The part of each signal in the score: vector_similarity, priority, resolution_time."""
    changes: dict[str, float]
    """The change of each part against the first weighting."""
    against_others: dict[str, float]
    """The change beyond the average over the tickets of both pages, which moves the ticket."""
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


def _weights_in(name: object, given: Any) -> dict[str, Any]:
    """A weighting without a name: a mapping, or a pair."""
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise ValueError(f"weighting {name!r:.80} is {given!r:.80}; give a pair such as (0.7, 0.3)")
    vector, metadata = given
    return {"vector_weight": vector, "metadata_weight": metadata}
