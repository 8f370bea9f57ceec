"""Evaluating a collection, with one that answers from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.domain.search.hit import Explanation, Hit, Path, SearchResult
from retrieval.domain.search.profile import LegName, Profile
from retrieval.services.evaluate import chosen_legs, evaluate_collection, parse_metrics
from retrieval.services.judgements import DropSelf, JudgedQuery, WhereFrom
from tests.support.searching import kept

QUERIES = [
    JudgedQuery(query_id="q1", text="one", metadata={"self_id": "x", "project": "p"}),
    JudgedQuery(query_id="q2", text="two", metadata={"self_id": "y", "project": "q"}),
]
QRELS = {"q1": {"a": 1}, "q2": {"b": 1}}
METRICS = parse_metrics("nDCG@10,R@100")


@dataclass
class Searched:
    """A collection whose answers are written down by legs."""

    answers: Mapping[tuple[str, ...] | None, Sequence[str]]
    profile: Profile = field(default_factory=Profile)
    notes: tuple[str, ...] = ()
    asked: list[dict[str, Any]] = field(default_factory=list)
    absent: frozenset[str] = frozenset()

    async def get(self, item_ids: Sequence[str]) -> dict[str, object]:
        """All but those that are absent."""
        return {item_id: object() for item_id in item_ids if item_id not in self.absent}

    async def search(
        self, query: str, *, where: dict[str, Any] | None, limit: int, legs: Sequence[str] | None, syntax: bool
    ) -> SearchResult:
        """The ids written down, whatever the query, which is taken as it stands."""
        assert not syntax
        chosen = None if legs is None else tuple(legs)
        self.asked.append({"query": query, "where": where, "limit": limit, "legs": chosen})
        hits = [
            Hit(item_id=item_id, score=0.0, rank=rank, explanation=Explanation("rrf", ()))
            for rank, item_id in enumerate(kept(self.answers[chosen], where), 1)
        ]
        return SearchResult(hits=tuple(hits), path=Path.NONE, why="", profile_version=1, notes=self.notes)


def both_legs(**more: Any) -> Searched:
    """Dense finds one answer, lexical the other, fused both."""
    return Searched({("dense",): ["a"], ("lexical",): ["b"], None: ["a", "b"]}, **more)


async def test_each_leg_is_measured_alone_and_then_the_profile() -> None:
    """The profile as it is: no legs are named for the fused search."""
    found = (await evaluate_collection(both_legs(), QUERIES, QRELS, metrics=METRICS)).report

    assert [one.variant for one in found.variants] == ["dense", "lexical", "fused"]
    assert [one.means["R@100"] for one in found.variants] == [0.5, 0.5, 1.0]
    assert [(one.name_a, one.name_b) for one in found.comparisons] == [("fused", "dense"), ("fused", "lexical")]


async def test_the_legs_come_first() -> None:
    """So that one that cannot run is reported before the long work."""
    collection = both_legs()
    await evaluate_collection(collection, QUERIES, QRELS, metrics=METRICS)

    assert [one["legs"] for one in collection.asked[::2]] == [("dense",), ("lexical",), None]


async def test_named_legs_restrict_the_fused_search_too() -> None:
    """Also where the profile has others."""
    collection = Searched({("dense",): [], ("lexical",): ["b"], ("lexical", "dense"): ["b"]})
    found = await evaluate_collection(collection, QUERIES, QRELS, metrics=METRICS, legs=["lexical", "dense"])

    assert [one.variant for one in found.report.variants] == ["lexical", "dense", "fused"]


async def test_one_leg_is_compared_with_nothing() -> None:
    """Its fusion would be the same."""
    found = (await evaluate_collection(both_legs(), QUERIES, QRELS, metrics=METRICS, legs=["dense"])).report

    assert [one.variant for one in found.variants] == ["dense"]
    assert found.comparisons == ()


async def test_queries_bring_their_filter_and_leave_themselves_out() -> None:
    """The own item costs no place, and a search is never asked for more than it gives."""
    collection = Searched({("dense",): ["x", "y", "a", "b"]})
    found = await evaluate_collection(
        collection,
        QUERIES,
        QRELS,
        metrics=parse_metrics("MRR@1000"),
        legs=["dense"],
        where_from=[WhereFrom.parse("metadata.project=project")],
        drop_self=DropSelf.parse("metadata.self_id"),
    )

    assert found.report.variants[0].per_query["MRR@1000"] == {"q1": 1 / 2, "q2": 1 / 3}
    filters = [one["where"]["and"][0] for one in collection.asked]
    assert filters == [{"project": "p"}, {"project": "q"}]
    assert [one["limit"] for one in collection.asked] == [1000, 1000]


async def test_what_searches_say_is_counted() -> None:
    """A leg that did not run changes what the figures mean."""
    found = await evaluate_collection(both_legs(notes=("no embedder",)), QUERIES, QRELS, metrics=METRICS)

    assert found.notes == {"no embedder": 6}
    assert found.as_dict()["notes"] == {"no embedder": 6}


async def test_a_metric_deeper_than_a_search_is_refused_before_the_first() -> None:
    """The figure would be another than its name says."""
    collection = both_legs()
    with pytest.raises(InvalidRequestError, match=r"R@5000 looks at 5000"):
        await evaluate_collection(collection, QUERIES, QRELS, metrics=parse_metrics("R@5000"))
    assert collection.asked == []


def test_legs_without_weight_are_not_measured() -> None:
    """Unless they are asked for."""
    profile = Profile(legs={LegName.DENSE: 0.0, LegName.LEXICAL: 1.0})
    assert chosen_legs(profile, None) == ("lexical",)
    assert chosen_legs(profile, ["dense", "dense"]) == ("dense",)
    with pytest.raises(InvalidProfileError, match="no leg 'bm25'"):
        chosen_legs(profile, ["bm25"])


async def test_judged_items_that_are_not_there_are_told() -> None:
    """Some in a note; where none is there, nothing is measured."""
    some = await evaluate_collection(both_legs(absent=frozenset("b")), QUERIES, QRELS, metrics=METRICS)
    assert "1 of 2 relevant items are not in the collection, such as 'b'" in some.notes
    collection = both_legs(absent=frozenset("ab"))
    with pytest.raises(InvalidRequestError, match="none of the 2 judged items is in the collection, such as 'a'"):
        await evaluate_collection(collection, QUERIES, QRELS, metrics=METRICS)
    assert not collection.asked
