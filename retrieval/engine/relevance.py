"""How sure the hits of a search are, and which of them a caller does not want. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.fusion import Fused
from retrieval.domain.search.profile import LegName, Profile
from retrieval.domain.search.relevance import SHIPPED, Calibration, evidence_of, most_by_words
from retrieval.engine.plan import SearchPlan
from retrieval.engine.request import SearchRequest

_ROUNDING = 1e-12
"""What adding up may take from a score that is exactly the least."""


def calibration_of(collection: StoredCollection, profile: Profile) -> Calibration | None:
    """The profile's own, or the collection's, if it is of the active space; else what is shipped for the space."""
    space = None if collection.space is None else collection.space.space
    own = profile.calibration or collection.profile.calibration
    if own is not None and own.space == (space.name if space else ""):
        return own
    return SHIPPED.get((space.provider, space.model)) if space else None


def check_calibrated(collection: StoredCollection, request: SearchRequest) -> None:
    """Raise ``InvalidRequestError`` where a least relevance is asked for and nothing tells the relevance."""
    if request.min_relevance is None or calibration_of(collection, request.profile or collection.profile) is not None:
        return
    about = "has no embedding space" if collection.space is None else f"searches by {collection.space.space.name}"
    error = InvalidRequestError(
        f"collection {collection.name!r} {about}, for which no relevance is calibrated: fit it with retrieval "
        f"calibrate {collection.name}, or give min_score instead of min_relevance"
    )
    error.place = ("min_relevance",)
    raise error


def relevance_by_id(
    collection: StoredCollection, plan: SearchPlan, query: str, found: Found, shown: Sequence[Fused]
) -> Mapping[str, float | None]:
    """The probability of each of the items that it is relevant; nothing where no calibration tells it."""
    calibration = calibration_of(collection, plan.profile)
    if calibration is None:
        return {}
    item_ids = [one.item_id for one in shown]
    brought = found.rankings.get(LegName.LEXICAL, ())
    knows_all_words = plan.request.with_both_scores or len(brought) < plan.request.depth
    most = most_by_words(query, collection.documents)
    evidence = evidence_of(item_ids, found.rankings, most, knows_all_words=knows_all_words)
    return dict(zip(item_ids, calibration.relevances(evidence), strict=True))


class Wanted(NamedTuple):
    """The hits that are good enough."""

    places: Sequence[int] | None
    """Their places among those that were found, from 0; None: all."""
    why_none: tuple[str, ...]
    """Where none is: what the best of them had."""


def wanted(request: SearchRequest, shown: Sequence[Fused], relevance: Mapping[str, float | None]) -> Wanted:
    """The hits with the least score and the least relevance; one whose relevance is not known has not the least."""
    least, surest = request.min_score, request.min_relevance
    if least is None and surest is None:
        return Wanted(None, ())
    places = [
        place
        for place, one in enumerate(shown)
        if (least is None or one.score >= least - _ROUNDING)
        and (surest is None or (relevance.get(one.item_id) or 0.0) >= surest)
    ]
    return Wanted(places, () if places or not shown else _why_none(request, shown, relevance))


def _why_none(request: SearchRequest, shown: Sequence[Fused], relevance: Mapping[str, float | None]) -> tuple[str, ...]:
    said = []
    if request.min_relevance is not None:
        best = max((one for one in relevance.values() if one is not None), default=None)
        found = "none of them is known" if best is None else f"the highest is {best:.3f}"
        said.append(f"relevance {request.min_relevance:g}: {found}")
    if request.min_score is not None:
        said.append(f"score {request.min_score:g}: the highest is {max(one.score for one in shown):.4f}")
    return (f"nothing found: none of the best {len(shown)} items has {' and '.join(said)}",)
