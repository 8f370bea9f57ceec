"""The worker and the jobs as a user runs them: killed, stopped, run by hand, looked at."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.jobs.registry import JOBS
from tests.acceptance.conftest import SECONDS, Program

Admin = psycopg.Connection[tuple[Any, ...]]
Vectors = tuple[int, sql.Identifier]
"""A collection's number, and the table of its vectors."""

LOOKED_AT = 0.02
"""Seconds between looks at what another process does: it needs the processor more."""

ITEMS = 300
ONLY_EMBED = {
    "embed": "* * * * * */1",
    "indexes": "off",
    "recall": "off",
    "weights": "off",
    "statistics": "off",
    "months": "off",
    "prune": "off",
}
QUICK = {
    "RETRIEVAL_JOBS_SCHEDULE": json.dumps(ONLY_EMBED),
    "RETRIEVAL_WORKER_STALLED_SECONDS": "1",
    "RETRIEVAL_WORKER_POLL_SECONDS": "0.1",
}


@pytest.fixture(scope="module")
def home(own_home: Path) -> Path:
    """A separate server for this module: a worker runs the jobs of every tenant."""
    return own_home


@pytest.fixture(scope="module")
def admin(home: Path) -> Iterator[Admin]:
    """A superuser's connection that commits each statement."""
    with start_embedded(home) as server, psycopg.connect(server.url, autocommit=True) as connection:
        yield connection


def make_pending(program: Program, admin: Admin) -> Vectors:
    """A collection whose items all wait for their vector: its number, and the table that the vectors go to."""
    program.write("docs.jsonl", *({"_id": f"{n:04}", "text": f"word{n} of {program.folder}"} for n in range(ITEMS)))
    program.succeeds("ingest", "docs", "docs.jsonl", "--quiet")
    tenant = program.environment["RETRIEVAL_TENANT"]
    row = admin.execute(
        "SELECT c.collection_id, c.space_id FROM retrieval.collections c JOIN retrieval.tenants t USING (tenant_id) "
        "WHERE t.name = %s",
        (tenant,),
    ).fetchone()
    assert row is not None
    number, space = row
    table = sql.Identifier("retrieval", f"embeddings_{space}")
    admin.execute(sql.SQL("DELETE FROM {} WHERE collection_id = %s").format(table), (number,))
    return number, table


def embedded(admin: Admin, collection: Vectors) -> int:
    """The number of the collection's items that have their vector."""
    number, table = collection
    row = admin.execute(sql.SQL("SELECT count(*) FROM {} WHERE collection_id = %s").format(table), (number,)).fetchone()
    return int(row[0]) if row else 0


def has_company(admin: Admin) -> bool:
    """Whether the server has a process for another client."""
    others = "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    return admin.execute(others).rowcount > 0


