"""``retrieval mcp`` before it serves: what cannot work is one line."""

from __future__ import annotations

import sys

import pytest

from retrieval.surfaces.cli.program import run_program


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


def test_everybody_s_address_is_refused_without_a_token(
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
