"""Moves a collection to another embedding space while it is searched and written: fill, compare, switch, remove.

The remaining work follows from what is stored: the items that have no vector of their text in a space. So a killed
process loses at most one batch, and the next run of the job continues. See docs/decisions/0035-reembedding.md.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from math import inf, log2
from statistics import fmean
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.embedders.chosen import no_embedder
from retrieval.adapters.store.database import CollectionPlace, Connection
from retrieval.adapters.store.items.collections import StoredCollection, collection_by_id, collection_in_space
from retrieval.adapters.store.items.items import hold_writers, vectors_statement
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.adapters.store.search import reembeddings as store
from retrieval.adapters.store.search.recall import Sample, probe
from retrieval.adapters.store.search.reembeddings import (
    PAUSED,
    REMOVING,
    ReembeddingProgress,
    ReembeddingState,
    StoredReembedding,
    Switching,
)
from retrieval.adapters.store.search.vectors import StoredSpace, count_pending, pending_statement
from retrieval.domain.checks import checked_number, checked_whole, choices_hint, is_finite
from retrieval.domain.errors import (
    Advice,
    ConflictError,
    DatabaseError,
    EmbedderError,
    InvalidRequestError,
    InvalidVectorError,
    NotFoundError,
    RetrievalError,
)
from retrieval.domain.items.collection import IndexKind
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole
from retrieval.domain.items.item import Item, text_hash
from retrieval.domain.search.hit import Path
from retrieval.domain.search.relevance import SHIPPED
from retrieval.domain.serialization import Serializable
from retrieval.domain.wording import several
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.record import request_of
from retrieval.engine.request import SearchRequest
from retrieval.engine.search import Searcher
from retrieval.services.add import EMBED_BATCH, AddReport, HashedVectors, Writer
from retrieval.services.index_recall import dense_request
from retrieval.services.indexes import GRAPH_BYTES, RECALL_PROMISED, IndexOutcome, drop_indexes, index_rows, keep_index
from retrieval.services.workplace import JobTarget, Workplace

_log = logging.getLogger(__name__)

COMPARED, DEPTH, CONDENSED = 100, 10, 100
"""The number of recorded questions that are compared, of hits of each, and of hits searched for verdicts."""

LOST_NDCG = 0.01
"""A target space whose nDCG is lower by this much is not switched to automatically."""

_OTHER_SPACE = "the next run tries again; if the target is the wrong space, abort, and begin again with another one"
_TRIES = 20
_LAST_ITEMS_SECONDS = 10.0
"""The longest that writers wait for the vectors of the last items while the collection is switched."""
_REMOVED_AT_ONCE = 500
_KEPT_STATES = (ReembeddingState.FILLING, ReembeddingState.READY, ReembeddingState.SWITCHED)
_BEFORE_SWITCH = (ReembeddingState.FILLING, ReembeddingState.READY)
_ROW_BYTES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembeddingCost(Serializable):
    """The cost of the vectors that a space still lacks."""

    target: str
    items: int
    """Items that have no vector there."""
    without_text: int
    """Items without title and text that have a caller's vector, which is not moved."""
    texts: int
    """Distinct texts of these items that the embedder would be asked for; the others' vectors are cached."""
    tokens: int
    """Tokens of these texts, as the embedder counts or estimates them."""
    price: float | None
    """The price of the tokens; None: no price of a million was given."""
    vector_bytes: int
    """Room for the vectors and, where the collection is large enough for one, for its index."""
    minutes: float | None
    """The time that the tokens take at the rate; None: no rate was given."""
    days: int | None
    """The number of days over which the budget spreads them; None: no budget was given."""
    note: str
    """The reason why a switch would be refused, and the remedy; empty: it would not be refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceComparison(Serializable):
    """The space in use and the target, asked the same recorded questions."""

    questions: int
    overlap: float | None
    """0 to 1: the mean share of the first ten hits that both have; None: no question is recorded."""
    judged: int
    """Questions with verdicts from feedback."""
    ndcg_in_use: float | None
    """nDCG@10 of the items with a verdict, as the space in use ranks them; None: there are no verdicts."""
    ndcg_target: float | None
    recall: float | None
    """0 to 1: the share of the target's true nearest items that its index finds; None: no question is recorded."""
    is_exact: bool
    """Whether searches of the target compare all vectors, without an index."""

    @property
    def compares_well(self) -> bool:
        """Whether the comparison allows the switch."""
        is_found = self.recall is None or self.recall >= RECALL_PROMISED
        if self.ndcg_in_use is None or self.ndcg_target is None:
            return is_found
        return is_found and self.ndcg_target >= self.ndcg_in_use - LOST_NDCG


