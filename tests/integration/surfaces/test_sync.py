"""The sync door on a real server: from threads, with callbacks, interrupted, closed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from retrieval import Context, Item, Settings, read_items
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.llms.sim import SimLLM
from retrieval.adapters.readers import InputLine
from retrieval.apps import metaphors, tickets
from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor
from retrieval.domain.errors import (
    BadLineError,
    InvalidRequestError,
    RunningLoopError,
    UnknownCollectionError,
    UnknownItemError,
)
from retrieval.domain.records.slate import ShownItem
from retrieval.services.ingest import IngestReport
from retrieval.sync import (
    DualRetriever,
    MemoryStore,
    MetaphorCorpus,
    RetrievalEngine,
    RetrievalService,
    SyncPlatform,
    connect,
)
from retrieval.sync import open as open_sync

ITEMS = [
    {"_id": "1", "title": "Connection timeout", "text": "The database refuses connections.", "metadata": {"p": "High"}},
    {"_id": "2", "title": "Disk full", "text": "The log fills the disk.", "metadata": {"p": "Low"}},
    {"_id": "3", "title": "Slow query", "text": "A report takes an hour.", "metadata": {"p": "High"}},
]


@pytest.fixture
def settings(common_settings: Settings, database_url: str, request: pytest.FixtureRequest) -> Settings:
    """Settings of a tenant that no other test sees."""
    return common_settings.changed(
        database_url=SecretStr(database_url), tenant=f"sync {request.node.name}", embedder="hashing"
    )


@pytest.fixture
def platform(settings: Settings) -> Iterator[SyncPlatform]:
    """An open platform."""
    with connect(settings=settings, embedder=HashingEmbedder()) as opened:
        yield opened


def test_items_are_added_searched_read_and_deleted(platform: SyncPlatform) -> None:
    """A collection works as its async twin does."""
    tickets = platform.collection("tickets")
    report = tickets.add(ITEMS)
    hits = tickets.search("connection timeout", where={"p": "High"}, limit=5)

    assert report.added == report.embedded == 3
    assert [hit.item_id for hit in hits] == ["1", "3"]
    assert hits[0].score == pytest.approx(hits[0].explanation.score)
    assert tickets.get(["2", "9"])["2"].title == "Disk full"
    assert [item.item_id for item in tickets.scan(batch=2)] == ["1", "2", "3"]
    assert next(tickets.scan({"p": "Low"})).item_id == "2"
    with pytest.raises(InvalidRequestError, match="batch is 0"):
        next(tickets.scan(batch=0))
    assert tickets.vectors_of(["disk"]).shape == (1, tickets.embeddings(["2"])["2"].size)
    assert tickets.delete(["2"]) == 1
    assert tickets.info().items == 2
    assert [collection.name for collection in platform.collections()] == ["tickets"]
    assert repr(tickets) == "<SyncCollection 'tickets': 2 items>"


def test_a_notebook_shows_a_collection_as_it_was_last_read(platform: SyncPlatform) -> None:
    """Without waiting for the database."""
    tickets = platform.collection("tickets", filterable={"p": "text"})
    tickets.add(ITEMS)
    html = platform.collection("tickets")._repr_html_()

    assert "<b>collection tickets</b>" in html
    assert "p (text)" in html
    assert ">3</td>" in html


def test_another_tenants_view_is_opened_and_closed_beside_it(platform: SyncPlatform) -> None:
    """On the same thread and connections; the first goes on."""
    platform.collection("tickets").add(ITEMS)
    with platform.of_tenant("another") as other:
        assert other.collections() == []
    assert [collection.name for collection in platform.collections()] == ["tickets"]


def test_composed_answers_are_recorded_and_learned_from(platform: SyncPlatform) -> None:
    """The items' statistics follow from the verdicts."""
    tickets = platform.collection("tickets")
    tickets.add(ITEMS)
    items = [ShownItem(item_id="2", score=1.0)]
    answer = tickets.record_answer("disk", items, origin="desk", retrieval_time_ms=1, context=Context(session="s"))
    platform.feedback(answer, "2", helpful=True)
    assert [answer.retrieval_id for answer in tickets.answers_of("s", origin="desk")] == [answer]
    assert tickets.standings(["2"])["2"].successes == 1
    assert tickets.expectations(["2"])["2"].mean == pytest.approx(2 / 3)
    assert not tickets.learn()["published"]
    assert tickets.info().model_version == 0


