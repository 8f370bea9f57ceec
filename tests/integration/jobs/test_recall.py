"""Recall on sampled queries: measured against the truth, stored, and acted on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import numpy as np
import pytest
from psycopg import sql

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.search.indexes import AnnIndex, hnsw_name, keep_measured
from retrieval.adapters.store.search.recall import MOST_EFFORT, keep_sample, latest_samples
from retrieval.domain.items.embedding import Vectors
from retrieval.domain.search.filters import as_mapping, parse_where
from retrieval.domain.search.hit import Path
from retrieval.jobs.recall import is_recall_in_question, measure_recall
from retrieval.services.workplace import JobTarget
from tests.support.database import SCHEMA, opened
from tests.support.jobs import target_of

NewDatabase = Callable[..., str]

SPACE = EmbeddingSpace(provider="test", model="recall", dimensions=32)
ITEMS = 1000
POOR = "m = 2, ef_construction = 4"
"""A graph that a walk gets lost in."""
GOOD = "m = 16, ef_construction = 64"


@pytest.fixture
async def platform(new_database: NewDatabase, settings: Settings) -> AsyncIterator[Platform]:
    """A platform on one connection, so that anything kept on it would be met again."""
    url = new_database()
    async with connect(url, settings=settings.changed(pool_size=1)) as opened_platform:
        yield opened_platform


@pytest.fixture
def vectors() -> Vectors:
    """Random directions, one an item."""
    return np.random.default_rng(7).normal(size=(ITEMS, 32)).astype(np.float32)


@pytest.fixture
async def collection(platform: Platform, vectors: Vectors) -> Collection:
    """A collection with a vector an item, half of the items red."""
    documents = await platform.collection("docs", space=SPACE)
    colours = ("red", "blue")
    await documents.add([{"_id": str(n), "colour": colours[n % 2]} for n in range(ITEMS)], embeddings=vectors)
    await platform.split(documents.name, 1)
    return documents


async def with_index(platform: Platform, collection: Collection, options: str) -> JobTarget:
    """The collection, with an HNSW index built that way."""
    target = await target_of(platform, collection)
    assert target.collection.space is not None
    name = hnsw_name(target.collection.space.space_id, target.collection.collection_id)
    table = sql.Identifier(SCHEMA, target.collection.space.table_name)
    with opened(platform.database.url) as admin:
        admin.execute(
            sql.SQL("CREATE INDEX {} ON {} USING hnsw (vector halfvec_ip_ops) WITH (" + options + ") "
                    "WHERE collection_id = {}").format(
                sql.Identifier(name), table, sql.Literal(target.collection.collection_id))
        )  # fmt: skip
    return await target_of(platform, collection)


async def sampled(platform: Platform, target: JobTarget, vectors: Vectors, where: dict[str, str] | None = None) -> None:
    """Keep twelve searches for ten items, near to stored ones."""
    assert target.collection.space is not None
    condition = parse_where(where)
    rng = np.random.default_rng(1)
    for place in range(12):
        await keep_sample(
            CollectionPlace(platform.database, platform.tenant_id, target.collection.collection_id),
            target.collection.space.space_id,
            vector=vectors[place] + rng.normal(size=32).astype(np.float32),
            condition_json=as_mapping(condition) if condition else None,
            limit=10,
        )


async def measured_with(platform: Platform, target: JobTarget, effort: int) -> JobTarget:
    """The collection, with an index that claims this effort."""
    assert target.collection.space is not None
    index = AnnIndex(rows=ITEMS, index_bytes=1, effort_10=effort, effort_100=effort)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await keep_measured(connection, target.collection.collection_id, target.collection.space.space_id, index)
    return replace(target, collection=replace(target.collection, ann_index=index))


async def efforts(platform: Platform) -> list[tuple[int, int]]:
    """The efforts as they are stored now."""
    async with platform.database.transaction(platform.tenant_id) as connection:
        cursor = await connection.execute("SELECT effort_10, effort_100 FROM ann_indexes")
        return [(row[0], row[1]) for row in await cursor.fetchall()]


async def test_a_good_index_is_measured_and_left_alone(
    platform: Platform, collection: Collection, vectors: Vectors
) -> None:
    """Searches with and without a filter are measured apart; without new samples nothing is measured."""
    target = await with_index(platform, collection, GOOD)
    assert not await is_recall_in_question(platform.workplace, target)
    await sampled(platform, target, vectors)
    await sampled(platform, target, vectors, {"colour": "red"})
    assert await is_recall_in_question(platform.workplace, target)
    details = await measure_recall(platform.workplace, target)
    assert details == {"samples": 24, "recall": 1.0}
    (status,) = await platform.statistics()
    assert [(bucket.bucket, bucket.samples, bucket.recall, bucket.short_pages) for bucket in status.recall] == [
        ("no filter", 12, 1.0, 0),
        ("over 10 %", 12, 1.0, 0),
    ]
    assert not await is_recall_in_question(platform.workplace, target)


async def test_a_measurement_of_a_later_time_hides_no_samples(
    platform: Platform, collection: Collection, vectors: Vectors
) -> None:
    """It was made while the server's clock was ahead: the collection is measured again, not in a year."""
    target = await with_index(platform, collection, GOOD)
    await sampled(platform, target, vectors)
    await measure_recall(platform.workplace, target)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            "UPDATE recall_measurements "
            "SET measured_at = (measured_at AT TIME ZONE 'UTC' + interval '1 year') AT TIME ZONE 'UTC'"
        )
    assert await is_recall_in_question(platform.workplace, target)


