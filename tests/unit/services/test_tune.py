"""Tuning on candidates with a known best setting, and of a collection whose legs are written down."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.domain.errors import EmbedderError, EmbedderUnavailableError, InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.diversity import PoolVectors, Refining
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.profile import Fusion, FusionKind, LegName, Profile, StoredProfile
from retrieval.domain.search.reranking import Rerank
from retrieval.services.evaluate import measure, parse_metric
from retrieval.services.judgements import JudgedQuery, Qrels
from retrieval.services.tune import (
    ASKING,
    REFINED,
    TRYING,
    Setting,
    TuningReport,
    apply_tuning,
    grid,
    profile_of,
    setting_of,
    tune,
    tune_collection,
)
from tests.support.searching import without_excluded

EVEN = Setting({"dense": 1.0, "lexical": 1.0})
LEXICAL = Setting({"lexical": 1.0})
WEIGHTED = Fusion(kind=FusionKind.WEIGHTED_SUM)

Case = tuple[dict[str, dict[str, list[Candidate]]], dict[str, dict[str, int]]]


def ranked(leg: str, item_ids: Sequence[str]) -> list[Candidate]:
    """Candidates in that order with evenly falling scores."""
    return [Candidate(leg, item_id, rank, 1 / rank) for rank, item_id in enumerate(item_ids, start=1)]


def noisy_dense(queries: int, seed: int = 1) -> Case:
    """Lexical finds the relevant item at rank 1, dense ranks at random: lexical alone is best."""
    rng = np.random.default_rng(seed)
    rankings, qrels = {}, {}
    for number in range(queries):
        others = [f"x{i}" for i in rng.permutation(30)]
        rankings[f"q{number}"] = {
            "lexical": ranked("lexical", ["hit", *others[:20]]),
            "dense": ranked("dense", [f"x{i}" for i in rng.permutation(30)]),
        }
        qrels[f"q{number}"] = {"hit": 1}
    return rankings, qrels


def complementary(queries: int, seed: int = 1) -> Case:
    """Each leg has the relevant item at rank 2 behind an error of its own: only both have it first."""
    rng = np.random.default_rng(seed)
    rankings, qrels = {}, {}
    for number in range(queries):
        rankings[f"q{number}"] = {
            leg: ranked(leg, [f"{leg} error", "hit", *(f"{leg} {i}" for i in rng.permutation(10))])
            for leg in ("dense", "lexical")
        }
        qrels[f"q{number}"] = {"hit": 1}
    return rankings, qrels


def split(*, dense: int, lexical: int) -> Case:
    """``dense`` queries that only the dense leg answers, and ``lexical`` queries that only the lexical leg answers."""
    legs = ["dense"] * dense + ["lexical"] * lexical
    rankings = {f"q{number}": {leg: ranked(leg, ["hit"])} for number, leg in enumerate(legs)}
    return rankings, {query_id: {"hit": 1} for query_id in rankings}


def test_a_noisy_leg_is_tuned_away() -> None:
    """From an even fusion, tuning goes to the good leg alone, and every fold agrees."""
    rankings, qrels = noisy_dense(40)

    report = tune(rankings, qrels, EVEN)

    assert report.improves
    assert report.proposal == LEXICAL
    assert set(map(Setting.describe, report.chosen)) == {"lexical alone"}
    assert report.reason.startswith("change to lexical alone: tuning gains +")
    assert report.comparisons[0].significant
    assert report.comparisons[0].mean_a == 1.0


def test_complementary_legs_are_fused() -> None:
    """From one leg alone, tuning goes to the simplest fusion that is best."""
    rankings, qrels = complementary(20)

    report = tune(rankings, qrels, LEXICAL)

    assert report.improves
    assert report.proposal == EVEN
    assert [comparison.name_b for comparison in report.comparisons] == ["current", "dense alone"]
    assert [comparison.mean_b for comparison in report.comparisons] == pytest.approx([1 / math.log2(3)] * 2)


def test_the_best_setting_is_kept() -> None:
    """When the current setting is as good as any, it stays, although others equal it."""
    rankings, qrels = noisy_dense(20)
    heavy = Setting({"lexical": 5.0})

    report = tune(rankings, qrels, heavy)

    assert not report.improves
    assert report.proposal is heavy
    assert report.reason == "keep the current profile: it is the best of 21 settings"


def test_a_gain_on_few_queries_is_not_believed() -> None:
    """Five queries, all better: p is 2/32 at the least, so the profile stays and the reason says why."""
    rankings, qrels = complementary(5)

    report = tune(rankings, qrels, LEXICAL)

    assert not report.improves
    assert report.proposal is LEXICAL
    assert report.comparisons[0].difference > 0
    assert "may be chance; judge more than 5 queries" in report.reason


def test_a_gain_that_vanishes_on_held_out_queries_is_not_believed() -> None:
    """Every setting fits a few queries of its own: the best on all is no better on queries it did not see."""
    rng = np.random.default_rng(4)
    items = [f"d{number}" for number in range(20)]
    rankings = {
        f"q{number}": {leg: ranked(leg, [items[i] for i in rng.permutation(20)]) for leg in ("dense", "lexical")}
        for number in range(60)
    }
    qrels = {query_id: {items[int(rng.integers(20))]: 1} for query_id in rankings}

    report = tune(rankings, qrels, EVEN)

    assert report.means[0][1] > {setting.describe(): mean for setting, mean in report.means}[EVEN.describe()]
    assert not report.improves
    assert report.reason.startswith("keep the current profile: ")
    assert report.proposal is EVEN


def test_held_out_queries_have_no_say_in_their_own_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense answers half of the queries, lexical the rest: the others always choose the failing leg."""
    monkeypatch.setattr("retrieval.services.tune.FOLDS", 8)
    monkeypatch.setattr("retrieval.services.tune.grid", lambda *_, **__: [LEXICAL])
    rankings, qrels = split(dense=4, lexical=4)

    report = tune(rankings, qrels, Setting({"dense": 1.0}))

    assert report.comparisons[0].mean_a == 0.0
    assert report.comparisons[0].mean_b == 0.5
    assert sorted(map(Setting.describe, report.chosen)) == ["dense alone"] * 4 + ["lexical alone"] * 4


