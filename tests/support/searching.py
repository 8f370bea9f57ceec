"""Requests for candidates, as searches make them, a filter that leaves out one item, and a short measurement."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from retrieval import Collection
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.domain.search.filters import parse_where
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName
from retrieval.engine.plan import choose_way
from retrieval.services import indexes
from retrieval.services.indexes import wanted_form


def measure_by_few(patch: pytest.MonkeyPatch) -> None:
    """Let a few queries measure each new index, for tests of what happens to it: 600 take longer than a small build."""
    patch.setattr(indexes, "_SOURCES", 40)
    patch.setattr(indexes, "_QUERIES", {10: 12, 100: 4, 200: 4})


def excluded_item(where: dict[str, Any] | None) -> str | None:
    """The item that the filter leaves out, as ``retrieval.services.judgements.with_filters`` writes it."""
    parts = (where or {}).get("and", [where or {}])
    exclusions = [part["item_id"]["ne"] for part in parts if "item_id" in part]
    return exclusions[0] if exclusions else None


def without_excluded(item_ids: Iterable[str], where: dict[str, Any] | None) -> list[str]:
    """The ids without the one that the filter leaves out."""
    own = excluded_item(where)
    return [item_id for item_id in item_ids if item_id != own]


async def leg_request(collection: Collection, *legs: LegName, depth: int, where: dict[str, Any]) -> CandidateRequest:
    """The request of a search with these legs, and that many candidates of each."""
    stored = await collection.refresh()
    way = choose_way(stored, legs, depth=depth, limit=depth, is_filtered=bool(where))
    return CandidateRequest(
        collection_id=stored.collection_id,
        legs=legs,
        depth=depth,
        condition=parse_where(where),
        filterable=stored.filterable,
        path=way.path,
        documents=stored.documents,
        few=way.few,
        reach=way.reach,
    )


def index_names(stored: StoredCollection) -> list[str]:
    """The names that the collection's HNSW index has or is to have, one a part."""
    assert stored.space is not None
    form = wanted_form(stored) if stored.ann_index is None else stored.ann_index.form
    return form.names(stored.space.space_id, stored.collection_id)


async def walk_request(collection: Collection, where: dict[str, Any] | None = None, **changes: Any) -> CandidateRequest:
    """The request of a search that walks the collection's index, however few items match."""
    stored = await collection.refresh()
    assert stored.space is not None
    assert stored.ann_index is not None
    request = CandidateRequest(
        collection_id=stored.collection_id,
        legs=(LegName.DENSE,),
        depth=10,
        condition=parse_where(where),
        path=Path.APPROXIMATE,
        space_id=stored.space.space_id,
        dimensions=stored.space.space.dimensions,
        documents=stored.documents,
        few=-1,
        reach=stored.documents,
        effort=stored.ann_index.effort_10,
        is_quantised=stored.ann_index.is_quantised,
        parts=stored.ann_index.parts,
    )
    return replace(request, **changes)


def without_shard(line: str) -> str:
    """A line of a plan with the names of tables and indexes, to which a node of a cluster adds a number."""
    return re.sub(r"(?<=\w)_\d{6,}\b", "", line)
