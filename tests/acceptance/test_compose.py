"""The services of the Compose file as processes: their commands and variables, on a database and ports of the test."""

from __future__ import annotations

import signal
import subprocess
from contextlib import ExitStack

import httpx2

from scripts.container_files import command_of, compose
from tests.acceptance.conftest import SECONDS, Program

SECRETS = {"POSTGRES_PASSWORD": "p", "PLATFORM_PASSWORD": "q", "METRICS_TOKEN": "m" * 32, "MCP_TOKEN": "c" * 32}
SERVICES = compose(SECRETS)["services"]


def arguments(name: str) -> list[str]:
    """The arguments of the service's command; a server gets a free port."""
    words = command_of(SERVICES[name])[1:]
    return [*words, "--port", "0"] if "--port" in words else words


def variables(name: str) -> dict[str, str]:
    """The service's variables that are not about the database."""
    variables_of_service = SERVICES[name]["environment"].items()
    return {
        key: value
        for key, value in variables_of_service
        if value and key not in {"RETRIEVAL_DATABASE_URL", "RETRIEVAL_EMBEDDER"}
    }


def start(program: Program, name: str) -> subprocess.Popen[str]:
    """A process of the service."""
    return program.using(**variables(name)).start(*arguments(name))


def test_the_services_run_together(program: Program) -> None:
    """After the migration the HTTP service is ready, the servers ask for their tokens, and all end in good order."""
    program.using(**variables("migrate")).succeeds(*arguments("migrate"))
    names = ("http", "worker", "mcp")
    with ExitStack() as stack:
        processes = {name: start(program, name) for name in names}
        for process in processes.values():
            stack.callback(process.communicate)
            stack.callback(process.kill)
        http, mcp = (printed_address(processes[name]) for name in ("http", "mcp"))
        while (ready := httpx2.get(f"{http}/readyz", timeout=SECONDS)).status_code == 503:
            """Its database is being opened."""
        assert ready.json()["status"] == "ready"
        bearer = {"Authorization": f"Bearer {SECRETS['METRICS_TOKEN']}"}
        assert "retrieval_database_up 1.0" in httpx2.get(f"{http}/metrics", headers=bearer, timeout=SECONDS).text
        assert httpx2.get(f"{http}/v1/collections", timeout=SECONDS).status_code == 401
        assert httpx2.post(mcp, timeout=SECONDS).status_code == 401
        program.succeeds("db", "status")
        for name, process in processes.items():
            assert process.poll() is None, name
            process.send_signal(signal.SIGTERM)
        for name, process in processes.items():
            assert process.wait(SECONDS) == 0, name


def printed_address(process: subprocess.Popen[str]) -> str:
    """The address that a server prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    return next(word for word in line.split() if word.startswith("http://"))
