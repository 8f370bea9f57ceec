"""The service's log: lines that machines and people read, without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from retrieval import Settings
from retrieval.surfaces.http import telemetry as request_id
from retrieval.surfaces.http.telemetry import Redaction, ServiceFormatter, configure_service_logging

REDACTION = Redaction(["hunter22", "sk-opensesame"])
JSON, TEXT = (ServiceFormatter(REDACTION, as_json=as_json) for as_json in (True, False))


def record(message: str, *arguments: object, name: str = "retrieval.access", **extra: Any) -> logging.LogRecord:
    """A record of that message."""
    level = extra.pop("level", logging.INFO)
    log_record = logging.LogRecord(name, level, __file__, 1, message, arguments, extra.pop("exc_info", None))
    log_record.__dict__.update(extra)
    return log_record


def test_a_json_line_has_the_fields_of_the_record() -> None:
    """One object a line, its time in UTC."""
    fields = {"method": "POST", "status": 200, "ms": 3.1, "key_id": None}
    line = JSON.format(record("POST %s", "/v1\nx", fields=fields))

    payload = json.loads(line)
    assert "\n" not in line
    assert payload["time"].endswith("+00:00")
    assert (payload["level"], payload["logger"], payload["message"]) == ("info", "retrieval.access", "POST /v1\nx")
    assert (payload["method"], payload["status"], payload["ms"], payload["key_id"]) == ("POST", 200, 3.1, None)


def test_a_line_of_text_leaves_out_what_is_empty() -> None:
    """The line has no line break, even if the message has one."""
    line = TEXT.format(record("POST\n/v1", fields={"status": 200, "key_id": None}))

    assert line.endswith("INFO retrieval.access POST /v1 status=200")


@pytest.mark.parametrize("formatter", [JSON, TEXT])
def test_every_log_line_of_a_request_has_its_id(formatter: logging.Formatter) -> None:
    """This includes records of other libraries."""
    token = request_id.set_request_id("request-7")
    try:
        line = formatter.format(record("the connection was lost", name="retrieval.adapters.store.database"))
    finally:
        request_id.reset_request_id(token)

    assert "request-7" in line


@pytest.mark.parametrize(
    "message",
    [
        "the password is hunter22",
        "cannot connect to postgresql://user:other-one@db.example/tickets",
        "connecting to postgresql://db.example/tickets?user=me&password=other-one&sslmode=require",
        "cannot connect with host=db.example password=other-one user=me",
        "refused sk-opensesame",
        "key rtv_abcdefghijkl_AbC-123_xyz is wrong",
    ],
)
@pytest.mark.parametrize("formatter", [JSON, TEXT])
def test_secrets_are_taken_out(formatter: logging.Formatter, message: str) -> None:
    """Secrets of the settings, passwords in URLs, and the secret part of keys."""
    line = formatter.format(record("it said: %s", message))

    assert "[secret]" in line
    for secret in ("hunter22", "other-one", "opensesame", "AbC-123"):
        assert secret not in line


def test_the_secrets_of_the_settings_are_known() -> None:
    """Each that is set, and the password within the database's address."""
    settings = Settings(
        database_url=SecretStr("postgresql://me:pass-word@db/x"),
        embedding_api_key=SecretStr("sk-embedding"),
        llm_api_key=SecretStr("sk-language"),
        mcp_token=SecretStr("m" * 20),
        metrics_token=SecretStr("p" * 20),
    )
    redacted = Redaction.of(settings)(f"pass-word, sk-embedding, sk-language, {'m' * 20}, {'p' * 20}")

    assert redacted == ", ".join(["[secret]"] * 5)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:p%40ss%2Fw%C3%B6rd@db/x",
        "postgresql://db/x?user=me&password=p%40ss%2Fw%C3%B6rd&sslmode=require",
    ],
)
def test_the_databases_password_is_known_as_it_stands_in_the_url_and_as_it_is(url: str) -> None:
    """Libraries print either form."""
    redaction = Redaction.of(Settings(database_url=SecretStr(url)))

    assert redaction("it is p@ss/wörd, or p%40ss%2Fw%C3%B6rd") == "it is [secret], or [secret]"


@pytest.mark.parametrize("debug", [False, True])
def test_an_error_is_logged_by_its_class_and_place(*, debug: bool) -> None:
    """Its message may quote the query, and is logged only with ``--debug``."""
    with pytest.raises(ValueError, match="zweistromland") as raised:
        raise ValueError("zweistromland") from KeyError("mesopotamia")
    exc_info = (raised.type, raised.value, raised.tb)
    line = ServiceFormatter(REDACTION, as_json=True, debug=debug).format(record("failed", exc_info=exc_info))

    assert "builtins.ValueError" in line
    assert "builtins.KeyError" in line
    assert "test_telemetry.py" in line
    assert ("zweistromland" in line) == debug
    assert ("mesopotamia" in line) == debug


@pytest.fixture
def _own_logging() -> Iterator[None]:
    """The process's logging is as it was afterwards."""
    root, package = logging.getLogger(), logging.getLogger("retrieval")
    former = root.handlers[:], root.level, package.level
    yield
    root.handlers[:] = former[0]
    root.setLevel(former[1])
    package.setLevel(former[2])


@pytest.mark.usefixtures("_own_logging")
def test_libraries_are_heard_from_warnings_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Records of the platform itself are logged from INFO on."""
    configure_service_logging(Settings(), as_json=False)
    for name, level in (
        ("retrieval.jobs", logging.INFO),
        ("retrieval.jobs", logging.DEBUG),
        ("psycopg.pool", logging.INFO),
        ("psycopg.pool", logging.WARNING),
    ):
        logging.getLogger(name).log(level, "it is so")

    errors = capsys.readouterr().err
    assert [line.split()[1:3] for line in errors.splitlines()] == [
        ["INFO", "retrieval.jobs"],
        ["WARNING", "psycopg.pool"],
    ]
