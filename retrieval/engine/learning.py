"""A collection's learned state: the items' standings and expected rewards, and the weight of feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval.adapters.store.learning import feedback as stored_feedback
from retrieval.adapters.store.learning import models as stored_models
from retrieval.adapters.store.learning.arms import Decay, read_arms, set_decay
from retrieval.domain.checks import checked_whole, is_finite, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import Expectation, Standing
from retrieval.domain.learning.context import Context, checked_context
from retrieval.domain.search.filters import Filter, Where
from retrieval.domain.search.profile import MAX_VERSION
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import checked_item_ids, checked_query_vector, checked_words


async def standings_where(handle: CollectionHandle, where: Where | Filter) -> list[Standing]:
    """The standings of the items that pass the filter, ordered by item id, without archived items.

    One statement, which reads neither texts nor attributes. Raises ``InvalidFilterError``, ``UnknownFieldError``,
    and ``InvalidRequestError`` without a filter.
    """
    stored, condition = await handle.filtered(where)
    if condition is None:
        raise InvalidRequestError("give a filter, such as where={'kind': 'lesson'}")
    return await stored_feedback.standings_matching(handle.database, handle.tenant_id, stored, condition)


async def expectations(
    handle: CollectionHandle,
    item_ids: Sequence[str],
    *,
    context: Context,
    vector: object,
    query: str | None,
    relevance: Mapping[str, float] | None,
) -> dict[str, Expectation]:
    """See ``Collection.expectations``."""
    from retrieval.engine.scoring import checked_relevance, predicted

    keys, stored = checked_item_ids(item_ids), await handle.fresh()
    query_vector = None if vector is None else checked_query_vector(vector, stored)
    words = checked_words(query, handle.shared.bounds)
    checked = checked_relevance({} if relevance is None else relevance)
    model = await handle.shared.decider.serving(stored, stored.profile.learned)
    if model is not None and query_vector is None and words and stored.clustered_at is not None:
        embedder = handle.embedder_of(stored)
        query_vector = None if embedder is None else await embedder.embed_query(words)
    buckets = checked_context(context).buckets(await handle.shared.decider.cluster(stored, query_vector))
    arms = await read_arms(handle.place_of(stored), item_ids=keys, buckets=buckets, now=handle.now)
    if model is None:
        counts = {item_id: item.anywhere for item_id, item in arms.items()}
        return {item_id: Expectation.of_counts(arm.uses, arm.raw_successes) for item_id, arm in counts.items()}
    return predicted(model, stored.profile.learned, buckets, list(arms.values()), checked)


async def is_trained(handle: CollectionHandle) -> bool:
    """True if searches by the collection's profile use a learned model."""
    stored = await handle.fresh()
    return await handle.shared.decider.serving(stored, stored.profile.learned) is not None


async def count_verdicts(handle: CollectionHandle, *, domain: str | None = None, at_most: int) -> int:
    """The number of valid verdicts on the collection's items, in all contexts or in those of a domain.

    Counting stops at ``at_most``, so that it need not read the statistics of all items.
    """
    bucket = Context(domain=domain or "").buckets()[-1]
    return await stored_feedback.count_verdicts(await handle.place(), bucket=bucket, at_most=at_most)


async def use_model(handle: CollectionHandle, version: int | None) -> None:
    """See ``Collection.use_model``."""
    if version is not None:
        checked_whole("version", version, 0, MAX_VERSION)
    collection_id = (await handle.fresh()).collection_id
    async with handle.database.transaction(handle.tenant_id) as connection:
        await stored_models.use_model(connection, collection_id, version)
    await handle.refresh()


async def set_learning(handle: CollectionHandle, *, half_life_days: float | None, daily_cap: int | None) -> None:
    """See ``Collection.set_learning``."""
    days = None if half_life_days is None else checked_half_life(half_life_days)
    events = None if daily_cap is None else checked_daily_cap(daily_cap)
    if days is not None:
        decay = Decay(half_life_days=days, landmark=handle.now)
        await set_decay(await handle.place(), decay, decay.landmark)
    if events is not None:
        await stored_feedback.set_daily_cap(await handle.place(), events)


def checked_half_life(days: object) -> float:
    """The half-life of a collection's arms. Raises ``InvalidRequestError`` for anything but 1/24 to 36500 days."""
    if not (is_finite(days) and 1 / 24 <= days <= 36500):
        raise InvalidRequestError(f"half_life_days is 1/24 to 36500, not {written(days)}; 30 is the default")
    return float(days)


def checked_daily_cap(events: object) -> int:
    """The daily cap of an actor's events. Raises ``InvalidRequestError`` for anything but 1 to 1,000,000."""
    return checked_whole("daily_cap", events, 1, 1_000_000)
