"""Settings: values from the environment, read once and passed in."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

EmbedderName = Literal["auto", "openai", "minilm", "hashing", "none"]

MAX_SCHEMA_BYTES = 50
"""PostgreSQL names have 63 bytes; the roles' names are the schema's with an ending."""


class Settings(BaseSettings):
    """What can be configured, each as ``RETRIEVAL_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(
        env_prefix="RETRIEVAL_",
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        # A refused value may hold a password.
        hide_input_in_errors=True,
    )

    database_url: SecretStr | None = None
    """``postgresql://...``; unset: the embedded PostgreSQL."""
    home: Path | None = None
    """Where the embedded PostgreSQL keeps its data; unset: the user's data directory."""
    database_schema: str = Field(default="retrieval", validation_alias="RETRIEVAL_SCHEMA")
    """The schema of the database that holds everything."""
    tenant: str = "default"
    """The tenant whose data is seen."""
    pool_size: int = Field(default=8, ge=1, le=1000)
    """The most connections that one process opens."""
    pool_timeout_seconds: float = Field(default=10.0, gt=0)
    """How long a search waits for a free connection."""

    embedder: EmbedderName = "auto"
    """``auto``: openai when its key is set, else minilm when installed, else none (lexical search only)."""
    embedding_model: str = "text-embedding-3-small"
    """The model asked of an OpenAI-compatible endpoint."""
    embedding_dimensions: int | None = None
    """Dimensions asked of the model; unset: the model's own."""
    embedding_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("RETRIEVAL_EMBEDDING_API_KEY", "OPENAI_API_KEY")
    )
    """Of the OpenAI-compatible endpoint."""
    embedding_base_url: str | None = Field(
        default=None, validation_alias=AliasChoices("RETRIEVAL_EMBEDDING_BASE_URL", "OPENAI_BASE_URL")
    )
    """Where the endpoint is; unset: OpenAI."""
    embedding_max_texts: int = Field(default=2048, ge=1)
    """Texts a request; some endpoints take no more than 32."""
    embedding_timeout_seconds: float = Field(default=30.0, gt=0)

    def changed(self, **values: object) -> Settings:
        """The same settings with other values, checked like the rest."""
        return self.model_validate({**self.model_dump(), **values})

    @field_validator("database_url")
    @classmethod
    def _usable_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("it must be a URL such as postgresql://user:password@host:5432/database")
        return value

    @field_validator("database_schema")
    @classmethod
    def _usable_schema(cls, value: str) -> str:
        if not value or "\x00" in value or len(value.encode()) > MAX_SCHEMA_BYTES:
            raise ValueError(f"a schema's name has 1 to {MAX_SCHEMA_BYTES} bytes")
        if value.startswith("pg_") or value == "information_schema":
            raise ValueError(f"{value!r} belongs to PostgreSQL; use another schema, such as 'retrieval'")
        return value

    @field_validator("tenant")
    @classmethod
    def _usable_tenant(cls, value: str) -> str:
        if not value or "\x00" in value or len(value.encode()) > 512:
            raise ValueError("a tenant's name has 1 to 512 bytes")
        return value
