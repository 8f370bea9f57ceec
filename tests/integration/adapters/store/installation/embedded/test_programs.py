"""Programs that end with their caller: a killed restore must not be completed by a program that it has left behind."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

from retrieval.adapters.store.installation.embedded.binaries import Binaries
from retrieval.adapters.store.installation.embedded.home import Account
from tests.support.forked_program import forking


def programs() -> Binaries:
    """The system's programs, run as the current user."""
    return Binaries(Path("/bin"), Account("", os.geteuid(), os.getegid(), switch=False))


def _run_for_long(mark: str) -> None:
    programs().run_with_caller("sh", "-c", f"sleep 60; : {mark}")


def _running(mark: str) -> list[psutil.Process]:
    """The processes with the mark in their command line."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if any(mark in part for part in process.info["cmdline"] or ()) and process.info["status"] != "zombie"
    ]


def test_the_program_ends_if_its_caller_is_killed() -> None:
    """So does the process that waits for the caller's end."""
    mark = uuid.uuid4().hex
    caller = forking().Process(target=_run_for_long, args=(mark,))
    caller.start()
    _until(lambda: len(_running(mark)) >= 2)
    caller.kill()
    caller.join()
    _until(lambda: not _running(mark))


def test_status_and_output_of_a_program_that_ends_are_those_of_the_program() -> None:
    """Nothing is left waiting."""
    mark = uuid.uuid4().hex
    result = programs().run_with_caller("sh", "-c", f"echo told; exit 3; : {mark}")
    assert (result.returncode, result.stdout) == (3, "told\n")
    _until(lambda: not _running(mark))


def test_the_program_gets_no_input() -> None:
    """It does not read what tells of the caller's end."""
    assert programs().run_with_caller("cat").returncode == 0


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
