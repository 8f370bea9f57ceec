"""LangGraph's store on a collection: memory that graphs keep across threads, found by namespace, filter and words."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from langgraph.store.base import BaseStore, IndexConfig, Op, Result, TTLConfig

from retrieval.collection import Collection
from retrieval.domain.errors import ConfigurationError
from retrieval.engine.stopwatch import Clock
from retrieval.surfaces.langchain.bridge import Bridge
from retrieval.surfaces.langchain.store_operations import StoreOperations
from retrieval.sync import SyncCollection

WHOLE = ("$",)
"""The path of the whole value."""


class RetrievalStore(BaseStore):
    """A ``BaseStore`` whose items are those of a collection, for ``store=`` of a compiled graph.

    ``collection``: of ``retrieval.connect()`` or of ``retrieval.sync.connect()``; the methods with ``await`` and those
    without work on both, see ``Bridge``. The collection embeds, ranks and records, by its own profile.

    ``index``: ``{"fields": [...]}`` names the paths of the texts that searches by words see, as LangGraph writes
    them; without it that is the whole value. ``ttl``: ``default_ttl`` in minutes, ``refresh_on_read``, and
    ``sweep_interval_minutes``, after which a write also removes what has expired. What has expired is never given,
    swept or not. ``wall_clock`` tells the seconds since 1970 that times to live go by.

    Raises ``ConfigurationError`` for an ``index`` that it cannot keep to.
    """

    supports_ttl = True

    def __init__(
        self,
        collection: Collection | SyncCollection,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        wall_clock: Clock = time.time,
    ) -> None:
        self._bridge = Bridge(collection)
        self.ttl_config = ttl
        self._operations = StoreOperations(
            collection=self._bridge.twin,
            fields=_fields(index),
            wall_clock=wall_clock,
            sweep_minutes=(ttl or {}).get("sweep_interval_minutes"),
        )

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The result of each operation, in order: reads see what was there before the batch, then all puts are made.

        They are made all or none; of several of one key the last counts. Raises ``InvalidRequestError`` (a
        ``ValueError``) for an operation that cannot be understood, and the platform's other errors.
        """
        return self._bridge.run(self._operations.run, list(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As ``batch``, with ``await``; the puts of tasks that come together are stored together."""
        return await self._bridge.arun(self._operations.run, list(ops))

    def sweep_ttl(self) -> int:
        """Remove the items that have expired; gives how many there were."""
        return self._bridge.run(self._operations.sweep)

    async def asweep_ttl(self) -> int:
        """As ``sweep_ttl``, with ``await``."""
        return await self._bridge.arun(self._operations.sweep)


def _fields(index: IndexConfig | None) -> Sequence[str]:
    given = index or {}
    if foreign := sorted(set(given) - {"fields"}):
        raise ConfigurationError(
            f"index takes 'fields' alone, not {foreign[0]!r}: the collection has its embedder, "
            "which retrieval.connect(embedder=...) or RETRIEVAL_EMBEDDER chooses"
        )
    fields = given.get("fields") or WHOLE
    if isinstance(fields, str) or not all(isinstance(one, str) for one in fields):
        raise ConfigurationError(f"index: 'fields' is a list of paths such as ['text'], not {fields!r:.80}")
    return tuple(fields)
