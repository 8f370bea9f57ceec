"""The statement of a search: every leg's candidates, in one round trip and one snapshot.

This module has the parts common to all legs; each leg has a module of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, groupby, repeat
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.aside import LONG, MANY_CONDITIONS, aside
from retrieval.adapters.store.arrays import half_vector, texts
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.composed import StatementCache, facet_clauses
from retrieval.adapters.store.items.conditions import HIT_COLUMNS, present_value
from retrieval.adapters.store.items.items import HitRows
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search import ordered_legs, stored_signals
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.dense_leg import dense_leg, dense_settings, stored_by_key, walk_values
from retrieval.adapters.store.search.lexical_leg import (
    found_by_words,
    lexical_leg,
    query_weights,
    weighed_by_key,
    words_values,
)
from retrieval.adapters.store.search.likely_hits import LIKELY, LOOKED_UP, likely_values, with_likely_hits
from retrieval.adapters.store.search.statement_pieces import Matches, matches_of, materialized, named, quoted
from retrieval.adapters.store.search.tag_and_rating_legs import rated_leg, tagged_leg
from retrieval.adapters.store.search.vectors import sent_vectors
from retrieval.adapters.store.tables import collections, items, literal
from retrieval.domain.search.diversity import NO_VECTORS, PoolVectors
from retrieval.domain.search.filters import Filter, extent, is_small
from retrieval.domain.search.fusion import Candidate, candidate_of
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName

_NAME_OF = {leg: leg.value for leg in LegName}
_LEG_NAMES = frozenset(_NAME_OF.values())
_LEGS = {
    LegName.DENSE: dense_leg, LegName.RECENT: ordered_legs.recent_leg, LegName.POPULAR: ordered_legs.popular_leg,
    LegName.RELEVANT: ordered_legs.relevant_leg, LegName.LINKED: ordered_legs.linked_leg, LegName.TAGGED: tagged_leg,
    LegName.RATED: rated_leg,
}  # fmt: skip
_BY_QUESTION = frozenset({LegName.DENSE, LegName.LEXICAL})
"""The legs that depend only on the words and the vector of the question."""

_EVERY = 2**62
"""More than any number of matching items."""

_KEPT = StatementCache()

NO_ROWS = HitRows({})


class SpaceMovedError(Exception):
    """Searches of the collection now use another embedding space than the request: read the collection again."""


@dataclass(frozen=True, slots=True)
class LegResults:
    """The candidates of the legs."""

    rankings: dict[str, list[Candidate]]
    """Candidates by leg, best first; equal scores are ordered by item id."""
    path: Path
    """The final path of the dense leg."""
    weighed: int
    """The number of rows that the dense leg scored: vectors that it compared, or rows that the index returned."""
    fell_short: bool = False
    """Whether an index returned too few items, so that every matching item was looked up."""
    dropped_score: float | None = None
    """The highest possible score of a dropped candidate; None: none was dropped."""
    brought: Mapping[str, int] = field(default_factory=dict)
    """The number of candidates by leg as found, if it may differ from the ranking's length."""
    rows: dict[str, Row] = field(default_factory=dict)
    """The requested columns by item id: the fields, then the columns of a hit."""
    vectors: PoolVectors = NO_VECTORS
    """The vectors of the candidates that have one, if requested."""
    likely: HitRows = NO_ROWS
    """The columns of the likely hits, if requested."""
    unranked: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    """The scores that were looked up and count in no ranking, by leg."""


async def find_candidates(database: Database, tenant_id: int, request: CandidateRequest, query: Query) -> LegResults:
    """Each leg's candidates for one query."""
    return (await find_candidates_of_each(database, tenant_id, request, [query]))[0]


async def find_candidates_of_each(
    database: Database, tenant_id: int, request: CandidateRequest, queries: Sequence[Query]
) -> list[LegResults]:
    """Each query's candidates, in one round trip, or in two if an index returns too few. Raises ``SpaceMovedError``."""
    answers = await _find(database, tenant_id, request, queries)
    short = [index for index, answer in enumerate(answers) if answer.fell_short]
    if short:
        exact = replace(request, path=Path.EXACT, few=_EVERY, reach=0)
        again = await _find(database, tenant_id, exact, [queries[index] for index in short])
        for index, answer in zip(short, again, strict=True):
            answers[index] = replace(answer, fell_short=True, weighed=answers[index].weighed + answer.weighed)
    return answers


