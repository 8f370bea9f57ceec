"""The settings that starting a session goes by, read as ``retrieval.settings`` reads them, without what that loads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from retrieval.adapters.store.installation.embedded.place import default_home
from retrieval.domain.errors import ConfigurationError

SECONDS = 5.0
_MAX_SECONDS = 3600.0
_PREFIX = "retrieval_"
_MAX_SCHEMA_BYTES, _MAX_TENANT_BYTES = 50, 512


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    """See ``Settings``: the names and defaults are the same."""

    database_url: str | None = None
    home: Path | None = None
    database_schema: str = "retrieval"
    tenant: str = "default"
    session_start_seconds: float = SECONDS

    @property
    def own_home(self) -> Path:
        """The home of the embedded server."""
        return self.home or default_home()


def start_settings(environment: Mapping[str, str], tenant: str | None = None) -> StartSettings:
    """The settings of the environment; ``tenant`` goes first. Raises ``ConfigurationError`` for what cannot work."""
    # As in Settings, the case of a variable's name does not count.
    said = {name.lower().removeprefix(_PREFIX): value for name, value in environment.items() if _is_ours(name)}
    home = said.get("home")
    schema = _usable_name("RETRIEVAL_SCHEMA", said.get("schema", "retrieval"), _MAX_SCHEMA_BYTES)
    if schema.startswith("pg_") or schema == "information_schema":
        raise ConfigurationError(f"RETRIEVAL_SCHEMA is {schema!r}, which belongs to PostgreSQL; use another schema")
    return StartSettings(
        database_url=_usable_url(said.get("database_url")),
        home=None if home is None else Path(home),
        database_schema=schema,
        tenant=_usable_name("RETRIEVAL_TENANT", said.get("tenant", "default") if tenant is None else tenant,
                            _MAX_TENANT_BYTES),
        session_start_seconds=_usable_seconds(said.get("session_start_seconds", str(SECONDS))),
    )  # fmt: skip


def _is_ours(name: str) -> bool:
    return name.lower().startswith(_PREFIX)


def _usable_url(url: str | None) -> str | None:
    if url is not None and not url.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError(
            "RETRIEVAL_DATABASE_URL must be a URL such as postgresql://user:password@host:5432/database"
        )
    return url


def _usable_name(variable: str, name: str, most_bytes: int) -> str:
    if not name or "\x00" in name or len(name.encode(errors="replace")) > most_bytes:
        raise ConfigurationError(f"{variable} is {name!r:.80}; it must have 1 to {most_bytes} bytes")
    return name


def _usable_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _MAX_SECONDS:
        raise ConfigurationError(
            f"RETRIEVAL_SESSION_START_SECONDS is {text!r:.80}; it must be a number above 0 and at most 3600"
        )
    return seconds
