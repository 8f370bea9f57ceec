"""Items: their routes, and the models of their requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response
from pydantic import Field, JsonValue

from retrieval.adapters.aside import aside
from retrieval.adapters.readers.records import FIELD_NAMES
from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidItemError, InvalidRequestError, UnknownItemError
from retrieval.domain.items.item import Became, Item, StoredItem
from retrieval.services.add import AddReport
from retrieval.surfaces.http import json_bodies
from retrieval.surfaces.http.bulk import CSV_TYPE, MEDIA_TYPE, BulkAnswer, LineReader
from retrieval.surfaces.http.caller import ReadCollection, WriteCollection, service_of
from retrieval.surfaces.http.json_bodies import IfMatch, ItemId, JSONAnswer
from retrieval.surfaces.http.models import AFTER, AnswerPart, Sent, Vector, listed, model_of

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

    def record_of(self, item_id: str) -> dict[str, Any]:
        """The record with the id of the path. Raises ``InvalidItemError`` if the body has another id."""
        record = self.model_dump(exclude_unset=True)
        own = next((name for name in _IDS if record.get(name) is not None), None)
        if own is not None and str(record.pop(own)) != item_id:
            raise InvalidItemError(f"the body has another id than the path, {written(item_id)}", item_id=item_id)
        return {**record, "_id": item_id}


class ItemChanges(Sent, of=Item, examples=[{"title": "Solved: connections time out", "metadata": {"priority": None}}]):
    """A JSON merge patch (RFC 7396) on an item: null members are removed, missing members stay unchanged."""

    id: str | None = None
    """The id in the path; another id is refused."""
    metadata: dict[str, Any] | None = None
    """Merged with the existing entries; a null entry is removed."""


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


ItemPage = listed("ItemPage", "A page of items, in the order of their ids.", AFTER, items=StoredItem)


class Deleted(AnswerPart):
    """The number of removed items."""

    deleted: int


router = APIRouter(prefix="/v1/collections/{name}/items", tags=["items"], route_class=json_bodies.JSONBodies)

_ETAG = {"ETag": {"description": "The item's version.", "schema": {"type": "string"}}}
_OK: dict[int | str, dict[str, Any]] = {200: {"headers": _ETAG}}
_CHANGED: dict[int | str, dict[str, Any]] = {412: {"description": "The item does not have the expected version"}}
_LINES = """{"line":1,"item_id":"T-1","result":"added"}
{"line":2,"error":{"type":"/problems/invalid-item","title":"An item that cannot be stored","status":422,"detail":"…"}}
{"summary":{"added":1,"changed":0,"unchanged":0,"rejected":1,"embedded":1,"pending":0,"repeated":0,"cut":0,"notes":[]}}
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


@router.get("", response_model=ItemPage, summary="List items")
async def page(
    collection: ReadCollection,
    where: json_bodies.WhereParameter = None,
    after: json_bodies.After = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS, description="The greatest number of items.")] = 100,
) -> JSONAnswer:
    """A page of the items that match a filter, ordered by id; archived items only if the filter names them."""
    items = await collection.page(json_bodies.where_of(where), after=after, limit=limit)
    last = items[-1].item.item_id if len(items) == limit else None
    return await aside(lambda: JSONAnswer({"items": [entry.as_dict() for entry in items], "next": last}), is_long=True)


@router.post("", response_model=model_of(AddReport), summary="Store items")
async def add(collection: WriteCollection, body: AddRequest) -> JSONAnswer:
    """Store new items and new versions, all or none; unchanged items cost nothing."""
    items = await aside(lambda: _items_of(body), is_long=True)
    try:
        report = await collection.add(items, embeddings=body.embeddings)
    except InvalidRequestError as error:
        if isinstance(error, InvalidItemError):
            index = next((number for number, item in enumerate(items) if item.item_id == error.item_id), None)
            error.location = ("items",) if index is None else ("items", index)
        elif body.embeddings is not None:
            error.location = ("embeddings", *error.location)
        raise
    return JSONAnswer(report.as_dict())


