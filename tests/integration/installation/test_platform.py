"""Opening a platform and its collections, and its embedded server that ends suddenly and is started again."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import ASGITransport, AsyncClient

import retrieval
import retrieval.adapters.embedders.chosen
from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.llms.sim import SimLLM
from retrieval.adapters.store.installation.embedded.home import is_running
from retrieval.domain.errors import InvalidRequestError, LLMRejectedError, UnknownCollectionError
from retrieval.surfaces.http.app import create_app
from retrieval.surfaces.http.caller import ReadPlatform


async def test_opening_to_read_changes_nothing(database_url: str, settings: Settings) -> None:
    """A collection without vectors stays so until somebody opens it to write; then it gets the space."""
    async with connect(database_url, settings=settings.changed(embedder="none")) as words_only:
        await (await words_only.collection("docs")).add([{"_id": "1", "text": "the cat sat"}])
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
        assert (await (await platform.collection("docs", create=False)).info()).space is None
        assert (await (await platform.collection("docs")).info()).space is not None
        with pytest.raises(UnknownCollectionError, match="There are: 'docs'"):
            await platform.collection("dogs", create=False)


async def test_one_embedder_serves_all_collections(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would hold threads or connections of its own."""
    embedders: list[HashingEmbedder] = []

    def make(_settings: Settings) -> HashingEmbedder:
        embedders.append(HashingEmbedder())
        return embedders[-1]

    monkeypatch.setattr(retrieval.adapters.embedders.chosen, "configured_embedder", make)
    async with connect(database_url, settings=settings) as platform:
        for name in ("a", "b", "c"):
            await (await platform.collection(name)).add([{"_id": "1", "text": name}])
    assert len(embedders) == 1


@pytest.mark.parametrize("item_ids", [[1], ["\x00"], ["\ud800"]])
async def test_an_invalid_list_of_keys_removes_nothing(
    database_url: str, settings: Settings, item_ids: list[str]
) -> None:
    """A text is one key, and not taken for the list of its letters."""
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "o", "text": "a letter of one"}])
        with pytest.raises(InvalidRequestError):
            await collection.delete(item_ids)
        assert await collection.delete("one") == 0
        assert list(await collection.get(["o"])) == ["o"]


async def test_the_platform_makes_one_language_model_and_closes_it(database_url: str, settings: Settings) -> None:
    """Once, when it is first asked for; without configuration there is none."""
    async with connect(database_url, settings=settings) as platform:
        assert platform.llm is None
    async with connect(database_url, settings=settings.changed(llm="sim")) as platform:
        llm = platform.llm
        assert llm is not None
        assert platform.llm is llm
        await llm.complete("anything")
    with pytest.raises(LLMRejectedError, match="closed"):
        await llm.complete("anything")


async def test_a_given_language_model_is_used_and_stays_open(database_url: str, settings: Settings) -> None:
    """It is its giver's to close."""
    llm = SimLLM(7)
    async with connect(database_url, settings=settings, llm=llm) as platform:
        assert platform.llm is llm
    assert await llm.complete("anything")


async def test_tenants_share_connections_and_models_and_no_data(platform: Platform) -> None:
    """One pool and one embedder serve both; each tenant sees its own collections."""
    await (await platform.collection("docs")).add([{"_id": "a", "text": "mine"}])
    async with platform.of_tenant(f"{platform.settings.tenant}-other") as other:
        assert other.database is platform.database
        assert other.tenant_id != platform.tenant_id
        assert await other.collections() == []
        theirs = await other.collection("docs")
        await theirs.add([{"_id": "b", "text": "theirs"}])
        assert [hit.item_id for hit in await theirs.search("theirs")] == ["b"]
    assert [hit.item_id for hit in await (await platform.collection("docs")).search("mine")] == ["a"]


async def test_a_platform_is_opened_and_closed_without_async_with(database_url: str, settings: Settings) -> None:
    """As applications with a start and an end do, and the cells of a notebook; a second one needs a second call."""
    platform = await retrieval.open(database_url, settings=settings, embedder=HashingEmbedder())
    notes = await platform.collection("notes")
    await notes.add([{"id": "1", "text": "The disk is full."}])
    with pytest.raises(InvalidRequestError, match="open already"):
        await platform.open()
    assert [hit.item_id for hit in await notes.search("disk")] == ["1"]
    await platform.close()
    await platform.close()
    with pytest.raises(InvalidRequestError, match=r"is closed; open it again \(platform\.open\(\)"):
        await platform.collections()


async def test_of_two_that_open_or_close_a_platform_at_once_one_does(database_url: str, settings: Settings) -> None:
    """Two would have two pools, one of them forever, and would close connections before the last record is stored."""
    platform = connect(database_url, settings=settings, embedder=HashingEmbedder())
    outcomes = await asyncio.gather(platform.open(), platform.open(), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Platform, InvalidRequestError]
    notes = await platform.collection("notes")
    await notes.add([{"id": "1", "text": "The disk is full."}])
    retrieval_id = (await notes.search("disk")).retrieval_id
    await asyncio.gather(platform.close(), platform.close())
    assert retrieval_id is not None
    async with platform:
        assert (await platform.retrieval(retrieval_id)).query == "disk"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home of its own, which the server's user can enter."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def kill_server(home: Path) -> None:
    """Kill it without a warning."""
    os.kill(int((home / "data" / "postmaster.pid").read_text().split("\n", 1)[0]), signal.SIGKILL)


async def test_upkeep_after_the_server_was_killed_starts_it_again(home: Path) -> None:
    """Its connections are not the pool's. A platform that is closed starts nothing."""
    settings = Settings().changed(home=home, database_url=None, database_schema="retrieval")
    async with connect(settings=settings, embedder=HashingEmbedder()) as platform:
        kill_server(home)
        async with platform.database.maintenance() as connection:
            assert await connection.value("SELECT 1") == 1
        kill_server(home)
        async with platform.database.only_one("work") as is_alone:
            assert is_alone
        database = platform.database
    with pytest.raises(InvalidRequestError, match="the platform is closed"):
        async with database.maintenance():
            pass
    assert not is_running(home)


async def test_a_search_after_the_server_was_killed_starts_it_again(home: Path) -> None:
    """Nothing that was stored is lost, and the same handles go on."""
    settings = Settings().changed(home=home, database_url=None, database_schema="retrieval")
    async with connect(settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the cat sat"}])
        kill_server(home)
        assert [hit.item_id for hit in await collection.search("cat")] == ["1"]
        await collection.add([{"_id": "2", "text": "another cat"}])
        assert (await collection.info()).items == 2


async def test_the_service_starts_its_database_again(home: Path) -> None:
    """A request that finds it killed is answered like any other."""
    settings = Settings().changed(home=home, database_url=None, database_schema="retrieval")
    app = create_app(settings, embedder=HashingEmbedder(), insecure_local=True)

    @app.get("/names")
    async def names(platform: ReadPlatform) -> list[str]:
        return [collection.name for collection in await platform.collections()]

    client = AsyncClient(transport=ASGITransport(app=app), base_url="http://localhost")
    async with app.router.lifespan_context(app), client:
        assert (await client.get("/names")).json() == ["docs"]
        kill_server(home)
        assert (await client.get("/names")).json() == ["docs"]
