"""The database, opened in a thread of its own: loading the driver takes longer than all else together."""

from __future__ import annotations

import threading
import time

from retrieval.adapters.store.installation.direct import DirectConnection, connected
from retrieval.adapters.store.installation.embedded.join import JoinedServer, check_is_made, joined_server
from retrieval.adapters.store.installed_sql import Names
from retrieval.apps.principles.startup.start_settings import StartSettings
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError, EmbeddedServerError


class Opening:
    """Begins to open the database as it is made; ``deadline`` is in seconds of ``time.monotonic``."""

    def __init__(self, settings: StartSettings, deadline: float) -> None:
        self._settings = settings
        self._deadline = deadline
        self._connection: DirectConnection | None = None
        self._leave: list[JoinedServer | _Started] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._open, daemon=True)
        self._thread.start()

    def connection(self) -> DirectConnection:
        """The connection, once there is one. Raises what stands in its way."""
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if self._error is not None:
            raise self._error
        if self._connection is None:
            raise DatabaseUnreachableError("the database did not answer in time; check that it runs")
        return self._connection

    def close(self) -> None:
        """Leave the connection, and the embedded server, as far as they were had."""
        if self._connection is not None:
            self._connection.close()
        while self._leave:
            self._leave.pop().close()

    def _open(self) -> None:
        try:
            self._connection = self._configured() if self._settings.database_url else self._embedded()
        except Exception as error:  # noqa: BLE001 - it is raised where the connection is asked for
            self._error = error

    def _configured(self) -> DirectConnection:
        return self._connected(self._settings.database_url or "")

    def _embedded(self) -> DirectConnection:
        """Joined where it runs; else, or where it turns out to be gone, started in the ordinary way."""
        home = self._settings.own_home
        try:
            joined = joined_server(home)
            if joined is not None:
                self._leave.append(joined)
                return self._connected(joined.url)
        except DatabaseUnreachableError:
            self._leave.pop().close()
        except OSError as error:
            raise EmbeddedServerError(f"the embedded PostgreSQL in {home} cannot be used: {error}") from error
        check_is_made(home)
        started = _Started(self._settings, self._left())
        self._leave.append(started)
        return self._connected(started.url)

    def _connected(self, url: str) -> DirectConnection:
        names = Names(self._settings.database_schema)
        return connected(url, names, self._settings.tenant, seconds=self._left())

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise DatabaseError("the time is over")
        return left


class _Started:
    """A server that was started; whoever is the last to leave it stops it."""

    def __init__(self, settings: StartSettings, seconds: float) -> None:
        from retrieval.adapters.store.installation.embedded.server import start_embedded

        self._server = start_embedded(settings.own_home, timeout_seconds=seconds)
        self.url = self._server.url

    def close(self) -> None:
        """Give the lease back."""
        self._server.close()
