"""The request of a search, checked once at the entry, and its vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.embedders.chosen import no_embedder
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain import checks
from retrieval.domain.errors import (
    EmptyQueryError,
    InvalidFilterError,
    InvalidLimitError,
    InvalidRequestError,
    InvalidVectorError,
    RetrievalError,
)
from retrieval.domain.items.embedding import USUAL_LENGTHS, EmbeddingSpace, Vector, checked_vectors, numbers_of
from retrieval.domain.items.memory import check_entity
from retrieval.domain.search import filters
from retrieval.domain.search.filters import And, Contains, Field, Filter, Not
from retrieval.domain.search.hit import Cursor
from retrieval.domain.search.profile import LegName, Profile
from retrieval.domain.search.query import DEFAULT_BOUNDS, ParsedQuery, SearchBounds, parse_query, wording
from retrieval.domain.search.signals import EntityKey, VectorSimilarity


def checked_item_ids(item_ids: str | Sequence[str]) -> list[str]:
    """The identifiers as a list. Raises ``InvalidRequestError`` for values that cannot be an item's id."""
    if isinstance(item_ids, str):
        item_ids = [item_ids]
    if not isinstance(item_ids, Sequence):
        raise InvalidRequestError(f"item ids come in a list such as ['a', 'b'], not {checks.written(item_ids)}")
    for item_id in item_ids:
        if not checks.is_storable(item_id):
            raise InvalidRequestError(
                f"{checks.written(item_id)} is not an item id; ids are texts without NUL or half of a surrogate pair"
            )
    return list(item_ids)


def check_profile(profile: object, name: str = "profile") -> None:
    """Raise ``InvalidRequestError`` for a value that is not a ``Profile``, such as a dictionary."""
    if not isinstance(profile, Profile):
        raise InvalidRequestError(
            f"{name} is a {type(profile).__name__}; it must be a Profile, which Profile.from_dict makes of plain values"
        )


MAX_LIMIT = 1000

MAX_QUERIES, MAX_HITS = 1000, 10_000
"""The most queries of one call, and the most hits of all of them together."""

MAX_REWRITES, MAX_PREFERRED, MAX_ENTITIES, MAX_TAGS = 10, 4, 100, 100
"""The most rewrites of one query, filters whose matches it ranks higher, and entities and tags that it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """One search. Make it with ``checked_request``."""

    query: str
    """The words to rank by and to embed; empty if the caller gave only a vector."""
    vector: Vector | None
    """A precomputed query vector, shape (dimensions,); None: the query's words are embedded."""
    limit: int
    """Hits requested, 1 to 1000."""
    condition: Filter | None
    """The caller's filter, and the query's phrases and excluded words."""
    profile: Profile | None
    """The call's own profile; None: the collection's."""
    group_by: Field | None = None
    """The attribute to group by: only the best hit of each value is shown; None: every hit is shown."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of words, by which the lexical leg ranks too."""
    rewrites: tuple[str, ...] = ()
    """Other wordings of the query: every leg runs once more for each."""
    preferred: tuple[Filter, ...] = ()
    """The filters whose items rank higher, the most preferred first: every leg runs once more within each."""
    entities: frozenset[EntityKey] = frozenset()
    """The entities that the question is about."""
    tags: frozenset[str] = frozenset()
    """The tags that the question is about."""
    as_of: datetime | None = None
    """The moment that signals take as now; None: the present."""
    about: Vector | None = None
    """The vector that determines the question's cluster, shape (dimensions,); None: the query's vector."""
    min_score: float | None = None
    """The least score of a hit; None: any."""
    min_relevance: float | None = None
    """The least relevance of a hit, 0 to 1; None: any."""
    after: Cursor | None = None
    """The position after the hits of earlier pages, which ``limit`` includes; None: the first page."""

    wordless_note: str = ""
    """The note on a result in which no item has a word of the query; empty: no note."""

    @property
    def wordings(self) -> tuple[SearchRequest, ...]:
        """The request itself, and one for each rewritten query."""
        if not self.rewrites:
            return (self,)
        return (self, *(replace(self, query=words, prefixes=(), rewrites=()) for words in self.rewrites))

    @property
    def narrowed(self) -> tuple[SearchRequest, ...]:
        """One request for each preferred filter."""
        if not self.preferred:
            return ()
        always = () if self.condition is None else (self.condition,)
        return tuple(replace(self, condition=And((*always, condition)), preferred=()) for condition in self.preferred)


