"""The TypeScript client: its types match this service, and it works with a running service if Node is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scripts import typescript_client
from tests.acceptance.conftest import SECONDS, Program

CLIENT = typescript_client.CLIENT


def test_the_types_were_made_from_the_description_of_this_service() -> None:
    """Their first line names the description; after a change of the service run ``make client``, which needs Node."""
    assert typescript_client.is_current(), "the service has changed; run: make client"


def test_a_change_of_the_description_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path more is another description; another version of the program is not."""
    first = typescript_client.header(typescript_client.description())
    changed = typescript_client.description()
    changed["paths"] = {**changed["paths"], "/v1/more": {}}

    assert typescript_client.header(changed) != first
    monkeypatch.setattr("retrieval.surfaces.http.app.installed_version", lambda: "99.0", raising=True)
    assert typescript_client.header(typescript_client.description()) == first


@contextmanager
def serving(program: Program) -> Iterator[str]:
    """The URL of a service in a process of its own that asks for keys."""
    process = program.start("serve", "--port", "0")
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[2]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def node() -> str:
    """The program ``node``, where the client is compiled."""
    program = shutil.which("node")
    if program is None or not (CLIENT / "dist" / "test").is_dir():
        pytest.skip("THE TYPESCRIPT CLIENT IS NOT TESTED: it takes Node 20.3 or newer, and then: make client")
    return program


def test_the_client_works_on_a_running_service(program: Program, node: str) -> None:
    """The client's tests pass, and its example prints the hits."""
    key = program.json("keys", "create", "typescript", "--scope", "admin")["key"]
    with serving(program) as url:
        tests = subprocess.run(
            [node, "--test", "dist/test/"],
            cwd=CLIENT,
            env={**os.environ, "RETRIEVAL_URL": url, "RETRIEVAL_KEY": key},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert tests.returncode == 0, tests.stdout
        command = [node, "dist/examples/tickets.js", url, key]
        stdout = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, check=True, timeout=SECONDS).stdout

    assert "# skipped 0" in tests.stdout
    assert stdout.startswith("1. ")
    assert "T-1  Database connection times out" in stdout
    assert "/problems/unknown-collection 404" in stdout
