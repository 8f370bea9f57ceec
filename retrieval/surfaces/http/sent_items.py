"""Items as they are sent, their names in paths, and conditions on their versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import unquote, unquote_to_bytes

from fastapi import Header, Path
from pydantic import BeforeValidator
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.adapters.readers import item_from_record
from retrieval.adapters.readers.records import FIELD_NAMES
from retrieval.apps.tickets.ticket_item import with_ticket_parts
from retrieval.domain.errors import InvalidItemError, InvalidRequestError
from retrieval.domain.items.item import ABSENT, ANY, Item

_ENCODED = re.compile(rb"%(?:2F|2f|0A|0a)")
_STAND_INS = {b"%2f": chr(0xDC2F), b"%0a": chr(0xDC0A)}
"""Halves of surrogate pairs, which no name can hold, for what would end a part of a path before its end."""
_RESTORED = {0xDC2F: "/", 0xDC0A: "\n"}


class KeysInPaths:
    """Middleware of ASGI: an encoded slash of a name is no slash between two parts of the path.

    The server gives the path decoded, where nobody can tell the two apart, and as it came.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI. Raises ``InvalidRequestError`` for what is no UTF-8."""
        raw_path = scope.get("raw_path")
        if raw_path is not None and b"%" in raw_path:
            check_text(raw_path, "path")
            if _ENCODED.search(raw_path):
                scope = {**scope, "path": told_apart(raw_path)}
        if query := scope.get("query_string"):
            check_text(query, "query")
        await self._app(scope, receive, send)


def check_text(encoded: bytes, part: str) -> None:
    """Raise ``InvalidRequestError`` where a part of an address is no UTF-8: different names would become the same."""
    try:
        unquote_to_bytes(encoded).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError(
            f"the {part} is not UTF-8; percent-encode each name as UTF-8, such as M%C3%BCller"
        ) from None


def told_apart(raw_path: bytes) -> str:
    """The path decoded, with other characters in place of the slashes and line ends that are parts of names."""
    # None of them is part of another character in UTF-8, so the pieces can be decoded by themselves.
    pieces = [unquote(piece.decode("latin-1")) for piece in _ENCODED.split(raw_path)]
    stand_ins = [_STAND_INS[found.lower()] for found in _ENCODED.findall(raw_path)]
    return "".join(piece + stand_in for piece, stand_in in zip(pieces, [*stand_ins, ""], strict=True))


def restored(name: Any) -> Any:
    """The name that a path holds, as it was before it was encoded."""
    return name.translate(_RESTORED) if isinstance(name, str) else name


CollectionName = Annotated[
    str, BeforeValidator(restored), Path(description="The collection's name, percent-encoded.", examples=["tickets"])
]
ItemId = Annotated[
    str,
    BeforeValidator(restored),
    Path(description="The item's id, percent-encoded; its slashes may stand as they are.", examples=["T-1"]),
]
DocumentId = Annotated[
    str,
    BeforeValidator(restored),
    Path(
        description="The document's id, percent-encoded; its slashes may stand as they are.",
        examples=["handbook/leave.md"],
    ),
]

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


_TOLD = ("version", "created_at", "updated_at")
"""The fields that the service adds to a stored item."""

_ATTRIBUTES = ("metadata", "attributes")
_TWO_NAMES = (("text", "body"), _ATTRIBUTES, ("occurred_at", "event_time"))
"""The names of one part each."""

_VECTORS = ("embedding", "vector")
_FIELDS = frozenset(name for names in FIELD_NAMES.values() for name in names)


def sent_item(record: Mapping[str, Any]) -> Item:
    """The item that was sent. A ticket's hours have the name that they have when a file of tickets is read.

    Raises ``InvalidItemError`` for what cannot be stored, and for what says two things at once.
    """
    record = _without_told(record)
    _check_told_once(record)
    item = item_from_record(record)
    try:
        return with_ticket_parts(item)
    except InvalidItemError:
        # It may be no ticket at all.
        return item


def _without_told(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """An answer that is sent back is the item alone; whether its version still holds is what ``If-Match`` asks."""
    if isinstance(record, Mapping) and all(name in record for name in ("attributes", *_TOLD)):
        return {name: value for name, value in record.items() if name not in _TOLD}
    return record


def _check_told_once(record: Mapping[str, Any]) -> None:
    if not isinstance(record, Mapping):
        return
    for name in _TOLD:
        if record.get(name) is not None:
            raise _refused(record, f"{name!r} is the service's; leave it out, or send one of your own in 'attributes'")
    for name, other in _TWO_NAMES:
        if record.get(name) is not None and record.get(other) is not None and record[name] != record[other]:
            raise _refused(record, f"{name!r} and {other!r} are two names of one thing, and say two things; give one")
    for name in _VECTORS:
        if _is_vector(record.get(name)):
            raise _refused(record, f"{name!r} is no attribute; send vectors to POST .../items as 'embeddings'")
    _check_attributes(record)


def _check_attributes(record: Mapping[str, Any]) -> None:
    within = next((found for name in _ATTRIBUTES if isinstance(found := record.get(name), Mapping)), {})
    for name in within.keys() & record.keys() - _FIELDS:
        if None not in (within[name], record[name]) and within[name] != record[name]:
            raise _refused(record, f"{name!r:.60} stands in the attributes and beside them, with two values; give one")


def _is_vector(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) in (int, float) for one in value)


def _refused(record: Mapping[str, Any], reason: str) -> InvalidItemError:
    key = next((found for name in ("_id", "item_id", "id") if (found := record.get(name)) is not None), None)
    return InvalidItemError(reason, item_id=None if key is None else str(key))
