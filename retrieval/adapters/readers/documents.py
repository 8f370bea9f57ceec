"""Read documents as blocks under headings: Markdown, HTML, PDF, DOCX, source code and plain text."""

from __future__ import annotations

import codecs
import io
import logging
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from retrieval.adapters.extras import require_extra
from retrieval.adapters.readers.lines import decoded
from retrieval.domain.checks import clean_text
from retrieval.domain.errors import InvalidItemError, MissingExtraError
from retrieval.domain.items.chunking import Block, Document

if TYPE_CHECKING:
    from markdownify import MarkdownConverter
    from pypdf import PdfReader

FORMATS_BY_ENDING: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys((".md", ".markdown", ".mdx"), "markdown"),
        **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
        ".pdf": "pdf",
        ".docx": "docx",
        **dict.fromkeys((".txt", ".text", ".rst", ".adoc", ".asciidoc", ".org", ".tex"), "text"),
        **dict.fromkeys(
            (
                ".bash", ".c", ".cc", ".clj", ".cpp", ".cs", ".css", ".cxx", ".dart", ".erl",
                ".ex", ".exs", ".go", ".h", ".hpp", ".hs", ".ini", ".java", ".jl", ".js", ".jsx",
                ".kt", ".kts", ".lua", ".mjs", ".ml", ".php", ".pl", ".pm", ".proto", ".ps1",
                ".py", ".pyi", ".r", ".rb", ".rs", ".scala", ".sh", ".sql", ".swift", ".tf",
                ".toml", ".ts", ".tsx", ".vue", ".yaml", ".yml",
            ),
            "code",
        ),
    }
)  # fmt: skip
"""The format of a document by the ending of its name."""

DOCUMENT_FORMATS = tuple(dict.fromkeys(FORMATS_BY_ENDING.values()))

MAX_UNPACKED_BYTES = 128 * 1024 * 1024
"""The most that a packed document may hold."""

MAX_PAGES = 10_000
MAX_HEADING = 200
"""The characters of a heading that a path keeps; the text has the whole heading."""
MAX_DEPTH = 16
"""The headings of a path; deeper ones are only in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawDocument:
    """A document that is not read yet."""

    document_id: str
    data: bytes = field(repr=False)
    format: str
    title: str = ""
    """Empty: the document's own title, else the last part of its id."""
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def format_of(name: str) -> str | None:
    """The format of a document of that name; None if its ending is unknown."""
    return FORMATS_BY_ENDING.get(PurePath(name).suffix.lower())


def read_document(raw: RawDocument) -> tuple[Document, bool]:
    """The document, and whether control or format characters were removed.

    It has its title and its blocks, each with the headings above it and its page.

    Raises ``InvalidItemError`` for a document that cannot be read, for any reason, and ``MissingExtraError`` if the
    extra ``documents`` is needed and not installed.
    """
    read = _READERS.get(raw.format)
    if read is None:
        raise InvalidItemError(f"format {raw.format!r:.40} is not known; use one of {', '.join(DOCUMENT_FORMATS)}")
    try:
        content = read(raw.data)
    except (InvalidItemError, MissingExtraError):
        raise
    except RecursionError:
        raise InvalidItemError("its parts are nested too deeply") from None
    except Exception as error:  # parsers of damaged files raise anything
        raise InvalidItemError(f"cannot be read as {raw.format} ({type(error).__name__}: {error!s:.200})") from error
    cleaned = tuple(replace(block, text=clean_text(block.text)) for block in content.blocks)
    title = raw.title or content.title or PurePath(raw.document_id).name
    document = Document(
        document_id=raw.document_id,
        title=clean_text(title, is_line=True).strip()[:MAX_HEADING],
        blocks=cleaned,
        attributes=raw.attributes,
    )
    return document, any(a.text != b.text for a, b in zip(cleaned, content.blocks, strict=True))


@dataclass(frozen=True, slots=True)
class _Content:
    blocks: Sequence[Block]
    title: str = ""


