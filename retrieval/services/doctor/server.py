"""Checks of the server: extensions, schema, login, settings, the clock. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from retrieval.adapters.store.installation.checks import (
    CREATE_DATABASE,
    SchemaStatus,
    ServerFacts,
    check_extension,
    pgvector_defect,
)
from retrieval.adapters.store.installation.checks import check_login as check_start
from retrieval.adapters.store.installation.examination import SAMPLE, SAMPLE_WORDS, ServerState, SettingValues
from retrieval.adapters.store.installed_sql import Names, quote_identifier
from retrieval.adapters.store.replicas import ReplicaState
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.domain.errors import RetrievalError
from retrieval.domain.wording import MEGABYTE, duration, size


def finding_of(error: RetrievalError, check: str = "platform") -> Finding:
    """The error as a finding; the text after its first semicolon says what to do."""
    found, _, mend = str(error).partition("; ")
    return Severity.ERROR.finding(check, found, mend)


def check_server(facts: ServerFacts, server: ServerState) -> Iterator[Finding]:
    """Check that the server can be written to, sorts text as its indexes do, and recognises words."""
    if server.is_standby:
        found = "the server is a standby, on which nothing can be stored or recorded"
        mend = "name the primary in RETRIEVAL_DATABASE_URL, for example with ?target_session_attrs=read-write"
        yield Severity.ERROR.finding("postgresql", found, mend)
    if server.is_collation_changed:
        found = "the operating system sorts text in another order than before: indexes on text may be wrong"
        mend = f"REINDEX DATABASE; ALTER DATABASE {quote_identifier(facts.database)} REFRESH COLLATION VERSION;"
        yield Severity.WARNING.finding("postgresql", found, mend)
    if tuple(server.words) != SAMPLE_WORDS:
        read, right = (" and ".join(map(repr, words)) for words in (server.words, SAMPLE_WORDS))
        found = (
            f"the locale of database {facts.database!r} makes of {SAMPLE!r} {read}, not {right}: searches by words "
            "miss words with such letters"
        )
        mend = (
            f"restore a backup (retrieval backup, retrieval restore) into a database made by: {CREATE_DATABASE} "
            "then run, for each collection: retrieval reindex COLLECTION"
        )
        yield Severity.WARNING.finding("postgresql", found, mend)


def check_pgvector(facts: ServerFacts) -> Iterator[Finding]:
    """Check the release of pgvector; old ones can spoil HNSW indexes."""
    try:
        check_extension(facts)
    except RetrievalError as error:
        yield finding_of(error, "pgvector")
    else:
        if defect := pgvector_defect(facts.pgvector):
            yield Severity.WARNING.finding("pgvector", *defect)


def check_connections(server: ServerState, pool_size: int) -> Iterator[Finding]:
    """Check that the server has connections left for the pool of one more process."""
    if server.max_connections - server.connections < pool_size:
        yield Severity.WARNING.finding(
            "connections",
            f"{server.connections} of {server.max_connections} connections of the server are in use: too few are left "
            f"for a process with RETRIEVAL_POOL_SIZE={pool_size}",
            "lower RETRIEVAL_POOL_SIZE, put PgBouncer in between, or raise max_connections and restart the server",
        )


def check_textsearch(server: ServerState) -> Iterator[Finding]:
    """Check pg_textsearch, an optional extension for faster searches by words in large collections."""
    if server.textsearch and not server.is_textsearch_loaded:
        yield Severity.ERROR.finding(
            "pg_textsearch",
            "the extension pg_textsearch is installed, and the server has not loaded its library: its indexes "
            "can be neither read nor written",
            "put pg_textsearch into shared_preload_libraries and restart the server",
        )


def check_revision(status: SchemaStatus) -> Iterator[Finding]:
    """The schema against this program."""
    if status.trouble is not None:
        found, mend = status.trouble
        yield Severity.ERROR.finding("schema", found, mend.removeprefix("run: "))


def check_login(
    facts: ServerFacts, server: ServerState, names: Names, *, is_embedded: bool, is_pooled: bool = False
) -> Iterator[Finding]:
    """Check the login and the roles that it acts as. The embedded server has one login alone, its owner's."""
    try:
        check_start(facts, names)
    except RetrievalError as error:
        yield finding_of(error, "login")
    if server.is_superuser and not is_embedded:
        app = quote_identifier(names.app_role)
        yield Severity.WARNING.finding(
            "login",
            f"login {facts.login!r} is a superuser or bypasses row-level security: whoever gets its password "
            "gets every tenant's data",
            f"CREATE ROLE shop LOGIN PASSWORD '...'; GRANT {app} TO shop; and put it into RETRIEVAL_DATABASE_URL",
        )
    if facts.may_act and not server.may_define:
        yield Severity.ADVICE.finding(
            "login",
            f"login {facts.login!r} may neither build indexes nor run a worker, without {names.definer_role!r}",
            f"for a worker's login, run: GRANT {quote_identifier(names.definer_role)} TO "
            f"{quote_identifier(facts.login)} WITH INHERIT TRUE;",
        )
    if is_pooled and server.may_define and facts.statement_seconds:
        yield Severity.ADVICE.finding(
            "login",
            f"login {facts.login!r} builds no index that takes longer than its statement_timeout of "
            f"{duration(facts.statement_seconds)}, which cannot be lifted behind a pooler",
            f"ALTER ROLE {quote_identifier(facts.login)} SET statement_timeout = 0; and RECONNECT in the pooler; or "
            "name the server itself in RETRIEVAL_DATABASE_URL",
        )


