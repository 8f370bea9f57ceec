"""Items: read, put, changed and removed, one or many."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import JSONResponse, Response

from retrieval.adapters.aside import aside
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import UnknownItemError
from retrieval.domain.item import Item
from retrieval.domain.stored_item import Became, StoredItem
from retrieval.surfaces.http.bulk import MEDIA_TYPE, BulkAnswer
from retrieval.surfaces.http.caller import needs
from retrieval.surfaces.http.conditions import IfChanged, IfMatch, IfNoneMatch, etag, is_known, wanted_version
from retrieval.surfaces.http.handles import NamedCollection
from retrieval.surfaces.http.json_bodies import JSONBodies
from retrieval.surfaces.http.models import items as models
from retrieval.surfaces.http.paths import ItemId
from retrieval.surfaces.http.places import at
from retrieval.surfaces.http.sent_items import sent_item
from retrieval.surfaces.http.where import where_of

router = APIRouter(prefix="/v1/collections/{name}/items", tags=["items"], route_class=JSONBodies)

_READ, _WRITE = [needs(Scope.READ)], [needs(Scope.WRITE)]
_ETAG = {"ETag": {"description": "The item's version.", "schema": {"type": "string"}}}
_OK: dict[int | str, dict[str, Any]] = {200: {"headers": _ETAG}}
_CHANGED: dict[int | str, dict[str, Any]] = {412: {"description": "It is not in the version that was named"}}
_LINES = """{"line":1,"item_id":"T-1","result":"added"}
{"line":2,"error":{"type":"/problems/invalid-item","title":"An item that cannot be stored","status":422,"detail":"…"}}
{"summary":{"added":1,"changed":0,"unchanged":0,"rejected":1,"embedded":1,"pending":0,"notes":[]}}
"""
_STREAM: dict[str, Any] = {
    "requestBody": {
        "description": "An item a line, as `POST .../items` takes them; a line has at most 1 MiB.",
        "required": True,
        "content": {
            MEDIA_TYPE: {
                "schema": {"type": "string"},
                "example": '{"item_id":"T-1","title":"Database connection times out"}\n{"title":"no id"}\n',
            }
        },
    }
}


@router.get("", dependencies=_READ, response_model=models.PageTold, summary="List items")
async def page(
    collection: NamedCollection,
    where: Annotated[
        str | None, Query(description="A filter as a JSON object.", examples=['{"priority": "High"}'])
    ] = None,
    after: Annotated[str, Query(description="What the page before gave as `next`.")] = "",
    limit: Annotated[int, Query(ge=1, le=models.MAX_ITEMS, description="Items, at most.")] = 100,
) -> JSONResponse:
    """A page of the items that a filter lets through, in the order of their ids; archived ones where it names them."""
    found = await collection.page(where_of(where), after=after, limit=limit)
    last = found[-1].item.item_id if len(found) == limit else None
    return await aside(lambda: JSONResponse({"items": [one.as_dict() for one in found], "next": last}), is_long=True)


@router.post("", dependencies=_WRITE, response_model=models.AddReportTold, summary="Store items")
async def add(collection: NamedCollection, body: models.AddRequest) -> JSONResponse:
    """Store items, new ones and new versions, all or none; what is unchanged costs nothing."""
    items = await aside(lambda: _sent(body), is_long=True)
    with at("embeddings"):
        report = await collection.add(items, embeddings=body.embeddings)
    return JSONResponse(report.as_dict())


@router.post(
    "/bulk",
    dependencies=_WRITE,
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _LINES}}}},
    openapi_extra=_STREAM,
    summary="Store any number of items",
)
async def add_each(collection: NamedCollection) -> Response:
    """Store the items of a stream of lines, and stream back what became of each: a line for each line, in order.

    What has its line is stored. A bad line costs no other; the last line sums up. An `error` beside the summary says
    why the stream was broken off: what has no line then is to be sent again, which does no harm where it was stored.
    """
    return BulkAnswer(collection)


@router.post("/delete", dependencies=_WRITE, response_model=models.DeletedTold, summary="Remove items")
async def delete(collection: NamedCollection, body: models.DeleteRequest) -> JSONResponse:
    """Remove items with their terms and vectors; those that are not there do not count."""
    return JSONResponse({"deleted": await collection.delete(body.item_ids)})


@router.get(
    "/{item_id:path}",
    dependencies=_READ,
    response_model=models.StoredItemTold,
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
    response_model=models.StoredItemTold,
    responses={**_OK, 201: {"description": "It is new", "model": models.StoredItemTold, "headers": _ETAG}, **_CHANGED},
    summary="Store an item",
)
async def put(
    collection: NamedCollection,
    item_id: ItemId,
    body: models.ItemSent,
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
    response_model=models.StoredItemTold,
    responses={**_OK, **_CHANGED},
    summary="Change an item",
)
async def patch(
    collection: NamedCollection,
    item_id: ItemId,
    body: Annotated[models.ItemChanges, Body(media_type="application/merge-patch+json")],
    if_match: IfMatch = None,
) -> Response:
    """Change parts of an item (RFC 7396); whatever others write at the moment, no change is lost."""
    return _answer(await collection.patch(item_id, body.changes(), version=wanted_version(if_match)))


@router.delete("/{item_id:path}", dependencies=_WRITE, status_code=204, responses=_CHANGED, summary="Remove an item")
async def remove(collection: NamedCollection, item_id: ItemId, if_match: IfMatch = None) -> Response:
    """Remove one item with its terms and vectors."""
    if not await collection.remove(item_id, version=wanted_version(if_match)):
        raise _unknown(item_id)
    return Response(status_code=204)


def _sent(body: models.AddRequest) -> list[Item]:
    items = []
    for place, one in enumerate(body.items):
        with at("items", place):
            items.append(sent_item(one.record()))
    return items


def _answer(item: StoredItem, status: int = 200) -> JSONResponse:
    return JSONResponse(item.as_dict(), status, {"ETag": etag(item.version)})


def _unknown(item_id: str) -> UnknownItemError:
    return UnknownItemError(f"there is no item {item_id!r:.80}; check its id, or store it first")
