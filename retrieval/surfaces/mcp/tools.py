"""The tools: each calls the store of principles and answers with text and with structure."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from retrieval.apps.principles.principle import CANDIDATE
from retrieval.domain.stored_text import shown_line
from retrieval.surfaces.mcp import parameters as given
from retrieval.surfaces.mcp.opening import Opening
from retrieval.surfaces.mcp.texts import (
    NOT_BY_MEANING,
    added_note,
    added_text,
    found_text,
    loaded_text,
    rated_text,
    tags_text,
)
from retrieval.surfaces.mcp.values import (
    AddedAnswer,
    Answer,
    LoadedAnswer,
    PrincipleAnswer,
    RatingAnswer,
    SearchAnswer,
    TagAnswer,
    TagsAnswer,
)

_log = logging.getLogger(__name__)

MIN_SCORE = 0.3
"""Principles whose score lies below are not given; lower than at the start of a session, for here one asked."""

LONGEST_CLIENT = 100
"""Characters of a client's name that are kept with what it adds."""

SESSION_HEADER = "mcp-session-id"


class Tools:
    """The tools over one store. ``session`` stands for the clients that have no session of their own."""

    def __init__(self, opening: Opening, session: str) -> None:
        self._opening = opening
        self._session = session

    def as_tools(self) -> list[Tool]:
        """The tools as the protocol lists them."""
        return [
            _tool(self.search_principles, "Search principles", read_only=True),
            _tool(self.rate_principle, "Rate a principle", read_only=False),
            _tool(self.add_principle, "Add a principle", read_only=False),
            _tool(self.list_tags, "List tags", read_only=True),
            _tool(self.list_loaded_principles, "List the principles a session was started with", read_only=True),
        ]

    async def search_principles(
        self,
        ctx: Context,
        query: given.Query = None,
        tags: given.SearchedTags = None,
        *,
        include_exploration: given.IncludeExploration = False,
        limit: given.Limit = 5,
        session_id: given.OwnSession = None,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        """Search for principles that help with what you are doing: lessons from earlier work, with their record.

        Call it before a task that is not routine, when you are stuck, and when you choose between approaches.
        """
        store = await self._opening.store()
        found = await store.search_principles(
            query,
            tags,
            limit=limit,
            min_principle_score=MIN_SCORE,
            include_exploration=include_exploration,
            session=session_id or self._session_of(ctx),
        )
        shown = [PrincipleAnswer.of(one.principle, exploring=one.is_exploratory) for one in found]
        number = None if found.retrieval_id is None else str(found.retrieval_id)
        if found.notes:
            _log.warning("a search went without something: %s", "; ".join(found.notes))
        notes = [NOT_BY_MEANING] if found.notes else []
        return _answer(found_text(shown, notes), SearchAnswer(principles=shown, retrieval_id=number, notes=notes))

    async def rate_principle(
        self,
        ctx: Context,
        principle_id: given.PrincipleId,
        was_helpful: given.WasHelpful,
        context: given.Note = None,
        session_id: given.OwnSession = None,
    ) -> Annotated[CallToolResult, RatingAnswer]:
        """Say whether a principle helped, once you know: good ones rise by it, and bad ones sink.

        Rate what you followed, once; a later rating in the same session takes the place of the earlier one. Where
        neither you nor the connection names a session, all ratings from your machine are taken for one session's.
        """
        store = await self._opening.store()
        rated = await store.record_usage(
            principle_id,
            was_helpful=was_helpful,
            note=context or "",
            session=session_id or self._session_of(ctx),
        )
        principle = PrincipleAnswer.of(rated)
        return _answer(rated_text(principle), RatingAnswer(principle=principle))

    async def add_principle(
        self, ctx: Context, title: given.Title, body: given.Body = None, tags: given.NewTags = None
    ) -> Annotated[CallToolResult, AddedAnswer]:
        """Keep a lesson that will help again, in other sessions. Search first, so that none is kept twice.

        It is a candidate: given to be tried out, and marked so, until ratings prove it or drop it.
        """
        store = await self._opening.store()
        stored = await store.add_principle(title, body or "", tags or (), status=CANDIDATE, actor=_client_of(ctx))
        added = PrincipleAnswer.of(stored)
        note = added_note(added.status)
        return _answer(added_text(added, note), AddedAnswer(principle=added, note=note))

    async def list_tags(self) -> Annotated[CallToolResult, TagsAnswer]:
        """List the tags that principles bear, the most frequent first, to search by and to add principles under."""
        store = await self._opening.store()
        tags = [
            TagAnswer(tag=shown_line(one.value), principles=one.items) for one in await store.list_tags() if one.value
        ]
        return _answer(tags_text(tags), TagsAnswer(tags=tags))

    async def list_loaded_principles(self, session_id: given.SessionId) -> Annotated[CallToolResult, LoadedAnswer]:
        """List the principles that a session was given when it started, such as yours."""
        store = await self._opening.store()
        loaded = await store.loaded(session_id)
        shown = [PrincipleAnswer.of(one.principle, exploring=one.is_exploratory) for one in loaded]
        return _answer(loaded_text(session_id, shown), LoadedAnswer(session_id=session_id, principles=shown))

    def _session_of(self, ctx: Context) -> str:
        """The client's session over HTTP; over standard input and output the process serves one client alone.

        A client of HTTP without a session is known by its address alone: were each of its calls a session, it could
        prove what it added by itself.
        """
        if ctx.headers is None:
            return self._session
        if found := ctx.headers.get(SESSION_HEADER):
            return f"mcp-{found}"
        client = getattr(ctx.request_context.request, "client", None)
        return f"{self._session}-{client.host}" if client else self._session


def _client_of(ctx: Context) -> str:
    """The client's own name, such as ``mcp:editor``: who adds something by it."""
    about = ctx.session.client_params
    return shown_line(f"mcp:{about.client_info.name}", LONGEST_CLIENT) if about else "mcp"


def _tool(function: Callable[..., Any], title: str, *, read_only: bool) -> Tool:
    """The tool of a method; what the method does not take is refused, as its schema says."""
    # Nothing is ever removed, and all there is belongs to the user: no tool is destructive or reaches further.
    notes = ToolAnnotations(read_only_hint=read_only, destructive_hint=False, open_world_hint=False)
    description = inspect.cleandoc(function.__doc__ or "")
    tool = Tool.from_function(function, title=title, description=description, annotations=notes)
    tool.parameters["additionalProperties"] = False
    return tool


def _answer(text: str, value: Answer) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=value.model_dump(mode="json")
    )
