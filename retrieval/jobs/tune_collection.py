"""Tuning a collection: each leg is asked once a query, and the best setting found becomes a profile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from retrieval.adapters.embedders.cached import patiently
from retrieval.domain.embedding import Vector
from retrieval.domain.errors import EmbedderError, InvalidRequestError
from retrieval.domain.fusion import Candidate
from retrieval.domain.profile import MAX_DEPTH, LegName, Profile, leg_name
from retrieval.domain.refining import PoolVectors
from retrieval.jobs.judgements import DropSelf, Qrels, Query, WhereFrom, judged, where_for, without_item
from retrieval.jobs.tune import LegRankings, Setting, TuningReport, tune

ASKING = "asking the legs"
TRYING = "trying settings"

_PAGE = 1000
"""Vectors that are read in one call."""

StageProgress = Callable[[str, int, int], None]
"""Called with the stage (``ASKING`` or ``TRYING``), the number of its steps done, and of all its steps."""


class TunableCollection(Protocol):
    """What tuning needs of a collection; ``retrieval.Collection`` is one."""

    @property
    def profile(self) -> Profile:
        """The profile to improve on."""

    async def leg_rankings(
        self, query: str, *, where: dict[str, Any] | None, legs: Sequence[str], depth: int
    ) -> dict[str, list[Candidate]]:
        """Each leg's candidates before fusion, best first; a leg that cannot run is missing."""

    async def embeddings(self, item_ids: Sequence[str]) -> dict[str, Vector]:
        """The items' vectors, of those that have one."""

    async def set_profile(self, profile: Profile, *, note: str) -> int:
        """Store the profile as a new version, in use from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionTuning:
    """What tuning a collection found."""

    report: TuningReport
    profile: Profile
    """The proposed profile; the current one where no change is proposed."""

    @property
    def note(self) -> str:
        """How the profile was found, for those who meet it later."""
        against = self.report.comparisons[0]
        return (
            f"tuned on {self.report.queries} queries, seed {self.report.seed}: {self.report.metric} "
            f"{against.mean_b:.4f} -> {against.mean_a:.4f} on held-out queries, p = {against.p_value:.4f}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**self.report.as_dict(), "profile": self.profile.as_dict()}


TUNED_LEGS = (LegName.DENSE.value, LegName.LEXICAL.value)
"""The legs that answer any question in words."""


async def tune_collection(
    collection: TunableCollection,
    queries: Sequence[Query],
    qrels: Qrels,
    *,
    legs: Sequence[str] = TUNED_LEGS,
    where_from: Sequence[WhereFrom] = (),
    drop_self: DropSelf | None = None,
    cutoff: int = 10,
    folds: int = 5,
    seed: int = 0,
    progress: StageProgress | None = None,
) -> CollectionTuning:
    """Find the legs, fusion and weights with the best nDCG@cutoff on the judged queries; nothing is stored.

    ``drop_self`` filters each query's own item out of its search, which ranks as if it did not exist. What is
    proposed, and when, is as in ``retrieval.jobs.tune.tune``. Raises ``InvalidRequestError`` for queries that
    cannot be measured or are too few, and for a leg that cannot run; ``EmbedderError`` when it fails.
    """
    profile = collection.profile
    if profile.signals:
        raise InvalidRequestError("the profile scores by signals; tuning weighs legs: give it a profile of legs first")
    _check_cutoff(cutoff)
    names = tuple(leg_name(name).value for name in legs)
    kept = judged(queries, qrels)
    if drop_self is not None:
        drop_self.check(kept)
    _check_folds(len(kept), folds)
    depth = max(profile.depth, cutoff)
    rankings: dict[str, Mapping[str, Sequence[Candidate]]] = {}
    for done, query in enumerate(kept, 1):
        excluded = None if drop_self is None else drop_self.exclude_for(query)
        where = without_item(where_for(query, where_from), excluded)
        with patiently():
            rankings[query.query_id] = await _ask(collection, query, where, names, depth)
        if progress is not None:
            progress(ASKING, done, len(kept))
    calculate = partial(
        tune,
        rankings,
        qrels,
        setting_of(profile),
        cutoff=cutoff,
        depth=depth,
        vectors=await vectors_of(collection, rankings),
        folds=folds,
        seed=seed,
    )
    report = await _in_thread(calculate, progress)
    return CollectionTuning(report=report, profile=profile_of(report.proposal, profile.depth))


async def apply_tuning(collection: TunableCollection, tuning: CollectionTuning) -> int | None:
    """Store the proposed profile with a note of how it was found; gives its version, None without one."""
    if not tuning.report.improves:
        return None
    return await collection.set_profile(tuning.profile, note=tuning.note)


def setting_of(profile: Profile) -> Setting:
    """The part of a profile that tuning may change."""
    return Setting({leg: weight for leg, weight in profile.legs.items() if weight}, profile.fusion, profile.refining)


def profile_of(setting: Setting, depth: int) -> Profile:
    """The profile that searches with that setting, ``depth`` candidates a leg."""
    legs = {leg: weight for leg, weight in setting.legs.items() if weight}
    return Profile(legs=legs, fusion=setting.fusion, depth=depth, refining=setting.refining)


async def vectors_of(collection: TunableCollection, rankings: LegRankings) -> PoolVectors:
    """The vectors of all candidates that have one."""
    found = {one.item_id for legs in rankings.values() for candidates in legs.values() for one in candidates}
    item_ids, vectors = sorted(found), dict[str, Vector]()
    for start in range(0, len(item_ids), _PAGE):
        vectors |= await collection.embeddings(item_ids[start : start + _PAGE])
    return PoolVectors.of(vectors)


async def _ask(
    collection: TunableCollection, query: Query, where: dict[str, Any] | None, legs: Sequence[str], depth: int
) -> dict[str, list[Candidate]]:
    found = await collection.leg_rankings(query.text, where=where, legs=legs, depth=depth)
    for leg in legs:
        if leg not in found:
            # Together the legs make up for one that fails; asked alone, it says what is wrong with it.
            await collection.leg_rankings(query.text, where=where, legs=(leg,), depth=depth)
            raise EmbedderError(f"the {leg} leg failed on query {query.query_id!r} and works again; tune once more")
    return found


async def _in_thread(calculate: Callable[..., TuningReport], progress: StageProgress | None) -> TuningReport:
    """The arithmetic, in a thread that ends soon after this is cancelled."""
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


def _check_cutoff(cutoff: int) -> None:
    if not 1 <= cutoff <= MAX_DEPTH:
        raise InvalidRequestError(f"cutoff is {cutoff}; it must be 1 to {MAX_DEPTH}")


def _check_folds(queries: int, folds: int) -> None:
    if not 2 <= folds <= queries:
        raise InvalidRequestError(
            f"cannot tune on {queries} judged queries in {folds} folds: "
            "use at least 2 folds, and judge at least as many queries"
        )
