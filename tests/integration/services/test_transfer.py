"""A collection moves as a file: nothing is lost, nothing is embedded again, and misfits are refused."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval import Collection, EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.readers.lines import read_lines
from retrieval.adapters.store.items.transfer import KINDS
from retrieval.domain.diagnosis import Severity
from retrieval.domain.errors import ConflictError, InvalidRequestError, UnknownCollectionError
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.services import transfer
from tests.support.database import SCHEMA
from tests.support.moving import ITEMS, answers, fill, remember

DERIVED = ("item_tags", "attribute_values", "collection_attributes", "item_places")


@pytest.fixture(scope="module")
async def installation(database_url: str, common_settings: Settings) -> AsyncIterator[Platform]:
    """A platform whose clock stands still, so that learned rewards weigh the same in two searches."""
    moment = time.time()
    own = common_settings.changed(database_url=database_url, tenant=f"tenant-{uuid.uuid4()}")
    async with Platform(own, embedder=HashingEmbedder(), wall_clock=lambda: moment, chance=random.Random(7)) as opened:
        yield opened


@pytest.fixture
async def other(platform: Platform) -> AsyncIterator[Platform]:
    """Another tenant of the same installation."""
    async with platform.of_tenant(f"{platform.settings.tenant}-other") as opened:
        yield opened


def files_in(folder: Path) -> list[str]:
    """The names of all that is there."""
    return sorted(path.name for path in folder.iterdir())


def lines_of(file: Path) -> list[Any]:
    """The lines of a file, without values that depend on the time and the installation."""
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    header, *rows = map(json.loads, raw.splitlines())
    header["collection"].pop("space_number")
    header.pop("exported_at")
    for row in rows:
        row.get("model", {}).get("definition", {}).pop("space_id", None)
    return [header, *rows]


async def rows_of(platform: Platform, collection: Collection, query: str) -> list[Any]:
    """The rows that a statement finds for the collection, as the superuser."""
    stored = await collection.refresh()
    assert stored.space is not None
    async with await psycopg.AsyncConnection.connect(platform.database.url) as connection:
        await connection.execute(sql.SQL("SET search_path = {}, public").format(sql.Identifier(SCHEMA)))
        values = {"id": stored.collection_id, "space": f"embeddings_{stored.space.space_id}"}
        parts = sql.SQL(query).format(space=sql.Identifier(values["space"]), id=sql.Literal(values["id"]))  # type: ignore[arg-type]
        return await (await connection.execute(parts)).fetchall()


async def derived(platform: Platform, collection: Collection) -> list[Any]:
    """The derived rows: terms without their numbers, statistics, vectors, filters."""
    queries = [
        "SELECT item_id, length, frequencies FROM item_terms WHERE collection_id = {id} ORDER BY 1",
        "SELECT term, document_frequency FROM term_statistics WHERE collection_id = {id} AND document_frequency > 0",
        "SELECT documents, total_length, weighed_length FROM collection_statistics WHERE collection_id = {id}",
        "SELECT item_id, vector::text, content_hash FROM {space} WHERE collection_id = {id} ORDER BY 1",
        "SELECT item_id, vector::text FROM own_vectors WHERE collection_id = {id} ORDER BY 1",
        *(
            f"SELECT to_jsonb(t) - 'collection_id' FROM {table} AS t WHERE collection_id = {{id}} ORDER BY 1"  # noqa: S608
            for table in DERIVED
        ),
    ]
    row_lists = [await rows_of(platform, collection, query) for query in queries]
    row_lists[1].sort()
    row_lists[0] = [(item_id, length, sorted(frequencies)) for item_id, length, frequencies in row_lists[0]]
    return row_lists


@pytest.mark.parametrize("neighbours", [None, Neighbours(sequence="session", order="n", before=1, after=1)])
async def test_a_collection_that_moved_is_the_same(
    platform: Platform, other: Platform, tmp_path: Path, neighbours: Neighbours | None
) -> None:
    """Same hits, scores, learned state and records for another tenant; exported again, the same lines."""
    source = await fill(platform, neighbours=neighbours)
    await platform.collection("docs", index="quantised")
    before_move = await answers(source)
    first, second = tmp_path / "docs.jsonl", tmp_path / "again.jsonl.gz"
    steps: list[tuple[int, int]] = []
    exported = await platform.export_collection("docs", first, advance=lambda *step: steps.append(step))
    assert steps[-1][0] == steps[-1][1] == sum(exported.rows.values())
    assert (exported.items, exported.vectors) == (ITEMS, ITEMS - 1)
    without = {name for name, number in exported.rows.items() if not number}
    assert without == {"memory", "memory_link", "loss", "arm_baseline"}

    imported = await other.import_collection(first)
    moved = await other.collection("docs", create=False)

    assert imported.rows == exported.rows
    assert (await moved.refresh()).index_kind == "quantised"
    assert await derived(other, moved) == await derived(platform, source)
    await other.export_collection("docs", second)
    assert lines_of(second) == lines_of(first)
    assert await answers(moved) == before_move
    assert (await moved.refresh()).model_version == (await source.refresh()).model_version == 1
    assert await moved.stored(["i01", "i29"]) == await source.stored(["i01", "i29"])


async def test_records_are_the_same_and_take_feedback(platform: Platform, other: Platform, tmp_path: Path) -> None:
    """A recorded search is replayed from its record, and a verdict on it counts, at the new place alone."""
    source = await fill(platform)
    hits = await source.search("common word4", limit=3)
    assert hits.retrieval_id is not None
    await platform.export_collection("docs", tmp_path / "docs.jsonl")
    await other.import_collection(tmp_path / "docs.jsonl", name="there")

    assert (await other.replay(hits.retrieval_id)).is_reproduced
    assert (await other.retrieval(hits.retrieval_id)).query == "common word4"
    report = await other.feedback(hits.retrieval_id, hits[0].item_id, helpful=True)
    assert report.recorded == 1
    query = "SELECT count(*) FROM feedback WHERE collection_id = {id}"
    here, there = (
        await rows_of(platform, source, query),
        await rows_of(other, await other.collection("there", create=False), query),
    )
    assert there[0][0] == here[0][0] + 1


async def test_quarantines_of_the_collections_actors_move(platform: Platform, other: Platform, tmp_path: Path) -> None:
    """They then hold for the whole tenant; one that it has already stays, and the names of other actors do not move."""
    await fill(platform)
    for actor in ("ann", "stranger"):
        await platform.quarantine(actor)
    await other.quarantine("ann", reason="known")
    exported = await platform.export_collection("docs", tmp_path / "docs.jsonl")
    assert exported.rows["quarantine"] == 2
    await other.import_collection(tmp_path / "docs.jsonl")
    async with other.database.transaction(other.tenant_id) as connection:
        found = await connection.execute("SELECT actor, reason FROM quarantines ORDER BY 1")
        assert await found.fetchall() == [("ann", "known"), ("bot", "a robot")]
    await (await other.collection("new")).add([{"_id": "a", "text": "text"}])
    report = await other.feedback(collection="new", item_id="a", helpful=True, actor="bot")
    assert report.discounted == {"quarantined": 1}


async def test_the_doctor_finds_nothing_wrong_with_it(platform: Platform, other: Platform, tmp_path: Path) -> None:
    """Counts, statistics, arms and vectors agree, and recounted arms stay the same."""
    await fill(platform)
    await platform.export_collection("docs", tmp_path / "docs.jsonl")
    await other.import_collection(tmp_path / "docs.jsonl")
    moved = await other.collection("docs", create=False)

    async def faults(of: Platform) -> set[tuple[Severity, str]]:
        # The check of the tables depends on what the other tests of the same database do.
        found = [finding for finding in (await of.doctor("docs")).findings if finding.check != "tables"]
        return {(finding.severity, finding.check) for finding in found if finding.severity is not Severity.OK}

    assert await faults(other) <= await faults(platform)
    arms = "SELECT item_id, context, uses, raw_successes FROM arms WHERE collection_id = {id} ORDER BY 1, 2"
    rows_kept = await rows_of(other, moved, arms)
    await moved.set_learning(half_life_days=60)
    assert await rows_of(other, moved, arms) == rows_kept


async def test_memories_move_with_their_links_and_counts(platform: Platform, other: Platform, tmp_path: Path) -> None:
    """Links, access counts and times of expiry move."""
    source = await remember(platform)
    await platform.export_collection("memories", tmp_path / "m.jsonl")
    moved = await other.import_collection(tmp_path / "m.jsonl")
    assert (moved.rows["memory"], moved.rows["memory_link"]) == (3, 3)
    target = await other.collection("memories", create=False)
    query = "SELECT to_jsonb(m) - 'collection_id' FROM memories AS m WHERE collection_id = {id} ORDER BY item_id"
    assert await rows_of(other, target, query) == await rows_of(platform, source, query)


class Counting(HashingEmbedder):
    """Counts the texts that it embeds."""

    texts = 0

    async def embed(self, texts: Any, role: TextRole) -> Vectors:
        """Embed and count."""
        self.texts += len(texts)
        return await super().embed(texts, role)


async def test_nothing_is_embedded_again(
    platform: Platform, new_database: Callable[[], str], settings: Settings, tmp_path: Path
) -> None:
    """On another server, whose spaces have other numbers, the embedder is never asked; one item still waits for it."""
    source = await fill(platform)
    before_move = await answers(source)
    await platform.export_collection("docs", tmp_path / "docs.jsonl")
    embedder, clock = Counting(), platform.now.timestamp()
    there = Platform(settings.changed(database_url=new_database()), embedder=embedder, wall_clock=lambda: clock)
    async with there:
        await there.collection("first", space=EmbeddingSpace(provider="test", model="other", dimensions=3))
        await there.import_collection(tmp_path / "docs.jsonl")
        moved = await there.collection("docs", create=False)
        assert embedder.texts == 0
        assert (await moved.info()).pending == 0
        assert await answers(moved) == before_move


async def test_without_records_the_content_alone_moves(platform: Platform, tmp_path: Path) -> None:
    """A copy beside the original is possible; learning starts over, and the file says so."""
    source = await fill(platform)
    await platform.export_collection("docs", tmp_path / "docs.jsonl", records=False)
    moved = await platform.import_collection(tmp_path / "docs.jsonl", name="copy")
    assert not moved.has_records
    assert set(moved.rows) == {name for name, kind in KINDS.items() if not kind.is_record}
    copy = await platform.collection("copy", create=False)
    assert (await copy.refresh()).model_version == 0
    assert (await copy.info()).items == (await source.info()).items
    assert [profile.version for profile in await copy.profiles()] == [2, 1]


async def test_existing_targets_are_not_overwritten(platform: Platform, tmp_path: Path) -> None:
    """An existing file, collection or recorded search is refused, and nothing is changed."""
    source = await fill(platform)
    file = tmp_path / "docs.jsonl"
    await platform.export_collection("docs", file)
    content = file.read_bytes()
    with pytest.raises(ConflictError, match="already exists; name a file"):
        await platform.export_collection("docs", file)
    with pytest.raises(ConflictError, match="import under another name"):
        await platform.import_collection(file)
    with pytest.raises(ConflictError, match=r"has recorded search .* for another tenant, or .*--no-records"):
        await platform.import_collection(file, name="copy")
    assert file.read_bytes() == content
    assert files_in(tmp_path) == ["docs.jsonl"]
    assert (await source.info()).items == ITEMS - 1
    with pytest.raises(UnknownCollectionError):
        await platform.collection("copy", create=False)


async def test_vectors_of_a_missing_embedder_are_reported(
    platform: Platform, settings: Settings, tmp_path: Path
) -> None:
    """A collection searched by words needs the embedder; one of callers' vectors does not."""
    await fill(platform)
    await platform.export_collection("docs", tmp_path / "docs.jsonl", records=False)
    mine = await platform.collection("mine", space=EmbeddingSpace(provider="own", model="own", dimensions=2))
    await mine.add([{"_id": "1", "text": "x"}], embeddings=[[3.0, 4.0]])
    await platform.export_collection("mine", tmp_path / "mine.jsonl")

    class Another(HashingEmbedder):
        """Fills a space of a model of its own."""

        space = EmbeddingSpace(provider="other", model="other", dimensions=5)

    lines = (tmp_path / "docs.jsonl").read_text().replace('"provider": "hashing"', '"provider": "elsewhere"', 1)
    (tmp_path / "else.jsonl").write_text(lines)
    tenant = f"{settings.tenant}-elsewhere"
    async with connect(platform.database.url, settings=settings, tenant=tenant, embedder=Another()) as there:
        with pytest.raises(InvalidRequestError, match=r"no embedder for it is configured.*own-vectors"):
            await there.import_collection(tmp_path / "else.jsonl")
        await there.import_collection(tmp_path / "else.jsonl", own_vectors=True)
        await there.import_collection(tmp_path / "mine.jsonl")
        moved = await there.collection("mine", create=False)
        assert [hit.item_id for hit in await moved.search(vector=[3.0, 4.0], legs=["dense"])] == ["1"]


