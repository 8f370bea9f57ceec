"""``retrieval doctor --deep``: each kind of row that disagrees is found, and mended as it says."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import psycopg
import pytest

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.items.item import Item, text_hash
from retrieval.jobs.registry import JOBS
from retrieval.jobs.run import run_job
from tests.support.database import database_with_schema, opened
from tests.support.jobs import target_of

CORRUPTIONS = {
    "words": "UPDATE item_terms SET length = length + 1 WHERE item_id = '1'",
    "words with another text's hash": "UPDATE item_terms SET text_hash = '' WHERE item_id = '1'",
    "words of another text": "UPDATE items SET body = 'other words' WHERE item_id = '1'",
    "texts": "UPDATE items SET body = 'other words' WHERE item_id = '1'",
    "texts of an archived item": "UPDATE items SET title = 'other words' WHERE item_id = 'archived'",
    "texts that have another's hash": "UPDATE items SET text_hash = sha256('other words') WHERE item_id = '1'",
    "weights": "UPDATE item_terms SET weights = '{{7:1}}/1000000000' WHERE item_id = '1'",
    "statistics of a word": """UPDATE term_statistics SET document_frequency = document_frequency + 1 WHERE lexeme =
        (SELECT min(lexeme) FROM term_statistics WHERE collection_id = {number})""",
    "statistics": "UPDATE collection_statistics SET total_length = total_length + 5",
    "statistics that are gone": "DELETE FROM collection_statistics",
    "statistics of another spelling": """UPDATE term_statistics SET term = 'zebra' WHERE lexeme =
        (SELECT min(lexeme) FROM term_statistics WHERE collection_id = {number})""",
    "filters by tag": "DELETE FROM item_tags WHERE item_id = '1'",
    "filters by a tag of another time": "UPDATE item_tags SET created_at = '2020-01-01' WHERE item_id = '1'",
    "filters by text": "UPDATE attribute_values SET as_text = 'blue' WHERE item_id = '1' AND as_text IS NOT NULL",
    "filters by number": "UPDATE attribute_values SET as_number = 99 WHERE item_id = '1' AND as_number IS NOT NULL",
    "filters by time": "DELETE FROM attribute_values WHERE item_id = '1' AND as_time IS NOT NULL",
    "vectors": "UPDATE {vectors} SET facets = '{{}}' WHERE item_id = '1'",
    "vectors of an archived item": """INSERT INTO {vectors}
        SELECT collection_id, 'archived', vector, content_hash, facets
        FROM {vectors} WHERE item_id = '1'""",
    "vectors of a text that is gone": "UPDATE {vectors} SET content_hash = '' WHERE item_id = 'textless'",
    "vectors of a former text": "UPDATE {vectors} SET content_hash = '' WHERE item_id = '1'",
    "records": "UPDATE retrievals SET hits = hits + 1",
    "records of an item twice": """UPDATE retrievals SET shown_items = array_fill(shown_items[1],
        ARRAY[cardinality(shown_items)])""",
    "arms": "UPDATE arms SET successes = successes + 1 WHERE context = ''",
    "arms that are gone": "DELETE FROM arms",
}


@pytest.fixture(scope="module")
def url(server_url: str, template: str) -> Iterator[str]:
    """A database of this module's own: rows of every tenant are changed by hand."""
    with database_with_schema(server_url, f"{template}_deep", template) as database:
        yield database