def test_memories_are_stored_and_read_without_await(platform: SyncPlatform) -> None:
    """As an application calls them that knows of no loop; errors come out as they are."""
    store = MemoryStore(platform)
    stored = store.store_memory(
        project_id="p1", interaction_type="insights", content={"finding": "slow"}, linked_question_ids=["q1"]
    )
    assert store.get_memory(stored.memory_id).links == {"questions": ("q1",)}
    RetrievalEngine(platform).retrieve_relevant_memories("p1", min_score=0)
    platform.accesses_counted()
    assert [memory.accesses for memory in store.list_memories("p1")] == [1]
    store.forget(stored.memory_id)
    with pytest.raises(UnknownItemError):
        store.get_memory(stored.memory_id)


def test_a_corpus_is_iterated_and_counted_as_a_list_is(platform: SyncPlatform) -> None:
    """The static metaphors come first, then the added ones; the collection is a sync one."""
    corpus = MetaphorCorpus.open(platform, static=STANDARD_CORPUS[:2])
    corpus.add(Metaphor(id="beehive", name="Beehive"))
    again = MetaphorCorpus(corpus.collection, STANDARD_CORPUS[:2])

    assert [metaphor.id for metaphor in corpus] == [metaphor.id for metaphor in again]
    assert [metaphor.id for metaphor in again] == [*(metaphor.id for metaphor in again.static), "beehive"]
    assert len(again) == again.count() == 3
    with pytest.raises(ValueError, match="already exists"):
        again.add(Metaphor(id="beehive", name="Another"))
    with pytest.raises(InvalidRequestError, match="without await"):
        MetaphorCorpus.open(platform.twin)  # type: ignore[arg-type]


def test_a_question_is_recalled_without_await(platform: SyncPlatform) -> None:
    """With and without rewrites; properties need no waiting."""
    tickets = platform.collection("tickets")
    tickets.add(ITEMS)
    retriever = DualRetriever(tickets, SimLLM(seed=1), seed=1)
    assert retriever.needs_deep_search("What fills the disk?")
    assert [entity.id for entity in retriever.search("What fills the disk?", limit=1)] == ["2"]
    assert retriever.rewrite_query("What fills the disk?")
    assert retriever.merge_rrf([]) == []


def variables_of(settings: Settings) -> dict[str, str]:
    """The environment of a program that uses the test's database, for the test's tenant."""
    assert settings.database_url is not None
    return {
        "RETRIEVAL_DATABASE_URL": settings.database_url.get_secret_value(),
        "RETRIEVAL_SCHEMA": settings.database_schema,
        "RETRIEVAL_TENANT": settings.tenant,
        "RETRIEVAL_EMBEDDER": settings.embedder,
    }


