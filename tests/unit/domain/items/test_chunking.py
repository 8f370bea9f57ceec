"""Chunks: content, length, boundaries and titles."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidItemError, InvalidRequestError
from retrieval.domain.items.chunking import (
    MAX_HEADING,
    Block,
    Chunk,
    Chunking,
    Document,
    chunk_items,
    chunks_of,
    sentences,
)

SMALL = Chunking(max_tokens=48, overlap=8)


def count(texts: Sequence[str]) -> list[int]:
    """A word is a token, and each text has two more."""
    return [len(text.split()) + 2 for text in texts]


def words(start: int, number: int, every: int = 7) -> str:
    """``number`` different words, in sentences of seven."""
    return " ".join(f"W{at}." if (at + 1) % every == 0 else f"W{at}" for at in range(start, start + number))


def heading(*path: str) -> Block:
    """A heading of Markdown, at the end of its path."""
    return Block(f"{'#' * len(path)} {path[-1]}", path, is_heading=True)


def cut(*blocks: Block, chunking: Chunking = SMALL, title: str = "") -> list[Chunk]:
    """The chunks of a document of these blocks."""
    return chunks_of(Document(document_id="d", title=title, blocks=blocks), chunking, count)


def whole(chunks: Sequence[Chunk]) -> list[str]:
    """The words of the chunks, what two of them share once."""
    return " ".join(chunk.body[chunk.overlap :] for chunk in chunks).split()


def test_a_short_document_is_one_chunk() -> None:
    """Nothing is cut that has room."""
    assert cut(Block("one two"), Block("three"), title="T") == [Chunk(number=0, title="T", body="one two\n\nthree")]


def test_a_document_without_text_has_no_chunk() -> None:
    """Spaces are not text."""
    assert cut(Block(" \n "), Block("")) == []


def test_sections_that_have_room_are_chunks_of_their_own() -> None:
    """They are not joined, even if room is left; the heading becomes part of the title."""
    first, second = words(0, 30), words(30, 30)
    chunks = cut(heading("A"), Block(first, ("A",)), heading("B"), Block(second, ("B",)), title="Book")

    assert [(chunk.title, chunk.body, chunk.headings) for chunk in chunks] == [
        ("Book › A", first, ("A",)),
        ("Book › B", second, ("B",)),
    ]


def test_short_sections_are_joined_and_keep_their_headings() -> None:
    """A chunk of a few words would say little."""
    sections = [block for name in "ABCD" for block in (heading("Top", name), Block(words(0, 6), ("Top", name)))]
    chunks = cut(heading("Top"), *sections, heading("Long"), Block(words(0, 60), ("Long",)))

    assert chunks[0].headings == ("Top",)
    assert chunks[0].body.startswith("## A\n\nW0")
    assert "## B\n\nW0" in chunks[0].body


def test_no_chunk_ends_with_a_heading() -> None:
    """A heading stays with its text, and a heading alone makes no chunk."""
    chunks = cut(
        heading("A"),
        heading("A", "1"),
        Block(words(0, 41), ("A", "1")),
        heading("A", "2"),
        Block(words(50, 60), ("A", "2")),
    )

    assert [chunk.headings[-1] for chunk in chunks] == ["1", "2", "2"]
    assert not any(chunk.body.splitlines()[-1].startswith("#") for chunk in chunks)


def test_a_heading_at_the_very_end_is_kept() -> None:
    """No other chunk contains it."""
    assert cut(Block(words(0, 40)), heading("The end"))[-1].body.endswith("# The end")


def test_a_heading_without_room_in_a_chunk_is_cut_like_a_paragraph() -> None:
    """As pages that mark a whole paragraph as a heading have it; its text and the text below fill their chunks."""
    text = words(0, 200, every=1000)
    marked = Block(f"# {text}", (text[:MAX_HEADING],), is_heading=True)
    chunks = cut(marked, Block(words(200, 60), marked.headings))

    assert whole(chunks) == ["#", *text.split(), *words(200, 60).split()]
    assert min(len(chunk.body.split()) for chunk in chunks) > 20


def test_a_long_section_is_cut_between_paragraphs() -> None:
    """As long as a chunk is half full by then."""
    parts = [words(at, 25) for at in (0, 25, 50)]
    chunks = cut(*map(Block, parts), chunking=replace(SMALL, overlap=0))

    assert [chunk.body for chunk in chunks] == parts


def test_a_long_paragraph_is_cut_between_sentences_and_overlaps_in_whole_ones() -> None:
    """The end of the previous chunk begins the next one."""
    chunks = cut(Block(words(0, 120)))

    assert all(chunk.body.endswith(".") or chunk is chunks[-1] for chunk in chunks)
    assert [chunk.body[: chunk.overlap].split() for chunk in chunks[1:]] == [
        before.body.split()[-7:] for before in chunks[:-1]
    ]
    assert chunks[0].overlap == 0


def test_a_sentence_without_end_is_cut_between_words_and_overlaps_all_the_same() -> None:
    """The overlap has the requested number of words."""
    chunks = cut(Block(" ".join(f"w{at}" for at in range(100))))

    assert len(chunks) > 2
    assert all(len(chunk.body[: chunk.overlap].split()) == 8 for chunk in chunks[1:])


def test_a_word_without_end_is_cut() -> None:
    """It is cut even if the tokenizer takes it for one token."""
    chunks = cut(Block("x" * 5000))

    assert "".join(chunk.body[chunk.overlap :] for chunk in chunks) == "x" * 5000
    assert max(len(chunk.body) for chunk in chunks) <= 48 * 16


def test_code_is_cut_between_lines_and_keeps_its_indentation() -> None:
    """A line is never split."""
    lines = [f"    call_{at}(a, b)" for at in range(60)]
    chunks = cut(Block("\n".join(lines), is_lines=True))

    assert all(line in lines for chunk in chunks for line in chunk.body.split("\n"))


def test_chunks_have_their_pages() -> None:
    """They are those of the new text in the chunk."""
    chunks = cut(Block(words(0, 30), page=3), Block(words(30, 60), page=4))

    assert [(chunk.page, chunk.last_page) for chunk in chunks] == [(3, 3), (4, 4), (4, 4)]


def test_a_title_leaves_room_for_the_text() -> None:
    """Metadata that is longer than a chunk fills at most a quarter of it; the innermost heading stays."""
    long = " ".join(["very"] * 60)
    [*_, chunk] = cut(Block(words(0, 60), (long, "inner")), title="A title of six words here")

    assert max(count([chunk.text])) <= SMALL.max_tokens
    assert chunk.title == "A title of six words here › inner"
    assert chunk.headings == (long, "inner")


def test_headings_without_room_in_the_title_stay_in_the_text() -> None:
    """Otherwise no chunk would contain their words."""
    outer, inner = "Rules for leave in the north", "Leave of parents of young children"
    long = words(0, 60)
    for path in ((outer, inner), (outer, inner, "How to ask")):
        first, *_ = cut(*(heading(*path[:depth]) for depth in range(1, len(path) + 1)), Block(long, path), title="Book")
        assert not set(" ".join(path).split()) - set(first.text.split())
        assert max(count([first.text])) <= SMALL.max_tokens
    assert first.title == "Book › How to ask"
    assert first.body.startswith(f"# {outer}\n\n## {inner}\n\n### How to ask\n\nW0")


def test_a_heading_above_a_section_of_its_own_is_kept_if_no_title_has_room() -> None:
    """It begins the section's first chunk."""
    outer, inner = words(100, 9), words(200, 9)
    sections = [block for path in ((outer, "A"), (outer, "B")) for block in (heading(*path), Block(words(0, 30), path))]
    chunks = cut(heading(outer), *sections, heading(inner), Block(words(0, 40), (inner,)), title="A book")

    assert chunks[0].body.startswith(f"# {outer}")
    assert not any(chunk.body.splitlines()[-1].startswith("#") for chunk in chunks)


