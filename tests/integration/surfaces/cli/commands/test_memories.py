"""``retrieval memories``, from its arguments to its output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from retrieval import Item, Settings
from retrieval.domain.errors import ConfigurationError, InvalidRequestError, UnknownCollectionError, UnknownItemError
from retrieval.surfaces.cli.app import app
from retrieval.sync import MemoryStore, connect


def test_a_memory_is_shown_and_forgotten(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON, by id and by user; a missing memory is an error, and reading creates no collection."""
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
    payload = json.loads(program.invoke(app, ["memories", "show", "m1", "--json"]).output)
    assert (payload["memory_id"], payload["content"], payload["accesses"]) == ("m1", {"n": 1}, 0)
    assert program.invoke(app, ["memories", "forget", "m1"]).output == "1 memory forgotten\n"
    of_ann = ("forget", "--user", "ann", "--json")
    assert "Forget all memories of user ann in memories? There is no terminal" in str(refused(*of_ann))
    assert json.loads(program.invoke(app, ["memories", *of_ann, "--yes"]).output) == {"forgotten": 2}
    assert program.invoke(app, ["memories", "forget", "--project", "p1", "-y"]).output == "0 memories forgotten\n"
    assert isinstance(refused("show", "m1"), UnknownItemError)
    assert isinstance(refused("forget"), InvalidRequestError)
    assert str(refused("show", "m1", "--collection", "none")).endswith(
        "its first memory makes it: retrieval memories remember FILE --collection none --project ID --session NAME"
    )
    with connect(database_url, settings=settings) as platform:
        plain = platform.collection("plain")
        plain.add([Item(item_id="i", body="no memory", attributes={"project_id": "p1"})])
        for words in (["show", "i"], ["forget", "i"], ["forget", "--project", "p1", "-y"]):
            assert "holds no memories" in str(refused(*words, "--collection", "plain"))
        assert (plain.info().items, plain.info().filterable) == (1, {})
    assert isinstance(refused("forget", "m1", "--user", "ann"), InvalidRequestError)


BERLIN, MUNICH = (
    json.dumps({"role": "user", "name": "Ann", "content": f"I live in lovely {city}."}) for city in ("Berlin", "Munich")
)


@pytest.fixture
def simulated(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of this test's tenant, with the simulated language model."""
    variables = {"DATABASE_URL": database_url, "TENANT": settings.tenant, "EMBEDDER": "none", "LLM": "sim"}
    for name, value in variables.items():
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)


@pytest.mark.usefixtures("simulated")
def test_messages_of_a_file_are_remembered_and_their_history_is_shown(tmp_path: Path) -> None:
    """Messages come as lines, objects or lists; the report plain or as JSON; the collection is made."""
    program = CliRunner()

    def remembered(name: str, text: str, *words: str) -> str:
        (tmp_path / name).write_text(text)
        file = str(tmp_path / name)
        output = program.invoke(app, ["memories", "remember", file, "--project", "p1", "--session", name, *words])
        assert output.exception is None, output.output
        return output.output

    (first,) = json.loads(remembered("one", BERLIN + "\n\n", "--json"))["facts"]
    assert (first["outcome"], first["fact"], first["sources"]) == ("added", "Ann: I live in lovely Berlin.", ["one/1"])
    assert "nothing was changed" in remembered("one", f"[\n{BERLIN}\n]")
    report = remembered("two", MUNICH, "--first-turn", "7", "--at", "2026-05-01T12:00:00+00:00")
    assert "superseded" in report
    assert "nothing in them" in remembered("three", '{"role": "user", "content": "Hello"}')
    output = program.invoke(app, ["memories", "history", first["memory_id"]]).output
    assert "two/7" in output
    assert output.index("Munich") < output.index("Berlin")
    versions = json.loads(program.invoke(app, ["memories", "history", first["memory_id"], "--json"]).output)
    assert [version["text"][-7:] for version in versions] == ["Munich.", "Berlin."]


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no message has a text"),
        ("{", ":1: "),
        (BERLIN + "\nnonsense", ":2: "),
        ("3", "must have a role"),
        ('{"content": "x"}', "must have a role"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_file_that_holds_no_messages_is_one_readable_error(tmp_path: Path, text: Any, why: str) -> None:
    """It names the line."""
    file = tmp_path / "chat.jsonl"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    words = ["memories", "remember", str(file), "--project", "p1", "--session", "s"]
    error = CliRunner().invoke(app, words).exception

    assert isinstance(error, InvalidRequestError)
    assert why in str(error)


@pytest.mark.usefixtures("simulated")
def test_remembering_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file or the language model is missing; a collection of other items stays unchanged."""
    file = tmp_path / "chat.jsonl"
    words = ["memories", "remember", str(file), "--project", "p1", "--session", "s"]
    assert isinstance(CliRunner().invoke(app, words).exception, InvalidRequestError)
    file.write_text(BERLIN)
    with connect() as platform:
        platform.collection("plain")
    assert "holds no memories" in str(CliRunner().invoke(app, [*words, "--collection", "plain"]).exception)
    monkeypatch.setenv("RETRIEVAL_LLM", "none")
    error = CliRunner().invoke(app, words).exception
    assert isinstance(error, ConfigurationError)
    assert "RETRIEVAL_LLM_MODEL" in str(error)


@pytest.mark.usefixtures("simulated")
def test_remembering_says_where_messages_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first one leaves; nothing answers there, so nothing is stored."""
    file = tmp_path / "chat.jsonl"
    file.write_text(BERLIN)
    variables = {"LLM": "openai", "LLM_MODEL": "m1", "LLM_BASE_URL": "http://127.0.0.1:9/v1", "LLM_RETRIES": "0"}
    for name, value in variables.items():
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    output = CliRunner().invoke(app, ["memories", "remember", str(file), "--project", "p1", "--session", "s"])

    assert "are sent to http://127.0.0.1:9/v1, to be read by m1" in output.stderr
    assert "nothing of the messages was stored" in str(output.exception)
