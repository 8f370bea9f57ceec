"""Uploads of the console, without a browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient

from retrieval import Collection
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.surfaces.console import data
from tests.support.serving import app_of

OWN = {"Sec-Fetch-Site": "same-origin", "HX-Request": "true"}


@pytest_asyncio.fixture
async def app(database_url: str) -> AsyncIterator[FastAPI]:
    """The application, open."""
    app = app_of(database_url)
    async with app.router.lifespan_context(app):
        yield app
        for upload in getattr(app.state, "console_uploads", {}).values():
            upload.folder.cleanup()


@pytest_asyncio.fixture
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    """A browser's requests, by the scripts of the page."""
    async with AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost", headers=OWN) as opened:
        yield opened


async def preview(client: AsyncClient) -> str:
    """Send a table; returns the name of the upload."""
    files = {"files": ("items.csv", b"id,text\n1,disk full\n")}
    answer = await client.post("/console/data/upload", data={"collection": "docs"}, files=files)
    found = re.search(r'name="upload" value="([^"]+)"', answer.text)
    assert found is not None, answer.text
    return found[1]


async def test_uploads_that_are_never_stored_do_not_pile_up(
    app: FastAPI, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest ones go, with their files; the page says so where one is asked for."""
    monkeypatch.setattr(data, "_MOST_UPLOADS", 2)
    first, *_ = [await preview(client) for _ in range(3)]
    assert len(app.state.console_uploads) == 2
    answer = await client.post("/console/data/store", data={"upload": first})
    assert (answer.status_code, "send the files again" in answer.text) == (422, True)


async def test_a_file_whose_name_is_too_long_is_refused(client: AsyncClient) -> None:
    """Other systems allow 255 characters of three bytes each."""
    files = {"files": ("表" * 100 + ".md", b"# disk full")}
    answer = await client.post("/console/data/upload", data={"collection": "docs"}, files=files)
    assert (answer.status_code, "cannot be saved: File name too long; rename it" in answer.text) == (422, True)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (DatabaseUnreachableError("cannot reach secret"), "the database cannot be reached; try again in a moment"),
        (KeyError("secret"), "an unexpected error; the service"),
    ],
)
async def test_an_upload_that_fails_says_so(
    app: FastAPI, client: AsyncClient, monkeypatch: pytest.MonkeyPatch, error: Exception, shown: str
) -> None:
    """Whatever the fault, and without internals."""

    async def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Collection, "ingest", fail)
    upload = await preview(client)
    await client.post("/console/data/store", data={"upload": upload})
    await app.state.console_uploads[upload].task
    answer = await client.get("/console/data/progress", params={"upload": upload})
    assert shown in answer.text
    assert "secret" not in answer.text