@contextmanager
def worker(program: Program) -> Iterator[subprocess.Popen[str]]:
    """A worker in a process of its own, ended when the test ends."""
    process = program.start("worker", errors=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_job_of_a_killed_worker_is_taken_up_by_another(program: Program, admin: Admin) -> None:
    """The worker is killed in the middle of a job; the finished part is not repeated."""
    collection = make_pending(program, admin)
    # One item of the second page is locked, so that the job stops in the middle.
    with psycopg.connect(admin.info.dsn) as holder:
        holder.execute(
            "SELECT FROM retrieval.items WHERE collection_id = %s AND item_id = '0200' FOR UPDATE", (collection[0],)
        )
        with worker(program.using(**QUICK)) as first:
            while embedded(admin, collection) < 128:
                assert first.poll() is None
                time.sleep(LOOKED_AT)
            first.send_signal(signal.SIGKILL)
            assert first.wait(SECONDS) == -signal.SIGKILL
        holder.rollback()
    # The server may finish the running statement.
    while has_company(admin):
        time.sleep(LOOKED_AT)
    embedded_items = embedded(admin, collection)
    assert embedded_items in (128, 256)
    # No job is due any more: only resuming can finish it.
    idle = json.dumps(dict.fromkeys(ONLY_EMBED, "off"))
    with worker(program.using(**QUICK | {"RETRIEVAL_JOBS_SCHEDULE": idle})) as second:
        while embedded(admin, collection) < ITEMS:
            assert second.poll() is None
            time.sleep(LOOKED_AT)
        second.send_signal(signal.SIGTERM)
        output, _ = second.communicate(timeout=SECONDS)
        assert second.returncode == 0
    tenant = program.environment["RETRIEVAL_TENANT"]
    assert output.startswith("a worker for every tenant, ")
    assert "is requeued: its worker sent no heartbeat" in output
    assert f", collection {collection[0]} is requeued" in output
    assert f"embed docs (tenant {tenant}): done (embedded {ITEMS - embedded_items}, pending 0)" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_at_a_signal(program: Program, admin: Admin, number: int) -> None:
    """It finishes its step, ends with exit code 0, and logs no error."""
    collection = make_pending(program, admin)
    with worker(program.using(**QUICK)) as process:
        while embedded(admin, collection) == 0:
            assert process.poll() is None
            time.sleep(LOOKED_AT)
        process.send_signal(number)
        output, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, output
    assert "error" not in output
    assert embedded(admin, collection) >= 128


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_that_a_signal_ends_is_recorded_as_interrupted(program: Program, admin: Admin, number: int) -> None:
    """The command says how to continue; its record does not stay at 'running'."""
    collection = make_pending(program, admin)
    with psycopg.connect(admin.info.dsn) as holder:
        holder.execute("SELECT FROM retrieval.items WHERE collection_id = %s FOR UPDATE", (collection[0],))
        process = program.start("jobs", "run", "embed")
        while not admin.execute("SELECT FROM retrieval.job_runs WHERE collection_id = %s", (collection[0],)).rowcount:
            assert process.poll() is None
            time.sleep(LOOKED_AT)
        process.send_signal(number)
        _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (130, "interrupted; run the same command again to continue\n")
    (run,) = program.json("status")[0]["runs"]
    assert run["outcome"] == "interrupted"


def test_jobs_are_listed_run_and_seen_in_the_status(program: Program) -> None:
    """Jobs run by name, over one collection or all; the status has their results."""
    program.write("docs.jsonl", {"_id": "1", "text": "the cat sat"})
    program.succeeds("ingest", "docs", "docs.jsonl", "--quiet")
    listed = program.json("jobs", "list")
    assert [job["name"] for job in listed] == list(JOBS)
    assert {job["last_at"] for job in listed} == {None}
    assert program.json("jobs", "run", "embed", "--collection", "docs") == [
        {
            "job": "embed",
            "collection": "docs",
            "outcome": "done",
            "details": {"embedded": 0, "pending": 0},
            "tenant": None,
        }
    ]
    assert "prune docs: done" in program.succeeds("jobs", "run", "prune")
    (status,) = program.json("status")
    assert (status["name"], status["items"], status["pending"]) == ("docs", 1, 0)
    assert [(run["job"], run["outcome"]) for run in status["runs"]] == [("embed", "done"), ("prune", "done")]
    assert "docs" in program.succeeds("status")
    assert "*/5 * * * *" in program.succeeds("jobs", "list")


def test_a_collection_is_rebuilt(program: Program) -> None:
    """The command or the job rebuilds index, statistics and weights; searches find the same hits."""
    program.write("docs.jsonl", {"_id": "1", "text": "the cat sat"}, {"_id": "2", "text": "dogs bark"})
    program.succeeds("ingest", "docs", "docs.jsonl", "--quiet")
    before = program.json("search", "docs", "cats")["hits"]
    (report,) = program.json("reindex", "docs")
    assert (report["job"], report["outcome"]) == ("reindex", "done")
    assert (report["details"]["mended"], report["details"]["weighed"], report["details"]["index"]) == (
        *(0, 2),
        "not needed",
    )
    assert "reindex docs: done" in program.succeeds("jobs", "run", "reindex", "--collection", "docs")
    assert program.json("search", "docs", "cats")["hits"] == before


def test_a_worker_can_do_what_is_due_and_end(program: Program) -> None:
    """This is for an external scheduler."""
    program.write("docs.jsonl", {"_id": "1", "text": "the cat sat"})
    program.succeeds("ingest", "docs", "docs.jsonl", "--quiet")
    schedule = json.dumps(ONLY_EMBED | {"embed": "off", "prune": "* * * * *"})
    output = program.using(RETRIEVAL_JOBS_SCHEDULE=schedule).succeeds("worker", "--once")
    assert f"prune docs (tenant {program.environment['RETRIEVAL_TENANT']}): done" in output


def test_a_scheduler_learns_from_the_exit_code_that_a_job_failed(program: Program, admin: Admin) -> None:
    """The other jobs run all the same."""
    program.write("docs.jsonl", {"_id": "1", "text": "the cat sat"})
    program.succeeds("ingest", "docs", "docs.jsonl", "--quiet")
    schedule = json.dumps(ONLY_EMBED | {"embed": "off", "prune": "* * * * * */1", "reindex": "* * * * * */1"})
    admin.execute("REVOKE DELETE ON retrieval.embedding_cache FROM retrieval_app")
    try:
        process = program.using(RETRIEVAL_JOBS_SCHEDULE=schedule)("worker", "--once")
    finally:
        admin.execute("GRANT DELETE ON retrieval.embedding_cache TO retrieval_app")
    tenant = program.environment["RETRIEVAL_TENANT"]
    assert process.returncode == 1
    assert f"prune docs (tenant {tenant}): failed (error" in process.stdout
    assert f"reindex docs (tenant {tenant}): done" in process.stdout


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("jobs", "run", "embd"), "error: there is no job 'embd'; did you mean 'embed'? There are: embed, "),
        (("jobs", "run", "embed", "-c", "nothing"), "error: there is no collection 'nothing'; "),
        (("reindex", "nothing"), "error: there is no collection 'nothing'; "),
    ],
)
def test_an_unknown_job_is_one_line(program: Program, arguments: tuple[str, ...], line: str) -> None:
    """The line lists what exists."""
    assert program.fails(*arguments).startswith(line)


