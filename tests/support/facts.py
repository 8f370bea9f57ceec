"""Facts of a sound installation, for tests that change one of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from retrieval.adapters.store.installation.checks import ServerFacts
from retrieval.adapters.store.installation.examination import IndexFacts, QueueFacts, ServerState, TableFacts
from retrieval.adapters.store.installed_sql import Names
from retrieval.adapters.store.items.collection_facts import CollectionStatus
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.indexes import AnnIndex
from retrieval.adapters.store.search.recall import Measurement
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.engine.plan import default_profile

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = Names("retrieval")
SPACE = StoredSpace(4, EmbeddingSpace(provider="minilm", model="small", dimensions=384))

_SERVER = {
    "version": "18.6",
    "is_superuser": False,
    "may_define": True,
    "unsafe_roles": (),
    "misowned": (),
    "open_schemas": (),
    "textsearch": None,
    "is_textsearch_loaded": False,
    "is_standby": False,
    "is_collation_changed": False,
    "words": ("b", "äi"),
    "connections": 5,
    "max_connections": 97,
    "database_bytes": 50 << 20,
    "functions": (),
    "now": NOW,
}


FACTS = ServerFacts(
    pgvector="0.8.6", vector_schema="public", login="shop", has_schema=True, may_act=True, database="shop"
)


def server(**changes: Any) -> ServerState:
    """A sound server, but for the changes."""
    return ServerState(**{**_SERVER, **changes})


def table(**changes: Any) -> TableFacts:
    """A table of items, cleaned and counted."""
    sound: dict[str, Any] = {
        "name": "items",
        "columns": ("collection_id", "item_id"),
        "live": 100_000,
        "dead": 500,
        "changed": 500,
        "is_analyzed": True,
        "bytes": 30 << 20,
        "is_forced": True,
        "is_vacuumed": True,
        "is_shown": True,
        "loose_policies": (),
        "lacking": (),
    }
    return TableFacts(**{**sound, **changes})


def index(**changes: Any) -> IndexFacts:
    """A valid index on items."""
    sound: dict[str, Any] = {
        "name": "items_pkey",
        "table": "items",
        "is_valid": True,
        "is_being_built": False,
        "bytes": 3 << 20,
    }
    return IndexFacts(**{**sound, **changes})


def queue(**changes: Any) -> QueueFacts:
    """A queue with a worker and nothing to do."""
    sound: dict[str, Any] = {
        "waiting": 0,
        "oldest_seconds": 0.0,
        "failed": (),
        "stalled": 0,
        "workers": 1,
        "silent_seconds": 3.0,
        "due_seconds": 60.0,
    }
    return QueueFacts(**{**sound, **changes})


def collection(**changes: Any) -> StoredCollection:
    """Tickets: 20,000 items with a measured index."""
    stored: dict[str, Any] = {
        "collection_id": 7,
        "name": "tickets",
        "text_search_config": "english",
        "profile": default_profile(SPACE.space),
        "profile_version": 1,
        "space": SPACE,
        "documents": 20_000,
        "ann_index": AnnIndex(rows=20_000, index_bytes=40 << 20),
        "attributes": {},
    }
    return StoredCollection(**{**stored, **changes})


def status(**changes: Any) -> CollectionStatus:
    """The status of that collection, with nothing waiting."""
    sound: dict[str, Any] = {
        "name": "tickets",
        "items": 20_000,
        "space": None,
        "pending": 0,
        "weights_pending": False,
        "indexes": (),
        "runs": (),
        "recall": (measured(0.997, 200),),
        "unrecorded": {},
    }
    return CollectionStatus(**{**sound, **changes})


def measured(recall: float, samples: int, at: datetime = NOW) -> Measurement:
    """A measurement of recall."""
    return Measurement(bucket="1", samples=samples, recall=recall, short_pages=0, effort=40, measured_at=at)


def hnsw(**changes: Any) -> IndexFacts:
    """The HNSW index of that collection."""
    own = {"name": "embeddings_4_7_hnsw", "table": "embeddings_4", "bytes": 40 << 20}
    return index(**{**own, **changes})
