"""Collections over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from httpx2 import AsyncClient

from retrieval import Platform
from retrieval.adapters.store.database import Database

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = {"language": "german", "filterable": {"priority": "text"}, "profile": {"legs": {"lexical": 1.0}}}


async def test_a_collection_is_made_once(client: AsyncClient) -> None:
    """The same request again changes nothing, and new settings are added."""
    first = await client.put("/v1/collections/made", json=SETTINGS)
    again = await client.put("/v1/collections/made", json=SETTINGS)
    more = await client.put(
        "/v1/collections/made", json={"filterable": {"hours": "number"}, "neighbours": {"sequence": "s"}}
    )

    assert (first.status_code, again.status_code, more.status_code) == (201, 200, 200)
    assert first.json() == again.json() == (first.json() | {"name": "made", "text_search_config": "german"})
    assert more.json()["filterable"] == {"hours": "number", "priority": "text"}
    assert more.json()["neighbours"]["sequence"] == "s"
    assert (await client.get("/v1/collections/made")).json() == more.json()
    assert (await client.put("/v1/collections/usual")).json()["text_search_config"] == "english"


async def test_the_kind_of_index_is_chosen_and_changed(client: AsyncClient) -> None:
    """Without a value, the kind stays as it is."""
    response = await client.put("/v1/collections/bits", json={"index": "quantised"})
    same = await client.put("/v1/collections/bits", json={})
    other = await client.put("/v1/collections/bits", json={"index": "full"})

    assert (response.status_code, same.status_code, other.status_code) == (201, 200, 200)
    assert [answer.json()["index"] for answer in (response, same, other)] == ["quantised", "quantised", "full"]
    assert response.json()["is_quantised"] is False
    assert (await client.get("/v1/collections/bits")).json()["index"] == "full"


async def test_an_immutable_setting_is_a_conflict(client: AsyncClient) -> None:
    """The answer has the present setting; nothing is changed."""
    before = await client.put("/v1/collections/fixed", json=SETTINGS)
    others = {"filterable": {"hours": "number"}, "index": "full"}
    space = {"provider": "own", "model": "m", "dimensions": 3}
    for change in ({"language": "english"}, {"profile": {"legs": {"dense": 1.0}}}, {"space": space}):
        answer = await client.put("/v1/collections/fixed", json={**change, **others})
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/conflict")
    assert (await client.get("/v1/collections/fixed")).json() == before.json()
    assert "its embedding space is another" in answer.json()["detail"]


async def test_items_have_to_fit_a_collections_schema(client: AsyncClient) -> None:
    """A batch with one that does not is refused; of a stream that line alone is."""
    schema = {"properties": {"priority": {"enum": ["High", "Low"]}}}
    response = await client.put("/v1/collections/schema", json={"schema": schema})
    assert (response.status_code, response.json()["schema"]) == (201, schema)
    assert (await client.put("/v1/collections/schema", json={"schema": schema})).status_code == 200
    other = await client.put("/v1/collections/schema", json={"schema": {}})
    assert (other.status_code, other.json()["type"]) == (409, "/problems/conflict")

    items = [{"id": "good", "text": "a", "priority": "Low"}, {"id": "bad", "text": "b", "priority": "Urgent"}]
    refused = await client.post("/v1/collections/schema/items", json={"items": items})
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-item")
    assert "attribute 'priority': 'Urgent' is not one of ['High', 'Low']" in refused.json()["detail"]
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/items/1"]
    body = "".join(f"{json.dumps(item)}\n" for item in items)
    lines = {"Content-Type": "application/x-ndjson"}
    bulk = await client.post("/v1/collections/schema/items/bulk", content=body, headers=lines)
    answered = [json.loads(line) for line in bulk.text.splitlines()]
    assert (answered[0]["result"], answered[1]["error"]["type"]) == ("added", "/problems/invalid-item")


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"language": 3}, "/language"),
        ({"filterable": {"a": "colour"}}, "/filterable/a"),
        ({"neighbours": {"sequence": "s", "before": 21}}, "/neighbours/before"),
        ({"profile": {"legs": {"nose": 1}}}, "/profile"),
        ({"space": {"provider": "p", "model": "m", "dimensions": 0}}, "/space/dimensions"),
        ({"size": "large"}, "/size"),
        ({"index": "bits"}, "/index"),
        ({"schema": {"type": "colour"}}, "/schema"),
    ],
)
async def test_settings_that_cannot_be_are_pointed_at(client: AsyncClient, settings: object, place: str) -> None:
    """No collection is created."""
    answer = await client.put("/v1/collections/none", json=settings)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith(place)
    assert (await client.get("/v1/collections/none")).status_code == 404


async def test_collections_are_listed_page_by_page(client: AsyncClient) -> None:
    """In the order of their names."""
    for name in ("list-a", "list-b", "list-c"):
        await client.put(f"/v1/collections/{name}")
    first = (await client.get("/v1/collections", params={"after": "list-", "limit": 2})).json()
    second = (await client.get("/v1/collections", params={"after": first["next"], "limit": 1})).json()
    assert [collection["name"] for collection in first["collections"]] == ["list-a", "list-b"]
    assert [collection["name"] for collection in second["collections"]] == ["list-c"]


async def test_a_collection_is_removed_with_its_items(client: AsyncClient) -> None:
    """Its name is free for a new collection, and the removed one is not found."""
    await client.put("/v1/collections/gone/items/a", json={"title": "no collection"})
    await client.put("/v1/collections/gone")
    await client.put("/v1/collections/gone/items/a", json={"title": "t"})

    refused = await client.delete("/v1/collections/gone", headers={"If-Match": '"some"'})
    assert (refused.status_code, "a collection has no versions" in refused.json()["detail"]) == (422, True)
    assert (await client.delete("/v1/collections/gone", headers={"If-Match": "*"})).status_code == 204
    assert (await client.get("/v1/collections/gone/items/a")).json()["type"] == "/problems/unknown-collection"
    assert (await client.delete("/v1/collections/gone")).status_code == 404
    assert (await client.put("/v1/collections/gone")).json()["items"] == 0


async def test_a_collection_that_was_removed_elsewhere_is_unknown(client: AsyncClient, platform: Platform) -> None:
    """A kept handle of it does not answer; the advice names no Python."""
    await client.put("/v1/collections/elsewhere")
    assert (await client.get("/v1/collections/elsewhere/items")).status_code == 200
    await platform.remove_collection("elsewhere")
    answer = await client.post("/v1/collections/elsewhere/search", json={"query": "disk"})
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-collection")
    assert "()" not in answer.json()["detail"]


@pytest.mark.parametrize("name", ["ä\n/b", "..", "a?b#c%2F"])
async def test_names_may_hold_anything(client: AsyncClient, name: str) -> None:
    """They are percent-encoded; impossible names are refused."""
    path = f"/v1/collections/{quote(name, safe='')}"
    if name == "..":
        path = "/v1/collections/%2e%2e%2f"
        name = "../"
    assert (await client.put(path)).json()["name"] == name
    assert (await client.put(f"{path}/items/x%2Fy", json={"title": "t"})).json()["id"] == "x/y"
    assert (await client.delete(path)).status_code == 204
    assert (await client.put("/v1/collections/a%00b")).status_code == 422
    assert (await client.get("/v1/collections/a%00b/reembedding")).status_code == 422


async def test_of_those_who_make_it_at_once_with_other_settings_one_does(client: AsyncClient) -> None:
    """The others get the winner's collection, which is not new for them, or a conflict."""
    languages = ("english", "english", "german", "german")
    answers = await asyncio.gather(
        *(client.put("/v1/collections/raced", json={"language": language}) for language in languages)
    )
    winner = (await client.get("/v1/collections/raced")).json()["text_search_config"]
    assert winner in languages
    statuses = zip(languages, (answer.status_code for answer in answers), strict=True)
    assert sorted(status for language, status in statuses if language == winner) == [200, 201]
    assert sorted(answer.status_code for answer in answers)[2:] == [409, 409]


async def test_listing_all_collections_takes_as_many_statements_as_one(
    client: AsyncClient, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many statements, in as many round trips, however many collections there are."""
    counts: list[int] = []
    read_each = Database.read_each

    async def counted(self: Database, tenant_id: int | None, statements: Any, settings: Any = None) -> Any:
        counts.append(len(statements))
        return await read_each(self, tenant_id, statements, settings)

    async def cost(path: str) -> list[int]:
        counts.clear()
        assert (await client.get(path)).status_code == 200
        return list(counts)

    await platform.collection("many-0")
    paths = ("/v1/collections", "/v1/statistics")
    with monkeypatch.context() as patched:
        patched.setattr(Database, "read_each", counted)
        before = [await cost(path) for path in paths]
    for number in range(1, 4):
        await (await platform.collection(f"many-{number}")).add([{"_id": "a", "text": "t"}])
    with monkeypatch.context() as patched:
        patched.setattr(Database, "read_each", counted)
        assert [await cost(path) for path in paths] == before
    assert before == [[1, 1], [1, 6, 1]]
