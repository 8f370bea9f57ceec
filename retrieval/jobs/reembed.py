"""The job that moves a collection to another embedding space while it is searched and written.

It fills the space, compares both, switches, and removes the former one. The remaining work follows from what is stored:
the items that have no vector of their text in a space. So a killed process loses at most one batch, and the next run of
the job continues. See docs/decisions/0035-reembedding.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, log2
from statistics import fmean
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.embedders.chosen import no_embedder
from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.items.collections import StoredCollection, collection_by_id
from retrieval.adapters.store.items.items import hold_writers, vectors_statement
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.adapters.store.search import reembeddings as store
from retrieval.adapters.store.search.recall import Sample, probe
from retrieval.adapters.store.search.reembeddings import ReembeddingState, StoredReembedding, Switching
from retrieval.adapters.store.search.vectors import StoredSpace, count_pending, pending_statement
from retrieval.domain.checks import written
from retrieval.domain.errors import DatabaseError, EmbedderError, InvalidVectorError, RetrievalError
from retrieval.domain.items.embedding import TextRole
from retrieval.domain.items.item import Item
from retrieval.domain.search.hit import Path
from retrieval.domain.serialization import Serializable
from retrieval.domain.wording import several
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.record import request_of
from retrieval.engine.request import SearchRequest
from retrieval.engine.search import Searcher
from retrieval.jobs.recall import dense_request
from retrieval.services.add import AddReport, HashedVectors
from retrieval.services.indexes import RECALL_PROMISED, IndexOutcome, drop_indexes, keep_index
from retrieval.services.reembed import (
    BEFORE_SWITCH,
    KEPT_STATES,
    SpaceMove,
    lost_calibration,
    removal_time,
    token_counts,
)
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


@dataclass(slots=True)
class _Run(SpaceMove):
    embedded: int = 0

    def is_over(self, row: StoredReembedding) -> bool:
        removes_at = removal_time(row)
        return removes_at is not None and self.workplace.now() >= removes_at

    async def wait(self, why: str, states: Sequence[ReembeddingState] = KEPT_STATES) -> None:
        """Store the reason why the re-embedding waits, if it is in one of these states and not paused."""
        await store.note_reembedding(self.place, why, states)


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
    if not await store.change_reembedding(run.place, BEFORE_SWITCH, changes):
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
    return await lost_calibration(run, row.target.space)


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
        if row is None or row.is_paused or row.state not in KEPT_STATES:
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
    counts = dict(zip(uncached, await token_counts(embedder, uncached), strict=True))
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
            why = f"item {written(item_id)} has {first:,} tokens, more than the budget of a day: abort, and raise it"
        await run.wait(why)
    return affordable, tokens


async def _give_back(run: _Run, embedder: CachedEmbedder, texts: Sequence[str], role: TextRole) -> None:
    missing = await embedder.uncached(texts, role)
    tokens = sum(await token_counts(embedder, missing))
    await store.set_tokens_aside(run.place, tokens=-tokens, texts=-len(missing), today=run.today)


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
    tokens = sum(await token_counts(embedder, words))
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
