"""A profile that refines: what it ranks, explains and records, and what it leaves as it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from retrieval import Collection, EmbeddingSpace, Platform
from retrieval.adapters.store.records.recordings import find_recorded
from retrieval.adapters.store.records.retrievals import read_pools
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.refining import REFINING, Refining
from retrieval.engine.target import NamedProfile, Unanswerable, target_slate
from tests.support.database import SCHEMA

SPACE = EmbeddingSpace(provider="test", model="refining", dimensions=8)
PLAIN = Profile(legs={"dense": 0.6, "lexical": 0.4}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), depth=10)
REFINED = replace(PLAIN, refining=Refining(share=0.4))
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
ASKED = {"vector": np.eye(8)[0] + 0.2}


@pytest.fixture
async def notes(platform: Platform) -> Collection:
    """Eighty notes of some words, each with a vector of its own."""
    collection = await platform.collection("notes", space=SPACE)
    chance = np.random.default_rng(4)
    items = [
        {"_id": f"n{number:02}", "text": " ".join(chance.choice(list("abcdefgh"), size=5)), "group": number % 4}
        for number in range(80)
    ]
    await collection.add(items, embeddings=chance.normal(size=(80, 8)) + 0.7)
    return collection


def _parts(hit: Hit) -> dict[str, Any]:
    return {part.leg: part for part in hit.explanation.contributions}


async def test_a_score_is_as_the_formula_has_it(notes: Collection) -> None:
    """(1 - share) of the fused score and the share of the likeness, worked out from the stored vectors."""
    page = await notes.search("a b", **ASKED, profile=REFINED, limit=10)
    plain = await notes.search("a b", **ASKED, profile=PLAIN, limit=80)
    own = {hit.item_id: hit.score for hit in plain}
    pool = [hit.item_id for hit in plain if any(part.rank <= PLAIN.depth for part in hit.explanation.contributions)]
    vectors = await notes.embeddings(sorted(own))
    middle = np.mean([vectors[item_id] for item_id in pool], axis=0)
    first = vectors[plain[0].item_id] - middle
    assert [hit.score for hit in page] == sorted((hit.score for hit in page), reverse=True)
    for hit in page:
        apart = vectors[hit.item_id] - middle
        likeness = (1 + apart @ first / np.linalg.norm(apart) / np.linalg.norm(first)) / 2
        assert hit.score == pytest.approx(0.6 * own[hit.item_id] + 0.4 * likeness, abs=2e-3)
        assert hit.explanation.score == hit.score
        part = _parts(hit)[REFINING]
        assert (part.weight, part.value) == (0.4, pytest.approx(0.4 * part.raw_score))
    assert _parts(page[0])[REFINING].raw_score == 1.0
    assert [hit.item_id for hit in page] != [hit.item_id for hit in plain[:10]]


@pytest.mark.parametrize("where", [None, {"group": [1, 2, 3]}], ids=["all", "filtered"])
async def test_no_page_changes_a_score(notes: Collection, where: Any) -> None:
    """The pool is the profile's: of three or of sixty hits, each has the same score and the same parts."""
    pages = [
        {
            hit.item_id: (hit.score, {leg: part.raw_score for leg, part in _parts(hit).items()})
            for hit in await notes.search("a b c", **ASKED, profile=REFINED, limit=limit, where=where)
        }
        for limit in (3, 10, 60)
    ]
    assert pages[0].items() <= pages[1].items() <= pages[2].items()


