"""Long documents as chunks that a model reads whole: along headings, paragraphs and sentences, with overlap. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise, takewhile
from typing import Any

from retrieval.domain.checks import checked_whole, checks_argument_names, clean_text, is_unicode, text_fault, written
from retrieval.domain.errors import InvalidItemError
from retrieval.domain.frozen import Frozen
from retrieval.domain.items.item import MAX_KEY_BYTES, Item

CountTokens = Callable[[Sequence[str]], Sequence[int]]
"""Counts each text's tokens for its model, including those that the embedder adds."""

CHUNK = "chunk"

MAX_DOCUMENT_ID_BYTES = MAX_KEY_BYTES - 32
"""Longest id of a document, in UTF-8 bytes: its chunks' ids are longer."""

BETWEEN_HEADINGS = " › "

_PARAGRAPHS = "\n\n"
_LEAST_LIMIT = 8
_TITLE_SHARE = 4
"""Title and headings take at most a chunk's tokens divided by this number."""
MAX_HEADING = 200
"""The characters of a heading that a path keeps; the text has the whole heading."""
_SMALL_SHARE = 4
"""A section, or a paragraph of a long one, joins the next if it is shorter than a chunk divided by this number."""
_CHARACTERS_A_TOKEN = 16
"""A longer token is not a word; some tokenizers take a line without spaces for one token, whatever its length."""

