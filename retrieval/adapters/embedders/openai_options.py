"""The options of an OpenAI-compatible embedder, and which of them cannot work."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.adapters.endpoints.address import check_address, check_key, host_of
from retrieval.domain.embedding import EmbeddingSpace
from retrieval.domain.errors import ConfigurationError

_SETTINGS = "RETRIEVAL_EMBEDDING"
_DIMENSIONS = {
    "text-embedding-3-large": 3072,
    "text-embedding-3-small": 1536,
    "text-embedding-ada-002": 1536,
}
_FIXED_SIZE = frozenset({"text-embedding-ada-002"})
_SHORTENING = "text-embedding-3-"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIOptions:
    """What ``OpenAIEmbedder`` was made with, checked. Raises ``ConfigurationError`` for what cannot work."""

    api_key: str = field(repr=False)
    base_url: str
    model: str
    dimensions: int | None
    document_prefix: str
    query_prefix: str
    send_dimensions: bool | None
    max_concurrency: int
    max_texts: int
    max_input_tokens: int
    timeout_seconds: float
    max_attempts: int

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigurationError("no embedding model is named; set RETRIEVAL_EMBEDDING_MODEL")
        for name in ("max_concurrency", "max_texts", "max_input_tokens", "timeout_seconds", "max_attempts"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; the embedder needs a positive number")
        check_address(self.base_url, what="embedding", settings=_SETTINGS)
        check_key(self.api_key, self.base_url, what="embedding", settings=_SETTINGS)
        self._check_dimensions()

    @property
    def host(self) -> str:
        """Host and port, for messages: never the credentials that a URL can hold."""
        return host_of(self.base_url)

    @property
    def space(self) -> EmbeddingSpace:
        """The space that the vectors belong to."""
        return EmbeddingSpace(
            provider="openai",
            model=self.model,
            dimensions=_DIMENSIONS[self.model] if self.dimensions is None else self.dimensions,
            document_prefix=self.document_prefix,
            query_prefix=self.query_prefix,
        )

    @property
    def names_dimensions(self) -> bool:
        """Whether requests carry the ``dimensions`` parameter."""
        if self.send_dimensions is not None:
            return self.send_dimensions
        if self.model in _FIXED_SIZE:
            return False
        return self.dimensions is not None or self.model.startswith(_SHORTENING)

    def _check_dimensions(self) -> None:
        native = _DIMENSIONS.get(self.model)
        if native is None and self.dimensions is None:
            raise ConfigurationError(
                f"the dimensions of model {self.model!r} are not known; set RETRIEVAL_EMBEDDING_DIMENSIONS"
            )
        # A space checks its own range.
        asked = self.space.dimensions
        if native is None:
            return
        if asked > native or (self.model in _FIXED_SIZE and asked != native):
            raise ConfigurationError(
                f"model {self.model!r} has {native} dimensions and cannot have {asked}; "
                f"set RETRIEVAL_EMBEDDING_DIMENSIONS to {native}" + ("" if self.model in _FIXED_SIZE else " or fewer")
            )
