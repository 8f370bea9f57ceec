"""What a caller asks about a re-embedding: its cost, its beginning, its state, and the actions on it.

The job of ``jobs/reembed.py`` moves the collection.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.collections import StoredCollection, collection_by_id, collection_in_space
from retrieval.adapters.store.search import reembeddings as store
from retrieval.adapters.store.search.reembeddings import (
    PAUSED,
    REMOVING,
    ReembeddingProgress,
    ReembeddingState,
    StoredReembedding,
    Switching,
)
from retrieval.adapters.store.search.vectors import StoredSpace, count_pending
from retrieval.domain.checks import checked_number, checked_whole, choices_hint, is_finite, written
from retrieval.domain.errors import Advice, ConflictError, InvalidRequestError, NotFoundError
from retrieval.domain.items.collection import IndexKind
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole
from retrieval.domain.items.item import text_hash
from retrieval.domain.search.relevance import SHIPPED
from retrieval.domain.serialization import Serializable
from retrieval.domain.wording import several
from retrieval.services.add import EMBED_BATCH, Writer
from retrieval.services.indexes import GRAPH_BYTES, index_rows
from retrieval.services.workplace import JobTarget, Workplace

KEPT_STATES = (ReembeddingState.FILLING, ReembeddingState.READY, ReembeddingState.SWITCHED)
"""The states in which both spaces are filled."""
BEFORE_SWITCH = (ReembeddingState.FILLING, ReembeddingState.READY)
_PAGE = 500
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
        raise InvalidRequestError(f"price is {written(price)}; it must be a number, 0 or more")
    move, in_use = await _beginning(workplace, target, space)
    embedder = move.needed_embedder(space)
    writer = await move.writer(space, embedder)
    seen: set[int] = set()
    items = texts = tokens = 0
    after = ""
    while page := await writer.next_pending(after, limit=_PAGE):
        fresh = await embedder.uncached([item.indexed_text for item in page], TextRole.DOCUMENT)
        new = {int.from_bytes(text_hash(text)[:8], "big"): text for text in fresh}
        new_texts = [text for number, text in new.items() if number not in seen]
        seen |= set(new)
        items, texts = items + len(page), texts + len(new_texts)
        tokens += sum(await token_counts(embedder, new_texts))
        after = page[-1].item_id
    return ReembeddingCost(
        target=space.space.name,
        items=items,
        without_text=await store.count_without_text(move.place, in_use, space),
        texts=texts,
        tokens=tokens,
        price=None if price is None else round(tokens * price / 1e6, 4),
        vector_bytes=items * _vector_bytes(writer.collection, space.space.dimensions),
        minutes=None if pace.tokens_a_minute is None else round(tokens / pace.tokens_a_minute, 2),
        days=None if pace.tokens_a_day is None else -(-tokens // pace.tokens_a_day),
        note=await lost_calibration(move, space.space),
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
    move, _ = await _beginning(workplace, target, space)
    options = {
        "switching": (Switching.BY_ITSELF if switches else Switching.WHEN_ASKED).value,
        "batch_texts": pace.batch_texts,
        "tokens_a_minute": pace.tokens_a_minute,
        "tokens_a_day": pace.tokens_a_day,
        "keep_seconds": round(pace.keep_days * 86400),
    }
    if not await store.begin_reembedding(move.place, space, options):
        await _beginning(workplace, target, space)  # another process was faster
        raise ConflictError(f"collection {target.collection.name!r} changed meanwhile: begin again")


async def _beginning(workplace: Workplace, target: JobTarget, space: StoredSpace) -> tuple[SpaceMove, StoredSpace]:
    """The move that can begin, and the space in use. Raises ``InvalidRequestError`` if it cannot."""
    collection = target.collection
    if collection.space is None:
        raise InvalidRequestError(f"collection {collection.name!r} has no embedding space; add items with an embedder")
    if collection.space == space:
        raise InvalidRequestError(f"collection {collection.name!r} is in the space {space.space.name} already")
    move = SpaceMove(workplace, workplace.place(target))
    move.needed_embedder(space)
    row = await store.find_reembedding(move.place)
    if row is not None and row.state in _ENDED_BY:
        error = InvalidRequestError(f"a re-embedding of {collection.name!r} is {row.state.value} still")
        raise error.advising(Advice.END_REEMBEDDING, name=shlex.quote(collection.name), action=_ENDED_BY[row.state])
    return move, collection.space


async def look_at(workplace: Workplace, target: JobTarget) -> Reembedding:
    """The state of the collection's re-embedding, or of the last one. Raises ``NotFoundError`` without one."""
    move = SpaceMove(workplace, workplace.place(target))
    row = await _known(move, target)
    is_kept = row.state in KEPT_STATES
    pending = await count_pending(move.place, row.spare) if is_kept else 0
    without_text = await store.count_without_text(move.place, row.former, row.target) if is_kept else 0
    return Reembedding(
        collection=target.collection.name,
        former=row.former.space.name,
        target=row.target.space.name,
        items=target.collection.documents,
        pending=pending,
        without_text=without_text,
        spent_today=row.spent(move.today),
        removes_at=removal_time(row),
        **{each.name: getattr(row, each.name) for each in fields(ReembeddingProgress)},
    )


