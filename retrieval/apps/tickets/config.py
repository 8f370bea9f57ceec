"""The service's own settings, from the environment."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

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
from retrieval.domain.search.profile import MAX_DEPTH

TOP_K = 20
MAX_TOP_K = 100

TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K)]
"""Results wanted, 1 to 100."""

Candidates = Annotated[int, Field(ge=1, le=MAX_DEPTH)]
"""Tickets that are scored, 1 to 1000."""


class RetrievalConfig(BaseSettings):
    """Each as ``RETRIEVAL_<NAME>`` in the environment; a name that is not here is ignored.

    The tickets lie in a collection: the paths of index files that a FAISS configuration names mean nothing here.
    Raises pydantic's ``ValidationError`` for values outside their range and for weights that are both 0.
    """

    model_config = SettingsConfigDict(env_prefix="RETRIEVAL_", extra="ignore", frozen=True, populate_by_name=True)

    collection: str = Field(default="tickets", validation_alias="RETRIEVAL_TICKETS_COLLECTION")
    """The collection that holds the tickets; ``retrieval ingest`` makes it."""
    default_top_k: TopK = TOP_K
    """Results of a request that does not say how many."""
    default_vector_weight: Share = VECTOR_WEIGHT
    """The weight in a request that gives none. Beside one alone the other is 1 minus it; two hold as they are."""
    default_metadata_weight: Share = METADATA_WEIGHT
    default_time_normalization_hours: Hours = NORMALIZATION_HOURS
    """Hours from which on a resolution earns nothing."""
    embedding_dimensions: Annotated[int, Field(ge=1)] = 3072
    """The vectors' length. The collection's own counts; where this is set, another length is an error."""

    @property
    def weights(self) -> Weights:
        """The weights of a request that gives none."""
        return Weights(self.default_vector_weight, self.default_metadata_weight)

    @property
    def wanted_dimensions(self) -> int | None:
        """The length that the vectors must have; None: nobody said, so any will do."""
        return self.embedding_dimensions if "embedding_dimensions" in self.model_fields_set else None

    @model_validator(mode="before")
    @classmethod
    def _both_weights(cls, given: Any) -> Any:
        return with_complement(given, prefix="default_") if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _checked(self) -> Self:
        check_weights(self.weights, prefix="default_")
        return self
