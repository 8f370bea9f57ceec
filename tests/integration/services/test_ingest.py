"""Ingest: idempotent, resumable, and exact, whatever becomes of the process, the embedder or the input."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from retrieval import Platform, Settings, connect, read_items
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.domain.errors import (
    BadLineError,
    EmbedderUnavailableError,
    InvalidRequestError,
)
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vectors
from retrieval.services import ingest
from retrieval.services.add import BATCH_ITEMS
from tests.support.killed_ingest import ingest_until


class ObservedEmbedder(HashingEmbedder):
    """Counts its texts, and fails or answers wrongly on demand."""

    def __init__(self) -> None:
        super().__init__(64)
        self.texts: list[str] = []
        self.down = False
        self.answer: Any = None
        self.poison = ""
        self.calls = 0

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return the vectors, the configured answer, or raise ``EmbedderUnavailableError``."""
        self.calls += 1
        if self.down:
            raise EmbedderUnavailableError("the embedder is down; try again")
        self.texts += texts
        vectors = await super().embed(texts, role)
        if self.poison:
            vectors = np.array([row * (self.poison not in text) for row, text in zip(vectors, texts, strict=True)])
        return vectors if self.answer is None else self.answer(vectors)


@pytest.fixture
def embedder() -> ObservedEmbedder:
    """An embedder that is watched."""
    return ObservedEmbedder()


@pytest.fixture
async def observed(database_url: str, settings: Settings, embedder: ObservedEmbedder) -> Any:
    """A platform with the embedder that is watched."""
    async with connect(database_url, settings=settings, embedder=embedder) as opened:
        yield opened


def line(number: int, text: str = "", **more: object) -> str:
    """One line of a file: the item of that number."""
    return json.dumps({"_id": f"{number:06}", "text": text or f"text of word{number}", **more})


def write_file(path: Path, lines: Iterable[str]) -> str:
    """The file's name, once these lines are in it."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of an input file."""
    return tmp_path / "items.jsonl"


@pytest.mark.parametrize("lines", ["items.jsonl", [{"id": "1"}], ({"id": key} for key in "ab")])
async def test_lines_are_what_read_items_reads(platform: Platform, lines: Any) -> None:
    """Dictionaries go to ``add``."""
    collection = await platform.collection("docs")
    with pytest.raises(InvalidRequestError, match=r"ingest takes the lines that retrieval\.read_items\(path\) reads"):
        await collection.ingest(lines)


async def test_a_second_run_changes_nothing_and_embeds_nothing(
    observed: Platform, embedder: ObservedEmbedder, file: Path
) -> None:
    """A stored item costs neither an embedding nor a write."""
    collection = await observed.collection("docs")
    path = write_file(file, map(line, range(1200)))
    first = await collection.ingest(read_items(path))
    assert (first.read, first.items.added, first.items.embedded, len(embedder.texts)) == (1200,) * 4
    embedder.texts.clear()
    second = await collection.ingest(read_items(path))
    assert (second.read, second.items.unchanged) == (1200, 1200)
    assert (second.items.added, second.items.changed, second.items.embedded, second.items.pending) == (0,) * 4
    assert embedder.texts == []


async def test_only_a_changed_text_is_embedded_again(
    observed: Platform, embedder: ObservedEmbedder, file: Path
) -> None:
    """A changed attribute costs a write, a changed text an embedding too, and a text seen before none."""
    collection = await observed.collection("docs")
    await collection.ingest(read_items(write_file(file, map(line, range(10)))))
    embedder.texts.clear()
    lines = [line(0, "new text"), line(1, priority="High"), line(2, "text of word3"), *map(line, range(3, 10))]
    report = await collection.ingest(read_items(write_file(file, lines)))
    assert (report.items.changed, report.items.unchanged) == (3, 7)
    assert embedder.texts == ["new text"]
    for query, key in (("new text", "000000"), ("text of word9", "000009")):
        hits = await collection.search(query, legs=["dense"], limit=1)
        assert hits[0].item_id == key
        assert hits[0].explanation.contributions[0].raw_score == pytest.approx(1, abs=1e-2)


