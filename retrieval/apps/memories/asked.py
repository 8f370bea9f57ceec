"""What is asked of the memories, checked at the door and said as a filter. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from retrieval.apps.memories.entities import entity_set
from retrieval.apps.memories.profile import PROFILES
from retrieval.domain.entity_links import Links
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.memory import checked_name
from retrieval.domain.moment import fault_of
from retrieval.domain.profile import FusionKind, LegName, Profile


def checked_project(project_id: object) -> str:
    """The project's id. Raises ``InvalidRequestError`` for anything but a text that is not empty."""
    if not isinstance(project_id, str) or not project_id:
        raise InvalidRequestError(f"project_id is {project_id!r:.80}; name the project whose memories are wanted")
    return checked_name("project_id", project_id)


def checked_types(interaction_types: object) -> list[str]:
    """The types, each once; none where none are named. Raises ``InvalidRequestError`` for what is no list of texts."""
    if interaction_types is None:
        return []
    if isinstance(interaction_types, str) or not isinstance(interaction_types, Sequence | set | frozenset):
        raise InvalidRequestError(
            f"interaction_types come in a list such as ['insights'], not {interaction_types!r:.80}"
        )
    for one in interaction_types:
        checked_name("an interaction type", one)
    return list(dict.fromkeys(interaction_types))


def start_of(hours: object, now: datetime) -> datetime:
    """The moment so many hours before ``now``; the first there is, where they reach further.

    Raises ``InvalidRequestError`` for anything but a number above 0.
    """
    if isinstance(hours, bool) or not isinstance(hours, int | float) or math.isnan(hours) or hours <= 0:
        raise InvalidRequestError(f"hours is {hours!r:.80}; it must be a number above 0, such as 24")
    try:
        return now - timedelta(hours=hours)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)


def checked_moment(as_of: object) -> datetime | None:
    """The moment, aware; None: now. Raises ``InvalidRequestError``."""
    if as_of is not None and (fault := fault_of(as_of)):
        raise InvalidRequestError(f"as_of is {as_of!r:.80}; {fault}, or None for now")
    return as_of  # type: ignore[return-value]


def chosen_profile(strategy: object, profile: Profile | None) -> Profile:
    """The profile of that strategy, or the one that was given instead.

    Raises ``InvalidRequestError`` for an unknown strategy, and for a profile without signals.
    """
    if profile is not None:
        if not isinstance(profile, Profile) or profile.fusion.kind is not FusionKind.UNION:
            raise InvalidRequestError("memories are ranked by signals: give a profile with the fusion 'union'")
        return profile
    if not isinstance(strategy, str) or strategy not in PROFILES:
        raise InvalidRequestError(f"there is no strategy {strategy!r:.80}; there are {', '.join(PROFILES)}")
    return PROFILES[strategy]


def check_start(profile: Profile, entities: Links | None) -> None:
    """Raises ``InvalidRequestError`` where a profile starts from entities alone, and there are none."""
    legs = {leg for leg, weight in profile.legs.items() if weight}
    if legs == {LegName.LINKED} and not entity_set(entities):
        raise InvalidRequestError(
            "this strategy goes by links alone: give entity_ids={'questions': ['q1']}, or choose another strategy"
        )


def checked_match(match_entities: object) -> bool:
    """Whether entities filter. Raises ``InvalidRequestError`` for anything but ``filter`` and ``prefer``."""
    if match_entities not in ("filter", "prefer"):
        raise InvalidRequestError(f"match_entities is {match_entities!r:.80}; it must be 'filter' or 'prefer'")
    return match_entities == "filter"


def conditions(
    project_id: str, interaction_types: Sequence[str], entities: Links | None, as_of: datetime | None
) -> dict[str, Any]:
    """The filter: the project's memories of these types, linked to one of the entities, that had happened by then.

    Nothing in a list filters nothing.
    """
    where: dict[str, Any] = {"project_id": checked_project(project_id)}
    if interaction_types:
        where["kind"] = list(interaction_types)
    if links := sorted(f"{entity_type}:{one}" for entity_type, one in entity_set(entities)):
        where["links"] = links
    if as_of is not None:
        where["occurred_at"] = {"lte": as_of}
    return where
