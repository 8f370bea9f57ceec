"""The requests and responses of the service."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field, field_validator, model_validator

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
    complete_weights,
    given_weights,
    preset_named,
)
from retrieval.domain.checks import iso_time

Moment = Annotated[AwareDatetime, BeforeValidator(iso_time)]
"""A time with a zone, or ISO 8601 text; never a number."""


class SimilarTicket(BaseModel, frozen=True):
    """A found ticket, with the parts of its score."""

    ticket_id: str
    title: str
    description: str
    similarity_score: float
    """vector_weight × vector_similarity + metadata_weight × metadata_score: 0 to the sum of the two weights."""
    vector_similarity: float
    """The cosine of the two vectors, 0 to 1: negative counts as 0."""
    metadata_score: float
    """0.6 × priority + 0.4 × time, 0 to 1."""
    priority: str
    """The stored priority; empty if it has none."""
    labels: list[str]
    resolution_time_hours: float
    """The hours until its resolution; 24, as in its score, if they are unknown or were unknown at ``as_of``."""
    domain: str
    """The stored domain; empty if it has none."""
    resolution: str | None = None
    """The resolution; None if there is none, or there was none at ``as_of``."""
    resolution_time_known: bool = True
    """False if the hours are the default."""


class SearchMetadata(BaseModel, frozen=True):
    """Metadata of the search."""

    query_domain: str | None = None
    """The domain filter."""
    total_found: int
    """The number of returned tickets."""
    avg_similarity: float
    """The mean of their scores; 0 without any."""
    top_similarity: float
    """The highest of their scores; 0 without any."""
    index_total: int
    """The number of vectors in the index, regardless of the filter; for a large index it may be some seconds old."""


class RetrievalResponse(BaseModel, frozen=True):
    """Similar tickets, the best first."""

    similar_tickets: list[SimilarTicket]
    search_metadata: SearchMetadata
    config_used: dict[str, Any]
    """The parameters of the search: four are always given, the others if they are not the defaults."""


class RetrievalRequest(BaseModel, frozen=True, hide_input_in_errors=True, extra="forbid"):
    """A search: by a text, by a ticket's title and description, or by the caller's embedding.

    Without any of these ``RetrievalService.process`` raises ``ProcessingError``. The embedding takes precedence over
    the text, and the text over the ticket. Raises pydantic's ``ValidationError`` for an unknown name, a value outside
    its range, weights that are both 0, and an unknown preset.
    """

    query_text: str | None = None
    query_embedding: list[float] | None = None
    """Shape (dimensions of the collection's space,); 3072 for text-embedding-3-large."""
    title: str | None = None
    description: str | None = None
    """Title and description are joined by a newline, as those of the stored tickets are."""

    top_k: TopK = TOP_K
    """1 to 100; by default the configuration's."""
    candidates: Candidates | None = None
    """The number of nearest tickets that are scored, ``top_k`` to 1000; None: ``top_k``, so that metadata change only
    the order of the tickets."""
    domain_filter: str | None = None
    """Only tickets of this domain are found; empty: of any."""

    vector_weight: Share = VECTOR_WEIGHT
    """By default the configuration's. If only one of the two weights is given, the other is 1 minus it; two are used
    as they are, whatever their sum."""
    metadata_weight: Share = METADATA_WEIGHT
    preset: str | None = None
    """Weights by name, instead of the two: semantic_match, balanced, priority_focused or fast_resolution."""
    priority_weights: PriorityWeights | None = None
    time_normalization_hours: Hours = NORMALIZATION_HOURS
    """Above 0; by default the configuration's."""

    as_of: Moment | None = None
    """Search as of that time: only tickets that existed before it, and only resolutions known by then."""
    exclude_ids: list[str] = Field(default_factory=list)
    """Tickets to leave out."""
    exclude_self: str | None = None
    """The id of the ticket that is searched for, to leave it out if it is stored."""

    @field_validator("query_embedding", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else value

    @model_validator(mode="before")
    @classmethod
    def _by_preset(cls, values: Any) -> Any:
        values = given_weights(values)
        if not isinstance(values, dict) or values.get("preset") is None:
            return values
        weights = PRESETS[preset_named(values["preset"])]
        preset_values = {"vector_weight": weights.vector, "metadata_weight": weights.metadata}
        if any(values.get(name, weight) != weight for name, weight in preset_values.items()):
            raise ProcessingError(
                f"preset {values['preset']!r:.80} is {weights.vector:g} and {weights.metadata:g}; give either the "
                "preset or weights"
            )
        return values | preset_values

    @model_validator(mode="after")
    def _both_weights(self) -> Self:
        complete_weights(self)
        return self

    @property
    def weights(self) -> Weights:
        """Both weights."""
        return Weights(self.vector_weight, self.metadata_weight)

    @property
    def text(self) -> str:
        """The text to search for; may be empty."""
        if self.query_text and self.query_text.strip():
            return self.query_text.strip()
        return f"{(self.title or '').strip()}\n{(self.description or '').strip()}".strip()


CUSTOM = "custom"


class Weighting(BaseModel, frozen=True, extra="forbid"):
    """A weighting of the candidates. Raises pydantic's ``ValidationError`` as ``RetrievalRequest`` does."""

    name: str
    vector_weight: Share
    metadata_weight: Share
    priority_weights: PriorityWeights | None = None
    time_normalization_hours: Hours | None = None
    """None: the configuration's."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        complete_weights(self)
        return self

    @property
    def weights(self) -> Weights:
        """Both weights."""
        return Weights(self.vector_weight, self.metadata_weight)

    @classmethod
    def of(cls, name: str, weights: Weights) -> Self:
        """The weighting of that name."""
        return cls(name=name, vector_weight=weights.vector, metadata_weight=weights.metadata)


class PreviewConfig(BaseModel, frozen=True, extra="forbid"):
    """The settings of a preview, which compares other weightings with the first one.

    ``{"top_k": 20, "vector_weight": 0.6, "metadata_weight": 0.4}`` compares those weights, as ``custom``, with the
    service's default. If only one weight is given, the other is 1 minus it. Without weights and weightings the four
    presets are compared with the service's default.
    """

    top_k: TopK | None = None
    """The number of tickets shown of each ranking; None: the configuration's."""
    candidates: Candidates | None = None
    """The number of nearest tickets that are ranked, as in a request; None: ``top_k``."""
    weightings: list[Weighting] = Field(default_factory=list, max_length=20)
    """Weightings, or names of presets; empty: the service's default and the four presets."""
    vector_weight: Share | None = None
    metadata_weight: Share | None = None
    priority_weights: PriorityWeights | None = None
    """The priorities' weights of the weighting ``custom``."""
    time_normalization_hours: Hours | None = None
    as_of: Moment | None = None
    exclude_ids: list[str] = Field(default_factory=list)

    @field_validator("weightings", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [_preset(each) if isinstance(each, str) else each for each in value]

    @model_validator(mode="before")
    @classmethod
    def _weightings_alone(cls, values: Any) -> Any:
        return {"weightings": values} if isinstance(values, list | tuple) else values

    @model_validator(mode="after")
    def _checked(self) -> Self:
        complete_weights(self)
        names = [*(weighting.name for weighting in self.weightings), *([CUSTOM] if self._has_custom else [])]
        if len(set(names)) < len(names):
            raise ValueError(f"a weighting is named twice: {', '.join(names)}")
        return self

    @property
    def _has_custom(self) -> bool:
        """True if the preview has weights besides the weightings."""
        return any(
            change is not None for change in (self.vector_weight, self.priority_weights, self.time_normalization_hours)
        )

    def compared_weightings(self, own: Weights) -> list[Weighting]:
        """The weightings to compare; ``own`` are the service's default weights."""
        base = Weighting.of(next((name for name, weights in PRESETS.items() if weights == own), "default"), own)
        if not self._has_custom:
            others = [Weighting.of(name, weights) for name, weights in PRESETS.items() if name != base.name]
            return self.weightings or [base, *others]
        custom = Weighting(
            name=CUSTOM,
            vector_weight=own.vector if self.vector_weight is None else self.vector_weight,
            metadata_weight=own.metadata if self.metadata_weight is None else self.metadata_weight,
            priority_weights=self.priority_weights,
            time_normalization_hours=self.time_normalization_hours,
        )
        return [*(self.weightings or [base]), custom]


def _preset(name: str) -> Weighting:
    known = preset_named(name)
    return Weighting.of(known, PRESETS[known])


class MovedTicket(BaseModel, frozen=True):
    """A ticket under one weighting, compared with the first weighting."""

    ticket: SimilarTicket
    """Scored by this weighting."""
    rank: int
    """The rank, from 1."""
    rank_before: int
    """The rank under the first weighting, from 1, among all candidates."""
    moved: int
    """The number of places up; negative: down."""
    contributions: dict[str, float]
    """The part of each signal in the score: vector_similarity, priority, resolution_time."""
    changes: dict[str, float]
    """The change of each part from the first weighting."""
    against_others: dict[str, float]
    """The change minus the average change of the tickets on both pages: this moves the ticket."""
    why: str
    """The reason for the move, in words."""


class WeightingPreview(BaseModel, frozen=True):
    """The ranking of one weighting."""

    weighting: Weighting
    tickets: list[MovedTicket]
    """The best ``top_k``, best first."""
    entered: list[str]
    """Tickets on this page that are not on the first weighting's."""
    left: list[MovedTicket]
    """Tickets on the first weighting's page that are not on this one, in its order."""
    summary: str


class SearchPreview(BaseModel, frozen=True):
    """The same candidates under each weighting."""

    query: str
    domain: str | None
    candidates: int
    """The number of nearest tickets that were scored."""
    baseline: str
    """The first weighting's name."""
    previews: list[WeightingPreview]
