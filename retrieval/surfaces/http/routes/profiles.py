"""Profiles: the settings of a collection's searches, their versions, and previews; routes and models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Request
from pydantic import Field, model_validator
from pydantic.config import JsonDict

from retrieval.adapters.aside import aside
from retrieval.collection import Collection
from retrieval.domain.search.preview import MAX_PROFILES, Preview
from retrieval.domain.search.profile import MAX_VERSION, Profile, StoredProfile
from retrieval.surfaces.http import json_bodies
from retrieval.surfaces.http.caller import AdminCollection, ReadCollection
from retrieval.surfaces.http.json_bodies import JSONAnswer
from retrieval.surfaces.http.models import InlineProfile, Sent, listed, model_of
from retrieval.surfaces.http.routes.search import RankedBody, arguments_of

_PROFILE: JsonDict = {"legs": {"dense": 0.6, "lexical": 0.4}, "fusion": {"kind": "weighted_sum"}}

Version = Annotated[int, Field(ge=1, le=MAX_VERSION)]


class ProfileChange(Sent, examples=[{"profile": _PROFILE, "note": "meaning counts more"}, {"version": 1}]):
    """A new profile, or a stored version to use again: exactly one of the two."""

    profile: InlineProfile | None = None
    """Stored as a new version."""
    note: str = ""
    """A note on the new version."""
    use: bool = True
    """Whether searches use the new version; false: it is only stored."""
    version: Version | None = None
    """The number of a stored version."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.profile is None) == (self.version is None):
            raise ValueError("give profile, to store a new version, or version, to use a stored one")
        if self.version is not None and (self.note or not self.use):
            raise ValueError("note and use are for a new profile; leave them out with version")
        return self


ProfileVersions = listed("ProfileVersions", "The versions, the newest first.", profiles=StoredProfile)


class PreviewRequest(
    RankedBody,
    examples=[{"query": "connection timeout", "profiles": {"now": "active", "candidate": _PROFILE}, "limit": 5}],
):
    """One query to run under several profiles; it is not recorded."""

    query: str
    profiles: Annotated[
        dict[str, InlineProfile | Version | Literal["active"]], Field(min_length=1, max_length=MAX_PROFILES)
    ]
    """The profiles by name: a profile, a stored version, or `"active"`. The first is the baseline of the others."""
    syntax: bool = True
    typos: bool = False
    """Whether misspelt words are corrected, as in a search."""


router = APIRouter(prefix="/v1/collections/{name}", tags=["profiles"], route_class=json_bodies.JSONBodies)


@router.get("/profile", response_model=model_of(StoredProfile), summary="Read a collection's profile")
async def stored_profile(
    collection: ReadCollection,
    version: Annotated[Version | None, Query(description="A version; by default the active one.")] = None,
) -> JSONAnswer:
    """The active profile, or another version."""
    return JSONAnswer((await collection.stored_profile(version)).as_dict())


@router.put("/profile", response_model=model_of(StoredProfile), summary="Change a collection's profile")
async def set_profile(collection: AdminCollection, body: ProfileChange) -> JSONAnswer:
    """Store a new version and, unless ``use`` is false, use it in searches; or use a stored version again."""
    if body.version is not None:
        await collection.use_profile(body.version)
        return JSONAnswer((await collection.stored_profile(body.version)).as_dict())
    profile = json_bodies.sent_profile(body.profile) or Profile()
    version = await collection.set_profile(profile, note=body.note, use=body.use)
    return JSONAnswer((await collection.stored_profile(version)).as_dict())


@router.get("/profiles", response_model=ProfileVersions, summary="List the versions of the profile")
async def profiles(
    collection: ReadCollection,
    limit: Annotated[int, Query(ge=1, le=1000, description="The greatest number of versions.")] = 100,
) -> JSONAnswer:
    """The versions, the newest first; the active one is marked."""
    return JSONAnswer({"profiles": [profile.as_dict() for profile in await collection.profiles(limit=limit)]})


@router.post("/preview", response_model=model_of(Preview), summary="Compare profiles on a query")
async def preview(request: Request, collection: ReadCollection, body: PreviewRequest) -> JSONAnswer:
    """The same query ranked under several profiles: hits that entered, left and moved, and why. Nothing is recorded."""
    is_large = len(body.profiles) * body.limit >= json_bodies.LARGE_PAGE
    async with json_bodies.room_for_large(request, is_large=is_large):
        arguments = await arguments_of(body, collection)
        compared = {name: await _profile(collection, name, profile) for name, profile in body.profiles.items()}
        with json_bodies.members_of(body):
            result = await collection.preview(**{**arguments, "profiles": compared})
        return await aside(lambda: JSONAnswer(result.as_dict()), is_long=is_large)


async def _profile(collection: Collection, name: str, profile: dict[str, Any] | int | str) -> Profile:
    with json_bodies.at("profiles", name):
        if isinstance(profile, dict):
            return Profile.from_dict(profile)
        return (await collection.stored_profile(profile if isinstance(profile, int) else None)).profile
