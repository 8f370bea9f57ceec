"""Off-policy estimates in the database: they say what NumPy says, and what only the tenant may know."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from off_policy_numpy import Traffic, differences, estimates, weigh

from retrieval import Platform
from retrieval.adapters.store.installation.opening import ensure_tenant
from retrieval.adapters.store.learning.off_policy import RecordedTraffic, read_comparison, read_weighings
from retrieval.domain.learning.off_policy import CLIP, Estimate, Estimator, TargetPolicy, Weighing
from tests.support.recorded import Feedback, Impression, Recorded, record

SINCE = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Simulated:
    """Recorded searches, two targets, and the same as NumPy needs it."""

    recorded: list[Recorded] = field(default_factory=list)
    targets: tuple[TargetPolicy, TargetPolicy] = field(default_factory=lambda: (TargetPolicy(), TargetPolicy()))

    def traffic(self, which: int) -> Traffic:
        """The input of the NumPy estimators, read from the rows without the SQL under test."""
        target = self.targets[which]
        entries = zip(target.retrieval_ids, target.item_ids, target.probabilities, target.modelled, strict=True)
        slates: dict[uuid.UUID, dict[str, tuple[float, float]]] = {search.retrieval_id: {} for search in self.recorded}
        for retrieval_id, item_id, probability, modelled in entries:
            slates[retrieval_id][item_id] = (probability, modelled)
        rows = [
            (place, hit.propensity, *slates[search.retrieval_id].get(hit.item_id, (0.0, 0.0)), _reward(hit))
            for place, search in enumerate(self.recorded)
            for hit in search.shown
        ]
        retrieval, propensity, probability, modelled, reward = np.array(rows).T
        return Traffic.of_rows(
            retrieval=retrieval.astype(np.int64),
            propensity=propensity,
            target=probability,
            reward=reward,
            modelled=modelled,
            expected=[sum(p for p, _ in slates[search.retrieval_id].values()) for search in self.recorded],
            direct=[sum(p * q for p, q in slates[search.retrieval_id].values()) for search in self.recorded],
        )


def _reward(hit: Impression) -> float:
    live = [
        (feedback.weight, feedback.reward)
        for feedback in hit.feedback
        if feedback.weight > 0 and not feedback.is_superseded
    ]
    return sum(w * r for w, r in live) / sum(w for w, _ in live) if live else np.nan


def simulated(retrievals: int) -> Simulated:
    """Slates of one to four of six items, some unrated, some rated twice, by another's weight, or no more."""
    rng, simulation = np.random.default_rng(7), Simulated()
    for number in range(retrievals):
        items = [f"i{n}" for n in rng.permutation(6)[: rng.integers(1, 5)]]
        hits = [
            Impression(item, propensity=float(rng.choice([0.002, 0.2, 0.7, 1.0])), feedback=_feedback(rng))
            for item in items
        ]
        search = Recorded(retrieved_at=SINCE + timedelta(minutes=number), shown=hits)
        simulation.recorded.append(search)
        for target in simulation.targets:
            target.add(search.retrieval_id, {f"i{n}": float(rng.random()) for n in range(6) if rng.random() < 0.8})
            target.add(search.retrieval_id, {"never shown": 0.25})
    for target in simulation.targets:
        target.modelled[:] = rng.random(len(target.modelled)).tolist()
    return simulation


def _feedback(rng: np.random.Generator) -> tuple[Feedback, ...]:
    kinds = (
        (),
        (Feedback(float(rng.random())),),
        (Feedback(float(rng.random()), weight=0.25), Feedback(float(rng.random()), weight=0.5)),
        (Feedback(1.0, is_superseded=True), Feedback(0.0)),
        (Feedback(1.0, weight=0.0),),
    )
    return kinds[rng.integers(len(kinds))]


