"""Retrieval: search that is right, fast and explainable, on nothing but PostgreSQL and pgvector.

    from retrieval import connect
    async with connect() as platform:
        tickets = await platform.collection("tickets")
        await tickets.add(items)
        hits = await tickets.search("database connection timeout", where={"priority": "High"}, limit=5)

Without ``await``, for scripts: ``retrieval.sync``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieval.domain.lazy import exports

if TYPE_CHECKING:
    from retrieval.adapters.readers import read_items
    from retrieval.collection import Collection
    from retrieval.domain.checks import clean_text
    from retrieval.domain.errors import RetrievalError
    from retrieval.domain.items.embedding import EmbeddingSpace
    from retrieval.domain.items.item import Item
    from retrieval.domain.learning.context import Context
    from retrieval.domain.learning.feedback import Feedback
    from retrieval.domain.search.hit import Explanation, Hit, SearchResult
    from retrieval.domain.search.profile import Fusion, Profile
    from retrieval.platform import Platform, connect
    from retrieval.platform import open as open  # noqa: A004 - exported, but not by *
    from retrieval.settings import Settings

# Without "open", because a program that imports * may open files.
__all__ = [
    "Collection",
    "Context",
    "EmbeddingSpace",
    "Explanation",
    "Feedback",
    "Fusion",
    "Hit",
    "Item",
    "Platform",
    "Profile",
    "RetrievalError",
    "SearchResult",
    "Settings",
    "clean_text",
    "connect",
    "read_items",
]

_HOMES = {
    "adapters.readers": ("read_items",),
    "collection": ("Collection",),
    "domain.learning.context": ("Context",),
    "domain.items.embedding": ("EmbeddingSpace",),
    "domain.errors": ("RetrievalError",),
    "domain.learning.feedback": ("Feedback",),
    "domain.search.hit": ("Explanation", "Hit", "SearchResult"),
    "domain.items.item": ("Item",),
    "domain.search.profile": ("Fusion", "Profile"),
    "domain.checks": ("clean_text",),
    "platform": ("Platform", "connect", "open"),
    "settings": ("Settings",),
}

if not TYPE_CHECKING:  # type checkers read the imports above; the command line answers at once without them
    __getattr__ = exports(globals(), _HOMES)


def __dir__() -> list[str]:
    return [*__all__, "open", "__all__", "__doc__", "__file__", "__name__", "__path__"]
