"""The services that embed over HTTP: their addresses, requests and models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from retrieval.adapters.endpoints import OPENAI_URL
from retrieval.domain.errors import ConfigurationError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole

DESTINATIONS = "retrieval.destinations"
"""The logger that names the host that texts are sent to, if only a key in the environment selects it."""

_ELSEWHERE = "-elsewhere"
"""Follows the name of a hosted service in the spaces of a server that replaces it."""

_NOTHING: Mapping[Any, Any] = MappingProxyType({})
_BASE64 = MappingProxyType({"encoding_format": "base64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingService:
    """A service, or a kind of server, with the field names of its requests.

    The answers of all services are read in the same way: see ``retrieval.adapters.embedders.openai.vectors_in``.
    """

    name: str
    """The name in ``RETRIEVAL_EMBEDDER``."""
    title: str
    """The name in messages."""
    url: str = ""
    """Its usual address; empty: the settings must give one."""
    path: str = "/embeddings"
    models_path: str = ""
    """The path at which a server names its model; empty: it has none."""
    model: str = ""
    """Its usual model; empty: the server names its model."""
    key_variable: str = ""
    """The variable of its key; empty: it needs none."""
    texts: str = "input"
    dimensions: str = "dimensions"
    role: str = ""
    """The field that distinguishes documents from queries; empty: the model's prefixes do."""
    roles: Mapping[TextRole, str] = field(default_factory=lambda: _NOTHING)
    more: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """The further members of every request."""
    max_texts: int = 2048
    max_request_tokens: int = 250_000
    start: str = ""
    """The command that starts a server on this machine."""
    pull: str = ""
    """The command that downloads a model."""

    def space_provider(self, url: str) -> str:
        """The provider of the embedding spaces that the service fills at that address.

        A server in the place of a hosted service has other spaces: neither fills those of the other.
        """
        is_elsewhere = self.key_variable and url.rstrip("/") != self.url
        return f"{self.name}{_ELSEWHERE}" if is_elsewhere else self.name

    def address(self, base_url: str | None) -> str:
        """The address for requests: ``base_url``, else the usual one, without a ``/v1`` that the path has too."""
        url = (base_url or self.url).rstrip("/")
        return url.removesuffix("/v1") if self.path.startswith("/v1/") or self.path.startswith("/api/") else url

    def prefixes(self, model: str) -> dict[str, str]:
        """The prefixes of texts: the model's, or none if requests have a field for the role."""
        document, query = ("", "") if self.role else prefixes_of(model)
        return {"document_prefix": document, "query_prefix": query}

    def request(self, model: str, texts: Sequence[str], role: TextRole, dimensions: int | None) -> dict[str, Any]:
        """The body of a request; it names ``dimensions`` that are not None."""
        body = {"model": model, self.texts: list(texts), **self.more}
        if self.role:
            body[self.role] = self.roles[role]
        if dimensions is not None:
            body[self.dimensions] = dimensions
        return body


_INPUT_TYPES = MappingProxyType({TextRole.DOCUMENT: "document", TextRole.QUERY: "query"})

SERVICES = {
    service.name: service
    for service in (
        EmbeddingService(
            name="openai", title="OpenAI", url=OPENAI_URL, model="text-embedding-3-small",
            key_variable="OPENAI_API_KEY", more=_BASE64,
        ),
        EmbeddingService(name="openai-compatible", title="the endpoint", models_path="/models", more=_BASE64),
        EmbeddingService(
            name="ollama", title="Ollama", url="http://localhost:11434", path="/api/embed", model="nomic-embed-text",
            more=MappingProxyType({"truncate": False}), start="ollama serve", pull="ollama pull {model}",
            # On a CPU, a large model embeds about two texts a second, and four requests run in parallel.
            max_texts=8,
        ),
        EmbeddingService(
            name="voyage", title="Voyage", url="https://api.voyageai.com/v1", model="voyage-3.5",
            key_variable="VOYAGE_API_KEY", dimensions="output_dimension", role="input_type", roles=_INPUT_TYPES,
            more=MappingProxyType({"truncation": False, **_BASE64}), max_texts=1000, max_request_tokens=100_000,
        ),
        EmbeddingService(
            name="cohere", title="Cohere", url="https://api.cohere.com", path="/v2/embed", model="embed-v4.0",
            key_variable="COHERE_API_KEY", texts="texts", dimensions="output_dimension", role="input_type",
            roles=MappingProxyType({TextRole.DOCUMENT: "search_document", TextRole.QUERY: "search_query"}),
            more=MappingProxyType({"embedding_types": ["float"], "truncate": "NONE"}), max_texts=96,
        ),
        EmbeddingService(
            name="jina", title="Jina", url="https://api.jina.ai/v1", model="jina-embeddings-v3",
            key_variable="JINA_API_KEY", role="task",
            roles=MappingProxyType({TextRole.DOCUMENT: "retrieval.passage", TextRole.QUERY: "retrieval.query"}),
            more=MappingProxyType({"embedding_type": "float"}), max_texts=512, max_request_tokens=100_000,
        ),
        EmbeddingService(
            name="tei", title="Text Embeddings Inference", url="http://localhost:8080", path="/v1/embeddings",
            models_path="/info", more=_BASE64, max_texts=32, start="text-embeddings-router --model-id MODEL",
        ),
        EmbeddingService(
            name="vllm", title="vLLM", url="http://localhost:8000", path="/v1/embeddings", models_path="/v1/models",
            more=_BASE64, max_texts=64, start="vllm serve MODEL",
        ),
    )
}  # fmt: skip
"""The services by name. A service with other field names needs only another entry."""


