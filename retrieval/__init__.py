"""Retrieval: search that is right, fast and explainable, on nothing but PostgreSQL and pgvector.

    from retrieval import connect
    async with connect() as platform:
        tickets = await platform.collection("tickets")
        await tickets.add(items)
        hits = await tickets.search("database connection timeout", where={"priority": "High"}, limit=5)
"""

from retrieval.adapters.readers import read_items
from retrieval.collection import Collection
from retrieval.domain.errors import RetrievalError
from retrieval.domain.hit import Explanation, Hit, SearchResult
from retrieval.domain.item import Item
from retrieval.domain.profile import Fusion, Profile
from retrieval.platform import Platform, connect
from retrieval.settings import Settings

__all__ = [
    "Collection",
    "Explanation",
    "Fusion",
    "Hit",
    "Item",
    "Platform",
    "Profile",
    "RetrievalError",
    "SearchResult",
    "Settings",
    "connect",
    "read_items",
]

for _name in __all__:
    if _name != "__all__":
        globals()[_name].__module__ = __name__
del _name
