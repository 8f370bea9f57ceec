"""Parts for LangChain and LangGraph: a vector store, a retriever, embeddings, tools and nodes on collections.

Each name is imported when it is first asked for. Needs the extra ``langchain``; without it the import raises
``MissingExtraError``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from retrieval.adapters.extras import require_extra

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
    "agent": ("PatternRecognitionAgent", "pattern_recognition_agent", "retrieval_node"),
    "bridge": ("Bridge",),
    "embeddings": ("LangChainEmbedder", "RetrievalEmbeddings"),
    "store": ("RetrievalStore",),
    "tools": ("apply_hybrid_scoring", "get_index_stats", "search_similar_tickets", "ticket_tools", "use_platform"),
    "vector_store": ("EXPLANATION_KEY", "RetrievalRetriever", "RetrievalVectorStore"),
}
"""The names of each module."""

require_extra("langchain", "the surface for LangChain and LangGraph", "langchain_core", "langgraph")


if not TYPE_CHECKING:

    def __getattr__(name):  # noqa: ANN001, ANN202 - type checkers read the imports above
        """Load a public name at its first use."""
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{home}"), name)
