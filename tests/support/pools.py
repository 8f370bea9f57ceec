"""Recorded pools, made up."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from retrieval.domain.recorded_pool import RecordedPool


def pool_of(legs: Mapping[str, Mapping[str, float]], **others: Any) -> RecordedPool:
    """The pool of a search whose legs gave these scores; ``others`` replaces what is usual."""
    items = list(dict.fromkeys(item_id for scores in legs.values() for item_id in scores))
    usual: dict[str, Any] = {
        "retrieval_id": uuid.uuid4(),
        "retrieved_at": datetime(2026, 3, 1, tzinfo=UTC),
        "limit": 2,
        "profile_version": 1,
        "is_grouped": False,
        "policy": "off/1",
        "seed": 1,
        "item_ids": items,
        "scores": {leg: [scores.get(item_id) for item_id in items] for leg, scores in legs.items()},
    }
    return RecordedPool(**{**usual, **others})
