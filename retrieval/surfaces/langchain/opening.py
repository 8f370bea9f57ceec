"""Platforms that are opened where nobody gave one: for one store, or for what a program shares."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any

from langchain_core.embeddings import Embeddings

from retrieval.collection import Collection
from retrieval.domain.errors import ConfigurationError
from retrieval.domain.items.embedding import Embedder
from retrieval.surfaces.langchain.embeddings import LangChainEmbedder, RetrievalEmbeddings
from retrieval.sync import SyncCollection, SyncPlatform, connect

# What joins the threads of a program at its end would wait for the platform's for ever; this runs before, as nothing
# public does.
_at_the_end: Callable[[Callable[[], Any]], Any] = getattr(threading, "_register_atexit", atexit.register)

_open: set[Opened] = set()


class Opened:
    """An open platform, closed by ``close``, or at the end of the program."""

    def __init__(self, url: str | None = None, *, embedder: Embedder | None = None) -> None:
        self.platform: SyncPlatform = connect(url, embedder=embedder)
        self._closing = threading.Lock()
        self.platform.__enter__()
        _open.add(self)

    def close(self) -> None:
        """Close it; a second time does nothing."""
        with self._closing:
            if self in _open:
                _open.discard(self)
                self.platform.__exit__(None, None, None)


def opened_collection(name: str, url: str | None, embeddings: Embeddings | None) -> tuple[Opened, SyncCollection]:
    """A platform that embeds so, and its collection of that name, made if missing."""
    embedder = None if embeddings is None else LangChainEmbedder.of(embeddings)
    opened = Opened(url, embedder=embedder)
    try:
        return opened, opened.platform.collection(name)
    except BaseException:
        opened.close()
        raise


async def matching(collection: Collection, embeddings: Embeddings | None) -> None:
    """Raise ``ConfigurationError`` unless the collection's vectors are those that the embeddings make."""
    if embeddings is None or isinstance(embeddings, RetrievalEmbeddings):
        return
    there, wanted = await collection.space(), (await LangChainEmbedder.aof(embeddings)).space
    if there != wanted:
        has = "no vectors" if there is None else f"the vectors of {there.name}"
        raise ConfigurationError(
            f"collection {collection.name!r} has {has} and not those of {wanted.name}; leave the embedding out, or use "
            "another collection"
        )


def _close_all() -> None:
    for one in list(_open):
        one.close()


_at_the_end(_close_all)
