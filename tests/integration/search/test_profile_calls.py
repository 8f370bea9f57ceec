"""A collection's profiles: versions, activation and previews; and recorded searches."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from unittest.mock import AsyncMock

import pytest
import pytest_asyncio

from retrieval import Collection, Context, EmbeddingSpace, Platform, Profile, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError, NotFoundError, UnknownRetrievalError
from tests.support.database import SCHEMA

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = Profile(legs={"lexical": 1.0})
LATEST = Profile(legs={"recent": 1.0})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(database_url: str) -> AsyncIterator[Platform]:
    """A platform whose collection ``docs`` holds five items."""
    settings = Settings(tenant=f"profiles-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as opened:
        docs = await opened.collection("docs")
        await docs.add(
            {"_id": f"i{n}", "text": f"disk {'full ' * n}", "occurred_at": f"2026-01-0{5 - n}T00:00Z"} for n in range(5)
        )
        yield opened


async def _docs(platform: Platform) -> Collection:
    return await platform.collection("docs", create=False)


async def test_versions_are_listed_used_again_and_never_lost(platform: Platform) -> None:
    """The newest comes first, the active one is marked; a handle in another process uses it too."""
    docs = await _docs(platform)
    assert await docs.set_profile(WORDS, note="words alone") == 2
    assert [(profile.version, profile.note, profile.is_active) for profile in await docs.profiles()] == [
        (2, "words alone", True),
        (1, "the default", False),
    ]
    await docs.use_profile(1)
    assert (await docs.search("disk")).profile_version == 1
    assert (await docs.stored_profile()).version == 1
    assert (await docs.stored_profile(2)).profile == WORDS
    assert await docs.set_profile(LATEST) == 3
    assert [profile.version for profile in await docs.profiles(limit=1)] == [3]
    assert await docs.set_profile(WORDS, use=False) == 4
    assert (await docs.info()).profile_version == 3
    assert docs.profile == LATEST
    await docs.use_profile(4)
    assert docs.profile == WORDS


async def test_a_collections_state_is_parsed_again_only_after_a_change(platform: Platform) -> None:
    """Its state is read every second; another process's new item or profile changes it."""
    docs, other = await platform.collection("changing"), await platform.collection("changing")
    before = await docs.refresh()
    assert await docs.refresh() is before
    await other.add([{"id": "new", "text": "one more"}])
    stored = await docs.refresh()
    assert (stored.documents, stored.profile) == (before.documents + 1, before.profile)
    await other.set_profile(WORDS)
    assert (await docs.refresh()).profile == WORDS
    await platform.remove_collection("changing")


@pytest.mark.parametrize("version", [0, 99, -1, True, 2**40, "1"])
async def test_a_version_that_is_not_there_is_refused(platform: Platform, version: int) -> None:
    """To read and to use; nothing changes."""
    docs = await _docs(platform)
    before = await docs.stored_profile()
    with pytest.raises(NotFoundError, match="retrieval profiles list docs"):
        await docs.use_profile(version)
    with pytest.raises(NotFoundError):
        await docs.stored_profile(version)
    assert await docs.stored_profile() == before


@pytest.mark.parametrize("note", ["\x00", "\ud800", "n" * 10_001])
async def test_a_note_that_cannot_be_kept_is_refused(platform: Platform, note: str) -> None:
    """Before the profile is stored."""
    with pytest.raises(InvalidRequestError, match=r"note (is|holds)"):
        await (await _docs(platform)).set_profile(WORDS, note=note)


async def test_a_preview_shows_what_moves_and_records_nothing(platform: Platform) -> None:
    """The newest item is the one with the fewest words: the two profiles order the page the other way round."""
    docs = await _docs(platform)
    await platform.recorded()
    before = platform.recording.recorded
    preview = await docs.preview("full disk", profiles={"latest": LATEST, "words": WORDS}, limit=3)
    assert preview.baseline == "latest"
    latest, words = preview.previews
    assert [change.hit.item_id for change in latest.hits] == ["i0", "i1", "i2"]
    assert (latest.entered, latest.left) == ((), ())
    item_ids = [hit.item_id for hit in await docs.unrecorded().search("full disk", profile=WORDS, limit=3)]
    assert [change.hit.item_id for change in words.hits] == item_ids
    assert set(words.entered) == set(item_ids) - {"i0", "i1", "i2"}
    assert {change.hit.item_id for change in words.left} == {"i0", "i1", "i2"} - set(item_ids)
    assert platform.recording.recorded == before


async def test_a_preview_needs_profiles_by_name(platform: Platform) -> None:
    """From one to ten."""
    docs = await _docs(platform)
    for profiles in ({}, {"a": "words"}, {f"p{n}": WORDS for n in range(11)}):
        with pytest.raises(InvalidRequestError, match="profile"):
            await docs.preview("disk", profiles=profiles)  # type: ignore[arg-type]


