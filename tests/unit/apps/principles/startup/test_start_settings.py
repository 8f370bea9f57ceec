"""The fast lane's settings are those of ``Settings``, read without what that loads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from retrieval import Settings
from retrieval.apps.principles.startup.start_settings import StartSettings, start_settings
from retrieval.domain.errors import ConfigurationError

FIELDS = tuple(StartSettings.__dataclass_fields__)


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("RETRIEVAL_")]:
        monkeypatch.delenv(name)


def settings_said(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> dict[str, object]:
    """The same fields as ``Settings`` reads them from these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = Settings()
    url = said.database_url.get_secret_value() if said.database_url else None
    return {name: getattr(said, name) for name in FIELDS} | {"database_url": url}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"RETRIEVAL_DATABASE_URL": "postgresql://me:secret@db:5433/shop?sslmode=require"},
        {"RETRIEVAL_DATABASE_URL": "postgres:///shop", "RETRIEVAL_TENANT": "acme", "RETRIEVAL_SCHEMA": "search"},
        {"RETRIEVAL_HOME": "~/search", "RETRIEVAL_SESSION_START_SECONDS": "0.25"},
        {"RETRIEVAL_HOME": ""},
        {"retrieval_tenant": "lower", "Retrieval_Schema": "mixed"},
        {"RETRIEVAL_SESSION_START_SECONDS": " 3 "},
    ],
)
def test_they_say_what_settings_say(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """Names, defaults, and the case that does not count."""
    found = start_settings(variables)
    assert {name: getattr(found, name) for name in FIELDS} == settings_said(monkeypatch, variables)


@pytest.mark.parametrize(
    "variables",
    [
        {"RETRIEVAL_DATABASE_URL": "mysql://db"},
        {"RETRIEVAL_DATABASE_URL": ""},
        {"RETRIEVAL_SCHEMA": ""},
        {"RETRIEVAL_SCHEMA": "s" * 51},
        {"RETRIEVAL_SCHEMA": "pg_search"},
        {"RETRIEVAL_SCHEMA": "information_schema"},
        {"RETRIEVAL_TENANT": ""},
        {"RETRIEVAL_TENANT": "é" * 257},
        {"RETRIEVAL_SESSION_START_SECONDS": "0"},
        {"RETRIEVAL_SESSION_START_SECONDS": "soon"},
        {"RETRIEVAL_SESSION_START_SECONDS": "inf"},
        {"RETRIEVAL_SESSION_START_SECONDS": "nan"},
    ],
)
def test_they_refuse_what_settings_refuse(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """The message names the variable and keeps what may be a secret."""
    with pytest.raises(ConfigurationError, match=next(iter(variables))):
        start_settings(variables)
    with pytest.raises(ValidationError):
        settings_said(monkeypatch, variables)


def test_the_tenant_of_the_command_line_goes_first() -> None:
    """As with every other command."""
    assert start_settings({"RETRIEVAL_TENANT": "one"}, "two").tenant == "two"


def test_without_a_home_it_is_the_platforms() -> None:
    """Where the embedded server of every other command lives."""
    from retrieval.adapters.store.installation.embedded.place import default_home

    assert StartSettings().own_home == default_home()
    assert StartSettings(home=Path("/x")).own_home == Path("/x")
