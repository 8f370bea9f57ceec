"""Recall: what an assistant remembers, found by its words, its meaning, and other wordings of the question.

from retrieval.apps.recall import DualRetriever
retriever = DualRetriever(collection, platform.llm)
found = await retriever.search("Who do I know at Acme?")
"""

from __future__ import annotations

from retrieval.apps.recall.checks import SEARCH_LIMIT_MAX
from retrieval.apps.recall.entity import Entity
from retrieval.apps.recall.profile import RECALL_PROFILE
from retrieval.apps.recall.recalled import Recalled
from retrieval.apps.recall.retriever import DualRetriever
from retrieval.apps.recall.stretch import TimeExpressions
from retrieval.apps.recall.triggers import deep_triggers

__all__ = [
    "RECALL_PROFILE",
    "SEARCH_LIMIT_MAX",
    "DualRetriever",
    "Entity",
    "Recalled",
    "TimeExpressions",
    "deep_triggers",
]
