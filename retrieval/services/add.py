"""Adds items batch by batch, each in its own transaction, with the vectors that arrive soon."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from retrieval.adapters.aside import aside
from retrieval.adapters.embedders.cached import TEXTS_A_BUDGET, CachedEmbedder, is_patient
from retrieval.adapters.embedders.chosen import no_embedder
from retrieval.adapters.readers import item_from_record
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items import items as store
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import ARCHIVED, ItemWrite, Settled, WrittenItems
from retrieval.adapters.store.search.vectors import pending_among, pending_items
from retrieval.domain import checks
from retrieval.domain.errors import (
    EmbedderError,
    EmbedderUnavailableError,
    InvalidItemError,
    InvalidRequestError,
    InvalidVectorError,
    RetrievalError,
    WrongDimensionError,
)
from retrieval.domain.items.embedding import Vector, Vectors
from retrieval.domain.items.item import Became, Item, text_hash
from retrieval.domain.json_schema import AttributeSchema
from retrieval.domain.serialization import Serializable
from retrieval.domain.wording import several

_log = logging.getLogger(__name__)

EMBED_BATCH = 128
"""Texts embedded and stored at a time; an interruption loses at most this many."""

BATCH_ITEMS = 500
"""Items written in one transaction where the embedder is asked for their vectors."""

_BATCH_WITH_VECTORS, _AT_ONCE = 2000, 2
"""Items written in one transaction where their vectors are given, and how many such transactions run at a time."""

SOON_SECONDS = 1.0
"""Time that new items wait to be stored together with their vectors; after that they are stored without vectors."""

_FEW_SECONDS = 60.0
"""The longest time of the first call to the embedder in an addition of a few items, outside of jobs."""

_MANY_TO_CHECK = 50
"""The number of items whose check against a schema takes a few milliseconds."""

MOST_REFUSED = 5
"""If this many items of a call are refused, the cause is the embedder, not the items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReport(Serializable):
    """The outcome of an addition."""

    internal_fields = frozenset({"refused", "stopped", "settled", "token"})

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    embedded: int = 0
    """Vectors stored."""
    pending: int = 0
    """Items that are stored and searchable by words, and wait for their vector; an item without text waits for none."""
    repeated: int = 0
    """Ids that occur more than once; of each the last item counts."""
    cut: int = 0
    """Embedded items whose text is longer than their model reads; their vector is that of the text's beginning."""
    refused: int = 0
    """Pending items whose text or vector was refused."""
    stopped: bool = False
    """Whether calling the embedder again at once is useless: it does not answer, or refuses one item after another."""
    notes: tuple[str, ...] = field(default=())
    settled: Settled | None = field(default=None, compare=False, repr=False)
    """The collection's state after the last write; None: nothing was written."""
    token: str | None = field(default=None, compare=False)
    """A token; a search with it as ``after_write`` reads this write, on a replica too. None: there is no replica.
    """

    def __add__(self, other: AddReport) -> AddReport:
        counts = ("added", "changed", "unchanged", "embedded", "pending", "repeated", "cut", "refused")
        return AddReport(
            **{name: getattr(self, name) + getattr(other, name) for name in counts},
            stopped=self.stopped or other.stopped,
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
            settled=later(self.settled, other.settled),
            token=other.token or self.token,
        )

    def notes_on_waiting(self) -> tuple[str, ...]:
        """A note on the items that were left out after the embedder had refused one after another."""
        waiting = self.pending - self.refused
        if not (self.stopped and self.refused and waiting):
            return ()
        wait = "1 more item waits for its" if waiting == 1 else f"{waiting:,} more items wait for their"
        return (
            f"{wait} vector: the embedder was not called again after it had refused {several(self.refused, 'item')}",
        )


def repeated_among(ids: Iterable[str]) -> AddReport:
    """A note on the ids that occur more than once: the last item of each counts."""
    twice = [item_id for item_id, times in Counter(ids).items() if times > 1]
    return repeated_report(len(twice), twice[0] if twice else "")


