"""The page about the service and the README, tried out: every curl command is sent to a running service."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from pydantic import SecretStr

from retrieval import Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.surfaces.http.app import create_app
from tests.support.database import SCHEMA
from tests.support.markdown import blocks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "http.md"
README = ROOT / "README.md"
ADDRESS = "http://127.0.0.1:8000"

# An answer with an error fails the block.
STRICT = 'curl() { command curl -sS --fail-with-body "$@"; }\n'


class Served(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Report that startup is complete."""
        await super().startup(sockets)
        self.is_listening.set()

    @property
    def address(self) -> str:
        """The address of the service."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"


@pytest.fixture
def address(database_url: str) -> Iterator[str]:
    """The address of the running service."""
    settings = Settings(
        tenant=f"page-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url)
    )
    app = create_app(settings, embedder=HashingEmbedder(), insecure_local=True)
    server = Served(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        assert server.is_listening.wait(60)
        yield server.address
    finally:
        server.should_exit = True
        thread.join(60)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page shows curl, which is not installed here")
@pytest.mark.parametrize("page", [PAGE, README], ids=lambda page: page.stem)
def test_every_request_of_the_page_is_served(address: str, tmp_path: Path, page: Path) -> None:
    """In the order of the page, by a service that has nothing yet; each ends well."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    curls = [block for block in blocks(page, "sh") if block.text.startswith("curl ")]
    requests = curls if page == README else [block for block in blocks(page, "sh") if not block.not_run]
    assert requests
    for block in requests:
        script = STRICT + block.text.replace(ADDRESS, address)
        run = subprocess.run(
            ["/bin/sh", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert run.returncode == 0, f"{block}\n{run.stdout}{run.stderr}"
