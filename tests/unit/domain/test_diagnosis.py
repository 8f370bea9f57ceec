"""A diagnosis: the worst first, and sound without errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from retrieval.domain.diagnosis import Finding, Severity, diagnosis_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def finding(severity: Severity, check: str = "any") -> Finding:
    """A finding of that severity."""
    return Finding(check=check, severity=severity, found="something", mend="do something")


def test_the_worst_stands_first_and_else_nothing_moves() -> None:
    """A reader sees errors first."""
    findings = [
        finding(Severity.OK, "a"),
        finding(Severity.ERROR, "b"),
        finding(Severity.OK, "c"),
        finding(Severity.ADVICE),
    ]
    diagnosis = diagnosis_of(findings, NOW)
    assert [finding.check for finding in diagnosis.findings] == ["b", "any", "a", "c"]
    assert diagnosis.worst is Severity.ERROR
    assert not diagnosis.is_sound


def test_without_an_error_it_is_sound() -> None:
    """Warnings and advice do not fail a check."""
    diagnosis = diagnosis_of([finding(Severity.ADVICE), finding(Severity.WARNING)], NOW)
    assert (diagnosis.worst, diagnosis.is_sound) == (Severity.WARNING, True)
    assert diagnosis_of([], NOW).worst is Severity.OK


def test_a_diagnosis_is_serialized_as_json() -> None:
    """Every finding has its observation and its repair."""
    payload = json.loads(json.dumps(diagnosis_of([finding(Severity.WARNING)], NOW).as_dict()))
    assert payload == {
        "examined_at": "2026-03-01T00:00:00+00:00",
        "is_sound": True,
        "worst": "warning",
        "findings": [
            {"check": "any", "severity": "warning", "about": "", "found": "something", "mend": "do something"}
        ],
    }