def changed(lines: list[str], line: int, **fields: Any) -> list[str]:
    """The lines, in one of which the row has other fields."""
    kind, row = next(iter(json.loads(lines[line]).items()))
    return [*lines[:line], json.dumps({kind: {**row, **fields}}), *lines[line + 1 :]]


def _line(lines: list[str], kind: str) -> int:
    return next(number for number, line in enumerate(lines) if line.startswith(f'{{"{kind}"'))


FAULTS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "cut off": (lambda lines: lines[:-3], "it was cut off or changed; nothing was imported"),
    "cut within a line": (lambda lines: [*lines[:-1], lines[-1][:20]], "not JSON"),
    "empty": (lambda _: [], "is not an exported collection"),
    "other file": (lambda _: ['{"_id": "1", "text": "x"}'], "items of other files are stored by ingest"),
    "later version": (
        lambda lines: [lines[0].replace('"version": 1', '"version": 9', 1), *lines[1:]],
        "this program reads 1",
    ),
    "no settings": (
        lambda lines: [lines[0].replace('"weighed_length"', '"other"', 1), *lines[1:]],
        "line 1: ",
    ),
    "version": (
        lambda lines: [lines[0].replace('"profile_version": ', '"profile_version": 99999999999', 1), *lines[1:]],
        "line 1: ",
    ),
    "time of making": (
        lambda lines: [lines[0].replace('"created_at": "', '"created_at": "never', 1), *lines[1:]],
        "line 1: ",
    ),
    "space": (lambda lines: [lines[0].replace('"dimensions": 256', '"dimensions": 9999', 1), *lines[1:]], "line 1"),
    "language": (
        lambda lines: [lines[0].replace('"language": "english"', '"language": "klingon"', 1), *lines[1:]],
        "klingon",
    ),
    "unknown row": (lambda lines: [*lines, '{"secret": {}}'], "is not a row of a collection"),
    "item twice": (lambda lines: [*lines[:4], lines[_line(lines, "item")], *lines[4:]], "same id|occurs twice"),
    "item": (lambda lines: changed(lines, _line(lines, "item"), title="a\u0007b"), "lines? .* title holds"),
    "vector": (lambda lines: changed(lines, _line(lines, "item"), vector=[1.0, 2.0]), "one row of the same length"),
    "no vector": (lambda lines: changed(lines, _line(lines, "item"), vector=[0.0] * 256), "is zero"),
    "profile": (lambda lines: changed(lines, _line(lines, "profile"), definition={"legs": {"nose": 1}}), "line 2: "),
    "time": (
        lambda lines: changed(lines, _line(lines, "retrieval"), retrieved_at="2020-01-01T00:00:00+00:00"),
        "not of the time",
    ),
    "reward": (
        lambda lines: changed(lines, _line(lines, "feedback"), reward=7),
        "the database refuses a row of kind 'feedback'",
    ),
    "number": (lambda lines: changed(lines, _line(lines, "arm"), uses="many"), "a row of kind 'arm'"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_file_with_a_fault_leaves_nothing(
    other: Platform, tmp_path: Path, fault: str, exported: list[str]
) -> None:
    """The error says where it is and what to do; there is no collection afterwards."""
    change, message = FAULTS[fault]
    file = tmp_path / "faulty.jsonl"
    file.write_text("".join(f"{line}\n" for line in change(exported)))
    with pytest.raises(InvalidRequestError, match=message):
        await other.import_collection(file)
    assert await other.collections() == []


GIVEN = {"item": ("occurred_at",), "memory": ("happened_at", "expires_at"), "feedback": ("occurred_at",)}
"""Times that an application has given."""

NOT_READ_BACK: list[tuple[str, dict[str, Any], str]] = [
    ("item", {"created_at": "infinity"}, "created_at is 'infinity'; it must be a datetime"),
    ("item", {"updated_at": "2026-01-01T00:00:00"}, "with a time zone"),
    ("item", {"occurred_at": "-infinity"}, "occurred_at"),
    ("memory", {"expires_at": "-infinity"}, "expires_at is '-infinity'"),
    ("memory", {"last_accessed_at": 7}, "last_accessed_at is 7"),
    ("memory_link", {"happened_at": "10000-01-01T00:00:00+00:00"}, "happened_at"),
    ("profile", {"created_at": "infinity"}, "created_at"),
    ("profile", {"definition": []}, "definition is .*; it must be an object"),
    ("learning_state", {"landmark": "0001-01-01T00:00:00+00:00"}, "of the years 1970 to 2999"),
    ("learning_state", {"landmark": "2900-01-01T00:00:00+00:00"}, "long after the export"),
    ("learning_state", {"half_life_days": "infinity"}, "half_life_days is 'infinity'"),
    ("learning_state", {"half_life_days": 1e308}, "half_life_days"),
    ("learning_state", {"daily_cap": -1}, "daily_cap"),
    ("retrieval", {"statistics_at": "9999-12-31T00:00:00+00:00"}, "statistics_at"),
    ("retrieval", {"request": "x"}, "request is 'x'; it must be an object"),
    ("retrieval", {"request": {"limit": "many"}}, "limit of a search"),
    ("retrieval", {"request": {"profile": {"legs": 1}}}, "profile"),
    ("retrieval", {"timings_ms": -1}, "timings_ms is -1; it must be an object"),
    ("retrieval", {"timings_ms": {"fuse": "slow"}}, "the time of 'fuse'"),
    ("retrieval", {"shown_signals": "x"}, "shown_signals"),
    ("retrieval", {"complexity": "NaN"}, "complexity is 'NaN'; it must be a finite number"),
    ("feedback", {"received_at": "infinity"}, "received_at"),
    ("arm", {"successes": "Infinity"}, "successes"),
    ("quarantine", {"quarantined_at": "infinity"}, "quarantined_at"),
    ("model", {"definition": 1}, "definition"),
    ("model", {"definition": {"reward": 1}}, "model 1 cannot be read"),
    ("model", {"metrics": []}, "metrics"),
    ("centroid", {"centroid": [1.0]}, "has 1 dimensions"),
    ("rewarded_query", {"vector": [1.0]}, "has 1 dimensions"),
]
"""Values that the database stores, and with which a later call would fail."""


@pytest.fixture(scope="module")
async def whole(installation: Platform, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of a collection with rows of every kind but two."""
    file = tmp_path_factory.mktemp("moved") / "whole.jsonl"
    await remember(installation, "whole")
    await fill(installation, "whole")
    await installation.export_collection("whole", file)
    return file.read_text().splitlines()


@pytest.mark.parametrize("fault", NOT_READ_BACK)
async def test_a_value_with_which_later_calls_would_fail_is_refused(
    other: Platform, tmp_path: Path, whole: list[str], fault: tuple[str, dict[str, Any], str]
) -> None:
    """The error names its line and its column."""
    kind, fields, message = fault
    lines = changed(whole, _line(whole, kind), **fields)
    (tmp_path / "faulty.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(InvalidRequestError, match=rf"lines? \d+.*: .*{message}.*; nothing was imported"):
        await other.import_collection(tmp_path / "faulty.jsonl")
    assert await other.collections() == []


async def test_a_model_that_its_trial_refused_moves_too(other: Platform, tmp_path: Path, whole: list[str]) -> None:
    """Its weights are not stored, and nobody needs them."""
    settings = {"share": 0.6, "space_id": None}
    lines = changed(whole, _line(whole, "model"), is_published=False, definition=settings)
    lines = changed(lines, _line(lines, "learning_state"), model_version=0)
    (tmp_path / "refused.jsonl").write_text("\n".join(lines))
    await other.import_collection(tmp_path / "refused.jsonl")
    [model] = await (await other.collection("whole", create=False)).models()
    assert not model.is_published


async def test_times_that_an_application_gave_may_be_any(other: Platform, tmp_path: Path, whole: list[str]) -> None:
    """From the first to the last that Python can hold."""
    lines = whole
    for kind, names in GIVEN.items():
        for time_, name in zip(("0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"), names, strict=False):
            lines = changed(lines, _line(lines, kind), **{name: time_})
    (tmp_path / "old.jsonl").write_text("\n".join(lines))
    await other.import_collection(tmp_path / "old.jsonl")
    moved = await other.collection("whole", create=False)
    item_id = json.loads(lines[_line(lines, "item")])["item"]["item_id"]
    assert (await moved.get([item_id]))[item_id].occurred_at == datetime(1, 1, 1, tzinfo=UTC)


@pytest.fixture
async def exported(platform: Platform, tmp_path: Path) -> list[str]:
    """The lines of a small collection with records."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(number), "text": f"common word{number}"} for number in range(3)])
    hits = await collection.search("common")
    await platform.feedback(hits.retrieval_id, "1", helpful=True)
    await platform.export_collection("docs", tmp_path / "sound.jsonl")
    return (tmp_path / "sound.jsonl").read_text().splitlines()


async def test_a_row_names_no_other_collection(
    platform: Platform, other: Platform, tmp_path: Path, exported: list[str]
) -> None:
    """Any collection number in a row is replaced by the new collection's."""
    theirs = await platform.collection("docs", create=False)
    number = (await theirs.refresh()).collection_id
    query = "SELECT count(*) FROM feedback WHERE collection_id = {id}"
    before = await rows_of(platform, theirs, query)
    lines = changed(exported, _line(exported, "feedback"), collection_id=number, note="forged")
    (tmp_path / "forged.jsonl").write_text("\n".join(lines))
    await other.import_collection(tmp_path / "forged.jsonl")
    assert await rows_of(platform, theirs, query) == before
    assert await rows_of(other, await other.collection("docs", create=False), query) == [(1,)]


async def test_a_large_collection_is_streamed(
    platform: Platform, other: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any size, a limited number of rows is in memory."""
    monkeypatch.setattr(transfer, "_ROWS", 7)
    largest = 0
    store = transfer._store_items  # noqa: SLF001 - to look at what it is given

    async def watched(*arguments: Any) -> int:
        nonlocal largest
        largest = max(largest, len(arguments[-1]))
        return await store(*arguments)

    monkeypatch.setattr(transfer, "_store_items", watched)
    source = await fill(platform)
    await platform.export_collection("docs", tmp_path / "docs.jsonl")
    await other.import_collection(tmp_path / "docs.jsonl")
    assert largest == 7
    moved = await other.collection("docs", create=False)
    assert await derived(other, moved) == await derived(platform, source)


async def test_an_item_of_any_size_moves(
    platform: Platform, other: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its attributes, and as JSON, it may be longer than a line that an ingest reads."""
    monkeypatch.setattr(read_lines, "__kwdefaults__", {"max_line_bytes": 20_000})
    docs = await platform.collection("docs")
    await docs.add([{"id": "a", "text": "one\n" * 5000, "log": "two " * 5000}])
    await platform.export_collection("docs", tmp_path / "docs.jsonl")
    await other.import_collection(tmp_path / "docs.jsonl")

    moved = await other.collection("docs", create=False)
    assert await moved.get(["a"]) == await docs.get(["a"])


async def test_export_is_of_one_moment(platform: Platform, other: Platform, tmp_path: Path) -> None:
    """Concurrent writes are not in the file, and the file is consistent."""
    source = await fill(platform)
    number = (await source.refresh()).collection_id
    written = False

    def meanwhile(_done: int, _total: int) -> None:
        nonlocal written
        if not written:
            written = True
            with psycopg.connect(platform.database.url) as connection:
                deletion = sql.SQL("DELETE FROM {} WHERE collection_id = {} AND item_id = 'i04'")
                connection.execute(deletion.format(sql.Identifier(SCHEMA, "items"), sql.Literal(number)))

    await platform.export_collection("docs", tmp_path / "docs.jsonl", advance=meanwhile)
    assert written
    assert (await other.import_collection(tmp_path / "docs.jsonl")).items == ITEMS
    assert await source.get(["i04"]) == {}


async def test_a_logins_limits_of_time_end_no_move(platform: Platform, settings: Settings, tmp_path: Path) -> None:
    """Its transaction is idle while a slow program reads or writes the lines."""
    await fill(platform)
    limit = "options=-c%20idle_in_transaction_session_timeout%3D100ms"
    url = platform.database.url
    limited = settings.changed(database_url=f"{url}{'&' if '?' in url else '?'}{limit}")
    async with Platform(limited, embedder=HashingEmbedder()) as hasty:
        await hasty.export_collection("docs", tmp_path / "docs.jsonl", records=False, advance=_wait)
        assert (await hasty.import_collection(tmp_path / "docs.jsonl", name="copy", advance=_wait)).items == ITEMS


def _wait(_done: int, _total: int) -> None:
    time.sleep(0.3)


async def test_an_export_replaces_no_file_that_another_has_written_meanwhile(
    platform: Platform, tmp_path: Path
) -> None:
    """The second of two exports into one file is refused, and leaves nothing behind."""
    await fill(platform)
    file = tmp_path / "docs.jsonl"

    def meanwhile(_done: int, _total: int) -> None:
        file.write_text("the other's")

    with pytest.raises(ConflictError, match="already exists; name a file"):
        await platform.export_collection("docs", file, advance=meanwhile)
    assert file.read_text() == "the other's"
    assert files_in(tmp_path) == ["docs.jsonl"]


async def test_a_folder_that_may_not_be_entered_is_reported(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may enter every folder, whatever its mode."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    await platform.collection("docs")
    monkeypatch.setattr(Path, "exists", refuse)
    with pytest.raises(InvalidRequestError, match=r"cannot write .*Permission denied"):
        await platform.export_collection("docs", tmp_path / "docs.jsonl")


async def test_of_two_exports_into_one_file_at_once_the_second_is_refused(platform: Platform, tmp_path: Path) -> None:
    """They would otherwise replace each other's file if they ended at the same moment."""
    collection = await fill(platform)
    file = tmp_path / "docs.jsonl"
    ended = await asyncio.gather(
        *(platform.export_collection(collection.name, file) for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(end).__name__ for end in ended) == ["ConflictError", "Moved"]
    assert files_in(tmp_path) == ["docs.jsonl"]


async def test_the_sync_door_moves_it_too(database_url: str, settings: Settings, tmp_path: Path) -> None:
    """The same calls without await."""
    from retrieval.sync import connect as connect_sync

    def moved() -> int:
        with connect_sync(database_url, settings=settings, embedder=HashingEmbedder()) as waiting:
            waiting.collection("docs").add([{"_id": "1", "text": "x"}])
            waiting.export_collection("docs", tmp_path / "docs.jsonl.gz")
            return waiting.import_collection(tmp_path / "docs.jsonl.gz", name="copy").items

    assert await asyncio.to_thread(moved) == 1


async def test_a_stranger_cannot_export(platform: Platform, other: Platform, tmp_path: Path) -> None:
    """Another tenant's collection is unknown, and no file is left."""
    await platform.collection("docs")
    with pytest.raises(UnknownCollectionError):
        await other.export_collection("docs", tmp_path / "docs.jsonl")
    assert files_in(tmp_path) == []