def test_a_setting_that_loses_on_held_out_queries_is_not_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best on all queries by one of 21, and significantly worse held out: the reason says that."""
    monkeypatch.setattr("retrieval.services.tune.FOLDS", 21)
    monkeypatch.setattr("retrieval.services.tune.grid", lambda *_, **__: [LEXICAL])
    rankings, qrels = split(dense=10, lexical=11)

    report = tune(rankings, qrels, Setting({"dense": 1.0}))

    assert report.means[0][0] == LEXICAL
    assert report.comparisons[0].significant
    assert not report.improves
    assert report.reason.startswith("keep the current profile: no gain on held-out queries (-0.4762, p = ")


def test_equal_input_and_seed_give_an_equal_report() -> None:
    """The order of the queries does not matter; the seed does and is reported."""
    rankings, qrels = noisy_dense(23)
    turned = dict(reversed(rankings.items()))

    assert tune(rankings, qrels, EVEN, seed=5) == tune(turned, qrels, EVEN, seed=5)
    assert tune(rankings, qrels, EVEN, seed=5).seed == 5


def test_means_are_those_of_the_standard_metric() -> None:
    """Every setting's mean is the nDCG that ir-measures gives for its rankings, best first."""
    rankings, qrels = noisy_dense(12, seed=9)

    report = tune(rankings, qrels, EVEN, cutoff=5)

    assert report.metric == "nDCG@5"
    assert len(report.means) == 20
    assert [mean for _, mean in report.means] == sorted((mean for _, mean in report.means), reverse=True)
    for setting, mean in report.means:
        run = {query_id: setting.rank(legs) for query_id, legs in rankings.items()}
        assert mean == pytest.approx(fmean(measure(run, qrels, parse_metric("nDCG@5")).values()))


def test_progress_counts_the_settings() -> None:
    """From 1 to the number of settings tried."""
    rankings, qrels = complementary(5)
    progress: list[tuple[int, int]] = []

    tune(rankings, qrels, EVEN, progress=lambda done, total: progress.append((done, total)))

    assert progress == [(number, 20) for number in range(1, 21)]