def checked_request(
    query: str | None,
    *,
    vector: object = None,
    limit: int = 10,
    condition: Filter | None = None,
    profile: Profile | None = None,
    group_by: str | None = None,
    syntax: bool = True,
    rewrites: object = (),
    preferred: Sequence[Filter | None] | None = None,
    entities: object = None,
    tags: object = (),
    as_of: datetime | None = None,
    min_score: float | None = None,
    min_relevance: float | None = None,
    needs_question: bool = True,
    wordless_note: str = "",
    bounds: SearchBounds = DEFAULT_BOUNDS,
) -> SearchRequest:
    """The request, or an error that says what to change.

    ``syntax``: whether quotes, a minus and a star in the query have a meaning (see ``retrieval.domain.search.query``);
    in rewrites they have none. ``needs_question``: whether words or a vector are required. ``bounds``: the limits of
    the query's size; a filter's size is checked by its parser.
    Raises ``EmptyQueryError``, ``InvalidLimitError``, ``InvalidVectorError`` or ``InvalidRequestError``.
    """
    hits = checks.checked_limit(limit, MAX_LIMIT)
    words = checked_words(query, bounds)
    if not words and vector is None and needs_question:
        raise EmptyQueryError("the query is empty; give some words, or a vector")
    is_plain = not words or not syntax
    parsed = ParsedQuery(words) if is_plain else parse_query(words, needs_words=vector is None and needs_question)
    return SearchRequest(
        query=parsed.words,
        vector=None if vector is None else _flat(vector),
        limit=hits,
        condition=condition if is_plain else _with_conditions(condition, parsed),
        profile=profile,
        group_by=None if group_by is None else _checked_group(group_by),
        prefixes=parsed.prefixes,
        rewrites=_checked_rewrites(rewrites, words, vector, bounds),
        preferred=() if preferred is None else checked_preferred(preferred),
        entities=frozenset() if entities is None else _checked_entities(entities),
        tags=_checked_tags(tags),
        as_of=None if as_of is None else checks.checked_time("as_of", as_of),
        min_score=None if min_score is None else _checked_least("min_score", min_score, -math.inf, math.inf),
        min_relevance=None if min_relevance is None else _checked_least("min_relevance", min_relevance, 0.0, 1.0),
        wordless_note=wordless_note,
    )


def _checked_least(name: str, value: object, least: float, most: float) -> float:
    if not checks.is_finite(value) or not least <= value <= most:
        expected = "a finite number" if math.isinf(most) else f"a number from {least:g} to {most:g}"
        raise InvalidRequestError(f"{name} is {checks.written(value)}; it must be {expected}").at(name)
    return float(value)


def checked_preferred(each: Sequence[Filter | None]) -> tuple[Filter, ...]:
    """The preferred filters, the most preferred first; a repeated filter counts at its first place.

    Raises ``InvalidRequestError`` for more than ``MAX_PREFERRED``.
    """
    if len(each) > MAX_PREFERRED:
        raise InvalidRequestError(
            f"{len(each)} filters in prefer; at most {MAX_PREFERRED}, because each is another search"
        )
    # By their spelling, because ``true`` equals 1 in Python.
    return tuple({repr(filter_): filter_ for filter_ in each if filter_ is not None}.values())


def _checked_entities(entities: object) -> frozenset[EntityKey]:
    """The entities of a mapping such as ``{"questions": ["q1"]}``. Raises ``InvalidRequestError``."""
    if not isinstance(entities, Mapping):
        raise InvalidRequestError('entities come by type, such as {"questions": ["q1", "q2"]}')
    checked = set()
    for kind, ids in entities.items():
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise InvalidRequestError(f'the entities of type {checks.written(kind)} come in a list, such as ["q1"]')
        for entity_id in ids:
            checked.add(check_entity((kind, entity_id)))
            if len(checked) > MAX_ENTITIES:
                raise InvalidRequestError(f"a search is about at most {MAX_ENTITIES} entities; give fewer")
    return frozenset(checked)


def _checked_tags(tags: object) -> frozenset[str]:
    """The tags of a list such as ``["react", "frontend"]``. Raises ``InvalidRequestError``."""
    if isinstance(tags, tuple) and not tags:
        return frozenset()
    listed = checks.checked_list("tags", tags, "['react', 'frontend']")
    if len(listed) > MAX_TAGS:
        raise InvalidRequestError(f"{len(listed)} tags; a search is about at most {MAX_TAGS}, give fewer")
    for tag in listed:
        if not checks.is_storable(tag):
            raise InvalidRequestError(
                f"a tag is a text without NUL or half of a surrogate pair, not {checks.written(tag)}"
            )
    return frozenset(listed)


