"""What an examination of an installation found: each finding says how bad it is, what it is, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from retrieval.domain.told import Told


class Severity(StrEnum):
    """How bad a finding is; they are ordered, and the last is the worst."""

    OK = "ok"
    """As it should be."""
    ADVICE = "advice"
    """It works, and could be better."""
    WARNING = "warning"
    """It works for now, or worse than it should."""
    ERROR = "error"
    """Something fails, is unprotected, or is not what it seems."""

    @property
    def rank(self) -> int:
        """0 for ``ok`` to 3 for ``error``."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Told):
    """One thing that was looked at."""

    check: str
    """What was looked at: ``indexes``, ``recall``, ``connections``, ..."""
    severity: Severity
    about: str = ""
    """Which of many it is: a collection, a table, an index, a setting. Empty: the installation."""
    found: str
    """What was found, in a sentence."""
    mend: str = ""
    """What to do: a command, or SQL; empty where there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Told):
    """Everything that was looked at, the worst first."""

    told_also = ("is_sound", "worst")

    examined_at: datetime
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity:
        """The worst severity that was found; ``ok`` for nothing."""
        return max((one.severity for one in self.findings), key=lambda one: one.rank, default=Severity.OK)

    @property
    def is_sound(self) -> bool:
        """Whether nothing that was found is an error."""
        return self.worst is not Severity.ERROR


def diagnosis_of(findings: Iterable[Finding], examined_at: datetime) -> Diagnosis:
    """The findings, the worst first, and else in the order in which they were made."""
    ordered = sorted(findings, key=lambda one: -one.severity.rank)
    return Diagnosis(examined_at=examined_at, findings=tuple(ordered))