async def _find(
    database: Database, tenant_id: int, request: CandidateRequest, queries: Sequence[Query]
) -> list[LegResults]:
    statement = _cached(request)
    if statement is None:
        statement = await aside(partial(_prepare, request), is_long=_is_large(request.condition))
    answers = await database.read_each(tenant_id, [statement.bind(query) for query in queries], statement.settings)
    return await aside(
        lambda: [leg_results_of(rows, request) for rows in answers], is_long=sum(map(len, answers)) >= LONG
    )


def _is_large(condition: Filter | None) -> bool:
    if condition is None:
        return False
    conditions, values = extent(condition)
    return conditions >= MANY_CONDITIONS or values >= LONG


@dataclass(frozen=True, slots=True)
class _Statement:
    """A request's statement without a query's values."""

    request: CandidateRequest
    text: str
    values: Mapping[str, Any]
    """The values of all parameters, but for the query's; the filter's are the same objects for all queries."""
    settings: Mapping[str, str]
    keep: int
    needs_question_only: bool
    """Whether the statement depends only on the words and the vector of a query."""

    def bind(self, query: Query) -> Compiled:
        """The statement with the query's values."""
        values = {**self.values}
        if "query" in values:
            values["query"] = query.words
        if query.prefixes:
            values["prefixes"] = texts(query.prefixes)
        if query.vector is not None:
            values["vector"] = half_vector(query.vector)
        if not self.needs_question_only:
            values |= _values(self.request, query)
        return Compiled(self.text, values, self.keep)


_NO_TEXTS = texts(())

_MOST_STATEMENTS = 1000
_STATEMENTS: dict[int, _Statement] = {}
"""Prepared statements by the ``id`` of their request, which they reference: plans are cached with their requests."""


def _cached(request: CandidateRequest) -> _Statement | None:
    prepared = _STATEMENTS.get(id(request))
    return prepared if prepared is not None and prepared.request is request else None


def _prepare(request: CandidateRequest) -> _Statement:
    statement = candidates_statement(request)
    values = {
        **statement.parameters,
        "depth": request.depth,
        "few": request.few,
        "prefixes": _NO_TEXTS,
        **words_values(request),
        "enough": request.least_depth,
        **walk_values(request),
        **likely_values(request.likely),
    }
    prepared = _Statement(
        request=request,
        text=statement.text,
        values={name: value for name, value in values.items() if f"%({name})s" in statement.text},
        settings=settings(request),
        # The plan for a small collection is replaced once the collection has four times the items.
        keep=request.documents.bit_length() // 2,
        needs_question_only=request.signal_weights is None and _BY_QUESTION.issuperset(request.legs),
    )
    if is_small(request.condition):
        if len(_STATEMENTS) >= _MOST_STATEMENTS:
            _STATEMENTS.clear()
        _STATEMENTS[id(request)] = prepared
    return prepared


def bound(request: CandidateRequest, query: Query) -> Compiled:
    """The request's statement with the query's values."""
    return (_cached(request) or _prepare(request)).bind(query)


def _values(request: CandidateRequest, query: Query) -> dict[str, Any]:
    """The values for legs that depend on more than words and vector."""
    entities = tuple(dict.fromkeys(query.entities))
    values = {
        "entity_types": [kind for kind, _ in entities],
        "entity_ids": [entity_id for _, entity_id in entities],
        "as_of": query.as_of,
        "now": query.now,
        "tags": list(query.tags),
    }
    if request.signal_weights is not None:
        values |= stored_signals.signal_values(request.signal_weights, entities=len(entities))
    return values


def settings(request: CandidateRequest) -> Mapping[str, str]:
    """The settings of the statement.

    Without a filter, or with one that facets answer, the plan depends on no value and is kept: planning would take as
    long as the search.
    """
    if (prepared := _cached(request)) is not None:
        return prepared.settings
    dense = dense_settings(request) if LegName.DENSE in request.legs else {}
    has_one_plan = request.condition is None or (
        _BY_QUESTION.issuperset(request.legs) and facet_clauses(request.condition, request.filterable) is not None
    )
    plan_cache = {"plan_cache_mode": "force_generic_plan"} if has_one_plan else {}
    return {**ordered_legs.ordered_settings(request), **dense, **plan_cache}


LEAST_MET = 4
"""The divisor of the effort: a walk of bits under a filter that meets fewer matches falls short."""


