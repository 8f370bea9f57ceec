"""Platforms for LangChain, on a server with vectors of its own fake embeddings."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from langchain_core.embeddings import DeterministicFakeEmbedding
from pydantic import SecretStr

from retrieval import Platform, Settings, connect
from retrieval.surfaces.langchain import LangChainEmbedder
from retrieval.sync import SyncCollection, SyncPlatform
from retrieval.sync import connect as connect_sync
from tests.support.database import SCHEMA


def fake_embedder() -> LangChainEmbedder:
    """Vectors of six numbers, derived from the text."""
    return LangChainEmbedder(DeterministicFakeEmbedding(size=6), dimensions=6)


@pytest.fixture(scope="module")
def fake_settings(database_url: str) -> Settings:
    """The settings of a tenant that no other module has."""
    tenant = f"tenant-{uuid.uuid4()}"
    return Settings(tenant=tenant, database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url))


@pytest.fixture(scope="module")
def sync_platform(fake_settings: Settings) -> Iterator[SyncPlatform]:
    """A platform behind the sync door, shared by a module's tests."""
    with connect_sync(settings=fake_settings, embedder=fake_embedder()) as opened:
        yield opened


@pytest.fixture
def sync_collection(sync_platform: SyncPlatform) -> SyncCollection:
    """A collection that no other test sees."""
    return sync_platform.collection(f"docs-{uuid.uuid4()}")


@pytest.fixture(scope="module")
def async_elsewhere(fake_settings: Settings) -> Iterator[tuple[BlockingPortal, Platform]]:
    """An async platform that is open on the loop of another thread, as in a web application, and the way there."""
    platform = connect(settings=fake_settings, embedder=fake_embedder())
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(platform):
        yield portal, platform
