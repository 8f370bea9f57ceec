"""Searching: one query, or many at once."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from retrieval.adapters.aside import aside
from retrieval.domain.api_key import Scope
from retrieval.domain.hit import SearchResult
from retrieval.surfaces.http.caller import needs
from retrieval.surfaces.http.handles import NamedCollection
from retrieval.surfaces.http.json_answer import JSONAnswer
from retrieval.surfaces.http.json_bodies import LARGE_PAGE, JSONBodies, place_of_large
from retrieval.surfaces.http.models.search import BatchAnswer, BatchRequest, SearchAnswer, SearchRequest
from retrieval.surfaces.http.places import fields_of, filter_at, filters_at, profile_at

router = APIRouter(
    prefix="/v1/collections/{name}", tags=["search"], dependencies=[needs(Scope.READ)], route_class=JSONBodies
)


@router.post("/search", response_model=SearchAnswer, summary="Search a collection")
async def search(request: Request, collection: NamedCollection, body: SearchRequest) -> JSONAnswer:
    """The best hits by meaning and by words, each with what its score is made of."""
    is_large = body.limit >= LARGE_PAGE
    async with place_of_large(request, is_large=is_large):
        where = await filter_at("where", body.where, collection)
        prefer = await filters_at("prefer", body.prefer, collection)
        profile, context = profile_at(("profile",), body.profile), body.context.context()
        with fields_of(where=body.where, prefer=body.prefer, group_by=body.group_by):
            result = await collection.search(
                body.query, vector=body.vector, where=where, limit=body.limit, legs=body.legs, profile=profile,
                group_by=body.group_by, syntax=body.syntax, rewrites=body.rewrites, prefer=prefer,
                entities=body.entities, tags=body.tags, as_of=body.as_of, about=body.about, context=context,
            )  # fmt: skip
        return await aside(lambda: JSONAnswer(told(result, explain=body.explain)), is_long=is_large)


@router.post("/search/batch", response_model=BatchAnswer, summary="Search a collection for many queries")
async def search_each(request: Request, collection: NamedCollection, body: BatchRequest) -> JSONAnswer:
    """The best hits for each query: the words are embedded in one call, and the candidates of all come together."""
    is_large = len(body.queries) * body.limit >= LARGE_PAGE

    async with place_of_large(request, is_large=is_large):
        where, profile = await filter_at("where", body.where, collection), profile_at(("profile",), body.profile)
        with fields_of(where=body.where, group_by=body.group_by):
            results = await collection.search_each(
                body.queries, vectors=body.vectors, where=where, limit=body.limit, legs=body.legs, profile=profile,
                group_by=body.group_by, syntax=body.syntax, context=body.context.context(),
            )  # fmt: skip
        return await aside(
            lambda: JSONAnswer({"results": [told(result, explain=body.explain) for result in results]}),
            is_long=is_large,
        )


def told(result: SearchResult, *, explain: bool) -> dict[str, Any]:
    """The result in plain JSON values, with the explanations or without."""
    values = result.as_dict()
    if not explain:
        for hit in values["hits"]:
            del hit["explanation"]
    return values
