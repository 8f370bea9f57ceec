"""Items over HTTP: read, put, changed, removed, listed."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
import pytest_asyncio
from httpx2 import AsyncClient, Response

from retrieval.domain.api_key import EVERY_SCOPE, Caller, Scope
from retrieval.surfaces.http.admission import Access

pytestmark = pytest.mark.asyncio(loop_scope="module")

ITEMS = "/v1/collections/docs/items"


async def stream(client: AsyncClient, lines: str | bytes) -> Response:
    """The answer to a stream of items."""
    return await client.post(f"{ITEMS}/bulk", content=lines, headers={"Content-Type": "application/x-ndjson"})


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def docs(client: AsyncClient) -> None:
    """The collection that these tests write into."""
    await client.put("/v1/collections/docs")


async def test_an_item_is_put_read_and_removed(client: AsyncClient) -> None:
    """The answer has the version as an entity tag; a missing item is 404."""
    item_sent = {"title": "t", "text": "b", "tags": ["x"], "metadata": {"n": 1}, "occurred_at": "2026-05-31"}
    first = await client.put(f"{ITEMS}/a", json=item_sent)
    other_words = {"_id": "a", "title": "t", "text": "b", "tags": ["x"], "metadata": {"n": 1}}
    again = await client.put(f"{ITEMS}/a", json=other_words | {"occurred_at": "2026-05-31T00:00:00Z"})
    response = await client.get(f"{ITEMS}/a")

    assert (first.status_code, again.status_code, response.status_code) == (201, 200, 200)
    assert first.json() == again.json() == response.json()
    assert response.json() == response.json() | item_sent | {
        "id": "a",
        "status": "active",
        "occurred_at": "2026-05-31T00:00:00+00:00",
    }
    assert response.headers["ETag"] == f'"{response.json()["version"]}"'
    assert (await client.delete(f"{ITEMS}/a")).status_code == 204
    for answer in (await client.get(f"{ITEMS}/a"), await client.delete(f"{ITEMS}/a")):
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-item")


async def test_an_unchanged_item_is_not_sent_again(client: AsyncClient) -> None:
    """304 with the same entity tag."""
    tag = (await client.put(f"{ITEMS}/known", json={"title": "t"})).headers["ETag"]
    answer = await client.get(f"{ITEMS}/known", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.headers["ETag"], answer.content) == (304, tag, b"")
    await client.put(f"{ITEMS}/known", json={"title": "new"})
    assert (await client.get(f"{ITEMS}/known", headers={"If-None-Match": tag})).status_code == 200


async def test_a_write_in_another_version_fails(client: AsyncClient) -> None:
    """412, and nothing is changed; in the version that is there it is done."""
    tag = (await client.put(f"{ITEMS}/v", json={"title": "one"}, headers={"If-None-Match": "*"})).headers["ETag"]
    second = await client.put(f"{ITEMS}/v", json={"title": "two"}, headers={"If-Match": tag})
    late = [
        await client.put(f"{ITEMS}/v", json={"title": "late"}, headers={"If-Match": tag}),
        await client.put(f"{ITEMS}/v", json={"title": "late"}, headers={"If-None-Match": "*"}),
        await client.patch(f"{ITEMS}/v", json={"title": "late"}, headers={"If-Match": tag}),
        await client.delete(f"{ITEMS}/v", headers={"If-Match": tag}),
        await client.put(f"{ITEMS}/nowhere", json={}, headers={"If-Match": "*"}),
    ]

    assert {(answer.status_code, answer.json()["type"]) for answer in late} == {(412, "/problems/version-conflict")}
    assert (await client.get(f"{ITEMS}/v")).json() == second.json()
    assert (await client.delete(f"{ITEMS}/v", headers={"If-Match": second.headers["ETag"]})).status_code == 204
    assert (await client.put(f"{ITEMS}/v", json={}, headers={"If-Match": "bare"})).status_code == 422


async def test_a_merge_patch_changes_what_it_names(client: AsyncClient) -> None:
    """In either media type; null takes away."""
    await client.put(f"{ITEMS}/p", json={"title": "t", "text": "b", "metadata": {"a": 1, "b": 2}})
    body = json.dumps({"title": None, "metadata": {"a": None, "c": 3}})
    merged = await client.patch(f"{ITEMS}/p", content=body, headers={"Content-Type": "application/merge-patch+json"})
    assert (merged.json()["title"], merged.json()["metadata"]) == ("", {"b": 2, "c": 3})
    assert merged.json()["text"] == "b"
    assert (await client.patch(f"{ITEMS}/p", json={"kind": "note"})).json()["kind"] == "note"
    assert (await client.patch(f"{ITEMS}/nowhere", json={})).status_code == 404


@pytest.mark.parametrize("item_id", ["a/b", "ä 日\u200d", "bulk", "a%2Fb", '?#&"\\'])
async def test_an_item_may_be_called_anything(client: AsyncClient, item_id: str) -> None:
    """The id is percent-encoded, and comes back unchanged; a problem document names the path as it was sent."""
    path = f"{ITEMS}/{quote(item_id, safe='')}"
    assert (await client.get(path)).json()["instance"] == path
    assert (await client.put(path, json={"title": "t"})).json()["id"] == item_id
    assert (await client.get(path)).json()["id"] == item_id
    assert (await client.delete(path)).status_code == 204


@pytest.mark.parametrize("path", ["", "%00", "a%0Ab", "a%E2%80%AEb", "x" * 513])
async def test_an_invalid_item_id_is_refused(client: AsyncClient, path: str) -> None:
    """Without a fault of the service."""
    assert (await client.put(f"{ITEMS}/{path}", json={})).status_code in {404, 405, 422}
    assert (await client.get(f"{ITEMS}/{path}")).status_code in {200, 404, 422}


async def test_a_read_item_can_be_put_back(client: AsyncClient) -> None:
    """It is unchanged, one by one, together and in a stream."""
    item_sent = {"title": "t", "metadata": {"version": "2.1", "title": "another"}}
    first = (await client.put(f"{ITEMS}/back", json=item_sent)).json()
    again = await client.put(f"{ITEMS}/back", json=first)
    added = await client.post(ITEMS, json={"items": [first]})
    streamed = await stream(client, json.dumps(first))

    assert first["metadata"] == item_sent["metadata"]
    assert again.json() == first
    assert added.json()["unchanged"] == 1
    assert json.loads(streamed.content.splitlines()[0])["result"] == "unchanged"


async def test_a_ticket_keeps_its_hours(client: AsyncClient) -> None:
    """As when a file of tickets is read."""
    hours = {"hours_to_resolve": "4.5", "resolution_time_hours": 4.5}
    put = await client.put(f"{ITEMS}/hours", json={"metadata": {"hours_to_resolve": "4.5"}})
    await stream(client, json.dumps({"_id": "streamed", "text": "x", "hours_to_resolve": "4.5"}))
    assert put.json()["metadata"] == (await client.get(f"{ITEMS}/streamed")).json()["metadata"] == hours


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", ""])
async def test_a_body_of_another_type_is_refused_with_the_right_type(client: AsyncClient, content_type: str) -> None:
    """Some tools send a default type."""
    headers = {"Content-Type": content_type} if content_type else {}
    for method, path in (("POST", ITEMS), ("PUT", f"{ITEMS}/a"), ("PUT", "/v1/collections/docs")):
        answer = await client.request(method, path, content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (415, "/problems/media-type")
        assert "send the body with Content-Type: application/json" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff", r"byte 1 \(0xff\) is not UTF-8"),
        (b"1" * 5000, "too many digits"),
        (b"{", "not JSON"),
        (b'{"items": [], "items": [{"item_id": "twice"}]}', "the member 'items' occurs twice in one object"),
        (b'{"items": [{"item_id": "twice", "hours": 1, "hours": 2}]}', "the member 'hours' occurs twice"),
        ('{"items": [{"item_id": "wide"}]}'.encode("utf-16"), "UTF-16 or UTF-32 .*; send it as UTF-8"),
        ('{"items": [{"item_id": "wide"}]}'.encode("utf-16-be"), "UTF-16 or UTF-32 .*; send it as UTF-8"),
        (b'{"items": [{"item_id": "a", "hours": NaN}]}', "NaN is not a JSON number"),
    ],
    ids=["deep", "no text", "digits", "half", "member", "inner member", "UTF-16", "no mark", "NaN"],
)
async def test_a_body_that_cannot_be_read_is_malformed(client: AsyncClient, body: bytes, reason: str) -> None:
    """The answer gives the reason, and nothing is stored."""
    for method, path in (("POST", ITEMS), ("PATCH", f"{ITEMS}/twice"), ("POST", "/v1/collections/docs/search")):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = await client.request(method, path, content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed-body")
        assert re.search(reason, answer.json()["detail"])
    assert (await client.get(f"{ITEMS}/twice")).status_code == 404


async def test_a_repeated_member_is_refused_in_lines_and_in_filters_of_addresses(client: AsyncClient) -> None:
    """As in bodies; the other lines are stored."""
    lines = b'{"_id": "good", "text": "x"}\n{"_id": "bad", "_id": "worse"}\n'
    first, second, _ = map(json.loads, (await stream(client, lines)).content.splitlines())
    assert first["item_id"] == "good"
    assert "the member '_id' occurs twice" in second["error"]["detail"]
    wide = await stream(client, '{"_id": "wide"}'.encode("utf-16"))
    assert (wide.status_code, "save it as UTF-8" in wide.json()["detail"]) == (422, True)
    answer = await client.get(ITEMS, params={"where": '{"hours": 1, "hours": 2}'})
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-filter")
    assert "the member 'hours' occurs twice" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("address", "parameter", "parameters"),
    [
        (f"{ITEMS}?wher=%7B%7D&limit=1", "wher", "did you mean 'where'? There are: where, after, limit"),
        (f"{ITEMS}/any?foo=", "foo", "there are none"),
        ("/v1/analytics/queries?form=7d", "form", "there are: collection, since, until, limit"),
    ],
)
async def test_a_parameter_that_there_is_not_is_refused(
    client: AsyncClient, address: str, parameter: str, parameters: str
) -> None:
    """Without the refusal a mistyped filter would return everything."""
    answer = await client.get(address)
    assert answer.status_code == 422
    detail = f"there is no parameter '{parameter}'; {parameters}"
    assert answer.json()["errors"] == [{"parameter": parameter, "in": "query", "detail": detail}]


@pytest.mark.parametrize(
    "address", ["/v1/analytics/a%2Fb", "/v1/retrievals/a%2Fb", "/v1/collections/c/reembedding/a%2Fb"]
)
async def test_an_encoded_slash_is_a_slash_in_every_part_of_a_path(client: AsyncClient, address: str) -> None:
    """Not the character that stands for it while the path is divided."""
    method = "POST" if "reembedding" in address else "GET"
    answer = await client.request(method, f"/v1{address}")
    assert answer.status_code in {404, 422}
    assert "\\u" not in answer.text
    assert "surrogate" not in answer.text


async def test_a_repeated_parameter_is_refused(client: AsyncClient) -> None:
    """Otherwise one of two filters would have no effect; names of fields may be several."""
    answer = await client.get(f"{ITEMS}?limit=1&limit=2")
    [error] = answer.json()["errors"]
    assert (error["parameter"], error["detail"]) == ("limit", "the parameter is repeated; write it once")
    sheet = b"Ref,Body\nB1,The harbour\n"
    mapped = await client.post(
        f"{ITEMS}/bulk?map=id%3DRef&map=text%3DBody", content=sheet, headers={"Content-Type": "text/csv"}
    )
    assert json.loads(mapped.content.splitlines()[-1])["summary"]["added"] == 1


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("PUT", f"{ITEMS}/M%FCller"),
        ("DELETE", f"{ITEMS}/M%FCller"),
        ("DELETE", "/v1/collections/caf%E8"),
        ("GET", f"{ITEMS}?after=%FC"),
    ],
)
async def test_a_name_that_is_not_utf_8_is_refused(client: AsyncClient, method: str, address: str) -> None:
    """It would be confused with another name."""
    answer = await client.request(method, address, json={} if method == "PUT" else None)
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-request")
    assert "is not UTF-8" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"title": 3}, "/title"),
        ({"tags": ["ok", 3]}, "/tags/1"),
        ({"metadata": []}, "/metadata"),
        ({"id": "other"}, None),
        ({"occurred_at": "yesterday"}, None),
        ({"text": "a\x00b"}, None),
        ({"metadata": {"a": "\ud800"}}, None),
    ],
)
async def test_an_item_that_cannot_be_stored_is_refused(client: AsyncClient, body: object, pointer: str | None) -> None:
    """If the shape is wrong its place is pointed at; else the item is named."""
    answer = await client.put(f"{ITEMS}/bad", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    if pointer is None:
        assert (answer.json()["type"], answer.json()["item_id"]) == ("/problems/invalid-item", "bad")
    else:
        assert answer.json()["errors"][0]["pointer"] == pointer


async def test_many_are_added_and_removed_together(client: AsyncClient) -> None:
    """All or none; a bad one is pointed at."""
    added = await client.post(ITEMS, json={"items": [{"_id": "m1", "text": "one"}, {"item_id": "m2", "level": 3}]})
    bad = await client.post(ITEMS, json={"items": [{"item_id": "m3"}, {"title": "no id"}]})
    above = await client.post(ITEMS, json={"items": [{"item_id": "m3"}, {"item_id": "a/.."}]})
    response = await client.get(f"{ITEMS}/m2")
    deleted = await client.post(f"{ITEMS}/delete", json={"item_ids": ["m1", "m2", "m3"]})

    assert (added.status_code, added.json()["added"], added.json()["embedded"]) == (200, 2, 1), "one has no text"
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "/items/1")
    assert (above.status_code, above.json()["errors"][0]["pointer"]) == (422, "/items/1"), (
        "its path is the collection's"
    )
    assert response.json()["metadata"] == {"level": 3}
    assert deleted.json() == {"deleted": 2}
    assert (await client.post(ITEMS, json={"items": [{"item_id": "x"}] * 1001})).status_code == 422


async def test_callers_vectors_are_accepted(client: AsyncClient) -> None:
    """One an item, of the space's length."""
    await client.put("/v1/collections/own", json={"space": {"provider": "own", "model": "m", "dimensions": 3}})
    send = {"items": [{"item_id": "a"}], "embeddings": [[1.0, 0.0, 0.0]]}
    assert (await client.post("/v1/collections/own/items", json=send)).json()["embedded"] == 1
    short = await client.post("/v1/collections/own/items", json=send | {"embeddings": [[1.0]]})
    assert (short.status_code, short.json()["type"]) == (422, "/problems/wrong-dimension")


