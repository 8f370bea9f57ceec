"""A platform with a small corpus, for the tests of metaphors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count

import pytest
import pytest_asyncio

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.metaphors import Metaphor, MetaphorCorpus
from retrieval.domain.items.embedding import TextRole, Vectors
from tests.support.database import SCHEMA
from tests.support.metaphors import CORPUS


class CountingEmbedder(HashingEmbedder):
    """Embeds by words, and counts the requests for queries."""

    calls = 0

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """As the hashing embedder does."""
        self.calls += role is TextRole.QUERY
        return await super().embed(texts, role)


@pytest.fixture(scope="module")
def embedder() -> CountingEmbedder:
    """The module's embedder."""
    return CountingEmbedder(256)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(
    database_url: str, embedder: CountingEmbedder, request: pytest.FixtureRequest
) -> AsyncIterator[Platform]:
    """The platform that the module's corpora are on."""
    settings = Settings(tenant=request.node.name, database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=embedder) as platform:
        yield platform


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corpus(house: Platform) -> MetaphorCorpus:
    """Six metaphors, that all tests of the module read and none changes."""
    return await MetaphorCorpus.open(house, "shared", CORPUS)


NewCorpus = Callable[..., Awaitable[MetaphorCorpus]]


@pytest.fixture(scope="module")
def new_corpus(house: Platform) -> NewCorpus:
    """Makes corpora of a test's own."""
    numbers = count()

    async def make(static: Sequence[Metaphor] = CORPUS) -> MetaphorCorpus:
        return await MetaphorCorpus.open(house, f"own-{next(numbers)}", static)

    return make
