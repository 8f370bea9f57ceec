"""What is asked of a search, checked once at the door."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.embedding import EmbeddingSpace, Vector, checked_vectors
from retrieval.domain.errors import (
    EmptyQueryError,
    InvalidLimitError,
    InvalidRequestError,
    InvalidVectorError,
    UnknownFieldError,
)
from retrieval.domain.filters import FIELDS, Filter, attribute_names
from retrieval.domain.profile import Profile

MAX_LIMIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """One search. Make it with ``checked_request``."""

    query: str
    """The words; empty when only a vector was given."""
    vector: Vector | None
    """A precomputed query vector, shape (dimensions,); None: the query's words are embedded."""
    limit: int
    """Hits wanted, 1 to 1000."""
    condition: Filter | None
    profile: Profile | None
    """The call's own profile; None: the collection's."""


def checked_request(
    query: str | None,
    *,
    vector: object = None,
    limit: int = 10,
    condition: Filter | None = None,
    profile: Profile | None = None,
) -> SearchRequest:
    """The request, or an error that says what to change.

    Raises ``EmptyQueryError``, ``InvalidLimitError``, ``InvalidVectorError`` or ``InvalidRequestError``.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidLimitError(f"limit is {limit!r}; it must be a whole number from 1 to {MAX_LIMIT}")
    words = _checked_words(query)
    if not words and vector is None:
        raise EmptyQueryError("the query is empty; give some words, or a vector")
    return SearchRequest(
        query=words,
        vector=None if vector is None else _flat(vector),
        limit=limit,
        condition=condition,
        profile=profile,
    )


def check_vector(vector: Vector, space: EmbeddingSpace) -> Vector:
    """The vector at unit length. Raises ``WrongDimensionError`` or ``InvalidVectorError``."""
    row: Vector = checked_vectors([vector], space, ["the query vector"])[0]
    return row


def check_fields(condition: Filter | None, known: Iterable[str]) -> None:
    """Raise ``UnknownFieldError`` for an attribute that no item of the collection has."""
    names = sorted(known)
    for name in sorted(attribute_names(condition) - set(names)):
        near = difflib.get_close_matches(name, [*names, *FIELDS], n=1)
        hint = f"; did you mean {near[0]!r}? There are" if near else "; there are"
        raise UnknownFieldError(f"no item has a field {name!r}{hint} {_listed(sorted(FIELDS) + names)}")


def _listed(names: Sequence[str], most: int = 30) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _checked_words(query: object) -> str:
    if query is None:
        return ""
    if not isinstance(query, str):
        raise InvalidRequestError(f"the query must be text, not {type(query).__name__}")
    if "\x00" in query:
        raise InvalidRequestError("the query holds a NUL byte; remove it")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError("the query holds half of a surrogate pair; remove it") from None
    return query.strip()


def _flat(vector: object) -> Vector:
    try:
        array = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError):
        raise InvalidVectorError("the query vector must be a list or an array of numbers") from None
    if array.ndim != 1:
        raise InvalidVectorError(f"the query vector must have one dimension, not shape {array.shape}")
    return array
