"""Log records as lines on standard error."""

from __future__ import annotations

import logging
import sys

from retrieval.surfaces.cli.output import plain


class LineHandler(logging.Handler):
    """Writes ``warning: message`` on standard error, each message once: some come with every batch."""

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__()
        self._debug = debug
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Our own records from WARNING on; of libraries only errors, unless debugging."""
        ours = record.name == "retrieval" or record.name.startswith("retrieval.")
        least = logging.INFO if self._debug else logging.WARNING if ours else logging.ERROR
        return record.levelno >= least

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        line = f"{record.levelname.lower()}: {plain(record.getMessage())}"
        if line in self._said:
            return
        self._said.add(line)
        if self._debug and record.exc_info:
            line += "\n" + logging.Formatter().formatException(record.exc_info)
        # Looked up now, since a progress bar puts itself in its place to keep the lines apart.
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)  # noqa: T201


def configure_logging(*, debug: bool) -> None:
    """Send the process's log records to standard error as lines."""
    root = logging.getLogger()
    root.handlers[:] = [LineHandler(debug=debug)]
    root.setLevel(logging.INFO if debug else logging.WARNING)
