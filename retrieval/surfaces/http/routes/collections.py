"""Collections: made, looked at, removed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.collection_name import check_collection_name
from retrieval.domain.errors import ConflictError, UnknownCollectionError
from retrieval.engine.reading_calls import infos_after
from retrieval.platform import Platform
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.handles import CurrentHandles, NamedCollection
from retrieval.surfaces.http.large_bodies import LargeBodies
from retrieval.surfaces.http.models import collections as models
from retrieval.surfaces.http.paths import CollectionName
from retrieval.surfaces.http.places import at, profile_at

router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=LargeBodies)
named = APIRouter(prefix="/v1/collections/{name}", tags=["collections"], route_class=LargeBodies)

_READ, _ADMIN = [needs(Scope.READ)], [needs(Scope.ADMIN)]
_MADE = models.CollectionSettings()


@router.get("", dependencies=_READ, response_model=models.CollectionsTold, summary="List collections")
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

    Of a collection that is there, attributes to filter by are added and neighbours are set; language, space and profile
    must be what they are: 409.
    """
    is_new = await _existing(platform, name) is None
    profile = profile_at(("profile",), body.profile)
    with at("neighbours"):
        neighbours = body.neighbours.neighbours() if body.neighbours else None
    made = await platform.collection(
        name,
        language=body.language or "english",
        profile=profile,
        space=body.space.space() if body.space else None,
        filterable=body.filterable and dict(body.filterable),
        neighbours=neighbours,
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
