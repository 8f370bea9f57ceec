"""Translate the driver's errors into the platform's."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import zip_longest
from types import TracebackType

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolTimeout, TooManyRequests

from retrieval.adapters.store.deadline import current_deadline, late
from retrieval.domain import errors
from retrieval.domain.checks import NO_UTF8

URL_SETTING = "RETRIEVAL_DATABASE_URL"
"""What the platform's own URL is called in messages."""
EMBEDDED = ""
"""Instead of the name of a setting: the URL is the embedded server's, and no setting has it."""


class translated:  # noqa: N801 - used as a function, in a with
    """Raise the platform's errors for the driver's; the URL names the server in messages, without its password.

    ``setting`` is what the user knows the URL as. Once ``is_closed``, the loss of a connection means that the platform
    was closed: its embedded server may end before its last calls.

    The password may be anywhere in an unreadable URL, and in the driver's message, so neither is quoted then.
    """

    __slots__ = ("_is_closed", "_setting", "_url")

    def __init__(
        self, url: str = "", setting: str = URL_SETTING, is_closed: Callable[[], bool] = lambda: False
    ) -> None:
        self._url, self._setting, self._is_closed = url, setting, is_closed

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, UnicodeEncodeError):
            raise half_a_character() from error
        cause = None if error is None else _of_driver(error)
        if cause is None:
            return
        if self._url and not is_readable(self._url):
            raise errors.ConfigurationError(
                f"{self._setting} is not a URL of PostgreSQL; write it as postgresql://user:password@host:5432/name, "
                "and @ / : % in a password as %40 %2F %3A %25"
            ) from None
        raise self.of(cause) from error

    def of(self, error: psycopg.Error) -> errors.RetrievalError:
        """The platform's error for the driver's."""
        failure = translation(error, self._url, self._setting)
        is_end = isinstance(failure, errors.DatabaseUnreachableError) and self._is_closed()
        return errors.InvalidRequestError(errors.PLATFORM_CLOSED) if is_end else failure


def _of_driver(error: BaseException) -> psycopg.Error | None:
    """The driver's error, perhaps from SQLAlchemy's wrapper, or None; does not import SQLAlchemy."""
    wraps = getattr(sys.modules.get("sqlalchemy.exc"), "DBAPIError", None)
    if wraps is not None and isinstance(error, wraps):
        cause = getattr(error, "orig", None)
        return cause if isinstance(cause, psycopg.Error) else psycopg.OperationalError(str(cause))
    return error if isinstance(error, psycopg.Error) else None


def half_a_character() -> errors.InvalidRequestError:
    """The error for a text that has no UTF-8 form, which is the only one that a connection takes."""
    return errors.InvalidRequestError(f"a text contains {NO_UTF8}")


def is_readable(url: str) -> bool:
    """Whether the parts are plausible: a password with an unescaped @ or / is parsed partly as a host or a name."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        return False
    return not any("@" in str(parts.get(name) or "") for name in ("host", "port", "dbname"))


def server_name(url: str) -> str:
    """Host, port and database of a URL, without secrets."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        return "the configured server"
    hosts, ports = (str(parts.get(name) or "").split(",") for name in ("host", "port"))
    if len(ports) == 1:  # it counts for every host
        ports *= len(hosts)
    servers = [
        f"{host or 'the local socket'}{port and f':{port}'}" for host, port in zip_longest(hosts, ports, fillvalue="")
    ]
    return f"{', '.join(servers)}, database {parts.get('dbname') or parts.get('user') or 'default'!r}"


def _reason(message: str) -> str:
    """The first line of the driver's message; if there are several hosts, the reason of each.

    It has no ``; ``, because in the platform's messages the remedy follows that.
    """
    if attempts := re.findall(r"^- host: '(.*?)', port: '?(.*?)'?, hostaddr: .*?: (.*)$", message, re.MULTILINE):
        reasons = (f"{reason.rpartition(' failed: ')[2]} ({host}:{port})" for host, port, reason in attempts)
        return ", ".join(dict.fromkeys(reasons))  # a host may have several addresses
    return message.partition("\n")[0].replace("; ", ", ")


_NODE = re.compile(
    r"the remote node \S*?([^\s@]+) failed|could not connect to (\S+:\d+) to |connection marked as essential: (\S+)"
)
"""What Citus says on the coordinator of a node that is away."""


