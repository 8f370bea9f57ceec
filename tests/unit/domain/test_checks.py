"""JSON that others write, read strictly; stored text: refused, cleaned, shown and quoted; refused values and names."""

from __future__ import annotations

import gzip
import json
import sys
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from retrieval.domain.checks import (
    JSONSyntaxError,
    JSONTextError,
    check_flags,
    check_text,
    checked_choice,
    checked_number,
    checked_positive,
    checked_texts,
    checked_time,
    checked_whole,
    checks_argument_names,
    checks_arguments,
    choices_hint,
    clean_text,
    clean_value,
    escaped_json,
    is_unicode,
    json_line,
    json_of,
    named,
    nesting_fault,
    provenance,
    quoted,
    quoted_block,
    refusal_of,
    shown_block,
    shown_line,
    text_fault,
    written,
)
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.search.profile import FusionKind

NEEDED = "\u0600\u0601\u0602\u0603\u0604\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200c\u200d\u200e\u200f"
NEEDED_BEYOND = "\U000110bd\U000110cd" + "".join(map(chr, range(0x13430, 0x13440)))
HOSTILE = st.text(
    alphabet='ab ">\\\n\r\t\x00\x0b\x0c\x1b[0m\x1c\x85\x9b'
    "\xad\u061c\u180e\u200b\u200d\u2028\u2029\u202e\u2066\ud800\ufe0f\ufe01\ufeff"
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e007f\U000e0100"
)


def test_a_value_within_too_many_others_has_a_fault() -> None:
    """The fault names the most levels; as many are allowed."""
    assert nesting_fault(64, 64) is None
    assert nesting_fault(65, 64) == "is nested deeper than 64 levels; flatten it"


def test_every_control_and_format_character_is_refused_but_those_that_are_needed() -> None:
    """By the categories of the Unicode version that runs, which later ones add to."""
    allowed = frozenset("\t\n\r" + NEEDED + NEEDED_BEYOND)
    for number in range(sys.maxunicode + 1):
        letter = chr(number)
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs"):
            assert (text_fault(f"a{letter}") is None) == (letter in allowed), hex(number)


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0915\u094d\u200d\u0937", "\u05d0\u200f! \u200eabc",
        "\U0001f469\u200d\U0001f467 \u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3", "\u845b\U000e0100\u98fe",
        *(f"\U0001f3f4{''.join(chr(0xE0000 + ord(letter)) for letter in of)}\U000e007f" for of in ("gbeng", "gbsct")),
        "na\u00efve caf\u00e9 \ufffd \u00a0 \U0001f680",
    ],
)  # fmt: skip
def test_scripts_and_emoji_stay_whole(text: str) -> None:
    """Joiners, marks, a single variation selector after its character, and the flags of three countries."""
    assert text_fault(text, is_line=True) is None
    assert clean_text(text) == text
    assert json.loads(escaped_json(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ab\u202ec", "U+202E RIGHT-TO-LEFT OVERRIDE at character 3"),
        ("\x1b[0m", "U+001B (an escape character) at character 1"),
        ("a\x00", "U+0000 (a NUL byte) at character 2"),
        ("a\x07", "U+0007 (a control character) at character 2"),
        ("\ud800", "U+D800 (half of a surrogate pair) at character 1"),
        ("\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A at character 1"),
        ("a\ufe0f\ufe00", "U+FE00 VARIATION SELECTOR-1 at character 3"),
    ],
)
def test_a_refusal_names_the_character_and_its_place(text: str, message: str) -> None:
    """Counted from 1, by its number and name."""
    assert text_fault(text) == message


@pytest.mark.parametrize("sign", list("\t\n\r\u2028\u2029"))
def test_a_body_has_lines_and_tabs_and_a_line_has_not(sign: str) -> None:
    """A title with one would pass for two."""
    assert text_fault(f"a{sign}b") is None
    assert str(text_fault(f"a{sign}b", is_line=True)).startswith(f"U+{ord(sign):04X}")
    assert clean_text(f"a{sign}{sign}b", is_line=True) == "a b"


