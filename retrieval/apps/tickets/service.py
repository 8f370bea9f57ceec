"""The service of tickets: similar ones, previews, and figures."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar

from retrieval import Collection, Hit, Platform, connect
from retrieval.apps.tickets.answers import TicketSearch, Weighed, compared, response_of, ticket_search, weighed
from retrieval.apps.tickets.config import ConfigurationError, ProcessingError, RetrievalConfig, tickets_profile
from retrieval.apps.tickets.models import PreviewConfig, RetrievalRequest, RetrievalResponse, SearchPreview, Weighting
from retrieval.apps.tickets.ticket_item import DOMAIN
from retrieval.collection import handle_of
from retrieval.domain.errors import Advice, RetrievalError, UnknownCollectionError, UnknownFieldError
from retrieval.domain.items.collection import ValueCount
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.reading import count_vectors

_TRUSTED_A_SECOND = 20_000
"""The vectors for each second that a count is reused: counting 100,000 takes some 30 ms, and happens every 5 s at most.
"""


class VectorCount:
    """Remembers a count of vectors, the longer the larger it is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._number = 0
        self._until = clock()

    async def read(self, count: Callable[[], Awaitable[int]]) -> int:
        """The number of vectors; ``count`` counts them when the last one is too old."""
        if self._clock() >= self._until:
            self._number = await count()
            self._until = self._clock() + self._number / _TRUSTED_A_SECOND
        return self._number

    def forget(self) -> None:
        """Count again next time."""
        self._until = self._clock()


_log = logging.getLogger(__name__)

_TRIED = "health"
"""The word that a health check embeds."""

_Answer = TypeVar("_Answer")


