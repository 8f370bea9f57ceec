"""The prompt for metaphors, and the accepted parts of a language model's answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
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
    ids = [suggested_metaphors({"metaphors": [suggestion()]}, problem)[0].id for problem in (PROBLEM, PROBLEM, other)]
    assert ids[0] == ids[1] != ids[2]


def test_at_most_three_names_are_taken() -> None:
    """The first three count; the caller reports repeated names."""
    answer = [suggestion("One"), suggestion("one"), suggestion("Two"), suggestion("Three"), suggestion("Four")]
    assert [metaphor.name for metaphor in suggested_metaphors({"metaphors": answer}, PROBLEM)] == [
        "One",
        "one",
        "Two",
        "Three",
    ]


@pytest.mark.parametrize(
    "bad", [None, 7, {}, {"name": "Weir"}, *(suggestion(concreteness=value) for value in (1.1, math.nan, "high"))]
)
@pytest.mark.parametrize("of", [lambda suggestions: suggestions, lambda suggestions: {"metaphors": suggestions}])
def test_a_suggestion_that_does_not_fit_does_not_lose_the_others(of: Callable[[list[Any]], Any], bad: object) -> None:
    """Not every server enforces the schema."""
    answer = of([suggestion("Ferry"), bad, suggestion("Dam")])
    assert [metaphor.name for metaphor in suggested_metaphors(answer, PROBLEM)] == ["Ferry", "Dam"]


@pytest.mark.parametrize("answer", [None, 7, "Canal lock", {}, {"metaphors": None}, {"metaphors": {"a": 1}}])
def test_an_answer_of_another_shape_has_no_metaphor(answer: object) -> None:
    """It is refused as a whole."""
    assert suggested_metaphors(answer, PROBLEM) == []


@pytest.mark.parametrize("name", ["", "?!", "a\x00b", "\u202ekcol", "lo\u200bck", "\ud800 x", "x" * 81])
def test_metaphors_without_a_usable_name_are_left_out(name: str) -> None:
    """Nothing, no word, control characters, half of a surrogate pair, too long."""
    assert suggested_metaphors({"metaphors": [suggestion(name)]}, PROBLEM) == []


def test_long_texts_are_cut_and_long_lists_end() -> None:
    """A model's answer cannot fill the database."""
    operation = {"name": "do", "description": "y" * 9999, "effects": ["z" * 9999] * 50}
    operations = [{**operation, "name": f"do {number}"} for number in range(50)]
    long = suggestion(description="x" * 9999, operations=operations)
    (metaphor,) = suggested_metaphors({"metaphors": [long]}, PROBLEM)
    assert len(metaphor.description) == TEXT_LENGTH_MAX
    assert len(metaphor.operations) == OPERATIONS_MAX
    assert len(metaphor.operations[0].effects) == EFFECTS_MAX


def test_no_more_is_looked_at_than_can_be_used() -> None:
    """Three good ones end it, and twenty that are none."""
    offered = [suggestion("Canal lock"), suggestion("Weir"), suggestion("Ferry"), *[suggestion("")] * 9]
    assert len(suggested_metaphors({"metaphors": [*offered, suggestion("Dam")]}, PROBLEM)) == SUGGESTIONS
    assert not suggested_metaphors({"metaphors": [*[suggestion("")] * 20, suggestion()]}, PROBLEM)


TEXTS = st.text(max_size=2 * NAME_LENGTH_MAX)
LISTS = st.lists(TEXTS, max_size=4)
NAMES = st.sampled_from(["Lock", "Canal \n lock", "Tide", "Dike", "Weir \ud800", "Dam\x00"]) | TEXTS
NAMED = st.builds(suggestion, NAMES, domain=TEXTS, description=TEXTS, examples=LISTS)


@given(st.lists(NAMED, min_size=1, max_size=5))
def test_suggestions_are_bounded(answer: list[dict[str, Any]]) -> None:
    """Few, short, named, on one line, and storable."""
    metaphors = suggested_metaphors({"metaphors": [suggestion(), *answer]}, PROBLEM)
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
    names = data(suggestion_prompt(PROBLEM, [f"{number:3}" + "n" * 500 for number in range(99)]), "tried")
    assert len(names) == NAMES_MAX
    assert all(len(name) == NAME_LENGTH_MAX for name in names)


def test_a_problem_is_recognised_by_its_text() -> None:
    """Its id does not matter."""
    again, other = Problem(id="other", description=PROBLEM.description), Problem(id="p", description="Another")
    assert problem_hash(PROBLEM) == problem_hash(again) != problem_hash(other)
