"""``retrieval memories``, from its arguments to what it prints."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from retrieval import Item, Settings
from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError, UnknownItemError
from retrieval.surfaces.cli.app import app
from retrieval.sync import MemoryStore, connect


def test_a_memory_is_shown_and_forgotten(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON, by id and by user; what is not there is an error, and no collection is made by looking."""
    for name, value in {"DATABASE_URL": database_url, "TENANT": settings.tenant, "EMBEDDER": "none"}.items():
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    program = CliRunner()

    def refused(*words: str) -> BaseException | None:
        return program.invoke(app, ["memories", *words]).exception

    assert isinstance(refused("show", "m1"), UnknownCollectionError)
    with connect(database_url, settings=settings) as platform:
        store = MemoryStore(platform)
        for number in range(3):
            store.store_memory("p1", "note", {"n": number}, user_id="ann", memory_id=f"m{number}")
    shown = json.loads(program.invoke(app, ["memories", "show", "m1", "--json"]).output)
    assert (shown["memory_id"], shown["content"], shown["accesses"]) == ("m1", {"n": 1}, 0)
    assert program.invoke(app, ["memories", "forget", "m1"]).output == "1 memory forgotten\n"
    assert json.loads(program.invoke(app, ["memories", "forget", "--user", "ann", "--json"]).output) == {"forgotten": 2}
    assert program.invoke(app, ["memories", "forget", "--project", "p1"]).output == "0 memories forgotten\n"
    assert isinstance(refused("show", "m1"), UnknownItemError)
    assert isinstance(refused("forget"), InvalidRequestError)
    with connect(database_url, settings=settings) as platform:
        plain = platform.collection("plain")
        plain.add([Item(item_id="i", body="no memory", attributes={"project_id": "p1"})])
        for words in (["show", "i"], ["forget", "i"], ["forget", "--project", "p1"]):
            assert "holds no memories" in str(refused(*words, "--collection", "plain"))
        assert (plain.info().documents, plain.info().filterable) == (1, {})
    assert isinstance(refused("forget", "m1", "--user", "ann"), InvalidRequestError)
