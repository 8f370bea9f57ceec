"""Similar tickets as a node of LangGraph."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel, ValidationError

from retrieval.apps.tickets import (
    ProcessingError,
    RetrievalConfig,
    RetrievalRequest,
    RetrievalResponse,
    RetrievalService,
)
from retrieval.apps.tickets.answers import metadata_of
from retrieval.apps.tickets.models import CUSTOM
from retrieval.domain.checks import named, shown_line
from retrieval.domain.errors import RetrievalError
from retrieval.platform import Platform
from retrieval.surfaces.langchain.tools import SHARED, Tickets, shown
from retrieval.surfaces.mcp.failures import wrong_arguments
from retrieval.sync import SyncPlatform

State = Mapping[str, Any]
"""A workflow's state: a mapping; pydantic models and other objects are accepted too."""

Update = dict[str, Any]
"""A node's changes to the state."""

AGENT = "retrieval"
"""The node's name in ``current_agent``."""


async def retrieval_node(state: State) -> Update:
    """Find the historical tickets that are similar to the one of the workflow.

    ``state`` has ``title`` and ``description``; it may have ``classified_domain``, which limits the search to that
    domain, and ``search_config``: ``top_k``, ``vector_weight``, ``metadata_weight`` or any other option of
    ``RetrievalRequest``. Returns a partial update: ``similar_tickets``, ``similarity_scores``, ``search_metadata``,
    ``status``, ``current_agent`` and ``messages``. Errors are not raised: they give the status ``error``, the reason as
    a message, and no tickets.
    """
    return await _answer(SHARED, state)


class PatternRecognitionAgent(Runnable[State, Update]):
    """``retrieval_node`` as an object, for a graph or a chain, sync or async; it can also preview a search.

    Without a platform it uses that of ``use_platform``, or opens one at its first call.
    """

    def __init__(self, platform: Platform | SyncPlatform | None = None, config: RetrievalConfig | None = None) -> None:
        self._tickets = SHARED if platform is None and config is None else Tickets(platform, config)

    async def __call__(self, state: State) -> Update:
        """See ``retrieval_node``."""
        return await _answer(self._tickets, state)

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: A002, ARG002 - LangChain's
        """See ``retrieval_node``."""
        try:
            return _success(self._tickets.run(_process, input))
        except (RetrievalError, ValidationError) as error:
            return _failure(error)

    async def ainvoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: A002, ARG002 - LangChain's
        """See ``retrieval_node``."""
        return await self(input)

    async def preview_search(self, title: str, description: str, domain: str, config: Any) -> dict[str, Any]:
        """The hits of a search under another configuration, and the differences; it is not recorded.

        ``config`` is a ``search_config``, or a ``config`` of ``RetrievalService.preview_search``. Returns
        ``similar_tickets``, ``search_metadata`` and ``config_used`` of that configuration, and the ``preview``: the
        ranking of every weighting, with the moves and their reasons. Raises the errors of
        ``RetrievalService.preview_search``.
        """
        options = _options(config) if config is not None and not isinstance(config, list | str) else config
        return await self._tickets.arun(_preview, title, description, domain or None, options)


pattern_recognition_agent = PatternRecognitionAgent()
"""The shared agent of a program. It opens nothing before its first call."""


async def _answer(tickets: Tickets, state: State) -> Update:
    try:
        return _success(await tickets.arun(_process, state))
    except (RetrievalError, ValidationError) as error:
        return _failure(error)


async def _process(service: RetrievalService, state: State) -> RetrievalResponse:
    ticket = {
        "title": _part(state, "title"),
        "description": _part(state, "description"),
        "domain_filter": _part(state, "classified_domain") or None,
    }
    options = _options(_part(state, "search_config"))
    if misplaced := sorted(options.keys() & {"title", "description"}):
        raise ProcessingError(f"search_config has no {misplaced[0]}: give it in the state")
    request = RetrievalRequest.model_validate(ticket | options)
    return await service.process(request)


async def _preview(
    service: RetrievalService, title: str, description: str, domain: str | None, config: Any
) -> dict[str, Any]:
    preview, stats = await asyncio.gather(
        service.preview_search(title, description, domain, config), service.get_index_stats()
    )
    selected = preview.previews[-1] if preview.previews[-1].weighting.name == CUSTOM else preview.previews[0]
    tickets = [moved.ticket for moved in selected.tickets]
    return {
        "similar_tickets": [shown(ticket.model_dump(mode="json")) for ticket in tickets],
        "search_metadata": metadata_of(tickets, preview.domain, stats["total_vectors"]).model_dump(mode="json"),
        "config_used": selected.weighting.model_dump(mode="json", exclude_none=True),
        "preview": shown(preview.model_dump(mode="json")),
    }


def _part(state: Any, name: str) -> Any:
    """The state's member of that name; a graph's state may be a mapping or an object."""
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _options(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    options = config.model_dump(exclude_unset=True) if isinstance(config, BaseModel) else config
    if not isinstance(options, Mapping):
        raise ProcessingError(f'the configuration is {config!r:.80}; give a mapping such as {{"top_k": 20}}')
    return {name: value for name, value in options.items() if value is not None}


def _success(response: RetrievalResponse) -> Update:
    tickets = response.similar_tickets
    domain = response.search_metadata.query_domain
    where = f" in domain {named(domain)}" if domain else ""
    top = f"; the best scores {tickets[0].similarity_score:.2f}" if tickets else ""
    return {
        "similar_tickets": [shown(ticket.model_dump(mode="json")) for ticket in tickets],
        "similarity_scores": [ticket.similarity_score for ticket in tickets],
        "search_metadata": response.search_metadata.model_dump(mode="json"),
        "status": "success",
        **_said(f"found {len(tickets)} similar tickets{where}{top}"),
    }


def _failure(error: RetrievalError | ValidationError) -> Update:
    why = wrong_arguments(error) if isinstance(error, ValidationError) else shown_line(str(error))
    return {
        "similar_tickets": [],
        "similarity_scores": [],
        "search_metadata": {},
        "status": "error",
        **_said(f"no similar tickets: {why}"),
    }


def _said(text: str) -> Update:
    """The node's name, and a message as plain JSON, which LangGraph's ``add_messages`` turns into an ``AIMessage``."""
    return {"current_agent": AGENT, "messages": [{"role": "assistant", "content": text}]}
