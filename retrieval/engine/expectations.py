"""What items are expected to earn in a context: by the model that is in use, or by plain counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.learning.arms import read_arms
from retrieval.domain.arm import ItemArms
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.expectation import Expectation
from retrieval.domain.learned import Combination, Learned
from retrieval.learning.learned_model import LearnedModel


async def read_expectations(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    item_ids: Sequence[str],
    *,
    model: LearnedModel | None,
    buckets: Sequence[str],
    relevance: Mapping[str, float],
    now: datetime,
) -> dict[str, Expectation]:
    """The expectations by item id, of each item in the context of these buckets, from its arms at this moment."""
    collection_id = collection.collection_id
    arms = await read_arms(database, tenant_id, collection_id, item_ids=item_ids, buckets=buckets, now=now)
    if model is None:
        return {item_id: _counted(item) for item_id, item in arms.items()}
    return predicted(model, collection.profile.learned, buckets, list(arms.values()), relevance)


def predicted(
    model: LearnedModel,
    learned: Learned,
    buckets: Sequence[str],
    items: Sequence[ItemArms],
    relevance: Mapping[str, float],
) -> dict[str, Expectation]:
    """What the model says of the items, as a search with that combination would have it. Pure."""
    if learned.combination is Combination.SUM:
        known = [relevance.get(item.item_id) for item in items]
        found = model.reward.predict(buckets, items, known)
    else:
        found = model.by_item.predict(buckets, items)
    return {
        one.item_id: Expectation(
            mean=one.mean, sd=one.sd, uses=item.anywhere.uses, effective_sample_size=one.effective_sample_size
        )
        for item, one in zip(items, found, strict=True)
    }


def checked_relevance(relevance: Mapping[str, float]) -> Mapping[str, float]:
    """The numbers by item id. Raises ``InvalidRequestError`` for no mapping, or one that is not from 0 to 1."""
    if not isinstance(relevance, Mapping):
        raise InvalidRequestError(f"relevance is {relevance!r:.80}; it comes as numbers from 0 to 1 by item id")
    for item_id, value in relevance.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise InvalidRequestError(f"the relevance of {item_id!r:.80} is {value!r:.40}; it is a number from 0 to 1")
    return relevance


def _counted(item: ItemArms) -> Expectation:
    return Expectation.of_counts(item.anywhere.uses, item.anywhere.raw_successes)
