"""The one statement of a search: its parts, its cache, and the ranking of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retrieval.adapters.store.items.composed import facet
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.search.candidates import candidates_statement, leg_results_of, settings
from retrieval.adapters.store.search.dense_leg import walk_values
from retrieval.adapters.store.search.lexical_leg import words_values
from retrieval.domain.search.filters import parse_where
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName

BOTH = (LegName.DENSE, LegName.LEXICAL)
REQUEST = CandidateRequest(collection_id=42, legs=BOTH, depth=100, space_id=7, dimensions=3)


def parameters_of(where: dict[str, Any]) -> list[Any]:
    """The parameters of a filter's statement."""
    return list(candidates_statement(replace(REQUEST, condition=parse_where(where))).parameters.values())


def test_the_collections_number_stands_in_the_text() -> None:
    """The planner uses a partial index only if it knows the number."""
    text = candidates_statement(REQUEST).text
    assert "embeddings_7.collection_id = 42" in text
    assert "lexical_search(42, " in text


def test_a_walk_of_bits_brings_as_many_rows_as_its_effort_and_ranks_them_all() -> None:
    """A full index is walked as far as was planned, and twice the requested rows are ranked."""
    request = replace(REQUEST, legs=(LegName.DENSE,), path=Path.APPROXIMATE, depth=10, effort=90, reach=0)
    bits = replace(request, is_quantised=True)
    assert walk_values(request) == {"reach": 0, "kept": 20}
    assert walk_values(bits) == {"reach": 90, "kept": 90}
    assert walk_values(replace(bits, reach=400, depth=100)) == {"reach": 400, "kept": 200}
    assert walk_values(replace(bits, depth=100)) == {"reach": 100, "kept": 200}
    text = candidates_statement(bits).text
    assert text.count("<~>") == 1
    assert "binary_quantize(embeddings_7.vector) AS BIT(" in text
    assert "<~>" not in candidates_statement(request).text
    assert "<~>" not in candidates_statement(replace(bits, path=Path.EXACT)).text


def test_a_walk_of_parts_is_one_of_each_with_the_effort_that_each_needs() -> None:
    """Each part contributes equally if the parts are similar; exact searches do not depend on parts."""
    whole = replace(REQUEST, legs=(LegName.DENSE,), path=Path.APPROXIMATE, depth=100, effort=30)
    parts = replace(whole, parts=4)
    text = candidates_statement(parts).text
    for part in range(4):
        assert text.count(f"(hashtextextended(item_id, 0) & 9223372036854775807) %% 4 = {part}") == 1
    assert "hashtextextended" not in candidates_statement(whole).text
    assert "hashtextextended" not in candidates_statement(replace(parts, path=Path.EXACT)).text
    efforts = [settings(request)["hnsw.ef_search"] for request in (whole, parts, replace(parts, effort=40))]
    assert efforts == ["100", "30", "40"]
    assert settings(replace(parts, is_quantised=True))["hnsw.ef_search"] == "100"


def test_true_and_one_are_different_filters() -> None:
    """Python considers them equal; the cached statement of one is not used for the other."""
    for value in (True, 1, 1.5, True):
        assert f"{{{facet(42, '.flag', value)}}}" in parameters_of({"flag": value})
    assert parameters_of({"flag": True}) != parameters_of({"flag": 1})


def test_a_statement_is_composed_once_for_requests_that_are_alike() -> None:
    """Composing costs more than running; filters with different values have the same shape."""
    assert candidates_statement(REQUEST) is candidates_statement(replace(REQUEST, depth=7))
    first, second = (replace(REQUEST, condition=parse_where({"hours": {"gte": value}})) for value in (1, 2))
    assert candidates_statement(first).text is candidates_statement(second).text
    assert candidates_statement(first).parameters != candidates_statement(second).parameters


def test_the_exact_path_cannot_be_served_by_the_index() -> None:
    """An index orders by the bare operator only; the exact path orders by something else, with ties broken."""
    dense = replace(REQUEST, legs=(LegName.DENSE,))
    order = {
        path: candidates_statement(replace(dense, path=path))
        .text.partition("ORDER BY")[2]
        .partition("LIMIT")[0]
        .strip()
        for path in (Path.EXACT, Path.APPROXIMATE)
    }
    assert order == {
        Path.EXACT: "score DESC, embeddings_7.item_id",
        Path.APPROXIMATE: "embeddings_7.vector <#> %(vector)s",
    }


def test_a_filter_is_evaluated_once_for_all_legs() -> None:
    """Both legs read the same keys, if the vector's row does not suffice."""
    text = candidates_statement(replace(REQUEST, condition=parse_where({"source": "mail"}))).text
    assert text.count("FROM items") == 1
    assert text.count("matching AS MATERIALIZED") == 1
    assert "JOIN matching" in text
    assert "item_terms.item_id = any(array((SELECT matching.item_id" in text
    assert "lexical_search" not in text


