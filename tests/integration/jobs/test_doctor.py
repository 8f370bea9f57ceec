"""The doctor on real servers: a sound one, one that was broken by hand, and ones that the platform cannot open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation.queue import read_queue_state
from retrieval.adapters.store.items.collections import store_neighbours
from retrieval.domain.diagnosis import Diagnosis, Finding, Severity
from retrieval.domain.errors import EmbedderUnavailableError, SchemaRevisionError, UnknownCollectionError
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vectors
from retrieval.jobs.registry import JOBS
from retrieval.jobs.run import run_job
from retrieval.services.doctor.diagnose import diagnose_closed, examine
from tests.support.cluster import not_on_a_cluster
from tests.support.database import login, opened
from tests.support.jobs import make_pending, target_of

NewDatabase = Callable[..., str]

NOW = datetime(2026, 3, 1, tzinfo=UTC)

LOOKED_AT = {
    *("postgresql", "pgvector", "pg_textsearch", "schema", "login", "roles", "settings"),
    *("connections", "clock", "isolation", "indexes", "tables", "worker", "months", "embedder"),
    "collection",
}


@pytest.fixture
def url(new_database: NewDatabase) -> str:
    """A database of this test's own."""
    return new_database()


@pytest.fixture
async def platform(url: str, settings: Settings) -> AsyncIterator[Platform]:
    """A platform on it, as a superuser."""
    async with connect(url, settings=settings, embedder=HashingEmbedder()) as opened_platform:
        yield opened_platform


def finding_of(diagnosis: Diagnosis, check: str, about: str = "") -> Finding:
    """The one finding of that check, about that."""
    (finding,) = [finding for finding in diagnosis.findings if finding.check == check and about in (finding.about, "")]
    return finding


async def test_a_sound_installation_has_no_error(platform: Platform) -> None:
    """Every check runs; the report names what the tests' server trades for speed, and its superuser login."""
    await (await platform.collection("tickets")).add([{"_id": "1", "text": "a cat"}])
    diagnosis = await platform.doctor()
    assert diagnosis.is_sound
    assert {finding.check for finding in diagnosis.findings} == LOOKED_AT
    fine = {finding.check for finding in diagnosis.findings if finding.severity is Severity.OK}
    assert fine >= LOOKED_AT - {"settings", "login", "worker"}
    assert finding_of(diagnosis, "login").severity is Severity.WARNING
    assert finding_of(diagnosis, "worker").found.startswith("no worker has ever run")
    assert "'tickets': 1 item, nothing waits" in finding_of(diagnosis, "collection").found


async def test_a_setting_is_mended_where_it_was_made(url: str, platform: Platform) -> None:
    """A role's and a database's settings win over those of ``ALTER SYSTEM``; times are those of other connections."""
    with opened(url) as connection:
        here = connection.info.dbname
        connection.execute(f"ALTER DATABASE {here} SET statement_timeout = '2s'".encode())
        connection.execute(f"ALTER ROLE {connection.info.user} IN DATABASE {here} SET jit = on".encode())
        for about, found in (("statement_timeout", "is 2000ms"), ("jit", "is on")):
            finding = finding_of(await platform.doctor(), "settings", about)
            assert found in finding.found
            connection.execute(finding.mend.encode())
    assert {"jit", "statement_timeout"}.isdisjoint(finding.about for finding in (await platform.doctor()).findings)


async def test_an_examination_makes_neither_a_tenant_nor_months(url: str, settings: Settings) -> None:
    """It reports the missing tenant, without an error and without a finding on months; a collection is refused."""
    own = settings.changed(database_url=SecretStr(url), tenant="ghost")
    row_counts = (
        "SELECT (SELECT array_agg(name) FROM retrieval.tenants), "
        "(SELECT last_value FROM pg_sequences WHERE sequencename LIKE 'tenants%'), "
        "(SELECT count(*) FROM pg_class WHERE relname LIKE 'retrievals_%')"
    )
    with opened(url) as connection:
        before = connection.execute(row_counts).fetchone()
        diagnosis = await examine(own)
        assert connection.execute(row_counts).fetchone() == before
    finding = finding_of(diagnosis, "tenant", "ghost")
    assert (finding.severity, finding.found.split(":")[0]) == (Severity.ADVICE, "there is no tenant 'ghost'")
    assert "months" not in {finding.check for finding in diagnosis.findings}
    with pytest.raises(UnknownCollectionError):
        await examine(own, "things")


