"""What was asked, as plain JSON values, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.filter_mapping import as_mapping, field_name
from retrieval.domain.filters import And, Contains, Filter, Not, parse_field, parse_where
from retrieval.domain.profile import Profile
from retrieval.domain.recorded import RecordedSearch
from retrieval.engine.request import SearchRequest, checked_preferred


class RequestValues(NamedTuple):
    """A request in the columns that keep it."""

    condition: dict[str, Any]
    """The filter as a mapping; empty: none."""
    request: dict[str, Any]
    """``limit``, ``group_by``, ``prefixes``, ``phrases`` and ``excluded`` of the query, the call's own ``profile``,
    ``is_whole``: whether the filters could be written down, ``rewrites``, ``preferred`` (a list where there
    are several), ``entities``, ``tags`` and ``as_of``; ``about`` where it was given, each number with four digits."""


def recorded_request(request: SearchRequest) -> RequestValues:
    """The request, but for its words and its vector, which have columns of their own."""
    condition, phrases, excluded = _parted(request.condition)
    mapping, preferred = _mapping(condition), [_mapping(one) for one in request.preferred]
    return RequestValues(
        condition=mapping or {},
        request={
            "limit": request.limit,
            "group_by": None if request.group_by is None else field_name(request.group_by),
            "prefixes": list(request.prefixes),
            "phrases": phrases,
            "excluded": excluded,
            "profile": None if request.profile is None else request.profile.as_dict(),
            "is_whole": mapping is not None and None not in preferred,
            "rewrites": list(request.rewrites),
            "preferred": preferred if len(preferred) > 1 else next(iter(preferred), None) or {},
            "entities": sorted(map(list, request.entities)),
            "tags": sorted(request.tags),
            "as_of": None if request.as_of is None else request.as_of.isoformat(),
            **({} if request.about is None else {"about": [round(one, 4) for one in request.about.tolist()]}),
        },
    )


def request_of(recorded: RecordedSearch) -> SearchRequest | None:
    """The request that was recorded; None where its filter could not be written down."""
    asked = recorded.request
    if not asked["is_whole"]:
        return None
    return SearchRequest(
        query=recorded.query,
        vector=None if recorded.vector is None else np.asarray(recorded.vector, dtype=np.float32),
        limit=asked["limit"],
        condition=_joined(recorded.condition, asked),
        profile=None if asked["profile"] is None else Profile.from_dict(asked["profile"]),
        group_by=None if asked["group_by"] is None else parse_field(asked["group_by"]),
        prefixes=tuple(asked["prefixes"]),
        **_later(asked),
    )


def _later(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What older records do not have."""
    as_of, about = asked.get("as_of"), asked.get("about")
    return {
        "rewrites": tuple(asked.get("rewrites", ())),
        "preferred": checked_preferred(asked.get("preferred")),
        "entities": frozenset((kind, entity_id) for kind, entity_id in asked.get("entities", ())),
        "tags": frozenset(asked.get("tags", ())),
        "as_of": None if as_of is None else datetime.fromisoformat(as_of),
        "about": None if about is None else np.asarray(about, dtype=np.float32),
    }


def _joined(condition: Mapping[str, Any], asked: Mapping[str, Any]) -> Filter | None:
    parts: list[Filter] = [one for one in (parse_where(condition),) if one is not None]
    parts += [Contains(phrase) for phrase in asked["phrases"]]
    parts += [Not(Contains(phrase)) for phrase in asked["excluded"]]
    return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def _parted(condition: Filter | None) -> tuple[Filter | None, list[str], list[str]]:
    """The filter apart from the phrases that an item must hold and those that it may not."""
    parts = condition.filters if isinstance(condition, And) else () if condition is None else (condition,)
    others: list[Filter] = []
    phrases, excluded = list[str](), list[str]()
    for part in parts:
        match part:
            case Contains(text):
                phrases.append(text)
            case Not(Contains(text)):
                excluded.append(text)
            case _:
                others.append(part)
    if not (phrases or excluded):
        return condition, phrases, excluded
    return (And(tuple(others)) if len(others) > 1 else others[0] if others else None), phrases, excluded


def _mapping(condition: Filter | None) -> dict[str, Any] | None:
    """The filter as a mapping; None for one on the text itself, or nested too deeply to be written down."""
    if condition is None:
        return {}
    try:
        mapping = as_mapping(condition)
        parse_where(mapping)
    except (ValueError, InvalidFilterError, RecursionError):
        return None
    return mapping
