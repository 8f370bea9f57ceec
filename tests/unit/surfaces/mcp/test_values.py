"""Arguments as their schemas have them, and the texts of answers."""

from __future__ import annotations

import pytest

from retrieval.surfaces.mcp.items import HitAnswer
from retrieval.surfaces.mcp.values import as_declared, entry, note_lines


@pytest.mark.parametrize(
    ("schema", "sent", "meant"),
    [
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, "many", "many"),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "integer"}, "3.0", 3),
        ({"type": "integer"}, 3.5, 3.5),
        ({"type": "integer"}, float("inf"), float("inf")),
        ({"type": "number"}, 3.0, 3.0),
        (
            {"type": "object", "additionalProperties": {"type": "array"}},
            {"q": "1", "p": ["2"]},
            {"q": ["1"], "p": ["2"]},
        ),
        ({"type": "object", "additionalProperties": True}, {"q": "1"}, {"q": "1"}),
        ({"type": "boolean"}, "true", True),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "0.5", 0.5),
        ({"type": "string"}, "3", "3"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", "null"),
        ({"type": "array"}, "R-001", ["R-001"]),
        ({"type": "array"}, "17", ["17"]),
        ({"type": "array"}, '["a", "b"]', ["a", "b"]),
        ({"type": "array"}, {"id": "a"}, [{"id": "a"}]),
        ({"type": "array"}, '{"id": "a"}', [{"id": "a"}]),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, None, None),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, '{"tags": "a"}', {"tags": "a"}),
    ],
)
def test_an_argument_is_taken_as_its_schema_has_it(schema: dict[str, object], sent: object, meant: object) -> None:
    """JSON in a text, one value in place of a list, 3.0 for 3; where a text is asked for it stays one."""
    assert as_declared(sent, schema) == meant
    assert type(as_declared(sent, schema)) is type(meant)


SPACED = " My  Doc 10.00\u202fAM\u00a0.pdf"


def test_a_client_can_give_back_what_an_answer_names() -> None:
    """Ids, kinds, tags, attributes and their values are exact, but for characters that may not be stored."""
    hit = HitAnswer(
        id=SPACED, score=1, relevance=None, kind=SPACED, tags=[SPACED], metadata={SPACED: ["a \x1b[31m\u202e\n b"]}
    )
    plain = hit.model_dump()
    assert (plain["id"], plain["kind"], plain["tags"]) == (SPACED, SPACED, [SPACED])
    assert plain["metadata"] == {SPACED: ["a \n b"]}


def test_a_name_in_the_text_can_be_copied() -> None:
    """It is a JSON string with escapes for the spaces that look like others."""
    assert entry(SPACED, " head", "") == r'**[" My  Doc 10.00\u202fAM\u00a0.pdf"]** head'
    assert note_lines(["no item has 'a  b'\nnow"]) == ["Note: no item has 'a  b' now"]
