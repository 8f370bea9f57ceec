"""Live searches that an index answered are sampled, off the caller's path; nothing about that can break a search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.store.search import recall
from retrieval.adapters.store.search.recall import Sample, latest_samples
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.engine import recorder as sampling
from retrieval.services.indexes import IndexOutcome, keep_index

SPACE = EmbeddingSpace(provider="test", model="sampling", dimensions=4)
VECTORS = np.random.default_rng(3).normal(size=(40, 4)).astype(np.float32)


async def _indexed(platform: Platform) -> Collection:
    """A collection of 40 items whose HNSW index searches walk."""
    collection = await platform.collection("docs", space=SPACE)
    await collection.add([{"_id": str(n), "text": f"w{n}", "even": n % 2 == 0} for n in range(40)], embeddings=VECTORS)
    stored = await collection.refresh()
    assert await keep_index(platform.database, platform.tenant_id, stored, rows=40) is IndexOutcome.BUILT
    await collection.refresh()
    return collection


async def _kept(url: str, settings: Settings) -> list[Sample]:
    async with connect(url, settings=settings.changed(recall_sample_rate=0)) as platform:
        stored = await (await platform.collection("docs")).refresh()
        assert stored.space is not None
        return await latest_samples(
            platform.database, platform.tenant_id, stored.collection_id, stored.space.space_id, most=100
        )


async def test_searches_that_walked_an_index_are_kept_at_the_rate(database_url: str, settings: Settings) -> None:
    """All of them at rate 1, stored by the time the platform is closed; exact ones teach nothing."""
    async with connect(database_url, settings=settings.changed(recall_sample_rate=1)) as platform:
        collection = await _indexed(platform)
        assert (await collection.search(vector=VECTORS[0], legs=["dense"], limit=5)).path == "approximate"
        assert (await collection.search("w3", legs=["lexical"])).path == "none"
        assert (await collection.search(vector=VECTORS[1], legs=["dense"], where={"item_id": "1"})).path == "exact"
    kept = await _kept(database_url, settings)
    assert [(one.limit, one.condition) for one in kept] == [(5, None)]
    assert kept[0].vector == pytest.approx(VECTORS[0] / np.linalg.norm(VECTORS[0]), abs=1e-3)


async def test_at_rate_zero_nothing_is_kept(database_url: str, settings: Settings) -> None:
    """Who does not want it pays nothing for it."""
    async with connect(database_url, settings=settings.changed(recall_sample_rate=0)) as platform:
        collection = await _indexed(platform)
        await collection.search(vector=VECTORS[0], legs=["dense"], limit=5)
    assert await _kept(database_url, settings) == []


async def test_a_sample_that_cannot_be_stored_does_not_break_the_search(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The hits come all the same, and the log tells."""

    async def failing(*_: Any, **__: Any) -> None:
        raise DatabaseUnreachableError("away")

    monkeypatch.setattr(sampling, "keep_sample", failing)
    assert recall.keep_sample is not failing
    with caplog.at_level("INFO", logger="retrieval.engine.recorder"):
        async with connect(database_url, settings=settings.changed(recall_sample_rate=1)) as platform:
            collection = await _indexed(platform)
            assert len(await collection.search(vector=VECTORS[0], legs=["dense"], limit=5)) == 5
    assert "a sample was not kept: away" in caplog.text
