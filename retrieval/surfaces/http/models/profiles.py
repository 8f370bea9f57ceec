"""Profiles: their versions, a change of them, and what others would show."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from retrieval.domain.search.preview import MAX_PROFILES, Preview, PreviewedHit, ProfilePreview
from retrieval.domain.search.profile import StoredProfile
from retrieval.surfaces.http.models.base import AnswerPart, InlineProfile, Sent, SentSituation, Where
from retrieval.surfaces.http.models.search import LeastRelevance, Limit

_PROFILE: JsonDict = {"legs": {"dense": 0.6, "lexical": 0.4}, "fusion": {"kind": "weighted_sum"}}

Version = Annotated[int, Field(ge=1, le=2**31 - 1)]


class ProfileChange(Sent):
    """A new profile, or a stored version to be used again: one of the two."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"profile": _PROFILE, "note": "meaning counts more"}, {"version": 1}]}
    )

    profile: InlineProfile | None = None
    """Stored as a new version."""
    note: str = ""
    """A note on it."""
    version: Version | None = None
    """The number of a stored version."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.profile is None) == (self.version is None):
            raise ValueError("give profile, to store a new version, or version, to use a stored one")
        if self.version is not None and self.note:
            raise ValueError("note is for a new profile; leave it out with version")
        return self


class StoredProfileTold(AnswerPart, of=StoredProfile):
    """A version of a collection's profile."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "version": 2,
                    "profile": _PROFILE,
                    "note": "meaning counts more",
                    "created_at": "2026-05-31T12:00:00+00:00",
                    "is_active": True,
                }
            ]
        }
    )


class ProfilesTold(AnswerPart):
    """The versions, the newest first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"profiles": []}]})

    profiles: list[StoredProfileTold]


class PreviewRequest(Sent):
    """One query under several profiles, which is not recorded."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "connection timeout", "profiles": {"now": "active", "candidate": _PROFILE}, "limit": 5}
            ]
        }
    )

    query: str
    profiles: Annotated[
        dict[str, InlineProfile | Version | Literal["active"]], Field(min_length=1, max_length=MAX_PROFILES)
    ]
    """The profiles by name: a profile, a stored version, or `"active"`. The others are compared with the first."""
    where: Where | None = None
    limit: Limit = 10
    syntax: bool = True
    min_score: float | None = None
    min_relevance: LeastRelevance | None = None
    context: SentSituation = SentSituation()


class PreviewedHitTold(AnswerPart, of=PreviewedHit):
    """A hit under one profile, and how it stands against the first."""


class ProfilePreviewTold(AnswerPart, of=ProfilePreview):
    """The hits of one profile."""


class PreviewTold(AnswerPart, of=Preview):
    """The same query under each profile."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": "connection timeout",
                    "baseline": "now",
                    "previews": [
                        {"name": "now", "profile": _PROFILE, "hits": [], "entered": [], "left": [], "notes": []}
                    ],
                }
            ]
        }
    )
