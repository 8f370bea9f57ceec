"""What a retriever is made with and asked, checked. Pure."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from retrieval.apps.recall.stretch import TimeExpressions
from retrieval.domain.errors import EmptyQueryError, InvalidLimitError, InvalidRequestError
from retrieval.domain.llm import is_llm
from retrieval.domain.profile import Profile
from retrieval.engine.request import checked_words

SEARCH_LIMIT_MAX = 100
"""The most entities that one search gives."""


def check_parts(storage: object, llm: object, seed: object, profile: object) -> None:
    """Raises ``InvalidRequestError``, saying what a retriever is made of."""
    if not callable(getattr(storage, "search", None)):
        raise InvalidRequestError(
            f"storage is {storage!r:.80}; give a collection, such as await platform.collection('recall')"
        )
    if llm is not None and not is_llm(llm):
        raise InvalidRequestError(f"llm is {llm!r:.80}; give a language model, such as platform.llm, or None")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise InvalidRequestError(f"seed is {seed!r:.80}; it must be a whole number, or None")
    if profile is not None and not isinstance(profile, Profile):
        raise InvalidRequestError(f"profile is {profile!r:.80}; give a Profile, or None for the collection's own")


def check_query(query: object) -> None:
    """Raises ``EmptyQueryError`` for no words, ``InvalidRequestError`` for what is no text."""
    if not checked_words(query):
        raise EmptyQueryError("the query is empty; give some words")


def check_limit(limit: object) -> None:
    """Raises ``InvalidLimitError`` for what is no number from 1 to ``SEARCH_LIMIT_MAX``."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= SEARCH_LIMIT_MAX:
        raise InvalidLimitError(f"limit is {limit!r:.80}; it must be a whole number from 1 to {SEARCH_LIMIT_MAX}")


def checked_moment(as_of: Any) -> datetime | None:
    """The moment that a question is asked at. Raises ``InvalidRequestError`` for one without a zone."""
    if as_of is not None and (not isinstance(as_of, datetime) or as_of.utcoffset() is None):
        raise InvalidRequestError(
            f"as_of is {as_of!r:.80}; give a time with a time zone, such as datetime(2026, 5, 1, tzinfo=UTC)"
        )
    return as_of


def checked_seconds(seconds: Any) -> float:
    """How long rewrites are waited for, above 0."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InvalidRequestError(f"rewrite_timeout_seconds is {seconds!r:.80}; it must be a number above 0")
    return float(seconds)


def checked_mode(mode: str) -> TimeExpressions:
    """What becomes of times in questions."""
    try:
        return TimeExpressions(mode)
    except ValueError:
        known = ", ".join(TimeExpressions)
        raise InvalidRequestError(f"time_expressions is {mode!r:.80}; it is one of {known}") from None
