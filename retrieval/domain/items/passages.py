"""Passages of documents for a prompt: hits with the chunks beside them, joined, within a budget of tokens. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import overload
from uuid import UUID

from retrieval.domain.checks import STORED_NOTE, is_whole, named, quoted_block, shown_line
from retrieval.domain.items.chunking import BETWEEN_HEADINGS
from retrieval.domain.items.item import Item
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.snippet import SMALLEST
from retrieval.domain.serialization import Serializable

ChunkPosition = tuple[str, int]
"""The id of a document, and the number of a chunk in it."""

_MAX_HEADING = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage(Serializable):
    """Consecutive chunks of a document as one text."""

    document: str
    """The document's id; of an item that is not a chunk, the item's id."""
    title: str
    """The document's title."""
    headings: tuple[str, ...] = ()
    """The headings above its beginning, the outermost first."""
    page: int | None = None
    """The page where it begins, from 1; None where the document has no pages."""
    last_page: int | None = None
    text: str
    rank: int
    """The rank of its best hit, from 1."""
    score: float
    """The score of its best hit; comparable within one search only."""
    item_ids: tuple[str, ...]
    """Its chunks, for feedback."""
    cut: bool = False
    """Whether the text is a part of a hit, around the query's words, because the whole hit had no room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages(Serializable, Sequence[Passage]):
    """The passages for a prompt. Reads like a list of passages, the most relevant first."""

    passages: tuple[Passage, ...]
    text: str
    """Markdown: each passage quoted (``>``) under a heading that names its document; empty without passages."""
    tokens: int
    """The number of tokens of ``text``."""
    left_out: int = 0
    """Hits that had no room."""
    retrieval_id: UUID | None = None
    """The identifier of the recorded search, for feedback; None: it is not recorded."""
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Passage]: ...
    def __getitem__(self, index: int | slice) -> Passage | Sequence[Passage]:
        return self.passages[index]

    def __len__(self) -> int:
        return len(self.passages)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.passages)

    def __str__(self) -> str:
        return self.text


def position_of(item: Hit | Item) -> ChunkPosition | None:
    """The position of a chunk in its document; None for an item that is not a chunk."""
    document, number = item.attributes.get("document"), item.attributes.get("chunk")
    if isinstance(document, str) and is_whole(number):
        return document, number
    return None


def positions_around(hits: Sequence[Hit], around: int) -> list[ChunkPosition]:
    """The chunks beside the hits, up to ``around`` on each side: the nearest first, then those of better hits."""
    known = {position_of(hit) for hit in hits}
    positions: dict[ChunkPosition, None] = {}
    for distance in range(1, around + 1):
        for position in (position_of(hit) for hit in hits):
            if position is not None:
                document, number = position
                positions.update(dict.fromkeys([(document, number - distance), (document, number + distance)]))
    return [position for position in positions if position[1] >= 0 and position not in known]


def fitting(hits: Sequence[Hit], *, fits: Callable[[str], bool]) -> int:
    """The number of best hits that fit whole, up to the first that does not."""
    return next((index for index in range(len(hits)) if not fits(page_of(_join(hits[: index + 1])))), len(hits))


def cut_to_room(
    before: Sequence[Hit], hit: Hit, part: Callable[[int], str], *, fits: Callable[[str], bool]
) -> Passage | None:
    """The largest part of a hit that fits behind the hits before it; None: there is hardly any room."""

    def passage(size: int) -> Passage:
        return replace(_passage([hit]), text=part(size), cut=True)

    sizes = range(SMALLEST, len(hit.body))
    fit = bisect_right(sizes, 0, key=lambda size: int(not fits(page_of(_join(before, passage(size))))))
    return passage(sizes[fit - 1]) if fit else None


def passages_of(
    hits: Sequence[Hit],
    beside: Mapping[ChunkPosition, Item],
    order: Sequence[ChunkPosition],
    *,
    fits: Callable[[str], bool],
    whole: int = 0,
    cut: Passage | None = None,
) -> tuple[tuple[Passage, ...], str, int]:
    """The passages, their text and how many hits had no room.

    The first ``whole`` hits are known to fit, with ``cut``, the passage of the next one. The others are taken in their
    order if they fit; the remaining room goes to the chunks beside them, in the order of ``order``.
    """
    parts: list[Hit | Item] = list(hits[:whole])
    passages = _join(parts, cut)
    left_out = 0
    candidates: list[Hit | Item] = [*hits[whole:], *(beside[position] for position in order if position in beside)]
    for candidate in candidates:
        if isinstance(candidate, Item) and not _is_beside(candidate, parts):
            continue
        joined = _join([*parts, candidate], cut)
        if fits(page_of(joined)):
            parts.append(candidate)
            passages = joined
        else:
            left_out += isinstance(candidate, Hit)
    return passages, page_of(passages), left_out


def _is_beside(chunk: Item, parts: Sequence[Hit | Item]) -> bool:
    position = position_of(chunk)
    taken = {position_of(part) for part in parts}
    return position is not None and any((position[0], position[1] + step) in taken for step in (-1, 1))


def _join(parts: Sequence[Hit | Item], cut: Passage | None = None) -> tuple[Passage, ...]:
    """Chunks that follow one another as one passage each; the passages in the order of their best hits."""
    positions = {position: part for part in parts if (position := position_of(part)) is not None}
    passages = [] if cut is None else [cut]
    passages += [_passage([part]) for part in parts if position_of(part) is None]
    ordered = sorted(positions)
    for _, run in groupby(enumerate(ordered), key=lambda entry: (entry[1][0], entry[1][1] - entry[0])):
        passages.append(_passage([positions[position] for _, position in run]))
    return tuple(sorted(passages, key=lambda passage: passage.rank))


def _passage(chunks: Sequence[Hit | Item]) -> Passage:
    first, last = chunks[0], chunks[-1]
    best = min((chunk for chunk in chunks if isinstance(chunk, Hit)), key=lambda hit: hit.rank)
    position = position_of(first)
    return Passage(
        document=first.item_id if position is None else position[0],
        title=str(first.attributes.get("document_title", first.title)),
        headings=_headings(first),
        page=_number(first, "page"),
        last_page=_number(last, "page") if _number(last, "last_page") is None else _number(last, "last_page"),
        text=text_of(chunks),
        rank=best.rank,
        score=best.score,
        item_ids=tuple(chunk.item_id for chunk in chunks),
    )


def _number(chunk: Hit | Item, name: str) -> int | None:
    """The attribute, if it is a number at least 0; other values are of items that are not chunks."""
    value = chunk.attributes.get(name)
    return value if is_whole(value, 0) else None


def _headings(chunk: Hit | Item) -> tuple[str, ...]:
    headings = chunk.attributes.get("headings", ())
    return tuple(map(str, headings)) if isinstance(headings, Sequence) and not isinstance(headings, str) else ()


def text_of(chunks: Sequence[Hit | Item]) -> str:
    """The chunks' texts, with shared text once, and a heading where it differs from the chunk before."""
    text, path = chunks[0].body, _headings(chunks[0])
    for chunk in chunks[1:]:
        overlap = _number(chunk, "overlap") or 0
        shared, own = chunk.body[:overlap], chunk.body[overlap:]
        between = shared[len(shared.rstrip()) :] if shared else "\n\n"
        if _headings(chunk) != path:
            path = _headings(chunk)
            between = "\n\n" + "".join(f"**{path[-1]}**\n\n" if path else "")
        text += between + own
    return text


def page_of(passages: Sequence[Passage]) -> str:
    """The passages as Markdown; stored text is quoted (``>``), so that it cannot pass for a line of the page."""
    return "\n\n".join([STORED_NOTE, *map(_block, range(1, len(passages) + 1), passages)]) if passages else ""


def _block(number: int, passage: Passage) -> str:
    parts = [passage.title, *passage.headings]
    title = BETWEEN_HEADINGS.join(part for index, part in enumerate(parts) if part and part not in parts[:index])
    pages = "" if passage.page is None else f", page {passage.page}"
    if passage.last_page not in (None, passage.page):
        pages = f", pages {passage.page} to {passage.last_page}"
    source = f"Source: {named(passage.document)}{pages}{', cut to the room' * passage.cut}"
    heading = named(shown_line(title or passage.document, _MAX_HEADING))
    return f"### {number}. {heading}\n\n{source}\n\n{quoted_block(passage.text)}"
