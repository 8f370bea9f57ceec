"""The service of tickets: finds similar tickets, previews weightings, and reports statistics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self

from retrieval import Collection, Hit, Platform, connect
from retrieval.apps.tickets import answers, models
from retrieval.apps.tickets.models import PreviewConfig, RetrievalConfig, RetrievalRequest, RetrievalResponse
from retrieval.apps.tickets.ticket_item import DOMAIN
from retrieval.collection import handle_of
from retrieval.domain import errors
from retrieval.domain.items.collection import ValueCount
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.reading import count_vectors
from retrieval.platform import checked_platform

_TRUSTED_A_SECOND = 20_000
"""A count of this many vectors is reused for a second: counting 100,000 takes 30 ms, and happens at most every 5 s."""

_log = logging.getLogger(__name__)

_HEALTH_WORD = "health"


class RetrievalService:
    """Finds similar tickets in a collection.

    Without a ``platform`` it opens one at its first use, by the settings of the environment; ``aclose`` closes it.
    """

    def __init__(self, config: RetrievalConfig | None = None, platform: Platform | None = None) -> None:
        self.config = config or RetrievalConfig()
        self._given = None if platform is None else checked_platform("platform", platform)
        self._own: Platform | None = None
        self._collection: Collection | None = None
        self._checked: object = None
        self._vectors, self._counted_until = 0, 0.0
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the platform that the service opened itself; the next use opens one again."""
        async with self._opening:
            own, self._own, self._collection = self._own, None, None
        if own is not None:
            await own.__aexit__(None, None, None)

    async def process(self, request: RetrievalRequest) -> RetrievalResponse:
        """The ``top_k`` tickets that are most similar to the request, best first; fewer if fewer match the filter.

        Raises ``ProcessingError`` without a query, ``WrongDimensionError`` and ``InvalidVectorError`` for an unsuitable
        embedding, ``ConfigurationError`` if the collection does not exist, and the embedder's errors.
        """
        if not isinstance(request, RetrievalRequest):
            raise models.ProcessingError(
                f"process takes a RetrievalRequest, such as RetrievalRequest(query_text='login fails'), "
                f"not {type(request).__name__}"
            )
        search = answers.ticket_search(request, self.config)
        async with self._tickets() as collection:
            hits, total = await asyncio.gather(_search(collection, search, search.top_k), self._index_total(collection))
        return answers.response_of(hits, search, total)

    async def query_embedding(self, request: RetrievalRequest) -> list[float]:
        """The query vector of ``process``, shape (dimensions,): the request's own, or that of its words.

        Raises the same errors as ``process``.
        """
        search = answers.ticket_search(request, self.config)
        if search.vector is not None:
            return search.vector
        async with self._tickets() as collection:
            [vector] = await collection.vectors_of([search.words])
        return [float(number) for number in vector]

    async def records_of(self, ticket_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The source and the record of each ticket that exists, by id.

        ``added_by`` is its source (may be empty), ``use_count`` the number of verdicts on it, and ``success_rate`` the
        share of good verdicts, 0 to 1, None without any. Raises ``ConfigurationError`` without the collection.
        """
        async with self._tickets() as collection:
            items, standings = await asyncio.gather(collection.get(ticket_ids), collection.standings(ticket_ids))
        return {
            ticket_id: {
                "added_by": items[ticket_id].source,
                "use_count": standing.uses,
                "success_rate": standing.successes / standing.uses if standing.uses else None,
            }
            for ticket_id, standing in standings.items()
            if ticket_id in items
        }

    async def preview_search(
        self,
        title: str,
        description: str = "",
        domain: str | None = None,
        config: PreviewConfig | Mapping[str, Any] | Sequence[str] | None = None,
    ) -> models.SearchPreview:
        """Ranks the hits of one search under several weightings, and explains the moves against the first weighting.

        ``config``: a ``PreviewConfig`` or its fields; a list is its ``weightings``. Not recorded. Raises the errors of
        ``process``, and pydantic's ``ValidationError`` for an invalid configuration.
        """
        preview = PreviewConfig.model_validate({} if config is None else config)
        top_k = preview.top_k or self.config.default_top_k
        options = preview.model_dump(include={"as_of", "exclude_ids", "candidates"}, exclude_unset=True)
        request = RetrievalRequest(title=title, description=description, domain_filter=domain, top_k=top_k, **options)
        search = answers.ticket_search(request, self.config)
        async with self._tickets() as collection:
            hits = await _search(collection.unrecorded(), search, search.candidates)
        weightings = preview.compared_weightings(self.config.weights)
        rankings: list[tuple[models.Weighting, list[answers.RankedTicket]]] = []
        for weighting in weightings:
            hours = weighting.time_normalization_hours or self.config.default_time_normalization_hours
            profile = models.tickets_profile(
                *weighting.weights, weighting.priority_weights, hours, known=answers.known_hours(search.as_of)
            )
            rankings.append((weighting, answers.rank_by_weights(hits, profile, search.as_of)))
        before = rankings[0][1]
        return models.SearchPreview(
            query=search.words,
            domain=search.where.get(DOMAIN),
            candidates=len(hits),
            baseline=weightings[0].name,
            previews=[
                answers.compare_rankings(weighting, ranked, before, search.top_k) for weighting, ranked in rankings
            ],
        )

    async def health_check(self) -> dict[str, Any]:
        """``status`` is ``healthy``, or ``unhealthy`` with an ``error``; never raises a ``RetrievalError``.

        It is healthy if tickets have vectors, and a word can be embedded (its vector may come from the cache).
        """
        name = self.config.collection
        about = {"component": "retrieval", "collection": name}
        figures: dict[str, Any] = {"index_loaded": False}
        try:
            stats = await self.get_index_stats()
            figures = {"index_loaded": True, "total_vectors": stats["total_vectors"], "dimension": stats["dimension"]}
            if not stats["total_vectors"]:
                why = f"no ticket of collection {name!r} has a vector; run the ingest, with an embedder"
                return {"status": "unhealthy", **about, **figures, "error": why}
            async with self._tickets() as collection:
                await collection.vectors_of([_HEALTH_WORD])
                info = await collection.info()
        except errors.RetrievalError as error:
            failure = {"error": str(error), "error_type": type(error).__name__}
            return {"status": "unhealthy", **about, **figures, **failure}
        return {"status": "healthy", **about, **figures, "pending": info.pending}

    async def get_index_stats(self) -> dict[str, Any]:
        """``total_vectors``, ``dimension``, ``domain_distribution`` and ``metadata_entries``, read now.

        Tickets without a domain are counted under the empty name; without an embedding space the dimension is None.
        Raises ``ConfigurationError`` without the collection.
        """
        async with self._tickets() as collection:
            counts, space = await asyncio.gather(_by_domain(collection), collection.space())
        distribution: Counter[str] = Counter()
        for count in counts:
            distribution[count.value] += count.items
        return {
            "total_vectors": sum(count.vectors for count in counts),
            "dimension": space.dimensions if space else None,
            "domain_distribution": dict(distribution),
            "metadata_entries": distribution.total(),
        }

    async def _index_total(self, collection: Collection) -> int:
        """The number of vectors; the larger it is, the longer a count is reused."""
        if time.monotonic() >= self._counted_until:
            self._vectors = await count_vectors(handle_of(collection))
            self._counted_until = time.monotonic() + self._vectors / _TRUSTED_A_SECOND
        return self._vectors

    @asynccontextmanager
    async def _tickets(self) -> AsyncIterator[Collection]:
        """The collection of the tickets. Raises ``ConfigurationError`` if it does not exist, or no longer exists."""
        try:
            yield await self._opened()
        except errors.UnknownCollectionError as error:
            self._collection = None
            raise errors.ConfigurationError(error.fact).advising(
                errors.Advice.MAKE_COLLECTION, name=self.config.collection, file="historical_tickets.csv"
            ) from error

    async def _opened(self) -> Collection:
        if self._collection is None:
            platform = await self._platform()
            self._collection = await platform.collection(self.config.collection, create=False)
            self._checked = None
        collection = self._collection
        stored = await collection.refresh(older_than_seconds=FRESH_SECONDS)
        # The collection may have been recreated or moved to another space since the last call.
        now = stored.collection_id, stored.space
        if now != self._checked:
            required = self.config.embedding_dimensions
            is_required = "embedding_dimensions" in self.config.model_fields_set
            if stored.space and is_required and stored.space.space.dimensions != required:
                raise errors.ConfigurationError(
                    f"collection {collection.name!r} has vectors of {stored.space.space.dimensions} dimensions and "
                    f"{required} are configured; unset RETRIEVAL_EMBEDDING_DIMENSIONS, or ingest the tickets into "
                    "another collection"
                )
            self._counted_until = 0.0
            self._checked = now
        return collection

    async def _platform(self) -> Platform:
        if self._given is not None:
            return self._given
        async with self._opening:
            if self._own is None:
                self._own = await connect().__aenter__()
            return self._own


async def _search(collection: Collection, search: answers.TicketSearch, limit: int) -> Sequence[Hit]:
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
    except errors.UnknownFieldError:
        # The domain is the only attribute in the filter.
        _log.warning("no ticket of collection %r has a domain, so the filter matches nothing", collection.name)
        return ()


async def _by_domain(collection: Collection) -> list[ValueCount]:
    try:
        return await collection.value_counts(DOMAIN)
    except errors.UnknownFieldError:  # no ticket has a domain
        return [replace(count, value="") for count in await collection.value_counts("kind")]