async def test_pruning_archives_what_is_missing_and_the_same_input_revives_it(
    observed: Platform, embedder: ObservedEmbedder, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archived item is stored and not found; added again unchanged, it is found without a new embedding."""
    monkeypatch.setattr(ingest, "_PRUNE_PAGE", 400)  # so that stored items are read in several pages
    collection = await observed.collection("docs")
    many = BATCH_ITEMS + 50
    everything = list(map(line, range(2 * many)))
    await collection.ingest(read_items(write_file(file, everything)))
    report = await collection.ingest(read_items(write_file(file, everything[::2])), prune=True)
    assert report.archived == many
    assert (await collection.info()).items == many
    assert list(await collection.search("word7", legs=["lexical"])) == []
    assert "000007" not in {hit.item_id for hit in await collection.search("word7", legs=["dense"], limit=1000)}
    assert (await collection.get(["000007"]))["000007"].status == "archived"
    again = await collection.ingest(read_items(write_file(file, everything[::2])), prune=True)
    assert (again.archived, again.items.changed) == (0, 0)
    embedder.texts.clear()
    revived = await collection.ingest(read_items(write_file(file, everything)), prune=True)
    assert (revived.items.changed, revived.archived, embedder.texts) == (many, 0, [])
    assert [hit.item_id for hit in await collection.search("word7", legs=["lexical"])] == ["000007"]
    info = await collection.info()
    assert (info.items, info.pending) == (2 * many, 0)


async def test_nothing_is_pruned_when_a_line_was_rejected(platform: Platform, file: Path) -> None:
    """The line that could not be read may have held the item that seems to be missing."""
    collection = await platform.collection("docs")
    await collection.ingest(read_items(write_file(file, map(line, range(4)))))
    rejected: list[int] = []
    report = await collection.ingest(
        read_items(write_file(file, [line(0), "{broken", line(2)])),
        rejected=lambda rejection: rejected.append(rejection.line),
        prune=True,
    )
    assert (rejected, report.rejected, report.archived) == ([2], 1, 0)
    assert any("nothing was pruned" in note for note in report.items.notes)
    assert (await collection.info()).items == 4


async def test_nothing_is_pruned_by_an_empty_input(platform: Platform, file: Path) -> None:
    """A file that a failed export left empty does not take the collection away."""
    collection = await platform.collection("docs")
    await collection.ingest(read_items(write_file(file, map(line, range(4)))))
    report = await collection.ingest(read_items(write_file(file, [])), prune=True)
    assert report.archived == 0
    assert any("nothing was pruned" in note for note in report.items.notes)
    assert (await collection.info()).items == 4


async def test_a_bad_line_stops_before_its_batch(platform: Platform, file: Path) -> None:
    """Batches before the bad line are stored; nothing of its own batch is."""
    collection = await platform.collection("docs")
    lines = [*map(line, range(BATCH_ITEMS + 10)), '{"_id": "bad", "occurred_at": "never"}', line(9999)]
    with pytest.raises(BadLineError, match=f"items.jsonl:{BATCH_ITEMS + 11}: "):
        await collection.ingest(read_items(write_file(file, lines)))
    assert (await collection.info()).items == BATCH_ITEMS
    report = await collection.ingest(read_items(str(file)), rejected=lambda _: None)
    assert (report.read, report.rejected) == (BATCH_ITEMS + 11, 1)
    assert (report.items.added, report.items.unchanged) == (11, BATCH_ITEMS)


async def test_while_the_embedder_is_down_items_are_stored_and_found_by_words(
    observed: Platform, embedder: ObservedEmbedder, file: Path
) -> None:
    """The items wait, the report says so, and the next run embeds them without being given anything else."""
    collection = await observed.collection("docs")
    path = write_file(file, map(line, range(700)))
    embedder.down = True
    report = await collection.ingest(read_items(path))
    assert (report.items.added, report.items.embedded, report.items.pending) == (700, 0, 700)
    assert any("the embedder is down" in note for note in report.items.notes)
    hits = await collection.search("word5")
    assert [hit.item_id for hit in hits] == ["000005"]
    assert any("dense leg did not run" in note for note in hits.notes)
    assert (await collection.info()).pending == 700
    embedder.down = False
    report = await collection.ingest(read_items(path))
    assert (report.items.unchanged, report.items.embedded, report.items.pending) == (700, 700, 0)
    assert (await collection.info()).pending == 0


async def test_any_run_embeds_what_an_earlier_one_left(
    observed: Platform, embedder: ObservedEmbedder, file: Path
) -> None:
    """Items that are not in the input any more get their vector too."""
    collection = await observed.collection("docs")
    embedder.down = True
    await collection.ingest(read_items(write_file(file, map(line, range(300)))))
    embedder.down = False
    progress: list[tuple[int, int]] = []
    report = await collection.ingest(
        read_items(write_file(file, [line(1000)])),
        progress=lambda so_far, _: progress.append((so_far.read, so_far.items.embedded)),
    )
    assert report.items.embedded == 301
    assert progress == [(0, 0), (1, 1), (1, 1), (1, 129), (1, 257), (1, 301)]
    assert (await collection.info()).pending == 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda vectors: vectors[:, :32], "32 dimensions"),
        (lambda vectors: vectors * np.nan, "NaN or infinity"),
        (lambda vectors: vectors * 0, "is zero"),
        (lambda vectors: vectors + np.inf, "NaN or infinity"),
    ],
)
async def test_vectors_that_cannot_be_compared_are_refused_with_the_key(
    observed: Platform, embedder: ObservedEmbedder, file: Path, answer: Any, message: str
) -> None:
    """Another dimension, NaN, infinity and zero never reach the database, and the report names the item."""
    collection = await observed.collection("docs")
    embedder.answer = answer
    report = await collection.ingest(read_items(write_file(file, [line(0)])))
    assert any("'000000'" in note and message in note for note in report.items.notes)
    assert (report.items.pending, (await collection.info()).pending) == (1, 1)
    embedder.answer = None
    await collection.ingest(read_items(str(file)))
    assert (await collection.info()).pending == 0


async def test_one_item_that_cannot_be_embedded_holds_up_no_other(
    observed: Platform, embedder: ObservedEmbedder, file: Path
) -> None:
    """It is found among a thousand, named, and waits alone."""
    collection = await observed.collection("docs")
    embedder.poison = "poison"
    lines = [*map(line, range(700)), line(700, "poison"), *map(line, range(701, 1000))]
    report = await collection.ingest(read_items(write_file(file, lines)))
    assert (report.items.embedded, report.items.pending) == (999, 1)
    assert any("'000700'" in note for note in report.items.notes)
    assert (await collection.info()).pending == 1


async def test_an_unreachable_embedder_is_called_once_per_run(
    observed: Platform, embedder: ObservedEmbedder, file: Path
) -> None:
    """Each further try would wait for all its retries; only a test word tells whether the texts are at fault."""
    collection = await observed.collection("docs")
    embedder.down = True
    report = await collection.ingest(read_items(write_file(file, map(line, range(1600)))))
    assert (report.items.pending, embedder.calls) == (1600, 2)


async def test_an_embedder_that_refuses_everything_is_not_called_for_each_item(
    observed: Platform, embedder: ObservedEmbedder, file: Path
) -> None:
    """After a few refusals the embedder is considered broken."""
    collection = await observed.collection("docs")
    embedder.answer = lambda vectors: vectors * 0
    report = await collection.ingest(read_items(write_file(file, map(line, range(1000)))))
    assert (report.items.embedded, report.items.pending) == (0, 1000)
    assert embedder.calls < 40


async def test_of_lines_with_one_key_the_last_counts(platform: Platform, file: Path) -> None:
    """Within a batch and across batches, and a second run settles on the same."""
    collection = await platform.collection("docs")
    lines = [line(0, "first"), line(1), line(0, "second"), *map(line, range(2, BATCH_ITEMS + 20)), line(0, "third")]
    for _ in range(2):
        report = await collection.ingest(read_items(write_file(file, lines)))
        assert report.read == BATCH_ITEMS + 22
        assert report.items.repeated == 1
        assert "1 id appears more than once; the last of each was kept" in report.items.notes
        assert (await collection.get(["000000"]))["000000"].body == "third"
        assert [hit.item_id for hit in await collection.search("third", legs=["lexical"])] == ["000000"]
        assert list(await collection.search("first", legs=["lexical"])) == []
        assert (await collection.info()).items == BATCH_ITEMS + 20


async def test_an_archived_status_takes_an_item_out_of_every_search(platform: Platform, file: Path) -> None:
    """An item may arrive archived, become archived, and come back."""
    collection = await platform.collection("docs")
    await collection.ingest(read_items(write_file(file, [line(0), line(1, status="archived")])))
    assert (await collection.info()).items == 1
    await collection.ingest(read_items(write_file(file, [line(0, status="archived"), line(1)])))
    hits = await collection.search("text of word0 word1")
    assert [hit.item_id for hit in hits] == ["000001"]
    info = await collection.info()
    assert (info.items, info.pending) == (1, 0)


async def test_the_attributes_of_a_collection_are_known_with_their_types(platform: Platform, file: Path) -> None:
    """The items' attributes can be used in filters; any other attribute is an unknown field."""
    collection = await platform.collection("docs")
    lines = [line(0, hours=1, priority="High"), line(1, hours="two", nested={"a": 1}, flag=True), line(2, labels=["x"])]
    await collection.ingest(read_items(write_file(file, lines)))
    assert dict((await collection.refresh()).attributes) == {
        "flag": ("boolean",),
        "hours": ("number", "string"),
        "labels": ("array",),
        "nested": ("object",),
        "priority": ("string",),
    }


async def test_another_model_gets_a_space_of_its_own(database_url: str, settings: Settings) -> None:
    """Vectors of two models of the same width are never compared: each collection keeps its own space."""
    spaces: list[EmbeddingSpace] = []
    for seed in (0, 1):
        async with connect(database_url, settings=settings, embedder=HashingEmbedder(64, seed=seed)) as platform:
            collection = await platform.collection(f"docs{seed}")
            await collection.add([{"_id": "1", "text": "the cat"}])
            stored = (await collection.refresh()).space
            assert stored is not None
            spaces.append(stored.space)
            hits = await collection.search("the cat", legs=["dense"])
            assert hits[0].explanation.contributions[0].raw_score == pytest.approx(1, abs=1e-2)
    assert spaces[0] != spaces[1]


async def test_a_run_that_was_killed_anywhere_is_completed_by_the_next(
    database_url: str, settings: Settings, file: Path, connection: psycopg.AsyncConnection[Any]
) -> None:
    """After SIGKILL at some points, one more run ends with the rows, vectors, terms and weights of a run unharmed."""
    old = [line(number, "old words here") for number in range(0, 3000, 3)]
    # Few words: with thousands, two could have the same number in one of the collections.
    new = [line(number, f"new {'of various length ' * (number % 7)}{number % 90}") for number in range(0, 4800, 2)]
    states = []
    for harmed in (False, True):
        own = settings.changed(tenant=f"{settings.tenant}-{harmed}")
        async with connect(database_url, settings=own, embedder=HashingEmbedder(64)) as platform:
            collection = await platform.collection("docs")
            await collection.ingest(read_items(write_file(file, old)))
            path = write_file(file, new)
            killed = 0
            for last in (5, 12, 18, 25) if harmed else ():
                killed += ingest_until(database_url, own.tenant, path, last) == -signal.SIGKILL
            assert killed >= 3 or not harmed
            report = await collection.ingest(read_items(path), prune=True)
            assert report.items.pending == 0
            states.append(await _state(connection, (await collection.refresh()).collection_id))
    assert states[0] == states[1]


STORED = (
    "SELECT item_id, body, status FROM items WHERE collection_id = %s ORDER BY 1",
    "SELECT item_id, vector::text, content_hash FROM embeddings_@space@ WHERE collection_id = %s ORDER BY 1",
    "SELECT item_id, length, cardinality(lexemes) FROM item_terms WHERE collection_id = %s ORDER BY 1",
    """
    SELECT document_frequency, count(*) FROM term_statistics
    WHERE collection_id = %s AND document_frequency <> 0 GROUP BY 1 ORDER BY 1
    """,
    "SELECT documents, total_length, weighing_after FROM collection_statistics WHERE collection_id = %s",
)
# The weights of every item use the collection's own average.
STALE = """
    SELECT count(*) FROM item_terms JOIN collection_statistics USING (collection_id)
    WHERE collection_id = %s AND weights IS DISTINCT FROM bm25_weights(lexemes, frequencies, length, weighed_length)
"""


async def _state(connection: psycopg.AsyncConnection[Any], number: int) -> list[Any]:
    """Everything that a search depends on."""
    spaces = await connection.execute("SELECT space_id FROM collections WHERE collection_id = %s", (number,))
    row = await spaces.fetchone()
    assert row is not None
    queries = [query.replace("@space@", str(row[0])) for query in (*STORED, STALE)]
    state = [await (await connection.execute(query.encode(), (number,))).fetchall() for query in queries]
    assert state[-1] == [(0,)]
    return state