def test_cleaning_takes_out_what_is_refused() -> None:
    """Separators become line breaks, colour sequences are removed as a whole, and half of a pair becomes a sign."""
    assert (
        clean_text("\ufeffsoft\xadware\x0cpage \x1b[1;31mred\x1b[0m \ud800 a\u200bb") == "software\npage red \ufffd ab"
    )
    value = {"a\nb": ["x\u202e", 1, None, {"c": "y\nz"}]}
    assert clean_value(value) == {"a\nb": ["x", 1, None, {"c": "y\nz"}]}


@given(HOSTILE)
def test_cleaned_text_is_storable_and_unchanged_by_cleaning(text: str) -> None:
    """Cleaning twice changes nothing more."""
    clean, line = clean_text(text), clean_text(text, is_line=True)
    assert text_fault(clean) is None
    assert text_fault(line, is_line=True) is None
    assert clean_text(clean) == clean
    assert clean_text(line, is_line=True) == line
    if text_fault(text) is None:
        assert clean == text


@given(HOSTILE)
def test_no_text_ends_its_quotation(text: str) -> None:
    """A quotation is one JSON string on one line, or a block each line of which is marked."""
    assert json.loads(quoted(text)) == shown_line(text)
    assert len(quoted(text).splitlines()) == 1
    assert all(line.startswith(">") for line in quoted_block(text).splitlines())
    assert [line[2:] for line in quoted_block(text).split("\n")] == [
        line.rstrip() for line in shown_block(text).split("\n")
    ]
    assert text_fault(quoted_block(text)) is None


@given(HOSTILE)
def test_a_name_is_read_back_as_it_was_shown(text: str) -> None:
    """Bare or as a JSON string on one line, in which nothing looks like something else."""
    assert text_fault(named(text), is_line=True) is None
    assert len(named(text).splitlines()) == 1
    if is_unicode(text):
        assert named(text) == text or json.loads(named(text)) == text


def test_spaces_in_a_name_are_seen() -> None:
    """A model that copies a narrow or a protected space as a usual one would name another item."""
    name = " My  Doc 10.00\u202fAM\u00a0\u3000"
    assert named(name) == r'" My  Doc 10.00\u202fAM\u00a0\u3000"'
    assert json_line({name: ["a\u2028b\n"]}) == r'{" My  Doc 10.00\u202fAM\u00a0\u3000": ["a\u2028b\n"]}'


def test_a_word_is_named_as_it_is() -> None:
    """Others are quoted: with blanks or brackets in it, a name could say more than a name."""
    assert [named(name) for name in ("p-1", "gr\u00f6\u00dfe", "a b", "a]", "", "x" * 65)] == [
        "p-1", "gr\u00f6\u00dfe", '"a b"', '"a]"', '""', f'"{"x" * 65}"',
    ]  # fmt: skip


def test_provenance_says_who_and_how() -> None:
    """This includes an unknown author, and an unrated text."""
    assert provenance("ann lee", 3, 2) == 'added by "ann lee" \u00b7 helped in 2 of 3 uses'
    assert provenance(" ", 0, 0) == provenance(None, 0, 0) == "added by nobody named \u00b7 not rated yet"


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True, "é"], "b": {"a": {}}}, [], "text", 0])
def test_json_is_read_from_texts_and_from_utf8(value: object) -> None:
    """With or without a byte order mark; the same name in different objects is not a repetition."""
    text = json.dumps(value, ensure_ascii=False)
    assert [json_of(content) for content in (text, text.encode(), text.encode("utf-8-sig"))] == [value] * 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_another_encoding_is_named(encoding: str) -> None:
    """Unicode encodings are named, also without a byte order mark."""
    with pytest.raises(JSONTextError, match="UTF-16 or UTF-32 by its first bytes; send it as UTF-8"):
        json_of('{"a": 1}'.encode(encoding))


