"""Tuning a collection, with one whose legs are written down."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from retrieval.domain.errors import EmbedderError, EmbedderUnavailableError, InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.profile import Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.refining import Refining
from retrieval.services.judgements import DropSelf, JudgedQuery, WhereFrom
from retrieval.services.tune import (
    ASKING,
    TRYING,
    Setting,
    apply_tuning,
    grid,
    profile_of,
    setting_of,
    tune_collection,
)
from tests.support.searching import kept

QUERIES = [
    JudgedQuery(query_id=f"q{n}", text=f"text {n}", metadata={"self_id": f"self {n}", "project": "p"})
    for n in range(40)
]
QRELS = {query.query_id: {"hit": 1} for query in QUERIES}


def ranked(leg: str, item_ids: Sequence[str]) -> list[Candidate]:
    """Candidates in that order with falling scores."""
    return [Candidate(leg, item_id, rank, 1 / rank) for rank, item_id in enumerate(item_ids, 1)]


@dataclass
class Tuned:
    """Its lexical leg is always right and its dense leg is noise; each finds the query itself first."""

    profile: Profile = field(default_factory=Profile)
    missing: tuple[str, ...] = ()
    """Legs that give nothing among others."""
    error: Exception | None = None
    """What a missing leg raises when it is asked alone."""
    vectors: dict[str, Vector] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    stored: list[tuple[Profile, str]] = field(default_factory=list)

    async def get(self, item_ids: Sequence[str]) -> dict[str, object]:
        """All of them."""
        return dict.fromkeys(item_ids, object())

    async def leg_rankings(
        self, query: str, *, where: dict[str, Any] | None, legs: Sequence[str], depth: int
    ) -> dict[str, list[Candidate]]:
        """At most ``depth`` candidates a leg."""
        self.asked.append({"query": query, "where": where, "legs": tuple(legs), "depth": depth})
        if len(legs) == 1 and legs[0] in self.missing and self.error:
            raise self.error
        number = int(query.removeprefix("text "))
        noise = [f"x{i}" for i in np.random.default_rng(number).permutation(30)]
        found = {"lexical": [f"self {number}", "hit", *noise], "dense": [f"self {number}", *noise]}
        return {leg: ranked(leg, kept(found[leg], where)[:depth]) for leg in legs if leg not in self.missing}

    async def embeddings(self, item_ids: Sequence[str]) -> dict[str, Vector]:
        """Those that it was given."""
        return {item_id: self.vectors[item_id] for item_id in item_ids if item_id in self.vectors}

    async def set_profile(self, profile: Profile, *, note: str) -> int:
        """Keep it."""
        self.stored.append((profile, note))
        return len(self.stored) + 1


async def test_the_better_setting_becomes_a_profile() -> None:
    """With the depth that the profile had; nothing is stored yet."""
    collection = Tuned(Profile(depth=50))
    tuning = await tune_collection(collection, QUERIES, QRELS, drop_self=DropSelf("self_id"))

    assert tuning.report.improves
    assert tuning.profile.depth == 50
    assert tuning.profile.legs.get(LegName.LEXICAL, 0) > tuning.profile.legs.get(LegName.DENSE, 0)
    assert collection.stored == []
    assert tuning.as_dict()["profile"] == tuning.profile.as_dict()


async def test_applying_stores_the_profile_with_how_it_was_found() -> None:
    """And gives the version."""
    collection = Tuned()
    tuning = await tune_collection(collection, QUERIES, QRELS, seed=7)
    version = await apply_tuning(collection, tuning)

    assert version == 2
    ((profile, note),) = collection.stored
    assert profile == tuning.profile
    assert note.startswith("tuned on 40 queries, seed 7: nDCG@10 ")


async def test_refining_is_tuned_by_the_vectors_of_the_candidates() -> None:
    """Only those of the dense leg's noise have one here; what is proposed, refined or not, becomes the profile."""
    chance = np.random.default_rng(1)
    collection = Tuned(vectors={f"x{number}": chance.normal(size=3).astype(np.float32) for number in range(30)})
    tuning = await tune_collection(collection, QUERIES, QRELS)

    assert len(tuning.report.means) == len(grid(["dense", "lexical"], with_refining=True))
    refined = Setting({"dense": 0.6, "lexical": 0.4}, Fusion(kind=FusionKind.WEIGHTED_SUM), Refining(share=0.2))
    profile = profile_of(refined, 40)
    assert (profile.refining, profile.depth, setting_of(profile)) == (Refining(share=0.2), 40, refined)


