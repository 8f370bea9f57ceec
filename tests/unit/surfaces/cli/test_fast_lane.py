"""The hooks' lane of the program, before anything is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from retrieval.surfaces.cli.fast_lane import fast_lane


@pytest.mark.parametrize(
    "arguments",
    [
        ["session-start", "-h", "--format"],
        ["session-start", "--limit", "-h", "--bogus"],
        ["-t", "me", "session-start", "--session", "s", "--help", "--bogus"],
    ],
)
def test_help_is_given_whatever_else_is_asked(arguments: list[str]) -> None:
    """Not even wrong usage beside it ends with an error."""
    assert fast_lane(arguments) == ["session-start", "--help"]


@pytest.mark.parametrize("arguments", [["status"], [], ["--version"], ["--bogus", "search"], ["--help"]])
def test_what_is_no_hook_is_the_programs(arguments: list[str]) -> None:
    """It is left as it is."""
    assert fast_lane(arguments) == arguments


def test_closed_streams_are_opened_on_nothing() -> None:
    """What is opened later would take their place, and be written to."""
    code = "import os\nfrom retrieval.surfaces.cli.fast_lane import _open_closed_streams as go\nos.closerange(0, 3)\n"
    code += "go()\nos._exit(0 if os.open(os.devnull, os.O_RDONLY) > 2 else 1)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
