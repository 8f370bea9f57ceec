"""Memories of conversations: their routes, and the models of their requests and answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from retrieval.apps.memories.messages import FACT, MOST_MESSAGES, RememberReport
from retrieval.apps.memories.store import existing_store
from retrieval.domain.items.memory import Memory
from retrieval.surfaces.http.caller import ReadPlatform, WritePlatform
from retrieval.surfaces.http.json_bodies import CollectionName, ItemId, JSONAnswer, JSONBodies
from retrieval.surfaces.http.models import AnswerPart, Moment, Sent, model_of


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


class MemoryHistory(AnswerPart):
    """The versions of a memory, newest first."""

    versions: list[Memory]
    """The current version, then the superseded ones."""


router = APIRouter(prefix="/v1/collections/{name}/memories", tags=["memories"], route_class=JSONBodies)


@router.post("", response_model=model_of(RememberReport), summary="Remember the facts of messages")
async def remember(name: CollectionName, platform: WritePlatform, body: RememberRequest) -> JSONAnswer:
    """Store the facts that a language model finds in the messages of a conversation, with their source turns.

    A fact that is already remembered gains a source, and a fact that contradicts a memory replaces it. Stores all or
    nothing; sending the same messages again changes nothing. The collection must be one of memories.
    """
    store = await existing_store(platform, name)
    return JSONAnswer((await store.remember(**dict(body))).as_dict())


@router.get("/{item_id:path}/history", response_model=MemoryHistory, summary="Read the versions")
async def history(name: CollectionName, platform: ReadPlatform, item_id: ItemId) -> JSONAnswer:
    """The versions of a memory, newest first: the current one, then the superseded ones."""
    versions = await (await existing_store(platform, name)).history(item_id)
    return JSONAnswer({"versions": [version.as_dict() for version in versions]})
