"""``retrieval serve`` in a process of its own."""

from __future__ import annotations

import signal

import httpx2

from tests.acceptance.conftest import SECONDS, Program


def test_the_service_runs_until_a_signal_ends_it(program: Program) -> None:
    """It says where, and ends in good order with nothing to complain about."""
    process = program.start("serve", "--insecure-local", "--port", "0")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2]
        assert url.startswith("http://127.0.0.1:")
        assert process.stdout.readline() == f"in a browser: {url}/console\n"
        place = program.variables["RETRIEVAL_HOME"]
        assert process.stdout.readline().startswith(
            f"from the embedded PostgreSQL in {place}; collections of the tenant "
        )
        assert process.stdout.readline() == f"try, in another terminal: curl {url}/v1/collections\n"
        while (ready := httpx2.get(f"{url}/readyz", timeout=SECONDS)).status_code == 503:
            """Its database is being started."""
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=SECONDS)
        assert (process.returncode, log) == (0, "")
    finally:
        process.kill()
        process.communicate()
