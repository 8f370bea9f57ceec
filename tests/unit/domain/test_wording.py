"""Numbers as messages write them."""

from __future__ import annotations

from retrieval.domain.wording import several


def test_numbers_agree_with_their_noun() -> None:
    """One item, several items."""
    assert [several(number, "item") for number in (0, 1, 1200)] == ["0 items", "1 item", "1,200 items"]
    assert [several(2, noun) for noun in ("query", "search", "index")] == ["2 queries", "2 searches", "2 indexes"]
