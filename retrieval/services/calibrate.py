"""Calibration: fits the probability that a hit is relevant on judged queries or on verdicts of feedback.

With judged queries, an item that is not judged counts as not relevant; with feedback, only items with a verdict count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from retrieval.adapters.embedders.cached import patiently
from retrieval.adapters.store.learning.training import CountedVerdict, read_rated_searches, read_verdicts
from retrieval.domain.errors import InvalidFilterError, InvalidRequestError
from retrieval.domain.learning.context import Context
from retrieval.domain.search.profile import LegName
from retrieval.domain.search.relevance import SHIPPED, Calibration, evidence_of, most_by_words
from retrieval.domain.serialization import Serializable
from retrieval.domain.wording import several
from retrieval.domain.words import question_of
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.collection_search import leg_rankings, search
from retrieval.engine.conditions import check_condition
from retrieval.engine.profiles import change_profile
from retrieval.engine.record import filter_of
from retrieval.learning.relevance import CalibrationQuality, JudgedHit, can_fit, fewest, fit_calibration, held_out
from retrieval.services.evaluate import Progress
from retrieval.services.judgements import JudgedQuery, Qrels

HITS = 10
"""Hits of each query that are compared with the judgements."""

MOST_SEARCHES = 2_000
"""The number of searches with a verdict, the latest ones, whose questions are asked again."""

_SUCCESS = 0.5
"""The least mean reward of a relevant item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport(Serializable):
    """A calibration, with its quality on queries that it was not fitted on."""

    calibration: Calibration
    queries: int
    hits: int
    """Hits that were judged."""
    held_out: CalibrationQuality | None
    """Measured on each fifth of the queries by a fit on the others; None: there are too few queries."""
    profile_version: int | None
    """The version of the profile that holds the calibration; None: it was not stored."""


def judged_of(relevant: Mapping[str, Sequence[str]]) -> tuple[list[JudgedQuery], Qrels]:
    """The queries and judgements of a mapping from words to the ids of the relevant items.

    Raises ``InvalidRequestError`` for anything else.
    """
    if not isinstance(relevant, Mapping) or not all(
        isinstance(text, str)
        and isinstance(ids, Sequence)
        and not isinstance(ids, str)
        and all(isinstance(item_id, str) for item_id in ids)
        for text, ids in relevant.items()
    ):
        raise InvalidRequestError('judgements come as {"connection timeout": ["T-17"], "apple pie": []}')
    queries = [JudgedQuery(query_id=str(number), text=text) for number, text in enumerate(relevant, 1)]
    return queries, {query.query_id: dict.fromkeys(relevant[query.text], 1) for query in queries}


async def calibrate(
    handle: CollectionHandle,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    apply: bool = True,
    progress: Progress | None = None,
) -> CalibrationReport:
    """Fit on judged queries; queries without a relevant item show the scores where there is no answer.

    Where a calibration is shipped for the embedding space, the fit starts from it. Raises ``InvalidRequestError`` for
    fewer than 10 hits that are relevant, or that are not; with a shipped start 3 of each are enough.
    """
    judged_queries = [query for query in queries if query.query_id in qrels]
    hits = await judged_hits(handle, judged_queries, qrels, progress=progress)
    return await _report(handle, hits, len(judged_queries), several(len(judged_queries), "judged query"), apply=apply)


async def calibrate_by_feedback(
    handle: CollectionHandle, *, apply: bool = True, progress: Progress | None = None
) -> CalibrationReport:
    """Fit on the verdicts that recorded searches were given. Raises as ``calibrate`` does.

    Searches with the same words and filter are one query. An item is relevant to it if the mean reward of its verdicts,
    by their weights, is at least a half.
    """
    queries, qrels = await _rated_queries(handle)
    hits = await judged_hits(handle, queries, qrels, only_judged=True, progress=progress)
    return await _report(handle, hits, len(queries), f"{several(len(queries), 'question')} with feedback", apply=apply)


async def judged_hits(
    handle: CollectionHandle,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    only_judged: bool = False,
    progress: Progress | None = None,
) -> dict[str, list[JudgedHit]]:
    """The judged hits of the queries, by model, with their evidence; queries with the same words have one number."""
    hits: dict[str, list[JudgedHit]] = {"both": [], "dense": [], "lexical": []}
    numbers: dict[str, int] = {}
    for done, query in enumerate(queries, 1):
        number = numbers.setdefault(question_of(query.text), len(numbers))
        for name, some in (await _hits(handle, query, qrels[query.query_id], only_judged=only_judged)).items():
            hits[name] += [hit._replace(query=number) for hit in some]
        if progress is not None:
            progress(done, len(queries))
    return hits


