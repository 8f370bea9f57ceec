"""Answers of an application's own are recorded behind the call, whatever cannot be had at the moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest

from retrieval import Collection, Context, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.domain.records.slate import ShownItem
from tests.support.away import Away

SHOWN = [ShownItem(item_id="i1", score=0.5)]


class QuestionRecorder(HashingEmbedder):
    """Remembers the questions that it embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """As ever."""
        if role is TextRole.QUERY:
            self.questions += texts
        return await super().embed(texts, role)


async def _clustered(platform: Platform) -> Collection:
    collection = await platform.collection("docs")
    await collection.add([{"_id": f"i{number}", "text": f"text {number}"} for number in range(24)])
    await platform.feedback(collection="docs", item_id="i1", helpful=True)
    assert (await collection.learn())["clusters"] == 3
    return collection


async def test_nothing_is_embedded_for_a_record(new_database: Callable[[], str], settings: Settings) -> None:
    """Texts that this process embedded have their cluster; other texts have none, and no model is called."""
    embedder = QuestionRecorder()
    async with connect(new_database(), settings=settings, embedder=embedder) as platform:
        collection = await _clustered(platform)
        await collection.vectors_of(["at hand"])
        answer_id = await collection.record_answer("at hand", SHOWN, origin="advice", retrieval_time_ms=1)
        unseen = await collection.record_answer("never asked before", SHOWN, origin="advice", retrieval_time_ms=1)
        await platform.recorded()
        records = [
            await find_recorded(platform.database, platform.tenant_id, retrieval_id)
            for retrieval_id in (answer_id, unseen)
            if retrieval_id
        ]
        clusters = [record.cluster for record in records if record]
        assert [cluster is None for cluster in clusters] == [False, True]
        assert embedder.questions == ["at hand"]


async def test_a_record_waits_while_the_database_is_away(
    server_url: str, new_database: Callable[[], str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the collection was read too long ago to be trusted; it is stored once the database is back."""
    monkeypatch.setattr("retrieval.engine.collection_handle.FRESH_SECONDS", -1.0)
    url = new_database()
    async with connect(url, settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await _clustered(platform)
        vector = (await collection.vectors_of(["words"]))[0]
        with Away(server_url, urlsplit(url).path.lstrip("/"))():
            answer_id = await collection.record_answer("q", SHOWN, origin="advice", retrieval_time_ms=1, vector=vector)
        assert answer_id is not None
        await platform.recorded()
        record = await find_recorded(platform.database, platform.tenant_id, answer_id)
        assert record is not None
        assert (record.cluster, record.model_version, platform.recording.lost) == (None, 0, {})


@pytest.mark.parametrize("origin", ["\ud800", "a\x00", 5, " "])
async def test_an_invalid_origin_is_refused(platform: Platform, origin: Any) -> None:
    """The check precedes the database call; spaces around an origin are ignored."""
    collection = await platform.collection("docs")
    with pytest.raises(InvalidRequestError, match="origin is"):
        await collection.answers_of("s", origin=origin)


async def test_an_origin_is_found_with_spaces_around_it(platform: Platform) -> None:
    """It is recorded without them."""
    collection = await platform.collection("docs")
    situation = Context(session="s")
    await collection.record_answer("q", [], origin=" advice ", retrieval_time_ms=1, context=situation)
    assert [answer.origin for answer in await collection.answers_of("s", origin=" advice ")] == ["advice"]