def repeated_report(number: int, example: str = "") -> AddReport:
    """A note on that number of ids that occur more than once."""
    if not number:
        return AddReport()
    ids = "1 id appears" if number == 1 else f"{number:,} ids appear"
    shown = checks.written(example)
    shown_example = f", such as {shown}" if example and number > 1 else f" ({shown})" if example else ""
    return AddReport(repeated=number, notes=(f"{ids} more than once{shown_example}; the last of each was kept",))


HashedVectors = Mapping[str, tuple[bytes, Vector]]
"""Vectors by item id, each with the hash of its text."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes into one collection of one tenant."""

    database: Database
    tenant_id: int
    collection: StoredCollection
    embedder: CachedEmbedder | None
    asks: bool = True
    """Whether the embedder is called at all; if not, every new text stays pending."""
    goes_on: bool = False
    """Whether its writes are parts of a larger write, whose end updates the statistics."""
    on_embedded: Callable[[AddReport], None] | None = None
    """Called with the report of each part that was embedded or refused."""
    on_added: Callable[[Iterable[str]], None] | None = None
    """Called with the ids of the items of each transaction that did not exist before it."""

    async def add(self, batch: Sequence[Item], vectors: Vectors | None = None) -> AddReport:
        """Store the items that are new or changed; embed them and those that an earlier call left pending.

        Of items with the same key the last counts. ``vectors``, shape (len(batch), dimensions), are used instead of
        the embedder's. An embedder that fails leaves the items stored, searchable by words, and pending.
        """
        return (await self.add_beside(batch, vectors))[0]

    async def add_beside(
        self, batch: Sequence[Item], vectors: Vectors | None = None, *, only_new: bool = False
    ) -> tuple[AddReport, WrittenItems]:
        """Store items as ``add`` does; returns the write too. Raises ``ItemIsThereError`` if a new item exists."""
        await self.check(batch)
        positions = {item.item_id: position for position, item in enumerate(batch)}
        items = [batch[position] for position in positions.values()]
        if self.collection.space is None:
            return await self._store(items, only_new=only_new)
        if vectors is not None:
            vectors_by_id = {
                item.item_id: vectors[positions[item.item_id]] for item in items if item.status != ARCHIVED
            }
            report, written = await self._store(items, vectors_by_id, only_new=only_new)
            return replace(report, embedded=written.embedded), written
        return await self._add_embedding(items, only_new=only_new)

    @property
    def place(self) -> CollectionPlace:
        """The collection, as functions of the store take it."""
        return CollectionPlace(self.database, self.tenant_id, self.collection.collection_id)

    async def check(self, items: Sequence[Item]) -> None:
        """Raise ``InvalidItemError`` for the first item whose attributes do not fit the collection's schema."""
        schema = self.collection.schema
        if schema is not None:
            await aside(lambda: schema.check_each(items), is_long=len(items) >= _MANY_TO_CHECK)

    async def _add_embedding(self, items: Sequence[Item], *, only_new: bool) -> tuple[AddReport, WrittenItems]:
        """Store items together with the vectors that come soon, and the other vectors when they come."""
        ids = [item.item_id for item in items]
        known = {} if only_new else await store.stored_hashes(self.place, ids)
        formers = {item_id: hashes.content_hash for item_id, hashes in known.items()}
        changed = [item for item in items if formers.get(item.item_id) != item.content_hash]
        texts = {item_id: hashes.text_hash for item_id, hashes in known.items()}
        fresh = [
            item
            for item in changed
            if item.status != ARCHIVED and texts.get(item.item_id) != text_hash(item.indexed_text)
        ]
        soon: dict[str, Vector] = {}
        is_late, is_stored = asyncio.Event(), asyncio.Event()

        async def keep(vectors: HashedVectors) -> None:
            if is_late.is_set():
                await is_stored.wait()
                await self._store_vectors(vectors)
            else:
                soon.update({item_id: vector for item_id, (_, vector) in vectors.items()})

        embedding = asyncio.create_task(self.embed(fresh, keep))
        try:
            await asyncio.wait({embedding}, timeout=SOON_SECONDS)
            is_late.set()
            stored, written = await self._store(changed, soon, only_new=only_new)
            is_stored.set()
            report = await embedding
        finally:
            embedding.cancel()
            with suppress(BaseException):
                await embedding
        report += replace(stored, unchanged=stored.unchanged + len(items) - len(changed))
        written = replace(written, formers={**formers, **written.formers})
        return report + await self.embed(await self.left_over(items, fresh)), written

    def after(self, report: AddReport) -> Writer:
        """The writer after that report: if the embedder has stopped, it is not asked, and items are left pending."""
        return replace(self, asks=False) if report.stopped else self

    def followed(self, advance: Callable[[AddReport], None] | None) -> Writer:
        """The writer, which calls ``advance`` with the vectors made and refused so far."""
        if advance is None:
            return self
        so_far = AddReport()

        def embedded(part: AddReport) -> None:
            nonlocal so_far
            so_far += part
            advance(so_far)

        return replace(self, on_embedded=embedded)

    async def embed_pending(self, report: AddReport) -> AddReport:
        """Embed the pending items, unless the embedder does not answer or has refused items of this run."""
        if report.pending:
            return report
        after = ""
        while not report.stopped and (page := await self.next_pending(after)):
            report += await self.embed(page)
            after = page[-1].item_id
        return report

    async def embed(
        self, items: Sequence[Item], keep: Callable[[HashedVectors], Awaitable[None]] | None = None
    ) -> AddReport:
        """Embed stored items, and store the vectors; ``keep``, if given, gets the vectors of each part instead.

        An item whose text or vector is refused, or that the embedder fails on while it answers other texts, stays
        pending and is named in the notes; the other items are embedded. After a failure each half of the items has
        half of the time, so that an item for which the embedder hangs costs about twice the time of the first call.
        An embedder that does not answer, or that refuses one item after another, is not called again.
        """
        space = self.collection.space
        items = [item for item in items if item.indexed_text]
        if space is None or not items:
            return AddReport()
        if self.embedder is None or not self.asks:
            missing = f"{no_embedder(space.space)}, or re-embed the collection to another space"
            return AddReport(pending=len(items), notes=(missing,) if self.embedder is None else ())
        report, refused = AddReport(), dict[str, list[str]]()
        most = _FEW_SECONDS if len(items) <= TEXTS_A_BUDGET and not is_patient() else math.inf
        parts = [(items[start : start + EMBED_BATCH], most) for start in range(0, len(items), EMBED_BATCH)]
        while parts and not report.stopped:
            part, seconds = parts.pop(0)
            began = time.monotonic()
            texts, keys = [item.indexed_text for item in part], [repr(item.item_id) for item in part]
            try:
                vectors = await self.embedder.embed_documents(texts, keys, seconds=seconds)
            except (EmbedderError, InvalidVectorError, WrongDimensionError) as error:
                if isinstance(error, EmbedderUnavailableError):
                    seconds = (time.monotonic() - began) / 2
                if await _is_useless(self.embedder, error):
                    note = f"embedding stopped: {error}"
                    _log.info("%s", note)  # as information, because the report has it too
                    done = AddReport(pending=len(part), stopped=True, notes=(note,))
                elif len(part) > 1:
                    middle = len(part) // 2
                    parts[:0] = [(part[:middle], seconds), (part[middle:], seconds)]
                    continue
                else:
                    refused.setdefault(str(error), []).append(keys[0])
                    done = AddReport(pending=1, refused=1, stopped=sum(map(len, refused.values())) >= MOST_REFUSED)
            else:
                measure = await self.embedder.measure()
                done = AddReport(embedded=len(part), cut=await asyncio.to_thread(measure.number_cut, texts))
                hashed = zip(map(text_hash, texts), vectors, strict=True)
                await (keep or self._store_vectors)(dict(zip([item.item_id for item in part], hashed, strict=True)))
            if self.on_embedded is not None:
                self.on_embedded(done)
            report += done
        return report + AddReport(pending=sum(len(part) for part, _ in parts), notes=_refusal_notes(refused))

    async def _store_vectors(self, vectors: HashedVectors) -> None:
        if self.collection.space is not None:
            where = (self.collection.collection_id, self.collection.space.space_id)
            await self.database.write(self.tenant_id, store.vectors_statement(*where, vectors))

    async def next_pending(self, after: str, limit: int = EMBED_BATCH) -> list[Item]:
        """The next items, in order of key, that wait for their vector."""
        space = self.collection.space
        if space is None:
            return []
        return await pending_items(self.place, space, after=after, limit=limit)

    async def left_over(self, items: Sequence[Item], fresh: Sequence[Item] = ()) -> list[Item]:
        """The items, without ``fresh``, whose vector an earlier call could not get."""
        space = self.collection.space
        unchanged = {item.item_id for item in items} - {item.item_id for item in fresh}
        if space is None or not unchanged:
            return []
        waiting = await pending_among(self.place, space, sorted(unchanged))
        return [item for item in items if item.item_id in waiting]

    async def _store(
        self, items: Sequence[Item], vectors: Mapping[str, Vector] | None = None, *, only_new: bool = False
    ) -> tuple[AddReport, WrittenItems]:
        if not items:
            return AddReport(), WrittenItems({}, 0, None)
        collection = self.collection
        write = ItemWrite(collection.collection_id, items, collection.space_id, vectors, only_new, self.goes_on)
        written = await store.store_items(self.database, self.tenant_id, write)
        formers = written.formers
        # An item's hash is computed at each access, and most items of a load are new.
        unchanged = sum(item.item_id in formers and formers[item.item_id] == item.content_hash for item in items)
        added = len(items) - len(formers)
        if self.on_added is not None:
            self.on_added(item.item_id for item in items if item.item_id not in formers)
        report = AddReport(
            added=added, changed=len(items) - added - unchanged, unchanged=unchanged, settled=written.settled
        )
        return report, written