@pytest.mark.parametrize(("depth", "effort", "set_to"), [(10, 40, "40"), (100, 40, "100"), (1000, 2000, "1000")])
def test_a_walk_looks_at_no_less_than_it_returns(depth: int, effort: int, set_to: str) -> None:
    """The search effort is at least the depth, at most what pgvector allows, and the scan goes on till it is full."""
    session_settings = settings(replace(REQUEST, path=Path.APPROXIMATE, depth=depth, effort=effort))
    assert session_settings["hnsw.ef_search"] == set_to
    assert session_settings["hnsw.iterative_scan"] == "relaxed_order"


@pytest.mark.parametrize("path", [Path.EXACT, Path.NONE])
def test_any_other_search_is_planned_freely_and_once(path: Path) -> None:
    """If no index is forced, the planner decides; with a filter it sees the values each time."""
    assert settings(replace(REQUEST, path=path)) == {"plan_cache_mode": "force_generic_plan"}
    assert settings(replace(REQUEST, path=path, condition=parse_where({"hours": {"gte": 1}}))) == {}


def test_rows_become_rankings_by_leg() -> None:
    """Higher scores first, ties by key, and a leg that found nothing has an empty ranking."""
    rows = [("dense", "b", 0.5), ("dense", "a", 0.5), ("dense", "c", 0.9)]
    rankings = leg_results_of(rows, REQUEST).rankings
    assert [(candidate.item_id, candidate.rank) for candidate in rankings["dense"]] == [("c", 1), ("a", 2), ("b", 3)]
    assert rankings["lexical"] == []


def test_a_walk_looks_each_row_up_by_its_key_alone() -> None:
    """The filter is evaluated on the found row: a filter with thousands of keys causes no lookups of them."""
    where = parse_where({"item_id": ["a", "b"], "kind": "bug"})
    walk = replace(REQUEST, legs=(LegName.DENSE,), condition=where, path=Path.APPROXIMATE)
    words = " ".join(candidates_statement(walk).text.split())
    assert "FROM items WHERE items.collection_id = 42 AND items.item_id = placed.item_id LIMIT" in words
    assert "AS met WHERE met.item_id = any(" in words
    assert words.count("FROM embeddings_7") == 2


@pytest.mark.parametrize("path", [Path.EXACT, Path.APPROXIMATE])
def test_a_filter_by_facets_looks_up_no_item(path: Path) -> None:
    """Neither way gathers keys or looks up items; the statement has no general way at all."""
    where = parse_where({"colour": ["red", "blue"], "tags": {"all": ["x", "y"]}, "kind": "bug"})
    dense = replace(REQUEST, legs=(LegName.DENSE,), condition=where, path=path)
    text = candidates_statement(dense).text
    assert "FROM items" not in text
    assert "nearest_in_embeddings_7(42, " in text
    assert text.count("placed.facets && ") == (4 if path is Path.APPROXIMATE else 0)


def test_the_matches_of_all_facets_are_found_by_one_call() -> None:
    """One scan of the index intersects them; the other conditions are checked on the items that it finds."""
    where = parse_where({"colour": ["red", "blue"], "size": 3, "tags": "x", "item_id": {"nin": ["a"]}})
    text = candidates_statement(replace(REQUEST, legs=(LegName.LEXICAL,), condition=where, path=Path.APPROXIMATE)).text
    assert text.count("items_with_facets(42, ") == 1
    assert "item_tags" not in text


@pytest.mark.parametrize(("share", "first"), [(0.0, 40), (0.9, 40), (0.25, 60), (0.1, 150), (0.05, 200), (0.001, 200)])
def test_so_many_items_are_found_by_words_that_enough_are_expected_to_match(share: float, first: int) -> None:
    """With a margin of a half, between four and twenty times the wanted ones; of an unknown share four times."""
    request = replace(REQUEST, depth=10, share=share)
    assert words_values(request) == {"found_first": first, "found_more": 200}


def test_a_walk_without_a_filter_weighs_the_rows_that_it_brings() -> None:
    """With a filter, the account has the number; an index that returns too few rows fell short."""
    walk = replace(REQUEST, legs=(LegName.DENSE,), path=Path.APPROXIMATE, depth=2, documents=9)
    rows = [("dense", "a", 0.9), ("dense", "b", 0.5)]
    assert (leg_results_of(rows, walk).weighed, leg_results_of(rows, walk).fell_short) == (2, False)
    assert leg_results_of(rows[:1], walk).fell_short
    assert leg_results_of([*rows, ("walked", "", 7.0)], walk).weighed == 7
    compared = leg_results_of([*rows, ("compared", "", 4.0)], walk)
    assert (compared.weighed, compared.path) == (4, Path.EXACT)