async def test_without_a_gain_nothing_is_stored() -> None:
    """The current profile is the proposal."""
    collection = Tuned(Profile(legs={LegName.LEXICAL: 1.0}))
    tuning = await tune_collection(collection, QUERIES, QRELS)

    assert not tuning.report.improves
    assert tuning.profile == collection.profile
    assert await apply_tuning(collection, tuning) is None
    assert collection.stored == []


async def test_each_leg_is_asked_once_a_judged_query_with_its_filter() -> None:
    """For as many candidates as the profile asks for."""
    collection = Tuned(Profile(depth=20))
    unjudged = JudgedQuery(query_id="unjudged", text="text 99")
    await tune_collection(
        collection, [*QUERIES, unjudged], QRELS, where_from=[WhereFrom.parse("metadata.project=project")]
    )

    assert [one["query"] for one in collection.asked] == [query.text for query in QUERIES]
    assert {one["depth"] for one in collection.asked} == {20}
    assert {one["legs"] for one in collection.asked} == {("dense", "lexical")}
    assert all(one["where"] == {"project": "p"} for one in collection.asked)


async def test_the_querys_own_item_takes_no_rank() -> None:
    """With it, the right item would never be first."""
    means = []
    for own in (None, DropSelf("self_id")):
        tuning = await tune_collection(Tuned(), QUERIES, QRELS, drop_self=own)
        means.append(next(mean for setting, mean in tuning.report.means if setting == Setting({"lexical": 1.0})))
    assert means[0] < 1.0
    assert means[1] == 1.0


async def test_a_leg_that_cannot_run_says_so_itself() -> None:
    """Without it, tuning would choose among what is left and call it the best."""
    collection = Tuned(missing=("dense",), error=EmbedderUnavailableError("no connection"))
    with pytest.raises(EmbedderUnavailableError, match="no connection"):
        await tune_collection(collection, QUERIES, QRELS)
    assert len(collection.asked) == 2


async def test_a_leg_that_failed_once_ends_the_tuning() -> None:
    """Even though it works again when it is asked alone."""
    with pytest.raises(EmbedderError, match="dense leg failed on query 'q0'"):
        await tune_collection(Tuned(missing=("dense",)), QUERIES, QRELS)


async def test_both_stages_report_their_progress() -> None:
    """Each to its end."""
    steps: list[tuple[str, int, int]] = []
    await tune_collection(Tuned(), QUERIES, QRELS, progress=lambda *step: steps.append(step))

    asking = [step for step in steps if step[0] == ASKING]
    trying = [step for step in steps if step[0] == TRYING]
    assert asking == [(ASKING, n, 40) for n in range(1, 41)]
    assert steps == asking + trying
    assert trying[-1][1] == trying[-1][2] > 1


async def test_cancelled_while_it_calculates_it_stops_soon() -> None:
    """The thread ends at its next step instead of trying every setting."""
    tried: list[int] = []
    task: asyncio.Task[Any]

    def follow(stage: str, done: int, _total: int) -> None:
        if stage == TRYING:
            tried.append(done)
            loop.call_soon_threadsafe(task.cancel)
            cancelled.wait()

    loop, cancelled = asyncio.get_running_loop(), threading.Event()
    task = asyncio.create_task(tune_collection(Tuned(), QUERIES, QRELS, progress=follow))
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    await loop.shutdown_default_executor()
    assert tried == [1]


@pytest.mark.parametrize(
    ("cutoff", "folds", "reason"), [(0, 5, "cutoff is 0"), (1001, 5, "cutoff"), (10, 1, "folds"), (10, 41, "folds")]
)
async def test_what_cannot_be_measured_is_refused_before_the_first_search(cutoff: int, folds: int, reason: str) -> None:
    """The searches may take long."""
    collection = Tuned()
    with pytest.raises(InvalidRequestError, match=reason):
        await tune_collection(collection, QUERIES, QRELS, cutoff=cutoff, folds=folds)
    assert collection.asked == []


def test_a_profile_and_its_setting_are_one_another() -> None:
    """A leg without weight is no part of the setting."""
    profile = Profile(
        legs={LegName.DENSE: 0.0, LegName.LEXICAL: 2.0}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), depth=30
    )
    setting = setting_of(profile)
    assert setting.legs == {"lexical": 2.0}
    assert profile_of(setting, 30) == Profile(legs={LegName.LEXICAL: 2.0}, fusion=profile.fusion, depth=30)