_FATAL = re.compile(r"FATAL: +(.*)")
_FULL = re.compile("too many (?:clients|connections)|connection slots are reserved|no more connections allowed")
_REFUSALS = (
    (
        re.compile(
            r'authentication failed|(?:role|database) ".*" does not exist|pg_hba|not permitted to log in'
            "|permission denied for database"
        ),
        "refused the login: {reason}; check {setting}",
    ),
    (
        _FULL,
        "has no connection left: {reason}; raise max_connections, or the limit named, or lower RETRIEVAL_POOL_SIZE",
    ),
    (
        re.compile("the database system is"),
        "does not serve now: {reason}; it is starting, stopping or recovering: try again",
    ),
)
"""What a server says when it refuses a connection, and what its user is told."""


def is_full(error: psycopg.OperationalError) -> bool:
    """Whether a server that runs refused a connection because it allows no more."""
    return any(_FULL.search(reason) for reason in _FATAL.findall(str(error)))


def _refusal(message: str, setting: str) -> str | None:
    """What a server did that refused a connection, and what to do; a failed connection has no SQLSTATE."""
    reasons = _FATAL.findall(message) if "connection failed" in message else []
    for pattern, text in _REFUSALS:
        for reason in filter(pattern.search, reasons):
            return text.format(reason=_reason(reason.strip()), setting=setting)
    return None


def translation(error: psycopg.Error, url: str, setting: str = URL_SETTING) -> errors.RetrievalError:
    """The platform's error for the driver's; the URL, which must be readable, names the server."""
    reason = _reason(str(error).strip()) or type(error).__name__
    match error:
        case TooManyRequests():
            return errors.PoolExhaustedError(
                "too many calls wait for a database connection already, 20 for each of RETRIEVAL_POOL_SIZE (100 at "
                "least); send fewer at once, many queries by search_each, or raise RETRIEVAL_POOL_SIZE"
            )
        case PoolTimeout():
            return errors.PoolExhaustedError(
                "no database connection became free in time; raise RETRIEVAL_POOL_SIZE or "
                "RETRIEVAL_POOL_TIMEOUT_SECONDS, or send fewer searches at once"
            )
        case pg.InsufficientPrivilege():
            return errors.MissingPrivilegeError(
                f"the database refused: {reason}; see docs/how-to/postgres.md for the grants"
            )
        case pg.UndefinedTable() | pg.UndefinedFunction() | pg.UndefinedColumn() | pg.InvalidSchemaName():
            return errors.SchemaRevisionError(f"the schema is not the one expected: {reason}; run: retrieval db status")
        case pg.QueryCanceled() if (until := current_deadline()) is not None and until.is_over:
            return late()
        case pg.LockNotAvailable() | pg.QueryCanceled() | pg.DeadlockDetected() | pg.SerializationFailure():
            return errors.DatabaseBusyError(f"the database gave up waiting: {reason}; try again when it is less busy")
        case psycopg.OperationalError() | psycopg.InternalError() if text := _unreachable(error, reason, url, setting):
            return errors.DatabaseUnreachableError(text)
        case pg.ReadOnlySqlTransaction():
            return errors.DatabaseError(
                f"the database refused: {reason}; a standby accepts no writes: name the primary in {setting}, or all "
                "servers with ?target_session_attrs=read-write; if it is the primary, run: "
                "ALTER DATABASE ... SET default_transaction_read_only = off;"
            )
        case _:
            # Such as what to do about a full disk.
            hint = error.diag.message_hint or ""
            advice = hint and f"; {hint[0].lower()}{hint[1:].rstrip('.')}"
            return errors.DatabaseError(f"the database refused: {reason}{advice}")


def _unreachable(error: psycopg.Error, reason: str, url: str, setting: str) -> str | None:
    """The message if the server, or a node of its cluster, cannot be reached; None: it can."""
    server = server_name(url)
    if node := _NODE.search(reason):
        return (
            f"the node {node[1] or node[2] or node[3]} of the cluster at {server} does not answer; start it again: "
            "meanwhile collections on other nodes can be searched, and none can be written"
        )
    if isinstance(error, psycopg.InternalError) and error.sqlstate is not None:
        return None  # without a state it is the driver's own: a pooler's last message arrived beside an answer
    if refusal := _refusal(str(error), setting):
        return f"{server} {refusal}"
    if error.sqlstate is None or error.sqlstate[:2] in {"08", "57"}:
        if setting == EMBEDDED:
            return (
                f"cannot reach the embedded PostgreSQL at {server}: {reason}; try again, which starts it; server.log "
                "in its folder says why it ended"
            )
        return f"cannot reach PostgreSQL at {server}: {reason}; check that it runs and that {setting} is right"
    return None
