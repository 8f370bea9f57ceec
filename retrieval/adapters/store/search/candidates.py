"""The one statement of a search: every leg's candidates, in one round trip and one snapshot.

What the legs share is told here; the module of each says how it finds its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, groupby, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import sqlalchemy as sa

from retrieval.adapters.aside import LONG, MANY_CONDITIONS, aside
from retrieval.adapters.store.arrays import half_vector, texts
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.composed import StatementCache, facet_clauses
from retrieval.adapters.store.items.conditions import HIT_COLUMNS, field_value
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.dense_leg import dense_leg, dense_settings, stored_by_key, walk_values
from retrieval.adapters.store.search.lexical_leg import found_by_words, lexical_leg, query_weights, weighed_by_key
from retrieval.adapters.store.search.ordered_legs import (
    linked_leg,
    ordered_settings,
    popular_leg,
    recent_leg,
    relevant_leg,
)
from retrieval.adapters.store.search.standing import LEFT_OUT, STANDING_LEGS, sifted, standing_legs, standing_values
from retrieval.adapters.store.search.statement_parts import Matches, literal, matches_of, materialized, named
from retrieval.adapters.store.search.tag_and_rating_legs import rated_leg, tag_values, tagged_leg
from retrieval.adapters.store.tables import collections, items
from retrieval.domain.search.diversity import NO_VECTORS, PoolVectors
from retrieval.domain.search.filters import Filter, extent, is_small
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName

_NAME_OF = {leg: leg.value for leg in LegName}
_LEG_NAMES = frozenset(_NAME_OF.values())
_LEGS = {
    LegName.DENSE: dense_leg,
    LegName.RECENT: recent_leg,
    LegName.POPULAR: popular_leg,
    LegName.RELEVANT: relevant_leg,
    LegName.LINKED: linked_leg,
    LegName.TAGGED: tagged_leg,
    LegName.RATED: rated_leg,
}
_BY_QUESTION = frozenset({LegName.DENSE, LegName.LEXICAL})
"""The legs that go by the words and the vector of the question alone."""

_EVERY = 2**62
"""More matching items than there can be."""

_KEPT = StatementCache()


class SpaceMovedError(Exception):
    """Searches of the collection use another embedding space by now than the request is for: read it anew."""


@dataclass(frozen=True, slots=True)
class Found:
    """The candidates of the legs."""

    rankings: dict[str, list[Candidate]]
    """Candidates by leg, best first; equal scores are ordered by item id."""
    path: Path
    """The path that the dense leg took in the end."""
    weighed: int
    """Rows that the dense leg weighed: vectors that it compared, or that the index brought."""
    fell_short: bool = False
    """Whether an index returned too few items, so that every matching item was looked up."""
    left_out: float | None = None
    """The most that a candidate which did not stay can score; None: all stayed."""
    brought: Mapping[str, int] = field(default_factory=dict)
    """The number of candidates by leg, where some of them are gone or expired by now."""
    rows: dict[str, Row] = field(default_factory=dict)
    """The requested columns by item id: the fields, then the columns of a hit."""
    vectors: PoolVectors = NO_VECTORS
    """The vectors of the candidates that have one, where they were requested."""


async def find_candidates(database: Database, tenant_id: int, request: CandidateRequest, query: Query) -> Found:
    """Each leg's candidates for one query."""
    return (await find_candidates_of_each(database, tenant_id, request, [query]))[0]


async def find_candidates_of_each(
    database: Database, tenant_id: int, request: CandidateRequest, queries: Sequence[Query]
) -> list[Found]:
    """Each query's candidates for one request, in one round trip.

    Those of which an index brought less than was asked for are looked for once more, among every matching item.
    Raises ``SpaceMovedError``.
    """
    each = await _find(database, tenant_id, request, queries)
    short = [place for place, answer in enumerate(each) if answer.fell_short]
    if short:
        exact = replace(request, path=Path.EXACT, few=_EVERY, reach=0)
        again = await _find(database, tenant_id, exact, [queries[place] for place in short])
        for place, answer in zip(short, again, strict=True):
            each[place] = replace(answer, fell_short=True, weighed=each[place].weighed + answer.weighed)
    return each


