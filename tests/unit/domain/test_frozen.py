"""Values with mappings do not change, and can be copied and sent to other processes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from retrieval.domain.items.chunking import Document
from retrieval.domain.items.memory import NewMemory
from retrieval.domain.records.slate import ShownItem
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.signals import Priority
from retrieval.services.judgements import JudgedQuery

_MEMORY = NewMemory(
    memory_id="a", project_id="p", interaction_type="note", content="x", occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
    links={"questions": ["q1"]}, metadata={"a": 1},
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "mapping"),
    [
        (Profile(), "legs"),
        (Profile(legs={"dense": 0.5}), "legs"),
        (Priority(weight=1), "values"),
        (ShownItem(item_id="a", score=1, signals={"relevance": 0.5}), "signals"),
        (Document(document_id="a"), "attributes"),
        (_MEMORY, "links"),
        (JudgedQuery(query_id="1", text="x"), "metadata"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_with_a_mapping_can_be_sent_to_another_process_and_copied(value: object, mapping: str) -> None:
    """The mapping stays frozen."""
    for same in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):  # noqa: S301 - our own
        assert same == value
        frozen = getattr(same, mapping)
        assert isinstance(frozen, Mapping)
        with pytest.raises(TypeError):
            frozen["dense"] = 2.0  # type: ignore[index]


def test_a_profile_of_signals_ranks_alike_in_another_process() -> None:
    """Its signals keep their values."""
    profile = Profile(fusion=Fusion(kind=FusionKind.UNION), signals=(Priority(weight=1, values={"High": 0.8}),))
    assert pickle.loads(pickle.dumps(profile)).as_dict() == profile.as_dict()  # noqa: S301 - our own
