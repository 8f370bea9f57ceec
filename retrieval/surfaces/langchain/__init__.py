"""Parts for LangChain and LangGraph: a vector store, a retriever, embeddings, tools and nodes on collections.

Each name is imported when it is first asked for. Needs the extra ``langchain``; without it the import raises
``MissingExtraError``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from retrieval.surfaces.langchain.extra import require_extra

if TYPE_CHECKING:
    from retrieval.adapters.readers.records import EXPLANATION_KEY
    from retrieval.surfaces.langchain.agent import (
        PatternRecognitionAgent,
        pattern_recognition_agent,
        retrieval_node,
    )
    from retrieval.surfaces.langchain.bridge import Bridge
    from retrieval.surfaces.langchain.embeddings import LangChainEmbedder, RetrievalEmbeddings
    from retrieval.surfaces.langchain.store import RetrievalStore
    from retrieval.surfaces.langchain.tools import (
        apply_hybrid_scoring,
        get_index_stats,
        search_similar_tickets,
        ticket_tools,
        use_platform,
    )
    from retrieval.surfaces.langchain.vector_store import RetrievalRetriever, RetrievalVectorStore

__all__ = [
    "EXPLANATION_KEY",
    "Bridge",
    "LangChainEmbedder",
    "PatternRecognitionAgent",
    "RetrievalEmbeddings",
    "RetrievalRetriever",
    "RetrievalStore",
    "RetrievalVectorStore",
    "apply_hybrid_scoring",
    "get_index_stats",
    "pattern_recognition_agent",
    "retrieval_node",
    "search_similar_tickets",
    "ticket_tools",
    "use_platform",
]

_HOMES = {
    "EXPLANATION_KEY": "vector_store",
    "Bridge": "bridge",
    "LangChainEmbedder": "embeddings",
    "RetrievalEmbeddings": "embeddings",
    "RetrievalRetriever": "vector_store",
    "RetrievalStore": "store",
    "RetrievalVectorStore": "vector_store",
    "PatternRecognitionAgent": "agent",
    "pattern_recognition_agent": "agent",
    "retrieval_node": "agent",
    "apply_hybrid_scoring": "tools",
    "get_index_stats": "tools",
    "search_similar_tickets": "tools",
    "ticket_tools": "tools",
    "use_platform": "tools",
}
"""The module of each name."""

require_extra()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
