"""Namespaces and keys as ids and tags: distinct ones stay distinct."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import MAX_KEY_BYTES
from retrieval.domain.search.filters import AllTags, And
from retrieval.surfaces.langchain.store_items import checked_namespace, item_id_of, matching, tags_of, within

PARTS = st.text(st.sampled_from("ab/%#2F:.*_é'\x00"), min_size=1, max_size=4) | st.just("long" * 200)
NAMESPACES = st.lists(PARTS, max_size=4).map(tuple)


@given(NAMESPACES, PARTS, NAMESPACES, PARTS)
def test_each_item_has_an_id_of_its_own(
    namespace: tuple[str, ...], key: str, other: tuple[str, ...], its_key: str
) -> None:
    """Equal ids mean equal namespaces and keys, and each fits."""
    first, second = item_id_of(namespace, key), item_id_of(other, its_key)

    assert (first == second) == ((namespace, key) == (other, its_key))
    assert 0 < len(first.encode()) <= MAX_KEY_BYTES
    assert "\x00" not in first


@given(NAMESPACES, NAMESPACES)
def test_tags_tell_what_a_namespace_begins_with(namespace: tuple[str, ...], prefix: tuple[str, ...]) -> None:
    """The filter for a prefix asks for a tag that exactly the namespaces have that begin so, element by element."""
    condition = within(prefix)

    assert isinstance(condition, AllTags)
    assert set(condition.tags) <= set(tags_of(namespace)) or namespace[: len(prefix)] != prefix
    assert namespace[: len(prefix)] == prefix or not set(condition.tags) <= set(tags_of(namespace))
    assert all(len(tag.encode()) <= MAX_KEY_BYTES for tag in tags_of(namespace))


def test_an_id_can_be_read() -> None:
    """It is the path to the item."""
    assert item_id_of(("users", "ada/b"), "50%") == "users/ada%2Fb/50%25"


def test_an_empty_path_matches_every_namespace() -> None:
    """Prefix and suffix are the only ways to match."""
    assert matching("suffix", ()) == And(())
    with pytest.raises(InvalidRequestError, match="by 'prefix' or 'suffix', not 'infix'"):
        matching("infix", ("a",))


@pytest.mark.parametrize("namespace", ["users", ("users", ""), ("users", 7), ("a\x00",), None])
def test_a_namespace_has_texts_that_are_not_empty(namespace: object) -> None:
    """Other values are refused, also a text, which would be read as a list of letters."""
    with pytest.raises(InvalidRequestError, match="a namespace"):
        checked_namespace(namespace)


def test_labels_with_dots_are_labels() -> None:
    """Batches may contain labels that LangGraph's own methods refuse."""
    assert checked_namespace(["a.b", "%"]) == ("a.b", "%")
