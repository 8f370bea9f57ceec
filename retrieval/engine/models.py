"""Published models and clusters, as searches use them: read once a version."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import Vector, Vectors
from retrieval.domain.search.profile_parts import Learned

if TYPE_CHECKING:
    from retrieval.learning.learned_model import LearnedModel

_log = logging.getLogger(__name__)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

MOST_KEPT = 64
"""Collections whose models and centroids a process keeps."""


@dataclass(slots=True)
class Models:
    """The models and centroids of a tenant's collections."""

    database: Database
    tenant_id: int
    _models: OrderedDict[tuple[int, int], LearnedModel | None] = field(default_factory=OrderedDict)
    _centroids: OrderedDict[tuple[int, datetime], Vectors | None] = field(default_factory=OrderedDict)

    async def model(self, collection_id: int, version: int) -> LearnedModel | None:
        """Gives that version of the model; None for version 0, or one that is gone."""
        if not version:
            return None
        from retrieval.adapters.store.learning.models import read_definition

        key = (collection_id, version)
        if key not in self._models:
            stored = await read_definition(self.database, self.tenant_id, collection_id, version)
            _keep(self._models, key, None if stored is None else _read(version, stored[0]))
        self._models.move_to_end(key)
        return self._models[key]

    async def serving(self, collection: StoredCollection, learned: Learned) -> LearnedModel | None:
        """The collection's model, where it may be used as the profile asks; None: relevance alone counts."""
        if learned.is_off:
            return None
        model = await self.model(collection.collection_id, collection.model_version)
        return model if model is not None and model.serves(learned) else None

    async def cluster(self, collection: StoredCollection, vector: Vector | None) -> int | None:
        """The cluster that a query lies in; None: it has no vector, or there are no clusters."""
        if vector is None or collection.clustered_at is None or collection.space is None:
            return None
        from retrieval.adapters.store.learning.clusters import read_centroids
        from retrieval.learning.clusters import nearest

        key = (collection.collection_id, collection.clustered_at)
        if key not in self._centroids:
            _keep(
                self._centroids,
                key,
                await read_centroids(
                    self.database, self.tenant_id, collection.collection_id, collection.space.space_id
                ),
            )
        self._centroids.move_to_end(key)
        centroids = self._centroids[key]
        return None if centroids is None else int(nearest(vector[None, :], centroids)[0])


def _read(version: int, definition: Mapping[str, Any]) -> LearnedModel | None:
    from retrieval.learning.learned_model import LearnedModel

    try:
        return LearnedModel.from_dict(version, definition)
    except InvalidRequestError as error:
        # Relevance answers by itself; a search has no use for the error.
        _log.warning("%s", error)
        return None


def _keep(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    kept[key] = value
    while len(kept) > MOST_KEPT:
        kept.popitem(last=False)
