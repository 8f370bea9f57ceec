"""The doctor's findings, each with its remedy, and the functions that make them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from retrieval.domain.serialization import Serializable


class Severity(StrEnum):
    """The severity of a finding, in rising order."""

    OK = "ok"
    """Nothing is wrong."""
    ADVICE = "advice"
    """It works, and could be better."""
    WARNING = "warning"
    """The subject works for now, or worse than it should."""
    ERROR = "error"
    """A failure, a missing protection, or misleading data."""

    @property
    def rank(self) -> int:
        """0 for ``ok`` to 3 for ``error``."""
        return list(Severity).index(self)

    def finding(self, check: str, found: str, mend: str, *, about: str = "") -> Finding:
        """A finding of this severity, with its remedy."""
        return Finding(check=check, severity=self, about=about, found=found, mend=mend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Serializable):
    """The result of one check."""

    check: str
    """The subject of the check: ``indexes``, ``recall``, ``connections``, ..."""
    severity: Severity
    about: str = ""
    """The collection, table, index or setting that it concerns. Empty: the installation."""
    found: str
    """The finding, in a sentence."""
    mend: str = ""
    """The remedy: a command, or SQL; empty where nothing has to be done."""

    @property
    def mends_statistics(self) -> bool:
        """Whether the remedy is a statement that only renews the planner's statistics of a table."""
        return self.check == "statistics" and self.mend.startswith("ANALYZE ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Serializable):
    """All findings, the worst first."""

    serialized_properties = ("is_sound", "worst")

    examined_at: datetime
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity:
        """The worst severity of the findings; ``ok`` without findings."""
        return max((finding.severity for finding in self.findings), key=lambda entry: entry.rank, default=Severity.OK)

    @property
    def is_sound(self) -> bool:
        """True if no finding is an error."""
        return self.worst is not Severity.ERROR


def diagnosis_of(findings: Iterable[Finding], examined_at: datetime) -> Diagnosis:
    """The findings, the worst first; those of equal severity stay in their order."""
    ordered = sorted(findings, key=lambda finding: -finding.severity.rank)
    return Diagnosis(examined_at=examined_at, findings=tuple(ordered))


def or_fine(found: Iterable[Finding], check: str, fine: str) -> list[Finding]:
    """The findings; where there are none, a single finding that all is well."""
    known = list(found)
    return known or [Finding(check=check, severity=Severity.OK, found=fine)]
