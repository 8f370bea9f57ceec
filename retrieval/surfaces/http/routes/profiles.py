"""Profiles: how a collection is searched, its earlier versions, and what others would show."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from retrieval.adapters.aside import aside
from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.search.profile import Profile
from retrieval.surfaces.http.caller import NamedCollection, needs
from retrieval.surfaces.http.json_bodies import LARGE_PAGE, JSONBodies, at, fields_of, filter_at, place_of_large
from retrieval.surfaces.http.models import profiles as models

router = APIRouter(prefix="/v1/collections/{name}", tags=["profiles"], route_class=JSONBodies)

_READ, _ADMIN = [needs(Scope.READ)], [needs(Scope.ADMIN)]


@router.get(
    "/profile", dependencies=_READ, response_model=models.StoredProfileTold, summary="Read a collection's profile"
)
async def stored_profile(
    collection: NamedCollection,
    version: Annotated[models.Version | None, Query(description="Another than the active one.")] = None,
) -> JSONResponse:
    """The one that it is searched with, or an earlier version."""
    return JSONResponse((await collection.stored_profile(version)).as_dict())


@router.put(
    "/profile", dependencies=_ADMIN, response_model=models.StoredProfileTold, summary="Change a collection's profile"
)
async def set_profile(collection: NamedCollection, body: models.ProfileChange) -> JSONResponse:
    """Store a new version and search with it, or use a stored one again."""
    if body.version is not None:
        await collection.use_profile(body.version)
        return JSONResponse((await collection.stored_profile(body.version)).as_dict())
    with at("profile"):
        profile = Profile.from_dict(body.profile or {})
    version = await collection.set_profile(profile, note=body.note)
    return JSONResponse((await collection.stored_profile(version)).as_dict())


@router.get(
    "/profiles", dependencies=_READ, response_model=models.ProfilesTold, summary="List the versions of the profile"
)
async def profiles(
    collection: NamedCollection,
    limit: Annotated[int, Query(ge=1, le=1000, description="Versions, at most.")] = 100,
) -> JSONResponse:
    """The newest first, the one in use marked."""
    return JSONResponse({"profiles": [one.as_dict() for one in await collection.profiles(limit=limit)]})


@router.post("/preview", dependencies=_READ, response_model=models.PreviewTold, summary="Compare profiles on a query")
async def preview(request: Request, collection: NamedCollection, body: models.PreviewRequest) -> JSONResponse:
    """The same query ranked under several profiles: what entered, left and moved, and why. Nothing is recorded."""
    is_large = len(body.profiles) * body.limit >= LARGE_PAGE
    async with place_of_large(request, is_large=is_large):
        where = await filter_at("where", body.where, collection)
        chosen = {name: await _profile(collection, name, one) for name, one in body.profiles.items()}
        with fields_of(where=body.where):
            found = await collection.preview(
                body.query, profiles=chosen, where=where, limit=body.limit, syntax=body.syntax,
                min_score=body.min_score, min_relevance=body.min_relevance, context=body.context.context(),
            )  # fmt: skip
        return await aside(lambda: JSONResponse(found.as_dict()), is_long=is_large)


async def _profile(collection: Collection, name: str, said: dict[str, Any] | int | str) -> Profile:
    with at("profiles", name):
        if isinstance(said, dict):
            return Profile.from_dict(said)
        return (await collection.stored_profile(said if isinstance(said, int) else None)).profile
