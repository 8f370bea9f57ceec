"""Keywords are words that a tag could be."""

from __future__ import annotations

import pytest

from retrieval.apps.principles.startup.project import keywords


def test_words_of_most_texts_come_first() -> None:
    """A word counts once a text; equals stand in the order in which they came."""
    found = keywords(["Retry timeouts, retry!", "Timeouts in the parser", "Parser of timeouts"])
    assert found == ("timeouts", "parser", "retry")


def test_stop_words_and_those_of_commits_are_left_out() -> None:
    """What every subject says is no keyword."""
    assert keywords(["fix: update the pagination and merge branch 'main' into it"]) == ("pagination",)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("error-handling", ("error-handling", "error", "handling")),
        ("snake_case names", ("snake_case", "snake", "case", "names")),
        ("C# and F# for .NET", ("c#", "f#", "net")),
        ("port to c++", ("port", "c++")),
        ("bump 1.2.3 to 2026-11-22", ()),
        ("Größe größe", ("größe",)),
        ("", ()),
        ("🙂 -- ... ___", ()),
        ("x" * 41, ()),
    ],
)
def test_what_is_a_word(text: str, found: tuple[str, ...]) -> None:
    """Compounds count whole and by their parts; numbers, short, long and wordless texts do not."""
    assert set(keywords([text])) == {one.casefold() for one in found}


def test_there_are_never_more_than_asked_for() -> None:
    """Whatever the length of the texts."""
    assert len(keywords([f"word{number}" for number in range(500)])) == 50
    assert len(keywords(["alpha beta gamma delta"], most=2)) == 2


def test_a_huge_text_is_read_in_part() -> None:
    """A subject may be a whole paragraph of a generated commit."""
    assert "last" not in keywords(["word " * 100_000 + "last"])
