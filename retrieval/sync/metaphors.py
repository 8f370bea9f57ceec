"""Metaphors without ``await``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from retrieval.apps import metaphors
from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor
from retrieval.apps.metaphors.corpus import COLLECTION
from retrieval.domain.errors import InvalidRequestError
from retrieval.sync.collection import SyncCollection
from retrieval.sync.mirror import Mirror, waiting
from retrieval.sync.platform import SyncPlatform


class MetaphorCorpus(Mirror[metaphors.MetaphorCorpus]):
    """``retrieval.apps.metaphors.MetaphorCorpus`` without ``await``: the same methods, the same errors.

    ``for metaphor in corpus`` and ``len(corpus)`` take the place of ``async for`` and ``count``.
    """

    def __init__(self, collection: SyncCollection, static: Sequence[Metaphor] = STANDARD_CORPUS) -> None:
        if not isinstance(collection, SyncCollection):
            raise InvalidRequestError(f"collection is {collection!r:.80}; give one of a platform that connect() opened")
        super().__init__(metaphors.MetaphorCorpus(collection.twin, static), collection.door)

    @classmethod
    def open(cls, platform: SyncPlatform, name: str = COLLECTION, static: Sequence[Metaphor] = STANDARD_CORPUS) -> Self:
        """See ``MetaphorCorpus.open``."""
        if not isinstance(platform, SyncPlatform):
            raise InvalidRequestError(f"platform is {platform!r:.80}; give an open one, as `with connect()` does")
        twin = platform.door.run(metaphors.MetaphorCorpus.open, platform.twin, name, static)
        corpus = cls.__new__(cls)
        Mirror.__init__(corpus, twin, platform.door)
        return corpus

    def __iter__(self) -> Iterator[Metaphor]:
        return iter(self.door.run(_every, self.twin))

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        """Always: without it an ``if`` would count the metaphors."""
        return True

    @property
    def collection(self) -> SyncCollection:
        """See ``MetaphorCorpus.collection``."""
        return SyncCollection(self.twin.collection, self.door)

    @property
    def static(self) -> list[Metaphor]:
        """See ``MetaphorCorpus.static``."""
        return self.twin.static

    count = waiting(metaphors.MetaphorCorpus.count)
    dynamic = waiting(metaphors.MetaphorCorpus.dynamic)
    candidates = waiting(metaphors.MetaphorCorpus.candidates)
    get = waiting(metaphors.MetaphorCorpus.get)
    origins = waiting(metaphors.MetaphorCorpus.origins)
    all_ids = waiting(metaphors.MetaphorCorpus.all_ids)
    embeddings = waiting(metaphors.MetaphorCorpus.embeddings)
    embed = waiting(metaphors.MetaphorCorpus.embed)
    add = waiting(metaphors.MetaphorCorpus.add)
    add_candidate = waiting(metaphors.MetaphorCorpus.add_candidate)
    accept = waiting(metaphors.MetaphorCorpus.accept)
    reject = waiting(metaphors.MetaphorCorpus.reject)
    settle = waiting(metaphors.MetaphorCorpus.settle)
    settle_all = waiting(metaphors.MetaphorCorpus.settle_all)
    near_duplicates = waiting(metaphors.MetaphorCorpus.near_duplicates)


async def _every(corpus: metaphors.MetaphorCorpus) -> list[Metaphor]:
    return [metaphor async for metaphor in corpus]
