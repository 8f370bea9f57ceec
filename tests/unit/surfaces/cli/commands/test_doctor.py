"""The display of findings."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from retrieval.domain.diagnosis import Diagnosis, Finding, Severity, diagnosis_of
from retrieval.domain.errors import DatabaseUnreachableError, InvalidRequestError
from retrieval.surfaces.cli.app import app
from retrieval.surfaces.cli.commands.doctor import diagnosis_lines, finding_lines, repair_command
from retrieval.surfaces.cli.errors import INTERRUPTED

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PENDING = Finding(
    check="pending", severity=Severity.WARNING, found="3 items\x1b[31m wait", mend="retrieval jobs run embed"
)


def test_a_finding_is_a_line_with_what_to_do_below() -> None:
    """Without what would steer the terminal."""
    lines = [line.plain for line in finding_lines(PENDING, encoding="utf-8")]
    assert lines == ["! pending: 3 items wait", "    → retrieval jobs run embed"]


def test_fix_names_what_it_leaves_to_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL, which a person has to agree to."""
    sql = "ALTER SYSTEM SET jit = 'off'; SELECT pg_reload_conf()"
    finding = Finding(check="settings", severity=Severity.ADVICE, found="jit is on", mend=sql)
    monkeypatch.setattr(
        "retrieval.surfaces.cli.commands.doctor.diagnosis", lambda *_, **__: diagnosis_of([finding], NOW)
    )
    result = CliRunner().invoke(app, ["doctor", "--fix", "--yes"])
    assert result.stderr == f"not run: {sql}\n"


def test_the_report_names_variables_that_are_not_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the most similar setting, also if the database does not open; the note on standard error is left out."""

    async def fails(*_: object, **__: object) -> Diagnosis:
        raise DatabaseUnreachableError("no server")

    monkeypatch.setattr("retrieval.services.doctor.diagnose.examine", fails)
    monkeypatch.setenv("RETRIEVAL_EMBEDER", "none")
    monkeypatch.setenv("RETRIEVAL_QQQQQQ", "none")
    result = CliRunner().invoke(app, ["doctor", "--json"])
    findings = {finding["about"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert findings["RETRIEVAL_EMBEDER"] == {
        "check": "environment",
        "severity": "warning",
        "about": "RETRIEVAL_EMBEDER",
        "found": "RETRIEVAL_EMBEDER is not a setting, and is ignored",
        "mend": "rename it to RETRIEVAL_EMBEDDER, or unset it",
    }
    assert findings["RETRIEVAL_QQQQQQ"]["mend"].startswith("unset it, or see docs")
    assert result.stderr == ""


def test_fix_without_standard_input_says_that_nobody_can_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor may start it so."""
    monkeypatch.setattr(
        "retrieval.surfaces.cli.commands.doctor.diagnosis", lambda *_, **__: diagnosis_of([PENDING], NOW)
    )
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidRequestError, match="no terminal to ask at"):
        app(["doctor", "--fix"], standalone_mode=False)


def test_a_repair_that_is_stopped_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user stopped the command, not one of its steps."""
    ran: list[list[str]] = []

    def run_program(words: list[str]) -> int:
        ran.append(words)
        return INTERRUPTED

    reindex = Finding(check="words", severity=Severity.WARNING, found="a word is missing", mend="retrieval reindex a")
    monkeypatch.setattr(
        "retrieval.surfaces.cli.commands.doctor.diagnosis", lambda *_, **__: diagnosis_of([PENDING, reindex], NOW)
    )
    monkeypatch.setattr("retrieval.surfaces.cli.app.run_program", run_program)
    result = CliRunner().invoke(app, ["doctor", "--fix", "--yes"])
    assert (result.exit_code, ran) == (INTERRUPTED, [["jobs", "run", "embed"]])


def test_signs_become_words_where_they_cannot_be_printed() -> None:
    """In a file of plain ASCII the severity is a word."""
    lines = [line.plain for line in finding_lines(PENDING, encoding="ascii")]
    assert lines == ["warning pending: 3 items wait", "    mend: retrieval jobs run embed"]


def test_the_end_counts_what_was_found() -> None:
    """The worst severity comes first; severities without a finding are left out."""
    fine = Finding(check="schema", severity=Severity.OK, found="current")
    assert list(diagnosis_lines(diagnosis_of([fine, PENDING, fine], NOW)))[-1] == "1 warning, 2 ok"


@pytest.mark.parametrize(
    ("mend", "words"),
    [
        ("retrieval jobs run embed --collection 'two words'", ("jobs", "run", "embed", "--collection", "two words")),
        ("retrieval db upgrade", ("db", "upgrade")),
        ("retrieval reindex tickets", ("reindex", "tickets")),
        ("retrieval db downgrade base", None),
        ("retrieval worker, in a container or under a supervisor", None),
        ("retrieval status shows the errors; retrieval jobs run JOB does it again", None),
        ("have a superuser run: CREATE EXTENSION vector", None),
        ("", None),
    ],
)
def test_one_command_that_makes_again_what_follows_from_the_data_may_be_run(
    mend: str, words: tuple[str, ...] | None
) -> None:
    """Commands that destroy, serve, or need a decision are not run."""
    assert repair_command(mend) == words
