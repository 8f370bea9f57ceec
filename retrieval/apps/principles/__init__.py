"""Principles: lessons that prove themselves by use, shown to an agent at the start and on demand."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrieval.apps.principles.principle import FoundPrinciple, Principle
    from retrieval.apps.principles.search import PRINCIPLES_PROFILE, FoundPrinciples, principles_profile
    from retrieval.apps.principles.store import PrincipleScore, PrincipleStats, PrincipleStore
    from retrieval.apps.principles.traces import Outcome, Trace

__all__ = [
    "PRINCIPLES_PROFILE", "FoundPrinciple", "FoundPrinciples", "Outcome", "Principle", "PrincipleScore",
    "PrincipleStats", "PrincipleStore", "Trace", "principles_profile",
]  # fmt: skip

_HOMES = {
    "principle": ("FoundPrinciple", "Principle"),
    "search": ("FoundPrinciples", "PRINCIPLES_PROFILE", "principles_profile"),
    "store": ("PrincipleScore", "PrincipleStats", "PrincipleStore"),
    "traces": ("Outcome", "Trace"),
}

if not TYPE_CHECKING:

    def __getattr__(name):  # noqa: ANN001, ANN202 - type checkers read the imports above
        """Load a public name at its first use, because starting a session needs only the light modules."""
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__"]