async def change(workplace: Workplace, target: JobTarget, action: str) -> None:
    """Do one of ``ACTIONS``. Raises ``InvalidRequestError`` where it is too early or too late for the action."""
    move = SpaceMove(workplace, workplace.place(target))
    if action not in ACTIONS:
        known = choices_hint(action, ("status", "run", *ACTIONS))
        raise InvalidRequestError(f"there is no action {written(action, 40)} of a re-embedding; {known}")
    row = await _known(move, target)
    if action == "rollback":
        is_done = await store.switch_back(move.place)
        if is_done:
            await store.carry_clusters(move.place, former=row.target, target=row.former)
    else:
        if action == "switch" and (reason := await lost_calibration(move, row.target.space)):
            raise InvalidRequestError(reason)
        is_done = await store.change_reembedding(move.place, *_CHANGES[action])
    if not is_done:
        row = await _known(move, target)
        others = ", ".join(possible_actions(row)) or "to begin another one"
        raise InvalidRequestError(
            f"the re-embedding of {target.collection.name!r} cannot do {action!r} now: it is {row.state.value}; "
            f"possible now: {others}"
        )


def removal_time(row: StoredReembedding) -> datetime | None:
    """The time when the vectors of the former space are removed; None: not switched."""
    if row.switched_at is None or row.state is not ReembeddingState.SWITCHED:
        return None
    return row.switched_at + timedelta(seconds=row.keep_seconds)


async def _known(move: SpaceMove, target: JobTarget) -> StoredReembedding:
    row = await store.find_reembedding(move.place)
    if row is None:
        name = target.collection.name
        error = NotFoundError(f"collection {name!r} has no re-embedding")
        raise error.advising(Advice.BEGIN_REEMBEDDING, name=shlex.quote(name))
    return row


_REMOVING = {"state": ReembeddingState.REMOVING.value, "is_paused": False, "note": REMOVING}
_CHANGES: Mapping[str, tuple[Sequence[ReembeddingState], Mapping[str, Any]]] = {
    "pause": ((*KEPT_STATES, ReembeddingState.REMOVING), {"is_paused": True, "note": PAUSED}),
    "resume": ((*KEPT_STATES, ReembeddingState.REMOVING), {"is_paused": False, "note": ""}),
    "switch": (BEFORE_SWITCH, {"switching": Switching.NOW.value, "is_paused": False, "note": ""}),
    "abort": (BEFORE_SWITCH, _REMOVING),
    "finish": ((ReembeddingState.SWITCHED,), _REMOVING),
}
_ENDED_BY = {
    **dict.fromkeys(BEFORE_SWITCH, "abort"),
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
    move = SpaceMove(workplace, workplace.place(target))
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        row = await store.find_reembedding(move.place)
        if row is None or row.note or row.is_paused or row.switching is not Switching.NOW:
            return
        await asyncio.sleep(0.2)


@dataclass(slots=True)
class SpaceMove:
    """The move of a collection to another space, and the surroundings of the work."""

    workplace: Workplace
    place: CollectionPlace

    @property
    def today(self) -> date:
        """The day of the budget (UTC)."""
        return self.workplace.now().astimezone(UTC).date()

    async def collection_in(self, space: StoredSpace) -> StoredCollection:
        """The collection as if the space were the one in use."""
        stored = await collection_in_space(self.place, space.space_id)
        if stored is None:
            raise InvalidRequestError("the collection was removed")
        return stored

    async def writer(self, space: StoredSpace, embedder: CachedEmbedder) -> Writer:
        """Writes vectors of the collection's items into the space."""
        return Writer(self.place.database, self.place.tenant_id, await self.collection_in(space), embedder)

    def needed_embedder(self, space: StoredSpace) -> CachedEmbedder:
        """The space's embedder. Raises ``InvalidRequestError`` if this process has none."""
        embedder = self.workplace.embedder_of(self.place.tenant_id, space)
        if embedder is None:
            raise InvalidRequestError(
                f"this process has no embedder for the space {space.space.name}: set RETRIEVAL_EMBEDDER, and keys, "
                "wherever the collection is searched; it keeps its own until it is switched"
            )
        return embedder


async def token_counts(embedder: CachedEmbedder, texts: Sequence[str]) -> Sequence[int]:
    """The tokens of each text, as the embedder counts or estimates them."""
    if not texts:
        return []
    measure = await embedder.measure()
    return await asyncio.to_thread(measure.count_tokens, texts)


async def lost_calibration(move: SpaceMove, target: EmbeddingSpace) -> str:
    """The reason against the switch: relevance is computed by a calibration that the target lacks; empty: no reason."""
    stored = await collection_by_id(move.place)
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