@not_on_a_cluster("what searches there has the rights of its caller")
async def test_a_schema_in_which_every_login_makes_functions_is_an_error(url: str, platform: Platform) -> None:
    """As in upgraded databases of PostgreSQL 14: a function whose parameters fit better runs as the definer role."""
    await (await platform.collection("tickets")).add([{"_id": "1", "text": "a cat"}])
    with opened(url) as connection:
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        finding = finding_of(await platform.doctor(), "privileges")
        assert (finding.severity, finding.about) == (Severity.ERROR, "public")
        with login(url) as (_, stranger), opened(stranger) as other:
            other.execute(
                "CREATE FUNCTION public.format(wanted text, first text, second text) RETURNS text LANGUAGE plpgsql "
                "AS $$ BEGIN RAISE EXCEPTION 'as %', current_user; END $$"
            )
            connection.execute(
                "SELECT set_config('role', 'retrieval_app', false), set_config('retrieval.tenant', %s, false)",
                (str(platform.tenant_id),),
            )
            search = (
                "SELECT FROM retrieval.collections c, retrieval.embeddings_1 e, "
                "LATERAL retrieval.nearest_with_clauses(c.collection_id, 1, e.vector, '{}', 5, 5)"
            )
            with pytest.raises(psycopg.errors.RaiseException, match="as retrieval_definer"):
                connection.execute(search)
        connection.execute("RESET role")
        connection.execute(finding.mend.encode())
    assert (await platform.doctor()).is_sound


async def test_what_a_restore_without_owners_gave_to_another_role_is_an_error(url: str, platform: Platform) -> None:
    """After ``pg_restore --no-owner`` no login finds a tenant, or functions have the rights of a superuser."""
    await (await platform.collection("tickets")).add([{"_id": "1", "text": "a cat"}])
    with opened(url) as connection:
        for part in ("FUNCTION retrieval.ensure_tenant", "TABLE retrieval.retrievals", "TABLE retrieval.embeddings_1"):
            connection.execute(f"ALTER {part} OWNER TO {connection.info.user}".encode())
            finding = finding_of(await platform.doctor(), "privileges")
            assert (finding.severity, finding.about) == (Severity.ERROR, part)
            connection.execute(finding.mend.encode())
    assert (await platform.doctor()).is_sound


BROKEN = """
    SET search_path = retrieval, public;
    UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'retrieval.items_pkey'::regclass;
    ALTER TABLE memories NO FORCE ROW LEVEL SECURITY;
    REVOKE ALL ON arms FROM retrieval_app;
    ALTER TABLE items SET (autovacuum_enabled = off);
    DROP INDEX feedback_received_at_idx;
    INSERT INTO retrieval_jobs.procrastinate_workers (last_heartbeat) VALUES (now() - interval '2 hours');
    INSERT INTO retrieval_jobs.procrastinate_jobs (queue_name, task_name, status) VALUES ('default', 'embed', 'failed');
    INSERT INTO retrieval_jobs.procrastinate_jobs (queue_name, task_name, status) VALUES ('default', 'embed', 'doing');
    INSERT INTO recording_losses (collection_id, day, reason, retrievals)
        SELECT collection_id, current_date, 'full', 12 FROM collections WHERE name = 'things';
    INSERT INTO job_runs (collection_id, job, finished_at, outcome, details)
        SELECT collection_id, 'learn', now(), 'failed', '{"error": "it broke"}' FROM collections WHERE name = 'things';
"""
LET_IN = """
    SET search_path = retrieval, public;
    CREATE POLICY oops ON items TO retrieval_app USING (true);
    DROP POLICY profiles_app ON profiles;
    DROP POLICY embedding_cache_app ON embedding_cache;
    REVOKE INSERT, DELETE ON item_terms FROM retrieval_app;
    REVOKE SELECT ON collections FROM retrieval_app;
"""
QUEUE = "DROP SCHEMA retrieval_jobs CASCADE"
MONTH = "SELECT format('DROP TABLE %s', max(m.part::text)) FROM retrieval.known_months() AS m"


