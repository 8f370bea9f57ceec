"""Uploads of the console, without a browser."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

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


async def preview(client: AsyncClient, *names: str, content: bytes = b"id,text\n1,disk full\n") -> str:
    """Send files of these names, or a table; returns the name of the upload."""
    files = [("files", (name, content)) for name in names or ("items.csv",)]
    answer = await client.post("/console/data/upload", data={"collection": "docs"}, files=files)
    found = re.search(r'name="upload" value="([^"]+)"', answer.text)
    assert found is not None, answer.text
    return found[1]


async def stored(app: FastAPI, client: AsyncClient, upload: str) -> str:
    """Store the upload; returns the page's answer at the end."""
    await client.post("/console/data/store", data={"upload": upload})
    await app.state.console_uploads[upload].task
    return (await client.get("/console/data/progress", params={"upload": upload})).text


async def test_uploads_that_are_never_stored_do_not_pile_up(
    app: FastAPI, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest ones go, with their files; the page says so where one is asked for."""
    monkeypatch.setattr(data, "_MOST_UPLOADS", 2)
    first, *_ = [await preview(client) for _ in range(3)]
    assert len(app.state.console_uploads) == 2
    answer = await client.post("/console/data/store", data={"upload": first})
    assert (answer.status_code, "send the files again" in answer.text) == (422, True)


@pytest.mark.parametrize(("gap", "status"), [(0.4, 200), (30.0, 408)])
async def test_a_slow_upload_may_take_as_long_as_it_goes_on(client: AsyncClient, gap: float, status: int) -> None:
    """The time of the request restarts with each part; one that stops for as long is refused."""
    files = {"files": ("items.csv", b"id,text\n1,disk full\n")}
    form = client.build_request("POST", "/console/data/upload", data={"collection": "docs"}, files=files)
    body, headers = await form.aread(), {"X-Request-Timeout": "1", "content-type": form.headers["content-type"]}

    async def parts() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), len(body) // 4):
            yield body[begin : begin + len(body) // 4]
            await asyncio.sleep(gap)

    answer = await client.post("/console/data/upload", content=parts(), headers=headers)
    assert answer.status_code == status, answer.text


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
    answer = await stored(app, client, await preview(client))
    assert shown in answer
    assert "secret" not in answer


@pytest.mark.parametrize("name", ["{out}/a.md", "/{out}/a.md", "../../{out}/a.md", "..\\..\\a.md", ".\0./.\0./a.md"])
async def test_an_upload_stays_in_its_folder(
    app: FastAPI, client: AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever the name of its file: nothing beside the folder is written or read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file_name = name.format(out=tmp_path).encode()
    # By hand, because the client encodes such names.
    part = b'--B\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    body = part % (b"collection", b"", b"docs") + part % (b"files", b'; filename="%s"' % file_name, b"# Leave")
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    await client.post("/console/data/upload", content=body + b"--B--", headers=headers)

    [(token, upload)] = app.state.console_uploads.items()
    [written] = list(tmp_path.rglob("a.md"))  # noqa: ASYNC240 - a few files
    assert written.is_relative_to(upload.source)
    assert upload.source.is_relative_to(upload.folder.name)
    assert "<dt>documents new</dt><dd>1</dd>" in await stored(app, client, token)


async def test_files_beside_a_folder_are_stored_too(app: FastAPI, client: AsyncClient) -> None:
    """They then have a common folder in the collection."""
    answer = await stored(app, client, await preview(client, "handbook/leave.md", "pay.md", content=b"# Title"))
    assert "<dt>documents new</dt><dd>2</dd>" in answer
    host = await app.state.service.host()
    collection = await host.collection("docs", create=False)
    ids = {stored.item.item_id.partition("#")[0] for stored in await collection.page()}
    assert ids == {"uploads/handbook/leave.md", "uploads/pay.md"}


async def test_only_a_page_before_another_one_links_to_it(app: FastAPI, client: AsyncClient) -> None:
    """A full page may be the last one."""
    host = await app.state.service.host()
    docs = await host.collection("docs")
    for number, is_linked in ((50, False), (51, True)):
        await docs.add([{"_id": f"i{place:02}", "text": "disk"} for place in range(number)])
        answer = await client.get("/console/data", params={"collection": "docs"})
        assert ("i49" in answer.text, "i50" in answer.text, "Next page" in answer.text) == (True, False, is_linked)


@pytest.mark.parametrize("body", [b"key=a&then=b&c=d", b"key=" + b"%41" * 300_000, b"&a" * 400_000])
async def test_a_sign_in_form_is_short(body: bytes) -> None:
    """Anybody may send one, and reading a long form would block other requests."""
    app = app_of("postgresql://127.0.0.1:1/none", insecure_local=False)
    headers = {**OWN, "Content-Type": "application/x-www-form-urlencoded"}
    async with AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost", headers=headers) as client:
        assert (await client.post("/console/sign-in", content=body)).status_code == 400


async def test_an_item_that_was_changed_meanwhile_is_not_deleted(app: FastAPI, client: AsyncClient) -> None:
    """The change is another user's, who would lose it."""
    await stored(app, client, await preview(client))
    shown = (await client.get("/console/data/item", params={"collection": "docs", "id": "1"})).text
    found = re.search(r'action="/console/data/delete".*name="version" value="([^"]+)"', shown, re.DOTALL)
    assert found is not None, shown
    form = {"collection": "docs", "id": "1", "version": found[1]}
    saved = await client.post("/console/data/save", data={**form, "body": "another text"})
    assert saved.status_code == 303, saved.text

    refused = await client.post("/console/data/delete", data=form)

    assert refused.status_code == 412, refused.text
    assert "another text" in (await client.get("/console/data/item", params=form)).text