def test_a_query_that_a_leg_finds_nothing_for_scores_zero_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty and missing legs are not an error."""
    monkeypatch.setattr("retrieval.services.tune.FOLDS", 2)
    rankings = {
        "q0": {"lexical": ranked("lexical", ["hit"]), "dense": []},
        "q1": {"dense": ranked("dense", ["hit"])},
    }
    report = tune(rankings, {"q0": {"hit": 1}, "q1": {"hit": 1}}, EVEN)

    means = {setting.describe(): mean for setting, mean in report.means}
    assert (means["lexical alone"], means["dense alone"], means[EVEN.describe()]) == (0.5, 0.5, 1.0)


def test_the_grid_tries_each_combination_once() -> None:
    """No two settings are the same in other terms."""
    tried = grid()
    shapes = {
        (s.fusion.kind, tuple((leg, round(w / sum(s.legs.values()), 9)) for leg, w in s.legs.items())) for s in tried
    }

    assert len(tried) == len(shapes) == 20


def test_the_grid_goes_from_simple_to_elaborate() -> None:
    """Single legs, then the even RRF, then others: equal quality goes to the simpler one."""
    tried = grid(k=10)

    assert [setting.describe() for setting in tried[:4]] == [
        "dense alone",
        "lexical alone",
        "RRF (k = 10) of dense 1, lexical 1",
        "RRF (k = 10) of dense 2, lexical 3",
    ]
    assert tried[-1].describe() == "weighted sum of dense 0.9, lexical 0.1"


def test_weighted_sums_with_the_dense_leg_are_tried_with_refining() -> None:
    """This needs vectors; refined settings come after unrefined ones, so that a tie goes to the simpler one."""
    added = [profile for profile in grid(with_refining=True) if not profile.refining.is_off]

    assert added == [replace(profile, refining=REFINED) for profile in grid()[-9:]]
    assert added[0].describe() == "weighted sum of dense 0.1, lexical 0.9, refined by 0.25"


def test_refining_is_proposed_where_it_helps() -> None:
    """The second relevant item ranks low in both legs, and is similar to the first: only vectors show it."""
    others = [f"x{number}" for number in range(20)]
    in_order = {leg: ranked(leg, ["first", *others[:12], "hit", *others[12:]]) for leg in ("dense", "lexical")}
    rankings = {f"q{number}": in_order for number in range(20)}
    qrels = {key: {"first": 1, "hit": 1} for key in rankings}
    alike = {"first": np.array([1.0, 0.0, 0.0]), "hit": np.array([0.9, 0.1, 0.0])}
    vectors = alike | {other: np.array([0.0, 1.0, place / 20]) for place, other in enumerate(others)}

    report = tune(rankings, qrels, EVEN, vectors=PoolVectors.of(vectors))

    assert report.improves
    assert report.proposal.refining == REFINED
    assert not tune(rankings, qrels, EVEN).improves


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.sampled_from([Fusion(), WEIGHTED]))
@settings(max_examples=50, deadline=None)
def test_a_leg_alone_ranks_as_the_leg_does(item_ids: list[str], fusion: Fusion) -> None:
    """Fusion of one leg leaves its order, and other legs' candidates stay out."""
    rankings = {"dense": ranked("dense", item_ids), "lexical": ranked("lexical", ["z", "y"])}

    assert Setting({"dense": 2.0}, fusion).rank(rankings) == item_ids


def test_the_report_is_plain_json() -> None:
    """It survives being written and read, and names every setting with its mean."""
    rankings, qrels = complementary(8)
    report: TuningReport = tune(rankings, qrels, LEXICAL)

    plain = report.as_dict()

    assert json.loads(json.dumps(plain)) == plain
    assert plain["proposal"] == {
        "legs": {"dense": 1.0, "lexical": 1.0},
        "fusion": {"kind": "rrf", "k": 60},
        "refining": {"share": 0.0},
    }
    assert len(plain["means"]) == 20
    assert fmean(mean["mean"] for mean in plain["means"]) <= plain["means"][0]["mean"]


QUERIES = [JudgedQuery(query_id=f"q{n}", text=f"text {n}") for n in range(40)]
WITHOUT_SELF = [replace(query, where={"item_id": {"ne": f"self {n}"}}) for n, query in enumerate(QUERIES)]
QRELS = {query.query_id: {"hit": 1} for query in QUERIES}


def ranked_collection(leg: str, item_ids: Sequence[str]) -> list[Candidate]:
    """Candidates in that order with falling scores."""
    return [Candidate(leg, item_id, rank, 1 / rank) for rank, item_id in enumerate(item_ids, 1)]