async def _is_useless(embedder: CachedEmbedder, error: RetrievalError) -> bool:
    """Whether calling the embedder with other texts is useless after this error.

    A server may fail on a single text again and again: Ollama answers 500 if a model makes a vector of NaN.
    """
    if isinstance(error, EmbedderUnavailableError):
        return not await embedder.answers()
    return isinstance(error, WrongDimensionError)


async def add_in_parts(writer: Writer, items: Sequence[Item], vectors: Vectors | None = None) -> AddReport:
    """Store any number of items, each part in its own transaction, as ``Writer.add`` does.

    Parts with given vectors are written two at a time, each over its own connection. The first part is written alone,
    because the others use facts that it stores about the collection, such as the length of its texts. After a failed
    part no other part begins.
    """
    size, at_once = (BATCH_ITEMS, 1) if vectors is None else (_BATCH_WITH_VECTORS, _AT_ONCE)
    if len(items) <= size:
        return await writer.add(items, vectors)
    await writer.check(items)
    positions = list({item.item_id: position for position, item in enumerate(items)}.values())
    first, *others = _split(positions, size, at_once)
    waiting = iter(others)

    async def add(part: Sequence[int], before: AddReport) -> AddReport:
        part_vectors = None if vectors is None else vectors[part]
        part_writer = replace(writer.after(before), goes_on=True)
        return await part_writer.add([items[position] for position in part], part_vectors)

    async def add_waiting(before: AddReport) -> AddReport:
        report = AddReport()
        for part in waiting:
            try:
                report += await add(part, before + report)
            except BaseException:
                list(waiting)  # the other task stops after its part
                raise
        return report

    report = await add(first, AddReport())
    outcomes = await asyncio.gather(*(add_waiting(report) for _ in range(at_once)), return_exceptions=True)
    drift = await store.settle(writer.place, len(items))
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        report += outcome
    return report if report.settled is None else replace(report, settled=replace(report.settled, drift=drift))


