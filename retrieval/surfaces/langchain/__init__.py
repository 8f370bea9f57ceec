"""Parts for LangChain and LangGraph: a vector store, a retriever, embeddings, tools and nodes on collections.

Needs the extra ``langchain``; without it the import raises ``MissingExtraError``.
"""

from __future__ import annotations

from retrieval.adapters.extras import require_extra

require_extra("langchain", "the surface for LangChain and LangGraph", "langchain_core", "langgraph")

from retrieval.adapters.readers.records import EXPLANATION_KEY  # noqa: E402 - after the check
from retrieval.surfaces.langchain.bridge import Bridge  # noqa: E402
from retrieval.surfaces.langchain.embeddings import LangChainEmbedder, RetrievalEmbeddings  # noqa: E402
from retrieval.surfaces.langchain.store import RetrievalStore  # noqa: E402
from retrieval.surfaces.langchain.tools import (  # noqa: E402
    PatternRecognitionAgent,
    apply_hybrid_scoring,
    get_index_stats,
    pattern_recognition_agent,
    retrieval_node,
    search_similar_tickets,
    ticket_tools,
    use_platform,
)
from retrieval.surfaces.langchain.vector_store import RetrievalRetriever, RetrievalVectorStore  # noqa: E402

__all__ = [
    "EXPLANATION_KEY", "Bridge", "LangChainEmbedder", "PatternRecognitionAgent", "RetrievalEmbeddings",
    "RetrievalRetriever", "RetrievalStore", "RetrievalVectorStore", "apply_hybrid_scoring", "get_index_stats",
    "pattern_recognition_agent", "retrieval_node", "search_similar_tickets", "ticket_tools", "use_platform",
]  # fmt: skip
