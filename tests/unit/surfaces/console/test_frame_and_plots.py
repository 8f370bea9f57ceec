"""The HTML of the console's frame and plots, without a browser."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import htpy as h
import pytest
from starlette.datastructures import FormData
from starlette.requests import Request

from retrieval import Item, Platform
from retrieval.adapters.store.items.collection_facts import CollectionStatus
from retrieval.domain.api_key import EVERY_SCOPE, Caller
from retrieval.domain.errors import Advice, InvalidItemError
from retrieval.domain.search.filters import OneOf, parse_where
from retrieval.domain.search.profile import MAX_WEIGHT, Profile
from retrieval.surfaces.console import VIEWS, data, frame, operations, plots
from retrieval.surfaces.console.search import facets_of, filter_of, weighted, weights_of
from retrieval.surfaces.http.openapi import CONSOLE_FILES, FRONT_PATHS, SIGN_IN

STATIC = Path(frame.__file__).parent / "static"


def test_the_script_of_htmx_is_the_released_one() -> None:
    """Version 2.0.11, byte by byte, as released by its authors."""
    file = (STATIC / "htmx.min.js").read_bytes()

    assert b'version:"2.0.11"' in file
    assert hashlib.sha256(file).hexdigest() == "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"


def test_only_the_sign_in_and_the_files_need_no_key() -> None:
    """Every other route needs an authenticated caller."""
    opened = {path for path in FRONT_PATHS if path.startswith("/console")}

    assert opened == {SIGN_IN, *CONSOLE_FILES}
    assert {f"/console/static/{file.name}" for file in STATIC.iterdir()} == CONSOLE_FILES
    assert not {route.path for view in VIEWS for route in view.ROUTES} & opened


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("/console/data?collection=a", "/console/data?collection=a"),
        ("", "/console/search"),
        ("//evil.example", "/console/search"),
        ("https://evil.example/console/", "/console/search"),
        ("/console/../v1", "/console/../v1"),
        ("/console\\evil", "/console/search"),
        ("/v1/collections", "/console/search"),
    ],
)
def test_signing_in_leads_to_a_page_of_the_console(then: str, expected: str) -> None:
    """No address sends who signs in to another host."""
    assert frame._target(then) == expected  # noqa: SLF001 - what keeps a redirect at home


def test_a_bar_is_as_wide_as_its_parts() -> None:
    """The widths are shares of the whole, in the order of the parts; names are escaped."""
    svg = str(plots.stacked_bar({"dense": 0.3, "<b>": 0.1}, ["dense", "<b>"], whole=0.8))

    assert re.findall(r'width="([\d.]+)"', svg) == ["37.50", "12.50"]
    assert "<b>" not in svg


def test_a_part_below_zero_takes_its_width_from_the_others() -> None:
    """The unfaded parts are as wide as the sum."""
    svg = str(plots.stacked_bar({"learned": -0.1, "dense": 0.4}, ["learned", "dense"], whole=0.4))

    bars = re.findall(r'x="([\d.]+)"[^>]*width="([\d.]+)"[^>]*class="(\w+)"', svg)
    assert bars == [("0.00", "100.00", "c1"), ("75.00", "25.00", "fades")]


def test_repeated_names_are_made_distinct() -> None:
    """Two items of one title are two bars."""
    assert plots.distinct_names(["one", "two", "one"], ["a", "b", "c"]) == ["a: one", "two", "c: one"]


def test_a_line_of_many_points_is_drawn_with_few() -> None:
    """10,000 values do not become 10,000 elements, and missing ones leave gaps and no error."""
    values = [None if place % 7 == 0 else float(place) for place in range(10_000)]
    svg = str(plots.lines("many", [str(place) for place in range(10_000)], [plots.Series("one", values)]))

    assert len(svg) < 12_000
    assert len(str(plots.lines("none", [], [plots.Series("one", [])]))) < 3000


def test_a_text_in_sql_stays_one_text() -> None:
    """Quotes and backslashes end no literal."""
    assert plots.literal("o'clock") == "'o''clock'"
    assert plots.literal("a\\' OR true") == "E'a\\\\'' OR true'"


def test_a_leg_that_weighs_nothing_and_was_not_there_stays_away() -> None:
    """One that was there may weigh nothing; a profile's other parts stay as they are."""
    profile = Profile(legs={"dense": 1.0}, depth=70)

    assert weighted(profile, {"dense": 0.5, "lexical": 0.0}) == Profile(legs={"dense": 0.5}, depth=70)
    assert dict(weighted(profile, {"dense": 0.0, "lexical": 0.4}).legs) == {"dense": 0.0, "lexical": 0.4}


