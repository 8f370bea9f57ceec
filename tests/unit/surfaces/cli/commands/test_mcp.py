"""``retrieval mcp`` before it serves: what cannot work is one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer

from retrieval.surfaces.cli.app import app, run_program
from retrieval.surfaces.mcp.running import PATH
from tests.support.markdown import blocks

PAGE = Path(__file__).parents[5] / "docs/how-to/principles.md"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line of a run that is refused; nothing else is said."""
    assert run_program(["mcp", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_without_the_sdk_it_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optional dependency, so the rest works without."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert "pip install 'retrieval-platform[mcp]'" in refused(capsys)


def test_a_collection_that_cannot_be_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Not at the first call, where it could not be mended."""
    assert refused(capsys, "--collection", "").startswith("error: ")


def test_an_address_that_others_reach_is_refused_without_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is opened."""
    monkeypatch.delenv("RETRIEVAL_MCP_TOKEN", raising=False)
    said = refused(capsys, "--transport", "http", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - it is refused
    assert "set RETRIEVAL_MCP_TOKEN to a secret" in said


@pytest.mark.parametrize("token", ["short", "with a blank in the middle", "ümläute-are-no-ascii"])
def test_a_token_that_is_no_use_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """It could be guessed, or not be sent; the line does not show it."""
    monkeypatch.setenv("RETRIEVAL_MCP_TOKEN", token)
    said = refused(capsys, "--transport", "http", "--port", "0")
    assert said.startswith("error: RETRIEVAL_MCP_TOKEN: a token has at least 16 printable ASCII characters")
    assert token not in said


def test_the_settings_in_the_documentation_can_be_pasted() -> None:
    """They start this command with options that it has, or name the address that it serves at."""
    settings = [json.loads(block.text) for block in blocks(PAGE, "json")]
    servers = [one["mcpServers"]["principles"] for one in settings if "mcpServers" in one]
    group = typer.main.get_command(app)
    started = [server for server in servers if "command" in server]
    assert started
    for server in started:
        assert server["command"].endswith("/.venv/bin/retrieval")
        name, *options = server["args"]
        assert getattr(group, "commands", {})[name].make_context(name, options).params["transport"] == "stdio"
    assert {urlsplit(server["url"]).path for server in servers if "url" in server} == {PATH}
