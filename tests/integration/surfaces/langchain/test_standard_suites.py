"""LangChain's own standard suites, on PostgreSQL."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

from retrieval import Platform
from retrieval.surfaces.langchain import RetrievalRetriever, RetrievalVectorStore
from retrieval.sync import SyncCollection


class TestVectorStore(VectorStoreIntegrationTests):
    """A store on a collection of the sync door: sync methods, and async ones from a loop that is not its own."""

    @pytest.fixture
    def vectorstore(self, sync_collection: SyncCollection) -> VectorStore:
        """An empty store."""
        return RetrievalVectorStore(sync_collection)


class TestVectorStoreOfTheAsyncPlatform(VectorStoreIntegrationTests):
    """A store on an async collection, called from other threads and loops than the one it belongs to."""

    @pytest.fixture
    def vectorstore(self, async_elsewhere: tuple[BlockingPortal, Platform]) -> VectorStore:
        """An empty store."""
        portal, platform = async_elsewhere

        async def made() -> VectorStore:
            return RetrievalVectorStore(await platform.collection(f"docs-{uuid.uuid4()}"))

        return portal.call(made)


class TestRetriever(RetrieversIntegrationTests):
    """A retriever on a collection of the sync door."""

    @pytest.fixture(autouse=True)
    def _filled(self, sync_collection: SyncCollection) -> None:
        sync_collection.add({"_id": str(number), "text": f"login fails for user {number}"} for number in range(5))
        self.collection = sync_collection

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        """The class under test."""
        return RetrievalRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        """The arguments of its constructor."""
        return {"collection": self.collection}

    @property
    def retriever_query_example(self) -> str:
        """A question."""
        return "who cannot log in?"
