"""Writes of many tasks: while one is under way the others gather, and are then made together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from retrieval.domain.errors import DatabaseError
from retrieval.domain.item import Item

Changes = Mapping[str, Item | None]
"""What items become, by item id; None: no item."""


@dataclass(slots=True, eq=False)
class _Write:
    changes: Changes
    is_done: bool = False
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class Writes:
    """The writes of one store."""

    store: Callable[[Changes], Awaitable[None]]
    """Makes changes, all or none."""
    _waiting: list[_Write] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def write(self, changes: Changes) -> None:
        """Make these changes, all or none; of two of the same item, the one that was asked for later counts."""
        mine = _Write(changes)
        self._waiting.append(mine)
        try:
            async with self._turn:
                if not mine.is_done:
                    await self._write_waiting(mine)
        finally:
            if mine in self._waiting:
                self._waiting.remove(mine)
        if mine.error is not None:
            raise mine.error

    async def _write_waiting(self, mine: _Write) -> None:
        together, self._waiting = self._waiting, []
        try:
            await self._write_together(together)
        except BaseException:
            # Whoever writes for all may be cancelled; the others are not.
            self._waiting[:0] = [one for one in together if not (one.is_done or one is mine)]
            raise

    async def _write_together(self, together: list[_Write]) -> None:
        changes: dict[str, Item | None] = {}
        for one in together:
            changes |= one.changes
        try:
            await self.store(changes)
        except Exception as error:  # noqa: BLE001 - it is raised by those whose write it is
            if len(together) > 1 and not isinstance(error, DatabaseError):
                # One of them was refused: it must not cost the others.
                for one in together:
                    await self._write_together([one])
                return
            for one in together:
                one.error = error
        for one in together:
            one.is_done = True