async def test_a_recorded_search_is_read_with_its_context_and_what_it_showed(platform: Platform) -> None:
    """The record has its request, its context, its timings, and each impression with its propensity."""
    docs = await _docs(platform)
    context = Context(domain="storage", complexity=0.5, actor="kim", session="s-read")
    result = await docs.search("disk", where={"item_id": ["i1", "i2"]}, limit=2, context=context)
    assert result.retrieval_id is not None
    record = await platform.retrieval(result.retrieval_id)
    assert (record.collection, record.query, record.context) == ("docs", "disk", context)
    assert record.where == {"item_id": {"in": ["i1", "i2"]}}
    assert record.request["limit"] == 2
    assert [(impression.item_id, impression.rank, impression.propensity) for impression in record.impressions] == [
        (hit.item_id, hit.rank, 1.0) for hit in result
    ]
    assert set(record.timings_ms) >= {"candidates", "total"}
    assert record.as_dict()["impressions"][0]["slot"] == "exploit"


async def test_an_unrecorded_search_cannot_be_read(platform: Platform) -> None:
    """Neither can a record of another collection."""
    result = await (await _docs(platform)).search("disk")
    with pytest.raises(UnknownRetrievalError):
        await platform.retrieval(uuid.uuid4())
    assert result.retrieval_id is not None
    with pytest.raises(UnknownRetrievalError, match="in collection 'others'"):
        await platform.retrieval(result.retrieval_id, "others")


async def test_recorded_searches_are_listed_page_by_page(platform: Platform) -> None:
    """The newest first, of a session or of all, without gaps between the pages."""
    docs = await _docs(platform)
    context = Context(session="s-pages")
    await asyncio.gather(*(docs.search("disk", context=context) for _ in range(5)))
    whole = await docs.retrievals(session="s-pages")
    ids = [retrieval.retrieval_id for retrieval in whole]
    assert len(ids) == 5
    assert ids == sorted(ids, reverse=True)
    first = await docs.retrievals(session="s-pages", limit=3)
    rest = await docs.retrievals(session="s-pages", limit=3, before=str(first[-1].retrieval_id))
    assert [retrieval.retrieval_id for retrieval in (*first, *rest)] == ids
    assert {retrieval.session for retrieval in await docs.retrievals(before=ids[0], limit=4)} == {"s-pages"}


async def test_a_list_takes_a_page_size_and_an_identifier(platform: Platform) -> None:
    """Anything else is refused."""
    docs = await _docs(platform)
    for limit in (0, 1001, True):
        with pytest.raises(InvalidLimitError):
            await docs.retrievals(limit=limit)
        with pytest.raises(InvalidLimitError):
            await docs.profiles(limit=-abs(limit))
    with pytest.raises(InvalidRequestError, match="not a retrieval id"):
        await docs.retrievals(before="yesterday")


async def test_statistics_tell_how_each_collection_stands(platform: Platform) -> None:
    """As ``retrieval status`` shows it."""
    [docs] = await platform.statistics()
    assert (docs.name, docs.items, docs.pending) == ("docs", 5, 0)


async def test_profiles_that_are_stored_at_once_are_all_kept(platform: Platform) -> None:
    """Each gets a version of its own."""
    docs = await platform.collection("at-once")
    new_profiles = [Profile(legs={"lexical": float(number)}) for number in range(1, 9)]
    versions = await asyncio.gather(*(docs.set_profile(profile) for profile in new_profiles))
    assert sorted(versions) == list(range(2, 10))
    stored = {profile.version: profile.profile for profile in await docs.profiles()}
    assert [stored[version] for version in versions] == new_profiles


async def test_vectors_that_come_later_change_only_the_default_profile_and_once(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where several callers with an embedder open the collection at once, or one sets a profile meanwhile."""
    with monkeypatch.context() as patch:
        patch.setattr(Platform, "_new_space", AsyncMock(return_value=None))
        for name in ("opened-at-once", "set-meanwhile"):
            await platform.collection(name)
        chosen = await platform.collection("set-meanwhile")
    await asyncio.gather(*(platform.collection("opened-at-once") for _ in range(4)))
    opened = await platform.collection("opened-at-once")
    assert [profile.version for profile in await opened.profiles()] == [2, 1]
    assert set(opened.profile.legs) == {"dense", "lexical"}

    async def with_another_profile(*_: object) -> EmbeddingSpace:
        await chosen.set_profile(LATEST)
        return HashingEmbedder().space

    monkeypatch.setattr(Platform, "_new_space", with_another_profile)
    later = await platform.collection("set-meanwhile")
    assert (later.profile, await later.space()) == (LATEST, HashingEmbedder().space)


async def test_an_unrecorded_search_uses_the_current_profile(platform: Platform) -> None:
    """The age of the handle does not matter."""
    now = 0.0
    watched = await platform.collection("watched")
    async with Platform(platform.settings, clock=lambda: now) as other:
        docs = await other.collection("watched")
        version = await watched.set_profile(WORDS)
        now = 10.0
        assert (await docs.unrecorded().search("disk")).profile_version == version