@dataclass(frozen=True, slots=True, kw_only=True)
class Reembedding(ReembeddingProgress):
    """The state of a collection's re-embedding."""

    collection: str
    former: str
    target: str
    items: int
    pending: int
    """Items that wait for their vector in the space being filled: the target, after the switch the former space."""
    without_text: int
    """Items without title and text whose caller's vector is in the former space only; it is not moved."""
    spent_today: int
    """Tokens of the day's budget (UTC) that are spent."""
    removes_at: datetime | None
    """The time when the vectors of the former space are removed; None: not switched, or a worker removes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The speed at which a space is filled, and what it may cost. Raises ``InvalidRequestError``."""

    batch_texts: int = EMBED_BATCH
    """Texts embedded and stored at a time, 1 to 128."""
    tokens_a_minute: int | None = None
    tokens_a_day: int | None = None
    """The budget of a day (UTC), 1 or more; None: no budget."""
    keep_days: float = 7.0
    """Time that the former space is kept after the switch."""

    def __post_init__(self) -> None:
        for name, most in (("batch_texts", EMBED_BATCH), ("tokens_a_minute", 2**62), ("tokens_a_day", 2**62)):
            value = getattr(self, name)
            if value is not None or name == "batch_texts":
                checked_whole(name, value, 1, most)
        checked_number("keep_days", self.keep_days, 3650)


