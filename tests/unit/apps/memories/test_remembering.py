"""The comparison of facts with stored memories."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from retrieval.apps.memories import messages
from retrieval.apps.memories.messages import Remembering
from retrieval.domain.errors import DatabaseUnreachableError
from retrieval.domain.items.memory import NewMemory

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class Writer:
    """A writer of a collection without vectors."""

    async def vectors_of(self, items: list[Any]) -> None:
        """None: no vectors."""


async def test_a_failed_comparison_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error reaches the caller, and no search goes on behind the caller's back."""
    searching = set[str]()

    async def near(_collection: object, fact: NewMemory, *_: object, **__: object) -> list[Any]:
        searching.add(fact.memory_id)
        try:
            await asyncio.sleep(0)
            if fact.memory_id == "1":
                raise DatabaseUnreachableError("gone")
            await asyncio.sleep(60)
        finally:
            searching.remove(fact.memory_id)
        return []

    monkeypatch.setattr(messages, "near_memories", near)
    facts = [
        NewMemory(memory_id=str(number), project_id="p", interaction_type="fact", content="A cat", occurred_at=NOW)
        for number in range(10)
    ]
    parts: Any = dict.fromkeys(("conversation", "memory_of", "receipt", "llm", "collection", "place"))
    with pytest.raises(DatabaseUnreachableError):
        await Remembering(**parts, now=NOW, writer=Writer()).decisions(facts)  # type: ignore[arg-type]
    assert searching == set()