DEFAULT_TOKENS = 256
DEFAULT_OVERLAP = 32
MIN_TOKENS, MAX_TOKENS = 32, 32_768


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    """The settings for cutting documents. Raises ``InvalidRequestError`` for a number outside its range."""

    max_tokens: int = DEFAULT_TOKENS
    """The most tokens of a chunk with its title, 32 to 32,768; never more than the model reads."""
    overlap: int = DEFAULT_OVERLAP
    """Tokens of the previous chunk that a chunk repeats if a paragraph is cut; 0 to a quarter of ``max_tokens``."""

    def __post_init__(self) -> None:
        checked_whole("max_tokens", self.max_tokens, MIN_TOKENS, MAX_TOKENS)
        checked_whole("overlap", self.overlap, 0, self.max_tokens // 4)

    def within(self, most: int | None) -> Chunking:
        """The settings for a model that reads at most ``most`` tokens (None: any number)."""
        if most is None or self.max_tokens <= most:
            return self
        tokens = max(most, MIN_TOKENS)
        return Chunking(max_tokens=tokens, overlap=min(self.overlap, tokens // 4))


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a heading, a list, a table or a piece of code of a document."""

    text: str
    headings: tuple[str, ...] = ()
    """The headings above it, the outermost first; those of a heading include the heading itself."""
    page: int | None = None
    is_heading: bool = False
    is_lines: bool = False
    """Whether the block is cut between lines, as code and tables are, and not between sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text with its structure. Raises ``InvalidItemError`` for an id that a document cannot have."""

    document_id: str
    """1 to 480 bytes; of a document in a folder, its path below the folder."""
    title: str = ""
    blocks: tuple[Block, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=Frozen)
    """The document's attributes, which each of its chunks gets, except those named in ``CHUNK_ATTRIBUTES``."""

    def __post_init__(self) -> None:
        key = self.document_id
        if not isinstance(key, str) or not is_unicode(key):
            raise InvalidItemError(f"{written(key)}: a document's id must be UTF-8 text; rename the document")
        if fault := text_fault(key, is_line=True):
            raise InvalidItemError(
                f"{written(key)}: a document's id holds {fault}, which cannot be stored there; rename the document"
            )
        if not 1 <= len(key.encode()) <= MAX_DOCUMENT_ID_BYTES:
            raise InvalidItemError(f"{written(key)}: a document's id has 1 to {MAX_DOCUMENT_ID_BYTES} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of a document."""

    number: int
    """The chunk's number, from 0, in the order of the document."""
    title: str
    body: str
    headings: tuple[str, ...] = ()
    overlap: int = 0
    """Characters at the beginning of ``body`` that the chunk before has too."""
    page: int | None = None
    last_page: int | None = None

    @property
    def text(self) -> str:
        """The text that is embedded and indexed."""
        return f"{self.title}\n{self.body}".strip()


def chunks_of(document: Document, chunking: Chunking, count: CountTokens) -> list[Chunk]:
    """The document's chunks, in order; together they hold all of its text.

    A section that fits becomes one chunk. A longer one is cut between its parts, else between paragraphs; a longer
    paragraph between sentences, words or characters, with overlap. Short sections and paragraphs are joined.
    """
    blocks = [block for block in document.blocks if block.text.strip()]
    if not blocks:
        return []
    room = chunking.max_tokens - max(count([""]))
    paths = {block.headings[:depth] for block in blocks for depth in range(len(block.headings) + 1)}
    titles = {path: _title(document.title, path, room // _TITLE_SHARE, count) for path in paths}
    limit = room - max(_sizes([title.text for title in titles.values()], room, count))
    while True:
        cuts = _cut(blocks, titles, max(limit, _LEAST_LIMIT), chunking.overlap, count)
        chunks = [_chunk(number, pieces, lead, titles) for number, (pieces, lead) in enumerate(cuts)]
        # Tokens of a whole can be more than those of its parts.
        beyond = max(count([chunk.text for chunk in chunks])) - chunking.max_tokens
        if beyond <= 0 or limit <= _LEAST_LIMIT:
            return chunks
        limit -= beyond


def _sizes(texts: Sequence[str], most: int, count: CountTokens) -> list[int]:
    """The tokens of each text by itself, without those that the embedder adds; of any above ``most``, a lower bound.

    Only texts that may have at most ``most`` tokens are counted, because a tokenizer reads a huge text for seconds.
    """
    least = [-(-len(text) // _CHARACTERS_A_TOKEN) for text in texts]
    around, *counts = count(["", *(text for text, size in zip(texts, least, strict=True) if size <= most)])
    counted = iter(counts)
    return [size if size > most else max(next(counted) - around, size) for size in least]


@dataclass(frozen=True, slots=True)
class _Title:
    """The title of the chunks below a path of headings."""

    text: str
    whole: frozenset[str]
    """The headings that it has from beginning to end, and the empty one."""

    def holds(self, heading: Block) -> bool:
        """Whether it has all of this heading, so that the chunk's body need not repeat it."""
        text = heading.headings[-1]
        return len(text) < MAX_HEADING and _line(text) in self.whole


_Titles = Mapping[tuple[str, ...], _Title]


def _line(heading: str) -> str:
    return clean_text(heading, is_line=True).strip()


def _title(title: str, headings: Sequence[str], most: int, count: CountTokens) -> _Title:
    """The title of a chunk below these headings, of at most ``most`` tokens."""
    parts = [part for part in map(_line, (title, *headings)) if part]
    parts = [part for index, part in enumerate(parts) if part not in parts[:index]]
    while len(parts) > 1 and _sizes([BETWEEN_HEADINGS.join(parts)], most, count)[0] > most:
        # The innermost heading says most about the chunk, and the title names its document.
        del parts[1 if len(parts) > 2 else 0]
    joined = whole = BETWEEN_HEADINGS.join(parts)
    while joined and _sizes([joined], most, count)[0] > most:
        joined = joined[: len(joined) * 3 // 4].rstrip()
    return _Title(joined, frozenset(["", *parts] if joined == whole else [""]))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block, or a part of one, that is not cut any further."""

    text: str
    tokens: int
    block: Block
    is_first: bool


_Cut = tuple[list[_Piece], str]
"""The pieces of a chunk, and the end of the chunk before that is repeated in front of them."""


_Sized = tuple[Block, int]


def _cut(blocks: Sequence[Block], titles: _Titles, limit: int, overlap: int, count: CountTokens) -> Iterator[_Cut]:
    sizes = _sizes([block.text for block in blocks], limit, count)
    runs = list(_runs(list(zip(blocks, sizes, strict=True)), 0, limit))
    above: list[_Sized] = []
    for run, following in zip(runs, [*runs[1:], []], strict=True):
        if _is_above(run, following):
            above += run
            continue
        untitled = [(heading, size) for heading, size in above if not _is_in_titles(heading, run, titles)]
        pieces, most = list[_Piece](), limit - overlap
        for block, size in [*untitled, *run]:
            pieces += _pieces(block, size, most, count)
            # A heading has to fit into one chunk with the beginning of its text.
            most = max(most - size, _LEAST_LIMIT) if block.is_heading and size <= most else limit - overlap
        above.clear()
        yield from _pack(pieces, limit, overlap, count)


def _is_above(run: Sequence[_Sized], following: Sequence[_Sized]) -> bool:
    """Whether the run consists only of headings, all in the path of the following text."""
    if not following or not all(block.is_heading for block, _ in run):
        return False
    path = run[-1][0].headings
    return following[0][0].headings[: len(path)] == path


def _is_in_titles(heading: Block, run: Sequence[_Sized], titles: _Titles) -> bool:
    """Whether the title of each chunk that may begin the run holds the heading above it."""
    paths = {
        block.headings[:depth] for block, _ in run for depth in range(len(heading.headings), len(block.headings) + 1)
    }
    return all(titles[path].holds(heading) for path in paths)


def _runs(blocks: list[_Sized], depth: int, limit: int) -> Iterator[list[_Sized]]:
    """The blocks by the sections that fit into a chunk; of a longer section by its parts, where it has any."""
    if sum(size for _, size in blocks) <= limit or all(len(block.headings) <= depth for block, _ in blocks):
        yield blocks
        return
    small: list[_Sized] = []
    for section in _sections(blocks, depth):
        tokens, small_tokens = sum(size for _, size in section), sum(size for _, size in small)
        if small and small_tokens < limit // _SMALL_SHARE and small_tokens + tokens <= limit:
            small += section
            continue
        if small:
            yield from _runs(small, depth + 1, limit)
        small = list(section)
    yield from _runs(small, depth + 1, limit)


def _sections(blocks: Sequence[_Sized], depth: int) -> Iterator[list[_Sized]]:
    """The blocks, divided where the heading at that depth changes."""
    numbers, number = [], 0
    for index, (block, _) in enumerate(blocks):
        before = blocks[index - 1][0].headings[: depth + 1] if index else block.headings[: depth + 1]
        begins = block.is_heading and len(block.headings) == depth + 1
        number += index > 0 and (begins or block.headings[: depth + 1] != before)
        numbers.append(number)
    for _, section in groupby(zip(numbers, blocks, strict=True), key=lambda pair: pair[0]):
        yield [block for _, block in section]


# Each pattern tries a run of signs or spaces only from its beginning: from every place of it, a long run takes minutes.
_SENTENCE = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s++(?=[^a-z])|[。！？]+[」』”]*\s*|\n\s*\n|\n(?=\s*(?:[-*+•]|\d+[.)])\s)"
)
_ABBREVIATION = re.compile(
    r"(?:\b[A-Za-z]|\b(?:al|approx|cf|ca|ch|dr|eq|eqs|etc|fig|figs|jr|mr|mrs|ms|nr|no|nos|p|pp|prof|ref|refs|sec|st|vol|vs))\.\s+$",
    re.IGNORECASE,
)
_LINE = re.compile(r"[^\n]*\n+|[^\n]+$")
_WORD = re.compile(r"(?:\A\s+)?\S+\s*")


def sentences(text: str) -> list[str]:
    """The sentences of a text, each with the space behind it; a list's entries count as sentences."""
    ends = [
        match.end()
        for match in _SENTENCE.finditer(text)
        if not _ABBREVIATION.search(text[max(0, match.end() - 12) : match.end()])
    ]
    return [text[start:end] for start, end in pairwise([0, *ends, len(text)]) if start < end]


def _pieces(block: Block, size: int, most: int, count: CountTokens) -> list[_Piece]:
    """The block as pieces of at most ``most`` tokens: lines or sentences, else words, else characters.

    A heading that is cut is text: as headings, which end no chunk, its pieces would each be a chunk.
    """
    text = block.text.strip("\n").rstrip() if block.is_lines else block.text.strip()
    if block.is_heading and size <= most:
        return [_Piece(text + _PARAGRAPHS, size, block, is_first=True)]
    block = replace(block, is_heading=False)
    parts = _LINE.findall(text) if block.is_lines else sentences(text)
    sized = zip(parts, _sizes(parts, most, count), strict=True)
    short = [piece for part, tokens in sized for piece in _short(part, tokens, most, count)]
    last, tokens = short[-1]
    short[-1] = last.rstrip() + _PARAGRAPHS, tokens
    return [_Piece(part, tokens, block, is_first=index == 0) for index, (part, tokens) in enumerate(short)]


def _short(text: str, size: int, most: int, count: CountTokens) -> list[tuple[str, int]]:
    """The text if it fits, else its words, and of a word that is too long its characters; each measured."""
    if size <= most:
        return [(text, size)]
    step = max(most // 4, 1)
    words = _WORD.findall(text)
    parts = [
        part
        for word, tokens in zip(words, _sizes(words, most, count), strict=True)
        for part in ([word] if tokens <= most else [word[at : at + step] for at in range(0, len(word), step)])
    ]
    return list(zip(parts, _sizes(parts, most, count), strict=True))


def _pack(pieces: Sequence[_Piece], limit: int, overlap: int, count: CountTokens) -> Iterator[_Cut]:
    """The pieces of one run as chunks of at most ``limit`` tokens."""
    if sum(piece.tokens for piece in pieces) <= limit:
        yield list(pieces), ""
        return
    start, lead, lead_tokens = 0, "", 0
    while start < len(pieces):
        end = _end(pieces, start, limit - lead_tokens, limit // _SMALL_SHARE)
        yield list(pieces[start:end]), lead
        # Text on another subject would only blur the next chunk.
        is_cut = end < len(pieces) and not pieces[end].is_first
        lead, lead_tokens = _lead(pieces[start:end], overlap, count) if is_cut else ("", 0)
        start = end


def _end(pieces: Sequence[_Piece], start: int, most: int, least: int) -> int:
    """The end of a chunk of at most ``most`` tokens: a block's first end after ``least``; never after a heading."""
    tokens, best = 0, start
    for index in range(start, len(pieces)):
        is_end = pieces[index].is_first and index > start and not pieces[index - 1].block.is_heading
        if is_end and tokens >= least:
            return index
        if index > start and tokens + pieces[index].tokens > most:
            break
        tokens += pieces[index].tokens
        best = index + 1
    while best < len(pieces) and best - 1 > start and pieces[best - 1].block.is_heading:
        best -= 1
    return best


def _lead(pieces: Sequence[_Piece], overlap: int, count: CountTokens) -> tuple[str, int]:
    """The end of a chunk of at most ``overlap`` tokens: whole sentences or lines, else words; and its tokens."""
    texts, tokens = [], 0
    for piece in reversed(pieces):
        if tokens + piece.tokens > overlap or piece.block.is_heading:
            break
        texts.append(piece.text)
        tokens += piece.tokens
    if not texts and overlap and not pieces[-1].block.is_heading:
        words = _WORD.findall(pieces[-1].text)[-overlap:]
        for word, size in zip(reversed(words), reversed(_sizes(words, overlap, count)), strict=True):
            if tokens + size > overlap:
                break
            texts.append(word)
            tokens += size
    return "".join(reversed(texts)).lstrip("\n"), tokens


def _chunk(number: int, pieces: Sequence[_Piece], lead: str, titles: _Titles) -> Chunk:
    blocks = [piece.block for piece in pieces]
    paths = [block.headings for block in blocks if not block.is_heading] or [blocks[-1].headings]
    # The headings that all of the paths begin with.
    path = tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False)))
    title, own = titles[path], list(pieces)
    # The body need not repeat headings of the title. A long path of headings, or a long heading, has no room there.
    while len(own) > 1 and _begins_path(own[0].block, path) and title.holds(own[0].block):
        del own[0]
    pages = [block.page for block in blocks if block.page is not None]
    return Chunk(
        number=number,
        title=title.text,
        body=(lead + "".join(piece.text for piece in own)).strip("\n").rstrip(),
        headings=path,
        overlap=len(lead),
        page=min(pages, default=None),
        last_page=max(pages, default=None),
    )


def _begins_path(block: Block, path: Sequence[str]) -> bool:
    return block.is_heading and path[: len(block.headings)] == block.headings


def chunk_items(document: Document, chunks: Iterable[Chunk], fingerprint: str) -> list[Item]:
    """The chunks as items with ids by their text; the first has the ``fingerprint``. Raises ``InvalidItemError``."""
    items: list[Item] = []
    times: Counter[str] = Counter()
    shared = {name: value for name, value in document.attributes.items() if name not in CHUNK_ATTRIBUTES}
    for chunk in chunks:
        key = hashlib.sha256(chunk.text.encode()).hexdigest()[:12]
        times[key] += 1
        again = f"-{times[key]}" if times[key] > 1 else ""
        items.append(
            Item(
                item_id=f"{document.document_id}#{key}{again}",
                title=chunk.title,
                body=chunk.body,
                kind=CHUNK,
                attributes={**shared, **_chunk_attributes(document, chunk, fingerprint)},
            )
        )
    return items


CHUNK_ATTRIBUTES = frozenset(
    {"document", "document_title", "headings", "chunk", "overlap", "page", "last_page", "fingerprint"}
)
"""The attributes that describe a chunk."""


def _chunk_attributes(document: Document, chunk: Chunk, fingerprint: str) -> dict[str, Any]:
    """Those of ``CHUNK_ATTRIBUTES`` that the chunk has."""
    attributes = {
        "document": document.document_id,
        "document_title": document.title,
        "headings": list(chunk.headings),
        "chunk": chunk.number,
        "overlap": chunk.overlap or None,
        "page": chunk.page,
        "last_page": chunk.last_page if chunk.last_page != chunk.page else None,
        "fingerprint": fingerprint if chunk.number == 0 else None,
    }
    return {name: value for name, value in attributes.items() if value is not None}