def check_roles(server: ServerState) -> Iterator[Finding]:
    """Check the installation's own roles: row-level security must hold for them, and no login may be one of them."""
    for role in server.unsafe_roles:
        found = f"role {role!r} may log in or bypass row-level security: tenants are not kept apart"
        mend = f"ALTER ROLE {quote_identifier(role)} NOLOGIN NOSUPERUSER NOBYPASSRLS;"
        yield Severity.ERROR.finding("roles", found, mend, about=role)


def check_schemas(server: ServerState, names: Names) -> Iterator[Finding]:
    """Check that no login can make functions that the platform's own functions would call in place of PostgreSQL's.

    A function whose parameters fit a call better is chosen, whatever schema comes first on the search path.
    """
    for schema in server.open_schemas:
        found = (
            f"every login may make functions in schema {schema!r}, and so have code run with the rights of role "
            f"{names.definer_role!r}: tenants are not kept apart"
        )
        mend = f"REVOKE CREATE ON SCHEMA {quote_identifier(schema)} FROM PUBLIC;"
        yield Severity.ERROR.finding("privileges", found, mend, about=schema)


def check_owners(server: ServerState, names: Names) -> Iterator[Finding]:
    """Check that the definer role owns what needs its rights: a dump restored without owners gives it to another."""
    for part in server.misowned:
        found = f"{part} does not belong to role {names.definer_role!r}: what needs it fails, or has another's rights"
        mend = f"ALTER {part} OWNER TO {quote_identifier(names.definer_role)};"
        yield Severity.ERROR.finding("privileges", found, mend, about=part)


def check_replicas(replicas: Sequence[ReplicaState], longest: float) -> Iterator[Finding]:
    """Check that searches read from the replicas that are configured."""
    for replica in replicas:
        if replica.passed_over:
            behind = "" if replica.lag_seconds is None else f", {duration(replica.lag_seconds)} behind"
            yield Severity.WARNING.finding(
                "replicas",
                f"searches pass over the replica at {replica.server}{behind}: {replica.passed_over}",
                "see that it runs, streams from the primary and replays; else take it out of "
                f"RETRIEVAL_READ_DATABASE_URLS, or allow more than RETRIEVAL_READ_MAX_LAG_SECONDS={longest:g}",
            )


@dataclass(frozen=True, slots=True)
class _Rule:
    """Values that a setting should not have: a word, or numbers in bytes, seconds or plain."""

    name: str
    unwanted: str | Callable[[float], bool]
    severity: Severity
    why: str
    good: str


