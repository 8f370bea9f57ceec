"""Memories as Markdown: the stated format, which no memory's text can break out of, within bounds."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.apps.memories.engine import NOTHING, context_text
from retrieval.apps.memories.requests import RelevantMemory, bounds_of
from retrieval.domain.checks import STORED_NOTE, named
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import Standing
from retrieval.domain.search.hit import Explanation

WHEN = datetime(2025, 11, 22, 10, tzinfo=UTC)
HOSTILE = st.text(alphabet="ab #*`~_-<>!\n\r\t\x0b\x0c\x1c\x85\u2028\u2029\u202e\\()[]", max_size=60)
BLOCK = re.compile(
    r"### Memory (?P<number>\d+) \((?P<kind>[^\n]*)\)\n"
    r"\*\*Created\*\*: (?P<created>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\n"
    r"\*\*Relevance\*\*: (?P<relevance>\d\.\d\d)\n"
    r"> \*\*Summary\*\*:(?P<summary>[^\n]*)\n"
    r"> \*\*Content\*\*:(?P<content>[^\n]*)\n"
    r"\*\*Record\*\*: added by nobody named · not rated yet · retrieved 0 times before"
)


def memory(**changed: Any) -> RelevantMemory:
    """A memory with something everywhere."""
    fields = {
        "memory_id": "m1", "project_id": "p", "interaction_type": "insights", "computed_relevance_score": 0.8512,
        "rank": 1, "explanation": Explanation("union", ()), "occurred_at": WHEN,
        "summary": "Generated insights for hypothesis testing", "text": "Key findings",
        "content": {"key_findings": ["a", "b"], "recommendations": ["c"]}, "user_id": None, "links": {},
        "relevance_score": 1.0, "accesses": 0, "last_accessed_at": None, "expires_at": None, "superseded_by": None,
        "status": "active", "metadata": {}, "created_at": WHEN, "updated_at": WHEN,
    }  # fmt: skip
    return RelevantMemory(**(fields | changed))  # type: ignore[arg-type]


def test_the_format_is_the_stated_one() -> None:
    """Title with the number of memories; of each its type, time, relevance with two digits, summary and content."""
    other = memory(
        memory_id="m2",
        interaction_type="summary",
        computed_relevance_score=0.5,
        content="Plain text.",
        summary="Summed up",
    )

    fared = Standing(item_id="m1", created_at=WHEN, uses=3, successes=2, last_used_at=WHEN)
    entry = memory(user_id="ann", accesses=1)

    assert context_text([entry, other], bounds_of(), standings={"m1": fared})[0] == (
        "## Previous Context (2 relevant memories)\n"
        "\n"
        f"{STORED_NOTE}\n"
        "\n"
        "### Memory 1 (insights)\n"
        "**Created**: 2025-11-22T10:00:00\n"
        "**Relevance**: 0.85\n"
        "> **Summary**: Generated insights for hypothesis testing\n"
        "> **Content**: Key findings: [a, b], Recommendations: [c]\n"
        "**Record**: added by ann · helped in 2 of 3 uses · retrieved once before\n"
        "\n"
        "### Memory 2 (summary)\n"
        "**Created**: 2025-11-22T10:00:00\n"
        "**Relevance**: 0.50\n"
        "> **Summary**: Summed up\n"
        "> **Content**: Plain text.\n"
        "**Record**: added by nobody named · not rated yet · retrieved 0 times before"
    )


def test_times_are_in_utc() -> None:
    """Noon in Tokyo is three in the morning, without microseconds."""
    tokyo = timezone(timedelta(hours=9))

    text = context_text([memory(occurred_at=datetime(2025, 1, 1, 12, 0, 0, 5, tzinfo=tokyo))], bounds_of())[0]

    assert "**Created**: 2025-01-01T03:00:00\n" in text


@pytest.mark.parametrize("number", ["5", None, -1, float("nan"), True])
def test_an_invalid_count_is_refused(number: Any) -> None:
    """As is what cannot count."""
    with pytest.raises(InvalidRequestError, match="count_tokens gave"):
        bounds_of(max_tokens=9, count_tokens=lambda _: number)("x")
    with pytest.raises(InvalidRequestError, match="count_tokens is 5"):
        bounds_of(count_tokens=5)  # type: ignore[arg-type]


def test_without_memories_it_says_so() -> None:
    """The page can be in a prompt as it is."""
    text, shown = context_text([], bounds_of())

    assert text == f"## Previous Context (0 relevant memories)\n\n{NOTHING}"
    assert not shown


def test_without_a_summary_the_text_begins_for_it() -> None:
    """The line is never empty."""
    assert "**Summary**: Key findings\n" in context_text([memory(summary="")], bounds_of())[0]


def test_long_content_is_shortened() -> None:
    """To the characters asked for, with three dots."""
    text, _ = context_text([memory(content="word " * 400)], bounds_of(), content_characters=50)
    line = text.splitlines()[-2]

    assert len(line.removeprefix("> **Content**: ")) <= 50
    assert line.endswith("wo...")


@given(HOSTILE, HOSTILE, HOSTILE, st.one_of(HOSTILE, st.dictionaries(HOSTILE, st.lists(HOSTILE, max_size=2))))
def test_texts_of_memories_cannot_leave_their_quotes(kind: str, summary: str, text: str, content: Any) -> None:
    """Whatever memories contain, the page has only its own lines, fences, labels and headings."""
    entry = memory(interaction_type=kind, summary=summary, text=text, content=content)

    title, note, *blocks = context_text([entry, entry], bounds_of())[0].split("\n\n")

    assert (title, note) == ("## Previous Context (2 relevant memories)", STORED_NOTE)
    matches = [BLOCK.fullmatch(block) for block in blocks]
    assert [match and match["number"] for match in matches] == ["1", "2"]
    for match in filter(None, matches):
        assert match["kind"] == named(kind) or json.loads(match["kind"])
        for part in ("summary", "content"):
            text = re.sub(r"\\.", "", match[part])
            assert not re.search(r"`{3}|~{3}|\*\*|##|<!--|-->", text), match[part]
            assert len(match[part].splitlines()) <= 1


@given(st.lists(st.integers(0, 400), max_size=6), st.integers(1, 1500))
def test_the_page_keeps_to_the_characters_and_cuts_no_header(lengths: list[int], most: int) -> None:
    """Whole memories come first, the last one perhaps with less content, and the title has their number."""
    memories = [memory(content="x" * length) for length in lengths]

    text, shown = context_text(memories, bounds_of(max_characters=most))

    assert len(text) <= most
    blocks = text.split("\n\n")[2:] if shown else []
    assert len(blocks) == len(shown)
    assert all(BLOCK.fullmatch(block) for block in blocks)
    assert not text or f"({len(blocks)} relevant memories)" in text
    whole = [block.splitlines()[-2].endswith("x" * length) for block, length in zip(blocks, lengths, strict=False)]
    assert all(whole[:-1])
    assert len(shown) == len(memories) or len(context_text(memories, bounds_of())[0]) > most


def test_tokens_are_four_characters_unless_somebody_counts_them() -> None:
    """Half the tokens for a counter by which two characters are one."""
    memories = [memory(content="x" * 400) for _ in range(4)]

    by_four, _ = context_text(memories, bounds_of(max_tokens=300))
    by_two, _ = context_text(memories, bounds_of(max_tokens=300, count_tokens=lambda text: len(text) // 2))

    assert 1000 < len(by_four) <= 1200
    assert 400 < len(by_two) <= 601


def test_where_no_memory_fits_it_says_nothing() -> None:
    """The text "nothing is remembered" would be false; if true, it is stated, if it fits."""
    assert context_text([memory()], bounds_of(max_characters=300)) == ("", [])
    assert NOTHING in context_text([], bounds_of(max_characters=100))[0]
    assert context_text([], bounds_of(max_characters=10))[0] == ""


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, "10"])
def test_a_bound_is_a_whole_number_above_zero(bound: Any) -> None:
    """Anything else is refused by name."""
    with pytest.raises(InvalidRequestError, match=r"max_characters is .*; it must be a whole number of at least 1"):
        bounds_of(max_characters=bound)
    with pytest.raises(InvalidRequestError, match="max_tokens is "):
        bounds_of(max_tokens=bound)
