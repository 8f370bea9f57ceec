"""The decider of a tenant's collections, without a database."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.learning import models
from retrieval.engine.decide import Decider


@pytest.mark.asyncio
async def test_a_replica_reads_models_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that does not have a version yet does not hide it from the primary."""
    primary, replica = cast("Database", "primary"), cast("Database", "replica")
    read: list[Database] = []

    async def read_definition(place: CollectionPlace, version: int) -> None:
        assert version == 3
        read.append(place.database)

    monkeypatch.setattr(models, "read_definition", read_definition)
    decider = Decider(primary, 1)
    for reader in (decider, replace(decider, database=replica), decider):
        assert await reader.model(7, 3) is None
    assert read == [primary, replica]
