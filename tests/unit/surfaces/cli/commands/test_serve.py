"""``retrieval serve`` before it serves: what cannot work is one line."""

from __future__ import annotations

import sys

import pytest

from retrieval.surfaces.cli.app import run_program


def refusal_line(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line of a refused run, which prints nothing else."""
    assert run_program(["serve", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_without_the_extra_it_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optional dependency, so the rest works without."""
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install 'retrieval-platform[http]'" in refusal_line(capsys)


def test_without_keys_it_listens_to_this_machine_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is opened."""
    line = refusal_line(capsys, "--insecure-local", "--host", "0.0.0.0")  # noqa: S104 - it is refused
    assert "create keys with retrieval keys create" in line
