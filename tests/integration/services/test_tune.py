"""Tuning measures the profile in use as evaluation does, whatever its legs are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval import Platform, Profile
from retrieval.collection import handle_of
from retrieval.domain.errors import ConflictError
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.services.evaluate import evaluate_collection, parse_metrics
from retrieval.services.judgements import JudgedQuery
from retrieval.services.tune import Setting, apply_tuning, profile_of, tune_collection

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


async def test_what_another_caller_changed_meanwhile_stays_or_ends_the_tuning(platform: Platform) -> None:
    """Tuning takes minutes. What it does not weigh stays; of other weights it says nothing."""
    collection, others = await platform.collection("meanwhile"), await platform.collection("meanwhile")
    await collection.add([{"id": f"i{n}", "text": f"{WORDS[n]} n{n}"} for n in range(6)])
    handle = handle_of(collection)
    queries = [JudgedQuery(query_id=word, text=word) for word in WORDS]
    tuned = await tune_collection(handle, queries, {word: {f"i{n}": 1} for n, word in enumerate(WORDS)})
    words = Setting({"lexical": 1.0})
    report = replace(tuned, improves=True, proposal=words, profile=profile_of(words, collection.profile))

    await others.set_profile(replace(collection.profile, depth=33))
    assert await apply_tuning(handle, report) == 3
    assert (dict(collection.profile.legs), collection.profile.depth) == ({"lexical": 1.0}, 33)

    with pytest.raises(ConflictError, match="tune again"):
        await apply_tuning(handle, report)
    assert (await collection.stored_profile()).version == 3
