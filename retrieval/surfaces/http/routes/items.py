"""The routes of collections and items, and of the items that are memories."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import JSONResponse, Response

from retrieval.adapters.aside import aside
from retrieval.apps.memories.store import existing_store
from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import ConflictError, UnknownCollectionError, UnknownItemError
from retrieval.domain.items.collection import check_collection_name
from retrieval.domain.items.item import Became, Item, StoredItem
from retrieval.domain.json_schema import AttributeSchema
from retrieval.engine.reading import infos_after
from retrieval.platform import Platform
from retrieval.surfaces.http.bulk import MEDIA_TYPE, BulkAnswer
from retrieval.surfaces.http.caller import CurrentHandles, CurrentPlatform, NamedCollection, needs
from retrieval.surfaces.http.json_bodies import JSONBodies, at, profile_at, where_of
from retrieval.surfaces.http.models import items as models
from retrieval.surfaces.http.sent_items import (
    CollectionName,
    IfChanged,
    IfMatch,
    IfNoneMatch,
    ItemId,
    etag,
    is_known,
    sent_item,
    wanted_version,
)

collections_router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=JSONBodies)
named = APIRouter(prefix="/v1/collections/{name}", tags=["collections"], route_class=JSONBodies)

_READ, _ADMIN = [needs(Scope.READ)], [needs(Scope.ADMIN)]
_MADE = models.CollectionSettings()


@collections_router.get("", dependencies=_READ, response_model=models.CollectionsTold, summary="List collections")
async def collections(
    platform: CurrentPlatform,
    after: Annotated[str, Query(description="What the page before gave as `next`.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="Collections, at most.")] = 100,
) -> JSONResponse:
    """The tenant's collections, in the order of their names."""
    if after:
        check_collection_name(after)
    found = await infos_after(platform.database, platform.tenant_id, after=after, limit=limit + 1)
    page = [one.as_dict() for one in found[:limit]]
    return JSONResponse({"collections": page, "next": page[-1]["name"] if len(found) > limit else None})


@named.get("", dependencies=_READ, response_model=models.CollectionTold, summary="Look at a collection")
async def info(collection: NamedCollection) -> JSONResponse:
    """Its size and settings."""
    return JSONResponse((await collection.info()).as_dict())


@named.put(
    "",
    dependencies=_ADMIN,
    response_model=models.CollectionTold,
    responses={201: {"description": "It is new", "model": models.CollectionTold}},
    summary="Make a collection",
)
async def collection(
    name: CollectionName, platform: CurrentPlatform, body: models.CollectionSettings = _MADE
) -> JSONResponse:
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
    # Also of a new one: another request may have made it first, with other settings.
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


async def _check_same(made: Collection, wanted: models.CollectionSettings) -> None:
    """Raise ``ConflictError`` where the collection is another than wanted in what cannot be changed here."""
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


@router.get("", dependencies=_ITEM_READ, response_model=models.PageTold, summary="List items")
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
    dependencies=_ITEM_READ,
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


memories_router = APIRouter(prefix="/v1/collections/{name}/memories", tags=["memories"], route_class=JSONBodies)


@memories_router.post(
    "", dependencies=_WRITE, response_model=models.RememberReportTold, summary="Remember the facts of messages"
)
async def remember(name: CollectionName, platform: CurrentPlatform, body: models.RememberRequest) -> JSONResponse:
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
    )
    return JSONResponse(report.as_dict())


@memories_router.get(
    "/{item_id:path}/history", dependencies=_ITEM_READ, response_model=models.HistoryTold, summary="Read the versions"
)
async def history(name: CollectionName, platform: CurrentPlatform, item_id: ItemId) -> JSONResponse:
    """The versions of a memory, newest first: the current one, then those that were superseded."""
    versions = await (await existing_store(platform, name)).history(item_id)
    return JSONResponse({"versions": [version.as_dict() for version in versions]})


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
