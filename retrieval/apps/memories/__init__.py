"""Memories of an assistant's projects: store them, find them, forget them."""

from __future__ import annotations

from retrieval.apps.memories.engine import RetrievalEngine
from retrieval.apps.memories.messages import RememberedFact, RememberReport
from retrieval.apps.memories.requests import SEED_PROFILE, SEMANTIC_PROFILE, STRATEGIES, RelevantMemory, related_types
from retrieval.apps.memories.store import MemoryStore
from retrieval.domain.items.memory import Duplicate, Memory, StoredMemory, extract_text

__all__ = [
    "SEED_PROFILE", "SEMANTIC_PROFILE", "STRATEGIES", "Duplicate", "Memory", "MemoryStore", "RelevantMemory",
    "RememberReport", "RememberedFact", "RetrievalEngine", "StoredMemory", "extract_text", "related_types",
]  # fmt: skip
