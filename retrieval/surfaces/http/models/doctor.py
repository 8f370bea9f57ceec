"""What an examination found."""

from __future__ import annotations

from pydantic import ConfigDict

from retrieval.domain.diagnosis import Severity
from retrieval.surfaces.http.models.base import Told


class FindingTold(Told):
    """One thing that was looked at."""

    check: str
    """What was looked at: `indexes`, `recall`, `connections`, ..."""
    severity: Severity
    about: str
    """Which of many it is: a collection, a table, a setting. Empty: the installation."""
    found: str
    mend: str
    """What to do: a command or SQL. Empty: nothing."""


class DiagnosisTold(Told):
    """Everything that was looked at, the worst first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "examined_at": "2026-05-31T12:00:00+00:00",
                    "is_sound": True,
                    "worst": "warning",
                    "findings": [
                        {
                            "check": "pending",
                            "severity": "warning",
                            "about": "tickets",
                            "found": "3 items of collection 'tickets' without a vector yet: only words find them",
                            "mend": "retrieval jobs run embed --collection tickets",
                        }
                    ],
                }
            ]
        }
    )

    examined_at: str
    is_sound: bool
    """Whether nothing that was found is an error."""
    worst: Severity
    findings: list[FindingTold]
