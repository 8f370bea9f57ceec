"""Tuning: finds the legs, fusion and weights that rank judged queries best, if their gain is more than chance.

Each leg runs once for each query; the rest is arithmetic on its candidates. A setting is chosen on some queries and
measured on others, because the best of many looks better than it is on the queries that chose it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.adapters.embedders.cached import patiently
from retrieval.adapters.store.items.items import read_items
from retrieval.domain.checks import checked_whole
from retrieval.domain.errors import ConflictError, EmbedderError, InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.diversity import NO_VECTORS, REFINING, PoolVectors, Refining
from retrieval.domain.search.fusion import Candidate, fused_ids, refined
from retrieval.domain.search.profile import DEPTH, MAX_DEPTH, RRF_K, Fusion, FusionKind, LegName, Profile, StoredProfile
from retrieval.domain.serialization import Serializable
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.collection_search import leg_rankings
from retrieval.engine.profiles import change_profile
from retrieval.engine.reading import embeddings
from retrieval.services.evaluate import Progress, measure, parse_metric
from retrieval.services.judgements import JudgedQuery, Qrels, judged, missing_items
from retrieval.services.significance import SIGNIFICANT, Comparison, compare

LegRankings = Mapping[str, Mapping[str, Sequence[Candidate]]]
"""The candidates that each leg returned, best first, by query id and leg."""

TUNED_LEGS = (LegName.DENSE.value, LegName.LEXICAL.value)
"""The legs that answer every query in words."""

PAIR_RATIOS = ((1, 1), (2, 3), (3, 2), (1, 2), (2, 1), (1, 3), (3, 1), (1, 4), (4, 1))
"""RRF weights that are tried, the even ones first."""

REFINED = Refining(share=0.25)
"""The refining of weighted sums where it is tried."""

FOLDS = 5
"""Parts of the queries; each is ranked by the setting that the others chose."""

_EQUAL_DIGITS = 12
"""Means that agree to this many digits count as equal; further digits depend on the order of addition."""

_Scores = NDArray[np.float64]
"""nDCG, shape (settings, queries)."""


@dataclass(frozen=True, slots=True)
class Setting(Serializable):
    """Legs with weights, their fusion and refining: the part of a profile that tuning may change."""

    legs: Mapping[str, float]
    """Weight by leg; one is above 0."""
    fusion: Fusion = field(default_factory=Fusion)
    refining: Refining = field(default_factory=Refining)

    def describe(self) -> str:
        """The setting in words: ``lexical alone``, ``RRF (k = 60) of lexical 2, dense 1``."""
        used = {leg: weight for leg, weight in self.legs.items() if weight}
        if len(used) == 1:
            return f"{next(iter(used))} alone"
        parts = ", ".join(f"{leg} {weight:g}" for leg, weight in used.items())
        if self.fusion.kind is FusionKind.RRF:
            return f"RRF (k = {self.fusion.k}) of {parts}"
        refined = "" if self.refining.is_off else f", refined by {self.refining.share:g}"
        return f"weighted sum of {parts}{refined}"

    def rank(
        self, rankings: Mapping[str, Sequence[Candidate]], depth: int = DEPTH, vectors: PoolVectors = NO_VECTORS
    ) -> list[str]:
        """Item ids, best first, as a search with this setting would rank these candidates, ``depth`` of each leg.

        Ranks count for the candidates that a leg found itself, scores for all whose score is known. ``vectors``: those
        of the items, which refining needs.
        """
        most = None if self.fusion.kind is FusionKind.WEIGHTED_SUM else depth
        own = {leg: rankings.get(leg, ())[:most] for leg in self.legs}
        weights = {**self.legs, REFINING: self.refining.share}
        if not self.refining.is_off and len(own) > 1 and own.get(LegName.DENSE):
            return fused_ids(refined(own, weights, self.fusion, depth, vectors), weights, self.fusion)
        return fused_ids(own, weights, self.fusion)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningReport(Serializable):
    """The result of tuning."""

    metric: str
    queries: int
    seed: int
    current: Setting
    proposal: Setting
    """The best of all settings on all queries, or the current one where no change is proposed."""
    improves: bool
    """Whether ``proposal`` is a change worth making."""
    reason: str
    """The reason, in one line for people."""
    chosen: tuple[Setting, ...]
    """The setting that each fold's training queries chose; they are alike when the choice is stable."""
    comparisons: tuple[Comparison, ...]
    """Tuning, measured on held-out queries, against the current setting first and then each leg alone."""
    means: tuple[tuple[Setting, float], ...]
    """Every setting's mean on all queries, best first; the best of many is a flattering figure."""
    profile: Profile | None = None
    """The collection's profile with the proposal; None: it was tuned without a collection."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            **Serializable.as_dict(self),
            "means": [{**setting.as_dict(), "mean": mean} for setting, mean in self.means],
        }


def grid(k: int = RRF_K, *, with_refining: bool = False) -> list[Setting]:
    """Settings to try, simpler ones first: each leg alone, then RRF and weighted sums of both.

    There are 20. Weights of a weighted sum add up to 1, in steps of 0.1. ``with_refining``: each weighted sum is tried
    refined too.
    """
    dense, lexical = TUNED_LEGS
    rrf, weighted_sum = Fusion(kind=FusionKind.RRF, k=k), Fusion(kind=FusionKind.WEIGHTED_SUM, k=k)
    return [
        *(Setting({leg: 1.0}, rrf) for leg in TUNED_LEGS),
        *(Setting({dense: float(first), lexical: float(second)}, rrf) for first, second in PAIR_RATIOS),
        *(
            Setting({dense: tenths / 10, lexical: (10 - tenths) / 10}, weighted_sum, refining)
            for refining in ((Refining(), REFINED) if with_refining else (Refining(),))
            for tenths in range(1, 10)
        ),
    ]


def tune(
    rankings: LegRankings,
    qrels: Qrels,
    current: Setting,
    *,
    own: LegRankings | None = None,
    cutoff: int = 10,
    depth: int = DEPTH,
    vectors: PoolVectors = NO_VECTORS,
    seed: int = 0,
    progress: Progress | None = None,
) -> TuningReport:
    """Find the setting with the best nDCG@cutoff, and whether it beats the current one beyond chance.

    ``rankings`` has at least one query for each fold, each query with a relevant item. ``own``: the same queries by
    the legs of the current setting, if it has others than the tuned ones. ``depth``: the number of candidates of each
    leg. ``vectors``: those of the candidates; without vectors, no refining is tried. Each fold's queries are ranked by
    the setting that the other folds chose; of settings with equal means, the current one is preferred, then the earlier
    one. A change is proposed if tuning beats the current setting on held-out queries with p < 0.05. Equal input and
    seed give an equal report. ``progress`` is called after each setting.
    """
    query_ids = sorted(rankings)
    settings = grid(current.fusion.k, with_refining=bool(vectors.row_of))
    tried = [current, *(setting for setting in settings if setting != current)]
    metric, relevant = parse_metric(f"nDCG@{cutoff}"), {key: qrels[key] for key in query_ids}
    scores = np.zeros((len(tried), len(query_ids)))
    for row, setting in enumerate(tried):
        of_legs = rankings if row or own is None else own
        run = {key: setting.rank(of_legs[key], depth, vectors) for key in query_ids}
        scores[row] = list(measure(run, relevant, metric).values())
        if progress is not None:
            progress(row + 1, len(tried))
    rng = np.random.default_rng(seed)
    held_out, chosen = _cross_validate(scores, rng)
    comparisons = tuple(
        compare(
            held_out,
            scores[row],
            names=("settings chosen on other queries", setting.describe() if row else "current"),
            rng=rng,
        )
        for row, setting in enumerate(tried)
        if row == 0 or len(setting.legs) == 1
    )
    best = _best(scores)
    improves, reason = _verdict(tried, best, comparisons[0])
    means = sorted(zip(tried, scores.mean(axis=1).tolist(), strict=True), key=lambda pair: -pair[1])
    return TuningReport(
        metric=metric.name,
        queries=len(query_ids),
        seed=seed,
        current=current,
        proposal=tried[best] if improves else current,
        improves=improves,
        reason=reason,
        chosen=tuple(tried[i] for i in chosen),
        comparisons=comparisons,
        means=tuple(means),
    )


def _cross_validate(scores: _Scores, rng: np.random.Generator) -> tuple[_Scores, list[int]]:
    """Each query's score under the setting that the other folds chose, shape (queries,), and each fold's choice."""
    queries = scores.shape[1]
    held_out, chosen = np.zeros(queries), []
    for fold in np.array_split(rng.permutation(queries), FOLDS):
        best = _best(np.delete(scores, fold, axis=1))
        held_out[fold] = scores[best, fold]
        chosen.append(best)
    return held_out, chosen


def _best(scores: _Scores) -> int:
    """The row with the highest mean, the first among equals."""
    return int(np.argmax(np.round(scores.mean(axis=1), _EQUAL_DIGITS)))


def _verdict(tried: Sequence[Setting], best: int, against_current: Comparison) -> tuple[bool, str]:
    """Return whether to change the setting, and the reason, by the held-out comparison with the current one."""
    gain, p_value = f"{against_current.difference:+.4f}", f"p = {against_current.p_value:.4f}"
    if best == 0:
        return False, f"keep the current profile: it is the best of {len(tried)} settings"
    if against_current.difference <= 0:
        return False, f"keep the current profile: no gain on held-out queries ({gain}, {p_value})"
    if against_current.p_value >= SIGNIFICANT:
        return False, (
            f"keep the current profile: the held-out gain ({gain}, {p_value}) may be chance; "
            f"judge more than {against_current.queries} queries to tell"
        )
    return True, f"change to {tried[best].describe()}: tuning gains {gain} on held-out queries ({p_value})"


ASKING = "asking the legs"
TRYING = "trying settings"

_PAGE = 1000
"""Vectors that are read in one call."""

StageProgress = Callable[[str, int, int], None]
"""Called with the stage (``ASKING`` or ``TRYING``), the number of its steps done, and of all its steps."""


async def tune_collection(
    handle: CollectionHandle,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    cutoff: int = 10,
    seed: int = 0,
    progress: StageProgress | None = None,
) -> TuningReport:
    """Find the legs, fusion and weights with the best nDCG@cutoff on the judged queries; nothing is stored.

    What is proposed, and when, is as in ``tune``. Raises ``InvalidRequestError`` for queries that cannot be measured or
    are too few, and for a leg that cannot run; ``EmbedderError`` when it fails.
    """
    profile = handle.stored.profile
    if profile.signals:
        raise InvalidRequestError("the profile scores by signals; tuning weighs legs: give it a profile of legs first")
    checked_whole("cutoff", cutoff, 1, MAX_DEPTH)
    judged_queries = judged(queries, qrels)
    place = await handle.place()
    await missing_items(partial(read_items, place), judged_queries, qrels)
    if len(judged_queries) < FOLDS:
        there_are = "there is 1" if len(judged_queries) == 1 else f"there are {len(judged_queries)}"
        raise InvalidRequestError(
            f"tuning needs {FOLDS} judged queries, one for each fold, and {there_are}; judge more"
        )
    depth, current = max(profile.depth, cutoff), setting_of(profile)
    rankings: dict[str, Mapping[str, Sequence[Candidate]]] = {}
    own: dict[str, Mapping[str, Sequence[Candidate]]] = {}
    for done, query in enumerate(judged_queries, 1):
        with patiently():
            rankings[query.query_id] = await _ask(handle, query, depth)
            if not current.legs.keys() <= set(TUNED_LEGS):
                own[query.query_id] = await leg_rankings(
                    handle, query.text, where=query.where, legs=list(current.legs), depth=depth
                )
        if progress is not None:
            progress(ASKING, done, len(judged_queries))
    vectors = await vectors_of(handle, [*rankings.values(), *own.values()])
    tuned = partial(tune, rankings, qrels, current, own=own or None, vectors=vectors)
    calculate = partial(tuned, cutoff=cutoff, depth=depth, seed=seed)
    report = await _in_thread(calculate, progress)
    return replace(report, profile=profile_of(report.proposal, profile))


async def apply_tuning(handle: CollectionHandle, report: TuningReport) -> int | None:
    """Use the proposed setting in the profile, with a note of how it was found; returns the version, None without one.

    Raises ``ConflictError`` if the profile in use has another setting than the one that the proposal was compared with.
    """
    if not report.improves or report.profile is None:
        return None

    def tuned(used: StoredProfile) -> Profile:
        if used.profile.signals or setting_of(used.profile) != report.current:
            raise ConflictError(
                f"the legs or the fusion of the profile of {handle.name!r} were changed while it was tuned; tune again"
            )
        return profile_of(report.proposal, used.profile)

    against = report.comparisons[0]
    note = (
        f"tuned on {report.queries} queries, seed {report.seed}: {report.metric} {against.mean_b:.4f} -> "
        f"{against.mean_a:.4f} on held-out queries, p = {against.p_value:.4f}"
    )
    return await change_profile(handle, tuned, note)


def setting_of(profile: Profile) -> Setting:
    """The part of a profile that tuning may change."""
    return Setting({leg: weight for leg, weight in profile.legs.items() if weight}, profile.fusion, profile.refining)


def profile_of(setting: Setting, profile: Profile) -> Profile:
    """The profile with that setting; parts that tuning does not change, such as reranking and synonyms, stay."""
    legs = {leg: weight for leg, weight in setting.legs.items() if weight}
    return replace(profile, legs=legs, fusion=setting.fusion, refining=setting.refining)


async def vectors_of(handle: CollectionHandle, rankings: Iterable[Mapping[str, Sequence[Candidate]]]) -> PoolVectors:
    """The vectors of all candidates that have one."""
    candidates = {candidate.item_id for legs in rankings for candidates in legs.values() for candidate in candidates}
    item_ids, vectors = sorted(candidates), dict[str, Vector]()
    for start in range(0, len(item_ids), _PAGE):
        vectors |= await embeddings(handle, item_ids[start : start + _PAGE])
    return PoolVectors.of(vectors)


async def _ask(handle: CollectionHandle, query: JudgedQuery, depth: int) -> dict[str, list[Candidate]]:
    rankings = await leg_rankings(handle, query.text, where=query.where, legs=TUNED_LEGS, depth=depth)
    for leg in TUNED_LEGS:
        if leg not in rankings:
            # In a search of several legs the others replace one that fails; searched alone, it raises its error.
            await leg_rankings(handle, query.text, where=query.where, legs=(leg,), depth=depth)
            raise EmbedderError(f"the {leg} leg failed on query {query.query_id!r} and works again; tune once more")
    return rankings


async def _in_thread(calculate: Callable[..., TuningReport], progress: StageProgress | None) -> TuningReport:
    """Tune in a thread, which ends soon after the caller is cancelled."""
    cancelled = threading.Event()

    def stepped(done: int, total: int) -> None:
        if cancelled.is_set():
            raise InterruptedError
        if progress is not None:
            progress(TRYING, done, total)

    try:
        return await asyncio.to_thread(calculate, progress=stepped)
    finally:
        cancelled.set()
