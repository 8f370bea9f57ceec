"""Collections: their routes, and the models of their requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from retrieval.collection import handle_of
from retrieval.domain.checks import written
from retrieval.domain.errors import ConflictError, InvalidRequestError, UnknownCollectionError
from retrieval.domain.items import collection as settings
from retrieval.domain.items.attribute import checked_filterable
from retrieval.domain.items.collection import CollectionInfo
from retrieval.domain.items.embedding import MAX_DIMENSIONS, MAX_LABEL_LENGTH, EmbeddingSpace
from retrieval.domain.items.item import ANY
from retrieval.domain.json_schema import AttributeSchema
from retrieval.engine.reading import infos_after
from retrieval.surfaces.http.caller import AdminPlatform, ReadCollection, ReadPlatform, service_of
from retrieval.surfaces.http.json_bodies import After, CollectionName, JSONAnswer, JSONBodies, at, sent_profile
from retrieval.surfaces.http.models import AFTER, InlineProfile, Sent, listed, model_of


class NeighboursSent(Sent):
    """The setting for indexing items together with those next to them."""

    sequence: str
    """The attribute whose value is the same for all items of a sequence."""
    order: str = settings.OCCURRED_AT
    """The order of a sequence: `occurred_at`, or an attribute."""
    before: Annotated[int, Field(ge=0, le=settings.MAX_NEIGHBOURS)] = 2
    after: Annotated[int, Field(ge=0, le=settings.MAX_NEIGHBOURS)] = 2
    own_weight: Annotated[int, Field(ge=1, le=settings.MAX_OWN_WEIGHT)] = 2
    """The weight of the item itself relative to one neighbour."""


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


CollectionPage = listed(
    "CollectionPage", "A page of collections, in the order of their names.", AFTER, collections=CollectionInfo
)

router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=JSONBodies)
named = APIRouter(prefix="/v1/collections/{name}", tags=["collections"], route_class=JSONBodies)

_DEFAULTS = CollectionSettings()


@router.get("", response_model=CollectionPage, summary="List collections")
async def collections(
    platform: ReadPlatform,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="The greatest number of collections.")] = 100,
) -> JSONAnswer:
    """The tenant's collections, in the order of their names."""
    if after:
        settings.check_collection_name(after)
    infos = await infos_after(platform.database, platform.tenant_id, after=after, limit=limit + 1)
    page = [entry.as_dict() for entry in infos[:limit]]
    return JSONAnswer({"collections": page, "next": page[-1]["name"] if len(infos) > limit else None})


@named.get("", response_model=model_of(CollectionInfo), summary="Describe a collection")
async def info(collection: ReadCollection) -> JSONAnswer:
    """Its size and settings."""
    return JSONAnswer((await collection.info()).as_dict())


@named.put(
    "",
    response_model=model_of(CollectionInfo),
    responses={201: {"description": "It is new", "model": model_of(CollectionInfo)}},
    summary="Create a collection",
)
async def collection(name: CollectionName, platform: AdminPlatform, body: CollectionSettings = _DEFAULTS) -> JSONAnswer:
    """Create a collection, or apply the settings to an existing one.

    For an existing collection it adds filterable attributes and sets neighbours and the kind of index. Another
    language, space, schema or profile is a conflict (409).
    """
    checked_filterable(body.filterable or {})
    profile = sent_profile(body.profile)
    with at("neighbours"):
        neighbours = settings.Neighbours(**dict(body.neighbours)) if body.neighbours else None
    with at("schema"):
        AttributeSchema.checked(body.attribute_schema)
    space = EmbeddingSpace(**dict(body.space)) if body.space else None
    created = await platform.collection(
        name,
        language=body.language or "english",
        profile=profile,
        space=space,
        neighbours=neighbours,
        schema=body.attribute_schema,
    )
    is_new = handle_of(created).stored.is_new
    # Also for a new one: another request may have created it first, with other settings.
    stored = await created.refresh()
    differences = {
        f"its language is {stored.text_search_config}": body.language not in (None, stored.text_search_config),
        "its embedding space is another": space is not None and (stored.space is None or stored.space.space != space),
        "its profile is another (PUT .../profile changes it)": profile not in (None, stored.profile),
    }
    if reasons := [reason for reason, is_other in differences.items() if is_other]:
        raise ConflictError(f"collection {written(stored.name)} exists already, and {'; '.join(reasons)}; leave it out")
    created = await platform.collection(name, filterable=body.filterable, index=body.index)
    if neighbours is not None:
        await created.set_neighbours(neighbours)
    return JSONAnswer((await created.info()).as_dict(), 201 if is_new else 200)


@named.delete("", status_code=204, summary="Remove a collection")
async def remove_collection(request: Request, name: CollectionName, platform: AdminPlatform) -> Response:
    """Remove a collection with its items, profiles, recorded searches and feedback. This cannot be undone.

    Removing a large collection may exceed the deadline of a request: repeat the request to continue.
    """
    if request.headers.get("if-match", ANY).strip() != ANY:
        raise InvalidRequestError("a collection has no versions; leave out If-Match, or write *").at("If-Match")
    try:
        was_there = await platform.remove_collection(name)
    finally:
        # Not before: a concurrent request would cache the handle again.
        service_of(request).forget(platform, name)
    if not was_there:
        raise UnknownCollectionError(f"there is no collection {written(name)}; see GET /v1/collections")
    return Response(status_code=204)