def test_a_schedule_that_cannot_be_read_is_one_line(program: Program) -> None:
    """With the variable that holds it."""
    error = program.using(RETRIEVAL_JOBS_SCHEDULE="hourly").fails("worker", "--once")
    assert error.startswith("error: RETRIEVAL_JOBS_SCHEDULE: it must be JSON such as")


def test_the_doctor_runs_the_advised_job_on_request(program: Program, admin: Admin) -> None:
    """It runs the advised command; without a terminal it needs --yes."""
    collection = make_pending(program, admin)
    assert "retrieval jobs run embed --collection docs" in program.succeeds("doctor", "docs")
    assert "There is no terminal to ask at; to go on, give --yes" in program.fails("doctor", "docs", "--fix")
    assert embedded(admin, collection) == 0
    mended = program("doctor", "docs", "--fix", "--yes")
    assert "running retrieval jobs run embed --collection docs" in mended.stderr
    assert f"✓ collection: 'docs': {ITEMS:,} items, nothing waits" in mended.stdout
    assert embedded(admin, collection) == ITEMS


def test_the_doctor_renews_stale_statistics_on_request(program: Program, admin: Admin) -> None:
    """A server that stops after each command has no time to do it by itself."""
    number, _ = make_pending(program, admin)
    # The server may have the time at just this moment.
    admin.execute("ALTER TABLE retrieval.term_statistics SET (autovacuum_enabled = off)")
    admin.execute(
        "INSERT INTO retrieval.term_statistics (collection_id, lexeme, term, document_frequency) "
        "SELECT %s, -n, 'w' || n, 1 FROM generate_series(1, 40000) AS n",
        (number,),
    )
    admin.execute("SELECT pg_stat_force_next_flush()")
    admin.execute("SELECT 1")
    stale = "the planner's statistics of table 'term_statistics' are stale"
    assert stale in program.succeeds("doctor", "docs")
    mended = program("doctor", "docs", "--fix", "--yes")
    assert 'ANALYZE "retrieval"."term_statistics";' in mended.stderr
    assert "not run: ANALYZE" not in mended.stderr
    assert stale not in mended.stdout