_BUFFERS = "shared_buffers"
_RULES = (
    _Rule("fsync", "off", Severity.WARNING, "a crash of the machine can destroy the database", "on"),
    _Rule("full_page_writes", "off", Severity.WARNING, "a crash of the machine can destroy the database", "on"),
    _Rule("autovacuum", "off", Severity.WARNING, "dead rows are never removed and statistics grow old", "on"),
    _Rule("default_transaction_read_only", "on", Severity.ERROR, "nothing can be stored or recorded", "off"),
    _Rule("synchronous_commit", "off", Severity.ADVICE,
          "a crash of the server may lose the last half second of what it confirmed", "on"),
    _Rule("jit", "on", Severity.ADVICE, "compiling a query can take longer than answering it", "off"),
    _Rule("random_page_cost", lambda cost: cost >= 4, Severity.ADVICE,
          "the planner avoids indexes, as for spinning disks", "1.1"),
    _Rule("max_parallel_workers_per_gather", lambda workers: workers == 0, Severity.ADVICE,
          "comparing all vectors of a collection uses only one core", "2"),
    _Rule("max_parallel_maintenance_workers", lambda workers: workers == 0, Severity.ADVICE,
          "an HNSW index is built on one core", "2"),
    _Rule("statement_timeout", lambda seconds: 0 < seconds < 10, Severity.ADVICE,
          "storing many items at once may be cut off", "60s"),
    _Rule("transaction_timeout", lambda seconds: 0 < seconds < 10, Severity.ADVICE,
          "storing many items at once may be cut off", "60s"),
    _Rule("maintenance_work_mem", lambda size: size < 64 * MEGABYTE, Severity.ADVICE,
          "building and cleaning indexes takes many times as long", "256MB"),
    _Rule("work_mem", lambda size: size < 4 * MEGABYTE, Severity.ADVICE, "sorting candidates spills to disk", "16MB"),
)  # fmt: skip

SETTINGS = (_BUFFERS, *(rule.name for rule in _RULES))
"""The names of the settings that are checked."""


def check_settings(settings: SettingValues, database_bytes: int) -> Iterator[Finding]:
    """Check for settings that are unsafe or make searches slow. A setting that was not read is skipped."""
    for rule in _RULES:
        setting = settings.get(rule.name)
        if setting is None:
            continue
        if isinstance(rule.unwanted, str):
            is_unwanted = setting.text == rule.unwanted
        else:
            is_unwanted = setting.number is not None and rule.unwanted(setting.number)
        if is_unwanted:
            found = f"{rule.name} is {setting.text}: {rule.why}"
            mend = f"ALTER {setting.holder} SET {rule.name} = '{rule.good}';"
            if setting.holder is None:
                mend = f"start the server with -c {rule.name}={rule.good}: its command line sets the value"
            elif setting.holder == "SYSTEM":
                mend += " SELECT pg_reload_conf();"
            yield rule.severity.finding("settings", found, mend, about=rule.name)
    buffers = settings.get(_BUFFERS)
    if buffers and buffers.number and buffers.number <= 128 * MEGABYTE < database_bytes:
        yield Severity.ADVICE.finding(
            "settings",
            f"{_BUFFERS} is {buffers.text}, and the database has {size(database_bytes)}: vectors are read from disk",
            f"ALTER SYSTEM SET {_BUFFERS} = '2GB'; -- about a quarter of the machine's memory; then restart the server",
            about=_BUFFERS,
        )


SKEW_SECONDS = 5.0
"""The difference of clocks, in seconds, above which expiry and recorded times are wrong."""


def check_clock(server: ServerState, asked_at: datetime, now: datetime) -> Iterator[Finding]:
    """Check that the server's clock, read between ``asked_at`` and ``now`` of this machine's, agrees with it."""
    skew = (server.now - min(max(server.now, asked_at), now)).total_seconds()
    if abs(skew) > SKEW_SECONDS:
        found = f"the server's clock is {duration(abs(skew))} {'ahead of' if skew > 0 else 'behind'} this machine's"
        mend = "let both follow a time server (NTP)"
        yield Severity.WARNING.finding("clock", found, mend)
