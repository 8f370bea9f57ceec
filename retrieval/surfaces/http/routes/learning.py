"""What was learned from a collection's feedback, and how feedback counts."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.surfaces.http.caller import needs
from retrieval.surfaces.http.handles import NamedCollection
from retrieval.surfaces.http.large_bodies import LargeBodies
from retrieval.surfaces.http.models import learning as models
from retrieval.surfaces.http.places import at

router = APIRouter(prefix="/v1/collections/{name}", tags=["feedback"], route_class=LargeBodies)

_READ, _ADMIN = [needs(Scope.READ)], [needs(Scope.ADMIN)]


@router.get("/models", dependencies=_READ, response_model=models.ModelsTold, summary="List what was learned")
async def list_models(collection: NamedCollection) -> JSONResponse:
    """The models of the learned reward, the newest first, and which of them searches use."""
    return JSONResponse(await _models(collection))


@router.put("/model", dependencies=_ADMIN, response_model=models.ModelsTold, summary="Choose what is used of it")
async def use_model(collection: NamedCollection, body: models.ModelChoice) -> JSONResponse:
    """Search with that version and no other, with none, or with the latest again."""
    await collection.use_model(body.version)
    return JSONResponse(await _models(collection))


@router.put("/learning", dependencies=_ADMIN, status_code=204, summary="Say how feedback counts")
async def set_learning(collection: NamedCollection, body: models.Learning) -> Response:
    """How fast verdicts fade, and how many of one actor count in a day."""
    if body.half_life_days is not None:
        with at("half_life_days"):
            await collection.set_half_life(body.half_life_days)
    if body.daily_cap is not None:
        await collection.set_daily_cap(body.daily_cap)
    return Response(status_code=204)


async def _models(collection: Collection) -> dict[str, object]:
    found, info = await collection.models(), await collection.info()
    return {"used": info.model_version, "models": [one.as_dict() for one in found]}
