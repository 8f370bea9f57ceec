"""Principles: lessons that prove themselves by use, shown to an agent at the start and on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieval.domain.lazy import exports

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

if not TYPE_CHECKING:  # type checkers read the imports above; starting a session needs only the light modules
    __getattr__ = exports(globals(), _HOMES)


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__"]
