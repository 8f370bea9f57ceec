"""Clusters: found where there is feedback to learn by them, kept with their numbers, and known to searches."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from retrieval import Collection, EmbeddingSpace, Platform
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.learning.clusters import assign_clusters
from retrieval.adapters.store.learning.training import read_item_clusters
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.domain.items.embedding import Vectors
from retrieval.jobs import learning
from retrieval.jobs.learning import are_clusters_needed, find_clusters
from retrieval.learning.clusters import LEAST_ITEMS, centroids
from tests.support.database import until_somebody_waits
from tests.support.jobs import target_of

SPACE = EmbeddingSpace(provider="test", model="clusters", dimensions=8)
NUMBER = 128


def _vectors() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Eight tight groups, one around each axis."""
    noise = np.random.default_rng(5).normal(scale=0.05, size=(NUMBER, 8))
    vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]] = (np.eye(8)[np.arange(NUMBER) % 8] + noise).astype(
        np.float32
    )
    return vectors


async def _fill(platform: Platform) -> Collection:
    collection = await platform.collection("docs", space=SPACE)
    items = [{"_id": f"i{number}", "text": f"text {number}"} for number in range(NUMBER)]
    await collection.add(items, embeddings=_vectors())
    return collection


async def test_items_that_are_alike_share_a_cluster(platform: Platform) -> None:
    """The groups of the vectors come out as clusters, and a second run has nothing left to do."""
    collection = await _fill(platform)
    assert not await are_clusters_needed(platform.workplace, await target_of(platform, collection))
    await platform.feedback(collection="docs", item_id="i1", helpful=True)
    target = await target_of(platform, collection)
    assert await are_clusters_needed(platform.workplace, target)
    assert await find_clusters(platform.workplace, target) == {"clusters": 8, "assigned": NUMBER}
    ids = [f"i{number}" for number in range(NUMBER)]
    clusters = await read_item_clusters(
        CollectionPlace(platform.database, platform.tenant_id, target.collection.collection_id), ids
    )
    assert {len({clusters[f"i{number}"] for number in range(group, NUMBER, 8)}) for group in range(8)} == {1}
    assert not await are_clusters_needed(platform.workplace, await target_of(platform, collection))


async def test_new_items_get_a_cluster_and_the_others_keep_theirs(platform: Platform) -> None:
    """Later items are assigned to the nearest existing cluster."""
    collection = await _fill(platform)
    await find_clusters(platform.workplace, await target_of(platform, collection))
    await collection.add([{"_id": "new", "text": "new"}], embeddings=np.eye(8, dtype=np.float32)[:1])
    assert await find_clusters(platform.workplace, await target_of(platform, collection)) == {
        "clusters": 8, "assigned": 1,
    }  # fmt: skip
    stored = await collection.refresh()
    clusters = await read_item_clusters(
        CollectionPlace(platform.database, platform.tenant_id, stored.collection_id), ["new", "i0", "i1"]
    )
    assert clusters["new"] == clusters["i0"] != clusters["i1"]


async def test_a_search_is_recorded_with_the_cluster_of_its_query(platform: Platform) -> None:
    """Feedback then counts in the bucket of the question's subject."""
    collection = await _fill(platform)
    await find_clusters(platform.workplace, await target_of(platform, collection))
    stored = await collection.refresh()
    result = await collection.search(vector=np.eye(8)[3], legs=["dense"], limit=3)
    await platform.recorded()
    assert result.retrieval_id is not None
    record = await find_recorded(platform.database, platform.tenant_id, result.retrieval_id)
    assert record is not None
    clusters = await read_item_clusters(
        CollectionPlace(platform.database, platform.tenant_id, stored.collection_id), ["i3"]
    )
    assert record.cluster == clusters["i3"]


async def test_there_are_no_clusters_before_enough_items_have_a_vector(platform: Platform) -> None:
    """Items are stored while the embedder is away; learning goes on without clusters until their vectors come."""
    collection = await platform.collection("docs", space=SPACE)
    items = [{"_id": f"i{number}", "text": f"text {number}"} for number in range(NUMBER)]
    await collection.add(items)
    await platform.feedback(collection="docs", item_id="i1", helpful=True)
    assert (await collection.learn())["clusters"] == 0
    await collection.add(items[: LEAST_ITEMS - 1], embeddings=_vectors()[: LEAST_ITEMS - 1])
    assert (await collection.learn())["clusters"] == 0
    await collection.add(items[:LEAST_ITEMS], embeddings=_vectors()[:LEAST_ITEMS])
    assert (await collection.learn())["clusters"] == 3


async def test_centroids_are_computed_beside_the_event_loop(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of many items take longer than a worker may stay without a heartbeat."""
    threads = list[threading.Thread]()

    def compute(*given: Any, **others: Any) -> Vectors:
        threads.append(threading.current_thread())
        return centroids(*given, **others)

    monkeypatch.setattr(learning, "centroids", compute)
    await find_clusters(platform.workplace, await target_of(platform, await _fill(platform)))
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_an_item_that_is_being_removed_gets_no_cluster(platform: Platform) -> None:
    """The others get theirs; a cluster of the removed item would violate its foreign key, and the job would fail."""
    collection = await _fill(platform)
    number = (await collection.refresh()).collection_id
    where = CollectionPlace(platform.database, platform.tenant_id, number)
    await assign_clusters(where, {"i1": 4, "i2": 4})
    async with platform.database.transaction(platform.tenant_id) as connection:
        values = {"collection_id": number}
        await connection.execute("DELETE FROM items WHERE collection_id = %(collection_id)s AND item_id = 'i0'", values)
        assigning = asyncio.create_task(assign_clusters(where, {"i0": 1, "i1": 4, "i2": 3, "i3": 2}))
        await until_somebody_waits(platform)
    await assigning
    known = await read_item_clusters(where, ["i0", "i1", "i2", "i3"])
    assert known == {"i1": 4, "i2": 3, "i3": 2}
