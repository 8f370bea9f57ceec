"""What opening a platform and its collections does, and what it leaves alone."""

from __future__ import annotations

import pytest

import retrieval
import retrieval.adapters.embedders.chosen
from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.llms.sim import SimLLM
from retrieval.domain.errors import InvalidRequestError, LLMRejectedError, UnknownCollectionError


async def test_opening_to_read_changes_nothing(database_url: str, settings: Settings) -> None:
    """A collection without vectors stays so until somebody opens it to write; then it gets the space."""
    async with connect(database_url, settings=settings.changed(embedder="none")) as words_only:
        await (await words_only.collection("docs")).add([{"_id": "1", "text": "the cat sat"}])
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
        assert (await (await platform.collection("docs", create=False)).info()).space is None
        assert (await (await platform.collection("docs")).info()).space is not None
        with pytest.raises(UnknownCollectionError, match="there are: docs"):
            await platform.collection("dogs", create=False)


async def test_one_embedder_serves_all_collections(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would hold threads or connections of its own."""
    made: list[HashingEmbedder] = []

    def make(_settings: Settings) -> HashingEmbedder:
        made.append(HashingEmbedder())
        return made[-1]

    monkeypatch.setattr(retrieval.adapters.embedders.chosen, "configured_embedder", make)
    async with connect(database_url, settings=settings) as platform:
        for name in ("a", "b", "c"):
            await (await platform.collection(name)).add([{"_id": "1", "text": name}])
    assert len(made) == 1


@pytest.mark.parametrize("item_ids", ["one", [1], ["\x00"], ["\ud800"]])
async def test_what_is_no_list_of_keys_removes_nothing(
    database_url: str, settings: Settings, item_ids: list[str]
) -> None:
    """A text is not taken for the list of its letters."""
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "o", "text": "a letter of one"}])
        with pytest.raises(InvalidRequestError):
            await collection.delete(item_ids)
        assert list(await collection.get(["o"])) == ["o"]


async def test_the_platform_makes_one_language_model_and_closes_it(database_url: str, settings: Settings) -> None:
    """Once, when it is first asked for; without configuration there is none."""
    async with connect(database_url, settings=settings) as platform:
        assert platform.llm is None
    async with connect(database_url, settings=settings.changed(llm="sim")) as platform:
        made = platform.llm
        assert made is not None
        assert platform.llm is made
        await made.complete("anything")
    with pytest.raises(LLMRejectedError, match="closed"):
        await made.complete("anything")


async def test_a_given_language_model_is_used_and_stays_open(database_url: str, settings: Settings) -> None:
    """It is its giver's to close."""
    given = SimLLM(7)
    async with connect(database_url, settings=settings, llm=given) as platform:
        assert platform.llm is given
    assert await given.complete("anything")


async def test_tenants_share_connections_and_models_and_no_data(platform: Platform) -> None:
    """One pool and one embedder serve both; each sees its own collections, and outlives what it opened."""
    await (await platform.collection("docs")).add([{"_id": "a", "text": "mine"}])
    async with platform.of_tenant(f"{platform.settings.tenant}-other") as other:
        assert other.database is platform.database
        assert other.tenant_id != platform.tenant_id
        assert await other.collections() == []
        theirs = await other.collection("docs")
        await theirs.add([{"_id": "b", "text": "theirs"}])
        assert [hit.item_id for hit in await theirs.search("theirs")] == ["b"]
    assert [hit.item_id for hit in await (await platform.collection("docs")).search("mine")] == ["a"]


async def test_it_is_opened_and_closed_without_async_with(database_url: str, settings: Settings) -> None:
    """As applications with a start and an end do, and the cells of a notebook; a second one needs a second call."""
    platform = await retrieval.open(database_url, settings=settings, embedder=HashingEmbedder())
    notes = await platform.collection("notes")
    await notes.add([{"id": "1", "text": "The disk is full."}])
    with pytest.raises(InvalidRequestError, match="open already"):
        await platform.open()
    assert [hit.item_id for hit in await notes.search("disk")] == ["1"]
    await platform.close()
    await platform.close()
    with pytest.raises(InvalidRequestError, match=r"is closed; open it again: .* await platform\.open\(\)"):
        await platform.collections()
