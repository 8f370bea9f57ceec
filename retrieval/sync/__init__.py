"""The sync door, for scripts: the same platform and collections without ``await``.

    from retrieval.sync import connect
    with connect() as platform:
        tickets = platform.collection("tickets")
        tickets.add(items)
        hits = tickets.search("database connection timeout", where={"priority": "High"}, limit=5)

One event loop in its own thread, and one pool of connections, serve all calls, from any thread, until the ``with``
block ends, or the platform of ``open`` is closed. Where a loop runs already (a notebook, a web application) the door
raises ``RunningLoopError``: the async API is available there, and blocking would freeze that loop.
"""

from __future__ import annotations

from retrieval.sync.apps import SyncDualRetriever as DualRetriever
from retrieval.sync.apps import SyncMemory as Memory
from retrieval.sync.apps import SyncMemoryStore as MemoryStore
from retrieval.sync.apps import SyncMetaphorCorpus as MetaphorCorpus
from retrieval.sync.apps import SyncMetaphorRetriever as MetaphorRetriever
from retrieval.sync.apps import SyncPrincipleStore as PrincipleStore
from retrieval.sync.apps import SyncRetrievalEngine as RetrievalEngine
from retrieval.sync.apps import SyncRetrievalModel as RetrievalModel
from retrieval.sync.apps import SyncRetrievalService as RetrievalService
from retrieval.sync.platform import SyncCollection, SyncPlatform, connect
from retrieval.sync.platform import open as open  # noqa: A004 - see retrieval

__all__ = [
    "DualRetriever", "Memory", "MemoryStore", "MetaphorCorpus", "MetaphorRetriever", "PrincipleStore",
    "RetrievalEngine", "RetrievalModel", "RetrievalService", "SyncCollection", "SyncPlatform", "connect",
]  # fmt: skip