def test_a_heading_that_a_path_cuts_stays_in_the_text() -> None:
    """The path has 200 characters of it."""
    text = "Abcdefghi " * 25
    cut_short = Block(f"# {text}", (text[:MAX_HEADING],), is_heading=True)

    [chunk] = cut(cut_short, Block("one", cut_short.headings), chunking=Chunking())
    assert chunk.body == f"# {text.strip()}\n\none"


BLOCKS = st.lists(
    st.builds(
        lambda sizes, path, is_lines: Block(
            ("\n" if is_lines else " ").join(words(sum(sizes[:at]), size) for at, size in enumerate(sizes)),
            path,
            is_lines=is_lines,
        ),
        st.lists(st.integers(1, 70), min_size=1, max_size=4),
        st.sampled_from([(), ("A",), ("A", "B"), ("C",), ("C", "D", "E")]),
        st.booleans(),
    ),
    max_size=12,
)


@given(BLOCKS, st.integers(32, 100), st.integers(0, 8))
def test_nothing_is_lost_and_no_chunk_is_too_long(blocks: list[Block], tokens: int, overlap: int) -> None:
    """This holds for any document, and every overlap is the end of the previous chunk."""
    chunks = cut(*blocks, chunking=Chunking(max_tokens=tokens, overlap=overlap), title="A title")

    assert whole(chunks) == [word for block in blocks for word in block.text.split()]
    assert all(size <= tokens for size in count([chunk.text for chunk in chunks]))
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    for before, chunk in pairwise(chunks):
        shared = chunk.body[: chunk.overlap].rstrip()
        assert before.body.endswith(shared)


