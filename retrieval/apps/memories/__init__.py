"""Memories of an assistant's projects: stored, found by what counts for them, forgotten."""

from __future__ import annotations

from retrieval.apps.memories.store import MemoryStore
from retrieval.domain.memory import Duplicate, Memory, StoredMemory
from retrieval.domain.memory_text import extract_text

__all__ = ["Duplicate", "Memory", "MemoryStore", "StoredMemory", "extract_text"]