async def cost_of(
    workplace: Workplace, target: JobTarget, space: StoredSpace, pace: Pace, price: float | None
) -> ReembeddingCost:
    """The cost of filling that space now. Every text without a vector there is read; no embedder is asked."""
    if price is not None and not (is_finite(price) and price >= 0):
        raise InvalidRequestError(f"price is {price!r:.80}; it must be a number, 0 or more")
    run, in_use = await _beginning(workplace, target, space)
    embedder = run.needed_embedder(space)
    writer = await run.writer(space, embedder)
    seen: set[int] = set()
    items = texts = tokens = 0
    after = ""
    while page := await writer.next_pending(after, limit=_REMOVED_AT_ONCE):
        fresh = await embedder.uncached([item.indexed_text for item in page], TextRole.DOCUMENT)
        new = {int.from_bytes(text_hash(text)[:8], "big"): text for text in fresh}
        new_texts = [text for number, text in new.items() if number not in seen]
        seen |= set(new)
        items, texts = items + len(page), texts + len(new_texts)
        tokens += sum(await _counts(embedder, new_texts))
        after = page[-1].item_id
    return ReembeddingCost(
        target=space.space.name,
        items=items,
        without_text=await store.count_without_text(run.place, in_use, space),
        texts=texts,
        tokens=tokens,
        price=None if price is None else round(tokens * price / 1e6, 4),
        vector_bytes=items * _vector_bytes(writer.collection, space.space.dimensions),
        minutes=None if pace.tokens_a_minute is None else round(tokens / pace.tokens_a_minute, 2),
        days=None if pace.tokens_a_day is None else -(-tokens // pace.tokens_a_day),
        note=await _lost_calibration(run, space.space),
    )


def note_on_items_without_text(number: int) -> str:
    """A note that a re-embedding does not move the callers' vectors of that many items; empty: there are none."""
    if not number:
        return ""
    return (
        f"{several(number, 'item')} without text: vectors that a caller gave are not moved; give vectors of the target "
        "after the switch, by add(items, embeddings=...)"
    )


def _vector_bytes(stored: StoredCollection, dimensions: int) -> int:
    if stored.documents < index_rows(dimensions):
        return 2 * dimensions + _ROW_BYTES
    indexed = dimensions // 8 if stored.index_kind is IndexKind.QUANTISED else 2 * dimensions
    return 2 * dimensions + _ROW_BYTES + indexed + GRAPH_BYTES


async def begin(workplace: Workplace, target: JobTarget, space: StoredSpace, pace: Pace, *, switches: bool) -> None:
    """Begin to fill the space beside the one in use; the job does the rest. Raises ``InvalidRequestError``."""
    run, _ = await _beginning(workplace, target, space)
    options = {
        "switching": (Switching.BY_ITSELF if switches else Switching.WHEN_ASKED).value,
        "batch_texts": pace.batch_texts,
        "tokens_a_minute": pace.tokens_a_minute,
        "tokens_a_day": pace.tokens_a_day,
        "keep_seconds": round(pace.keep_days * 86400),
    }
    if not await store.begin_reembedding(run.place, space, options):
        await _beginning(workplace, target, space)  # another process was faster
        raise ConflictError(f"collection {target.collection.name!r} changed meanwhile: begin again")


async def _beginning(workplace: Workplace, target: JobTarget, space: StoredSpace) -> tuple[_Run, StoredSpace]:
    """The run of a re-embedding that can begin, and the space in use. Raises ``InvalidRequestError`` if it cannot."""
    collection = target.collection
    if collection.space is None:
        raise InvalidRequestError(f"collection {collection.name!r} has no embedding space; add items with an embedder")
    if collection.space == space:
        raise InvalidRequestError(f"collection {collection.name!r} is in the space {space.space.name} already")
    run = _Run(workplace, workplace.place(target))
    run.needed_embedder(space)
    row = await store.find_reembedding(run.place)
    if row is not None and row.state in _ENDED_BY:
        error = InvalidRequestError(f"a re-embedding of {collection.name!r} is {row.state.value} still")
        raise error.advising(Advice.END_REEMBEDDING, name=shlex.quote(collection.name), action=_ENDED_BY[row.state])
    return run, collection.space


async def look_at(workplace: Workplace, target: JobTarget) -> Reembedding:
    """The state of the collection's re-embedding, or of the last one. Raises ``NotFoundError`` without one."""
    run = _Run(workplace, workplace.place(target))
    row = await _known(run, target)
    is_kept = row.state in _KEPT_STATES
    pending = await count_pending(run.place, row.spare) if is_kept else 0
    without_text = await store.count_without_text(run.place, row.former, row.target) if is_kept else 0
    return Reembedding(
        collection=target.collection.name,
        former=row.former.space.name,
        target=row.target.space.name,
        items=target.collection.documents,
        pending=pending,
        without_text=without_text,
        spent_today=row.spent(run.today),
        removes_at=_removal_time(row),
        **{each.name: getattr(row, each.name) for each in fields(ReembeddingProgress)},
    )


async def change(workplace: Workplace, target: JobTarget, action: str) -> None:
    """Do one of ``ACTIONS``. Raises ``InvalidRequestError`` where it is too early or too late for the action."""
    run = _Run(workplace, workplace.place(target))
    if action not in ACTIONS:
        known = choices_hint(action, ("status", "run", *ACTIONS))
        raise InvalidRequestError(f"there is no action {action!r:.40} of a re-embedding; {known}")
    row = await _known(run, target)
    if action == "rollback":
        is_done = await store.switch_back(run.place)
        if is_done:
            await store.carry_clusters(run.place, former=row.target, target=row.former)
    else:
        if action == "switch" and (reason := await _lost_calibration(run, row.target.space)):
            raise InvalidRequestError(reason)
        is_done = await store.change_reembedding(run.place, *_CHANGES[action])
    if not is_done:
        row = await _known(run, target)
        others = ", ".join(possible_actions(row)) or "to begin another one"
        raise InvalidRequestError(
            f"the re-embedding of {target.collection.name!r} cannot do {action!r} now: it is {row.state.value}; "
            f"possible now: {others}"
        )


def _removal_time(row: StoredReembedding) -> datetime | None:
    if row.switched_at is None or row.state is not ReembeddingState.SWITCHED:
        return None
    return row.switched_at + timedelta(seconds=row.keep_seconds)


async def _known(run: _Run, target: JobTarget) -> StoredReembedding:
    row = await store.find_reembedding(run.place)
    if row is None:
        name = target.collection.name
        error = NotFoundError(f"collection {name!r} has no re-embedding")
        raise error.advising(Advice.BEGIN_REEMBEDDING, name=shlex.quote(name))
    return row


_REMOVING = {"state": ReembeddingState.REMOVING.value, "is_paused": False, "note": REMOVING}
_CHANGES: Mapping[str, tuple[Sequence[ReembeddingState], Mapping[str, Any]]] = {
    "pause": ((*_KEPT_STATES, ReembeddingState.REMOVING), {"is_paused": True, "note": PAUSED}),
    "resume": ((*_KEPT_STATES, ReembeddingState.REMOVING), {"is_paused": False, "note": ""}),
    "switch": (_BEFORE_SWITCH, {"switching": Switching.NOW.value, "is_paused": False, "note": ""}),
    "abort": (_BEFORE_SWITCH, _REMOVING),
    "finish": ((ReembeddingState.SWITCHED,), _REMOVING),
}
_ENDED_BY = {
    **dict.fromkeys(_BEFORE_SWITCH, "abort"),
    ReembeddingState.SWITCHED: "finish",
    ReembeddingState.REMOVING: "run",
}
"""The action that ends a re-embedding, by its state, at once or after others."""
ACTIONS = (*_CHANGES, "rollback")
"""The actions on a re-embedding that is under way."""


def possible_actions(reembedding: ReembeddingProgress) -> list[str]:
    """The ``ACTIONS`` that are possible at this stage."""
    rollback = ["rollback"] if reembedding.state is ReembeddingState.SWITCHED else []
    useless = "resume" if not reembedding.is_paused else "pause"
    return [
        name for name, (states, _) in _CHANGES.items() if reembedding.state in states and name != useless
    ] + rollback


async def wait_for_switch(workplace: Workplace, target: JobTarget, seconds: float) -> None:
    """Wait at most that long until another process has switched, or has noted why it does not."""
    run = _Run(workplace, workplace.place(target))
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        row = await store.find_reembedding(run.place)
        if row is None or row.note or row.is_paused or row.switching is not Switching.NOW:
            return
        await asyncio.sleep(0.2)


async def is_reembedding_due(workplace: Workplace, target: JobTarget) -> bool:
    """Whether a re-embedding has work to do."""
    run = _Run(workplace, workplace.place(target))
    row = await store.find_reembedding(run.place)
    if row is None or row.is_paused or row.state.is_over:
        return False
    # The reason against an automatic switch may be gone by now.
    waits = row.state is ReembeddingState.READY and row.switching is Switching.WHEN_ASKED and row.comparison is not None
    if not waits and row.state is not ReembeddingState.SWITCHED:
        return True
    return run.is_over(row) or bool(await count_pending(run.place, row.spare))


async def reembed(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
    """Continue the collection's re-embedding until it has to wait: for the next day, a person or an embedder."""
    run = _Run(workplace, workplace.place(target))
    while True:
        row = await store.find_reembedding(run.place)
        if row is None or row.is_paused or row.state.is_over:
            break
        if not await _STEPS[row.state](run, row):
            break
        workplace.end_of_step()
    row = await store.find_reembedding(run.place)
    note = {"note": row.note} if row and row.note else {}
    return {} if row is None else {"state": row.state.value, "embedded": run.embedded} | note


@dataclass(slots=True)
class _Run:
    workplace: Workplace
    place: CollectionPlace
    embedded: int = 0

    @property
    def today(self) -> date:
        return self.workplace.now().astimezone(UTC).date()

    def is_over(self, row: StoredReembedding) -> bool:
        removes_at = _removal_time(row)
        return removes_at is not None and self.workplace.now() >= removes_at

    async def collection_in(self, space: StoredSpace) -> StoredCollection:
        stored = await collection_in_space(self.place, space.space_id)
        if stored is None:
            raise InvalidRequestError("the collection was removed")
        return stored

    async def writer(self, space: StoredSpace, embedder: CachedEmbedder) -> Writer:
        return Writer(self.place.database, self.place.tenant_id, await self.collection_in(space), embedder)

    def needed_embedder(self, space: StoredSpace) -> CachedEmbedder:
        embedder = self.workplace.embedder_of(self.place.tenant_id, space)
        if embedder is None:
            raise InvalidRequestError(
                f"this process has no embedder for the space {space.space.name}: set RETRIEVAL_EMBEDDER, and keys, "
                "wherever the collection is searched; it keeps its own until it is switched"
            )
        return embedder

    async def wait(self, why: str, states: Sequence[ReembeddingState] = _KEPT_STATES) -> None:
        """Store the reason why the re-embedding waits, if it is in one of these states and not paused."""
        await store.note_reembedding(self.place, why, states)


async def _fill_step(run: _Run, row: StoredReembedding) -> bool:
    """Fill the target space, index it, carry over what was learned, and compare; then perhaps switch."""
    if not await _fill(run, row.target):
        return False
    shadow = await run.collection_in(row.target)
    outcome = await keep_index(run.place.database, run.place.tenant_id, shadow)
    if outcome is IndexOutcome.BEING_BUILT:
        await run.wait("another process builds an index on the same table; the index is built after that")
        return False
    run.workplace.end_of_step()
    await store.carry_clusters(run.place, former=row.former, target=row.target)
    if row.switching is Switching.NOW:
        return await _switch(run, row)
    is_compared = row.comparison is not None and row.state is ReembeddingState.READY
    compared = SpaceComparison(**row.comparison or {}) if is_compared else await _compare(run, row)
    if compared is None:
        return False
    by_itself = row.switching is Switching.BY_ITSELF
    against = await _against_switching(run, row, compared, outcome) if by_itself else ""
    changes = {"state": ReembeddingState.READY.value, "comparison": Jsonb(compared.as_dict()), "note": against}
    if by_itself and not against:
        changes["switching"] = Switching.NOW.value  # an interrupted switch is tried again
    if not await store.change_reembedding(run.place, _BEFORE_SWITCH, changes):
        return True
    _log.info("collection %s is filled in %s: %s", shadow.name, row.target.space.name, outcome.value)
    return by_itself and not against and await _switch(run, row)


async def _against_switching(
    run: _Run, row: StoredReembedding, compared: SpaceComparison, outcome: IndexOutcome
) -> str:
    if outcome is IndexOutcome.NOT_ALLOWED:
        return f"the target space has no index: {outcome.value}; or switch without it"
    if not compared.compares_well:
        return "it compares worse than the space in use: look at it, then switch or abort"
    return await _lost_calibration(run, row.target.space)


async def _keep_step(run: _Run, row: StoredReembedding) -> bool:
    """Keep both spaces filled after the switch, as long as the former one is kept."""
    if run.is_over(row):
        changes = {"state": ReembeddingState.REMOVING.value}
        await store.change_reembedding(run.place, [ReembeddingState.SWITCHED], changes)
        return True
    # Items of a process that did not know of the switch yet are pending in the new space.
    await _fill(run, row.target)
    if await _fill(run, row.former):
        await store.carry_clusters(run.place, former=row.target, target=row.former)
    return False


async def _remove_step(run: _Run, row: StoredReembedding) -> bool:
    space = row.spare
    if not await drop_indexes(run.place, space):
        await run.wait(
            f"the indexes of the space {space.space.name} cannot be dropped: one is being built, or the login does not "
            "own the table; run a worker as the owner",
            [ReembeddingState.REMOVING],
        )
        return False
    while await store.remove_next_vectors(run.place, space, _REMOVED_AT_ONCE):
        run.workplace.end_of_step()
        latest = await store.find_reembedding(run.place)
        if latest is None or latest.is_paused:
            return False
    await store.forget_space(run.place, space)
    changes = {"state": ReembeddingState.DONE.value, "note": ""}
    await store.change_reembedding(run.place, [ReembeddingState.REMOVING], changes)
    return False


_STEPS = {
    ReembeddingState.FILLING: _fill_step,
    ReembeddingState.READY: _fill_step,
    ReembeddingState.SWITCHED: _keep_step,
    ReembeddingState.REMOVING: _remove_step,
}


async def _fill(run: _Run, space: StoredSpace) -> bool:
    """Embed the items that wait in the space; False: the job has to wait, and the note says for what.

    A batch is stored when it is done, and its vectors are cached before that, so that no text is paid for twice.
    """
    embedder = run.workplace.embedder_of(run.place.tenant_id, space)
    if embedder is None:
        await run.wait(no_embedder(space.space))
        return False
    writer = await run.writer(space, embedder)
    after, report = "", AddReport()
    while True:
        row = await store.find_reembedding(run.place)
        if row is None or row.is_paused or row.state not in _KEPT_STATES:
            return False
        page = await writer.next_pending(after, limit=row.batch_texts)
        if not page:
            break
        began = asyncio.get_running_loop().time()
        some, tokens = await _affordable(run, row, embedder, page)
        if not some:
            return False
        done = await writer.embed(some)
        report += done
        run.embedded += done.embedded
        run.workplace.advance(run.embedded)
        if done.pending:
            await _give_back(run, embedder, [item.indexed_text for item in some], TextRole.DOCUMENT)
        if done.stopped:
            why = "; ".join(done.notes)[:500]
            await run.wait(f"{why}; {_OTHER_SPACE}" if done.refused else why)
            return False
        after = some[-1].item_id
        await _pass_time(run, began + tokens * 60 / (row.tokens_a_minute or inf))
        run.workplace.end_of_step()
    if report.pending:
        refused = f"the embedder refuses {several(report.pending, 'item')}: change, archive or remove what it refuses"
        await run.wait(f"{refused} ({'; '.join(report.notes)[:500]})")
        return False
    if row.note:
        await run.wait("")
    return True


async def _pass_time(run: _Run, until: float) -> None:
    while (left := until - asyncio.get_running_loop().time()) > 0:
        run.workplace.end_of_step()
        await asyncio.sleep(min(left, 0.5))


async def _affordable(
    run: _Run, row: StoredReembedding, embedder: CachedEmbedder, page: Sequence[Item]
) -> tuple[Sequence[Item], int]:
    """The first items for which the day's budget is enough, and their tokens, which are reserved."""
    uncached = await embedder.uncached([item.indexed_text for item in page], TextRole.DOCUMENT)
    counts = dict(zip(uncached, await _counts(embedder, uncached), strict=True))
    budget = None if row.tokens_a_day is None else row.tokens_a_day - row.spent(run.today)
    affordable: list[Item] = []
    tokens, texts = 0, set[str]()
    for item in page:
        more = 0 if item.indexed_text in texts else counts.get(item.indexed_text, 0)
        if budget is not None and tokens + more > budget:
            break
        affordable.append(item)
        tokens += more
        texts |= {item.indexed_text} & counts.keys()
    if tokens and not await store.set_tokens_aside(run.place, tokens=tokens, texts=len(texts), today=run.today):
        affordable = []
    if not affordable:
        item_id, first = page[0].item_id, counts.get(page[0].indexed_text, 0)
        why = f"the budget of {row.tokens_a_day or 0:,} tokens is spent for today; it goes on tomorrow (UTC)"
        if row.tokens_a_day is not None and first > row.tokens_a_day:
            why = f"item {item_id!r:.80} has {first:,} tokens, more than the budget of a day: abort, and raise it"
        await run.wait(why)
    return affordable, tokens


async def _give_back(run: _Run, embedder: CachedEmbedder, texts: Sequence[str], role: TextRole) -> None:
    missing = await embedder.uncached(texts, role)
    tokens = sum(await _counts(embedder, missing))
    await store.set_tokens_aside(run.place, tokens=-tokens, texts=-len(missing), today=run.today)


async def _counts(embedder: CachedEmbedder, texts: Sequence[str]) -> Sequence[int]:
    if not texts:
        return []
    measure = await embedder.measure()
    return await asyncio.to_thread(measure.count_tokens, texts)


async def _switch(run: _Run, row: StoredReembedding) -> bool:
    """Switch when every item is in the target space; the last few are embedded while writers wait."""
    for _ in range(_TRIES):
        if not await _fill(run, row.target):
            return False
        async with run.place.database.transaction(run.place.tenant_id) as connection:
            await hold_writers(connection, run.place.collection_id)
            pending = pending_statement(run.place.collection_id, row.target, after="", limit=row.batch_texts + 1)
            rows = await connection.rows(pending.text.encode(), pending.parameters)
            last = [Item.as_stored(item_id=item_id, title=title, body=body) for item_id, title, body in rows]
            if len(last) <= row.batch_texts and await _embed_last(run, row, connection, last):
                if not await store.switch_over(connection, run.place.collection_id, row.target, run.workplace.now()):
                    return True  # paused or aborted: the next read of the state shows which
                break
        run.workplace.end_of_step()
    else:
        await run.wait(f"more items are written than {row.batch_texts} at a time keep up with; it tries again")
        return False
    _log.info("collection %s is searched in %s", run.place.collection_id, row.target.space.name)
    # By then every process has read the change; items written before are embedded next.
    await asyncio.sleep(2 * FRESH_SECONDS)
    return True


async def _embed_last(run: _Run, row: StoredReembedding, connection: Connection, items: Sequence[Item]) -> bool:
    if not items:
        return True
    embedder = run.needed_embedder(row.target)
    writer = await run.writer(row.target, embedder)
    some, _ = await _affordable(run, row, embedder, items)
    if len(some) < len(items):
        return False

    async def keep(vectors: HashedVectors) -> None:
        statement = vectors_statement(run.place.collection_id, row.target.space_id, vectors)
        await connection.execute(statement.text.encode(), statement.parameters)

    report = AddReport(pending=len(items), notes=(f"no answer within {_LAST_ITEMS_SECONDS:.0f} s",))
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_ITEMS_SECONDS):
            report = await writer.embed(items, keep)
    if report.pending:
        await _give_back(run, embedder, [item.indexed_text for item in items], TextRole.DOCUMENT)
        _log.info("the switch waits for the vectors of %d items: %s", report.pending, "; ".join(report.notes))
        return False
    run.embedded += len(items)
    return True


async def _lost_calibration(run: _Run, target: EmbeddingSpace) -> str:
    """The reason against the switch: relevance is computed by a calibration that the target lacks; empty: no reason."""
    stored = await collection_by_id(run.place)
    if stored is None or stored.space is None or stored.profile.calibration is None:
        return ""
    space = stored.profile.calibration.space
    if space != stored.space.space.name or space == target.name or (target.provider, target.model) in SHIPPED:
        return ""
    return (
        f"profile {stored.profile_version} of {stored.name!r} computes relevance by a calibration of {space}, and none "
        f"is known for {target.name}: searches with min_relevance would be refused. Before the switch activate a "
        "profile without a calibration, and calibrate again after the switch"
    )


async def _compare(run: _Run, row: StoredReembedding) -> SpaceComparison | None:
    """Ask both spaces the recorded questions; None: the job has to wait, and the note says for what."""
    old, new = await collection_by_id(run.place), await run.collection_in(row.target)
    if old is None:
        return None
    embedder = run.needed_embedder(row.target)
    ids = await store.recorded_questions(run.place, COMPARED)
    verdicts = await store.verdicts_on(run.place, ids)
    requests: dict[UUID, SearchRequest] = {}
    for retrieval_id in ids:
        record = await find_recorded(run.place.database, run.place.tenant_id, retrieval_id)
        request = None if record is None else request_of(record)
        if request is not None and request.about is None and request.group_by is None and request.query:
            requests[retrieval_id] = replace(request, vector=None, limit=DEPTH, min_score=None, min_relevance=None)
    if not await _are_embedded(run, embedder, [request.query for request in requests.values()]):
        return None
    overlaps: list[float] = []
    ndcgs: list[tuple[float, float]] = []
    recalls: list[float] = []
    is_exact = True
    for retrieval_id, request in requests.items():
        rewards = verdicts.get(retrieval_id, {})
        depth = CONDENSED if rewards else DEPTH
        try:
            before, after = [await _hits(run, stored, replace(request, limit=depth)) for stored in (old, new)]
        except (EmbedderError, DatabaseError):
            raise
        except RetrievalError:
            continue  # its filter or its legs no longer fit the collection
        most = max(len(before[:DEPTH]), len(after[:DEPTH]))
        overlaps.append(len(set(before[:DEPTH]) & set(after[:DEPTH])) / most if most else 1.0)
        if any(rewards.values()):
            ndcgs.append((condensed_ndcg(before, rewards), condensed_ndcg(after, rewards)))
        sample = Sample(await embedder.embed_query(request.query), request.condition, DEPTH)
        candidate_request = dense_request(new, sample)
        if candidate_request.path is Path.APPROXIMATE:
            is_exact = False
            recalls.append((await probe(run.place.database, run.place.tenant_id, candidate_request, sample)).recall)
        else:
            recalls.append(1.0)
        run.workplace.end_of_step()
    return SpaceComparison(
        questions=len(overlaps),
        overlap=_mean(overlaps),
        judged=len(ndcgs),
        ndcg_in_use=_mean([ndcg for ndcg, _ in ndcgs]),
        ndcg_target=_mean([ndcg for _, ndcg in ndcgs]),
        recall=_mean(recalls),
        is_exact=is_exact,
    )


async def _are_embedded(run: _Run, embedder: CachedEmbedder, questions: Sequence[str]) -> bool:
    """Embed the questions, which caches their vectors; False: the job has to wait, and the note says for what."""
    words = await embedder.uncached(questions, TextRole.QUERY)
    tokens = sum(await _counts(embedder, words))
    if tokens and not await store.set_tokens_aside(run.place, tokens=tokens, texts=len(words), today=run.today):
        await run.wait("the budget is spent for today; the comparison is made tomorrow (UTC)")
        return False
    try:
        await embedder.embed_queries(words)
    except (EmbedderError, InvalidVectorError) as error:
        await _give_back(run, embedder, words, TextRole.QUERY)
        await run.wait(f"the comparison waits for the embedder: {error}"[:500])
        return False
    return True


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 4) if values else None


def condensed_ndcg(ranking: Sequence[str], rewards: Mapping[str, float]) -> float:
    """nDCG@10 of only the items with a verdict, in their order; the relevance of other items is unknown.

    Verdicts are on items that the space in use showed, so counting others as irrelevant would favour it. Sakai and
    Kando, "On information retrieval metrics designed for evaluation with incomplete relevance assessments", 2008.
    """

    def gain(rewards: Sequence[float]) -> float:
        return sum(reward / log2(rank + 1) for rank, reward in enumerate(rewards[:DEPTH], 1))

    ideal = gain(sorted(rewards.values(), reverse=True))
    return gain([rewards[item_id] for item_id in ranking if item_id in rewards]) / ideal if ideal else 0.0


async def _hits(run: _Run, stored: StoredCollection, request: SearchRequest) -> list[str]:
    searcher = Searcher(
        database=run.place.database,
        tenant_id=run.place.tenant_id,
        collection=stored,
        embedder=None if stored.space is None else run.workplace.embedder_of(run.place.tenant_id, stored.space),
    )
    [result] = await searcher.search_each([request])
    return [hit.item_id for hit in result]
