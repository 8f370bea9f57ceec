"""Conditional requests (RFC 9110, 13): entity tags are the versions of items."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.stored_item import ABSENT, ANY

_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*')

IfMatch = Annotated[
    str | None,
    Header(description="Only if the item is still in this version: the `ETag` that came with it, or `*` for any."),
]
IfNoneMatch = Annotated[str | None, Header(description="Only if there is no such item: `*`.")]
IfChanged = Annotated[
    str | None,
    Header(alias="If-None-Match", description="The `ETag` that is known: without a change the answer is 304."),
]


def etag(version: str) -> str:
    """The version as a strong entity tag."""
    return f'"{version}"'


def wanted_version(if_match: str | None, if_none_match: str | None = None) -> str | None:
    """The version that a write is about, as ``Collection.put`` takes it; None: whichever.

    Raises ``InvalidRequestError`` for headers that are none, or ask for what no write can be asked.
    """
    if if_none_match is not None:
        if if_match is not None or if_none_match.strip() != ANY:
            raise InvalidRequestError("If-None-Match takes * with a write, and goes without If-Match")
        return ABSENT
    if if_match is None or if_match.strip() == ANY:
        return if_match and ANY
    tags = _tags(if_match)
    if len(tags) != 1:
        raise InvalidRequestError('If-Match takes the ETag of one version, such as "mZ0CqVvWbX1m3y5K", or *')
    weak, version = tags[0]
    # A weak tag matches nothing here; no version has a name like this.
    return f"W/{version}" if weak else version or "W/"


def is_known(if_none_match: str | None, version: str) -> bool:
    """Whether the client has that version already."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == ANY or version in [known for _, known in _tags(if_none_match)]


def _tags(header: str) -> list[tuple[bool, str]]:
    """The entity tags of a list, each with whether it is weak. Raises ``InvalidRequestError`` for anything else."""
    found = [_TAG.fullmatch(part) for part in header.split(",")]
    tags = [(match[1] is not None, match[2]) for match in found if match is not None]
    if len(tags) != len(found):
        raise InvalidRequestError(
            'an entity tag stands in quotes, as the header ETag has it, such as "mZ0CqVvWbX1m3y5K"'
        )
    return tags
