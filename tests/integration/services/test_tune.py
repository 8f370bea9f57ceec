"""Tuning measures the profile in use as evaluation does, whatever its legs are."""

from __future__ import annotations

import pytest

from retrieval import Platform, Profile
from retrieval.collection import handle_of
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.services.evaluate import evaluate_collection, parse_metrics
from retrieval.services.judgements import JudgedQuery
from retrieval.services.tune import tune_collection

WORDS = ("disk", "log", "router", "login", "cache", "queue")


@pytest.mark.parametrize("kind", [FusionKind.RRF, FusionKind.WEIGHTED_SUM])
@pytest.mark.parametrize(
    "legs",
    [{"dense": 1.0, "lexical": 1.0}, {"dense": 1.0, "lexical": 1.0, "recent": 5.0}, {"lexical": 1.0, "recent": 3.0}],
)
async def test_the_current_profile_counts_with_all_of_its_legs(
    platform: Platform, legs: dict[str, float], kind: FusionKind
) -> None:
    """A leg that is not tuned may be what makes the profile worse."""
    collection = await platform.collection("docs")
    await collection.add(
        [
            {
                "id": f"i{n:02}",
                "text": f"{WORDS[n % 6]} {WORDS[n * 5 % 7 % 6]} n{n}",
                "occurred_at": f"2026-01-{n % 28 + 1:02}",
            }
            for n in range(60)
        ]
    )
    await collection.set_profile(Profile(legs=legs, fusion=Fusion(kind=kind), depth=12))
    queries = [JudgedQuery(query_id=word, text=word) for word in WORDS]
    qrels = {word: {f"i{n:02}": 1 for n in range(60) if WORDS[n % 6] == word} for word in WORDS}
    handle = handle_of(collection)
    report = await evaluate_collection(handle, queries, qrels, metrics=parse_metrics("nDCG@10"))
    [fused] = [variant for variant in report.variants if variant.variant == "fused"]
    tuned = await tune_collection(handle, queries, qrels)
    assert tuned.comparisons[0].mean_b == pytest.approx(fused.means["nDCG@10"])
