"""What is set on a connection, and which statements it keeps: a search pays for neither again.

Role, search path and tenant are set when a connection changes its tenant. Behind a pooler in transaction mode a session
serves somebody else next: there each transaction sets everything for itself, and no statement is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import psycopg

from retrieval.adapters.store.compiled import Compiled

MOST_KEPT = 200
"""Statements that one connection keeps; the one that was not used for longest makes room."""

KEPT_SECONDS = 60.0
"""How long a plan is kept. The tables that the plan was made for may have grown meanwhile, and nobody analyzed them."""

_RESET_ALL, _DEALLOCATE_ALL = Compiled("RESET ALL"), Compiled("DEALLOCATE ALL")


@dataclass(frozen=True, slots=True)
class Kept:
    """A statement that the server keeps under a name."""

    name: bytes
    is_new: bool
    """Whether the server does not know the statement yet."""
    dropped: bytes = b""
    """The statement that makes room for it; empty: none does."""


@dataclass(slots=True, eq=False)
class Session:
    """What one connection has set, and which statements it keeps.

    The server takes back what a failed transaction set. After any failure nothing is known, and the next use sets
    everything anew.
    """

    clock: Callable[[], float] = time.monotonic
    most: int = MOST_KEPT
    _values: Mapping[str, str] | None = None
    """Settings by name; None: not known."""
    _kept: dict[Hashable, tuple[bytes, float]] = field(default_factory=dict)
    """The name of each statement, and until when its plan is kept; the statement used last stands last."""
    _names: int = 0

    def changes(self, wanted: Mapping[str, str]) -> list[Compiled]:
        """The statements that set what is wanted and nothing else; the caller runs them first, then says ``settled``.

        Empty: the session is left as it is.
        """
        if not wanted:
            return []
        values, self._values = self._values, None
        return [] if values == wanted else self._from(values, wanted)

    def settled(self, wanted: Mapping[str, str]) -> None:
        """What ``changes`` gave was run, and all that was to run with it."""
        self._values = wanted or None

    def _from(self, values: Mapping[str, str] | None, wanted: Mapping[str, str]) -> list[Compiled]:
        if values is None:
            self._kept.clear()
            return [_RESET_ALL, _DEALLOCATE_ALL, set_statement(wanted)]
        changed = {name: value for name, value in wanted.items() if values.get(name) != value}
        resets = [Compiled(f"RESET {name}") for name in values if name not in wanted]
        return [*resets, set_statement(changed)] if changed else resets

    def keep(self, statement: Hashable) -> Kept:
        """The name that the server keeps a statement under; ``statement``: all that its plan depends on."""
        now = self.clock()
        name, until = self._kept.pop(statement, (b"", 0.0))
        if now < until:
            self._kept[statement] = name, until
            return Kept(name, is_new=False)
        if not name and len(self._kept) >= self.most:
            name, _ = self._kept.pop(next(iter(self._kept)))
        self._names += 1
        kept = Kept(b"kept_%d" % self._names, is_new=True, dropped=name)
        self._kept[statement] = kept.name, now + KEPT_SECONDS
        return kept


class SessionConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection of the pool, with its session."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.session = Session()


def set_statement(values: Mapping[str, str], *, is_local: bool = False) -> Compiled:
    """The statement that sets these values; ``is_local``: until its transaction ends."""
    parameters = {f"value_{place}": value for place, value in enumerate(values.values())}
    return Compiled(_set_text(tuple(values), is_local), parameters)


@cache
def _set_text(names: tuple[str, ...], is_local: bool) -> str:  # noqa: FBT001 - the cache tells arguments apart by position
    end = "true" if is_local else "false"
    return "SELECT " + ", ".join(f"set_config('{name}', %(value_{place})s, {end})" for place, name in enumerate(names))