async def _find(database: Database, tenant_id: int, request: CandidateRequest, queries: Sequence[Query]) -> list[Found]:
    ready = _kept(request)
    if ready is None:
        ready = await aside(partial(_made_ready, request), is_long=_is_large(request.condition))
    answers = await database.read_each(tenant_id, [ready.bound(query) for query in queries], ready.settings)
    if len(answers) == 1 and len(answers[0]) < LONG:
        return [found(answers[0], request)]
    if sum(map(len, answers)) < LONG:
        return [found(rows, request) for rows in answers]
    return await aside(lambda: [found(rows, request) for rows in answers], is_long=True)


def _is_large(condition: Filter | None) -> bool:
    if condition is None:
        return False
    conditions, values = extent(condition)
    return conditions >= MANY_CONDITIONS or values >= LONG


@dataclass(frozen=True, slots=True)
class _Ready:
    """A request's statement, to which a query's values are still to come."""

    request: CandidateRequest
    text: str
    values: Mapping[str, Any]
    """Those of the request; the filter's are the same objects in the statements of all queries."""
    settings: Mapping[str, str]
    keep: int
    goes_by_question: bool
    """Whether only the words and the vector of a query matter."""

    def bound(self, query: Query) -> Compiled:
        """The statement with the query's values."""
        values = {
            **self.values,
            "query": query.words,
            "prefixes": texts(query.prefixes) if query.prefixes else _NO_TEXTS,
        }
        if query.vector is not None:
            values["vector"] = half_vector(query.vector)
        if not self.goes_by_question:
            values |= _values(self.request, query)
        return Compiled(self.text, values, self.keep)


_NO_TEXTS = texts(())

_MOST_READY = 1000
_READY: dict[int, _Ready] = {}
"""Prepared statements by the ``id`` of their request, which they hold: a collection's plans reuse their requests."""


def _kept(request: CandidateRequest) -> _Ready | None:
    known = _READY.get(id(request))
    return known if known is not None and known.request is request else None


def _made_ready(request: CandidateRequest) -> _Ready:
    statement = candidates_statement(request)
    values = {
        **statement.parameters,
        "depth": request.depth,
        "few": request.few,
        "enough": request.depth if request.enough is None else request.enough,
        **walk_values(request),
    }
    made = _Ready(
        request=request,
        text=statement.text,
        values=values,
        settings=settings(request),
        # A plan that was made for a small collection does not serve it once it has four times the items.
        keep=request.documents.bit_length() // 2,
        goes_by_question=request.standing is None and _BY_QUESTION.issuperset(request.legs),
    )
    if is_small(request.condition):
        if len(_READY) >= _MOST_READY:
            _READY.clear()
        _READY[id(request)] = made
    return made


def bound(request: CandidateRequest, query: Query) -> Compiled:
    """The request's statement with the query's values."""
    return (_kept(request) or _made_ready(request)).bound(query)


def _values(request: CandidateRequest, query: Query) -> dict[str, Any]:
    """The values for legs that go by more than words and vector."""
    entities = tuple(dict.fromkeys(query.entities))
    values = {
        "entity_types": [kind for kind, _ in entities],
        "entity_ids": [entity_id for _, entity_id in entities],
        "as_of": query.as_of,
        "now": query.now,
        **tag_values(query.tags, request.depth),
    }
    if request.standing is not None:
        values |= standing_values(request.standing, entities=len(entities))
    return values


def settings(request: CandidateRequest) -> Mapping[str, str]:
    """The settings that the statement runs under.

    Without a filter no value changes the plan, nor where facets answer it: to plan each time would take as long as to
    search.
    """
    if (known := _kept(request)) is not None:
        return known.settings
    dense = dense_settings(request) if LegName.DENSE in request.legs else {}
    planned_once = {"plan_cache_mode": "force_generic_plan"} if _has_one_plan(request) else {}
    return {**ordered_settings(request), **dense, **planned_once}


def _has_one_plan(request: CandidateRequest) -> bool:
    if request.condition is None:
        return True
    return request.legs == (LegName.DENSE,) and facet_clauses(request.condition, request.filterable) is not None


LEAST_MET = 4
"""The part of its effort that a walk of bits under a filter must meet; with fewer, all matches are compared."""


