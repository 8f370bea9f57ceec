"""Filters of documents: names mean metadata, wherever a filter has them, and indexes still answer the common ones."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.search.filters import FIELDS, And, Exists, Field, Filter, Not, Or, parse_where
from retrieval.surfaces.langchain.metadata_filters import of_metadata

TEXTS = {name: {"array" if name == "tags" else "string"} for name in FIELDS} | {"page": {"number"}}
"""Metadata of all names, which also set the fields that are texts, or lists of texts."""


def either(name: str, value: Any) -> Filter:
    """The condition on the metadata, else on the field."""
    has_metadata = Exists(Field(name, is_attribute=True))
    in_metadata, in_field = parse_where({f"attributes.{name}": value}), parse_where({name: value})
    assert in_metadata is not None
    assert in_field is not None
    return Or((And((has_metadata, in_metadata)), And((Not(has_metadata), in_field))))


@pytest.mark.parametrize(
    "where",
    [
        None,
        {},
        {"page": {"gte": 3}},
        {"source": "a.md"},
        {"kind": {"in": ["a", "b"]}},
        {"tags": {"all": ["a", "b"]}},
        {"status": {"ne": "open"}},
        {"verdict_count": {"gte": 2}},
        {"attributes.status": "active"},
        {"or": [{"page": 1}, {"not": {"source": ["a", "b"]}}]},
        {"and": [{}, {"page": 1}]},
    ],
)
def test_filters_that_a_field_or_an_attribute_answers_alone_stay(where: Any) -> None:
    """An index answers them."""
    assert of_metadata(where, TEXTS) == parse_where(where)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "active"),
        ("status", ["archived", "open"]),
        ("status", None),
        ("source", ""),
        ("source", "s" * 600),
        ("kind", {"exists": False}),
        ("created_at", {"lt": "2020-01-01"}),
        ("item_id", "SKU-1"),
        ("links", "person:ann"),
    ],
)
def test_a_document_s_metadata_go_before_its_field(name: str, value: Any) -> None:
    """At every level of a filter."""
    assert of_metadata({name: value}, TEXTS) == either(name, value)
    assert of_metadata({"not": {"or": [{name: value}, {"page": 1}]}}, TEXTS) == Not(
        Or((either(name, value), parse_where({"page": 1}) or And(())))
    )


@pytest.mark.parametrize("where", [{"status": 5}, {"source": {"is": ["a"]}}, {"created_at": {"gt": "yesterday"}}])
def test_what_no_field_can_be_is_about_the_metadata_alone(where: dict[str, Any]) -> None:
    """A creation time may be anything in metadata."""
    [(name, value)] = where.items()
    assert of_metadata(where, TEXTS) == parse_where({f"attributes.{name}": value})


@pytest.mark.parametrize("where", [{"status": {}}, {"or": "a"}, {"$and": []}, {"status": {"$eq": 1}}, 5])
def test_what_is_no_filter_is_refused_as_by_a_search(where: Any) -> None:
    """With the same words, for the name that the caller gave."""
    with pytest.raises(InvalidFilterError) as expected:
        parse_where(where)
    with pytest.raises(InvalidFilterError) as refused:
        of_metadata(where, TEXTS)
    assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("source", {"string", "array"}), ("status", {"array"}), ("kind", {"number"}), ("tags", {"string"})],
)
def test_metadata_that_do_not_set_the_field_are_asked(name: str, kinds: set[str]) -> None:
    """Also by a condition that the field could answer."""
    assert of_metadata({name: "a.md"}, {name: kinds}) == either(name, "a.md")
    assert of_metadata({name: {"ne": "a.md"}}, {name: kinds}) == either(name, {"ne": "a.md"})


def test_names_that_no_document_has_mean_fields() -> None:
    """A filter on metadata that no document has would be refused."""
    where = {"status": "active", "item_id": ["1", "2"]}
    assert of_metadata(where, {"page": {"number"}}) == parse_where(where)
    assert of_metadata(where, {"status": {"string"}}) == And(
        (either("status", "active"), parse_where({"item_id": ["1", "2"]}) or And(()))
    )


def test_a_parsed_filter_is_about_items() -> None:
    """Its fields are already told from attributes."""
    parsed = parse_where({"status": "active"})
    assert of_metadata(parsed, TEXTS) is parsed
    assert of_metadata({"and": [parsed, {"page": 1}]}, TEXTS) == parse_where({"and": [parsed, {"page": 1}]})


def test_a_filter_may_be_deep_but_not_endless() -> None:
    """The limit is the filter language's."""
    where: dict[str, Any] = {"page": 1}
    for _ in range(200):
        where = {"not": where}
    with pytest.raises(InvalidFilterError, match="nested deeper"):
        of_metadata(where, TEXTS)