@dataclass
class Tuned:
    """Its lexical leg is always right, and its dense leg is noise; each finds the query's own item first."""

    profile: Profile = field(default_factory=Profile)
    missing: tuple[str, ...] = ()
    """Legs that give nothing among others."""
    error: Exception | None = None
    """The error of a missing leg that is searched alone."""
    vectors: dict[str, Vector] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    kept: list[tuple[Profile, str]] = field(default_factory=list)

    @property
    def stored(self) -> Tuned:
        """The collection with its profile."""
        return self

    async def place(self) -> Tuned:
        """The first argument of ``get``."""
        return self

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
        rankings = {"lexical": [f"self {number}", "hit", *noise], "dense": [f"self {number}", *noise]}
        return {
            leg: ranked_collection(leg, without_excluded(rankings[leg], where)[:depth])
            for leg in legs
            if leg not in self.missing
        }

    async def embeddings(self, item_ids: Sequence[str]) -> dict[str, Vector]:
        """The given vectors."""
        return {item_id: self.vectors[item_id] for item_id in item_ids if item_id in self.vectors}

    async def change_profile(self, change: Callable[[StoredProfile], Profile], note: str) -> int:
        """Keep what it becomes."""
        used = StoredProfile(version=1, profile=self.profile, note="", created_at=datetime.now(UTC), is_active=True)
        self.kept.append((change(used), note))
        return len(self.kept) + 1


