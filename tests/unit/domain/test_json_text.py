"""JSON that others write, read strictly."""

from __future__ import annotations

import json

import pytest

from retrieval.domain.checks import JSONSyntaxError, JSONTextError, json_of


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True, "é"], "b": {"a": {}}}, [], "text", 0])
def test_json_is_read_from_texts_and_from_utf8(value: object) -> None:
    """With or without a byte order mark; the same name in different objects is no repetition."""
    text = json.dumps(value, ensure_ascii=False)
    assert [json_of(one) for one in (text, text.encode(), text.encode("utf-8-sig"))] == [value] * 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_another_encoding_is_named(encoding: str) -> None:
    """Of Unicode's; also without a byte order mark."""
    with pytest.raises(JSONTextError, match="UTF-16 or UTF-32 by its first bytes; send it as UTF-8"):
        json_of('{"a": 1}'.encode(encoding))


@pytest.mark.parametrize(
    ("text", "reason", "is_syntax"),
    [
        ('{"a": 1, "b": {"c": 1, "d": 2, "c": 1}}', "the member 'c' stands twice in one object; write it once", False),
        ('{"a": 1, "\\u0061": 2}', "the member 'a' stands twice", False),
        ('{"a": NaN}', "NaN is no JSON number", False),
        ('{"a": -Infinity}', "-Infinity is no JSON number", False),
        ("[" * 100_000, "nested too deeply", False),
        ("9" * 5000, "a number of too many digits", False),
        (b'{"a": "\xff"}', r"byte 8 \(0xff\) is not UTF-8", False),
        (b'{"a": "\xc3', "ends within a character", True),
        ("", r"not JSON: Expecting value \(column 1\)", True),
        ('{\n"a" 1}', r"Expecting ':' delimiter \(line 2, column 5\)", True),
    ],
)
def test_what_is_not_taken_has_a_reason(text: str | bytes, reason: str, *, is_syntax: bool) -> None:
    """What is no JSON at all is told from JSON that is refused."""
    with pytest.raises(JSONTextError, match=reason) as caught:
        json_of(text)
    assert isinstance(caught.value, JSONSyntaxError) is is_syntax
