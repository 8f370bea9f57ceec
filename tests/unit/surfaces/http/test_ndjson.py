"""Lines are cut out of a stream, however it is parted."""

from __future__ import annotations

import pytest

from retrieval.surfaces.http.bulk import LineCutter, StreamLine

STREAM = b"\xef\xbb\xbfone\r\n\n  \ntwo\nlonger than that\nthree"
LINES = [
    StreamLine(1, b"one\r"),
    StreamLine(4, b"two"),
    StreamLine(5, b"", too_long=True),
    StreamLine(6, b"three"),
]


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_lines_do_not_depend_on_the_parts_in_which_they_come(size: int) -> None:
    """Blank ones count and are left out; of one that is too long nothing is kept; the last one needs no end."""
    cutter = LineCutter(max_line_bytes=8)
    parts = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert [*(line for part in parts for line in cutter.feed(part)), *cutter.end()] == LINES


def test_a_line_of_just_the_limit_is_taken() -> None:
    """Its end does not count."""
    cutter = LineCutter(max_line_bytes=4)
    assert cutter.feed(b"1234\n12345\n") == [StreamLine(1, b"1234"), StreamLine(2, b"", too_long=True)]
    assert cutter.end() == []