@pytest.fixture(autouse=True)
def of_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collections are those of ``Tuned``."""
    for name in ("leg_rankings", "embeddings", "change_profile"):
        monkeypatch.setattr(f"retrieval.services.tune.{name}", getattr(Tuned, name))
    monkeypatch.setattr("retrieval.services.tune.read_items", Tuned.get)


async def tuned(
    collection: Any, queries: Sequence[JudgedQuery] = QUERIES, qrels: Qrels = QRELS, **options: Any
) -> TuningReport:
    """The tuning of the fake collection."""
    return await tune_collection(collection, queries, qrels, **options)


async def applied(collection: Any, tuning: TuningReport) -> int | None:
    """The version of the stored profile."""
    return await apply_tuning(collection, tuning)


async def test_the_better_setting_becomes_a_profile() -> None:
    """With the depth that the profile had; nothing is stored yet."""
    collection = Tuned(Profile(depth=50))
    tuning = await tuned(collection, WITHOUT_SELF)

    assert tuning.improves
    assert tuning.profile is not None
    assert tuning.profile.depth == 50
    assert tuning.profile.legs.get(LegName.LEXICAL, 0) > tuning.profile.legs.get(LegName.DENSE, 0)
    assert collection.kept == []
    assert tuning.as_dict()["profile"] == tuning.profile.as_dict()


async def test_applying_stores_the_profile_with_how_it_was_found() -> None:
    """The call returns the version."""
    collection = Tuned()
    tuning = await tuned(collection, seed=7)
    version = await applied(collection, tuning)

    assert version == 2
    ((profile, note),) = collection.kept
    assert profile == tuning.profile
    assert note.startswith("tuned on 40 queries, seed 7: nDCG@10 ")


async def test_refining_is_tuned_by_the_vectors_of_the_candidates() -> None:
    """Only the noise of the dense leg has vectors here; the proposal, refined or not, becomes the profile."""
    chance = np.random.default_rng(1)
    collection = Tuned(vectors={f"x{number}": chance.normal(size=3).astype(np.float32) for number in range(30)})
    tuning = await tuned(collection)

    assert len(tuning.means) == len(grid(with_refining=True))
    refined = Setting({"dense": 0.6, "lexical": 0.4}, Fusion(kind=FusionKind.WEIGHTED_SUM), Refining(share=0.2))
    profile = profile_of(refined, Profile(depth=40))
    assert (profile.refining, profile.depth, setting_of(profile)) == (Refining(share=0.2), 40, refined)


async def test_without_a_gain_nothing_is_stored() -> None:
    """The current profile is the proposal."""
    collection = Tuned(Profile(legs={LegName.LEXICAL: 1.0}))
    tuning = await tuned(collection)

    assert not tuning.improves
    assert tuning.profile == collection.profile
    assert await applied(collection, tuning) is None
    assert collection.kept == []


async def test_each_leg_is_searched_once_per_judged_query_with_its_filter() -> None:
    """For as many candidates as the profile asks for."""
    collection = Tuned(Profile(depth=20))
    unjudged = JudgedQuery(query_id="unjudged", text="text 99")
    await tuned(collection, [*(replace(query, where={"project": "p"}) for query in QUERIES), unjudged])

    assert [request["query"] for request in collection.asked] == [query.text for query in QUERIES]
    assert {request["depth"] for request in collection.asked} == {20}
    assert {request["legs"] for request in collection.asked} == {("dense", "lexical")}
    assert all(request["where"] == {"project": "p"} for request in collection.asked)


async def test_the_querys_own_item_takes_no_rank() -> None:
    """With it, the right item would never be first."""
    means = []
    for queries in (QUERIES, WITHOUT_SELF):
        tuning = await tuned(Tuned(), queries)
        means.append(next(mean for setting, mean in tuning.means if setting == Setting({"lexical": 1.0})))
    assert means[0] < 1.0
    assert means[1] == 1.0


async def test_a_leg_that_cannot_run_says_so_itself() -> None:
    """Otherwise tuning would choose among the remaining legs."""
    collection = Tuned(missing=("dense",), error=EmbedderUnavailableError("no connection"))
    with pytest.raises(EmbedderUnavailableError, match="no connection"):
        await tuned(collection)
    assert len(collection.asked) == 2


async def test_a_leg_that_failed_once_ends_the_tuning() -> None:
    """Even if a later call of the leg works."""
    with pytest.raises(EmbedderError, match="dense leg failed on query 'q0'"):
        await tuned(Tuned(missing=("dense",)))


async def test_both_stages_report_their_progress() -> None:
    """Each to its end."""
    steps: list[tuple[str, int, int]] = []
    await tuned(Tuned(), progress=lambda *step: steps.append(step))

    asking = [step for step in steps if step[0] == ASKING]
    trying = [step for step in steps if step[0] == TRYING]
    assert asking == [(ASKING, n, 40) for n in range(1, 41)]
    assert steps == asking + trying
    assert trying[-1][1] == trying[-1][2] > 1


@pytest.mark.asyncio(loop_scope="function")  # which ends its threads
async def test_cancelled_while_it_calculates_it_stops_soon() -> None:
    """The thread ends at its next step instead of trying every setting."""
    tried: list[int] = []
    task: asyncio.Task[Any]

    def follow(stage: str, count: int, _total: int) -> None:
        if stage == TRYING:
            tried.append(count)
            loop.call_soon_threadsafe(task.cancel)
            cancelled.wait()

    loop, cancelled = asyncio.get_running_loop(), threading.Event()
    task = asyncio.create_task(tuned(Tuned(), progress=follow))
    with pytest.raises(asyncio.CancelledError):
        await task
    cancelled.set()
    await loop.shutdown_default_executor()
    assert tried == [1]


@pytest.mark.parametrize(
    ("cutoff", "queries", "reason"), [(0, 40, "cutoff is 0"), (1001, 40, "cutoff"), (10, 4, "needs 5")]
)
async def test_impossible_tunings_are_refused_before_the_first_search(cutoff: int, queries: int, reason: str) -> None:
    """The searches may take long."""
    collection = Tuned()
    with pytest.raises(InvalidRequestError, match=reason):
        await tuned(collection, QUERIES[:queries], cutoff=cutoff)
    assert collection.asked == []


def test_a_profile_and_its_setting_are_one_another() -> None:
    """A leg without weight is not part of the setting."""
    profile = Profile(
        legs={LegName.DENSE: 0.0, LegName.LEXICAL: 2.0}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), depth=30
    )
    setting = setting_of(profile)
    assert setting.legs == {"lexical": 2.0}
    assert profile_of(setting, profile) == Profile(legs={LegName.LEXICAL: 2.0}, fusion=profile.fusion, depth=30)


async def test_settings_that_are_not_tuned_stay() -> None:
    """The proposal for a profile that reranks also reranks."""
    before = Profile(rerank=Rerank(candidates=7), synonyms=(("car", "automobile"),))
    tuning = await tuned(Tuned(before))
    assert tuning.improves
    assert tuning.profile is not None
    assert tuning.profile.legs != before.legs
    assert (tuning.profile.rerank, tuning.profile.synonyms) == (before.rerank, before.synonyms)
