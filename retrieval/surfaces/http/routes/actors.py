"""Those who search and judge: pseudonyms, and whose feedback counts."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from retrieval.domain.api_key import Scope
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.large_bodies import LargeBodies
from retrieval.surfaces.http.models import actors as models

# Names are in the body: what stands in a path ends up in logs.
router = APIRouter(prefix="/v1/actors", tags=["feedback"], dependencies=[needs(Scope.ADMIN)], route_class=LargeBodies)


@router.post("/pseudonymise", response_model=models.PseudonymTold, summary="Make a name a pseudonym")
async def pseudonymise(platform: CurrentPlatform, body: models.ActorNamed) -> JSONResponse:
    """In recorded searches and feedback. It is random: nothing leads back to the name."""
    return JSONResponse((await platform.pseudonymise(body.actor)).as_dict())


@router.post("/quarantine", response_model=models.EventsTold, summary="Keep an actor's feedback from counting")
async def quarantine(platform: CurrentPlatform, body: models.Quarantine) -> JSONResponse:
    """What was said, and what will be. The events are kept."""
    return JSONResponse({"events": await platform.quarantine(body.actor, reason=body.reason)})


@router.post("/release", response_model=models.EventsTold, summary="Let an actor's feedback count again")
async def release(platform: CurrentPlatform, body: models.ActorNamed) -> JSONResponse:
    """The end of a quarantine."""
    return JSONResponse({"events": await platform.release(body.actor)})
