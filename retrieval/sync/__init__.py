"""The sync door, for scripts: the same platform and collections without ``await``.

    from retrieval.sync import connect
    with connect() as platform:
        tickets = platform.collection("tickets")
        tickets.add(items)
        hits = tickets.search("database connection timeout", where={"priority": "High"}, limit=5)

One event loop in a thread of its own, and one pool of connections, serve all calls, from any thread, until the ``with``
block is left, or the platform that ``open`` gave is closed. Where a loop runs already (a notebook, a web application)
the door raises ``RunningLoopError``: there the async API is at hand, and blocking would freeze that loop.
"""

from __future__ import annotations

from retrieval.sync.collection import SyncCollection
from retrieval.sync.memories import SyncMemoryStore as MemoryStore
from retrieval.sync.memories import SyncRetrievalEngine as RetrievalEngine
from retrieval.sync.metaphors import SyncMetaphorCorpus as MetaphorCorpus
from retrieval.sync.metaphors import SyncMetaphorRetriever as MetaphorRetriever
from retrieval.sync.metaphors import SyncRetrievalModel as RetrievalModel
from retrieval.sync.platform import SyncPlatform, connect
from retrieval.sync.platform import open as open  # noqa: A004 - see retrieval
from retrieval.sync.principles import SyncPrincipleStore as PrincipleStore
from retrieval.sync.recall import SyncDualRetriever as DualRetriever
from retrieval.sync.recall import SyncMemory as Memory
from retrieval.sync.tickets import SyncRetrievalService as RetrievalService

__all__ = [
    "DualRetriever",
    "Memory",
    "MemoryStore",
    "MetaphorCorpus",
    "MetaphorRetriever",
    "PrincipleStore",
    "RetrievalEngine",
    "RetrievalModel",
    "RetrievalService",
    "SyncCollection",
    "SyncPlatform",
    "connect",
]
