"""The dense leg: the nearest vectors, by comparing every matching one or by walking an HNSW index.

Under a filter the statement counts the matching items and chooses: if they are few, each is compared; if they are many,
the index is walked and its matching rows are kept. The other branch costs nothing, because its condition is a number
that was computed before, so its scan never starts.

A filter that facets answer is tested on the row of the vector. For any other filter the keys of the matching items are
collected from other tables, or each item that a walk returns is looked up there.

A quantised index orders rows by the number of bits that they share with the query. A walk reads several times the
requested rows, and ranks them by their vectors.

An index in parts consists of several indexes, and the hash of an item's key determines its part. All parts are walked
at once, and a merge append returns the nearest row of any part next, so that a walk has a single order again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from pgvector.sqlalchemy import BIT, HALFVEC
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.items.composed import Clause, facet_clauses, plain_facets, wanted_facets
from retrieval.adapters.store.search import statement_pieces as pieces
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.search.statement_pieces import Rows
from retrieval.adapters.store.tables import embeddings_table, literal
from retrieval.domain.search.hit import Path

MAX_EFFORT = 1000
"""The most that ``hnsw.ef_search`` may be."""

SPARE = 2
"""A filtered walk reads this many times the requested candidates, because it meets them only nearly in order."""

_SCANNED_PER_ROW, _LEAST_SCAN = 50, 20_000


def dense_leg(request: CandidateRequest, matches: pieces.Matches | None) -> list[Rows]:
    """Rows of ('dense', item_id, cosine similarity), and under a filter rows with the number of scored rows."""
    clauses = None if request.condition is None else facet_clauses(request.condition, request.filterable)
    if clauses is not None:
        return _by_facets(request, clauses)
    if request.path is not Path.APPROXIMATE:
        rows, _, table = _nearest(request)
        if matches is None:
            return [_all_of(_best(rows), "dense")]
        of_matches = rows.join(matches.keys, matches.keys.c.item_id == table.c.item_id)
        return [_all_of(_best(of_matches), "dense"), pieces.count_row("compared", matches.count)]
    if matches is None and request.is_quantised:
        return _walk_parts(request, _near(request), sa.true(), sa.true())
    if matches is None:
        walk = _nearest_by_index(request, pieces.DEPTH)
        return [pieces.rows_of("dense", pieces.materialized(walk, "dense"))]
    near = _near(request)
    return [
        *_walk_parts(request, near, sa.not_(matches.are_few), pieces.passes_filter(request, near.c.item_id)),
        _all_of(_nearest_of_few(request, matches), "dense_of_few"),
        pieces.count_row("compared", matches.count, matches.are_few),
    ]


def stored_by_key(request: CandidateRequest, ids: sa.Select[Any] | sa.CompoundSelect[Any]) -> Rows:
    """Rows of (item_id, then cosine similarity and vector, if requested) of the items, by one scan of keys."""
    rows, _, table = _nearest(request)
    columns: list[sa.ColumnElement[Any]] = [table.c.item_id]
    if request.with_both_scores:
        columns.append(rows.selected_columns.score)
    if request.with_vectors:
        columns.append(table.c.vector)
    any_id = sa.func.any(sa.func.array(ids.scalar_subquery()))
    return rows.with_only_columns(*columns).where(table.c.item_id == any_id)


def walk_values(request: CandidateRequest) -> dict[str, int]:
    """The most rows that a walk reads, and the most of them that are ranked.

    Rows of a quantised index are only roughly in order: to include the nearest, as many as the effort are ranked.
    """
    kept = SPARE * request.depth
    if not request.is_quantised:
        return {"reach": request.reach, "kept": kept}
    return {"reach": max(request.reach, request.effort, request.depth), "kept": max(kept, request.effort)}


def dense_settings(request: CandidateRequest) -> Mapping[str, str]:
    """The settings of a walk.

    Sorting is off so that the planner uses the index, even if it takes a grown collection for a small one until the
    table is analyzed again. A plan that sorts all the same would look expensive enough to be compiled (jit).
    """
    if request.path is not Path.APPROXIMATE:
        return {}
    least = request.depth if request.parts == 1 else least_effort(request)
    settings = {
        "hnsw.ef_search": str(min(max(request.effort, least), MAX_EFFORT)),
        "hnsw.iterative_scan": "relaxed_order",
        "enable_sort": "off",
        "jit": "off",
    }
    if request.condition is not None:
        # The setting counts every vector that the graph search visits; reach limits the rows that it returns.
        settings["hnsw.max_scan_tuples"] = str(max(_SCANNED_PER_ROW * walk_values(request)["reach"], _LEAST_SCAN))
    return settings


def least_effort(request: CandidateRequest) -> int:
    """The least effort of a walk: its depth, or each part's share of the depth if the index is in parts."""
    return request.depth if request.is_quantised else math.ceil(request.depth / request.parts)


def _by_facets(request: CandidateRequest, clauses: Sequence[Clause]) -> list[Rows]:
    """Compare all matching vectors, unless certainly too many match; if too many match, walk the index."""
    near = _near(request)
    has_facets: sa.ColumnElement[bool] = sa.true()
    if request.path is Path.APPROXIMATE:
        wanted = (sa.cast(clause.wanted(request.collection_id), ARRAY(sa.Uuid)) for clause in clauses)
        has_facets = sa.and_(*(near.c.facets.op("&&", is_comparison=True)(facets) for facets in wanted))
        if request.surely_walks:
            return _walk_parts(request, near, sa.true(), has_facets)
    rows = _nearest_by_facets(request, clauses).table_valued("item_id", "score", name="nearest")
    compared = pieces.materialized(sa.select(rows.c.item_id, rows.c.score), "compared_by_facets")
    item_id, score = compared.c
    found = [
        pieces.rows_of("dense", compared).where(item_id.is_not(None)),
        pieces.count_row("compared", score, item_id.is_(None)),
    ]
    if request.path is Path.APPROXIMATE:
        has_none = sa.not_(sa.exists(sa.select(sa.literal_column("1")).select_from(compared)))
        found += _walk_parts(request, near, has_none, has_facets)
    return found


