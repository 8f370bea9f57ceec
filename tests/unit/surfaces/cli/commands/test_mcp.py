"""``retrieval mcp`` before it serves: what cannot work is one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer

from retrieval.settings import Settings
from retrieval.surfaces.cli.app import app, run_program
from retrieval.surfaces.mcp.items import ItemTools
from retrieval.surfaces.mcp.memories import MemoryTools
from retrieval.surfaces.mcp.principles import PrincipleTools
from retrieval.surfaces.mcp.running import PATH
from retrieval.surfaces.mcp.served import EVERY_TOOL, Offer, Served, groups_named
from tests.support.markdown import blocks

DOCS = Path(__file__).parents[5] / "docs/how-to"
PAGES = [DOCS / "principles.md", DOCS / "mcp.md"]
TOP_LEVEL = ("mcpServers", "servers", "context_servers")


def refusal_line(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line of a refused run, which prints nothing else."""
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
    assert "pip install 'retrieval-platform[mcp]'" in refusal_line(capsys)


def test_a_collection_that_cannot_be_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Not at the first call, where it could not be mended."""
    assert refusal_line(capsys, "--collection", "").startswith("error: ")


def test_an_address_that_others_reach_is_refused_without_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is opened."""
    monkeypatch.delenv("RETRIEVAL_MCP_TOKEN", raising=False)
    message = refusal_line(capsys, "--transport", "http", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - it is refused
    assert "set RETRIEVAL_MCP_TOKEN to a secret" in message


@pytest.mark.parametrize("token", ["short", "with a blank in the middle", "ümläute-are-no-ascii"])
def test_an_unusable_token_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """It could be guessed, or not be sent; the line does not show it."""
    monkeypatch.setenv("RETRIEVAL_MCP_TOKEN", token)
    message = refusal_line(capsys, "--transport", "http", "--port", "0")
    assert message.startswith("error: RETRIEVAL_MCP_TOKEN: a token has at least 16 printable ASCII characters")
    assert token not in message


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_settings_in_the_documentation_can_be_pasted(page: Path) -> None:
    """They start this command with options that it has, or name the address that it serves at."""
    settings = [json.loads(block.text) for block in blocks(page, "json")]
    servers = [server for setting in settings for name in TOP_LEVEL for server in setting.get(name, {}).values()]
    group = typer.main.get_command(app)
    started = [server for server in servers if "command" in server]
    assert started
    for server in started:
        assert server["command"].endswith("/.venv/bin/retrieval")
        name, *options = server["args"]
        params = getattr(group, "commands", {})[name].make_context(name, options).params
        assert params["transport"] == "stdio"
        assert groups_named(params["tools"] or ["principles"])
    assert {urlsplit(server["url"]).path for server in servers if "url" in server} <= {PATH}


def test_the_page_names_every_tool() -> None:
    """With its group."""
    page = (DOCS / "mcp.md").read_text(encoding="utf-8")
    served = Served(Settings(), Offer(groups=EVERY_TOOL))
    tools = [tool for group in (PrincipleTools, ItemTools, MemoryTools) for tool in group(served).as_tools()]
    assert not [tool.tool.name for tool in tools if f"`{tool.tool.name}" not in page]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tools", "memory"), "there are no tools 'memory'; did you mean 'memories'?"),
        (("--keys",), "--keys goes with --transport http"),
        (("--memories", ""), "error: "),
    ],
)
def test_options_that_do_not_work_are_refused_at_once(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    """With the way to say it."""
    assert message in refusal_line(capsys, *options)
