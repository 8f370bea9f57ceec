"""The options of an OpenAI-compatible embedder, and which of them cannot work."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from retrieval.domain.embedding import EmbeddingSpace
from retrieval.domain.errors import ConfigurationError

OPENAI_URL = "https://api.openai.com/v1"

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
        self._check_address()
        self._check_key()
        self._check_dimensions()

    @property
    def host(self) -> str:
        """Host and port, for messages: never the credentials that a URL can hold."""
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

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

    def _check_address(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError(
                "the embedding server needs an address like https://host/v1; set RETRIEVAL_EMBEDDING_BASE_URL"
            )

    def _check_key(self) -> None:
        if not self.api_key and self.base_url.rstrip("/") == OPENAI_URL:
            raise ConfigurationError("OpenAI needs a key; set RETRIEVAL_EMBEDDING_API_KEY")
        # HTTP libraries quote a header that they cannot send, and with it the key.
        if not all("!" <= character <= "~" for character in self.api_key):
            raise ConfigurationError(
                "the embedding key holds a space, a line break or a character outside ASCII; "
                "set RETRIEVAL_EMBEDDING_API_KEY to the key alone"
            )

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
