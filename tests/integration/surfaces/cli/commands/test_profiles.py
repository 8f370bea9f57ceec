"""``retrieval profiles`` and ``retrieval retrievals``, from their arguments to their output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import retrieval.sync
from retrieval import Context, Profile, Settings
from retrieval.domain.errors import NotFoundError
from retrieval.surfaces.cli.app import app


@pytest.fixture
def searched(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    """A collection ``docs`` of two items, and the identifier of its one search."""
    with retrieval.sync.connect(database_url, settings=settings) as platform:
        docs = platform.collection("docs")
        docs.add([
            {"_id": "1", "title": "First", "text": "the cat sat", "occurred_at": "2026-01-01T00:00Z"},
            {"_id": "2", "title": "Second", "text": "a cat, a cat", "occurred_at": "2026-01-02T00:00Z"},
        ])  # fmt: skip
        hits = docs.search("cat", context=Context(actor="kim", session="s-1"))
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", database_url)
    monkeypatch.setenv("RETRIEVAL_TENANT", settings.tenant)
    monkeypatch.setenv("RETRIEVAL_EMBEDDER", "none")
    return str(hits.retrieval_id)


def printed(*arguments: str) -> str:
    """The output of the program."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def json_output(*arguments: str) -> Any:
    """The output of the program with ``--json``."""
    return json.loads(printed(*arguments, "--json"))


def test_a_profile_is_set_listed_shown_and_left_again(searched: str, tmp_path: Path) -> None:
    """The shown profile can be set; an earlier version is activated by its number."""
    assert searched
    path = tmp_path / "latest.json"
    path.write_text(json.dumps(Profile(legs={"recent": 1.0}).as_dict()))
    assert printed("profiles", "set", "docs", str(path), "--note", "newest") == (
        "docs is searched with profile 2: recent 1; other than before: legs, depth, learned\n"
    )
    assert json.loads(printed("profiles", "show", "docs"))["legs"] == {"recent": 1.0}
    assert (
        printed("profiles", "set", "docs", str(path), "--store-only")
        == "docs: stored profile 3, not used yet; other than before: nothing\n"
    )
    assert json_output("profiles", "show", "docs")["version"] == 2
    assert json_output("profiles", "show", "docs", "1")["note"] == "the default"
    assert json_output("profiles", "use", "docs", "1")["is_active"] is True
    assert [(version["version"], version["is_active"]) for version in json_output("profiles", "list", "docs")] == [
        (3, False),
        (2, False),
        (1, True),
    ]
    assert [line.split()[:2] for line in printed("profiles", "list", "docs").splitlines()[-2:]] == [
        ["2", "no"],
        ["1", "yes"],
    ]


def test_a_preview_shows_what_moves(searched: str, tmp_path: Path) -> None:
    """A line a hit, under each profile's name."""
    assert searched
    path = tmp_path / "latest.json"
    path.write_text(json.dumps(Profile(legs={"recent": 1.0}).as_dict()))
    arguments = ("profiles", "preview", "docs", "cat sat", "-p", "active", "-p", str(path))
    lines = printed(*arguments).splitlines()
    assert lines[0] == "active:"
    assert lines[1].startswith("   1. 1  First  (stays at 1: ")
    assert lines[lines.index(f"{path}:") + 1].startswith("   1. 2  Second  (up 1, from 2 to 1: recent 100% (was 0%)")
    assert [preview["name"] for preview in json_output(*arguments)["previews"]] == ["active", str(path)]


def test_a_recorded_search_is_listed_and_shown(searched: str) -> None:
    """The actor, and the shown items with their propensities."""
    [listed] = json_output("retrievals", "list", "docs", "--session", "s-1")
    assert (listed["retrieval_id"], listed["query"], listed["hits"]) == (searched, "cat", 2)
    assert "none of that session" in printed("retrievals", "list", "docs", "--session", "s-2")
    line = printed("retrievals", "list", "docs")
    assert line.startswith(f"{searched}  ")
    assert line.endswith("UTC  2 hits  cat\n")
    lines = printed("retrievals", "show", searched).splitlines()
    assert lines[0].startswith("docs: 'cat', ")
    assert lines[1] == "actor kim, session s-1"
    assert [line.split()[0] for line in lines[-2:]] == ["1", "2"]
    assert json_output("retrievals", "show", searched)["context"]["actor"] == "kim"


def test_a_missing_version_file_or_search_is_refused(searched: str) -> None:
    """A missing version, file or search."""
    assert searched
    for arguments in (
        ["profiles", "use", "docs", "9"],
        ["profiles", "set", "docs", "nowhere.json"],
        ["retrievals", "show", "01a2014b-b29b-73d6-8b76-213aa0d89193"],
    ):
        assert isinstance(CliRunner().invoke(app, arguments).exception, NotFoundError)


def test_models_are_listed_and_chosen(searched: str) -> None:
    """Without any model, the command to learn; a choice is kept until the latest is chosen again."""
    assert searched
    assert "retrieval jobs run learn --collection docs" in printed("models", "docs")
    assert json_output("models", "docs") == {"used": 0, "chosen": False, "models": []}
    assert json_output("models", "docs", "--use", "0")["chosen"] is True
    assert json_output("models", "docs", "--use", "latest")["chosen"] is False
    refused = CliRunner().invoke(app, ["models", "docs", "--use", "9" * 5000]).exception
    assert str(refused) == f"--use takes a version's number, 0 or 'latest', not '{'9' * 37}…'"