def test_tickets_are_served_without_await(
    platform: SyncPlatform, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform is the given one, or one from the environment."""
    assert RetrievalService(platform=platform).health_check()["status"] == "unhealthy"
    for name, value in variables_of(settings).items():
        monkeypatch.setenv(name, value)
    with RetrievalService() as service:
        assert service.config.default_top_k > 0
        assert "error" in service.health_check()
    with pytest.raises(InvalidRequestError, match="the platform is closed"):
        service.health_check()


def test_a_profile_is_stored_and_used(platform: SyncPlatform) -> None:
    """A new version answers from then on."""
    tickets = platform.collection("tickets")
    tickets.add(ITEMS)
    version = tickets.set_profile(tickets.profile.only(("lexical",)), note="words only")

    assert version == 2
    assert tickets.refresh().profile_version == 2
    assert tickets.search("disk").path.value == "none"


def test_ingest_calls_its_callbacks(platform: SyncPlatform, tmp_path: Path) -> None:
    """Progress is reported from the start, and bad lines are passed on."""
    file = tmp_path / "items.jsonl"
    file.write_text('{"_id": "1", "title": "Good"}\n{"title": "No key"}\n')
    reports: list[IngestReport] = []
    bad: list[InputLine] = []

    report = platform.collection("files").ingest(
        read_items(file), rejected=bad.append, progress=lambda so_far, _: reports.append(so_far)
    )

    assert (report.read, report.rejected) == (1, 1)
    counts = [report.read for report in reports]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 1)
    assert [line.line for line in bad] == [2]


def test_errors_come_out_as_they_are(platform: SyncPlatform, tmp_path: Path) -> None:
    """The async API's errors reach the caller, and the door works on."""
    file = tmp_path / "items.jsonl"
    file.write_text('{"title": "No key"}\n')

    with pytest.raises(UnknownCollectionError):
        platform.collection("missing", create=False)
    with pytest.raises(BadLineError):
        platform.collection("files").ingest(read_items(file))
    assert platform.collection("files").info().items == 0


@pytest.mark.parametrize(
    ("make", "needed"),
    [
        (lambda: DualRetriever("x", None), "SyncCollection"),  # type: ignore[arg-type]
        (lambda: RetrievalService(platform="x"), "SyncPlatform"),  # type: ignore[arg-type]
        (lambda: MetaphorCorpus("x"), "SyncCollection"),  # type: ignore[arg-type]
        (lambda: tickets.RetrievalService(platform="x"), "give an open platform"),  # type: ignore[arg-type]
        (lambda: metaphors.MetaphorCorpus("x"), "give a collection"),  # type: ignore[arg-type]
    ],
)
def test_an_application_says_what_it_is_made_of(make: Callable[[], object], needed: str) -> None:
    """At once, and not at its first call."""
    with pytest.raises(InvalidRequestError, match=needed):
        make()


def test_a_callback_cannot_use_the_door(platform: SyncPlatform, tmp_path: Path) -> None:
    """It runs on the door's own loop, which would wait for itself."""
    file = tmp_path / "items.jsonl"
    file.write_text('{"_id": "1", "title": "One"}\n')
    files = platform.collection("files")
    answers: list[object] = []

    with pytest.raises(RunningLoopError):
        files.ingest(read_items(file), progress=lambda *_: answers.append(files.info()))


def test_threads_share_one_platform(platform: SyncPlatform) -> None:
    """Searches from many threads at once all answer, on one loop and one pool."""
    tickets = platform.collection("tickets")
    tickets.add(ITEMS)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: tickets.search("slow report", limit=1)[0].item_id, range(40)))

    assert answers == ["3"] * 40


def test_a_call_inside_a_running_loop_is_refused(platform: SyncPlatform) -> None:
    """Even when it was opened outside of one."""
    tickets = platform.collection("tickets")

    async def inside() -> None:
        tickets.info()

    with pytest.raises(RunningLoopError):
        asyncio.run(inside())


def test_leaving_ends_the_thread_and_closes_the_door(settings: Settings) -> None:
    """Nothing keeps running, and a later call says what to do."""
    before = set(threading.enumerate())
    platform = connect(settings=settings)
    with platform:
        tickets = platform.collection("tickets")

    assert set(threading.enumerate()) <= before
    with pytest.raises(InvalidRequestError, match="the platform is closed; open it again"):
        tickets.info()
    with pytest.raises(InvalidRequestError, match="the platform is closed; open it again"):
        platform.collections()


def test_a_closed_platform_can_be_opened_again(settings: Settings) -> None:
    """One value serves several successive ``with`` blocks."""
    platform = connect(settings=settings)
    with platform:
        former = platform.collection("tickets")
        former.add(ITEMS)
    with platform:
        assert platform.collection("tickets").info().items == 3
        with pytest.raises(InvalidRequestError, match="get its collections from it again"):
            former.info()


def test_a_platform_is_opened_and_closed_without_with(settings: Settings) -> None:
    """The cells of a notebook share it; after closing, calls fail, and closing again does nothing."""
    platform = open_sync(settings=settings, embedder=HashingEmbedder())
    tickets = platform.collection("tickets")
    tickets.add(ITEMS)
    assert tickets.search("disk")[0].item_id == "2"
    platform.close()
    platform.close()
    with pytest.raises(InvalidRequestError, match=r"is closed; open it again \(platform\.open\(\)"):
        tickets.search("disk")
    assert [collection.name for collection in platform.open().collections()] == ["tickets"]
    platform.close()


