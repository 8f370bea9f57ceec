"""The embedders of a platform: one for each space, with the cache of each tenant before it."""

from __future__ import annotations

from functools import partial

from retrieval.adapters.embedders.cached import CachedEmbedder, allowed
from retrieval.adapters.embedders.choice import configured_embedder, embedder_for
from retrieval.adapters.endpoints.breaker import EMBEDDER, Guards
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.embedding import Embedder, EmbeddingSpace, TextRole
from retrieval.settings import Settings


class ChosenEmbedders:
    """An embedder that was given, else the one configured, and those of other spaces: made when first asked for."""

    def __init__(self, settings: Settings, given: Embedder | None = None) -> None:
        self._settings = settings
        self._given = given
        self._configured: Embedder | None = None
        self._by_space: dict[EmbeddingSpace, Embedder] = {}
        self._made: list[Embedder] = []
        self._cached: dict[tuple[int, int], CachedEmbedder] = {}
        self.guards = Guards(EMBEDDER)
        """The breakers of the embedders, which all tenants share."""

    def for_new(self) -> Embedder | None:
        """The embedder of new collections; None: they are searched by words alone.

        Raises ``ConfigurationError`` for one that is configured and cannot be made.
        """
        if self._configured is None:
            chosen = self._given or self._kept(configured_embedder(self._settings))
            if chosen is not None:
                # One may have been made for that space already.
                self._configured = self._by_space.setdefault(chosen.space, chosen)
        return self._configured

    def of(
        self, space: StoredSpace | None, database: Database, tenant_id: int, *, keep: bool = True
    ) -> CachedEmbedder | None:
        """The embedder of a collection's space with the tenant's cache; None where this process has none for it.

        ``keep``: whether the queries that it embeds stay at hand for the tenant's next call. A worker comes by many
        tenants, and asks none of them twice.
        """
        embedder = None if space is None else self._embedder(space.space)
        if space is None or embedder is None:
            return None
        key = (space.space_id, tenant_id)
        if key in self._cached:
            return self._cached[key]
        cached = CachedEmbedder(
            embedder,
            database,
            tenant_id,
            space,
            guard=self.guards.of(embedder, embedder.space.name),
            budget_seconds=self._settings.embedding_budget_seconds,
        )
        if keep:
            self._cached[key] = cached
        return cached

    async def try_out(self) -> bool:
        """Ask the embedder of new collections for one vector, as a search does; False: there is none.

        Raises ``ConfigurationError``, and the embedder's errors where it gives none within a search's budget.
        """
        embedder = self.for_new()
        if embedder is not None:
            guard = self.guards.of(embedder, embedder.space.name)
            seconds = allowed(embedder, self._settings.embedding_budget_seconds)
            await guard.in_time(partial(embedder.embed, ["ready"], TextRole.QUERY), seconds)
        return embedder is not None

    def forget(self, tenant_id: int) -> None:
        """Let go of what is at hand for a tenant that is not served any more."""
        for key in [key for key in self._cached if key[1] == tenant_id]:
            del self._cached[key]

    async def aclose(self) -> None:
        """Close what was made here; what was given is the giver's to close."""
        for embedder in self._made:
            await embedder.aclose()
        self._made.clear()
        self._by_space.clear()
        self._configured = None
        self._cached.clear()

    def _embedder(self, space: EmbeddingSpace) -> Embedder | None:
        if space not in self._by_space:
            is_given = self._given is not None and self._given.space == space
            made = self._given if is_given else self._kept(embedder_for(space, self._settings))
            if made is None:
                return None
            self._by_space[space] = made
        return self._by_space[space]

    def _kept(self, made: Embedder | None) -> Embedder | None:
        """It, noted as one to close."""
        if made is not None:
            self._made.append(made)
        return made
