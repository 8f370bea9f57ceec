"""The memories of a project, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import overload

from retrieval.apps.memories.asked import checked_project, checked_types
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.memory import Memory, checked_name
from retrieval.domain.moment import fault_of
from retrieval.jobs.memory_records import MemoryRecords

MOST_LISTED = 1000
"""Memories of one page."""


@dataclass(frozen=True, slots=True)
class MemoryPage(Sequence[Memory]):
    """Some of a project's memories, the latest first. Reads like a list of them."""

    memories: tuple[Memory, ...]
    next: str | None
    """What to give as ``after`` for the next page; None: this is the last."""

    @overload
    def __getitem__(self, index: int) -> Memory: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Memory]: ...
    def __getitem__(self, index: int | slice) -> Memory | Sequence[Memory]:
        return self.memories[index]

    def __len__(self) -> int:
        return len(self.memories)

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories)


async def list_page(
    records: MemoryRecords,
    project_id: str,
    *,
    kinds: Sequence[str] | None,
    user_id: str | None,
    are_archived_too: bool,
    now: datetime,
    limit: int,
    after: str | None,
) -> MemoryPage:
    """A page of at most ``limit`` memories behind ``after``. One more is read, to know whether another page follows."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
        raise InvalidLimitError(f"limit is {limit!r:.80}; it must be 1 to {MOST_LISTED}")
    found = await records.page(
        checked_project(project_id),
        kinds=checked_types(kinds) or None,
        user_id=None if user_id is None else checked_name("user_id", user_id),
        are_archived_too=are_archived_too,
        now=now,
        before=None if after is None else _place(after),
        most=limit + 1,
    )
    shown = tuple(found[:limit])
    return MemoryPage(shown, _said(shown[-1]) if len(found) > limit else None)


def _said(memory: Memory) -> str:
    return f"{memory.occurred_at.isoformat()} {memory.memory_id}"


def _place(after: str) -> tuple[datetime, str]:
    moment, _, memory_id = after.partition(" ") if isinstance(after, str) else ("", "", "")
    try:
        happened_at = datetime.fromisoformat(moment)
    except ValueError:
        happened_at = None
    if happened_at is None or fault_of(happened_at) or not memory_id or "\x00" in memory_id:
        raise InvalidRequestError(f"after is {after!r:.80}; it must be the `next` of the page before")
    return happened_at, memory_id
