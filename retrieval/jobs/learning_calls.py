"""The calls about learning: statistics of items, the models, and how feedback counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import Context, checked_context
from retrieval.domain.search.filters import Filter, Where
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import checked_item_ids, checked_query_vector, checked_words
from retrieval.services.workplace import Workplace

if TYPE_CHECKING:
    from retrieval.adapters.store.learning.models import StoredModel
    from retrieval.domain.learning.arm import Expectation, Standing
    from retrieval.learning.learned_model import LearnedModel

_MOST_COUNTED = 2**62
"""There are no more verdicts than that."""


class LearningCalls(CollectionHandle):
    """The calls about learning, for a collection to inherit; see docs/concepts/learning.md."""

    _workplace: Workplace | None = None
    """The place where jobs work; None: this handle runs none."""

    async def standings(self, item_ids: Sequence[str]) -> dict[str, Standing]:
        """Gives the raw counts over all contexts of those items that exist, by item id."""
        from retrieval.adapters.store.learning.standings import read_standings

        keys = checked_item_ids(item_ids)
        return await read_standings(self._database, self._tenant_id, (await self._fresh()).collection_id, keys)

    async def standings_where(self, where: Where | Filter) -> list[Standing]:
        """Gives the raw counts of each item that matches the filter, by item id; archived items are left out.

        One statement, which reads neither texts nor attributes. Raises ``InvalidFilterError``, ``UnknownFieldError``,
        and ``InvalidRequestError`` for no filter.
        """
        from retrieval.adapters.store.learning.standings import standings_matching

        stored, wanted = await self._filtered(where)
        if wanted is None:
            raise InvalidRequestError("say of which items, such as where={'kind': 'lesson'}")
        return await standings_matching(self._database, self._tenant_id, stored, wanted)

    async def expectations(
        self,
        item_ids: Sequence[str],
        *,
        context: Context = Context(),
        vector: object = None,
        query: str | None = None,
        relevance: Mapping[str, float] | None = None,
    ) -> dict[str, Expectation]:
        """Gives the expected reward of each item in the context, by item id; also of an item without feedback.

        With a model in use (``is_trained``) it is the model's prediction, in the cluster of the question too where its
        ``vector``, shape (dimensions,), or its words are given; ``relevance``, 0 to 1 by item id, is used by logistic
        models. Without a model it is Beta(successes + 1, failures + 1) of the item's raw counts in all contexts.
        Raises the embedder's errors for words, ``InvalidVectorError``, and ``InvalidRequestError``.
        """
        from retrieval.engine.scoring import checked_relevance, read_expectations

        keys, stored = checked_item_ids(item_ids), await self._fresh()
        given = None if vector is None else checked_query_vector(vector, stored)
        words = checked_words(query, self._bounds)
        known = checked_relevance({} if relevance is None else relevance)
        model = await self._model_in_use(stored)
        if model is not None and given is None:
            given = await self._vector_of(stored, words)
        cluster = await self._models.cluster(stored, given)
        return await read_expectations(
            self._database,
            self._tenant_id,
            stored,
            keys,
            model=model,
            buckets=checked_context(context).buckets(cluster),
            relevance=known,
            now=self._now,
        )

    async def is_trained(self) -> bool:
        """True if what was learned counts in the searches of the collection's profile: a model is in use."""
        return await self._model_in_use(await self._fresh()) is not None

    async def count_verdicts(self, *, domain: str | None = None, at_most: int | None = None) -> int:
        """Counts the verdicts on the collection's items that count: in all contexts, or in those of a domain.

        ``at_most``, at least 1: count no further, where it is enough to know that there are so many; the statistics of
        all items are read otherwise. Raises ``InvalidRequestError``.
        """
        from retrieval.adapters.store.learning.standings import count_verdicts

        if at_most is not None and (isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 1):
            raise InvalidRequestError(f"at_most is {at_most!r:.80}; it must be a whole number of at least 1")
        bucket = Context(domain=domain or "").buckets()[-1]
        most = None if at_most is None else min(at_most, _MOST_COUNTED)
        collection_id = (await self._fresh()).collection_id
        return await count_verdicts(self._database, self._tenant_id, collection_id, bucket=bucket, at_most=most)

    async def learn(self) -> dict[str, Any]:
        """Run the jobs ``clusters`` and ``learn`` for this collection now; gives what ``learn`` did.

        ``published`` says whether the model that was fitted is in use from now on, ``reason`` why, ``verdicts`` from
        how many it was, ``clusters`` how many clusters there are. Raises ``RetrievalError`` where a job failed.
        """
        if self._workplace is None:
            raise InvalidRequestError("this handle runs no jobs; take the collection from platform.collection(name)")
        # All jobs come with it, and a process that only searches should not wait for them.
        from retrieval.jobs.run import learn_now

        done = await learn_now(self._workplace, self._tenant_id, self.refresh)
        await self.refresh()
        return done

    async def models(self) -> list[StoredModel]:
        """The models of the learned reward that were fitted, the newest first; the latest twenty."""
        from retrieval.adapters.store.learning.models import latest_models

        return await latest_models(self._database, self._tenant_id, (await self._fresh()).collection_id)

    async def use_model(self, version: int | None) -> None:
        """Search with that model and no other; 0: with none. None: with the latest, and with better ones to come.

        Raises ``InvalidRequestError`` for a version that is not there, or that was never good enough to be used.
        """
        from retrieval.adapters.store.learning.models import use_model

        collection_id = (await self._fresh()).collection_id
        async with self._database.transaction(self._tenant_id) as connection:
            await use_model(connection, collection_id, version)
        await self.refresh()

    async def set_half_life(self, days: float) -> None:
        """Let feedback lose half its weight in so many days, and compute the statistics anew by it; 1/24 to 36500."""
        from retrieval.adapters.store.learning.arms import Decay, set_decay

        if isinstance(days, bool) or not isinstance(days, int | float) or not 1 / 24 <= days <= 36500:
            raise InvalidRequestError(f"a half-life is 1/24 to 36500 days, not {days!r:.80}; 30 is the default")
        decay = Decay(half_life_days=float(days), landmark=self._now)
        await set_decay(self._database, self._tenant_id, (await self._fresh()).collection_id, decay, decay.landmark)

    async def set_daily_cap(self, events: int) -> None:
        """Let so many events of one actor count in a day (UTC), 1 to 1,000,000; what is stored stays as it is."""
        from retrieval.adapters.store.learning.feedback import set_daily_cap

        if isinstance(events, bool) or not isinstance(events, int) or not 1 <= events <= 1_000_000:
            raise InvalidRequestError(f"a daily cap is 1 to 1,000,000 events, not {events!r:.80}; 1,000 is the default")
        await set_daily_cap(self._database, self._tenant_id, (await self._fresh()).collection_id, events)

    async def _model_in_use(self, stored: StoredCollection) -> LearnedModel | None:
        return await self._models.serving(stored, stored.profile.learned)

    async def _vector_of(self, stored: StoredCollection, words: str) -> Vector | None:
        """The vector of the words, where clusters make use of it."""
        if not words or stored.clustered_at is None or self._embedder is None:
            return None
        return await self._embedder.embed_query(words)