def _split(positions: Sequence[int], size: int, at_once: int) -> list[Sequence[int]]:
    """A first part of ``size`` items, then equal parts of at most ``size`` that ``at_once`` workers share evenly."""
    remaining = len(positions) - size
    count = math.ceil(remaining / size / at_once) * at_once
    ends = [size, *(size + remaining * number // count for number in range(1, count + 1))]
    return [positions[start:end] for start, end in pairwise([0, *ends])]


def later(settled: Settled | None, other: Settled | None) -> Settled | None:
    """The collection's state after both writes."""
    if settled is None or other is None:
        return other or settled
    return replace(other, has_new_fields=settled.has_new_fields or other.has_new_fields)


def _refusal_notes(refused: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A note on the refused items of each reason, by their quoted ids."""
    notes = []
    for reason, keys in refused.items():
        items = f"item {keys[0]} is" if len(keys) == 1 else f"{len(keys)} items, such as {keys[0]}, are"
        notes.append(f"{items} not embedded: {reason}")
        _log.info("%s", notes[-1])
    return tuple(notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome:
    """The outcome of one item of many: ``became`` or ``error`` is set."""

    item_id: str | None
    """None where the input has no usable id."""
    became: Became | None = None
    error: InvalidRequestError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedEach:
    """The outcomes of many items."""

    outcomes: tuple[ItemOutcome, ...] = ()
    """The outcomes in the order of the items."""
    report: AddReport = field(default_factory=AddReport)
    """The report on the items that were not refused."""


async def add_each(writer: Writer, records: Sequence[Item | Mapping[str, Any]]) -> AddedEach:
    """Store the valid items in one transaction, then embed them; report the outcome of each item.

    Of items with the same id the last one stays; each has the outcome that it would have had alone.
    """
    schema = writer.collection.schema
    many = schema is not None and len(records) >= _MANY_TO_CHECK
    checked = await aside(lambda: [_check_item(entry, schema) for entry in records], is_long=many)
    items = [item for item in checked if isinstance(item, Item)]
    if not items:
        return AddedEach(outcomes=tuple(outcomes_of(checked, {})))
    report, written = await writer.add_beside(items)
    return AddedEach(outcomes=tuple(outcomes_of(checked, written.formers)), report=report)


def outcomes_of(checked: Sequence[Item | InvalidItemError], known: Mapping[str, bytes]) -> list[ItemOutcome]:
    """The outcome of each item in turn; ``known`` holds the content hashes of stored items. Pure."""
    stored, outcomes = dict(known), []
    for entry in checked:
        if isinstance(entry, InvalidItemError):
            outcomes.append(ItemOutcome(item_id=entry.item_id, error=entry))
            continue
        former = stored.get(entry.item_id)
        stored[entry.item_id] = entry.content_hash
        outcomes.append(ItemOutcome(item_id=entry.item_id, became=store.became(former, entry.content_hash)))
    return outcomes


def checked_items(items: object) -> list[Any]:
    """The elements of a list or another iterable of items. Raises ``InvalidItemError`` for anything else."""
    if isinstance(items, Mapping | Item | str | bytes) or not isinstance(items, Iterable):
        kind = "as a single dictionary" if isinstance(items, Mapping) else f"as {type(items).__name__}"
        raise InvalidItemError(f'items come in a list, such as [{{"id": "1", "text": "..."}}], not {kind}')
    return list(items)


def as_item(record: object) -> Item:
    """The item itself, or the item of a dictionary in the ingest format. Raises ``InvalidItemError``."""
    if isinstance(record, Item):
        return record
    if isinstance(record, Mapping):
        return item_from_record(record)
    raise InvalidItemError(f"an item must be an Item or a dictionary, not {type(record).__name__}")


def _check_item(record: object, schema: AttributeSchema | None) -> Item | InvalidItemError:
    try:
        item = as_item(record)
        if schema is not None:
            schema.check(item)
    except InvalidItemError as error:
        return error
    return item