def _checked_rewrites(rewrites: object, words: str, vector: object, bounds: SearchBounds) -> tuple[str, ...]:
    if isinstance(rewrites, tuple) and not rewrites:
        return ()
    if isinstance(rewrites, str) or not isinstance(rewrites, Sequence):
        raise InvalidRequestError("rewrites come in a list such as ['other words', 'a third way']")
    if len(rewrites) > MAX_REWRITES:
        raise InvalidRequestError(f"{len(rewrites)} rewrites; at most {MAX_REWRITES}")
    if rewrites and (not words or vector is not None):
        raise InvalidRequestError("rewrites are other words for the query: give its words, and no vector")
    checked = tuple(checked_words(rewrite, bounds, ("rewrites", index)) for index, rewrite in enumerate(rewrites))
    if not all(checked):
        raise InvalidRequestError("a rewrite is empty; leave it out")
    return checked


def checked_requests(
    queries: object, *, vectors: object = None, limit: int = 10, bounds: SearchBounds = DEFAULT_BOUNDS, **same: Any
) -> list[SearchRequest]:
    """One request for each query, or an error that names the query and says what to change; ``same``: for all."""
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        raise InvalidRequestError("the queries come in a list such as ['first', 'second']")
    if len(queries) > MAX_QUERIES:
        raise InvalidRequestError(f"{len(queries)} queries in one call; at most {MAX_QUERIES}, send them in parts")
    bounds.check_queries(query for query in queries if isinstance(query, str))
    listed = [None] * len(queries) if vectors is None else checks.checked_list("vectors", vectors, "[[0.1, 0.9]]")
    if len(listed) != len(queries):
        raise InvalidRequestError(f"{len(queries)} queries and {len(listed)} vectors; give one vector a query")
    requests = []
    for number, (query, vector) in enumerate(zip(queries, listed, strict=True), 1):
        try:
            requests.append(checked_request(query, vector=vector, limit=limit, bounds=bounds, **same))
        except RetrievalError as error:
            numbered = type(error)(f"query {number}: {error}")
            if isinstance(numbered, InvalidRequestError):
                numbered.location = _location_in_batch(error, number - 1)
            raise numbered from None
    if sum(request.limit for request in requests) > MAX_HITS:
        raise InvalidLimitError(
            f"{len(requests)} queries with {limit} hits each; at most {MAX_HITS:,} hits in one call, ask for fewer of "
            "each, or send the queries in parts"
        )
    return requests


def _location_in_batch(error: RetrievalError, index: int) -> tuple[str | int, ...]:
    if isinstance(error, InvalidVectorError):
        return ("vectors", index)
    own = error.location if isinstance(error, InvalidRequestError) else ()
    return ("queries", index) if isinstance(error, EmptyQueryError) or own == ("query",) else own


def _checked_group(name: str) -> Field:
    try:
        field = filters.parse_field(name)
    except InvalidFilterError as error:
        error.location = ("group_by",)
        raise
    fault = "a memory has many links" if field == filters.LINKS else ""
    if not field.is_attribute and field.name in filters.NUMBER_FIELDS:
        fault = f"{name!r} is computed from verdicts"
    if fault:
        raise InvalidRequestError(f"{fault}: group by another field, or filter by it").at("group_by")
    return field


def _with_conditions(condition: Filter | None, parsed: ParsedQuery) -> Filter | None:
    if not parsed.phrases and not parsed.excluded:
        return condition
    parts: list[Filter] = [Contains(phrase) for phrase in parsed.phrases]
    parts += [Not(Contains(phrase)) for phrase in parsed.excluded]
    return And((*(() if condition is None else (condition,)), *parts))


def check_vector(vector: Vector, space: EmbeddingSpace) -> Vector:
    """The vector at unit length. Raises ``WrongDimensionError`` or ``InvalidVectorError``."""
    if vector.shape == (space.dimensions,):
        wide = vector.astype(np.float64)  # in which no length overflows
        length = math.sqrt(wide.dot(wide))
        if USUAL_LENGTHS[0] < length < USUAL_LENGTHS[1]:
            unit: Vector = vector / length
            return unit
    row: Vector = checked_vectors([vector], space, ["the query"])[0]
    return row


def checked_query_vector(vector: object, collection: StoredCollection, name: str = "vector") -> Vector:
    """The caller's vector at unit length, shape (dimensions,); ``name``: the argument's name.

    Raises ``InvalidRequestError`` for a collection without a space, ``WrongDimensionError`` or ``InvalidVectorError``.
    """
    try:
        return _unit_vector(_flat(vector), collection)
    except InvalidVectorError as error:
        error.location = (name,)
        raise


def _unit_vector(vector: Vector, collection: StoredCollection) -> Vector:
    if collection.space is None:
        raise InvalidRequestError(f"collection {collection.name!r} has no embedding space to search by vector")
    return check_vector(vector, collection.space.space)


