"""The query language: phrases, exclusions, prefixes and plain text; synonyms."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval import Profile
from retrieval.domain.errors import EmptyQueryError, InvalidProfileError
from retrieval.domain.search.query import MAX_ADDED, MOST_SIGNS, ParsedQuery, parse_query, with_synonyms


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ('"read timeout"', ParsedQuery("read timeout", phrases=("read timeout",))),
        ('slow "read  timeout" disk', ParsedQuery("slow read timeout disk", phrases=("read timeout",))),
        ("say “hello world” now", ParsedQuery("say hello world now", phrases=("hello world",))),
        ("sag „hallo welt“ laut", ParsedQuery("sag hallo welt laut", phrases=("hallo welt",))),
        ("東京「港区」タワー", ParsedQuery("東京 港区 タワー", phrases=("港区",))),
        ('"one two", three', ParsedQuery("one two , three", phrases=("one two",))),
        ('"a b" "a b"', ParsedQuery("a b a b", phrases=("a b",))),
        ("timeout -redis", ParsedQuery("timeout", excluded=("redis",))),
        ("-redis timeout", ParsedQuery("timeout", excluded=("redis",))),
        ('timeout -"known issue"', ParsedQuery("timeout", excluded=("known issue",))),
        ("timeout -“known issue”", ParsedQuery("timeout", excluded=("known issue",))),
        ("timeout -covid-19,", ParsedQuery("timeout", excluded=("covid-19",))),
        ("login -2fa", ParsedQuery("login", excluded=("2fa",))),
        ("猫 -犬", ParsedQuery("猫", excluded=("犬",))),
        ("interesti*", ParsedQuery("interesti", prefixes=("interesti",))),
        ("read time* -redis", ParsedQuery("read time", excluded=("redis",), prefixes=("time",))),
        ("東*", ParsedQuery("東", prefixes=("東",))),
        ("भाषा हिन्* -नदी", ParsedQuery("भाषा हिन्", excluded=("नदी",), prefixes=("हिन्",))),
        ("o\ufb00* \uff41\uff42*", ParsedQuery("off ab", prefixes=("off", "ab"))),
    ],
)
def test_syntax_is_read(text: str, query: ParsedQuery) -> None:
    """Words of phrases and prefixes rank too; excluded words do not."""
    assert parse_query(text) == query


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        "two  spaces",
        'an "open quote',
        "it's “open",
        'a 12" x 14" frame',
        'five"six"seven',
        '"..."',
        '""',
        "covid-19 well-known",
        "below -5 degrees",
        "-5,3 °C",
        "a - b -- c --flag",
        "-(x)",
        "a* b",
        "* ** **bold**",
        "a*b 2*3",
        "",
    ],
)
def test_everything_else_is_text(text: str) -> None:
    """Unbalanced quotes, hyphens inside words, negative numbers and lone signs are plain text."""
    assert parse_query(text) == ParsedQuery(text)


@pytest.mark.parametrize("text", ["-redis", '-"known issue"', "-redis -valkey", "... -redis"])
def test_only_exclusions_leave_nothing_to_search_for(text: str) -> None:
    """The error says to add words; with a vector there is something to rank by."""
    with pytest.raises(EmptyQueryError, match="give some words"):
        parse_query(text)
    assert parse_query(text, needs_words=False).excluded


@pytest.mark.parametrize("word", ["-option{}", "option{}*"])
def test_a_pasted_text_full_of_signs_is_text(word: str) -> None:
    """More conditions and prefixes than anybody types are read as text."""
    text = " ".join(map(word.format, range(MOST_SIGNS + 1)))
    assert parse_query(text) == ParsedQuery(text)


@given(st.text(st.sampled_from('ab5 -*"“”„「」東.\n(') | st.characters(exclude_categories=["Cs"]), max_size=60))
def test_every_query_can_be_parsed(text: str) -> None:
    """Nothing raises, and each part is words: not empty, without the signs that marked it."""
    query = parse_query(text, needs_words=False)
    for part in (*query.phrases, *query.excluded, *query.prefixes):
        assert any(character.isalnum() or character.isnumeric() for character in part) or not part.isascii()
        assert part == part.strip()
    for prefix in query.prefixes:
        assert not prefix.endswith("*")


@given(st.lists(st.sampled_from(["word", "two", '"a phrase"', "-out", "beg*"]), min_size=1, max_size=8))
def test_parts_are_read_wherever_they_stand(parts: list[str]) -> None:
    """The order of the parts matters only for the order of the results."""
    query = parse_query(" ".join(parts), needs_words=False)
    assert ("a phrase" in query.phrases) == ('"a phrase"' in parts)
    assert ("out" in query.excluded) == ("-out" in parts)
    assert ("beg" in query.prefixes) == ("beg*" in parts)


def test_a_long_run_of_signs_is_read_in_one_go() -> None:
    """A query must not block the event loop: a pattern that restarts at each sign would not end here."""
    signs = "!" * 300_000
    assert parse_query(f"x -a{signs}b").words.startswith("x")


GROUPS = (
    ("car", "automobile", "motor car"),
    ("heart attack", "myocardial infarction"),
    ("car", "wagon"),
    ("हि", "his"),
)


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("the Car", " automobile motor car wagon"),
        ("a motor  CAR", " automobile"),
        ("Heart-attack risk", " myocardial infarction"),
        ("heart of an attack", ""),
        ("cars", ""),
        ("हिन्दी", ""),
        ("car automobile", " motor car wagon"),
        ("", ""),
    ],
)
def test_a_query_gains_the_synonyms_of_its_words(query: str, more: str) -> None:
    """The longest phrase at each word counts, and nothing comes twice."""
    assert with_synonyms(query, GROUPS) == query + more


def test_without_groups_and_with_many_a_query_is_bounded() -> None:
    """The number of its texts is limited."""
    groups = tuple((f"w{number}", f"other{number}") for number in range(1000))
    assert with_synonyms("w1 w2", ()) == "w1 w2"
    assert with_synonyms(" ".join(f"w{number}" for number in range(1000)), groups).count("other") == MAX_ADDED


def test_a_profile_keeps_its_synonyms_through_json() -> None:
    """Lists become tuples."""
    profile = Profile(synonyms=[["db", "database"]])  # type: ignore[arg-type]
    assert Profile.from_dict(json.loads(json.dumps(profile.as_dict()))) == profile
    assert profile.synonyms == (("db", "database"),)
    assert Profile.from_dict({"legs": {"lexical": 1.0}}).synonyms == ()


@pytest.mark.parametrize(
    "groups", ["a b", [["one"]], ["ab"], [["a", 7]], [["a", " "]], [["a", "b\x00"]], 7, [["a"] * 21]]
)
def test_invalid_groups_are_refused(groups: Any) -> None:
    """With an example."""
    with pytest.raises(InvalidProfileError, match="synonym"):
        Profile.from_dict({"legs": {"lexical": 1.0}, "synonyms": groups})
