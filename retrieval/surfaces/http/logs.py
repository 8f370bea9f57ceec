"""The service's log: a line a record on standard error, as text or as JSON, each with the id of its request.

What opens something is never meant to be logged. Should a message hold such a thing all the same, it is taken out.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from pydantic import SecretStr

from retrieval.settings import Settings
from retrieval.surfaces.http.request_id import current_request_id

SECRET = "[secret]"  # noqa: S105 - stands in the place of one

_KEY = re.compile(r"(rtv_[A-Za-z0-9]{12}_)[A-Za-z0-9_-]+")
"""A key's first part names it, and may be told."""

_PASSWORD = re.compile(r"(://[^\s:/@]*:)[^\s/@]+@")
_PARAMETER = re.compile(r"((?:^|[?&;\s])(?:ssl)?password=)('[^']*'|[^\s&;'\"]+)", re.IGNORECASE)


_TOLD = ((_KEY, rf"\1{SECRET}"), (_PASSWORD, rf"\1{SECRET}@"), (_PARAMETER, rf"\1{SECRET}"))


class Redaction:
    """Takes secrets out of a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Shorter ones would be found in ordinary words.
        known = {one for one in secrets if len(one) >= 4}
        known |= {json.dumps(one, ensure_ascii=False)[1:-1] for one in known}  # as they stand in a line of JSON
        found = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, found))) if found else None

    @classmethod
    def of(cls, settings: Settings) -> Redaction:
        """Of every secret among the settings, and the password within the database's URL."""
        values = [getattr(settings, name) for name in type(settings).model_fields]
        secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
        url = settings.database_url.get_secret_value() if settings.database_url else ""
        return cls([*secrets, *_passwords(url)])

    def __call__(self, text: str) -> str:
        """The text without them."""
        if self._known is not None:
            text = self._known.sub(SECRET, text)
        for secret, told in _TOLD:
            text = secret.sub(told, text)
        return text


class TextFormatter(logging.Formatter):
    """Such as ``12:30:01.250 INFO retrieval.access POST /v1/... 200 ms=3.1 request_id=...``."""

    def __init__(self, redaction: Redaction, *, debug: bool = False) -> None:
        super().__init__()
        self._redaction = redaction
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows on lines of its own."""
        time = _time(record).strftime("%H:%M:%S.%f")[:-3]
        told = {"request_id": current_request_id(), **_told(record)}
        shown = " ".join(f"{name}={value}" for name, value in told.items() if value not in (None, "", []))
        line = f"{time} {record.levelname} {record.name} {_one_line(record.getMessage())}"
        parts = [f"{line} {shown}".rstrip(), *([_traceback(record, debug=self._debug)] if record.exc_info else [])]
        return self._redaction("\n".join(parts))


class JSONFormatter(logging.Formatter):
    """One object a line: ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, ``request_id``, what is told."""

    def __init__(self, redaction: Redaction, *, debug: bool = False) -> None:
        super().__init__()
        self._redaction = redaction
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the record holds."""
        told: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": current_request_id() or None,
            **_told(record),
        }
        if record.exc_info:
            told["traceback"] = _traceback(record, debug=self._debug)
        return self._redaction(json.dumps(told, ensure_ascii=False, default=str))


class ServiceHandler(logging.Handler):
    """Our own records from INFO on, of libraries warnings, or everything from INFO on when debugging."""

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__(logging.DEBUG if debug else logging.INFO)
        self._debug = debug

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is of those."""
        is_ours = record.name == "retrieval" or record.name.startswith("retrieval.")
        return record.levelno >= (logging.INFO if is_ours or self._debug else logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        if sys.stderr is None:
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - what cannot be written down must not end a request
            self.handleError(record)
            return
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def configure_service_logging(settings: Settings, *, as_json: bool, debug: bool = False) -> None:
    """Send the process's log records to standard error as lines of JSON, or of text."""
    handler = ServiceHandler(debug=debug)
    redaction = Redaction.of(settings)
    formatter = JSONFormatter if as_json else TextFormatter
    handler.setFormatter(formatter(redaction, debug=debug))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


def _passwords(url: str) -> list[str]:
    """Those of the database's URL, as they stand there and as they are."""
    found = [one[1] for one in re.finditer(r"://[^:/@]*:(.+)@", url)]
    found += [one[2] for one in _PARAMETER.finditer(url)]
    return [*found, *map(unquote, found)]


def _told(record: logging.LogRecord) -> dict[str, Any]:
    told = getattr(record, "told", None)
    return told if isinstance(told, dict) else {}


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _traceback(record: logging.LogRecord, *, debug: bool) -> str:
    """Where it happened. Of the errors the classes alone, unless debugging: what they say may quote the query."""
    lines: list[str] = []
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        said = f": {error}" if debug else ""
        lines.append(f"{type(error).__module__}.{type(error).__qualname__}{said}")
        lines += [
            f"  {frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
        ]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(lines)