class _Path:
    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> tuple[str, ...]:
        """Add a heading unless it is too deep, and return the path."""
        self.leave(level)
        if len(self._open) < MAX_DEPTH:
            self._open.append((level, clean_text(heading, is_line=True).strip()[:MAX_HEADING]))
        return self.now

    def leave(self, level: int) -> None:
        """End the headings of that level and below."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()

    @property
    def now(self) -> tuple[str, ...]:
        return tuple(heading for _, heading in self._open)


def _text_of(data: bytes) -> str:
    """The text of a file in UTF-8, or in UTF-16 with its mark. Raises ``InvalidItemError``."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            raise InvalidItemError("begins like UTF-16 and is not; save the file as UTF-8") from None
    if b"\x00" in data:
        raise InvalidItemError("is not a text: it holds NUL bytes")
    text, fault = decoded(data.removeprefix(codecs.BOM_UTF8))
    if fault:
        raise InvalidItemError(fault)
    return text.replace("\r\n", "\n").replace("\r", "\n")


_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def _plain(data: bytes) -> _Content:
    return _Content([Block(part) for part in _BLANK_LINES.split(_text_of(data)) if part.strip()])


_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title:[ \t]*+(.+)", re.MULTILINE)
# No part goes on behind a sign that begins another, so that many signs without an end take no longer than other text.
_MARKUP = re.compile(r"!?\[([^\[\]]*+)\]\((?:[^()]++|\([^()]*+\))*+\)|[*`]+|(?<!\s)\s*+\{#[^{}]*+\}\s*+$|<[^<>]*+>")


def _markdown(data: bytes) -> _Content:
    text = _text_of(data)
    front = _FRONT_MATTER.match(text)
    front_title = _FRONT_TITLE.search(front[1]) if front else None
    content = _markdown_text(text[front.end() :] if front else text)
    return _Content(content.blocks, front_title[1].strip().strip("\"'") if front_title else content.title)


def _markdown_text(text: str) -> _Content:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    lines = text.split("\n")
    path, title, position = _Path(), "", 0
    blocks: list[Block] = []
    tokens = parser.parse(text)

    def between(start: int, end: int) -> None:
        """Keep lines without a token, such as definitions of links, unchanged."""
        if untouched := "\n".join(lines[start:end]).strip():
            blocks.append(Block(untouched, path.now, is_lines=True))

    for place, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        between(position, token.map[0])
        position = max(position, token.map[1])
        source = "\n".join(lines[token.map[0] : token.map[1]]).strip("\n")
        if token.type == "heading_open":
            heading = _MARKUP.sub(lambda match: match[1] or "", tokens[place + 1].content).strip()
            level = int(token.tag[1:])
            title = title or (heading if level == 1 else "")
            blocks.append(Block(source, path.enter(level, heading), is_heading=True))
        elif token.type != "hr":
            is_prose = token.type in {"paragraph_open", "blockquote_open"}
            blocks.append(Block(source, path.now, is_lines=not is_prose))
    between(position, len(lines))
    return _Content(blocks, title)


MAX_TAGS = 200_000
"""The most signs ``<`` of a page of HTML, which begin tags: each tag takes up to a fifth of a millisecond."""