def leg_results_of(rows: Sequence[Row], request: CandidateRequest) -> LegResults:
    """The rankings of rows of (leg, item_id, score, …), among which are rows with the counts of the dense leg."""
    by_name: dict[str, list[Row]] = {}
    for name, group in groupby(rows, key=_NAME):  # mostly one group per leg
        by_name.setdefault(name, []).extend(group)
    if _MOVED in by_name:
        raise SpaceMovedError
    counts = {name: own[0][2] for name, own in by_name.items() if name not in _LEG_NAMES}
    bare = _BARE + request.with_vectors
    beside = {}
    if request.fields or request.with_items:
        beside = {row[1]: row[bare:] for name, own in by_name.items() if name in _LEG_NAMES for row in own}
    brought: dict[str, int] = {}
    rankings: dict[str, list[Candidate]] = {}
    unranked: dict[str, list[Candidate]] = {}
    for leg in request.legs:
        name = _NAME_OF[leg]
        own, looked_up = by_name.get(name, []), by_name.get(f"{name}{LOOKED_UP}", [])
        brought[name] = len(own)
        rankings[name] = _ranked(name, [*own, *looked_up] if request.ranks_both_scores else own)
        if looked_up and not request.ranks_both_scores:
            unranked[name] = _ranked(name, looked_up)
    has_walked = request.path is Path.APPROXIMATE and "compared" not in counts
    path = Path.NONE if LegName.DENSE not in request.legs else Path.APPROXIMATE if has_walked else Path.EXACT
    return LegResults(
        rankings=rankings,
        path=path,
        weighed=int(counts.get("compared", counts.get("walked", len(rankings.get(LegName.DENSE, ()))))),
        dropped_score=counts.get(stored_signals.DROPPED_SCORE),
        fell_short="too_few_found" in counts
        or (path is Path.APPROXIMATE and brought[LegName.DENSE] < min(request.depth, request.documents))
        or counts.get("met", math.inf) < request.effort / LEAST_MET,
        brought=brought if request.with_both_scores else {},
        rows=beside,
        likely=HitRows.of(by_name[LIKELY], item_id=_ITEM_COLUMN, columns=bare) if LIKELY in by_name else NO_ROWS,
        vectors=_vectors(by_name[_VECTOR]) if _VECTOR in by_name else NO_VECTORS,
        unranked=unranked,
    )


def _vectors(rows: Sequence[Row]) -> PoolVectors:
    if rows[0][_ITEM_COLUMN] is None:
        return NO_VECTORS
    return sent_vectors(json.loads(rows[0][_ITEM_COLUMN]), rows[0][_BARE])


def _ranked(leg: str, rows: list[Row]) -> list[Candidate]:
    """Rank by score, equal scores by item id, without a line of Python for each of the hundreds of rows."""
    rows.sort(key=_ITEM)
    rows.sort(key=_SCORE, reverse=True)  # a stable sort
    values = zip(repeat(leg), map(_ITEM, rows), count(1), map(_SCORE, rows), strict=False)
    return list(map(candidate_of, values))


_NAME, _ITEM, _SCORE = itemgetter(0), itemgetter(1), itemgetter(2)
_ITEM_COLUMN = 1
_BARE = 3
"""The number of columns of a row without further columns of its item."""
_MOVED = "moved"
"""The name, instead of a leg's, of a row that exists if the collection no longer uses the request's space."""
_VECTOR = "vector"
"""The name, instead of a leg's, of the row with the vectors of all candidates."""


def candidates_statement(request: CandidateRequest) -> Compiled:
    """The statement, which returns rows of (leg, item_id, score, then the vectors and the requested columns).

    ``bound`` adds the parameters of each search. The collection's number is a part of the text, for partial indexes and
    the planner's estimate of its size.
    """

    def compose(own: Filter | None) -> Any:
        return _legs(replace(request, condition=own))

    return _KEPT.of(request.shape(), request.condition, request.filterable, compose)


def _legs(request: CandidateRequest) -> Any:
    matches = matches_of(request)
    weighed_legs = stored_signals.STORED_SIGNAL_LEGS if request.signal_weights is not None else ()
    by_words = found_by_words(request) if matches is None else matches
    parts = [
        part
        for leg in request.legs
        if leg not in weighed_legs
        for part in (lexical_leg(request, by_words) if leg is LegName.LEXICAL else _LEGS[leg](request, matches))
    ]
    if request.signal_weights is not None:
        parts += stored_signals.stored_signal_legs(request, matches)
        legs = stored_signals.best_candidates(sa.union_all(*parts), request)
    else:
        legs = sa.union_all(*parts)
    if request.with_both_scores or request.with_vectors or request.likely is not None:
        legs = _looked_up(legs, request, by_words)
    rows = _beside(legs.subquery("brought"), request) if request.fields or request.with_items else legs
    return _or_moved(rows, request) if request.checks_space else rows


