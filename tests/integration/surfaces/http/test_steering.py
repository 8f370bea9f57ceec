"""Profiles over HTTP, what others would show, and the figures."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from httpx2 import AsyncClient

from retrieval import Collection, Platform

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROFILE = "/v1/collections/docs/profile"
WORDS: dict[str, Any] = {"legs": {"lexical": 1.0}}
LATEST: dict[str, Any] = {"legs": {"recent": 1.0}}


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def docs(platform: Platform) -> Collection:
    """The collection of the requests."""
    collection = await platform.collection("docs")
    await collection.add(
        {"_id": f"i{n}", "text": f"disk {n}", "occurred_at": f"2026-01-0{n + 1}T00:00Z"} for n in range(4)
    )
    await collection.search("disk")
    await platform.recorded()
    return collection


async def test_a_profile_is_changed_and_an_earlier_one_used_again(client: AsyncClient, docs: Collection) -> None:
    """Each change is a version, and none is lost."""
    stored = (await client.put(PROFILE, json={"profile": WORDS, "note": "words alone"})).json()
    assert (stored["version"], stored["note"], stored["is_active"]) == (2, "words alone", True)
    assert stored["profile"] == (await docs.stored_profile(2)).profile.as_dict()
    again = (await client.put(PROFILE, json={"version": 1})).json()
    assert (again["version"], again["is_active"]) == (1, True)
    assert (await client.get(PROFILE)).json() == again
    assert (await client.get(PROFILE, params={"version": 2})).json()["is_active"] is False
    listed = (await client.get("/v1/collections/docs/profiles")).json()["profiles"]
    assert [version["version"] for version in listed] == [2, 1]
    waiting = (await client.put(PROFILE, json={"profile": WORDS, "use": False})).json()
    assert (waiting["version"], waiting["is_active"]) == (3, False)
    assert (await client.get(PROFILE)).json() == again


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"profile": {"legs": {"psychic": 1}}}, 422, "/profile"),
        ({"profile": {**WORDS, "depth": 2.5}}, 422, "/profile"),
        ({"profile": WORDS, "version": 1}, 422, ""),
        ({"version": 1, "use": False}, 422, ""),
        ({}, 422, ""),
        ({"version": 99}, 404, None),
    ],
)
async def test_a_profile_that_cannot_be_is_refused(
    client: AsyncClient, body: dict[str, Any], status: int, pointer: str | None
) -> None:
    """With the place that is wrong."""
    answer = await client.put(PROFILE, json=body)
    assert answer.status_code == status
    assert [error["pointer"] for error in answer.json().get("errors", [])] == ([] if pointer is None else [pointer])


async def test_a_preview_compares_profiles_as_python_does(client: AsyncClient, docs: Collection) -> None:
    """One in use, one inline, one by its number."""
    body = {"query": "disk 1", "profiles": {"now": "active", "latest": LATEST, "first": 1}, "limit": 2}
    answer = await client.post("/v1/collections/docs/preview", json=body)
    payload = answer.json()
    assert payload["baseline"] == "now"
    assert [preview["name"] for preview in payload["previews"]] == ["now", "latest", "first"]
    assert [hit["hit"]["id"] for hit in payload["previews"][1]["hits"]] == ["i3", "i2"]
    first = (await docs.stored_profile(1)).profile
    same = (
        await docs.preview("disk 1", profiles={"now": (await docs.stored_profile()).profile, "same": first}, limit=2)
    ).as_dict()
    assert payload["previews"][2] == {**same["previews"][1], "name": "first"}


async def test_a_profile_of_a_preview_that_is_wrong_is_named(client: AsyncClient) -> None:
    """By its place."""
    body = {"query": "disk", "profiles": {"now": "active", "odd": {"legs": {}}}}
    answer = await client.post("/v1/collections/docs/preview", json=body)
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/profiles/odd"]


async def test_statistics_are_those_of_the_platform(client: AsyncClient, platform: Platform) -> None:
    """As the command line shows them."""
    statistics = (await client.get("/v1/statistics")).json()["collections"]
    assert statistics == [collection.as_dict() for collection in await platform.statistics()]
    assert statistics[0]["items"] == 4


async def test_the_doctor_runs_too(client: AsyncClient, platform: Platform) -> None:
    """It looks at the same things as it does in Python."""
    payload = (await client.get("/v1/doctor", params={"collection": "docs"})).json()
    same = (await platform.doctor("docs")).as_dict()
    assert {finding["check"] for finding in payload["findings"]} == {finding["check"] for finding in same["findings"]}
    assert (await client.get("/v1/doctor", params={"collection": "nothing"})).status_code == 404


async def test_figures_are_those_of_the_platform(client: AsyncClient, platform: Platform) -> None:
    """The views by name, and their rows of a collection and a period."""
    views = (await client.get("/v1/analytics")).json()["views"]
    assert [view["name"] for view in views] == [view.name for view in await platform.analytics_views()]
    parameters = {"collection": "docs", "since": "7d"}
    rows = (await client.get("/v1/analytics/queries", params=parameters)).json()["rows"]
    assert rows == (await platform.analytics("queries", collection="docs")).as_dicts()
    assert rows[0]["query"] == "disk"


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        ("/v1/analytics/nothing", {}, 404),
        ("/v1/analytics/queries", {"collection": "nothing"}, 404),
        ("/v1/analytics/queries", {"since": "soon"}, 422),
        ("/v1/analytics/queries", {"limit": 0}, 422),
    ],
)
async def test_figures_that_there_are_not_are_refused(
    client: AsyncClient, path: str, params: dict[str, Any], status: int
) -> None:
    """Unknown views and collections, times and limits that are none."""
    assert (await client.get(path, params=params)).status_code == status