async def test_every_damage_is_found_and_its_remedy_works(url: str, platform: Platform) -> None:
    """Each damage has its severity; after the repairs only the missing worker is left."""
    await make_pending(platform, "things", 3)
    with opened(url) as connection:
        run_each(connection, BROKEN)
        row = connection.execute(MONTH).fetchone()
        assert row is not None
        connection.execute(row[0])
    diagnosis = await platform.doctor("things")
    assert not diagnosis.is_sound
    for check, about, severity in (
        ("indexes", "items_pkey", Severity.ERROR),
        ("indexes", "feedback_received_at_idx", Severity.ERROR),
        ("isolation", "memories", Severity.ERROR),
        ("privileges", "arms", Severity.ERROR),
        ("tables", "items", Severity.WARNING),
        ("pending", "things", Severity.WARNING),
        ("jobs", "things", Severity.WARNING),
        ("recording", "things", Severity.WARNING),
        ("worker", "", Severity.WARNING),
        ("months", "", Severity.WARNING),
    ):
        (finding,) = [finding for finding in diagnosis.findings if (finding.check, finding.about) == (check, about)]
        assert (finding.severity, bool(finding.mend)) == (severity, True), finding
    for finding in diagnosis.findings:
        await mend(url, platform, finding)
    findings = (await platform.doctor("things")).findings
    left = {finding.check for finding in findings if finding.severity.rank > 1}
    assert left - {"settings"} == {"worker", "jobs", "recording", "login"}, "the settings are the server's own"
    assert "the last run" not in " ".join(finding.found for finding in findings)


FAILED = """
    SET search_path = retrieval_jobs;
    INSERT INTO procrastinate_jobs (queue_name, task_name, status, args)
        VALUES ('default', 'retrieval.run', 'failed', '{"job": "prune"}');
    INSERT INTO procrastinate_jobs (queue_name, task_name, scheduled_at, args)
        VALUES ('default', 'retrieval.dispatch', now() + interval '1 day', '{"job": "months"}');
    INSERT INTO procrastinate_jobs (queue_name, task_name, args)
        VALUES ('default', 'retrieval.dispatch', '{"job": "arms"}');
"""


async def test_jobs_of_the_queue_that_failed_are_named(url: str, platform: Platform) -> None:
    """No run may have recorded them; those that wait to be tried again count too, for the metrics as well."""
    with opened(url) as connection:
        run_each(connection, FAILED)
    finding = finding_of(await platform.doctor(), "jobs", "")
    assert finding.found == "jobs in the queue failed: months, prune"
    assert "log" in finding.mend
    state = await read_queue_state(platform.database, alive_seconds=30)
    assert state is not None
    assert state.jobs == {("default", "failed"): 2, ("default", "todo"): 1}


async def test_policies_and_rights_that_were_changed_by_hand_are_found_and_mended(
    url: str, settings: Settings, platform: Platform
) -> None:
    """This works even if the tenant's collections cannot be read meanwhile; the repairs restore everything."""
    await (await platform.collection("things")).add([{"_id": "1", "text": "a thing"}])
    own = settings.changed(database_url=SecretStr(url))
    with opened(url) as connection:
        run_each(connection, LET_IN)
    diagnosis = await examine(own, "things")
    assert {(finding.check, finding.about) for finding in diagnosis.findings if finding.severity is Severity.ERROR} == {
        *(("isolation", "items"), ("isolation", "profiles"), ("isolation", "embedding_cache")),
        *(("privileges", "item_terms"), ("privileges", "collections"), ("reading", "")),
    }
    for finding in diagnosis.findings:
        await mend(url, platform, finding)
    assert (await platform.doctor()).is_sound
    assert (await (await platform.collection("things")).search("thing"))[0].item_id == "1"


async def test_parts_of_the_schema_that_are_gone_are_errors(url: str, settings: Settings, platform: Platform) -> None:
    """Each by its name, and that the tenant's part could not be read; what the SQL makes is what a database has."""
    await platform.collection("things")
    with opened(url) as connection:
        connection.execute("SET search_path = retrieval, public")
        connection.execute("DROP FUNCTION ensure_tenant, missing_months CASCADE")
        connection.execute("ALTER TABLE memories DROP COLUMN base_relevance CASCADE")
        connection.execute("DROP TABLE item_tags, retrievals_default CASCADE")
    diagnosis = await examine(settings.changed(database_url=SecretStr(url)))
    assert {(finding.check, finding.about) for finding in diagnosis.findings if finding.severity is Severity.ERROR} >= {
        *(("schema", "ensure_tenant"), ("schema", "missing_months"), ("schema", "memories.base_relevance")),
        *(("schema", "item_tags"), ("schema", "retrievals_default"), ("reading", "")),
    }


