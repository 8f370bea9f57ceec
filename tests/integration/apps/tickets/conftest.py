"""A service over the historical tickets, which are stored once for all tests that only ask."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

import retrieval.sync
from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.tickets import TICKET_FILTERABLE, RetrievalService, ticket_item
from tests.support.database import SCHEMA
from tests.support.tickets import TICKETS


@pytest.fixture(scope="module")
def history_settings(database_url: str) -> Settings:
    """The settings of a tenant whose collection ``tickets`` holds ``TICKETS`` and one that is archived."""
    settings = Settings(tenant=f"tickets-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none")
    with retrieval.sync.connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
        collection = platform.collection("tickets", filterable=TICKET_FILTERABLE)
        collection.add([*map(ticket_item, TICKETS), {"_id": "old", "text": "timeout", "status": "archived"}])
    return settings


@pytest.fixture
async def history(database_url: str, history_settings: Settings) -> AsyncIterator[Platform]:
    """The read-only platform of that tenant."""
    async with connect(database_url, settings=history_settings, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture
def service(history: Platform) -> RetrievalService:
    """A service over it."""
    return RetrievalService(platform=history)