async def prepare(platform: Platform, simulation: Simulated, name: str = "docs") -> RecordedTraffic:
    """Store the searches in a collection, and one search from before the period."""
    collection = await platform.collection(name)
    collection_id = (await collection.refresh()).collection_id
    early = Recorded(retrieved_at=SINCE - timedelta(days=1), shown=[Impression("i1", feedback=(Feedback(1.0),))])
    async with platform.database.transaction(platform.tenant_id) as connection:
        await record(connection, collection_id, [*simulation.recorded, early])
    return RecordedTraffic(collection_id=collection_id, since=SINCE)


@pytest.mark.parametrize("default_reward", [None, 0.25])
async def test_estimates_are_numpys(platform: Platform, default_reward: float | None) -> None:
    """Every estimate, error and difference, plain and clipped, agrees with the reference to 1e-9."""
    corpus = simulated(80)
    prepared_traffic = await prepare(platform, corpus)
    traffic = RecordedTraffic(collection_id=prepared_traffic.collection_id, since=SINCE, default_reward=default_reward)
    first, second = (corpus.traffic(which).with_default(default_reward) for which in (0, 1))
    async with platform.database.snapshot(platform.tenant_id) as connection:
        comparison = await read_comparison(connection, traffic, *corpus.targets)
    assert comparison.keys() == {(estimator, clipped) for estimator in Estimator for clipped in (False, True)}
    for (estimator, is_clipped), compared in comparison.items():
        clip = CLIP if is_clipped else None
        agree(compared.first, estimates(first, clip=clip)[estimator])
        agree(compared.second, estimates(second, clip=clip)[estimator])
        agree(compared.difference, differences(first, second, clip=clip)[estimator])


async def test_weighings_are_numpys(platform: Platform) -> None:
    """Counts, effective sample size and mean weight agree with the reference to 1e-9."""
    corpus = simulated(80)
    traffic = await prepare(platform, corpus)
    async with platform.database.snapshot(platform.tenant_id) as connection:
        weighings = await read_weighings(connection, traffic, *corpus.targets)
    assert weighings[0].clipped > 0  # so that clipping is tested at all
    for weighing, which in zip(weighings, (0, 1), strict=True):
        expected = weigh(corpus.traffic(which))
        for name in Weighing.__slots__:
            assert getattr(weighing, name) == pytest.approx(getattr(expected, name), rel=1e-9, abs=1e-9), name


async def test_traffic_without_rewards_has_no_estimates(platform: Platform) -> None:
    """Without ratings there is no estimate, and the weighing gives the reason."""
    unrated = Simulated([Recorded(retrieved_at=SINCE, shown=[Impression("i1")])])
    unrated.targets[0].add(unrated.recorded[0].retrieval_id, {"i1": 1.0})
    traffic = await prepare(platform, unrated)
    async with platform.database.snapshot(platform.tenant_id) as connection:
        assert await read_comparison(connection, traffic, unrated.targets[0], unrated.targets[0]) == {}
        weighing, nothing = await read_weighings(connection, traffic, unrated.targets[0], TargetPolicy())
    assert (weighing.retrievals, weighing.rated, weighing.mean_weight) == (1, 0, 1.0)
    assert "no impression of it has a reward" in weighing.objections()[0]
    assert (nothing.retrievals, nothing.effective_sample_size) == (0, 0.0)


async def test_another_tenants_traffic_is_not_there(platform: Platform) -> None:
    """A tenant that names another tenant's collection and retrievals gets no rows."""
    corpus = simulated(5)
    traffic = await prepare(platform, corpus)
    stranger = await ensure_tenant(platform.database, f"tenant-{uuid.uuid4()}")
    async with platform.database.snapshot(stranger) as theirs:
        assert await read_comparison(theirs, traffic, *corpus.targets) == {}
        assert (await read_weighings(theirs, traffic, *corpus.targets))[0].impressions == 0


def agree(estimate: Estimate, expected: Estimate) -> None:
    """Both are the same to 1e-9."""
    assert estimate.value == pytest.approx(expected.value, rel=1e-9, abs=1e-9)
    assert estimate.standard_error == pytest.approx(expected.standard_error, rel=1e-9, abs=1e-9)