def checked_words(
    query: object, bounds: SearchBounds = DEFAULT_BOUNDS, location: tuple[str | int, ...] = ("query",)
) -> str:
    """The words of a query, without the spaces around them, and without the characters that no stored text has.

    A query of such characters alone stays as it is: it is not empty, and finds nothing by words. ``location``: where
    the request has it. Raises ``InvalidRequestError`` for a query that is not a text or exceeds the bounds.
    """
    if query is None:
        return ""
    if not isinstance(query, str):
        raise InvalidRequestError(f"{wording(location)} must be text, not {type(query).__name__}").at(*location)
    bounds.check_query(query, location)
    if "\x00" in query:
        raise InvalidRequestError(f"{wording(location)} contains a NUL byte; remove it").at(*location)
    if not checks.is_unicode(query):
        raise InvalidRequestError(f"{wording(location)} contains {checks.NO_UTF8}").at(*location)
    return checks.clean_text(query).strip() or query.strip()


def _flat(vector: object) -> Vector:
    if type(vector) is np.ndarray and vector.dtype == np.float32 and vector.ndim == 1:
        return vector
    try:
        exact = numbers_of(vector)
    except (TypeError, ValueError, OverflowError):
        raise InvalidVectorError("the query vector must be a list or an array of numbers") from None
    if exact.ndim != 1:
        raise InvalidVectorError(f"the query vector must have one dimension, not shape {exact.shape}")
    largest = float(np.abs(exact).max(initial=0.0))
    # Single precision cannot represent larger or smaller numbers; only the direction counts.
    if math.isfinite(largest) and largest and not 1e-18 < largest < 1e18:
        exact = exact / largest
    array: Vector = exact.astype(np.float32)
    return array


NO_SPACE = (
    "the collection was made without an embedder; once there is one (RETRIEVAL_EMBEDDER, OPENAI_API_KEY, or pip "
    "install 'retrieval-platform[local]'), the next ingest makes the vectors of all its items"
)


async def query_vectors(
    collection: StoredCollection, embedder: CachedEmbedder | None, requests: Sequence[SearchRequest]
) -> tuple[Sequence[Vector | None], str | None]:
    """The vectors of requests with the same profile, each (dimensions,) at unit length; and why some are missing.

    Raises ``InvalidRequestError`` for a vector in a collection without a space, the errors of ``checked_vectors``, and
    the embedder's error if no other leg can answer.
    """
    vectors: list[Vector | None] = []
    for request in requests:
        try:
            vectors.append(None if request.vector is None else _unit_vector(request.vector, collection))
        except InvalidRequestError as error:
            if len(requests) == 1:
                error.location = ("vector",)
                raise
            raise type(error)(f"query {len(vectors) + 1}: {error}").at("vectors", len(vectors)) from None
    without_vector = [request for request in requests if request.vector is None]
    if not without_vector:
        return vectors, None
    embedded, why_missing = await _embed(collection, embedder, without_vector)
    remaining = iter(embedded)
    return [next(remaining) if vector is None else vector for vector in vectors], why_missing


async def _embed(
    collection: StoredCollection, embedder: CachedEmbedder | None, requests: Sequence[SearchRequest]
) -> tuple[Sequence[Vector | None], str | None]:
    no_vectors: list[Vector | None] = [None] * len(requests)
    profile = requests[0].profile or collection.profile
    why_missing = _why_no_vectors(collection, embedder, profile)
    if not all(request.query for request in requests):
        why_missing = why_missing or f"{_missing_part(profile)}: there are no words to embed"
    if why_missing is not None or embedder is None:
        return no_vectors, why_missing
    vectors, error = await embedder.try_queries([request.query for request in requests])
    if error is None:
        return vectors, None
    if not any(weight for leg, weight in profile.legs.items() if leg != LegName.DENSE):
        raise error
    return vectors, f"{_missing_part(profile)}: {error}"


def _why_no_vectors(collection: StoredCollection, embedder: CachedEmbedder | None, profile: Profile) -> str | None:
    if not profile.legs.get(LegName.DENSE) and not weighs_vectors(profile):
        return "the dense leg is not part of this search"
    if collection.space is None:
        return f"{_missing_part(profile)}: {NO_SPACE}"
    if embedder is None:
        return f"{_missing_part(profile)}: {no_embedder(collection.space.space)}"
    return None


def weighs_vectors(profile: Profile) -> bool:
    """True if a signal makes the score depend on the query's vector, whatever the legs are."""
    return any(isinstance(signal, VectorSimilarity) and signal.weight for signal in profile.signals)


def _missing_part(profile: Profile) -> str:
    """The beginning of a note: the part of the profile that is missing without a vector."""
    return "the dense leg did not run" if profile.legs.get(LegName.DENSE) else "vector_similarity is 0"
