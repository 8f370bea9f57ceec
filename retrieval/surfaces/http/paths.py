"""Names and ids in paths: they may hold any character, also a slash or a line end, percent-encoded as UTF-8."""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import unquote, unquote_to_bytes

from fastapi import Path
from pydantic import BeforeValidator
from starlette.types import ASGIApp, Receive, Scope, Send

from retrieval.domain.errors import InvalidRequestError

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
