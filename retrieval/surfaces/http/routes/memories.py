"""Memories of conversations: their routes, and the models of their requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, JsonValue

from retrieval.apps.memories.messages import FACT, MOST_MESSAGES, RememberedFact, RememberReport
from retrieval.apps.memories.store import existing_store
from retrieval.domain.api_key import Scope
from retrieval.domain.items.memory import Memory
from retrieval.surfaces.http.caller import CurrentPlatform, needs
from retrieval.surfaces.http.json_bodies import CollectionName, ItemId, JSONAnswer, JSONBodies
from retrieval.surfaces.http.models import AnswerPart, Moment, Sent


class RememberRequest(
    Sent,
    examples=[
        {
            "messages": [{"role": "user", "name": "Ann", "content": "I moved: I live in Munich."}],
            "project_id": "ops",
            "session": "2026-05-01",
            "user_id": "ann",
        }
    ],
):
    """Messages of a conversation, to remember their facts."""

    messages: Annotated[list[dict[str, Any]], Field(max_length=MOST_MESSAGES)]
    """Each with `role` and `content`, and optionally `name`; at most 500."""
    project_id: str
    session: str
    """The session of the messages: sources are named `session/number`."""
    user_id: str | None = None
    first_turn: int = 1
    """The number of the first message."""
    interaction_type: str = FACT
    """The collection of the memories."""
    occurred_at: Moment | None = None
    """The time of the messages; left out: now."""
    again: bool = False
    """Whether to read messages again that were remembered before."""


_REMEMBERED: dict[str, JsonValue] = {
    "outcome": "superseded",
    "fact": "Ann lives in Munich.",
    "sources": ["2026-05-01/1"],
    "memory_id": "01a20206-45aa-77ad-9d9a-229001806734",
    "superseded_id": "01a1f0c2-9a31-7d5e-8f02-6f0f4dca1b20",
    "reason": "she moved",
}


class RememberedFactTold(AnswerPart, of=RememberedFact, examples=[_REMEMBERED]):
    """The outcome for one fact."""


class RememberReportTold(
    AnswerPart,
    of=RememberReport,
    examples=[{"facts": [_REMEMBERED], "messages": 1, "remembered_at": None, "notes": []}],
):
    """The outcome for the messages of a conversation."""


_MEMORY: dict[str, JsonValue] = {
    "memory_id": "01a20206-45aa-77ad-9d9a-229001806734",
    "project_id": "ops",
    "interaction_type": "fact",
    "content": "Ann lives in Munich.",
    "text": "Ann lives in Munich.",
    "summary": "",
    "user_id": "ann",
    "links": {"turns": ["2026-05-01/1"]},
    "relevance_score": 1.0,
    "accesses": 0,
    "last_accessed_at": None,
    "occurred_at": "2026-05-01T12:00:00+00:00",
    "expires_at": None,
    "superseded_by": None,
    "status": "active",
    "metadata": {"reason": "she moved"},
    "created_at": "2026-05-01T12:00:01.123456+00:00",
    "updated_at": "2026-05-01T12:00:01.123456+00:00",
}


class MemoryTold(AnswerPart, of=Memory, examples=[_MEMORY]):
    """A memory."""


class HistoryTold(AnswerPart, examples=[{"versions": [_MEMORY]}]):
    """The versions of a memory, newest first."""

    versions: list[MemoryTold]
    """The current version, then the superseded ones."""


router = APIRouter(prefix="/v1/collections/{name}/memories", tags=["memories"], route_class=JSONBodies)

_READ, _WRITE = [needs(Scope.READ)], [needs(Scope.WRITE)]


@router.post("", dependencies=_WRITE, response_model=RememberReportTold, summary="Remember the facts of messages")
async def remember(name: CollectionName, platform: CurrentPlatform, body: RememberRequest) -> JSONAnswer:
    """Store the facts that a language model finds in the messages of a conversation, with their source turns.

    A fact that is already remembered gains a source, and a fact that contradicts a memory replaces it. Stores all or
    nothing; sending the same messages again changes nothing. The collection must be one of memories.
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
        again=body.again,
    )
    return JSONAnswer(report.as_dict())


@router.get("/{item_id:path}/history", dependencies=_READ, response_model=HistoryTold, summary="Read the versions")
async def history(name: CollectionName, platform: CurrentPlatform, item_id: ItemId) -> JSONAnswer:
    """The versions of a memory, newest first: the current one, then the superseded ones."""
    versions = await (await existing_store(platform, name)).history(item_id)
    return JSONAnswer({"versions": [version.as_dict() for version in versions]})
