"""The findings of an examination of an installation, each with its severity, its cause and its remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from retrieval.domain.told import Told


class Severity(StrEnum):
    """The severity of a finding, in rising order."""

    OK = "ok"
    """Nothing is wrong."""
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
    """The subject of the check: ``indexes``, ``recall``, ``connections``, ..."""
    severity: Severity
    about: str = ""
    """The collection, table, index or setting that it concerns. Empty: the installation."""
    found: str
    """The finding, in a sentence."""
    mend: str = ""
    """The remedy: a command, or SQL; empty where nothing has to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Told):
    """Everything that was looked at, the worst first."""

    told_also = ("is_sound", "worst")

    examined_at: datetime
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity:
        """The worst severity that was found; ``ok`` for nothing."""
        return max((finding.severity for finding in self.findings), key=lambda one: one.rank, default=Severity.OK)

    @property
    def is_sound(self) -> bool:
        """True if no finding is an error."""
        return self.worst is not Severity.ERROR


def diagnosis_of(findings: Iterable[Finding], examined_at: datetime) -> Diagnosis:
    """The findings, the worst first, and else in the order in which they were made."""
    ordered = sorted(findings, key=lambda one: -one.severity.rank)
    return Diagnosis(examined_at=examined_at, findings=tuple(ordered))