def found(rows: Sequence[Row], request: CandidateRequest) -> Found:
    """Rows of (leg, item_id, score, …) as rankings; the dense leg's account comes as rows of their own."""
    by_name: dict[str, list[Row]] = {}
    for name, some in groupby(rows, key=_NAME):  # those of a leg stand together, mostly
        by_name.setdefault(name, []).extend(some)
    if _MOVED in by_name:
        raise SpaceMovedError
    account = {name: some[0][2] for name, some in by_name.items() if name not in _LEG_NAMES}
    beside = _beside_each(by_name, request) if request.fields or request.with_items else {}
    brought: dict[str, int] = {}
    rankings: dict[str, list[Candidate]] = {}
    for leg in request.legs:
        name = _NAME_OF[leg]
        own = by_name.get(name, [])
        brought[name] = len(own)
        rankings[name] = _ranked(name, [*own, *by_name.get(f"{name}{_LOOKED_UP}", ())])
    path = _path(request, account)
    return Found(
        rankings=rankings,
        path=path,
        weighed=int(account.get("compared", account.get("walked", len(rankings.get(LegName.DENSE, ()))))),
        left_out=account.get(LEFT_OUT),
        fell_short="too_few_found" in account
        or (path is Path.APPROXIMATE and brought[LegName.DENSE] < min(request.depth, request.documents))
        or account.get("met", math.inf) < request.effort / LEAST_MET,
        brought=brought if request.with_both_scores else {},
        rows=beside,
        vectors=_vectors(by_name[_VECTOR]) if _VECTOR in by_name else NO_VECTORS,
    )


def _beside_each(by_name: Mapping[str, Sequence[Row]], request: CandidateRequest) -> dict[str, Row]:
    bare = _BARE + request.with_vectors
    return {row[1]: row[bare:] for name, rows in by_name.items() if name in _LEG_NAMES for row in rows}


def _vectors(rows: Sequence[Row]) -> PoolVectors:
    """Read the row with all vectors. PostgreSQL sends of each its dimensions, a spare number and its values."""
    if rows[0][_ITEM_PLACE] is None:
        return NO_VECTORS
    item_ids = json.loads(rows[0][_ITEM_PLACE])
    sent = np.frombuffer(rows[0][_BARE], dtype=">f2").reshape(len(item_ids), -1)
    return PoolVectors(sent[:, 2:].astype(np.float32), {item_id: place for place, item_id in enumerate(item_ids)})


def _ranked(leg: str, rows: list[Row]) -> list[Candidate]:
    """Rank by score, the best first, equal ones by item id. No line of Python runs for each of the hundreds of rows."""
    rows.sort(key=_ITEM)
    rows.sort(key=_SCORE, reverse=True)  # which leaves equal ones in their order
    values = zip(repeat(leg), map(_ITEM, rows), count(1), map(_SCORE, rows), strict=False)
    return list(map(_candidate, values))


_candidate: Callable[[tuple[Any, ...]], Candidate] = partial(tuple.__new__, Candidate)
_NAME, _ITEM, _SCORE = itemgetter(0), itemgetter(1), itemgetter(2)
_LOOKED_UP = "+"
"""Behind the name of a leg, of a row that another leg brought."""
_ITEM_PLACE = 1
_BARE = 3
"""Columns of a row that has nothing beside its candidate."""
_MOVED = "moved"
"""Stands for a leg's name in a row that says: the collection no longer uses the request's space."""
_VECTOR = "vector"
"""The leg's name in the row that holds the vectors of all candidates."""


def _path(request: CandidateRequest, account: Mapping[str, float]) -> Path:
    if LegName.DENSE not in request.legs:
        return Path.NONE
    return Path.APPROXIMATE if request.path is Path.APPROXIMATE and "compared" not in account else Path.EXACT


def candidates_statement(request: CandidateRequest) -> Compiled:
    """Rows of (leg, item_id, score, then the vector and what was asked for beside them).

    ``bound`` gives its parameters for each search. The collection's number stands in the text: partial indexes and the
    planner's idea of its size need it.
    """

    def compose(own: Filter | None) -> Any:
        return _legs(replace(request, condition=own))

    return _KEPT.of(request.shape(), request.condition, request.filterable, compose)