async def test_a_schema_without_its_revision_counts_as_not_set_up(url: str, settings: Settings) -> None:
    """Its table is there and empty; the remedy is a command."""
    with opened(url) as connection:
        connection.execute("DELETE FROM retrieval.alembic_version")
    own = settings.changed(database_url=SecretStr(url))
    finding = finding_of(await diagnose_closed(own, SchemaRevisionError("unused"), lambda: NOW), "schema")
    assert (finding.severity, finding.mend) == (Severity.ERROR, "retrieval db upgrade")


async def test_a_queue_that_is_gone_is_an_error(url: str, platform: Platform) -> None:
    """The check reports it instead of disappearing."""
    with opened(url) as connection:
        connection.execute(QUEUE)
    finding = finding_of(await platform.doctor(), "worker")
    assert (finding.severity, "'retrieval_jobs'" in finding.found) == (Severity.ERROR, True)


async def test_items_that_no_word_finds_are_an_error_and_are_indexed_again(url: str, platform: Platform) -> None:
    """By the job that is named; words find them afterwards."""
    collection = await platform.collection("things")
    await collection.add(
        [{"_id": "1", "text": "a thing"}, {"_id": "2", "text": "another thing"}, {"_id": "3", "text": ""}]
    )
    assert (await platform.doctor()).is_sound
    with opened(url) as connection:
        connection.execute("DELETE FROM retrieval.item_terms WHERE item_id <> '2'")
    finding = finding_of(await platform.doctor(), "words", "things")
    assert (finding.severity, finding.found[:7]) == (Severity.ERROR, "2 items")
    await mend(url, platform, finding)
    assert (await platform.doctor()).is_sound
    assert {hit.item_id for hit in await collection.search("things", legs=["lexical"])} == {"1", "2"}


async def test_an_interrupted_change_of_neighbours_is_reported(platform: Platform, url: str) -> None:
    """No search tells that some items have their former neighbours. The job that is named indexes the others."""
    collection = await platform.collection("things")
    await collection.add([{"_id": f"{number}", "text": f"thing {number}", "talk": "a"} for number in range(3)])
    async with platform.database.transaction(platform.tenant_id) as connection:
        await store_neighbours(connection, (await collection.refresh()).collection_id, Neighbours(sequence="talk"))
    finding = finding_of(await platform.doctor(), "neighbours", "things")
    await mend(url, platform, finding)
    assert (await platform.doctor()).is_sound


async def test_a_text_search_configuration_that_is_gone_is_an_error(url: str, platform: Platform) -> None:
    """The collection and the name are told, and how it is made again."""
    with opened(url) as connection:
        connection.execute("CREATE TEXT SEARCH CONFIGURATION mine (COPY = simple)")
        await platform.collection("things", language="mine")
        connection.execute("DROP TEXT SEARCH CONFIGURATION mine")
        finding = finding_of(await platform.doctor(), "language", "things")
        assert (finding.severity, "'mine' of collection 'things'" in finding.found) == (Severity.ERROR, True)
        assert "CREATE TEXT SEARCH CONFIGURATION mine" in finding.mend


def run_each(connection: psycopg.Connection[Any], script: str) -> None:
    """The statements one by one, as a cluster takes them."""
    for statement in script.strip().removesuffix(";").split(";"):
        connection.execute(statement.encode())


async def mend(url: str, platform: Platform, finding: Finding) -> None:
    """Do what the finding says, where that is a statement or a job; leave the server's settings and logins alone."""
    if finding.mend.startswith("retrieval jobs run "):
        job = JOBS[finding.mend.split()[3]]
        target = await target_of(platform, await platform.collection("things"))
        assert (await run_job(platform.workplace, job, target)).outcome == "done"
    elif finding.mend.endswith(";") and finding.check not in {"settings", "login"}:
        with opened(url) as connection:
            run_each(connection, finding.mend)