class RetrievalService:
    """Finds similar tickets in a collection.

    Opens a platform of its own at its first use where none is given, by the settings of the environment; then close
    it, with ``async with`` or ``aclose``. A platform that is given stays the caller's to close.
    """

    def __init__(self, config: RetrievalConfig | None = None, platform: Platform | None = None) -> None:
        self.config = config or RetrievalConfig()
        self._given = platform
        self._own: Platform | None = None
        self._collection: Collection | None = None
        self._checked: object = None
        self._vectors = VectorCount()
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the platform that the service opened itself; another use opens one again."""
        async with self._opening:
            own, self._own, self._collection = self._own, None, None
        if own is not None:
            await own.__aexit__(None, None, None)

    async def process(self, request: RetrievalRequest) -> RetrievalResponse:
        """The tickets most similar to what is asked, best first.

        ``top_k`` of them whenever so many exist within the filter. A domain that no ticket has finds none. Raises
        ``ProcessingError`` without a query, ``WrongDimensionError`` and ``InvalidVectorError`` for an embedding that
        does not fit, ``ConfigurationError`` without the collection, and the embedder's errors.
        """
        if not isinstance(request, RetrievalRequest):
            raise ProcessingError(
                f"process takes a RetrievalRequest, such as RetrievalRequest(query_text='login fails'), "
                f"not {type(request).__name__}"
            )
        search = ticket_search(request, self.config)

        async def ask(collection: Collection) -> RetrievalResponse:
            counted = self._vectors.read(partial(count_vectors, handle_of(collection)))
            hits, total = await asyncio.gather(_search(collection, search, search.top_k), counted)
            return response_of(hits, search, await self._now(search), total)

        return await self._with_collection(ask)

    async def query_embedding(self, request: RetrievalRequest) -> list[float]:
        """The vector that ``process`` looks for, shape (dimensions,): the request's own, or that of its words.

        Raises what ``process`` raises.
        """
        search = ticket_search(request, self.config)
        if search.vector is not None:
            return search.vector

        async def embed(collection: Collection) -> list[float]:
            [vector] = await collection.vectors_of([search.words])
            return [float(number) for number in vector]

        return await self._with_collection(embed)

    async def records_of(self, ticket_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The source and the record of each ticket that exists, by id.

        ``added_by`` is its source (empty: nobody was named), ``use_count`` the verdicts on it, and ``success_rate`` the
        share of good ones, 0 to 1, None without any. Raises ``ConfigurationError`` without the collection.
        """

        async def ask(collection: Collection) -> dict[str, dict[str, Any]]:
            items, known = await asyncio.gather(collection.get(ticket_ids), collection.standings(ticket_ids))
            return {
                ticket_id: {
                    "added_by": items[ticket_id].source,
                    "use_count": standing.uses,
                    "success_rate": standing.successes / standing.uses if standing.uses else None,
                }
                for ticket_id, standing in known.items()
                if ticket_id in items
            }

        return await self._with_collection(ask)

    async def preview_search(
        self,
        title: str,
        description: str = "",
        domain: str | None = None,
        config: PreviewConfig | Mapping[str, Any] | Sequence[str] | str | None = None,
    ) -> SearchPreview:
        """One search, ranked under several weightings, with the tickets that moved against the first, and why.

        ``config``: see ``PreviewConfig``; a list names presets, a text one. The candidates are those of ``process``,
        and so is each ranking. The search is not recorded. Raises what ``process`` raises, and pydantic's
        ``ValidationError`` for a configuration that cannot be.
        """
        wanted = _preview_config(config)
        top_k = wanted.top_k or self.config.default_top_k
        given = wanted.model_dump(include={"as_of", "exclude_ids", "candidates"}, exclude_unset=True)
        request = RetrievalRequest(title=title, description=description, domain_filter=domain, top_k=top_k, **given)
        search = ticket_search(request, self.config)

        async def ask(collection: Collection) -> SearchPreview:
            hits = await _search(collection.unrecorded(), search, search.candidates)
            return await self._previewed(hits, search, wanted.chosen(self.config.weights))

        return await self._with_collection(ask)

    async def health_check(self) -> dict[str, Any]:
        """``status`` is ``healthy``, or ``unhealthy`` with an ``error``; never raises a ``RetrievalError``.

        It is healthy if it can search by meaning: tickets have vectors, and a word can be embedded, which is cached.
        ``error_type`` is the name of the error's class, where there was one.
        """
        about = {"component": "retrieval", "collection": self.config.collection}
        try:
            stats = await self.get_index_stats()
        except RetrievalError as error:
            told = {"error": str(error), "error_type": type(error).__name__}
            return {"status": "unhealthy", **about, "index_loaded": False, **told}
        found = {"index_loaded": True, "total_vectors": stats["total_vectors"], "dimension": stats["dimension"]}
        missing = stats["metadata_entries"] - stats["total_vectors"]
        if not stats["total_vectors"]:
            why = f"no ticket of collection {self.config.collection!r} has a vector; run the ingest, with an embedder"
            return {"status": "unhealthy", **about, **found, "error": why}
        try:
            await self._with_collection(lambda collection: collection.vectors_of([_TRIED]))
        except RetrievalError as error:
            told = {"error": str(error), "error_type": type(error).__name__}
            return {"status": "unhealthy", **about, **found, **told}
        return {"status": "healthy", **about, **found, "pending": missing}

    async def get_index_stats(self) -> dict[str, Any]:
        """``total_vectors``, ``dimension``, ``domain_distribution`` and ``metadata_entries``, read now.

        Raises ``ConfigurationError`` without the collection.
        """
        return await self._with_collection(index_stats)

    async def _previewed(
        self, hits: Sequence[Hit], search: TicketSearch, weightings: Sequence[Weighting]
    ) -> SearchPreview:
        rankings = [(weighting, await self._weighed(hits, search, weighting)) for weighting in weightings]
        before = rankings[0][1]
        return SearchPreview(
            query=search.words,
            domain=search.where.get(DOMAIN),
            candidates=len(hits),
            baseline=weightings[0].name,
            previews=[compared(weighting, ranked, before, search.top_k) for weighting, ranked in rankings],
        )

    async def _weighed(self, hits: Sequence[Hit], search: TicketSearch, weighting: Weighting) -> list[Weighed]:
        hours = weighting.time_normalization_hours or self.config.default_time_normalization_hours
        profile = tickets_profile(*weighting.weights, weighting.priority_weights, hours)
        return weighed(hits, profile, await self._now(search), search.as_of)

    async def _now(self, search: TicketSearch) -> datetime:
        return search.as_of or (await self._platform()).now

    async def _with_collection(self, ask: Callable[[Collection], Awaitable[_Answer]]) -> _Answer:
        try:
            return await ask(await self._opened())
        except UnknownCollectionError as error:
            self._collection = None
            raise ConfigurationError(error.fact).advising(
                Advice.MAKE_COLLECTION, name=self.config.collection, file="historical_tickets.csv"
            ) from error

    async def _opened(self) -> Collection:
        if self._collection is None:
            platform = await self._platform()
            self._collection = await platform.collection(self.config.collection, create=False)
            self._checked = None
        collection = self._collection
        stored = await collection.refresh(older_than_seconds=FRESH_SECONDS)
        # Since the last call the collection may have been recreated, or moved to another space.
        now = stored.collection_id, stored.space
        if now != self._checked:
            self._check_dimensions(collection, stored.space.space if stored.space else None)
            self._vectors.forget()
            self._checked = now
        return collection

    def _check_dimensions(self, collection: Collection, space: EmbeddingSpace | None) -> None:
        wanted = self.config.wanted_dimensions
        if space is not None and wanted is not None and space.dimensions != wanted:
            raise ConfigurationError(
                f"collection {collection.name!r} has vectors of {space.dimensions} dimensions and {wanted} are "
                "configured; unset RETRIEVAL_EMBEDDING_DIMENSIONS, or ingest the tickets into another collection"
            )

    async def _platform(self) -> Platform:
        if self._given is not None:
            return self._given
        async with self._opening:
            if self._own is None:
                self._own = await connect().__aenter__()
            return self._own