def _or_moved(rows: Any, request: CandidateRequest) -> Any:
    """The rows, and one more row if, in the same snapshot, the collection no longer uses the request's space.

    The query's vector is in the request's space, so without this row vectors of two spaces might be compared.
    """
    owner = collections.c
    candidates = rows.subquery("found")
    moved = sa.select(named(_MOVED), *(sa.null() for _ in list(candidates.c)[1:])).where(
        owner.collection_id == literal(request.collection_id), owner.space_id != literal(request.space_id)
    )
    return sa.union_all(sa.select(candidates), moved)


def _looked_up(
    legs: sa.CompoundSelect[Any], request: CandidateRequest, by_words: Matches | sa.CTE
) -> sa.CompoundSelect[Any]:
    """The legs' rows, and rows with the scores, vectors and columns that are looked up for their items.

    Scores: the dense or the lexical score of each item that only the other of these legs found. Vectors: one row with
    an additional column for all of them as bytes, which the client reads at once, and the item ids as JSON; with a row
    for each vector the client would wake up for every few. Columns: a row for each likely hit. ``by_words``: as in
    ``lexical_leg``.
    """
    brought = materialized(legs, "brought")
    leg, item_id, _ = brought.c

    def of(name: LegName) -> sa.Select[Any]:
        return sa.select(item_id).where(leg == quoted(name))

    by_words_alone = of(LegName.LEXICAL).except_(of(LegName.DENSE))
    looked_up = sa.select(item_id) if request.with_vectors else by_words_alone
    stored = materialized(stored_by_key(request, looked_up), "stored")
    parts = [sa.select(brought)]
    if request.with_both_scores:
        words = query_weights(request, "words_of_both", by_words if isinstance(by_words, sa.CTE) else None)
        weighed = weighed_by_key(request, of(LegName.DENSE).except_(of(LegName.LEXICAL)), words).subquery("weighed")
        parts += [
            sa.select(named(f"{LegName.DENSE}{LOOKED_UP}"), stored.c.item_id, stored.c.score).where(
                stored.c.item_id.in_(by_words_alone)
            ),
            sa.select(named(f"{LegName.LEXICAL}{LOOKED_UP}"), *weighed.c).where(weighed.c.score > 0),
        ]
    if request.likely is not None:
        scored = materialized(sa.union_all(*parts), "scored") if parts[1:] else brought
        parts = with_likely_hits(scored, request, request.likely)
    if request.with_vectors:
        parts = _with_vectors(parts, stored)
    return sa.union_all(*parts)


def _with_vectors(parts: Sequence[sa.Select[Any]], stored: sa.CTE) -> list[sa.Select[Any]]:
    """The parts, and one row with all vectors; theirs is the first column after the score."""

    def with_column(part: sa.Select[Any]) -> sa.Select[Any]:
        columns = list(part.selected_columns)
        return part.with_only_columns(*columns[:_BARE], none.label("vectors"), *columns[_BARE:])

    none: sa.ColumnElement[Any] = sa.literal_column("NULL::bytea")
    vectors = sa.select(
        named(_VECTOR),
        sa.cast(sa.func.json_agg(stored.c.item_id), sa.Text),
        sa.literal_column("0::double precision"),
        sa.func.string_agg(sa.func.halfvec_send(stored.c.vector), sa.literal_column("''::bytea")),
        *(sa.null() for _ in list(parts[0].selected_columns)[_BARE:]),
    )
    return [*map(with_column, parts), vectors]


def _beside(candidate: sa.Subquery, request: CandidateRequest) -> sa.Select[Any]:
    """The candidates with the requested columns of each item, looked up by its key.

    The limit prevents a join: the planner estimates 1,000 rows where a function returns the candidates, and would
    read the whole collection.
    """
    columns = [present_value(field) for field in request.fields]
    if request.with_items:
        columns += [items.c[name] for name in HIT_COLUMNS]
    item_id = candidate.c.item_id
    own = items.c.collection_id == literal(request.collection_id), items.c.item_id == item_id
    found = sa.select(*(column.label(f"beside_{index}") for index, column in enumerate(columns))).where(*own)
    row = found.limit(1).lateral("beside")
    return sa.select(*candidate.c, *row.c).select_from(candidate.outerjoin(row, sa.true()))