async def _hits(
    handle: CollectionHandle, query: JudgedQuery, grades: Mapping[str, int], *, only_judged: bool
) -> dict[str, list[JudgedHit]]:
    stored, text, where = handle.stored, query.text, query.where
    legs = (LegName.DENSE, LegName.LEXICAL) if stored.space else (LegName.LEXICAL,)
    with patiently():
        rankings = await leg_rankings(handle, text, where=where, legs=legs, depth=stored.profile.depth)
    if only_judged:
        shown = {name: list(grades) for name in ("both", *rankings)}
    else:
        result = await search(handle.unrecorded(), text, where=where, context=Context(), limit=HITS, syntax=False)
        shown = {name: [hit.item_id for hit in ranking[:HITS]] for name, ranking in rankings.items()}
        shown["both"] = [hit.item_id for hit in result]
    most = most_by_words(text, stored.documents)
    alone = {name: {name: ranking} for name, ranking in rankings.items()}
    hits: dict[str, list[JudgedHit]] = {}
    for name, of_legs in (alone | ({"both": rankings} if stored.space else {})).items():
        evidence = evidence_of(shown[name], of_legs, most, knows_all_words=name == "both")
        pairs = [pair for pair in zip(shown[name], evidence, strict=True) if pair[1].tells(name)]
        hits[name] = [JudgedHit(0, known, grades.get(item_id, 0) > 0) for item_id, known in pairs]
    return hits


async def _rated_queries(handle: CollectionHandle) -> tuple[list[JudgedQuery], Qrels]:
    """The queries of the latest searches with a verdict, under their own filters, and their grades, 1 or 0.

    A search whose filter was not recorded, or fits the collection no longer, is left out.
    """
    await handle.recorded()
    place = await handle.place()
    verdicts: dict[UUID, dict[str, list[CountedVerdict]]] = {}
    for verdict in await read_verdicts(place, until=datetime.now(UTC)):
        search_id = verdict.retrieval_id
        if search_id is not None and (search_id in verdicts or len(verdicts) < MOST_SEARCHES):
            verdicts.setdefault(search_id, {}).setdefault(verdict.item_id, []).append(verdict)
    rated: dict[tuple[str, str], JudgedQuery] = {}
    given: dict[str, dict[str, list[CountedVerdict]]] = {}
    async for page in read_rated_searches(place, list(verdicts)):
        for search_ in page:
            if not search_.query or not search_.request["is_whole"]:
                continue
            condition = filter_of(search_.condition, search_.request)
            with suppress(InvalidFilterError):
                check_condition(condition, handle.stored)
                query = JudgedQuery(query_id=str(search_.retrieval_id), text=search_.query, where=condition)
                query = rated.setdefault((question_of(search_.query), repr(condition)), query)
                of_query = given.setdefault(query.query_id, {})
                for item, some in verdicts[search_.retrieval_id].items():
                    of_query.setdefault(item, []).extend(some)
    qrels = {query_id: {item: _grade(some) for item, some in items.items()} for query_id, items in given.items()}
    return list(rated.values()), qrels


def _grade(verdicts: Sequence[CountedVerdict]) -> int:
    mean = sum(given.weight * given.reward for given in verdicts) / sum(given.weight for given in verdicts)
    return int(mean >= _SUCCESS)


async def _report(
    handle: CollectionHandle, hits: Mapping[str, list[JudgedHit]], queries: int, source: str, *, apply: bool
) -> CalibrationReport:
    stored = handle.stored.space.space if handle.stored.space else None
    space, start = (stored.name, SHIPPED.get((stored.provider, stored.model))) if stored else ("", None)
    main = "both" if space else LegName.LEXICAL.value
    relevant = sum(hit.is_relevant for hit in hits[main])
    if not can_fit(hits[main], fewest(start)):
        raise InvalidRequestError(
            f"{source}: {relevant} hits are relevant and {len(hits[main]) - relevant} are not; "
            f"a calibration needs {fewest(start)} of each: judge more queries, also some that nothing answers, by "
            "feedback or in files"
        )
    calibration = fit_calibration(
        hits, space=space, fitted_on=f"{source}, {several(len(hits[main]), 'hit')}", start=start
    )
    version = None
    if apply:
        version = await change_profile(
            handle,
            lambda used: replace(used.profile, calibration=calibration),
            f"calibrated on {calibration.fitted_on}",
        )
    return CalibrationReport(
        calibration=calibration,
        queries=queries,
        hits=len(hits[main]),
        held_out=held_out(main, hits[main], start),
        profile_version=version,
    )