def _legs(request: CandidateRequest) -> Any:
    matches = matches_of(request)
    apart = STANDING_LEGS if request.standing is not None else ()
    by_words = found_by_words(request) if matches is None else matches
    parts = [
        part
        for leg in request.legs
        if leg not in apart
        for part in (lexical_leg(request, by_words) if leg is LegName.LEXICAL else _LEGS[leg](request, matches))
    ]
    if request.standing is not None:
        parts += standing_legs(request, matches)
        legs = sifted(sa.union_all(*parts), request)
    else:
        legs = sa.union_all(*parts)
    if request.with_both_scores or request.with_vectors:
        legs = _looked_up(legs, request, by_words)
    found = _beside(legs.subquery("brought"), request) if request.fields or request.with_items else legs
    return _or_moved(found, request) if request.checks_space else found


def _or_moved(rows: Any, request: CandidateRequest) -> Any:
    """The rows, and where the collection has left the request's space one that says so, of the same snapshot.

    The query's vector is of that space: so nobody compares vectors of two, however old what he read of the collection.
    """
    owner = collections.c
    found = rows.subquery("found")
    moved = sa.select(named(_MOVED), *(sa.null() for _ in list(found.c)[1:])).where(
        owner.collection_id == literal(request.collection_id),
        owner.space_id != sa.literal_column(str(int(request.space_id)), sa.BigInteger),
    )
    return sa.union_all(sa.select(found), moved)


def _looked_up(
    legs: sa.CompoundSelect[Any], request: CandidateRequest, by_words: Matches | sa.CTE
) -> sa.CompoundSelect[Any]:
    """The legs' rows, and what was looked up by key of the items among them: scores, vectors.

    Scores: those in the dense or the lexical leg of each item that the other one alone brought. Vectors: in a column
    more, a row with all of them, and the items' names as JSON. Of a row for each, the client would wake up for every
    few; as bytes they are read in one go, not number by number. ``by_words``: as ``lexical_leg`` takes it.
    """
    brought = materialized(legs, "brought")
    leg, item_id, _ = brought.c

    def of(name: LegName) -> sa.Select[Any]:
        return sa.select(item_id).where(leg == sa.literal_column(f"'{name}'"))

    by_words_alone = of(LegName.LEXICAL).except_(of(LegName.DENSE))
    found = sa.select(item_id) if request.with_vectors else by_words_alone
    stored = materialized(stored_by_key(request, found), "stored")
    parts = [sa.select(brought)]
    if request.with_both_scores:
        words = query_weights(request, "words_of_both", by_words if isinstance(by_words, sa.CTE) else None)
        weighed = weighed_by_key(request, of(LegName.DENSE).except_(of(LegName.LEXICAL)), words).subquery("weighed")
        parts += [
            sa.select(named(f"{LegName.DENSE}{_LOOKED_UP}"), stored.c.item_id, stored.c.score).where(
                stored.c.item_id.in_(by_words_alone)
            ),
            sa.select(named(f"{LegName.LEXICAL}{_LOOKED_UP}"), *weighed.c).where(weighed.c.score > 0),
        ]
    if not request.with_vectors:
        return sa.union_all(*parts)
    none: sa.ColumnElement[Any] = sa.literal_column("NULL::bytea")
    vectors = sa.select(
        named(_VECTOR),
        sa.cast(sa.func.json_agg(stored.c.item_id), sa.Text),
        sa.literal_column("0::double precision"),
        sa.func.string_agg(sa.func.halfvec_send(stored.c.vector), sa.literal_column("''::bytea")),
    )
    return sa.union_all(*(part.add_columns(none.label("vectors")) for part in parts), vectors)


def _beside(candidate: sa.Subquery, request: CandidateRequest) -> sa.Select[Any]:
    """The candidates with what is asked for beside each: one look-up by key a candidate.

    The limit keeps it one. Where a function brings the candidates, the planner takes them for 1,000 rows, whatever
    was asked for, and a join would read the whole collection.
    """
    columns = [field_value(field) for field in request.fields]
    if request.with_items:
        columns += [items.c[name] for name in HIT_COLUMNS]
    item_id = candidate.c.item_id
    row = (
        sa.select(*(column.label(f"beside_{place}") for place, column in enumerate(columns)))
        .where(items.c.collection_id == literal(request.collection_id), items.c.item_id == item_id)
        .limit(1)
        .lateral("beside")
    )
    return sa.select(*candidate.c, *row.c).select_from(candidate.outerjoin(row, sa.true()))