_LONG_SPACE = re.compile(r"(?<![ \t\r\n])[ \t\r\n]{100,}+")
_BLOCKS = (
    "address", "aside", "center", "details", "dir", "fieldset", "figure", "form", "header", "hgroup", "legend", "menu",
    "optgroup", "option", "summary",
)  # fmt: skip
"""The elements of blocks that markdownify takes for a part of the line."""
_NO_TEXT = ("script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "button", "head")


def _html(data: bytes) -> _Content:
    require_extra("documents", "reading HTML", "bs4", "lxml", "markdownify")
    from bs4 import BeautifulSoup, UnicodeDammit, XMLParsedAsHTMLWarning

    if b"\x00" in data and not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidItemError("is not a text: it holds NUL bytes")
    decoding = UnicodeDammit(data, is_html=True)
    if decoding.unicode_markup is None or decoding.contains_replacement_characters:
        raise InvalidItemError("its characters cannot be read; save the page as UTF-8")
    if (tags := decoding.unicode_markup.count("<")) > MAX_TAGS:
        raise InvalidItemError(f"has the sign < {tags:,} times, and at most {MAX_TAGS:,} tags are read; split it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        # Python's own parser takes quadratic time for tags and comments without an end.
        page = BeautifulSoup(decoding.unicode_markup, "lxml")
    title = page.title.get_text(" ", strip=True) if page.title else ""
    for tag in page(_NO_TEXT):
        tag.decompose()
    # Markdownify takes quadratic time for a run of spaces.
    for text in page.find_all(string=_LONG_SPACE):
        text.replace_with(_LONG_SPACE.sub(lambda match: "\n" if "\n" in match[0] else " ", text))
    mains = [main for main in page("main") if main.get_text(strip=True)]
    content = _markdown_text(_markdown_converter().convert_soup(mains[0] if len(mains) == 1 else page))
    return _Content(content.blocks, title or content.title)


def _markdown_converter() -> MarkdownConverter:
    """Markdownify, without the conversions that take quadratic time or join the words of neighbouring elements."""
    from bs4 import Tag
    from markdownify import MarkdownConverter

    class Converter(MarkdownConverter):
        def __init__(self) -> None:
            super().__init__(
                heading_style="ATX",
                strip=["a", "img"],
                escape_asterisks=False,
                escape_underscores=False,
                escape_misc=False,
                strip_pre=None,
            )
            self._entries = Counter[int]()

        def convert_li(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            """An entry as the first one of a list that begins with its number: others are not counted again."""
            if el.parent is not None and el.parent.name == "ol":
                first, before = str(el.parent.get("start")), self._entries[id(el.parent)]
                self._entries[id(el.parent)] += 1
                alone = Tag(name="ol", attrs={"start": str((int(first) if first.isdecimal() else 1) + before)})
                el = Tag(name="li")
                alone.append(el)
            converted: str = super().convert_li(el, text, parent_tags)  # type: ignore[misc] # its stub lacks it
            return converted

        def convert_list(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            """A list; within an entry, the entry's text goes on in a line of its own."""
            converted: str = super().convert_list(el, text, parent_tags)  # type: ignore[misc] # its stub lacks it
            return converted if converted.endswith("\n") else converted + "\n"

        convert_ul = convert_ol = convert_list

        def convert_hN(self, n: int, el: Tag, text: str, parent_tags: set[str]) -> str:  # noqa: N802 - its name
            """A heading; within a line, such as a cell's, its words."""
            converted: str = super().convert_hN(n, el, text, parent_tags)  # type: ignore[misc] # its stub lacks it
            return f" {text.strip()} " if "_inline" in parent_tags else converted

        def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
            """The text without blank lines at its beginning and end."""
            blank = text[: len(text) - len(text.lstrip(" \n"))]
            lines = text[blank.rfind("\n") + 1 :].rstrip(" \n")
            converted: str = super().convert_pre(el, lines, parent_tags)  # type: ignore[misc] # its stub lacks it
            return converted

    for name in _BLOCKS:
        setattr(Converter, f"convert_{name}", Converter.convert_div)  # type: ignore[attr-defined] # its stub lacks it
    return Converter()


def _docx(data: bytes) -> _Content:
    require_extra("documents", "reading DOCX", "mammoth", "bs4", "lxml", "markdownify")
    import mammoth

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        raise InvalidItemError("is not a DOCX: it is not packed as one, or is encrypted") from None
    if size > MAX_UNPACKED_BYTES:
        raise InvalidItemError(f"holds {size:,} bytes unpacked; at most {MAX_UNPACKED_BYTES:,} are read")
    page = mammoth.convert_to_html(
        io.BytesIO(data),
        style_map="p[style-name='Title'] => h1:fresh",
        convert_image=mammoth.images.img_element(lambda _image: {}),
    )
    return _html(f"<!doctype html><meta charset=utf-8><body>{page.value}".encode())


_HYPHEN_AT_LINE_END = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


def _pdf(data: bytes) -> _Content:
    require_extra("documents", "reading PDF", "pypdf")
    from pypdf import PdfReader

    # Without a handler, warnings about a damaged file would overwrite a command's progress.
    logging.getLogger("pypdf").addHandler(logging.NullHandler())
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise InvalidItemError("is encrypted; save it without a password")
    if len(reader.pages) > MAX_PAGES:
        raise InvalidItemError(f"has {len(reader.pages):,} pages; at most {MAX_PAGES:,} are read; split it")
    headings = _pdf_headings(reader)
    blocks = [
        Block(part, headings.get(number, ()), page=number)
        for number, page in enumerate(reader.pages, 1)
        for part in _BLANK_LINES.split(_HYPHEN_AT_LINE_END.sub("", page.extract_text()))
        if part.strip()
    ]
    title = reader.metadata.title if reader.metadata else None
    return _Content(blocks, title.strip() if isinstance(title, str) else "")


def _pdf_headings(reader: PdfReader) -> dict[int, tuple[str, ...]]:
    """The headings of each page, by the outline: the first that begins on the page, else the last before it."""
    try:
        entries = list(_outline(reader, reader.outline, _Path(), 1))
    except Exception:  # noqa: BLE001 - an outline is often damaged, and the text is there without it
        return {}
    begins: dict[int, tuple[str, ...]] = {}
    last: dict[int, tuple[str, ...]] = {}
    for page, path in entries:
        begins.setdefault(page, path)
        last[page] = path
    headings: dict[int, tuple[str, ...]] = {}
    now: tuple[str, ...] = ()
    for page in range(1, len(reader.pages) + 1):
        headings[page] = begins.get(page, now)
        now = last.get(page, now)
    return headings


def _outline(reader: PdfReader, entries: Any, path: _Path, level: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    for entry in entries:
        if isinstance(entry, list):
            yield from _outline(reader, entry, path, level + 1)
            continue
        headings = path.enter(level, str(entry.title))
        page = reader.get_destination_page_number(entry)
        if page is not None and page >= 0:
            yield page + 1, headings


_DEFINITION = re.compile(
    r"(?P<indent>[ \t]*)(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|"
    r"pub(?:\(\w+\))?|unsafe|inline|open|override|sealed|data|declare)\s+)*(?:class|def|defmodule|func|function|fn|interface|struct|enum|"
    r"trait|impl|module|namespace|object|protocol|message|service|create\s+(?:or\s+replace\s+)?(?:function|table|view))"
    r"\s+(?=[\w<\"(]).*",
    re.IGNORECASE,
)
_ABOVE_DEFINITION = ("@", "#", "//", "/*", "*", "--", '"""')


def _code(data: bytes) -> _Content:
    """Blocks between blank lines; classes and functions are headings, nested by their indentation."""
    lines = _text_of(data).expandtabs(4).split("\n")
    path, blocks = _Path(), []
    starts = _definitions(lines)
    block: list[str] = []

    def end() -> None:
        if any(line.strip() for line in block):
            blocks.append(Block("\n".join(block).strip("\n").rstrip(), path.now, is_lines=True))
        block.clear()

    for number, line in enumerate(lines):
        if not line.strip():
            end()
            continue
        if number in starts:
            end()
            indent, heading = starts[number]
            path.enter(indent + 1, heading)
        elif not block and (indent := len(line) - len(line.lstrip())) == 0 and line.strip()[0] not in ")}]":
            path.leave(indent + 1)
        block.append(line)
    end()
    return _Content(blocks)


def _definitions(lines: Sequence[str]) -> dict[int, tuple[int, str]]:
    """The indentation and heading of each definition, by its first line, comments and decorators included."""
    starts = {}
    for number, line in enumerate(lines):
        if match := _DEFINITION.fullmatch(line):
            start = number
            while start and (above := lines[start - 1].strip()) and above.startswith(_ABOVE_DEFINITION):
                start -= 1
            starts[start] = len(match["indent"]), line.strip().rstrip("{:( ")
    return starts


_READERS: Mapping[str, Callable[[bytes], _Content]] = MappingProxyType(
    {"markdown": _markdown, "html": _html, "pdf": _pdf, "docx": _docx, "text": _plain, "code": _code}
)
