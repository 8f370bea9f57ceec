"""LangGraph's store on a collection: the memory of graphs across threads, searched by namespace, filter and meaning."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TypeVar

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from langgraph.store.base import Item as GraphItem

from retrieval.adapters.clock import Clock
from retrieval.adapters.store.deadline import in_background
from retrieval.collection import Collection, handle_of
from retrieval.domain import errors
from retrieval.domain.checks import is_whole, written
from retrieval.domain.items.item import Item, StoredItem
from retrieval.domain.search.filters import And, Field, Filter, Not, OneOf
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.reading import MAX_LISTED, latest, paths
from retrieval.engine.request import MAX_LIMIT
from retrieval.surfaces.langchain.bridge import Bridge, blocking, log_notes
from retrieval.surfaces.langchain.store_items import (
    EXPIRES_AT,
    NAMESPACE,
    UNINDEXED,
    are_paths,
    can_expire,
    checked_namespace,
    graph_parts,
    has_expired,
    is_alive,
    is_expired,
    is_indexed,
    is_put,
    item_id_of,
    item_of,
    matching,
    refreshed,
    value_filter,
    within,
)
from retrieval.sync import SyncCollection

T = TypeVar("T")

FIRST_HITS = 100
"""The number of hits of the first search by words; each further search adds ``MAX_LIMIT`` others.

