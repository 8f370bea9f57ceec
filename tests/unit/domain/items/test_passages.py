"""Passages: chunks that follow one another as one text, within a budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from retrieval.domain.items.item import Item
from retrieval.domain.items.passages import (
    Passage,
    cut_to_room,
    fitting,
    page_of,
    passages_of,
    position_of,
    positions_around,
)
from retrieval.domain.search.hit import Explanation, Hit

TEXTS = ("One is here.", "here. Two follows it.", "Three ends it.")
OVERLAPS = (0, 6, 0)


def attributes_of(number: int, document: str = "a.md") -> dict[str, Any]:
    """The attributes of a chunk."""
    return {
        "document": document, "document_title": "Book", "headings": ["Ch", str(number)], "chunk": number,
        "overlap": OVERLAPS[number], "page": number + 1,
    }  # fmt: skip


def hit(rank: int, number: int, document: str = "a.md") -> Hit:
    """A chunk that was found."""
    return Hit(
        item_id=f"{document}#{number}", score=1 / rank, rank=rank, explanation=Explanation("", ()),
        body=TEXTS[number], attributes=attributes_of(number, document),
    )  # fmt: skip


def chunk(number: int) -> Item:
    """A chunk next to a hit."""
    return Item(item_id=f"a.md#{number}", body=TEXTS[number], attributes=attributes_of(number))


def always(_page: str) -> bool:
    """There is room for anything."""
    return True


def test_chunks_that_follow_one_another_are_one_passage() -> None:
    """Shared text appears once; a new heading is shown."""
    [passage], text, left_out = passages_of([hit(1, 1), hit(2, 0)], {}, [], fits=always)

    assert passage.text == "One is here.\n\n**1**\n\nTwo follows it."
    assert (passage.document, passage.title, passage.headings) == ("a.md", "Book", ("Ch", "0"))
    assert (passage.page, passage.last_page, passage.rank, passage.item_ids) == (1, 2, 1, ("a.md#0", "a.md#1"))
    assert "Source: a.md, pages 1 to 2\n\n> One is here.\n" in text
    assert left_out == 0


def test_chunks_of_one_section_are_joined_without_a_seam() -> None:
    """Their text equals that of the document."""
    first, two = hit(1, 0), hit(2, 1)
    same = {"headings": ["Ch"]}
    hits = [replace(passage, attributes={**passage.attributes, **same}) for passage in (first, two)]

    assert passages_of(hits, {}, [], fits=always)[0][0].text == "One is here. Two follows it."


def test_attributes_of_other_types_than_those_of_chunks_are_passed_over() -> None:
    """Any item may have attributes of these names."""
    other = {"overlap": "six", "page": "iv", "last_page": [1], "headings": 3}
    hits = [replace(passage, attributes={**passage.attributes, **other}) for passage in (hit(1, 0), hit(2, 1))]

    [passage], _, _ = passages_of(hits, {}, [], fits=always)
    assert passage.text == "One is here.\n\nhere. Two follows it."
    assert (passage.page, passage.last_page, passage.headings) == (None, None, ())
    assert "### 1. a.md\n" in page_of([replace(passage, title="")]), "a text without a title is named by its document"


def test_hits_come_before_what_stands_beside_them() -> None:
    """Room goes to hits first, then to their neighbours."""
    beside = {("a.md", 1): chunk(1), ("a.md", 2): chunk(2)}
    hits = [hit(1, 0), hit(2, 2, "b.md")]
    positions = positions_around(hits, 2)
    passages, _, _ = passages_of(hits, beside, positions, fits=lambda page: page.count("\n> ") <= 4)

    assert [(passage.document, len(passage.item_ids)) for passage in passages] == [("a.md", 2), ("b.md", 1)]


def test_hits_without_room_are_counted() -> None:
    """A smaller hit behind a large one may have room all the same."""
    hits = [hit(1, 0), hit(2, 1, "b.md"), hit(3, 2, "c.md")]
    passages, text, left_out = passages_of(hits, {}, [], fits=lambda page: "Two" not in page)

    assert [passage.document for passage in passages] == ["a.md", "c.md"]
    assert left_out == 1
    assert text == page_of(passages)


def room_for(characters: int) -> Any:
    """A budget for that many characters of stored text."""
    return lambda page: sum(len(line) for line in page.splitlines() if line.startswith("> ")) <= characters


def test_the_best_hit_that_does_not_fit_whole_is_cut_to_the_room() -> None:
    """Neither a smaller hit nor a neighbour replaces it."""
    large = replace(hit(2, 0, "b.md"), body="x" * 500)
    hits, fits = [hit(1, 0), large, hit(3, 2, "c.md")], room_for(60)
    assert fitting(hits, fits=fits) == 1

    cut = cut_to_room(hits[:1], large, lambda size: "y" * size, fits=fits)
    passages, text, left_out = passages_of(
        [hits[0], hits[2]], {("b.md", 1): chunk(1)}, [("b.md", 1)], fits=fits, cut=cut
    )

    assert [(passage.document, passage.cut) for passage in passages] == [("a.md", False), ("b.md", True)]
    assert passages[1].text == "y" * (60 - 2 - len("> One is here."))
    assert "Source: b.md, page 1, cut to the room\n" in text
    assert left_out == 1


def test_a_hit_is_left_out_where_hardly_a_word_has_room() -> None:
    """A few letters would say nothing."""
    assert cut_to_room([], replace(hit(1, 0), body="x" * 500), lambda size: "y" * size, fits=room_for(10)) is None
    assert fitting([hit(1, 0)], fits=always) == 1


def test_nothing_fits() -> None:
    """The answer has no page."""
    assert passages_of([hit(1, 0)], {}, [], fits=lambda _: False) == ((), "", 1)
    assert passages_of([], {}, [], fits=always) == ((), "", 0)


def test_an_item_that_is_not_a_chunk_is_a_passage_by_itself() -> None:
    """Prompts can use collections of ordinary items too."""
    plain = Hit(item_id="n-1", score=1.0, rank=1, explanation=Explanation("", ()), title="Note", body="Hello.")
    [passage], text, _ = passages_of([plain], {}, [], fits=always)

    assert passage == Passage(document="n-1", title="Note", text="Hello.", rank=1, score=1.0, item_ids=("n-1",))
    assert "### 1. Note\n\nSource: n-1\n\n> Hello." in text


def test_stored_text_forges_no_heading() -> None:
    """This applies to titles and texts."""
    evil = Hit(
        item_id="x\n# y",
        score=1.0,
        rank=1,
        explanation=Explanation("", ()),
        title="a\n### 2. fake",
        body="b\n### 3. fake",
    )
    page = passages_of([evil], {}, [], fits=always)[1]

    assert [line for line in page.splitlines() if line.startswith("#")] == ['### 1. "a ### 2. fake"']


def test_positions_around_are_the_nearest_first() -> None:
    """Hits themselves and positions before the first are left out."""
    assert positions_around([hit(1, 0), hit(2, 2)], 2) == [("a.md", 1), ("a.md", 3), ("a.md", 4)]
    assert positions_around([hit(1, 0)], 0) == []
    assert position_of(chunk(1)) == ("a.md", 1)
    assert position_of(Item(item_id="x", attributes={"document": "a", "chunk": True})) is None