async def test_a_sample_comes_back_as_it_was_kept(platform: Platform, collection: Collection, vectors: Vectors) -> None:
    """Vector, filter and limit."""
    target = await target_of(platform, collection)
    assert target.collection.space is not None
    await sampled(platform, target, vectors, {"colour": "red"})
    (sample,) = await latest_samples(
        CollectionPlace(platform.database, platform.tenant_id, target.collection.collection_id),
        target.collection.space.space_id,
        most=1,
    )
    assert (sample.vector.shape, sample.limit) == ((32,), 10)
    assert sample.condition == parse_where({"colour": "red"})


async def test_a_poor_index_is_detected_on_every_probe(
    platform: Platform, collection: Collection, vectors: Vectors
) -> None:
    """On one connection, more often than it takes a driver or a server to keep a plan: the truth stays the truth."""
    target = await with_index(platform, collection, POOR)
    await sampled(platform, target, vectors)
    target = await measured_with(platform, target, 40)
    first = await measure_recall(platform.workplace, target)
    second = await measure_recall(platform.workplace, target)
    assert first["recall"] == second["recall"] < 0.9
    async with platform.database.transaction(platform.tenant_id) as connection:
        cursor = await connection.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement !~ 'write_items|set_config'"
        )
        assert await cursor.fetchone() == (0,)
        cursor = await connection.execute("SHOW transaction_isolation")
        assert await cursor.fetchone() == ("read committed",)


async def test_a_sunken_recall_raises_the_effort_by_a_step(
    platform: Platform, collection: Collection, vectors: Vectors
) -> None:
    """Each time by half, up to the most."""
    target = await with_index(platform, collection, POOR)
    await sampled(platform, target, vectors)
    target = await measured_with(platform, target, 500)
    details = await measure_recall(platform.workplace, target)
    assert details["action"] == "effort raised to 750"
    assert await efforts(platform) == [(750, 750)]
    await measure_recall(platform.workplace, target)
    assert await efforts(platform) == [(MOST_EFFORT, MOST_EFFORT)]


async def test_effort_is_raised_until_the_recall_is_back(
    platform: Platform, collection: Collection, vectors: Vectors
) -> None:
    """After some runs a good index with too little effort has the promised recall, and stays as it is."""
    target = await with_index(platform, collection, GOOD)
    await sampled(platform, target, vectors)
    await measured_with(platform, target, 10)
    first = await measure_recall(platform.workplace, await target_of(platform, collection))
    assert first["recall"] < 0.99
    assert first["action"] == "effort raised to 15"
    last = first
    while "action" in last:
        assert last["action"].startswith("effort raised to ")
        last = await measure_recall(platform.workplace, await target_of(platform, collection))
    assert last["recall"] >= 0.99
    hits = await collection.search(vector=vectors[0], limit=10)
    assert hits.path is Path.APPROXIMATE


async def test_an_index_that_more_effort_does_not_help_is_rebuilt(
    platform: Platform, collection: Collection, vectors: Vectors
) -> None:
    """This applies at the greatest effort, and if no measurement exists."""
    target = await with_index(platform, collection, POOR)
    await sampled(platform, target, vectors)
    target = await measured_with(platform, target, MOST_EFFORT)
    details = await measure_recall(platform.workplace, target)
    assert details["action"] == "index: rebuilt"
    assert (await collection.refresh()).ann_index


async def test_a_few_samples_are_measured_and_not_acted_on(
    platform: Platform, collection: Collection, vectors: Vectors
) -> None:
    """One odd query says little."""
    target = await with_index(platform, collection, POOR)
    assert target.collection.space is not None
    await sampled(platform, target, vectors)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(
            "DELETE FROM query_samples WHERE sample_id NOT IN (SELECT sample_id FROM query_samples LIMIT 5)"
        )
    details = await measure_recall(platform.workplace, target)
    assert details["samples"] == 5
    assert "action" not in details


async def test_another_tenant_sees_no_samples_and_no_measurements(
    platform: Platform, collection: Collection, vectors: Vectors, settings: Settings
) -> None:
    """Queries are as private as items."""
    target = await with_index(platform, collection, GOOD)
    await sampled(platform, target, vectors)
    await measure_recall(platform.workplace, target)
    other_settings = settings.changed(tenant=f"{settings.tenant}-other")
    async with (
        connect(platform.database.url, settings=other_settings) as other,
        other.database.transaction(other.tenant_id) as connection,
    ):
        for table in ("query_samples", "recall_measurements", "job_runs"):
            cursor = await connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
            assert await cursor.fetchone() == (0,)