@pytest.mark.parametrize(
    ("scope", "operations"),
    [
        (Scope.READ, ["GET /docs", "GET ", "GET /docs/items", "GET /docs/items/a"]),
        (
            Scope.WRITE,
            [
                *("POST /docs/items", "POST /docs/items/bulk", "POST /docs/items/delete"),
                *("PUT /docs/items/a", "PATCH /docs/items/a", "DELETE /docs/items/a"),
            ],
        ),
        (Scope.ADMIN, ["PUT /docs", "DELETE /docs"]),
    ],
)
async def test_every_operation_needs_its_scope(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch, scope: Scope, operations: list[str]
) -> None:
    """Reading, changing items, and administration: any other scope is refused."""

    async def caller(*_: object) -> tuple[Caller, None]:
        return Caller("any", EVERY_SCOPE - {scope, Scope.ADMIN}), None

    monkeypatch.setattr(Access, "caller", caller)
    for operation in operations:
        method, path = operation.split(" ")
        body: dict[str, str] | None = None if method in {"GET", "DELETE"} else {}
        answer = await client.request(method, f"/v1/collections{path}", json=body)
        assert (answer.status_code, answer.json()["type"]) == (403, "/problems/forbidden"), operation


async def test_items_are_listed_page_by_page(client: AsyncClient) -> None:
    """The list has the items that match the filter; an invalid filter is refused."""
    await client.put("/v1/collections/pages")
    where = json.dumps({"even": True})
    pages = "/v1/collections/pages/items"
    items = [{"item_id": f"{number}", "even": number % 2 == 0} for number in range(5)]
    await client.post(pages, json={"items": items})

    first = (await client.get(pages, params={"where": where, "limit": 2})).json()
    second = (await client.get(pages, params={"where": where, "limit": 2, "after": first["next"]})).json()

    assert [item["id"] for item in (*first["items"], *second["items"])] == ["0", "2", "4"]
    assert first["items"][0] == (await client.get(f"{pages}/0")).json()
    assert second["next"] is None
    for wrong in ("{", '"text"', json.dumps({"even": {"near": 1}}), "[" * 20_000):
        answer = await client.get(pages, params={"where": wrong})
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-filter")
    assert (await client.get(pages, params={"limit": 1001})).json()["errors"][0]["parameter"] == "limit"
