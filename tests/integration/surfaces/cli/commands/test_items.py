"""``retrieval items`` and ``retrieval collections remove``, from their arguments to their output."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from retrieval import Settings
from retrieval.domain.errors import (
    InvalidItemError,
    InvalidRequestError,
    UnknownCollectionError,
    UnknownItemError,
    VersionConflictError,
)
from retrieval.surfaces.cli.app import app
from retrieval.sync import connect


def call(*words: str, given: str | bytes | None = None) -> Result:
    """The result of the program with these arguments and that standard input."""
    return CliRunner().invoke(app, words, input=given)


def json_output(*words: str, given: str | None = None) -> Any:
    """The JSON output of the program."""
    result = call(*words, "--json", given=given)
    assert result.exception is None
    return json.loads(result.output)


@pytest.fixture(autouse=True)
def docs(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection of this test's tenant, with three items."""
    for name, value in {"DATABASE_URL": database_url, "TENANT": settings.tenant, "EMBEDDER": "none"}.items():
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    with connect(database_url, settings=settings) as platform:
        platform.collection("docs").add([{"_id": name, "level": name} for name in ("x", "y", "z")])


def test_an_item_is_put_shown_changed_and_removed() -> None:
    """Each says what became of it; a version that is another is a conflict."""
    first = json_output("items", "put", "docs", '{"_id": "a", "title": "one", "level": 1}', "--new")
    assert (first["result"], first["metadata"]) == ("added", {"level": 1})
    assert isinstance(call("items", "put", "docs", '{"_id": "a"}', "--new").exception, VersionConflictError)
    second = json_output("items", "patch", "docs", "a", "-", "--if-version", first["version"], given='{"title": "two"}')
    assert (second["title"], second["metadata"]) == ("two", {"level": 1})
    assert json_output("items", "get", "docs", "a")["version"] == second["version"]
    late = call("items", "delete", "docs", "a", "--if-version", first["version"])
    assert isinstance(late.exception, VersionConflictError)
    assert call("items", "delete", "docs", "a", "none").output == "1 item removed\n"
    assert isinstance(call("items", "get", "docs", "a").exception, UnknownItemError)


def test_items_are_listed() -> None:
    """The list has the items that match the conditions, page by page; ``get`` shows one."""
    assert [item["id"] for item in json_output("items", "list", "docs", "-w", "level!=y", "-n", "5")] == ["x", "z"]
    assert "--after y" in call("items", "list", "docs", "--after", "x", "-n", "1").output
    assert "level" in call("items", "get", "docs", "x").output
    # Faults are reported: invalid JSON, contradictory options.
    assert isinstance(call("items", "put", "docs", "{").exception, InvalidItemError)
    assert isinstance(call("items", "put", "docs", "[]").exception, InvalidItemError)
    assert str(call("items", "put", "docs", "-", given=b"\xff{}").exception).startswith(
        "cannot read standard input: byte 1 (0xff) is not UTF-8"
    )
    both = call("items", "put", "docs", '{"_id": "a"}', "--new", "--if-version", "x")
    assert isinstance(both.exception, InvalidRequestError)
    assert isinstance(call("items", "delete", "docs", "a", "b", "--if-version", "x").exception, InvalidRequestError)


def test_a_collection_is_removed_by_who_says_yes() -> None:
    """Without a terminal it needs the option; a removed collection is unknown."""
    assert isinstance(call("collections", "remove", "docs").exception, InvalidRequestError)
    assert call("collections", "remove", "docs", "--yes").output == "docs is removed\n"
    assert isinstance(call("collections", "remove", "docs").exception, UnknownCollectionError)
