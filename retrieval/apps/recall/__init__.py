"""Recall: an assistant's memories, found by words, by meaning, and by other wordings of the question.

from retrieval.apps.recall import Entity, Memory
memory = Memory(collection, platform.llm)
await memory.store(Entity(name="Ann", content="Ann works at Acme."))
entities = await memory.recall("Who do I know at Acme?")
"""

from __future__ import annotations

from retrieval.apps.recall.retriever import (
    RECALL_PROFILE,
    SEARCH_LIMIT_MAX,
    DualRetriever,
    Entity,
    Memory,
    Recalled,
    TimeExpressions,
)
from retrieval.apps.recall.rewriter import deep_triggers

__all__ = [
    "RECALL_PROFILE", "SEARCH_LIMIT_MAX", "DualRetriever", "Entity", "Memory", "Recalled", "TimeExpressions",
    "deep_triggers",
]  # fmt: skip