def _nearest_by_facets(request: CandidateRequest, clauses: Sequence[Clause]) -> sa.FunctionElement[Any]:
    """The call that returns no row if more than ``few`` items match and an index may be walked."""
    collection, query = literal(request.collection_id), pieces.parameter("vector")
    few = pieces.FEW if request.path is Path.APPROXIMATE else sa.cast(sa.null(), sa.BigInteger)
    if plain := plain_facets(clauses, request.collection_id):
        name = f"nearest_in_embeddings_{int(request.space_id)}"
        return sa.Function(name, collection, query, *plain, few, pieces.DEPTH)
    wanted = wanted_facets(clauses, request.collection_id)
    return sa.func.nearest_with_clauses(collection, literal(request.space_id), query, wanted, few, pieces.DEPTH)


def _walk_parts(
    request: CandidateRequest, near: sa.Subquery, only_if: sa.ColumnElement[bool], matches: sa.ColumnElement[bool]
) -> list[Rows]:
    """The best matching rows of a walk, and the number of rows that it read.

    Bits order rows far from the query only roughly. Under a filter for such rows, the matches that a walk meets need
    not be the nearest, so their number is returned too.
    """
    kept = sa.select(near.c.item_id, near.c.score, near.c.place).where(only_if, matches)
    met = pieces.materialized(kept.limit(pieces.parameter("kept", sa.BigInteger)), "walk")
    best = pieces.rows_of("dense", met).order_by(met.c.score.desc(), met.c.item_id)
    walked = sa.select(sa.func.coalesce(sa.func.max(met.c.place), 0)).scalar_subquery()
    found = [_all_of(best.limit(pieces.DEPTH), "dense_of_walk"), pieces.count_row("walked", walked, only_if)]
    if request.is_quantised and request.condition is not None:
        found.append(pieces.count_row("met", pieces.count_of(met), only_if))
    return found


def _all_of(statement: Rows, name: str) -> Rows:
    return sa.select(pieces.materialized(statement, name))


def _nearest(request: CandidateRequest) -> tuple[Rows, sa.ColumnElement[float], sa.FromClause]:
    """Rows of (item_id, score) in no order; the distance to order by, and the table."""
    table = embeddings_table(request.space_id, request.dimensions)
    # The negative inner product of unit vectors is the negative cosine similarity.
    distance = table.c.vector.op("<#>", return_type=sa.Float())(pieces.parameter("vector"))
    rows = sa.select(table.c.item_id, (-distance).label("score"))
    return rows.where(table.c.collection_id == literal(request.collection_id)), distance, table


def _nearest_of_few(request: CandidateRequest, matches: pieces.Matches) -> Rows:
    """Look up the matches' vectors by their keys in one scan, however many the planner expects.

    If the matches are not few, the array is empty, and so is the scan.
    """
    rows, _, table = _nearest(request)
    keys = sa.select(matches.keys.c.item_id).where(matches.are_few).scalar_subquery()
    return _best(rows.where(table.c.item_id == sa.func.any(sa.func.array(keys))))


def _best(rows: Rows) -> Rows:
    """The nearest of the rows, in the order of the score, for which the planner cannot use the HNSW index."""
    item_id, score = rows.selected_columns
    named_rows = rows.with_only_columns(pieces.named("dense"), item_id, score)
    return named_rows.order_by(score.desc(), item_id).limit(pieces.DEPTH)


def _nearest_by_index(request: CandidateRequest, limit: sa.ColumnElement[int], *columns: sa.ColumnElement[Any]) -> Rows:
    """Rows of (item_id, score, then the columns of the vectors' table)."""
    rows, distance, table = _nearest(request)
    rows = rows.add_columns(*columns)
    if request.is_quantised:
        # A subquery, so that the bits of the query are computed once and not for each row.
        query_bits = sa.select(_bits(sa.cast(pieces.parameter("vector"), HALFVEC), request)).scalar_subquery()
        distance = _bits(table.c.vector, request).op("<~>", return_type=sa.Float())(query_bits)
    # An HNSW index can order by the bare operator only.
    if request.parts == 1:
        return rows.order_by(distance).limit(limit)
    within = rows.add_columns(distance.label("distance")).order_by(distance)
    walks = [within.where(sa.text(is_of_part(part, request.parts))) for part in range(1, request.parts + 1)]
    *selected, nearest = sa.union_all(*(walk.subquery().select() for walk in walks)).subquery("parts").c
    return sa.select(*selected).order_by(nearest).limit(limit)


def is_of_part(part: int, number: int) -> str:
    """The SQL condition of a part, from 1 to ``number``, by the hash of an item's key; also the text in the index."""
    return f"(hashtextextended(item_id, 0) & 9223372036854775807) % {int(number)} = {int(part) - 1}"


def _bits(vector: sa.ColumnElement[Any], request: CandidateRequest) -> sa.ColumnElement[Any]:
    """One bit per dimension, as in ``hnsw_definition``."""
    return sa.cast(sa.func.binary_quantize(vector), BIT(request.dimensions))


def _near(request: CandidateRequest) -> sa.Subquery:
    """The rows of a walk, at most ``reach``, each with its facets and its place."""
    table = embeddings_table(request.space_id, request.dimensions)
    near = _nearest_by_index(request, pieces.REACH, table.c.facets).subquery("near")
    return sa.select(*near.c, sa.func.row_number().over().label("place")).subquery("placed")