@router.post(
    "/bulk",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _LINES}}}},
    openapi_extra=_STREAM,
    summary="Store any number of items",
)
async def add_each(
    collection: WriteCollection,
    request: Request,
    mapping: Annotated[
        list[str], Query(alias="map", description="Other names of fields, as FIELD=NAME.", examples=[["text=Summary"]])
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
    return BulkAnswer(collection, reader, service_of(request).stopping, is_proxied=is_proxied)


@router.post("/delete", response_model=Deleted, summary="Remove items")
async def delete(collection: WriteCollection, body: DeleteRequest) -> JSONAnswer:
    """Remove items with their terms and vectors; missing items do not count."""
    return JSONAnswer({"deleted": await collection.delete(body.item_ids)})


@router.get(
    "/{item_id:path}",
    response_model=model_of(StoredItem),
    responses={**_OK, 304: {"description": "The item is unchanged", "headers": _ETAG}},
    summary="Read an item",
)
async def stored(collection: ReadCollection, item_id: ItemId, if_none_match: json_bodies.IfChanged = None) -> Response:
    """One item with its version."""
    item = (await collection.stored([item_id])).get(item_id)
    if item is None:
        raise _unknown(item_id)
    if json_bodies.is_known(if_none_match, item.version):
        return Response(status_code=304, headers={"ETag": json_bodies.etag(item.version)})
    return _answer(item)


@router.put(
    "/{item_id:path}",
    response_model=model_of(StoredItem),
    responses={**_OK, 201: {"description": "It is new", "model": model_of(StoredItem), "headers": _ETAG}, **_CHANGED},
    summary="Store an item",
)
async def put(
    collection: WriteCollection,
    item_id: ItemId,
    body: ItemSent,
    if_match: IfMatch = None,
    if_none_match: json_bodies.IfNoneMatch = None,
) -> Response:
    """Store one item; it replaces the item with its id as a whole."""
    item = json_bodies.sent_item(body.record_of(item_id))
    stored_item = await collection.put(item, version=json_bodies.expected_version(if_match, if_none_match))
    return _answer(stored_item, 201 if stored_item.became is Became.ADDED else 200)


@router.patch(
    "/{item_id:path}", response_model=model_of(StoredItem), responses={**_OK, **_CHANGED}, summary="Change an item"
)
async def patch(
    collection: WriteCollection,
    item_id: ItemId,
    body: Annotated[ItemChanges, Body(media_type="application/merge-patch+json")],
    if_match: IfMatch = None,
) -> Response:
    """Change parts of an item (RFC 7396); changes of concurrent writers are not lost."""
    changes = body.model_dump(exclude_unset=True)
    return _answer(await collection.patch(item_id, changes, version=json_bodies.expected_version(if_match)))


@router.delete("/{item_id:path}", status_code=204, responses=_CHANGED, summary="Remove an item")
async def remove(collection: WriteCollection, item_id: ItemId, if_match: IfMatch = None) -> Response:
    """Remove one item with its terms and vectors."""
    if not await collection.delete(item_id, version=json_bodies.expected_version(if_match)):
        raise _unknown(item_id)
    return Response(status_code=204)


def _items_of(body: AddRequest) -> list[Item]:
    items = []
    for index, item in enumerate(body.items):
        with json_bodies.at("items", index):
            items.append(json_bodies.sent_item(item.model_dump(exclude_unset=True)))
    return items


def _answer(item: StoredItem, status: int = 200) -> JSONAnswer:
    return JSONAnswer(item.as_dict(), status, {"ETag": json_bodies.etag(item.version)})


def _unknown(item_id: str) -> UnknownItemError:
    return UnknownItemError(f"there is no item {written(item_id)}; check its id, or store it first")
