"""The fields of a memory, its text, and its changes and merges."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.memory import (
    Memory,
    NewMemory,
    changed,
    entity_type,
    extract_text,
    has_expired,
    links_of,
    may_join,
    merged,
    normalised,
    readable,
    to_store,
    united,
)
from retrieval.domain.search.diversity import THRESHOLD, jaccard, similarity

MAY = datetime(2026, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NESTED: Any = []
for _ in range(5000):
    NESTED = [NESTED]
CIRCULAR: dict[str, Any] = {}
CIRCULAR["again"] = CIRCULAR


def new(**more: Any) -> NewMemory:
    """A memory to store."""
    fields = {
        "memory_id": "m", "project_id": "p", "interaction_type": "t", "content": "Some words", "occurred_at": MAY,
        **more,
    }  # fmt: skip
    return NewMemory(**fields)


def stored_memory(**more: Any) -> Memory:
    """A memory as it is read."""
    fields = {
        "memory_id": "m", "project_id": "p", "interaction_type": "t", "content": "Some words", "text": "Some words",
        "summary": "", "user_id": None, "links": {"papers": ("x",)}, "relevance_score": 0.5, "accesses": 7,
        "last_accessed_at": None, "occurred_at": MAY, "expires_at": None, "superseded_by": None, "status": "active",
        "metadata": {}, "created_at": MAY, "updated_at": MAY, **more,
    }  # fmt: skip
    return Memory(**fields)


def test_the_item_of_a_memory_has_all_fields_for_filters() -> None:
    """Type, time, project and user; JSON content is stored in addition to its text."""
    item = new(content={"a": [1, "two"]}, user_id="ann", summary="S", metadata={"model": "m1"}).item()
    assert (item.kind, item.occurred_at, item.title, item.body) == ("t", MAY, "S", "a: 1\na: two")
    assert {name: item.attributes[name] for name in ("project_id", "user_id", "content", "model")} == {
        "project_id": "p", "user_id": "ann", "content": {"a": [1, "two"]}, "model": "m1",
    }  # fmt: skip
    assert "content" not in new().item().attributes


def test_a_change_keeps_the_text_of_content_whose_keys_came_back_in_another_order() -> None:
    """As a merge does; new content has its own text."""
    former = stored_memory(content={"b": 1, "first": 2}, text="first: 2\nb: 1")
    assert changed(former, {"summary": "S"}).item().body == "first: 2\nb: 1"
    assert merged(former, new(content={"first": 2, "b": 1})).item().body == "first: 2\nb: 1"
    assert to_store(former).fingerprint == new(content={"first": 2, "b": 1}).fingerprint
    assert changed(former, {"content": {"b": 1}}).item().body == "b: 1"


def test_fingerprints_depend_on_words_and_project() -> None:
    """Case, spaces and punctuation do not count; order, symbols and project do."""
    memory = new(content="The bridge, of steel.")
    assert memory.fingerprint == new(content="the  BRIDGE of steel").fingerprint
    assert memory.fingerprint != new(content="steel of the bridge").fingerprint
    assert memory.fingerprint != new(content="The bridge, of steel.", project_id="q").fingerprint
    assert new(content="!").fingerprint != new(content="?").fingerprint
    assert new(content="It costs $5.").fingerprint != new(content="It costs €5.").fingerprint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"content": " "}, "needs content"),
        ({"content": None}, "needs content"),
        ({"content": {}}, "needs content"),
        ({"content": {"findings": [""]}}, "needs content"),
        ({"project_id": " "}, "project_id is ' '"),
        ({"interaction_type": 3}, "interaction_type is 3"),
        ({"user_id": ""}, "user_id"),
        ({"relevance_score": 1.5}, "0 to 1"),
        ({"relevance_score": float("nan")}, "0 to 1"),
        ({"relevance_score": True}, "0 to 1"),
        ({"occurred_at": datetime(2026, 5, 1)}, "time zone"),  # noqa: DTZ001 - that is what is wrong with it
        ({"expires_at": "tomorrow"}, "time zone"),
        ({"expires_at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))}, "years 1 to 9999"),
        ({"occurred_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))}, "years 1 to 9999"),
        ({"links": {"papers": "x"}}, "list"),
        ({"links": {"papers": [""]}}, "1 to 512 bytes"),
        ({"links": {"papers": ["\ud800"]}}, "half of a surrogate pair"),
        ({"links": {"a:b": ["x"]}}, "colon"),
        ({"links": ["x"]}, "mapping"),
        ({"metadata": {"content": 1}}, "keeps its own"),
        ({"metadata": "x"}, "mapping"),
        ({"project_id": "a\0"}, "without NUL"),
        ({"user_id": "\ud800"}, "user_id is .*half of a surrogate pair"),
        ({"content": "\ud800"}, "surrogate"),
        ({"content": {"\ud800": 1}}, "surrogate"),
        ({"content": NESTED}, "nested deeper"),
        ({"content": CIRCULAR}, "nested deeper"),
        ({"summary": []}, "summary is"),
    ],
)
def test_invalid_memories_are_refused(arguments: dict[str, Any], message: str) -> None:
    """The message names the fault."""
    with pytest.raises(InvalidRequestError, match=message):
        new(**arguments)


@pytest.mark.parametrize(
    ("stem", "plural"),
    [
        ("question", "questions"), ("hypothesis", "hypotheses"), ("paper", "papers"), ("protocol", "protocols"),
        ("study", "studies"), ("assay", "assays"), ("batch", "batches"), ("class", "classes"), ("analysis", "analyses"),
        ("experiment_plan", "experiment_plans"),
    ],
)  # fmt: skip
def test_a_keyword_links_to_the_plural_of_its_stem(stem: str, plural: str) -> None:
    """As entity filters name the types."""
    assert entity_type(stem) == plural
    assert links_of(None, {f"linked_{stem}_ids": ["1", "1", "2"]}) == {plural: ("1", "2")}


@pytest.mark.parametrize("ids", [{}, set(), "", 0, False])
def test_empty_links_that_are_not_a_list_are_refused(ids: Any) -> None:
    """Only None, or an empty list, says that there are none."""
    with pytest.raises(InvalidRequestError, match="come in a list"):
        links_of(None, {"linked_question_ids": ids})
    assert links_of(None, {"linked_question_ids": None, "linked_paper_ids": []}) == {}  # type: ignore[dict-item]
    with pytest.raises(InvalidRequestError, match="mapping"):
        links_of([], {})  # type: ignore[arg-type]


def test_links_of_both_ways_come_together() -> None:
    """Links of one type are merged; a type without links is dropped; another keyword is refused."""
    assert links_of({"papers": ["a"], "labs": []}, {"linked_paper_ids": ["b", "a"]}) == {"papers": ("a", "b")}
    assert united({"papers": ["a"]}, {"labs": ["l"], "papers": ["b"]}) == {"papers": ("a", "b"), "labs": ("l",)}
    for keyword in ("papers", "linked_paper", "linked__ids"[:7]):
        with pytest.raises(InvalidRequestError, match="linked_paper_ids="):
            links_of(None, {keyword: ["a"]})


def test_a_change_replaces_what_it_names_alone() -> None:
    """All other fields stay, including the superseded state."""
    memory = stored_memory(status="archived", superseded_by="n", metadata={"k": 1})
    assert to_store(memory).item().content_hash == changed(memory, {"relevance_score": 0.9}).item().content_hash
    assert changed(memory, {"content": "x"}).status == "archived"
    with pytest.raises(InvalidRequestError):
        changed(memory, {"relevance_score": 2})


def test_of_two_that_are_joined_the_greater_counts() -> None:
    """The known text stays; links are united; the latest time, the highest relevance, the last expiry."""
    former = stored_memory(expires_at=MAY + DAY, summary="", metadata={"k": 1})
    other = new(
        links={"labs": ["l"]}, occurred_at=MAY + DAY, relevance_score=0.8, expires_at=MAY + 2 * DAY, summary="S",
        content="SOME words", metadata={"k": 2, "l": 3},
    )  # fmt: skip
    memory = merged(former, other)
    assert (memory.memory_id, memory.content, memory.summary) == ("m", "Some words", "S")
    assert memory.links == {"papers": ("x",), "labs": ("l",)}
    assert (memory.occurred_at, memory.relevance_score, memory.expires_at) == (MAY + DAY, 0.8, MAY + 2 * DAY)
    assert memory.metadata == {"k": 1, "l": 3}
    assert merged(former, new()).expires_at is None


@pytest.mark.parametrize(
    "difference",
    [{"user_id": "ann"}, {"interaction_type": "u"}, {"status": "archived"}, {"expires_at": MAY}, {"project_id": "q"}],
)
def test_only_alike_memories_that_are_found_may_be_joined(difference: dict[str, Any]) -> None:
    """Both have the same project, user and type; neither is superseded or expired."""
    assert may_join(stored_memory(), new(), MAY)
    assert not may_join(stored_memory(**difference), new(), MAY)


def test_a_memory_expires_at_its_moment() -> None:
    """Not before; without one never."""
    assert has_expired(stored_memory(expires_at=MAY), MAY)
    assert not has_expired(stored_memory(expires_at=MAY), MAY - DAY)
    assert not has_expired(stored_memory(), MAY)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("as it\nstands ", "as it\nstands "),
        ({"keyFindings": ["a", "b"], "next_steps": {"owner": "Ann"}},
         "key findings: a\nkey findings: b\nnext steps owner: Ann"),
        ([1, 2.5, True, False, None, ""], "1\n2.5\nyes\nno"),
        ({"at": datetime(2026, 5, 1, tzinfo=UTC), "x": None, "empty": {}}, "at: 2026-05-01T00:00:00+00:00"),
        ({}, ""),
        (42, "42"),
        ([["deep", {"er": ["est"]}]], "deep\ner: est"),
    ],
)  # fmt: skip
def test_values_are_written_in_order_with_their_keys(content: Any, text: str) -> None:
    """A line each; nothing for what says nothing."""
    assert extract_text(content) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@examples(max_examples=10)
@given(json_values)
def test_every_text_of_a_content_is_in_its_text(content: Any) -> None:
    """This holds for any nesting."""

    def texts(value: Any) -> list[str]:
        if isinstance(value, str):
            return [value]
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
        return [text for value in inner for text in texts(value)]

    extracted = extract_text(content)
    assert all(text in extracted for text in texts(content) if text.strip())


def test_keys_are_made_readable() -> None:
    """Several spellings of a key become one."""
    assert {readable(key) for key in ("nextSteps", "next_steps", "next-steps", "Next Steps")} == {"next steps"}


def test_normalisation_keeps_only_words() -> None:
    """Case, width and signs go; order stays."""
    assert normalised("The BRIDGE,  \uff4f\uff46 steel!") == "the bridge of steel"
    assert normalised("steel of the bridge") != normalised("the bridge of steel")


@pytest.mark.parametrize(
    ("first", "other", "cosine", "least", "most"),
    [
        ("The deploy uses Docker Compose.", "the deploy uses docker compose", None, 1, 1),
        ("The deploy uses Docker Compose.", "Deploy uses Docker Compose", None, 1, 1),
        ("Alert if load > limit", "Alert if load < limit", 0.99, 0, 0),
        ("The seat costs $5", "the seat costs €5", 0.99, 0, 0),
        ("The deploy uses Docker Compose.", "Docker Compose is what we deploy with", None, 0.5, 0.8),
        ("The deploy uses Docker Compose.", "Docker Compose is what we deploy with", 0.93, 0.93, 0.93),
        ("The budget is 500 euros", "The budget is 600 euros", 0.99, 0, 0),
        ("The pump starts on 2026-01-02", "The pump starts on 2026-02-01", 0.99, 0, 0),
        ("It is -5 degrees outside", "It is 5 degrees outside.", 0.99, 0, 0),
        ("Ann writes C++", "Ann writes C#.", 0.99, 0, 0),
        ("दिन", "दान", None, 0, 0),
        ("Ann likes tea", "Ann does not like tea", 0.95, 0, 0),
        ("Ann doesn't like tea", "Ann does not like tea", 0.95, 0.95, 0.95),
        ("?", "!", None, 0, 0),
        ("\N{GRINNING FACE}", "\N{CRYING FACE}", 1.0, 0, 0),
        ("?", "?", None, 1, 1),
        ("red car", "blue bus", -0.3, 0, 0),
        ("会議は金曜日の3時に移動した", "会議は金曜日の3時です", None, 0.4, 0.8),
        ("会議は金曜日の3時に移動した", "会議は金曜日の4時に移動した", 0.99, 0, 0),
    ],
)
def test_similarity_is_of_words_or_vectors_and_of_facts(
    first: str, other: str, cosine: float | None, least: float, most: float
) -> None:
    """Different numbers or signs, or a negation on one side, make another statement, however similar the texts are."""
    assert least <= similarity(first, other, cosine) <= most
    assert similarity(other, first, cosine) == similarity(first, other, cosine)


def test_the_overlap_of_words_counts_each_once() -> None:
    """Shared words / all words, without the stop words."""
    assert jaccard({"the", "red", "car"}, {"a", "red", "bus"}) == pytest.approx(1 / 3)
    assert jaccard({"the"}, {"a"}) == 0
    assert 0 < THRESHOLD <= 1