async def test_a_failed_index_of_vectors_is_reported_with_its_collection(url: str, platform: Platform) -> None:
    """The job that mends it is named for the collection."""
    collection = await platform.collection("things")
    await collection.add([{"_id": str(number), "text": f"thing {number}"} for number in range(5)])
    stored = (await target_of(platform, collection)).collection
    assert stored.space is not None
    name = f"embeddings_{stored.space.space_id}_{stored.collection_id}_hnsw"
    with opened(url) as connection:
        connection.execute("SET search_path = retrieval, public")
        connection.execute(
            f"CREATE INDEX {name} ON {stored.space.table_name} USING hnsw (vector halfvec_ip_ops) "
            f"WHERE collection_id = {stored.collection_id}".encode()
        )
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (name,))
    finding = finding_of(await platform.doctor(), "indexes", name)
    assert finding.severity is Severity.ERROR
    assert finding.mend == "retrieval jobs run indexes --collection things"


class Down:
    """An embedder that does not answer."""

    space = EmbeddingSpace(provider="test", model="down", dimensions=3)

    async def embed(self, _texts: Sequence[str], _role: TextRole) -> Vectors:
        """Refuses."""
        raise EmbedderUnavailableError("the endpoint is down; try again later")

    async def aclose(self) -> None:
        """Nothing to close."""


async def test_an_embedder_that_is_down_is_an_error_and_one_of_another_space_a_warning(
    url: str, settings: Settings
) -> None:
    """Each collection's own embedder is called, bypassing the cache. Vectors that a program brings need none."""
    async with connect(url, settings=settings, embedder=Down()) as platform:
        await platform.collection("mine")
        await platform.collection("theirs", space=EmbeddingSpace(provider="openai", model="other", dimensions=3))
        await platform.collection("brought", space=EmbeddingSpace(provider="test", model="brought", dimensions=3))
        diagnosis = await platform.doctor()
    severities = {finding.about: finding.severity for finding in diagnosis.findings if finding.check == "embedder"}
    assert severities == {"test/down (3)": Severity.ERROR, "openai/other (3)": Severity.WARNING}


async def test_a_login_with_few_rights_is_told_the_limits_of_its_examination(url: str, settings: Settings) -> None:
    """It examines as much as its rights allow, and changes nothing."""
    with login(url, "IN ROLE retrieval_app") as (_, limited):
        async with connect(limited, settings=settings, embedder=HashingEmbedder()) as platform:
            diagnosis = await platform.doctor()
    assert diagnosis.is_sound
    assert "worker" not in {finding.check for finding in diagnosis.findings}
    assert finding_of(diagnosis, "login").severity is Severity.ADVICE


async def test_a_collection_that_is_not_there_is_refused(platform: Platform) -> None:
    """The message lists the existing collections."""
    with pytest.raises(UnknownCollectionError):
        await platform.doctor("nothing")


async def test_a_database_that_was_never_set_up_is_examined_all_the_same(
    new_database: NewDatabase, settings: Settings
) -> None:
    """The platform does not open; the server is examined, and the missing schema comes first."""
    own = settings.changed(database_url=SecretStr(new_database(empty=True)))
    with pytest.raises(SchemaRevisionError) as refused:
        await connect(settings=own).__aenter__()
    findings = await diagnose_closed(own, refused.value, lambda: NOW)
    assert (finding_of(findings, "schema").severity, finding_of(findings, "schema").mend) == (
        Severity.ERROR,
        "retrieval db upgrade",
    )
    assert finding_of(findings, "postgresql").severity is Severity.OK
    assert finding_of(findings, "pgvector").found == "pgvector is installed with the schema"


async def test_a_server_that_is_not_there_is_one_finding(settings: Settings) -> None:
    """Without the password of its URL."""
    own = settings.changed(database_url=SecretStr("postgresql://shop:geheim@127.0.0.1:1/shop"))
    findings = await diagnose_closed(own, SchemaRevisionError("unused"), lambda: NOW)
    (finding,) = findings.findings
    assert finding.severity is Severity.ERROR
    assert finding.found.startswith("cannot reach PostgreSQL at 127.0.0.1:1")
    assert "geheim" not in str(findings.as_dict())
