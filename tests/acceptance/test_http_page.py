"""The page about the service and the README, tried out: every curl command is sent to a running service."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from retrieval import Settings
from tests.support.database import SCHEMA
from tests.support.markdown import blocks
from tests.support.serving import serving

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "http.md"
README = ROOT / "README.md"
ADDRESS = "http://127.0.0.1:8000"

# An answer with an error fails the block.
STRICT = 'curl() { command curl -sS --fail-with-body "$@"; }\n'


@pytest.fixture
def address(database_url: str) -> Iterator[str]:
    """The address of the running service."""
    settings = Settings(
        tenant=f"page-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url)
    )
    with serving(settings) as address:
        yield address


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
