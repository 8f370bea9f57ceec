"""Cursors: the hits of a search that were shown, so that its next page repeats and omits none. Pure.

A cursor holds a hash of each hit shown, and one of the question. The next page is the search again, as far as it needs
to go, without the hits shown: writes meanwhile move hits, but none that existed is repeated or lost.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.hit import Hit

MAX_SHOWN = 1000
"""Hits of all pages together."""

_BYTES = 6
"""The bytes of a hash: two of a thousand hits share one with a probability below one in 100 million."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position between two pages of a search."""

    question: bytes
    """The hash of what is asked."""
    shown: frozenset[bytes] = frozenset()
    """The hashes of the hits shown."""

    def is_shown(self, item_id: str) -> bool:
        """Whether a page before has that hit."""
        return _hash(item_id.encode()) in self.shown

    def after(self, item_ids: Iterable[str]) -> Cursor:
        """The cursor after these hits are shown too."""
        return replace(self, shown=self.shown | {_hash(item_id.encode()) for item_id in item_ids})

    def next_page(self, hits: Sequence[Hit], size: int) -> tuple[tuple[Hit, ...], str | None]:
        """The first ``size`` hits that no earlier page has, and the cursor of the page after them; None: there is none.

        A short page may lack an item that was removed during the search: only an empty page is the end.
        """
        fresh = [hit for hit in hits if not self.is_shown(hit.item_id)][:size]
        page = tuple(replace(hit, rank=rank) for rank, hit in enumerate(fresh, len(self.shown) + 1))
        come_to = self.after(hit.item_id for hit in page)
        return page, None if not page or len(come_to.shown) >= MAX_SHOWN else str(come_to)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self.question + b"".join(sorted(self.shown))).decode()


def read_cursor(text: object, question: str) -> Cursor:
    """The cursor that a page gave as ``next``; of an empty text the one before the first page.

    ``question`` holds all that is asked, and is the same text for each page. Raises ``InvalidRequestError`` for
    anything else, and for the cursor of another question.
    """
    asked = _hash(question.encode(errors="replace"))
    if text == "":
        return Cursor(asked)
    try:
        raw = base64.b64decode(text, altchars=b"-_", validate=True) if isinstance(text, str) else b""
    except (ValueError, binascii.Error):
        raw = b""
    hashes = frozenset(raw[place : place + _BYTES] for place in range(_BYTES, len(raw), _BYTES))
    if not hashes or len(raw) % _BYTES or len(hashes) > MAX_SHOWN:
        raise _refused(f"{text!r:.40} is no cursor; give what the page before has as next, or '' for the first page")
    if raw[:_BYTES] != asked:
        raise _refused("the cursor is of another search; ask for its next page with the same query and filter")
    return Cursor(asked, hashes)


def _refused(message: str) -> InvalidRequestError:
    error = InvalidRequestError(message)
    error.place = ("after",)
    return error


def _hash(text: bytes) -> bytes:
    return blake2b(text, digest_size=_BYTES).digest()