def test_packed_data_is_named() -> None:
    """A file that is sent as it lies on the disk may be packed."""
    with pytest.raises(JSONTextError, match="packed by gzip; unpack it first"):
        json_of(gzip.compress(b"{}"))


@pytest.mark.parametrize(
    ("text", "reason", "is_syntax"),
    [
        ('{"a": 1, "b": {"c": 1, "d": 2, "c": 1}}', "the member 'c' occurs twice in one object; write it once", False),
        ('{"a": 1, "\\u0061": 2}', "the member 'a' occurs twice", False),
        ('{"a": NaN}', "NaN is not a JSON number", False),
        ('{"a": -Infinity}', "-Infinity is not a JSON number", False),
        ("[" * 100_000, "nested too deeply", False),
        ("9" * 5000, "a number of too many digits", False),
        (b'{"a": "\xff"}', r"byte 8 \(0xff\) is not UTF-8", False),
        (b'{"a": "\xc3', "ends within a character", True),
        ("", r"not JSON: Expecting value \(column 1\)", True),
        ('{\n"a" 1}', r"Expecting ':' delimiter \(line 2, column 5\)", True),
    ],
)
def test_refused_values_have_a_reason(text: str | bytes, reason: str, *, is_syntax: bool) -> None:
    """Invalid JSON and refused JSON have different reasons."""
    with pytest.raises(JSONTextError, match=reason) as caught:
        json_of(text)
    assert isinstance(caught.value, JSONSyntaxError) is is_syntax


class FieldKinds(BaseModel):
    """A model with a field of each kind."""

    model_config = ConfigDict(strict=True)

    text: Annotated[str, Field(min_length=2, max_length=3)] = "ab"
    number: Annotated[int, Field(ge=1, lt=9)] = 1
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    truth: bool = True
    names: Annotated[list[str], Field(max_length=1)] = []
    where: dict[str, Any] = {}
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("text", 5, "must be a text, not a number"),
        ("text", None, "must be a text, not null"),
        ("text", "a", "must have at least 2 characters"),
        ("text", "abcd", "must have at most 3 characters"),
        ("text", "a\ud800", "must be UTF-8 text, without half of a surrogate pair"),
        ("number", "5", "must be a whole number, not a text"),
        ("number", True, "must be a whole number, not true or false"),
        ("number", float("inf"), "must be a whole number"),
        ("number", 0, "must be 1 or more"),
        ("number", 9, "must be less than 9"),
        ("share", [1], "must be a number, not a list"),
        ("share", 10**400, "is too large a number"),
        ("share", 0.0, "must be more than 0"),
        ("share", 2.0, "must be 1 or less"),
        ("truth", "yes", "must be true or false, not a text"),
        ("names", "a", "must be a list, not a text"),
        ("names", ["a", "b"], "must have at most 1 member"),
        ("where", ["a"], "must be an object, not a list"),
        ("kind", "c", "must be 'a' or 'b'"),
    ],
)
def test_a_value_is_told_what_it_must_be(field: str, value: object, message: str) -> None:
    """The message names the expected type, but never the value."""
    with pytest.raises(ValidationError) as refused:
        FieldKinds.model_validate({field: value})
    assert [refusal_of(dict(error)) for error in refused.value.errors()] == [message]


def test_other_refusals_keep_their_words() -> None:
    """Messages of our own validators are not reworded."""
    assert refusal_of({"type": "value_error", "msg": "Value error, give a time"}) == "give a time"
    assert refusal_of({"type": "missing", "msg": "Field required"}) == "is missing; it is needed"
    with pytest.raises(ValidationError) as refused:
        FieldKinds.model_validate({"number": "9" * 5000}, strict=False)
    assert refusal_of(dict(refused.value.errors()[0])) == "is too large a number"