async def _search(collection: Collection, search: TicketSearch, limit: int) -> Sequence[Hit]:
    try:
        return await collection.search(
            search.words or None,
            vector=search.vector,
            where=search.where,
            limit=limit,
            profile=search.profile,
            syntax=False,
            as_of=search.as_of,
        )
    except UnknownFieldError:
        # The domain is the only attribute in the statement: no ticket has one.
        _log.warning("no ticket of collection %r has a domain; nothing was found for the filter", collection.name)
        return ()


def _preview_config(config: object) -> PreviewConfig:
    if isinstance(config, PreviewConfig):
        return config
    if config is None or isinstance(config, Mapping):
        return PreviewConfig.model_validate(dict(config or {}))
    if not isinstance(config, str | Sequence):
        raise ProcessingError(f"config is {config!r:.80}; give a PreviewConfig, its fields, or names of presets")
    return PreviewConfig.model_validate({"weightings": config})


async def index_stats(collection: Collection) -> dict[str, Any]:
    """``total_vectors``, ``dimension``, ``domain_distribution`` and ``metadata_entries``, counted now in one statement.

    Tickets without a domain are counted under the empty name; without an embedding space the dimension is None.
    """
    counts, space = await asyncio.gather(_by_domain(collection), collection.space())
    distribution: Counter[str] = Counter()
    for count in counts:
        distribution[count.value] += count.items
    return {
        "total_vectors": sum(count.vectors for count in counts),
        "dimension": space.dimensions if space else None,
        "domain_distribution": dict(distribution),
        "metadata_entries": sum(count.items for count in counts),
    }


async def _by_domain(collection: Collection) -> list[ValueCount]:
    try:
        return await collection.value_counts(DOMAIN)
    except UnknownFieldError:  # no ticket has a domain
        return [replace(count, value="") for count in await collection.value_counts("kind")]
