"""The compared systems: one system a file, each behind the same contract, each in a process of its own."""

from __future__ import annotations

PEERS = {
    "ours": "peers.ours:Ours",
    "by hand": "peers.by_hand:ByHand",
    "FAISS flat": "peers.faiss_flat:FaissFlat",
    "langchain-postgres": "peers.langchain_store:LangchainStore",
    "llama-index": "peers.llama_index_store:LlamaIndexStore",
    "LanceDB": "peers.lance_store:LanceStore",
    "Chroma": "peers.chroma_store:ChromaStore",
}
"""The place of each system's class."""

FOREIGN = ("FAISS flat", "langchain-postgres", "llama-index", "LanceDB", "Chroma")
"""Those that run in the peers' environment; the others run in the product's."""