def service_of(space: EmbeddingSpace) -> EmbeddingService | None:
    """The service that fills a space, at whatever address; None: none does, a model on this machine perhaps."""
    return SERVICES.get(space.provider.removesuffix(_ELSEWHERE))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """The facts about a model that are known in advance."""

    dimensions: int
    max_tokens: int
    is_shortened: bool = False
    """Whether the model returns vectors of other dimensions on request."""
    most_dimensions: int = 0
    """The most dimensions that can be requested; 0: the model's own."""
    dollars: float | None = None
    """The list price of a million tokens at its own service, as of 2025."""

    def check_dimensions(self, model: str, dimensions: int) -> None:
        """Raise ``ConfigurationError`` for dimensions that the model of that name cannot have."""
        most = max(self.most_dimensions, self.dimensions)
        if dimensions > most or not (self.is_shortened or dimensions == self.dimensions):
            raise ConfigurationError(
                f"model {model!r} has {self.dimensions} dimensions and cannot have {dimensions}; "
                f"set RETRIEVAL_EMBEDDING_DIMENSIONS to {self.dimensions}{' or fewer' if self.is_shortened else ''}"
            )


def _voyage(dollars: float) -> KnownModel:
    return KnownModel(dimensions=1024, max_tokens=32_000, is_shortened=True, most_dimensions=2048, dollars=dollars)


_MODELS = {
    "text-embedding-3-large": KnownModel(dimensions=3072, max_tokens=8191, is_shortened=True, dollars=0.13),
    "text-embedding-3-small": KnownModel(dimensions=1536, max_tokens=8191, is_shortened=True, dollars=0.02),
    "text-embedding-ada-002": KnownModel(dimensions=1536, max_tokens=8191, dollars=0.10),
    "voyage-3.5": _voyage(0.06),
    "voyage-3.5-lite": _voyage(0.02),
    "voyage-3-large": _voyage(0.18),
    "voyage-code-3": _voyage(0.18),
    "embed-v4.0": KnownModel(dimensions=1536, max_tokens=128_000, is_shortened=True, dollars=0.12),
    "embed-multilingual-v3.0": KnownModel(dimensions=1024, max_tokens=512, dollars=0.10),
    "embed-english-v3.0": KnownModel(dimensions=1024, max_tokens=512, dollars=0.10),
    "jina-embeddings-v3": KnownModel(dimensions=1024, max_tokens=8192, is_shortened=True),
    "jina-embeddings-v4": KnownModel(dimensions=2048, max_tokens=32_768, is_shortened=True),
    "nomic-embed-text": KnownModel(dimensions=768, max_tokens=2048),
    "nomic-embed-text-v1.5": KnownModel(dimensions=768, max_tokens=8192),
    "mxbai-embed-large": KnownModel(dimensions=1024, max_tokens=512),
    "mxbai-embed-large-v1": KnownModel(dimensions=1024, max_tokens=512),
    "all-minilm": KnownModel(dimensions=384, max_tokens=256),
    "all-minilm-l6-v2": KnownModel(dimensions=384, max_tokens=256),
    "bge-m3": KnownModel(dimensions=1024, max_tokens=8192),
    "bge-small-en-v1.5": KnownModel(dimensions=384, max_tokens=512),
    "bge-base-en-v1.5": KnownModel(dimensions=768, max_tokens=512),
    "bge-large-en-v1.5": KnownModel(dimensions=1024, max_tokens=512),
    "multilingual-e5-small": KnownModel(dimensions=384, max_tokens=512),
    "multilingual-e5-base": KnownModel(dimensions=768, max_tokens=512),
    "multilingual-e5-large": KnownModel(dimensions=1024, max_tokens=512),
    "snowflake-arctic-embed2": KnownModel(dimensions=1024, max_tokens=8192),
    "snowflake-arctic-embed-l-v2.0": KnownModel(dimensions=1024, max_tokens=8192),
    "embeddinggemma": KnownModel(dimensions=768, max_tokens=2048),
    "embeddinggemma-300m": KnownModel(dimensions=768, max_tokens=2048),
}

_ENGLISH_QUERY = "Represent this sentence for searching relevant passages: "
_TASK = "Given a web search query, retrieve relevant passages that answer the query"

_PREFIXES = (
    (r"nomic-embed-text", "search_document: ", "search_query: "),
    (r"e5-.*instruct|e5-mistral", "", f"Instruct: {_TASK}\nQuery: "),
    (r"(multilingual-)?e5-", "passage: ", "query: "),
    (r"qwen3-embedding", "", f"Instruct: {_TASK}\nQuery:"),
    (r"embeddinggemma", "title: none | text: ", "task: search result | query: "),
    (r"snowflake-arctic-embed(2|-[ml]-v2)", "", "query: "),
    (r"mxbai-embed-large|bge-.*-en|snowflake-arctic-embed", "", _ENGLISH_QUERY),
)
"""By the beginning of a model's name: the prefixes of documents and of queries, from the model cards."""


def plain_name(model: str) -> str:
    """A model's name without its publisher and tag, in lower case: ``bge-m3`` of ``BAAI/bge-m3:latest``."""
    return model.rpartition("/")[2].partition(":")[0].casefold()


def known_model(model: str) -> KnownModel | None:
    """The facts that are known about the model; None: it is unknown."""
    return _MODELS.get(plain_name(model))


def prefixes_of(model: str) -> tuple[str, str]:
    """The prefixes of documents and of queries that the model needs; empty for one that needs none."""
    name = plain_name(model)
    matches = ((document, query) for pattern, document, query in _PREFIXES if re.match(pattern, name))
    return next(matches, ("", ""))