def test_the_nearest_name_comes_first() -> None:
    """The nearest name comes first, if one is near."""
    assert choices_hint("limt", ["query", "limit"]) == "did you mean 'limit'? There are: query, limit"
    assert choices_hint("zebra", ["query", "limit"]) == "there are: query, limit"
    assert choices_hint("zebra", []) == "there are none"
    assert choices_hint("zebra", ["a, b"], are_quoted=True) == "there are: 'a, b'"


@pytest.mark.parametrize(("name", "own"), [("filter", "where"), ("top_k", "limit"), ("querry", "query")])
def test_a_name_of_other_libraries_leads_to_ours(name: str, own: str) -> None:
    """If the call has it; otherwise similar spellings count."""
    assert choices_hint(name, ["query", "where", "limit"]).startswith(f"did you mean {own!r}? There are: ")
    assert "where" not in choices_hint("filter", ["file", "limit"])


def test_many_and_long_names_are_shown_in_part() -> None:
    """The number of the other names is shown; the nearest name is shown wherever it is in the list."""
    names = ["x" * 100, *(f"tickets-{number}" for number in range(62))]
    told = choices_hint("tickets-6O", names)
    assert told.startswith(f"did you mean 'tickets-6'? There are: {'x' * 59}…, tickets-0, ")
    assert told.endswith(", tickets-18 and 43 more")


@pytest.mark.parametrize(
    ("bounds", "value", "message"),
    [
        ((1, 1000), 1001, "limit is 1001; it must be a whole number from 1 to 1,000"),
        ((1, 1000), True, "limit is True; it must be a whole number from 1 to 1,000"),
        ((1, 1000), np.True_, "limit is np.True_; it must be a whole number from 1 to 1,000"),
        ((1, 1000), np.int8(0), "limit is np.int8(0); it must be a whole number from 1 to 1,000"),
        ((0,), -1, "limit is -1; it must be a whole number of at least 0"),
        ((), 2.0, "limit is 2.0; it must be a whole number"),
        ((1, 9), 10**5000, "limit is a number of many digits; it must be a whole number from 1 to 9"),
    ],
    ids=["large", "flag", "flag of NumPy", "small of NumPy", "negative", "fraction", "huge"],
)
def test_a_whole_number_is_refused_with_its_bounds(bounds: tuple[int, ...], value: object, message: str) -> None:
    """With the class of error that the caller names."""
    with pytest.raises(InvalidLimitError) as caught:
        checked_whole("limit", value, *bounds, error=InvalidLimitError)

    assert str(caught.value) == message


def test_a_choice_is_refused_with_the_choices() -> None:
    """The nearest is named first."""
    with pytest.raises(InvalidRequestError, match=r"there is no fusion 'rff'; did you mean 'rrf'\? There"):
        checked_choice("fusion", "rff", FusionKind)


@pytest.mark.parametrize("value", ["abc", [5], [["a"]], [np.array([1, 2])], {"a": 1}, None])
def test_texts_are_a_list_of_texts(value: object) -> None:
    """One text alone is no list, and every element is looked at."""
    with pytest.raises(InvalidRequestError, match=r"^names .* such as \['a'\], not "):
        checked_texts("names", value, "['a']")
    assert checked_texts("names", iter(["b"]), "['a']") == ["b"]


def test_a_class_with_checked_arguments_stays_a_class_to_an_editor() -> None:
    """The decorator gives what it is given: as a function, a class has neither fields nor methods in Pyright."""
    hints = get_type_hints(checks_argument_names)

    assert hints["return"] is hints["call"]


@checks_arguments
class _Shop:
    def find(self, name: str, kind: str | None = None, *, where: Mapping[str, str] | None = None) -> object:
        return name, kind, where

    def open(self, *, until: str = "", is_late: bool = False) -> object:
        return until, is_late

    def _own(self, name: str) -> str:
        return name