The steps are the same for all pages, so that pages neither overlap nor leave anything out.
"""

SWEPT_AT_ONCE = 500
"""The maximum number of expired items that one transaction removes."""

_KEY = Field("item_id", is_attribute=False)


Hit = tuple[StoredItem, float | None]
"""An item and its score; None: the words do not find the item."""

Changes = Mapping[str, Item | None]
"""The new state of items, by item id; None: the item is removed."""

_Write = tuple[Changes, asyncio.Future[None]]
"""The changes of a call, and their outcome."""


WHOLE = ("$",)
"""The path of the whole value."""


class RetrievalStore(BaseStore):
    """A ``BaseStore`` on the items of a collection, for ``store=`` of a compiled graph.

    ``collection`` is one of ``retrieval.connect()`` or of ``retrieval.sync.connect()``; the async and the sync methods
    work on both, see ``Bridge``. The collection embeds, ranks and records by its own profile.

    ``index``: ``{"fields": [...]}`` has the paths, in LangGraph's notation, of the texts that searches by words read;
    without it they read the whole value. ``ttl``: ``default_ttl`` in minutes, ``refresh_on_read``, and
    ``sweep_interval_minutes``, after which a write also removes the expired items. Expired items are never returned,
    removed or not. ``wall_clock`` returns the seconds since 1970, for times to live.

    Raises ``ConfigurationError`` for an ``index`` with other members.
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
        self._collection = self._bridge.twin
        self._handle = handle_of(self._collection)
        self._fields = _fields(index)
        self._wall_clock = wall_clock
        self._sweep_minutes = (ttl or {}).get("sweep_interval_minutes")
        self._swept_at = wall_clock()
        self._waiting: list[_Write] = []
        self._writer: asyncio.Task[None] | None = None

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The result of each operation, in order. Reads see the state before the batch; then all puts are stored.

        All puts are stored, or none; of several puts with one key the last counts. The puts of concurrent calls are
        stored together. Raises ``InvalidRequestError`` (a ``ValueError``) for an invalid operation, before anything is
        read or written, and the platform's other errors.
        """
        return await self._bridge.arun(self._run, list(ops))

    batch = blocking(abatch)

    async def asweep_ttl(self) -> int:
        """Remove the expired items; returns their number."""
        return await self._bridge.arun(self._sweep)

    sweep_ttl = blocking(asweep_ttl)

    async def _run(self, ops: Iterable[Op]) -> list[Result]:
        each, now = list(map(checked_operation, ops)), self._wall_clock()
        changes = _changes(each, self._fields, now)
        got = await self._got([op for op in each if isinstance(op, GetOp)], now)
        results: list[Result] = []
        used: list[StoredItem] = []
        for op in each:
            result: Result = None
            if isinstance(op, GetOp) and (item := got.get(item_id_of(op.namespace, op.key))) is not None:
                result = GraphItem(**graph_parts(item))
                used += [item] if op.refresh_ttl else []
            elif isinstance(op, SearchOp):
                hits = await self._searched(op, now)
                result = [SearchItem(**graph_parts(item), score=score) for item, score in hits]
                used += [item for item, _ in hits] if op.refresh_ttl else []
            elif isinstance(op, ListNamespacesOp):
                result = await self._namespaces(op, now)
            results.append(result)
        await self._refresh(used, now)
        if changes:
            await self._store(changes)
            if self._sweep_minutes is not None and now - self._swept_at >= 60.0 * self._sweep_minutes:
                await self._sweep()
        return results

    async def _sweep(self) -> int:
        self._swept_at = now = self._wall_clock()
        removed = 0
        while ids := await self._expired(now):
            report = await self._collection.change(
                ids, lambda _, item: None if item is None or (is_put(item) and is_expired(item, now)) else item
            )
            removed += report.removed
            if not report.removed:  # another caller has removed them
                break
        return removed

    async def _expired(self, now: float) -> list[str]:
        try:
            page = await latest(self._handle, And((within(()), has_expired(now))), limit=SWEPT_AT_ONCE)
        except errors.UnknownFieldError:
            return []
        return [stored_item.item.item_id for stored_item in page]

    async def _store(self, changes: Changes) -> None:
        """Store these changes, all or none, after those of earlier calls and together with waiting ones."""
        outcome = asyncio.get_running_loop().create_future()
        self._waiting.append((changes, outcome))
        if self._writer is None or self._writer.done():
            self._writer = in_background(self._store_waiting())  # a cancelled caller does not stop the others' changes
        await outcome

    async def _store_waiting(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            await self._store_together([(changes, outcome) for changes, outcome in together if not outcome.cancelled()])

    async def _store_together(self, writes: Sequence[_Write]) -> None:
        changes = {item_id: item for each, _ in writes for item_id, item in each.items()}
        failure: Exception | None = None
        try:
            await self._change(changes)
        except Exception as error:  # noqa: BLE001 - the calls with these changes raise it
            failure = error
        if failure is not None and len(writes) > 1 and not isinstance(failure, errors.DatabaseError):
            for write in writes:  # a refused one does not affect the others
                await self._store_together([write])
            return
        for _, outcome in writes:
            if failure is not None and not outcome.done():
                outcome.set_exception(failure)
            elif not outcome.done():
                outcome.set_result(None)

    async def _change(self, changes: Changes) -> None:
        def decided(item_id: str, before: Item | None) -> Item | None:
            if before is not None and not is_put(before):
                raise errors.ConflictError(
                    f"item {written(item_id)} of the collection was not written by a store; "
                    "use another namespace or key, or another collection"
                )
            return changes[item_id]

        report = await self._collection.change(list(changes), decided)
        log_notes(self._collection, report.written)

    async def _refresh(self, used: Iterable[StoredItem], now: float) -> None:
        ids = list(dict.fromkeys(stored_item.item.item_id for stored_item in used if can_expire(stored_item.item)))
        if ids:
            await self._collection.change(
                ids, lambda _, item: None if item is None else refreshed(item, now), keeps_time=True
            )

    async def _got(self, ops: Sequence[GetOp], now: float) -> dict[str, StoredItem]:
        ids = list(dict.fromkeys(item_id_of(op.namespace, op.key) for op in ops))
        stored = await self._collection.stored(ids) if ids else {}
        return {item_id: stored_item for item_id, stored_item in stored.items() if _is_there(stored_item, now)}

    async def _searched(self, op: SearchOp, now: float) -> list[Hit]:
        try:
            hits = await self._page(op, now)
            if any(is_put(stored_item.item) and is_expired(stored_item.item, now) for stored_item, _ in hits):
                # Another process has just stored the first item with a time to live.
                await self._collection.refresh()
                hits = await self._page(op, now)
        except errors.UnknownFieldError:  # nothing was ever stored
            return []
        return [hit for hit in hits if _is_there(hit[0], now)]

    async def _page(self, op: SearchOp, now: float) -> list[Hit]:
        alive = await self._if_known(EXPIRES_AT, is_alive(now))
        where = And((within(op.namespace_prefix), alive, value_filter(op.filter or {})))
        end = op.offset + op.limit
        query = (op.query or "").strip()
        ranked = await self._ranked(query, where, end) if query and op.limit else {}
        page = list(ranked)[op.offset : end]
        stored = await self._collection.stored(page) if page else {}
        hits: list[Hit] = [(stored[item_id], ranked[item_id]) for item_id in page if item_id in stored]
        if len(ranked) < end:
            rest = And((where, _none_of(ranked)))
            offset = max(0, op.offset - len(ranked))
            others = await _paged(partial(latest, self._handle, rest), op.limit - len(page), offset)
            hits += [(stored_item, None) for stored_item in others]
        return hits

    async def _ranked(self, query: str, where: Filter, wanted: int) -> dict[str, float]:
        """The scores of the best ``wanted`` items, by item id, the best first; fewer if the legs find fewer."""
        collection, ranked, step = self._collection, dict[str, float](), FIRST_HITS
        indexed = And((where, await self._if_known(UNINDEXED, is_indexed())))
        while len(ranked) < wanted:
            limit = wanted if wanted < step <= collection.profile.depth else step
            hits = await collection.search(query, where=And((indexed, _none_of(ranked))), limit=limit, syntax=False)
            lowest = next(reversed(ranked.values())) if ranked else math.inf
            ranked |= {hit.item_id: min(hit.score, lowest) for hit in hits}
            if len(hits) < limit:
                break
            collection, step = self._collection.unrecorded(), MAX_LIMIT
        return ranked

    async def _namespaces(self, op: ListNamespacesOp, now: float) -> list[tuple[str, ...]]:
        await self._collection.refresh()
        conditions = [matching(condition.match_type, condition.path) for condition in op.match_conditions or ()]
        alive = await self._if_known(EXPIRES_AT, is_alive(now))
        where = And((within(_literal_prefix(op)), alive, *conditions))
        page = partial(paths, self._handle, NAMESPACE, where=where, depth=op.max_depth)
        try:
            return await _paged(page, op.limit, op.offset)
        except errors.UnknownFieldError:  # nothing was ever put
            return []

    async def _if_known(self, attribute: str, wanted: Filter) -> Filter:
        """The filter, if any item has its attribute; otherwise a filter that matches everything."""
        known = await self._collection.refresh(older_than_seconds=FRESH_SECONDS)
        return wanted if attribute in known.attributes else And(())


def checked_operation(op: Op) -> Op:
    """The operation, its namespaces as tuples of texts. Raises ``InvalidRequestError`` for an invalid operation."""
    match op:
        case GetOp() | PutOp():
            if not isinstance(op.key, str):
                raise errors.InvalidRequestError(f"a key is a text, not {written(op.key)}")
            return op._replace(namespace=checked_namespace(op.namespace))
        case SearchOp():
            _check_page(op.limit, op.offset)
            return op._replace(namespace_prefix=checked_namespace(op.namespace_prefix))
        case ListNamespacesOp():
            _check_page(op.limit, op.offset)
            _check_page(op.max_depth or 0, 0)
            each = [
                condition._replace(path=checked_namespace(condition.path)) for condition in op.match_conditions or ()
            ]
            return op._replace(match_conditions=tuple(each))
        case _:
            raise errors.InvalidRequestError(f"there is no operation {written(op)}")


def _check_page(limit: object, offset: object) -> None:
    for value in (limit, offset):
        if not is_whole(value, 0, 2**31 - 1):
            raise errors.InvalidLimitError(
                f"limit, offset and max_depth are whole numbers of at least 0, not {written(value)}"
            )


def _changes(ops: Sequence[Op], fields: Sequence[str], now: float) -> dict[str, Item | None]:
    puts = {item_id_of(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
    return {
        item_id: None if put.value is None else item_of(put, put.value, fields, now) for item_id, put in puts.items()
    }


def _is_there(stored: StoredItem, now: float) -> bool:
    return is_put(stored.item) and not is_expired(stored.item, now)


def _none_of(ids: Iterable[str]) -> Filter:
    each = tuple(ids)
    return Not(OneOf(_KEY, each)) if each else And(())


def _literal_prefix(op: ListNamespacesOp) -> list[str]:
    """The common beginning of the namespaces, as far as the conditions name it without a wildcard."""
    prefixes = [condition.path for condition in op.match_conditions or () if condition.match_type == "prefix"]
    literal = [list(takewhile(lambda part: part != "*", path)) for path in prefixes]
    return max(literal, key=len, default=[])


async def _paged(page: Callable[..., Awaitable[list[T]]], limit: int, offset: int) -> list[T]:
    """The wanted number of entries, fetched in pages of the largest size; ``page`` takes ``limit`` and ``offset``."""
    found: list[T] = []
    while len(found) < limit:
        size = min(MAX_LISTED, limit - len(found))
        more = await page(limit=size, offset=offset + len(found))
        found += more
        if len(more) < size:
            break
    return found


def _fields(index: IndexConfig | None) -> Sequence[str]:
    given = index or {}
    if foreign := sorted(set(given) - {"fields"}):
        raise errors.ConfigurationError(
            f"index takes 'fields' alone, not {foreign[0]!r}: the collection has its embedder, "
            "which retrieval.connect(embedder=...) or RETRIEVAL_EMBEDDER chooses"
        )
    fields = given.get("fields") or WHOLE
    if not are_paths(fields):
        raise errors.ConfigurationError(
            f"index: 'fields' is a list of paths such as ['text', 'more[*].note'], not {written(fields)}"
        )
    return tuple(fields)
