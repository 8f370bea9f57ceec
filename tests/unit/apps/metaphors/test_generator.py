"""The prompt for metaphors, and the accepted parts of a language model's answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.apps.metaphors import Problem
from retrieval.apps.metaphors.generator import (
    EFFECTS_MAX,
    NAME_LENGTH_MAX,
    NAMES_MAX,
    OPERATIONS_MAX,
    PROBLEM_LENGTH_MAX,
    SUGGESTIONS,
    TEXT_LENGTH_MAX,
    problem_hash,
    suggested_metaphors,
    suggestion_prompt,
)

PROBLEM = Problem(id="p", description="Orders pile up before packing", domain="logistics")


def suggestion(name: str = "Canal lock", **changes: Any) -> dict[str, Any]:
    """A suggestion as a model makes it."""
    operation = {"name": "fill", "description": "Let water in", "effects": ["the boat rises"]}
    usual = {
        "name": name,
        "domain": "waterways",
        "description": "Chambers that raise and lower boats one at a time",
        "operations": [operation, {**operation, "name": "drain"}],
        "examples": ["batching"],
        "concreteness": 0.9,
    }
    return usual | changes


def test_a_suggestion_becomes_a_metaphor_with_its_operations() -> None:
    """Every field is taken."""
    (metaphor,) = suggested_metaphors({"metaphors": [suggestion()]}, PROBLEM)
    assert (metaphor.name, metaphor.domain, metaphor.concreteness) == ("Canal lock", "waterways", 0.9)
    assert [operation.name for operation in metaphor.operations] == ["fill", "drain"]
    assert metaphor.operations[0].effects == ("the boat rises",)
    assert metaphor.examples == ("batching",)
    assert metaphor.id.startswith("canal-lock-")


def test_the_same_suggestion_for_another_problem_has_another_id() -> None:
    """For the same problem, the id is the same."""
    other = Problem(id="q", description="Something else")
    ids = [suggested_metaphors([suggestion()], problem)[0].id for problem in (PROBLEM, PROBLEM, other)]
    assert ids[0] == ids[1] != ids[2]


def test_at_most_three_names_are_taken() -> None:
    """The first three count; the caller reports repeated names."""
    answer = [suggestion("One"), suggestion("one"), suggestion("Two"), suggestion("Three"), suggestion("Four")]
    assert [metaphor.name for metaphor in suggested_metaphors(answer, PROBLEM)] == ["One", "one", "Two", "Three"]


@pytest.mark.parametrize(
    "answer",
    [
        None, 7, "Canal lock", {}, {"metaphors": None}, {"metaphors": "Canal lock"}, {"metaphors": [None, 7, "x", []]},
        [suggestion("")], [suggestion("?!")], [suggestion("a\x00b")], [suggestion("\u202ekcol")],
        [suggestion("lo\u200bck")], [suggestion("\ud800 x")], [suggestion("x" * 81)],
        [{**suggestion(), "name": 7}],
    ],
)  # fmt: skip
def test_invalid_metaphors_are_left_out(answer: object) -> None:
    """Other types, nothing, names without a word, with control characters, or too long."""
    assert suggested_metaphors(answer, PROBLEM) == []


def test_fields_of_the_wrong_type_are_left_empty() -> None:
    """The other fields are used."""
    changes: dict[str, Any] = {
        "domain": 7,
        "description": None,
        "operations": "fill",
        "examples": {},
        "concreteness": "very",
    }
    (metaphor,) = suggested_metaphors([suggestion(**changes)], PROBLEM)
    assert (metaphor.domain, metaphor.description, metaphor.operations, metaphor.examples) == ("", "", (), ())
    assert metaphor.concreteness is None


@pytest.mark.parametrize("concreteness", [-0.1, 1.1, True, float("nan")])
def test_an_invalid_concreteness_is_left_out(concreteness: object) -> None:
    """Outside 0 to 1, or no number."""
    assert suggested_metaphors([suggestion(concreteness=concreteness)], PROBLEM)[0].concreteness is None


def test_long_texts_are_cut_and_long_lists_end() -> None:
    """A model's answer cannot fill the database."""
    operation = {"name": "do", "description": "y" * 9999, "effects": ["z" * 9999] * 50}
    operations = [{**operation, "name": f"do {number}"} for number in range(50)]
    (metaphor,) = suggested_metaphors([suggestion(description="x" * 9999, operations=operations)], PROBLEM)
    assert len(metaphor.description) == TEXT_LENGTH_MAX
    assert len(metaphor.operations) == OPERATIONS_MAX
    assert len(metaphor.operations[0].effects) == EFFECTS_MAX


def test_no_more_is_looked_at_than_can_be_used() -> None:
    """Three good ones end it, and twenty that are none."""
    offered = [suggestion("Canal lock"), suggestion("Weir"), suggestion("Ferry"), *[{"get": 1}] * 9]
    assert len(suggested_metaphors([*offered, suggestion("Dam")], PROBLEM)) == SUGGESTIONS
    assert not suggested_metaphors([*[{}] * 20, suggestion()], PROBLEM)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=100),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(list(suggestion())), inner, max_size=6),
    max_leaves=15,
)


TEXTS = st.text(max_size=2 * NAME_LENGTH_MAX)
NAMED = st.fixed_dictionaries(
    {"name": st.sampled_from(["Lock", "Canal \n lock", "Tide", "Dike", "Weir \ud800", "Dam\x00"]) | TEXTS},
    optional={key: JSON | TEXTS | st.lists(TEXTS, max_size=4) for key in suggestion() if key != "name"},
)


@given(st.lists(NAMED, min_size=1, max_size=5))
def test_suggestions_are_bounded(answer: list[dict[str, Any]]) -> None:
    """Few, short, named, on one line, and storable."""
    metaphors = suggested_metaphors([suggestion(), *answer], PROBLEM)
    assert 1 <= len({metaphor.name.casefold() for metaphor in metaphors}) <= SUGGESTIONS
    for metaphor in metaphors:
        assert 0 < len(metaphor.name) <= NAME_LENGTH_MAX
        for text in (metaphor.id, metaphor.name, metaphor.domain, metaphor.description, *metaphor.examples):
            assert text == " ".join(text.split())
            assert "\x00" not in text
            assert text.encode().decode() == text


def data(prompt: str, tag: str) -> Any:
    """The parsed content of the prompt between the tags."""
    (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", prompt, re.DOTALL)
    return json.loads(text)


@given(st.text(min_size=1).filter(lambda text: bool(text.strip()) and "\x00" not in text), st.text(max_size=50))
def test_untrusted_texts_are_json_within_tags(description: str, failure: str) -> None:
    """Nothing in it can end the marks around it; a pasted text is cut."""
    prompt = suggestion_prompt(Problem(id="p", description=description, domain="d"), [failure], failure)
    assert data(prompt, "problem") == description[:PROBLEM_LENGTH_MAX]
    assert data(prompt, "domain") == "d"
    assert data(prompt, "tried") == [failure]
    assert data(prompt, "failure") == failure


def test_the_prompt_names_few_tried_metaphors() -> None:
    """The first, each cut."""
    names = data(suggestion_prompt(PROBLEM, ["n" * 500] * 99), "tried")
    assert len(names) == NAMES_MAX
    assert all(len(name) == NAME_LENGTH_MAX for name in names)


def test_a_problem_is_recognised_by_its_text() -> None:
    """Its id does not matter."""
    again, other = Problem(id="other", description=PROBLEM.description), Problem(id="p", description="Another")
    assert problem_hash(PROBLEM) == problem_hash(again) != problem_hash(other)
