"""One query under several profiles: the hits of each, and their moves against the first profile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.hit import Hit, SearchResult
from retrieval.domain.search.profile import Profile
from retrieval.domain.serialization import Serializable

MAX_PROFILES = 10

_NOTHING = 0.005
"""A change of a share that whole percents do not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedHit(Serializable):
    """A hit under one profile, and how it compares with the first profile's page."""

    hit: Hit
    rank_before: int | None
    """The rank on the first profile's page, from 1; None: the item is not on that page."""
    moved: int | None
    """Places up; negative: down; None: it was not there, or is no longer there."""
    why: str
    """The reason for the difference, in words: the shares of its score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePreview(Serializable):
    """The page of one profile."""

    name: str
    profile: Profile
    hits: tuple[PreviewedHit, ...]
    """Best first."""
    entered: tuple[str, ...]
    """Items of this page that are not on the first profile's, in its order."""
    left: tuple[PreviewedHit, ...]
    """Hits of the first profile's page that are not on this one, as they stood there."""
    notes: tuple[str, ...]
    """Notes of the search: a leg that could not run and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Serializable):
    """The same query under each profile."""

    query: str
    baseline: str
    """The first profile's name: the others are compared with it."""
    previews: tuple[ProfilePreview, ...]
    """The profiles' pages, in the order in which the profiles were given."""


def checked_profiles(profiles: object) -> dict[str, Profile]:
    """The profiles by name, in their order. Raises ``InvalidRequestError`` for none, too many, or other things."""
    if not isinstance(profiles, Mapping) or not 1 <= len(profiles) <= MAX_PROFILES:
        raise InvalidRequestError(
            f"profiles are 1 to {MAX_PROFILES} by name, such as {{'now': collection.profile, 'candidate': other}}"
        )
    for name, profile in profiles.items():
        if not isinstance(name, str) or not isinstance(profile, Profile):
            raise InvalidRequestError(
                f"profile {written(name)} is a {type(profile).__name__}; give a Profile by its name"
            )
    return dict(profiles)


def preview_of(query: str, results: Sequence[tuple[str, Profile, SearchResult]]) -> Preview:
    """Compares the page of each profile with the first."""
    before = results[0][2].hits
    previews = tuple(_compare(name, profile, result, before) for name, profile, result in results)
    return Preview(query=query, baseline=results[0][0], previews=previews)


def _compare(name: str, profile: Profile, result: SearchResult, before: Sequence[Hit]) -> ProfilePreview:
    earlier = {hit.item_id: hit for hit in before}
    now = {hit.item_id for hit in result}
    return ProfilePreview(
        name=name,
        profile=profile,
        hits=tuple(_compare_hit(hit, earlier.get(hit.item_id)) for hit in result),
        entered=tuple(hit.item_id for hit in result if hit.item_id not in earlier),
        left=tuple(
            PreviewedHit(hit=hit, rank_before=hit.rank, moved=None, why=f"out, was {hit.rank}: {_composition(hit)}")
            for hit in before
            if hit.item_id not in now
        ),
        notes=result.notes,
    )


def _compare_hit(hit: Hit, before: Hit | None) -> PreviewedHit:
    if before is None:
        return PreviewedHit(hit=hit, rank_before=None, moved=None, why=f"in, at {hit.rank}: {_composition(hit)}")
    moved = before.rank - hit.rank
    move = f"{'up' if moved > 0 else 'down'} {abs(moved)}, from {before.rank} to {hit.rank}"
    head = move if moved else f"stays at {hit.rank}"
    return PreviewedHit(hit=hit, rank_before=before.rank, moved=moved, why=f"{head}: {_changes(hit, before)}")


def _composition(hit: Hit) -> str:
    """``lexical 62 % (rank 1), dense 38 % (rank 4)``: what its score is made of, the largest part first."""
    shares = shares_of(hit)
    parts = sorted(hit.explanation.contributions, key=lambda part: -shares[part.leg])
    return ", ".join(f"{part.leg} {shares[part.leg]:.0%} (rank {part.rank})" for part in parts) or "nothing"


def _changes(hit: Hit, before: Hit) -> str:
    """``lexical 62 % (was 40 %), dense 38 % (was 60 %)``: the parts whose share has changed."""
    now, then = shares_of(hit), shares_of(before)
    legs = sorted({*now, *then}, key=lambda leg: (-now.get(leg, 0.0), leg))
    changes = [
        f"{leg} {now.get(leg, 0.0):.0%} (was {then.get(leg, 0.0):.0%})"
        for leg in legs
        if abs(now.get(leg, 0.0) - then.get(leg, 0.0)) >= _NOTHING
    ]
    return (
        ", ".join(changes)
        or f"the parts of its score did not change{'; others moved' if hit.rank != before.rank else ''}"
    )


def shares_of(hit: Hit) -> dict[str, float]:
    """The share of each leg or signal in a hit's score, by name: 0 to 1 where no part is negative."""
    total = hit.explanation.score
    return {part.leg: part.value / total if total else 0.0 for part in hit.explanation.contributions}
