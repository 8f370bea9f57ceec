"""The conditions for building, keeping and dropping an index, and the count of recall."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retrieval.adapters.store.search.indexes import AnnIndex, IndexForm, IndexStatus, all_parts, stem_of
from retrieval.domain.items.collection import IndexKind
from retrieval.services.indexes import (
    LARGE_ROWS,
    IndexOutcome,
    ef_construction,
    index_rows,
    parts_to_build,
    wanted_outcome,
)
from tests.support.facts import collection

MEASURED = AnnIndex(rows=1000, index_bytes=1_000_000)


def kind_of(form: IndexForm) -> IndexKind:
    """The setting of a collection whose index has that form."""
    return IndexKind.QUANTISED if form.is_quantised else IndexKind.AUTO


@pytest.mark.parametrize(
    ("documents", "index", "index_bytes", "outcome"),
    [
        # Without an index, the threshold is 1000.
        (0, None, 0, IndexOutcome.NOT_NEEDED),
        (500, None, 0, IndexOutcome.NOT_NEEDED),
        (999, None, 0, IndexOutcome.NOT_NEEDED),
        (1000, None, 0, IndexOutcome.BUILT),
        # With one, it stays down to half of that.
        (1000, MEASURED, 1_000_000, IndexOutcome.PRESENT),
        (999, MEASURED, 1_000_000, IndexOutcome.PRESENT),
        (501, MEASURED, 800_000, IndexOutcome.PRESENT),
        (499, MEASURED, 500_000, IndexOutcome.DROPPED),
        (0, MEASURED, 1_000_000, IndexOutcome.DROPPED),
        # It is measured again after the collection has doubled or halved, and rebuilt if its numbers were deleted.
        (1000, AnnIndex(), 1_000_000, IndexOutcome.REBUILT),
        (1999, MEASURED, 2_000_000, IndexOutcome.PRESENT),
        (2000, MEASURED, 2_000_000, IndexOutcome.MEASURED),
        (1000, AnnIndex(rows=2000, index_bytes=2_000_000), 1_000_000, IndexOutcome.MEASURED),
        (500, MEASURED, 500_000, IndexOutcome.MEASURED),
        # It is rebuilt when each row takes more than twice the bytes, whatever else is due.
        (1000, MEASURED, 2_000_000, IndexOutcome.PRESENT),
        (1000, MEASURED, 2_000_001, IndexOutcome.REBUILT),
        (2000, MEASURED, 4_000_001, IndexOutcome.REBUILT),
        (400, MEASURED, 9_000_000, IndexOutcome.DROPPED),
    ],
)
def test_the_index_follows_the_size_with_hysteresis(
    documents: int, index: AnnIndex | None, index_bytes: int, outcome: IndexOutcome
) -> None:
    """A collection that goes up and down around the threshold neither builds nor drops each time."""
    stored = collection(documents=documents)
    assert wanted_outcome(stored, 1000, index, index_bytes, is_there=index is not None) is outcome


@pytest.mark.parametrize(
    ("documents", "outcome"),
    [(1000, IndexOutcome.BUILT), (501, IndexOutcome.BUILT), (499, IndexOutcome.DROPPED)],
)
def test_an_invalid_index_is_built_again_or_removed(documents: int, outcome: IndexOutcome) -> None:
    """An invalid index costs writes without use."""
    assert wanted_outcome(collection(documents=documents), 1000, None, 0, is_there=True) is outcome


@pytest.mark.parametrize(
    ("form", "rows", "documents", "outcome"),
    [
        (IndexForm(), LARGE_ROWS - 1, LARGE_ROWS, IndexOutcome.REBUILT),
        (IndexForm(), LARGE_ROWS, LARGE_ROWS, IndexOutcome.PRESENT),
        (IndexForm(), LARGE_ROWS, LARGE_ROWS - 1, IndexOutcome.PRESENT),
        # Each part is a graph of its own.
        (IndexForm(parts=4), LARGE_ROWS - 1, LARGE_ROWS, IndexOutcome.PRESENT),
        (IndexForm(parts=4), 4 * LARGE_ROWS - 1, 4 * LARGE_ROWS, IndexOutcome.REBUILT),
        (IndexForm(is_quantised=True), LARGE_ROWS - 1, LARGE_ROWS, IndexOutcome.PRESENT),
    ],
)
def test_an_index_that_becomes_large_is_rebuilt_with_more_effort(
    form: IndexForm, rows: int, documents: int, outcome: IndexOutcome
) -> None:
    """Without it, walks of the grown graph would need many times the effort."""
    index = AnnIndex(rows=rows, index_bytes=1_000 * rows, is_quantised=form.is_quantised, parts=form.parts)
    stored = collection(documents=documents, index_kind=kind_of(form), parts=form.parts)
    assert wanted_outcome(stored, 1000, index, 1_000 * documents, is_there=True) is outcome


def test_a_large_or_quantised_index_is_built_with_more_effort() -> None:
    """A small full index is built faster, and finds as much."""
    small, large = (ef_construction(IndexForm(), rows) for rows in (LARGE_ROWS - 1, LARGE_ROWS))
    assert small < large == ef_construction(IndexForm(is_quantised=True), 1)


@pytest.mark.parametrize("is_quantised", [False, True])
def test_an_index_of_another_form_is_replaced_unless_it_goes_anyway(*, is_quantised: bool) -> None:
    """Measured or not, bloated or not."""
    for rows, index_bytes in ((1000, 1_000_000), (0, 0), (1000, 9_000_000)):
        index = AnnIndex(rows=rows, index_bytes=1_000_000, is_quantised=is_quantised)
        for form in (IndexForm(not is_quantised), IndexForm(is_quantised, parts=4), IndexForm(is_quantised)):
            stored = collection(documents=1000, index_kind=kind_of(form), parts=form.parts)
            outcome = wanted_outcome(stored, 1000, index, index_bytes, is_there=True)
            assert (outcome is IndexOutcome.REPLACED) == (form != IndexForm(is_quantised))
    small = collection(documents=1, parts=4)
    assert wanted_outcome(small, 1000, MEASURED, 1, is_there=True) is IndexOutcome.DROPPED


@pytest.mark.parametrize(("dimensions", "rows"), [(384, 3_582), (3072, 652), (1, 9_954), (4000, 508)])
def test_the_longer_the_vectors_the_fewer_make_an_index_worth_while(dimensions: int, rows: int) -> None:
    """1.5 ms of comparing, at 0.15 µs and 0.0007 µs a dimension."""
    assert index_rows(dimensions) == rows


@pytest.mark.parametrize(
    ("documents", "dimensions", "parts"),
    [(0, 384, 1), (919_000, 384, 1), (920_000, 384, 2), (5_000_000, 1536, 17), (10**9, 384, 64)],
)
def test_an_index_has_enough_parts_to_build_each_in_memory(documents: int, dimensions: int, parts: int) -> None:
    """1 GB, of two bytes a dimension and 400 of the graph for each item; 64 parts at most."""
    assert parts_to_build(documents, dimensions) == parts


def test_an_index_in_parts_has_a_name_for_each() -> None:
    """The names also show whether it is quantised; an undivided full index has the plain name."""
    assert IndexForm().names(4, 7) == ["embeddings_4_7_hnsw"]
    assert IndexForm(parts=2).names(4, 7) == ["embeddings_4_7_hnsw_1_of_2", "embeddings_4_7_hnsw_2_of_2"]
    assert IndexForm(is_quantised=True).names(4, 7) == ["embeddings_4_7_hnsw_bits"]
    assert IndexForm(is_quantised=True, parts=2).names(4, 7)[1] == "embeddings_4_7_hnsw_bits_2_of_2"


def test_an_index_in_parts_is_looked_at_as_one() -> None:
    """Its bytes add up; an invalid part makes it invalid, and with a missing part there is none."""
    names = IndexForm(parts=2).names(4, 7)
    existing = {name: IndexStatus(name=name, valid=True, bytes=20, rows=5) for name in names}
    whole = all_parts(names, existing)
    assert whole is not None
    assert (whole.bytes, whole.valid) == (40, True)
    broken = all_parts(names, {**existing, names[1]: replace(existing[names[1]], valid=False)})
    assert broken is not None
    assert not broken.valid
    assert all_parts(names, {names[0]: existing[names[0]]}) is None


@pytest.mark.parametrize("ending", ["", "_bits", "_2_of_4", "_bits_2_of_4", "_ccnew", "_bits_2_of_4_ccold1"])
def test_the_indexes_of_a_collection_are_known_by_the_beginning_of_their_names(ending: str) -> None:
    """This includes those of interrupted builds; other names do not match."""
    assert stem_of(f"embeddings_4_7_hnsw{ending}") == "embeddings_4_7_hnsw"
    assert stem_of("items_pkey") == "items_pkey"
