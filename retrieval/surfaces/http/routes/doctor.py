"""What is wrong with the installation, and how to mend it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from retrieval.domain.api_key import Scope
from retrieval.jobs.doctor.diagnose import diagnose
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.models.doctor import DiagnosisTold

router = APIRouter(prefix="/v1", tags=["figures"], dependencies=[needs(Scope.ADMIN)])


@router.get("/doctor", response_model=DiagnosisTold, summary="Examine the installation")
async def doctor(
    request: Request,
    platform: CurrentPlatform,
    collection: Annotated[str | None, Query(description="This collection alone; else all of the tenant's.")] = None,
) -> JSONResponse:
    """What is not as it should be, the worst first, each with how to mend it. It changes nothing.

    A key's tenant is told of its own collections; of the server and the whole installation too where the service asks
    for no keys.
    """
    if request.app.state.insecure_local:
        return JSONResponse((await platform.doctor(collection)).as_dict())
    if collection is not None:
        await platform.collection(collection, create=False)
    found = await diagnose(platform.workplace, platform.tenant_id, collection, is_own=True)
    return JSONResponse(found.as_dict())