def test_tokens_of_a_whole_that_are_more_than_those_of_its_parts_are_minded() -> None:
    """Tokens of byte pairs need not add up: a chunk that is too long is cut again."""

    def greedy(texts: Sequence[str]) -> list[int]:
        return [number + len(text.split()) // 5 for number, text in zip(count(texts), texts, strict=True)]

    chunks = chunks_of(Document(document_id="d", blocks=(Block(words(0, 300)),)), SMALL, greedy)

    assert max(greedy([chunk.text for chunk in chunks])) <= SMALL.max_tokens


@pytest.mark.parametrize("text", [words(0, 5000), "a" * 50_000, "word " * 5000])
def test_no_text_that_is_clearly_too_long_is_counted(text: str) -> None:
    """A tokenizer reads a huge text for seconds, and the process waits for it."""

    def count_short(texts: Sequence[str]) -> list[int]:
        assert max(map(len, texts)) <= SMALL.max_tokens * 16
        return count(texts)

    assert len(chunks_of(Document(document_id="d", blocks=(Block(text),)), SMALL, count_short)) > 50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("Dr. Smith et al. saw it, e.g. so. See Fig. 3.", ["Dr. Smith et al. saw it, e.g. so. ", "See Fig. 3."]),
        ("It costs 3.50 in all. (So he said.) Yes.", ["It costs 3.50 in all. ", "(So he said.) ", "Yes."]),
        ("中文。好的！", ["中文。", "好的！"]),
        ("List:\n- one\n- two", ["List:\n", "- one\n", "- two"]),
        ("", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    """They end where one of that language does, and together they are the text."""
    assert sentences(text) == expected


@pytest.mark.parametrize("is_lines", [False, True])
@pytest.mark.parametrize("repeated", ["!", '."', ". ", "。", "\n1", "- ", "a", "a. b ", "\t", "\u2003", "\n "])
def test_a_long_run_of_anything_is_cut_in_a_moment(repeated: str, is_lines: bool) -> None:  # noqa: FBT001
    """No sign, space or word costs more the more of it there is: a text comes from anybody."""
    text = repeated * (100_000 // len(repeated))
    start = time.process_time()

    chunks = cut(Block(f"begin\n{text}\nend", is_lines=is_lines))

    assert time.process_time() - start < 2
    assert "".join("".join(whole(chunks)).split()) == "".join(f"begin{text}end".split())


@pytest.mark.parametrize(
    "numbers", [{"max_tokens": 31}, {"max_tokens": True}, {"max_tokens": 64, "overlap": 17}, {"overlap": -1}]
)
def test_numbers_outside_their_range_are_refused(numbers: dict[str, Any]) -> None:
    """The message says what the range is."""
    with pytest.raises(InvalidRequestError, match="must be a whole number from"):
        Chunking(**numbers)


def test_a_chunk_is_never_longer_than_the_model_reads() -> None:
    """This overrides the requested size; a model of unknown length sets no limit."""
    assert Chunking(max_tokens=1000, overlap=200).within(256) == Chunking(max_tokens=256, overlap=64)
    assert Chunking(max_tokens=1000).within(None).max_tokens == 1000


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("", "1 to 480 bytes"),
        ("x" * 481, "1 to 480 bytes"),
        (3, "must be UTF-8 text; rename"),
        (os.fsdecode(b"caf\xe9.md"), "must be UTF-8 text; rename"),
        ("a\0", r"holds U\+0000 \(a NUL byte\) at character 2, which cannot be stored there; rename"),
        ("new\nline.md", r"holds U\+000A \(a line break\) at character 4, which cannot be stored there; rename"),
    ],
)
def test_an_id_that_no_document_can_have_is_refused(key: Any, fault: str) -> None:
    """The reason speaks of the document's name, not of the ids of its chunks."""
    with pytest.raises(InvalidItemError, match=fault):
        Document(document_id=key)


def test_items_are_named_by_their_text() -> None:
    """Unchanged chunks keep their id if text is inserted before them; repeated ones differ."""
    # Metadata named like the attributes of a chunk are left out, also where the chunk has no such attribute.
    metadata = {"team": "ops", "chunk": "mine", "overlap": 3, "fingerprint": "mine"}
    document = Document(document_id="a.md", title="A", attributes=metadata)
    parts = [Chunk(number=at, title="A", body=body) for at, body in enumerate(["new", "old", "old"])]
    before = chunk_items(document, [replace(parts[1], number=0)], "f1")
    after = chunk_items(document, parts, "f2")

    assert after[1].item_id == before[0].item_id
    assert after[2].item_id == f"{after[1].item_id}-2"
    assert after[0].attributes == {
        "team": "ops", "document": "a.md", "document_title": "A", "headings": [], "chunk": 0, "fingerprint": "f2"
    }  # fmt: skip
    assert (after[1].kind, after[1].attributes["chunk"]) == ("chunk", 1)
    assert "fingerprint" not in after[1].attributes
