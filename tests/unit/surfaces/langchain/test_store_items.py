"""The item of a put: its text, its tags and its time to live."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import PutOp

from retrieval import Item
from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.langchain.store_items import is_alive, is_expired, item_of, refreshed
from tests.support.filtering import matches

NOW = 1_000_000.0
VALUE = {"text": "likes pizza", "about": {"who": "Ada"}, "more": ["a", "b"], "n": 1}


def put(value: Any = VALUE, **more: Any) -> Item:
    """The item of a put at that time, whose default is to index the text."""
    return item_of(PutOp(("users", "ada"), "1", value, **more), value, ["text"], NOW)


@pytest.mark.parametrize(
    ("index", "body"),
    [
        (None, "likes pizza"),
        (False, ""),
        ([], ""),
        (["about.who", "more[*]", "n", "nowhere"], "Ada\na\nb\n1"),
        (["more[-1]", "{text,about.who}"], "b\nlikes pizza\nAda"),
        (["$"], '{"about": {"who": "Ada"}, "more": ["a", "b"], "n": 1, "text": "likes pizza"}'),
    ],
)
def test_the_text_is_what_the_paths_lead_to(index: Any, body: str) -> None:
    """The store's paths apply, unless the put names its own, or none."""
    assert put(index=index).body == body


def test_a_refused_value_is_named_by_its_path() -> None:
    """A value may be large."""
    with pytest.raises(InvalidRequestError, match=r"value at \['about'\]\['seen'\]\[1\] is NaN or infinite"):
        put({"about": {"seen": [1.0, float("nan")]}})


def test_the_value_is_kept_as_it_is() -> None:
    """The item also has the namespace and the key; an item without expiry has no time to live."""
    item = put()
    assert item.attributes == {"namespace": ["users", "ada"], "key": "1", "value": VALUE}
    assert item.tags == ("namespace", "namespace:users", "namespace:users/ada")
    assert not is_expired(item, 1e15)
    assert refreshed(item, NOW) is item


def test_an_item_expires_to_the_moment() -> None:
    """It expires exactly its minutes after the put; the filter has the same limit."""
    item = put(ttl=0.5)
    for now, alive in ((NOW + 29.999, True), (NOW + 30.0, False), (NOW + 31, False)):
        assert is_expired(item, now) is not alive
        assert matches(item, is_alive(now)) is alive
    assert matches(put(), is_alive(NOW))


def test_use_puts_the_end_off_and_never_forward() -> None:
    """An older use that arrives late changes nothing, and an expired item stays expired."""
    item = put(ttl=1)
    later = refreshed(item, NOW + 59)
    assert later.attributes["expires_at"] == NOW + 119
    assert (later.body, later.tags, later.attributes["value"]) == (item.body, item.tags, VALUE)
    assert refreshed(later, NOW + 10) is later
    assert refreshed(item, NOW + 60) is item


@pytest.mark.parametrize("ttl", [-1, float("inf"), float("nan"), 10**400, "5", True])
def test_a_time_to_live_is_a_number_of_minutes(ttl: Any) -> None:
    """Anything else is refused."""
    with pytest.raises(InvalidRequestError, match="number of minutes"):
        put(ttl=ttl)


@pytest.mark.parametrize("value", ["text", ["a"], {"a": {1, 2}}, {1: "a"}, {"a": float("nan")}, {"a": "\x00"}])
def test_values_that_json_or_the_database_cannot_store_are_refused(value: Any) -> None:
    """Before anything is written."""
    with pytest.raises(InvalidRequestError):
        put(value)


@pytest.mark.parametrize("index", ["text", ["a["], ["a]"], ["more[x]"], ["{a"], [1]])
def test_paths_come_in_a_list_and_can_lead_somewhere(index: Any) -> None:
    """A text would be read as a list of paths, and other brackets would find nothing."""
    with pytest.raises(InvalidRequestError, match="list of paths"):
        put(index=index)