@pytest.fixture(scope="module")
async def installation(url: str, common_settings: Settings) -> AsyncIterator[Platform]:
    """A platform on it."""
    own = common_settings.changed(tenant=f"tenant-{uuid.uuid4()}")
    async with connect(url, settings=own, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture
async def platform(installation: Platform, tenant: str) -> AsyncIterator[Platform]:
    """Changed, archived and removed items, filterable values, a search, feedback."""
    async with installation.of_tenant(tenant) as opened:
        things = await opened.collection("things", filterable={"colour": "text", "size": "number", "made": "time"})
        await things.add(
            [
                {"_id": name, "text": f"thing {name} of words", "tags": ["t", name], "status": "open"}
                | {"colour": "red", "size": len(name), "made": "2026-01-01T00:00:00Z"}
                for name in ("1", "2", "3", "archived", "removed")
            ]
        )
        await things.add([{"_id": "2", "text": "changed and longer by far", "tags": ["t"], "colour": "green"}])
        await things.add([{"_id": "textless"}], embeddings=[[1.0] * HashingEmbedder().space.dimensions])
        await things.patch("archived", {"status": "archived"})
        await things.delete(["removed"])
        hits = await things.search("thing words")
        await opened.feedback(hits.retrieval_id, hits[0].item_id, helpful=True)
        yield opened


async def disagreements(platform: Platform, name: str = "things") -> list[Finding]:
    """The errors that the deep examination of the collection finds."""
    return [
        finding for finding in (await platform.doctor(name, deep=True)).findings if finding.severity is Severity.ERROR
    ]


async def test_a_sound_collection_agrees_with_itself(platform: Platform) -> None:
    """The finding is an ``ok``; without ``deep`` there is no such finding."""
    assert await disagreements(platform) == []
    findings = [finding for finding in (await platform.doctor(deep=True)).findings if finding.check == "deep"]
    assert [finding.found for finding in findings] == ["'things': all rows agree"]
    assert not [finding for finding in (await platform.doctor()).findings if finding.check.startswith("deep")]


@pytest.mark.parametrize("what", CORRUPTIONS)
async def test_a_corrupted_row_is_found_and_mended(url: str, platform: Platform, what: str) -> None:
    """By the check of its kind alone; after the job that it names all agree. Records are for a person."""
    things = await platform.collection("things")
    await corrupt(url, things, CORRUPTIONS[what])
    kind = what.split(maxsplit=1)[0]
    differences = [disagreement for disagreement in await disagreements(platform) if disagreement.check != "words"]
    assert f"deep {kind}" in {disagreement.check for disagreement in differences}
    assert all(disagreement.about == "things" and disagreement.mend for disagreement in differences)
    if kind == "records":
        return
    jobs = {"arms" if disagreement.check == "deep arms" else "reindex" for disagreement in differences}
    for name in jobs:
        report = await run_job(platform.workplace, JOBS[name], await target_of(platform, things))
        assert report.outcome == "done", report
    assert await disagreements(platform) == []


TALK = Neighbours(sequence="talk", order="turn", before=1, after=1)
CORRUPTIONS_AMONG_NEIGHBOURS = {
    "places that are gone": "DELETE FROM item_places WHERE item_id = '2'",
    "places elsewhere": "UPDATE item_places SET place = 99 WHERE item_id = '2'",
    "places in another sequence": "UPDATE item_places SET sequence = 'b' WHERE item_id = '2'",
    "places of a former text": "UPDATE item_places SET text_hash = '' WHERE item_id = '2'",
    "places of an archived item": """INSERT INTO item_places
        SELECT collection_id, 'archived', sequence, place, text_hash FROM item_places WHERE item_id = '2'""",
    "vectors of a former text": "UPDATE {vectors} SET content_hash = '' WHERE item_id = '2'",
    "vectors with other facets": "UPDATE {vectors} SET facets = '{{}}' WHERE item_id = '2'",
}


@pytest.mark.parametrize("what", CORRUPTIONS_AMONG_NEIGHBOURS)
async def test_a_corrupted_row_among_neighbours_is_found_and_mended(url: str, platform: Platform, what: str) -> None:
    """Each item is indexed together with the same neighbours as before, and none waits for its vector."""
    collection = await talk(platform)
    before = await indexed(url, collection)
    await corrupt(url, collection, CORRUPTIONS_AMONG_NEIGHBOURS[what])
    found = {disagreement.check for disagreement in await disagreements(platform, "talks")}
    assert f"deep {what.split(maxsplit=1)[0]}" in found
    await reindex(platform, collection)
    assert await disagreements(platform, "talks") == []
    assert await indexed(url, collection) == before
    assert (await collection.info()).pending == 0


async def test_terms_that_fit_a_wrong_place_are_made_again(url: str, platform: Platform) -> None:
    """Words and places can agree with each other and not with the items."""
    collection = await talk(platform)
    before = await indexed(url, collection)
    await corrupt(url, collection, "DELETE FROM item_places WHERE item_id = '2'")
    number = (await collection.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        for item_id in "123":
            await connection.execute("SELECT reindex_terms(%s, %s)", (number, [item_id]))
    assert {disagreement.check for disagreement in await disagreements(platform, "talks")} == {"deep places"}
    await reindex(platform, collection)
    assert await indexed(url, collection) == before


@pytest.mark.parametrize("name", ["things", "talks"])
async def test_a_text_that_was_changed_by_hand_is_embedded_again(url: str, platform: Platform, name: str) -> None:
    """Until it is, no search meets the former vector; the former text, written again, is a change."""
    await talk(platform)
    collection = await platform.collection(name)
    former = (await collection.stored(["2"]))["2"].item
    before = await indexed(url, collection)
    await corrupt(url, collection, "UPDATE items SET body = 'quite another' WHERE item_id = '2'")
    await reindex(platform, collection)
    assert await disagreements(platform, name) == []
    assert (await collection.info()).pending == 1
    report = await run_job(platform.workplace, JOBS["embed"], await target_of(platform, collection))
    assert report.details == {"embedded": 1, "pending": 0}
    assert (await collection.search("quite another", legs=["dense"]))[0].item_id == "2"

    assert (await collection.add([former])).changed == 1
    assert await indexed(url, collection) == before


@pytest.mark.parametrize("corruption", ["DELETE FROM own_vectors", "UPDATE own_vectors SET content_hash = ''"])
async def test_an_item_without_an_own_vector_of_its_text_is_embedded_again(
    url: str, platform: Platform, corruption: str
) -> None:
    """Its mixed vector, or that of a former text, would else be mixed once more."""
    collection = await talk(platform)
    before = await indexed(url, collection)
    await corrupt(url, collection, f"{corruption} WHERE item_id = '2'")
    assert {disagreement.check for disagreement in await disagreements(platform, "talks")} == {"deep mixtures"}
    assert (await reindex(platform, collection))["mended"] == 1
    assert await disagreements(platform, "talks") == []
    assert (await collection.info()).pending == 1
    await run_job(platform.workplace, JOBS["embed"], await target_of(platform, collection))
    assert await indexed(url, collection) == before


async def test_the_database_hashes_a_text_as_writers_do(connection: psycopg.AsyncConnection[Any]) -> None:
    """Whatever white space is around it, and whichever other characters are at its ends."""
    white_space = (chr(number) for number in range(sys.maxunicode + 1) if chr(number).isspace())
    texts = [
        (title, f"{sign}a{sign}b{sign}")
        for sign in (*white_space, *"\u200b\ufeffé'\\")
        for title in ("", sign, f"a{sign}")
    ]
    expected = [text_hash(Item.as_stored(item_id="1", title=title, body=body).indexed_text) for title, body in texts]
    query = "SELECT text_hash_of(one.title, one.body) FROM unnest(%s::text[], %s::text[]) AS one (title, body)"
    rows = await (await connection.execute(query, [*map(list, zip(*texts, strict=True))])).fetchall()
    assert [row[0] for row in rows] == expected


async def test_the_rebuild_counts_what_it_has_mended(url: str, platform: Platform) -> None:
    """The rows that disagreed with their items, and the counts that were wrong."""
    things = await platform.collection("things")
    await corrupt(url, things, "DELETE FROM item_tags WHERE item_id = '1'")
    await corrupt(url, things, "UPDATE collection_statistics SET documents = documents + 1")
    assert (await reindex(platform, things))["mended"] == 2
    assert (await reindex(platform, things))["mended"] == 0


async def talk(platform: Platform) -> Collection:
    """A collection whose items are indexed together with their neighbours."""
    collection = await platform.collection("talks", neighbours=TALK)
    words = {"1": "alpha", "2": "beta", "3": "gamma", "4": "delta", "archived": "epsilon"}
    await collection.add(
        [{"_id": name, "text": word, "talk": "a", "turn": turn} for turn, (name, word) in enumerate(words.items())]
    )
    await collection.patch("archived", {"status": "archived"})
    return collection


async def indexed(url: str, collection: Collection) -> list[tuple[str, list[str], int, str | None]]:
    """Each item with its terms, its length and its vector."""
    stored = await collection.refresh()
    assert stored.space is not None
    with opened(url) as connection:
        connection.execute("SET search_path = retrieval, public")
        number = stored.collection_id

        def rows_of(columns: str, table: str) -> list[tuple[Any, ...]]:
            query = f"SELECT {columns} FROM {table} WHERE collection_id = {number} ORDER BY 1"  # noqa: S608
            return connection.execute(query.encode()).fetchall()

        spellings = dict(rows_of("lexeme, term", "term_statistics"))
        vectors = dict(rows_of("item_id, vector::text", stored.space.table_name))
        words = rows_of("item_id, lexemes, frequencies, length", "item_terms")
    return [
        (
            item_id,
            sorted(f"{spellings[lexeme]} {times}" for lexeme, times in zip(lexemes, frequencies, strict=True)),
            length,
            vectors.get(item_id),
        )
        for item_id, lexemes, frequencies, length in words
    ]


async def corrupt(url: str, collection: Collection, corruption: str) -> None:
    """Change rows of every collection by hand, this one's too.

    The statement names the table of its vectors as ``{vectors}``, and its number as ``{number}``.
    """
    stored = await collection.refresh()
    assert stored.space is not None
    with opened(url) as connection:
        connection.execute("SET search_path = retrieval, public")
        statement = corruption.format(vectors=stored.space.table_name, number=stored.collection_id)
        assert connection.execute(statement.encode()).rowcount > 0


async def reindex(platform: Platform, collection: Collection) -> Mapping[str, Any]:
    """The job that mends; returns its report."""
    report = await run_job(platform.workplace, JOBS["reindex"], await target_of(platform, collection))
    assert report.outcome == "done", report
    return report.details


async def test_another_tenants_rows_are_not_looked_at(url: str, settings: Settings, platform: Platform) -> None:
    """Faults there are reported only to that tenant."""
    await platform.collection("things")
    with opened(url) as connection:
        connection.execute("UPDATE retrieval.collection_statistics SET total_length = total_length + 5")
    other = settings.changed(tenant=f"{settings.tenant}-other")
    async with connect(url, settings=other, embedder=HashingEmbedder()) as theirs:
        await (await theirs.collection("things")).add([{"_id": "1", "text": "a thing"}])
        assert await disagreements(theirs) == []
    assert [disagreement.check for disagreement in await disagreements(platform)] == ["deep statistics"]