def test_every_weight_of_a_profile_has_a_slider() -> None:
    """Also the largest that a leg may have."""
    request = Request({"type": "http", "query_string": b"w.lexical=2", "headers": []})
    visit = frame.Visit(request, Caller("tenant", EVERY_SCOPE), cast(Platform, None))

    assert weights_of(visit, Profile(legs={"dense": MAX_WEIGHT})) == {"dense": MAX_WEIGHT, "lexical": 2.0}


def test_items_that_wait_for_a_vector_are_among_the_items() -> None:
    """The bar shows the share of those that have one."""
    status = CollectionStatus(
        name="docs", items=3, space="hashing", pending=2, weights_pending=False, indexes=(), runs=(), recall=(),
        unrecorded={},
    )  # fmt: skip

    assert 'progress value="1" max="3"' in str(h.fragment[operations._pending(status)])  # noqa: SLF001 - the bar alone


def test_ticked_values_and_a_typed_filter_both_hold() -> None:
    """Each alone is used as it is."""
    request = Request({"type": "http", "query_string": b"", "headers": []})

    def filter_for(**form: str) -> object:
        visit = frame.Visit(request, Caller("tenant", EVERY_SCOPE), cast(Platform, None), FormData(form))
        return filter_of(visit, ["kind"])

    ticked, typed = {"kind": ["note"]}, {"priority": "High"}
    assert filter_for(**{"f.kind": "note"}) == ticked
    assert filter_for(where='{"priority": "High"}') == typed
    assert filter_for(**{"f.kind": "note", "where": '{"priority": "High"}'}) == {"and": [ticked, typed]}


async def test_an_attribute_of_any_name_can_be_ticked() -> None:
    """Also one that is called as a word of filters, or as a field of every item."""
    names = ["or", "and", "not", "status", "/a"]
    items = [Item(item_id=str(n), attributes=dict.fromkeys(names, f"v{n % 2}")) for n in range(4)]

    async def page(limit: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(item=item) for item in items[:limit]]

    collection: Any = SimpleNamespace(page=page)
    offered = await facets_of(collection)
    assert len(offered) == len(names)
    request = Request({"type": "http", "query_string": b"", "headers": []})
    for name in offered:
        form = FormData({f"f.{name}": "v1"})
        visit = frame.Visit(request, Caller("tenant", EVERY_SCOPE), cast(Platform, None), form)
        condition = parse_where(filter_of(visit, offered) or {})
        assert isinstance(condition, OneOf)
        assert condition.field.is_attribute
        assert condition.field.name in names
        assert condition.values == ("v1",)


def test_an_error_of_a_file_is_in_the_words_of_the_page() -> None:
    """It names the file as it was sent, and no option of the command line."""
    folder = tempfile.TemporaryDirectory()
    with folder:
        source = Path(folder.name) / "uploads" / "a.csv"
        batch = data.Upload("tenant", "notes", folder, source, is_table=True)
        error = InvalidItemError(f"{source}: 2 of 2 items have no text").advising(Advice.MAP_TEXT, name="words")
        message = data._message(batch, error)  # noqa: SLF001 - the text alone
    assert message == "a.csv: 2 of 2 items have no text; choose the column of the text"