def test_a_platform_is_not_closed_within_a_call_of_it(settings: Settings) -> None:
    """The thread cannot wait for its own end; the platform stays open."""
    with connect(settings=settings) as platform:
        tickets = platform.collection("tickets")
        tickets.add(ITEMS)

        def decide(_: str, item: Item | None) -> Item | None:
            platform.close()
            return item

        with pytest.raises(RunningLoopError, match="cannot be closed within it"):
            tickets.change(["2"], decide)
        assert tickets.info().items == 3


def output_of(program: str, settings: Settings) -> str:
    """What the program prints; it ends well, and writes no warning."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, **variables_of(settings)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_a_program_that_does_not_close_it_ends_well(settings: Settings) -> None:
    """The end of the program closes it, and the search that was answered last is recorded."""
    program = """
import retrieval.sync
platform = retrieval.sync.open()
tickets = platform.collection("tickets")
tickets.add([{"id": "1", "text": "The disk is full."}])
print(tickets.search("disk").retrieval_id)
"""
    retrieval_id = output_of(program, settings).strip()
    with connect(settings=settings) as platform:
        assert platform.retrieval(retrieval_id).query == "disk"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no forks")
def test_a_forked_process_leaves_the_platform_to_its_parent(settings: Settings) -> None:
    """Its calls are refused instead of waiting forever, it can open its own, it ends well, and the parent goes on."""
    program = """
import os, sys
from retrieval.sync import connect
with connect() as platform:
    tickets = platform.collection("tickets")
    tickets.add([{"id": "1", "text": "The disk is full."}])
    if not os.fork():
        try:
            tickets.search("disk")
        except Exception as error:
            print(error)
        with connect() as own:
            print(own.collection("tickets").info().items)
        sys.exit()
    print(os.wait()[1], len(tickets.search("disk")))
"""
    refusal, items, parent = output_of(program, settings).splitlines()
    assert refusal.endswith("was forked; open one in each process: retrieval.sync.connect()")
    assert (items, parent) == ("1", "0 1")


def test_closing_a_platform_closes_its_views_of_other_tenants(settings: Settings) -> None:
    """An open view would keep the thread, and closing would wait for it forever."""
    program = """
from retrieval.sync import connect
platform = connect().open()
with platform.of_tenant("another") as view:
    platform.close()
    try:
        view.collections()
    except Exception as error:
        print(error)
"""
    assert output_of(program, settings).startswith("the platform is closed; open it again")


def test_opening_it_twice_at_once_is_refused(platform: SyncPlatform) -> None:
    """The second ``with`` does not leave the first one's loop behind."""
    with pytest.raises(InvalidRequestError, match="open already"):
        platform.__enter__()


INTERRUPTED = """
import signal
from retrieval.sync import connect

def endless():
    for number in range(10**9):
        yield from batch(number)

def batch(number):
    from retrieval.adapters.readers import InputLine, item_from_record
    for place in range(10):
        record = {"_id": f"{number}-{place}", "text": "words " * 50}
        yield InputLine(file="-", line=1, raw="x", offset=0, item=item_from_record(record), error=None)

# The tests may ignore SIGINT, and so their children.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with connect() as platform:
        platform.collection("c").ingest(endless(), progress=lambda *_: print("batch", flush=True))
except KeyboardInterrupt:
    print("left", flush=True)
"""


def test_an_interrupt_leaves_cleanly(settings: Settings) -> None:
    """Ctrl-C in the middle of a call ends it, closes everything and goes on to the caller."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", INTERRUPTED],
        env={**os.environ, **variables_of(settings.changed(embedder="none"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "batch\n"
        os.kill(program.pid, signal.SIGINT)
        output, errors = program.communicate(timeout=60)

    assert output.splitlines()[-1] == "left"
    assert program.returncode == 0, errors
    assert "Traceback" not in errors  # the driver may log a dropped connection
