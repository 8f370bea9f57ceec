"""Searches over HTTP, feedback on their hits, and their records."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import pytest_asyncio
from httpx2 import AsyncClient

from retrieval import Collection, Context, Platform, Profile

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEARCH = "/v1/collections/docs/search"


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def docs(platform: Platform) -> Collection:
    """The collection that is searched."""
    collection = await platform.collection("docs")
    await collection.add(
        {
            "_id": f"i{n}",
            "title": f"Disk {n}",
            "text": f"full {'log ' * n}",
            "level": n,
            "p": "High" if n % 2 else "Low",
        }
        for n in range(6)
    )
    return collection


async def _search(client: AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await client.post(SEARCH, json=body)
    assert answer.status_code == 200, answer.text
    payload: dict[str, Any] = answer.json()
    return payload


async def test_a_search_answers_what_the_collection_does(client: AsyncClient, docs: Collection) -> None:
    """The same hits, scores and explanations, under the same names."""
    payload = await _search(client, query="full disk", where={"level": {"gte": 2}, "p": "High"}, limit=2)
    same = (await docs.search("full disk", where={"level": {"gte": 2}, "p": "High"}, limit=2)).as_dict()
    assert payload["hits"] == same["hits"]
    assert set(payload) == set(same)
    assert payload["profile_version"] == 1


async def test_hits_below_the_least_are_left_out(client: AsyncClient) -> None:
    """This applies to a search, a batch and a preview; without a calibration, the error names the member."""
    best, *others = (await _search(client, query="full disk"))["hits"]
    assert others
    payload = await _search(client, query="full disk", min_score=best["score"])
    assert [hit["id"] for hit in payload["hits"]] == [best["id"]]
    assert (payload["hits"][0]["relevance"], payload["why_no_hits"]) == (None, [])
    none = await client.post(f"{SEARCH}/batch", json={"queries": ["full disk"], "min_score": 1000})
    [reason] = none.json()["results"][0]["why_no_hits"]
    assert reason.startswith("nothing found: none of the best 6 items has score 1000")
    preview = {"query": "full disk", "profiles": {"now": "active"}, "min_score": 1000}
    preview_answer = await client.post("/v1/collections/docs/preview", json=preview)
    assert preview_answer.json()["previews"][0]["hits"] == []
    for least, message in ((0.5, "the service's operator can fit it"), (2, "must be 1 or less")):
        refused = await client.post(SEARCH, json={"query": "disk", "min_relevance": least})
        assert refused.status_code == 422
        assert message in refused.text
        assert "min_relevance" in refused.text


@pytest.mark.parametrize(
    "body",
    [
        {"query": "disk", "legs": ["lexical"], "group_by": "p"},
        {"query": '"full log" -disk', "syntax": False},
        {"query": "disk", "prefer": [{"p": "High"}, {"p": "Low"}]},
        {"query": "disk", "rewrites": ["log"], "prefer": {"p": "High"}, "tags": ["a"], "entities": {"q": ["1"]}},
        {"vector": [1.0] * 256, "limit": 3},
        {"query": "disk", "profile": {"legs": {"recent": 1.0}}, "as_of": "2026-05-31T12:00:00+02:00"},
        {"profile": {"legs": {"recent": 1.0}}},
        {
            "query": "disk",
            "context": {"domain": "d", "complexity": 0.5, "actor": "kim", "session": "s", "backtracks": 1},
        },
    ],
)
async def test_every_argument_of_a_search_can_be_sent(client: AsyncClient, body: dict[str, Any]) -> None:
    """By the names that it has in Python."""
    assert (await _search(client, **body))["retrieval_id"]


async def test_typos_snippets_facets_and_pages_come_with_a_search(client: AsyncClient) -> None:
    """Under the names that they have in Python."""
    body = {"query": "dsik", "legs": ["lexical"], "typos": True, "snippet": 40, "facets": ["p"], "limit": 4}
    first = await _search(client, **body, after="")
    assert first["notes"][0].endswith("'dsik' as 'disk'")
    assert first["facets"] == {"p": {"High": 3, "Low": 3}}
    assert set(first["hits"][0]["snippet"]) == {"text", "highlights", "html"}
    rest = await _search(client, **body, after=first["next"])
    end = await _search(client, **body, after=rest["next"])
    assert (end["hits"], end["next"]) == ([], None)
    assert sorted(hit["id"] for hit in first["hits"] + rest["hits"]) == [f"i{n}" for n in range(6)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"snippet": 5}, "20"),
        ({"facets": ["nope"]}, "nope"),
        ({"facets": "p"}, "list"),
        ({"after": "x"}, "cursor"),
        ({"typos": "yes"}, "true or false"),
    ],
)
async def test_invalid_options_of_a_search_are_a_problem(
    client: AsyncClient, body: dict[str, Any], message: str
) -> None:
    """The problem says what to change."""
    answer = await client.post(SEARCH, json={"query": "disk", **body})
    assert answer.status_code == 422
    assert message in answer.text


async def test_completions_come_from_words_and_titles(client: AsyncClient) -> None:
    """By words and titles; a filter is a JSON object."""
    params = {"text": "dis", "where": '{"p": "High"}', "limit": "2"}
    answer = await client.get("/v1/collections/docs/complete", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.json()["queries"] == ["Disk"]
    assert len(answer.json()["titles"]) == 2
    for refused in ({"text": "d", "limit": "0"}, {"text": "d", "where": "x"}, {}):
        assert (await client.get("/v1/collections/docs/complete", params=refused)).status_code == 422
    [fault] = (await client.get("/v1/collections/docs/complete", params={"text": "a\x00"})).json()["errors"]
    assert (fault.get("parameter"), fault.get("in")) == ("text", "query")


async def test_explanations_can_be_left_out(client: AsyncClient) -> None:
    """For who shows hits and asks nothing more."""
    payload = await _search(client, query="disk", explain=False)
    assert payload["hits"]
    assert not any("explanation" in hit for hit in payload["hits"])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"query": "disk", "where": {"or": [{"p": "High"}, {"level": {"near": 1}}]}}, "/where/or/1/level/near"),
        ({"query": "disk", "prefer": {"size": 1}}, "/prefer/size"),
        ({"query": "disk", "prefer": [{"p": "High"}, {"size": 1}]}, "/prefer/1/size"),
        ({"query": "disk", "prefer": 5}, "/prefer"),
        ({"query": "disk", "prefer": [{"p": "High"}, "p"]}, "/prefer"),
        ({"query": "disk", "where": {"not": {"p/q": 1}}}, "/where/not/p~1q"),
        ({"query": "disk", "profile": {"legs": {"psychic": 1.0}}}, "/profile"),
        ({"query": "  "}, "/query"),
        ({"vector": [1.0, 2.0]}, "/vector"),
        ({"query": "disk", "limit": "10"}, "/limit"),
        ({"query": "disk", "context": {"complexity": 2}}, "/context/complexity"),
        ({"query": "disk", "as_of": 5}, "/as_of"),
        ({"query": "disk", "queri": 1}, "/queri"),
        ({"query": "disk", "group_by": "zz"}, "/group_by"),
        ({"query": "disk", "group_by": ""}, "/group_by"),
        ({"query": "disk", "about": [1.0]}, "/about"),
    ],
)
async def test_a_json_pointer_marks_the_error(client: AsyncClient, body: dict[str, Any], pointer: str) -> None:
    """A JSON pointer marks it, whichever layer found it: a model, the filter language, the collection."""
    answer = await client.post(SEARCH, json=body)
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_refusals_are_in_plain_words(client: AsyncClient) -> None:
    """The message lists the values that exist."""
    answer = await client.post(SEARCH, json={"query": "disk", "context": {"actr": "kim"}})
    fields = "domain, complexity, actor, session, backtracks, generated"
    assert answer.json()["errors"] == [
        {"pointer": "/context/actr", "detail": f"there is no 'actr' here; did you mean 'actor'? There are: {fields}"}
    ]
    answer = await client.put("/v1/collections/x", json={"shema": {}})
    [refused] = answer.json()["errors"]
    assert refused["detail"].startswith("there is no 'shema' here; did you mean 'schema'? There are: ")
    assert "attribute_schema" not in refused["detail"]
    answer = await client.post(SEARCH, json={"query": "disk", "as_of": "0001-01-01T00:00:00+02:00"})
    assert answer.json()["detail"].startswith("as_of is 0001-01-01T00:00:00+02:00; it must")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"queries": ["a", ""]}, "/queries/1"),
        ({"queries": ["a", "-b"]}, "/queries/1"),
        ({"queries": ["a"], "vectors": [[1.0]]}, "/vectors"),
    ],
)
async def test_an_error_in_a_batch_names_the_query(client: AsyncClient, body: dict[str, Any], pointer: str) -> None:
    """The error names the query, if it is known."""
    answer = await client.post(f"{SEARCH}/batch", json=body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_many_queries_are_answered_in_their_order(client: AsyncClient) -> None:
    """As each of them alone would be."""
    answer = await client.post(f"{SEARCH}/batch", json={"queries": ["3", "1"], "limit": 1})
    assert [result["hits"][0]["id"] for result in answer.json()["results"]] == ["i3", "i1"]
    too_many = await client.post(f"{SEARCH}/batch", json={"queries": ["disk"] * 101})
    assert (too_many.status_code, too_many.json()["errors"][0]["pointer"]) == (422, "/queries")


async def test_a_collection_that_is_not_there_is_not_found(client: AsyncClient) -> None:
    """The problem lists the collections that exist."""
    answer = await client.post("/v1/collections/nothing/search", json={"query": "disk"})
    assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-collection")
    assert "docs" in answer.json()["detail"]


async def test_a_new_attribute_and_a_new_profile_are_seen(client: AsyncClient, platform: Platform) -> None:
    """Handles are kept between requests, and notice the changes of other processes."""
    other = await platform.collection("others", profile=Profile(legs={"lexical": 1.0}))
    await other.add([{"_id": "a", "text": "disk"}])
    path = "/v1/collections/others/search"
    assert (await client.post(path, json={"query": "disk", "where": {"fresh": 1}})).status_code == 422
    await other.add([{"_id": "b", "text": "disk", "fresh": 1}])
    payload = (await client.post(path, json={"query": "disk", "where": {"fresh": 1}})).json()
    assert [hit["id"] for hit in payload["hits"]] == ["b"]


async def test_feedback_counts_once(client: AsyncClient) -> None:
    """For a hit; the same verdict again is a repetition, another one takes its place."""
    payload = await _search(client, query="disk", limit=1)
    event = {"retrieval_id": payload["retrieval_id"], "item_id": payload["hits"][0]["id"], "actor": "kim"}
    reports = [(await client.post("/v1/feedback", json={**event, **more})).json()
            for more in ({"helpful": True}, {"helpful": True}, {"reward": 0.25})]  # fmt: skip
    assert [(answer["recorded"], answer["repeated"], answer["superseding"]) for answer in reports] == [
        (1, 0, 0),
        (0, 1, 0),
        (1, 0, 1),
    ]


async def test_a_batch_of_feedback_is_stored_whole_or_not_at_all(client: AsyncClient) -> None:
    """The event that is wrong is pointed at."""
    good = {"collection": "docs", "item_id": "i1", "helpful": True, "context": {"domain": "d"}, "key": "k1"}
    answer = await client.post("/v1/feedback/batch", json={"events": [good, {**good, "reward": 1.0}]})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/events/1")
    assert (await client.post("/v1/feedback/batch", json={"events": [good]})).json()["recorded"] == 1
    unknown = await client.post("/v1/feedback", json={**good, "item_id": "nobody"})
    assert (unknown.status_code, unknown.json()["type"]) == (404, "/problems/unknown-item")


async def test_an_outcome_is_shared_by_what_was_used(client: AsyncClient) -> None:
    """An event an item."""
    payload = await _search(client, query="disk", limit=2)
    used = [hit["id"] for hit in payload["hits"]]
    body = {"retrieval_id": payload["retrieval_id"], "used": used, "reward": 0.5}
    assert (await client.post("/v1/outcome", json=body)).json()["recorded"] == 2
    nothing = await client.post("/v1/outcome", json={**body, "used": []})
    assert nothing.status_code == 422


async def test_a_recorded_search_is_read_and_replayed(client: AsyncClient, platform: Platform) -> None:
    """The shown hits are on record, follow from it, and are the same today."""
    body = await _search(client, query="disk", limit=2, context={"session": "s-http"})
    path = f"/v1/retrievals/{body['retrieval_id']}"
    payload = (await client.get(path)).json()
    assert payload == (await platform.retrieval(body["retrieval_id"])).as_dict()
    assert [impression["item_id"] for impression in payload["impressions"]] == [hit["id"] for hit in body["hits"]]
    replayed = (await client.post(f"{path}/replay")).json()
    assert (replayed["is_reproduced"], replayed["is_same_today"]) == (True, True)


async def test_an_unrecorded_search_is_not_found(client: AsyncClient) -> None:
    """An invalid identifier is reported as such."""
    for answer in (
        await client.get(f"/v1/retrievals/{uuid.uuid4()}"),
        await client.post(f"/v1/retrievals/{uuid.uuid4()}/replay"),
    ):
        assert (answer.status_code, answer.json()["type"]) == (404, "/problems/unknown-retrieval")
    assert (await client.get("/v1/retrievals/yesterday")).status_code == 422


async def test_recorded_searches_are_listed_page_by_page(client: AsyncClient, docs: Collection) -> None:
    """The parameter ``next`` leads on, and says when there is no more."""
    for _ in range(3):
        await docs.search("disk", context=Context(session="s-list"))
    path = "/v1/collections/docs/retrievals"
    parameters: dict[str, Any] = {"session": "s-list", "limit": 2}
    first = (await client.get(path, params=parameters)).json()
    rest = (await client.get(path, params={**parameters, "before": first["next"]})).json()
    ids = [retrieval["retrieval_id"] for retrieval in (*first["retrievals"], *rest["retrievals"])]
    assert (len(ids), ids) == (3, sorted(ids, reverse=True))
    assert rest["next"] is None
