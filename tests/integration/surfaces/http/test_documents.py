"""Documents over HTTP: stored as texts and as files, listed, found with their passages, and removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from httpx2 import AsyncClient, Response

from tests.support.documents import pdf

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEAVE = "# Leave\n\nIt is asked for by mail.\n\n## Parents\n\nParents get fourteen weeks, and may split them.\n"
TRAVEL = "# Travel\n\nTickets are bought by the travel desk.\n"


async def _handbook(client: AsyncClient, name: str) -> str:
    await client.put(f"/v1/collections/{name}")
    path = f"/v1/collections/{name}/documents"
    documents = [{"id": "leave", "text": LEAVE, "metadata": {"team": "people"}}, {"id": "travel", "text": TRAVEL}]
    answer = await client.post(path, json={"documents": documents})
    assert (answer.status_code, answer.json()["added"]) == (200, 2)
    return path


def _counts(answer: Response) -> tuple[int, int, int, int]:
    payload: dict[str, Any] = answer.json()
    return payload["added"], payload["changed"], payload["unchanged"], payload["chunks"]["added"]


async def test_texts_are_stored_by_their_content(client: AsyncClient) -> None:
    """Unchanged texts cost nothing, and unchanged chunks of a changed document stay."""
    path = await _handbook(client, "by-content")
    again = await client.post(path, json={"documents": [{"id": "travel", "text": TRAVEL}]})
    longer = await client.post(
        path, json={"documents": [{"id": "travel", "text": f"{TRAVEL}\n# Hotels\n\nBook them.\n"}]}
    )
    assert _counts(again) == (0, 0, 1, 0)
    assert _counts(longer)[:3] == (0, 1, 0)
    assert longer.json()["chunks"]["removed"] <= 1
    bad = await client.post(path, json={"documents": [{"id": "x", "text": "a", "format": "pdf"}], "overlap": 5})
    assert bad.json()["errors"][0]["pointer"] == "/documents/0/format"
    overlap = await client.post(path, json={"documents": [], "overlap": 200})
    assert (overlap.status_code, "from 0 to 64" in overlap.json()["detail"]) == (422, True)


async def test_files_are_stored_replaced_and_removed(client: AsyncClient) -> None:
    """The same file again costs nothing; the parameter, the media type or the ending gives its format."""
    await client.put("/v1/collections/files")
    path = "/v1/collections/files/documents"
    new = await client.put(f"{path}/hand/leave.md", content=LEAVE.encode(), params={"metadata": '{"team": "people"}'})
    same = await client.put(f"{path}/hand/leave.md", content=LEAVE.encode(), params={"metadata": '{"team": "people"}'})
    other = await client.put(f"{path}/hand/leave.md", content=TRAVEL.encode())
    assert [(answer.status_code, *_counts(answer)[:3]) for answer in (new, same, other)] == [
        (201, 1, 0, 0),
        (200, 0, 0, 1),
        (200, 0, 1, 0),
    ]
    at_once = await asyncio.gather(*(client.put(f"{path}/hand/twice.md", content=TRAVEL.encode()) for _ in range(8)))
    told = sorted((answer.status_code, *_counts(answer)[:3]) for answer in at_once)
    assert told == [*[(200, 0, 0, 1)] * 7, (201, 1, 0, 0)]
    assert (await client.delete(f"{path}/hand/twice.md")).status_code == 204
    page = await client.put(
        f"{path}/report", content=pdf(["The disk is full."]), headers={"Content-Type": "application/pdf"}
    )
    assert page.status_code == 201
    hit = (await client.post("/v1/collections/files/search", json={"query": "disk"})).json()["hits"][0]
    assert (hit["metadata"]["document"], hit["metadata"]["page"]) == ("report", 1)

    assert [(await client.delete(f"{path}/hand/leave.md")).status_code for _ in range(2)] == [204, 404]
    listed = (await client.get(path)).json()
    assert ([document["id"] for document in listed["documents"]], listed["next"]) == (["report"], None)


@pytest.mark.parametrize(
    ("name", "content", "params", "message"),
    [
        ("report", b"text", {}, "?format=, one of markdown, html, pdf, docx, text, code"),
        ("report.pdf", b"no pdf", {}, "cannot be read as pdf"),
        ("notes.md", b"a\x00b", {}, "holds NUL bytes"),
        ("notes.md", b"a", {"metadata": "[1]"}, "metadata must be a JSON object"),
        ("notes.md", b"a", {"metadata": "{"}, "metadata cannot be read"),
        ("x" * 481, b"a", {"format": "text"}, "1 to 480 bytes"),
    ],
)
async def test_a_file_that_cannot_be_stored_is_refused(
    client: AsyncClient, name: str, content: bytes, params: dict[str, str], message: str
) -> None:
    """The answer says why, and what to do."""
    await client.put("/v1/collections/refused")
    answer = await client.put(f"/v1/collections/refused/documents/{name}", content=content, params=params)
    assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.text


async def test_an_id_that_no_document_can_have_is_refused(client: AsyncClient) -> None:
    """It is the client's fault, not the database's."""
    path = await _handbook(client, "nul")
    stored = await client.post(path, json={"documents": [{"id": "a\0b", "text": "a"}]})
    assert [answer.status_code for answer in (stored, await client.get(f"{path}/a%00b"))] == [422, 422]
    above = await client.post(path, json={"documents": [{"id": "../hand.md", "text": "x"}]})
    assert (above.status_code, above.json()["errors"][0]["pointer"]) == (422, "/documents/0/id")


async def test_documents_are_listed_page_by_page(client: AsyncClient) -> None:
    """Each once, with its title and metadata."""
    path = await _handbook(client, "listed")
    await client.post("/v1/collections/listed/items", json={"items": [{"id": "item", "text": "no document"}]})
    first = (await client.get(path, params={"limit": 1})).json()
    second = (await client.get(path, params={"limit": 1, "after": first["next"]})).json()
    assert [*first["documents"], *second["documents"]] == [
        {"id": "leave", "title": "Leave", "metadata": {"team": "people"}},
        {"id": "travel", "title": "Travel", "metadata": {}},
    ]
    assert second["next"] is None


async def test_a_document_is_read_with_its_text(client: AsyncClient) -> None:
    """Overlaps of chunks appear once; a missing document is a 404 that says where to look."""
    path = await _handbook(client, "read")
    long = " ".join(
        f"Rule {number} is about matter {number * 7} and what follows of it in every case." for number in range(700)
    )
    document = {"id": "a/rules", "text": long, "format": "text", "metadata": {"year": 2024}}
    await client.post(path, json={"documents": [document], "max_tokens": 32, "overlap": 8})
    payload = (await client.get(f"{path}/a/rules")).json()
    assert (payload["id"], payload["metadata"], payload["text"]) == ("a/rules", {"year": 2024}, long)
    assert len(payload["item_ids"]) > 500  # read in several pages
    leave = (await client.get(f"{path}/leave")).json()
    assert leave["title"] == "Leave"
    assert "fourteen weeks" in leave["text"]
    missing = await client.get(f"{path}/nothing")
    assert (missing.status_code, "GET .../documents" in missing.json()["detail"]) == (404, True)


async def test_passages_name_their_documents(client: AsyncClient) -> None:
    """The text for a prompt has at most the requested number of tokens."""
    await _handbook(client, "passages")
    path = "/v1/collections/passages/passages"
    request = {"query": "how many weeks do parents get?", "where": {"team": "people"}}
    payload = (await client.post(path, json=request)).json()
    best = payload["passages"][0]
    assert (best["document"], best["title"]) == ("leave", "Leave")
    assert "fourteen weeks" in best["text"]
    assert "> Parents get fourteen weeks" in payload["text"]
    assert 0 < payload["tokens"] <= 2000
    feedback = {"retrieval_id": payload["retrieval_id"], "item_id": best["item_ids"][0], "helpful": True}
    assert (await client.post("/v1/feedback", json=feedback)).status_code == 200

    none = (await client.post(path, json={**request, "max_tokens": 0})).json()
    assert none["errors"][0]["pointer"] == "/max_tokens"
    wrong = (await client.post(path, json={**request, "around": 11})).json()
    assert wrong["errors"][0]["pointer"] == "/around"
