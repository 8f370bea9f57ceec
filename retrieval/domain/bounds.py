"""How much one search may bring, whichever door it comes through.

What a search brings is worked on by every tenant's processor, and all of it is held in memory. The bounds are settings
of the installation (``retrieval.settings``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from retrieval.domain.errors import InvalidRequestError

MAX_QUERY_BYTES = 32 * 1024
"""Of a query, and of each of its rewrites, in UTF-8."""

MAX_FILTER_VALUES = 10_000
"""That one filter compares with, those of all its conditions together."""

WORDINGS = 32
"""All queries and rewrites of one call together have at most so many times the bytes of one query."""


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """What one search may bring."""

    query_bytes: int = MAX_QUERY_BYTES
    filter_values: int = MAX_FILTER_VALUES

    def check_query(self, words: str, place: tuple[str | int, ...] = ("query",)) -> None:
        """Raise ``InvalidRequestError`` for a query of too many bytes; ``place`` is where it was given."""
        # A character has at least one byte: what is far too long need not be encoded.
        size = len(words) if len(words) > self.query_bytes else len(words.encode(errors="replace"))
        if size > self.query_bytes:
            what = "the query" if place == ("query",) else "a rewrite"
            error = InvalidRequestError(
                f"{what} has more than {self.query_bytes:,} bytes (RETRIEVAL_MAX_QUERY_BYTES); "
                "search with what matters in it"
            )
            error.place = place
            raise error

    def check_queries(self, wordings: Iterable[str]) -> None:
        """Raise ``InvalidRequestError`` where the queries and rewrites of one call have too many bytes together."""
        most, size = WORDINGS * self.query_bytes, sum(len(one.encode(errors="replace")) for one in wordings)
        if size > most:
            raise InvalidRequestError(
                f"the queries of one call have {size:,} bytes together; at most {most:,} ({WORDINGS} times "
                "RETRIEVAL_MAX_QUERY_BYTES), send them in parts"
            )


DEFAULT_BOUNDS = SearchBounds()
"""Where no settings say otherwise."""
