"""What is asked of the service, and what it answers."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from retrieval.apps.tickets.config import TOP_K, Candidates, TopK
from retrieval.apps.tickets.errors import ProcessingError
from retrieval.apps.tickets.moment import Moment
from retrieval.apps.tickets.presets import preset
from retrieval.apps.tickets.priorities import PriorityWeights
from retrieval.apps.tickets.weights import (
    METADATA_WEIGHT,
    NORMALIZATION_HOURS,
    VECTOR_WEIGHT,
    Hours,
    Share,
    Weights,
    check_weights,
    with_complement,
)


class SimilarTicket(BaseModel):
    """A ticket that was found, with what its score is made of."""

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
    """As it is stored; empty where it has none."""
    labels: list[str]
    resolution_time_hours: float
    """24, which is what it counts as, where it is not known, or was not at the time asked about."""
    domain: str
    """As it is stored; empty where it has none."""
    resolution: str | None = None
    """None where there is none, or was none at the time asked about."""
    resolution_time_known: bool = True
    """Whether the hours are the ticket's own."""


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
    """Vectors in the index, whatever the filter; of many, as they were counted a moment ago."""


class RetrievalResponse(BaseModel):
    """Similar tickets, the best first."""

    model_config = ConfigDict(frozen=True)

    similar_tickets: list[SimilarTicket]
    search_metadata: SearchMetadata
    config_used: dict[str, Any]
    """The parameters that answered: the four that every search has, and whatever else was not as usual."""


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
    """How many of the nearest tickets are scored, ``top_k`` to 1000; None: ``top_k``, whose order alone the metadata
    then change."""
    domain_filter: str | None = None
    """Only tickets of this domain; empty: of any."""

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
    """Search as one would have then: tickets that existed before, and of resolutions only those that were known."""
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
