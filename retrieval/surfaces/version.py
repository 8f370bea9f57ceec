"""Which version of the package is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "retrieval-platform"


def installed_version() -> str | None:
    """The version, such as ``0.1.0``; None where the program runs from its sources without being installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None