async def test_items_without_a_vector_keep_their_scores(notes: Collection) -> None:
    """Those that wait for theirs; and where no vector was asked for or one leg answers, all do."""
    await notes.add([{"_id": "waiting", "text": "a b"}])
    page = await notes.search("a b", **ASKED, profile=REFINED, limit=60)
    plain = {hit.item_id: hit for hit in await notes.search("a b", **ASKED, profile=PLAIN, limit=60)}
    waiting = next(hit for hit in page if hit.item_id == "waiting")
    assert waiting.explanation == plain["waiting"].explanation
    assert all(REFINING in _parts(hit) for hit in page if hit.item_id != "waiting")
    for legs in (["lexical"], ["dense"]):
        alone = await notes.search("a b", **ASKED, profile=REFINED, legs=legs, limit=5)
        assert alone.hits == (await notes.search("a b", **ASKED, profile=PLAIN, legs=legs, limit=5)).hits
    words = replace(REFINED, legs={"dense": 1.0, "lexical": 1.0, "recent": 0.5})
    found = await notes.search("a b", profile=words, limit=5)
    assert all(REFINING not in _parts(hit) for hit in found)
    assert "dense" in found.notes[0]


async def test_more_rankings_are_refined_too(notes: Collection) -> None:
    """Of what is preferred, the best of groups, and one leg's of what is preferred."""
    for asked in ({"prefer": {"group": 1}}, {"group_by": "group"}):
        found = await notes.search("a b", **ASKED, profile=REFINED, limit=6, **asked)
        assert all(REFINING in _parts(hit) for hit in found)
        assert all(hit.explanation.score == hit.score for hit in found)
    dense = replace(REFINED, legs={"dense": 1.0})
    preferred = await notes.search("", **ASKED, profile=dense, prefer={"group": 1}, limit=6)
    assert all(REFINING in _parts(hit) for hit in preferred)


async def test_a_record_tells_what_refining_did(notes: Collection, platform: Platform) -> None:
    """The same parts in the answer, in its record, and in the view for analysts, however much is kept of the pool."""
    for pool in (100, 3):
        profile = replace(REFINED, recording=replace(REFINED.recording, pool=pool))
        result = await notes.search("a b", **ASKED, profile=profile, limit=5)
        await platform.recorded()
        assert result.retrieval_id is not None
        kept = await find_recorded(platform.database, platform.tenant_id, result.retrieval_id)
        assert kept is not None
        said = [{part.leg: (part.rank, part.raw_score) for part in hit.explanation.contributions} for hit in result]
        assert [_ranked(one.signals) for one in kept.impressions] == said
        async with platform.database.snapshot(platform.tenant_id) as connection:
            rows = await connection.execute(
                f"SELECT signals FROM {SCHEMA}.impressions WHERE retrieval_id = %s ORDER BY rank",  # noqa: S608
                (result.retrieval_id,),
            )
            assert [_ranked(row[0]) for row in await rows.fetchall()] == said


def _ranked(signals: Any) -> dict[str, tuple[int, float]]:
    return {name: (of["rank"], of["raw"]) for name, of in signals.items()}


async def test_a_refining_profile_is_judged_by_what_its_own_weights_answered(
    notes: Collection, platform: Platform
) -> None:
    """With another share, or none, it would have shown what it shows; with other weights the record cannot tell."""
    await notes.set_profile(REFINED)
    await notes.search("a b", **ASKED, limit=5)
    await platform.recorded()
    stored = await notes.refresh()
    async with platform.database.snapshot(platform.tenant_id) as connection:
        (pool,) = [one async for one in read_pools(connection, stored.collection_id, since=EPOCH, most=1)]
    for share in (0.0, 0.2, 0.7):
        other = replace(REFINED, refining=Refining(share=share))
        shown = await notes.search("a b", **ASKED, profile=other, limit=5)
        slate = target_slate(pool, NamedProfile(name="other", profile=other))
        assert slate == {hit.item_id: 1.0 for hit in shown}
    heavier = replace(REFINED, legs={"dense": 0.2, "lexical": 0.8})
    assert target_slate(pool, NamedProfile(name="heavier", profile=heavier)) is Unanswerable.REFINED
    alone = replace(REFINED, legs={"dense": 1.0})
    slate = target_slate(pool, NamedProfile(name="alone", profile=alone))
    assert slate == {hit.item_id: 1.0 for hit in await notes.search("", **ASKED, profile=alone, limit=5)}