@pytest.mark.parametrize("value", [5, b"x", ["a"], {}, np.array([[1, 2], [3, 4]]), True])
def test_an_argument_that_is_a_text_is_checked(value: Any) -> None:
    """By place and by name, in one line; None only where it is a value. Private methods are left alone."""
    shop = _Shop()
    message = r"^(name|kind) is [^\n]*; it must be a text$"
    with pytest.raises(InvalidRequestError, match=message):
        shop.find(value)
    with pytest.raises(InvalidRequestError, match=message):
        shop.find(name=value)
    with pytest.raises(InvalidRequestError, match=message):
        shop.find("a", value)
    with pytest.raises(InvalidRequestError, match="name is None"):
        shop.find(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="find has no argument 'wher'; did you mean 'where'"):
        shop.find("a", wher={})  # type: ignore[call-arg]
    assert shop.find("a", None, where=value) == ("a", None, value)
    assert shop._own(value) is value  # noqa: SLF001 - the test is about it


@pytest.mark.parametrize("value", [1, 0, None, "yes"])
def test_an_argument_that_is_a_flag_is_checked(value: Any) -> None:
    """True and False, and nothing that Python counts as true or false."""
    with pytest.raises(InvalidRequestError, match=f"^is_late is {value!r}; it must be True or False$"):
        _Shop().open(is_late=value)
    assert _Shop().open(until="8 pm", is_late=True) == ("8 pm", True)


@pytest.mark.parametrize(
    ("time", "fault"),
    [
        (datetime(2026, 5, 1), "as_of is 2026-05-01T00:00:00; it must be a datetime with a time zone"),  # noqa: DTZ001
        ("yesterday", "as_of is 'yesterday'; it must be a datetime with a time zone"),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))), "years 1 to 9999"),
        (datetime(2026, 5, 1, tzinfo=timezone(timedelta(hours=20))), "less than 16 hours from UTC"),
    ],
)
def test_a_time_that_cannot_be_stored_is_refused_by_its_name(time: Any, fault: str) -> None:
    """Without a zone, not a time, beyond the calendar in UTC, and in a zone that PostgreSQL cannot read."""
    with pytest.raises(InvalidRequestError, match=fault):
        checked_time("as_of", time)


def test_a_value_that_python_cannot_write_is_refused_too() -> None:
    """Python raises ``ValueError`` for the text of an integer of more than 4,300 digits."""
    huge: Any = 10**5000
    with pytest.raises(InvalidRequestError, match="helpful is a number of many digits; it must be True or False"):
        check_flags(helpful=huge)
    with pytest.raises(InvalidRequestError, match="actor is a number of many digits; it must be a text"):
        check_text("actor", huge, 9)
    assert written([huge]) == "a list with a number of many digits"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("12345678", "'12345678'"),
        ("123456789", "'1234567…'"),
        ("it's 6789", '"it\'s 67…"'),
        (b"12345678", "b'123456…'"),
        (["1234", 6], "['1234', …"),
        (12345678901, "123456789…"),
    ],
)
def test_a_cut_value_ends_with_an_ellipsis(value: object, shown: str) -> None:
    """In a text within its quotes. The whole has the given length."""
    assert written(value, 10) == shown
    assert len(written("a" * 100)) == 80


def test_a_number_that_is_not_above_0_or_too_large_is_refused() -> None:
    """The message gives an example. Python itself cannot write the last number."""
    values: list[Any] = [0, -1, float("nan"), True, "5", None, 11, 10**5000]
    for value in values:
        with pytest.raises(InvalidRequestError, match=r"seconds is .*; it must be a number above 0, at most 10, such"):
            checked_positive("seconds", value, "2", 10)
    with pytest.raises(InvalidRequestError, match="share is a number of many digits"):
        checked_number("share", values[-1])
    assert checked_positive("seconds", 0.5, "2", 10) == 0.5
