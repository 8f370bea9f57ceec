"""Read documents as blocks under headings: Markdown, HTML, PDF, DOCX, source code and plain text."""

from __future__ import annotations

import codecs
import io
import logging
import re
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from retrieval.adapters.extras import require_extra
from retrieval.adapters.readers.lines import decoded
from retrieval.domain.checks import clean_text, written
from retrieval.domain.errors import InvalidItemError, MissingExtraError
from retrieval.domain.frozen import Frozen
from retrieval.domain.items.chunking import MAX_HEADING, Block, Document

if TYPE_CHECKING:
    from pypdf import PdfReader

_ENDINGS = {
    "markdown": ".md .markdown .mdx",
    "html": ".html .htm .xhtml",
    "pdf": ".pdf",
    "docx": ".docx",
    "text": ".txt .text .rst .adoc .asciidoc .org .tex",
    "code": ".bash .c .cc .clj .cpp .cs .css .cxx .dart .erl .ex .exs .go .h .hpp .hs .ini .java .jl .js .jsx .kt .kts "
    ".lua .mjs .ml .php .pl .pm .proto .ps1 .py .pyi .r .rb .rs .scala .sh .sql .swift .tf .toml .ts .tsx .vue .yaml "
    ".yml",
}
FORMATS_BY_ENDING: Mapping[str, str] = MappingProxyType(
    {ending: format_ for format_, endings in _ENDINGS.items() for ending in endings.split()}
)
"""The format of a document by the ending of its name."""

DOCUMENT_FORMATS = tuple(_ENDINGS)

MAX_XML_BYTES = 16 * 1024 * 1024
"""The most XML that a packed document may hold: a parser takes up to 60 times its bytes, and seconds for each MiB."""

MAX_PAGES = 10_000
PDF_SECONDS = 10
"""The processor time for a PDF, and again for each MiB of it; most take less than 1 s for each MiB."""
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
    attributes: Mapping[str, Any] = field(default_factory=Frozen)


def format_of(name: str) -> str | None:
    """The format of a document of that name; None if its ending is unknown."""
    return FORMATS_BY_ENDING.get(PurePath(name).suffix.lower())


def read_document(raw: RawDocument) -> tuple[Document, bool]:
    """The document, and whether control or format characters were removed.

    Raises ``InvalidItemError`` for a document that cannot be read, for any reason, and ``MissingExtraError`` if the
    extra ``documents`` is needed and not installed.
    """
    read = _READERS.get(raw.format)
    if read is None:
        raise InvalidItemError(
            f"format {written(raw.format, 40)} is not known; use one of {', '.join(DOCUMENT_FORMATS)}"
        )
    try:
        content = read(raw.data)
    except (InvalidItemError, MissingExtraError):
        raise
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
_FRONT_KEY = re.compile(r"[^\s#\]}-].*?:(?:\s|\Z)")
_FRONT_REST = re.compile(r"\s|[#\]}-]|\Z")
"""The lines of a front matter that have no key: further lines of a value, and comments."""
_FRONT_TITLE = re.compile(r"^title:[ \t]*+(?:[>|][-+\d]*+[ \t]*+((?:\n[ \t].*)++)|(.+))", re.MULTILINE)


def _front_matter(text: str) -> tuple[str, str]:
    """The title that the front matter gives, else an empty one, and the text behind the front matter.

    Text between two lines is no front matter unless it reads as keys with their values: it would be lost.
    """
    front = _FRONT_MATTER.match(text)
    lines = front[1].split("\n") if front else []
    has_key = [_FRONT_KEY.match(line) is not None for line in lines]
    if front is None or not any(has_key):
        return "", text
    if not all(is_key or _FRONT_REST.match(line) for is_key, line in zip(has_key, lines, strict=True)):
        return "", text
    title = _FRONT_TITLE.search(front[1])
    return " ".join((title[1] or title[2]).split()).strip("\"'") if title else "", text[front.end() :]


# No part goes on behind a sign that begins another, so that many signs without an end take no longer than other text.
_MARKUP = re.compile(r"!?\[([^\[\]]*+)\]\((?:[^()]++|\([^()]*+\))*+\)|[*`]+|(?<!\s)\s*+\{#[^{}]*+\}\s*+$|<[^<>]*+>")


def _markdown(data: bytes) -> _Content:
    from markdown_it import MarkdownIt

    title, text = _front_matter(_text_of(data))
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    lines = text.split("\n")
    path, position = _Path(), 0
    blocks: list[Block] = []
    tokens = parser.parse(text)

    def between(start: int, end: int) -> None:
        """Keep lines without a token, such as definitions of links, unchanged."""
        if untouched := "\n".join(lines[start:end]).strip():
            blocks.append(Block(untouched, path.now, is_lines=True))

    for index, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        between(position, token.map[0])
        position = max(position, token.map[1])
        source = "\n".join(lines[token.map[0] : token.map[1]]).strip("\n")
        if token.type == "heading_open":
            heading = _MARKUP.sub(lambda match: match[1] or "", tokens[index + 1].content).strip()
            level = int(token.tag[1:])
            title = title or (heading if level == 1 else "")
            blocks.append(Block(source, path.enter(level, heading), is_heading=True))
        elif token.type != "hr":
            is_prose = token.type in {"paragraph_open", "blockquote_open"}
            blocks.append(Block(source, path.now, is_lines=not is_prose))
    between(position, len(lines))
    return _Content(blocks, title)


_LEGACY_ENCODING = re.compile(
    rb"charset\s*=[\s\"']*(iso-8859-(?:[2-9]|1\d)|windows-\d+|koi8-[ru]|gb\w+|big5|euc-\w+|shift_jis)\b", re.IGNORECASE
)
_NO_TEXT = ("button", "footer", "head", "iframe", "nav", "noscript", "script", "style", "svg", "template", "title")
_PARTS_OF_WORDS = (
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "ins", "kbd", "mark", "nobr", "output", "q", "rb", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
)  # fmt: skip
_PARTS_OF_LINES = (*_NO_TEXT, "img", "input", "label", "math", "select", "td", "textarea", "th")
_LEVELS = MappingProxyType({f"h{level}": level for level in range(1, 10)})
"""The levels of headings by their elements: HTML has six, DOCX nine."""
_DOCX_HEADINGS = "\n".join(
    [
        "p[style-name='Title'] => h1:fresh",
        *(f"p[style-name='heading {level}'] => h{level}:fresh" for level in (7, 8, 9)),
    ]
)
"""The styles of headings that ``mammoth`` does not know."""
_MARKERS = MappingProxyType({"ul": "* ", "ol": "{}. ", "menu": "* ", "table": "| "})
_INDENT = " " * 4
_MAX_NESTING = 1_000
"""The most elements within one another: at the end of each, the parser looks through all that are open."""
_SPACE = re.compile(r"\s+")


class _Page:
    """Collects the blocks of a page from its parser; an element that is no known part of a line is a block."""

    def __init__(self) -> None:
        self._titles, self._text, self._entries = list[str](), list[str](), list[str]()
        self._blocks, self._main = list[Block](), list[Block]()
        self._path, self._open = _Path(), Counter[str]()
        self._nesting = self._hidden = self._in_line = self._in_main = 0
        self._markers, self._marker = list[Iterator[str]](), ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._nesting == _MAX_NESTING:
            raise InvalidItemError("its elements are nested too deeply")
        if not self._is_within_line(tag):
            self._end_paragraph()
            if tag == "main":
                self._path, self._in_main = _Path(), self._in_main + 1
            elif tag in _MARKERS:
                first = attributes.get("start", "")[:9]
                self._markers.append(map(_MARKERS[tag].format, count(int(first) if first.isdecimal() else 1)))
            elif tag in {"li", "tr"} and self._markers:
                self._marker = next(self._markers[-1])
        self._count(tag, 1)

    def data(self, text: str) -> None:
        if not self._hidden:
            self._text.append(text if self._open["pre"] and not self._in_line else _SPACE.sub(" ", text))
        elif self._open["title"] and not self._open["svg"]:
            self._titles.append(text)

    def end(self, tag: str) -> None:
        self._count(tag, -1)
        if self._is_within_line(tag):
            if tag in {"br", "td", "th"} and not self._in_line:
                self._text.append("\n" if tag == "br" else "| ")
        elif tag == "pre" and not self._open["pre"]:
            code = self._taken().strip("\n").rstrip()
            fence = "`" * (1 + max(map(len, re.findall("`{3,}", code)), default=2))
            self._add(code and f"{fence}\n{code}\n{fence}", is_lines=True)
        else:
            self._end_paragraph(_LEVELS.get(tag, 0))
            self._in_main -= tag == "main"
            if tag in _MARKERS:
                self._markers.pop()
                if not self._markers:
                    self._add("\n".join(self._entries), is_lines=True)
                    self._entries.clear()

    def close(self) -> _Content:
        blocks = self._main or self._blocks
        heading = next((block for block in blocks if block.is_heading and block.text.startswith("# ")), None)
        return _Content(blocks, " ".join("".join(self._titles).split()) or (heading.headings[0] if heading else ""))

    def _count(self, tag: str, change: int) -> None:
        self._nesting += change
        self._open[tag] += change
        self._hidden += change * (tag in _NO_TEXT)
        self._in_line += change * (tag in _PARTS_OF_LINES or tag in _LEVELS)

    def _is_within_line(self, tag: str) -> bool:
        """Whether the line goes on where the element begins or ends; unless it is part of a word, a new word begins."""
        is_within = self._hidden > 0 or tag in _PARTS_OF_WORDS
        if not is_within and (is_within := self._in_line > 0 or tag in _PARTS_OF_LINES):
            self._text.append(" ")
        return is_within

    def _taken(self) -> str:
        text = "".join(self._text)
        self._text.clear()
        return text

    def _end_paragraph(self, level: int = 0) -> None:
        """End the text that is read; within code, only its line."""
        if not self._open["pre"]:
            lines = "\n".join(" ".join(line.split()) for line in self._taken().split("\n"))
            for paragraph in _BLANK_LINES.split(lines):
                self._add(paragraph.strip(), level)
        elif self._text and not self._text[-1].endswith("\n"):
            self._text.append("\n")

    def _add(self, text: str, level: int = 0, *, is_lines: bool = False) -> None:
        """Add a block; within a list or table, the lines of an entry."""
        if not text.strip("| "):
            return
        if self._markers:
            indent = _INDENT * min(len(self._markers), MAX_DEPTH)
            first, self._marker = indent[len(_INDENT) :] + self._marker if self._marker else indent, ""
            self._entries.append(first + text.replace("\n", f"\n{indent}"))
            return
        path = self._path.enter(level, text) if level else self._path.now
        block = Block(f"{'#' * level} {text}".strip(), path, is_heading=level > 0, is_lines=is_lines)
        self._blocks.append(block)
        if self._in_main:
            self._main.append(block)


def _html(data: bytes) -> _Content:
    try:
        text = _text_of(data)
    except InvalidItemError:
        if b"\x00" in data:
            raise
        declared = _LEGACY_ENCODING.search(data[:4096])
        text = data.decode(declared[1].decode() if declared else "windows-1252")
    return _page(text)


def _page(text: str) -> _Content:
    require_extra("documents", "reading HTML", "lxml")
    from lxml.etree import HTMLParser

    parser = HTMLParser(target=_Page(), encoding="utf-8", huge_tree=True)
    parser.feed(f"<html>{text}".encode())
    content: _Content = parser.close()
    return content


_XML_START = re.compile(rb"[<\s\x00]|\xef\xbb|\xfe\xff|\xff\xfe|\Z")
"""The beginning of a file that a parser takes for XML, whatever its name; no picture begins so."""


def _docx(data: bytes) -> _Content:
    require_extra("documents", "reading DOCX", "mammoth", "lxml")
    import mammoth

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist() if _may_be_xml(archive, entry))
    except zipfile.BadZipFile:
        raise InvalidItemError("is not a DOCX: it is not packed as one, or is encrypted") from None
    if size > MAX_XML_BYTES:
        raise InvalidItemError(f"holds {size:,} bytes of XML; at most {MAX_XML_BYTES:,} are read; split it")
    page = mammoth.convert_to_html(
        io.BytesIO(data),
        style_map=_DOCX_HEADINGS,
        convert_image=mammoth.images.img_element(lambda _image: {}),
    )
    return _page(page.value)


def _may_be_xml(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bool:
    with archive.open(entry) as file:
        return _XML_START.match(file.read(2)) is not None


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
        for number, text in enumerate(_pdf_texts(reader, PDF_SECONDS * (1 + len(data) / 1024**2)), 1)
        for part in _BLANK_LINES.split(_HYPHEN_AT_LINE_END.sub("", text))
        if part.strip()
    ]
    title = reader.metadata.title if reader.metadata else None
    return _Content(blocks, title.strip() if isinstance(title, str) else "")


def _pdf_texts(reader: PdfReader, seconds: float) -> Iterator[str]:
    """The text of each page. Raises ``InvalidItemError`` once this thread has worked that long.

    Pages may share what is drawn on them, so that a small file can have any amount of it. The processor's time does not
    depend on the machine's other work.
    """
    end = time.thread_time() + seconds

    def check_time() -> None:
        if time.thread_time() > end:
            raise InvalidItemError(f"takes more than {seconds:.0f} s to read; print it to a new PDF, or split it")

    def in_time(read_form: Callable[..., str], *arguments: Any, **named: Any) -> str:
        check_time()  # the page goes on without this form, and each further one fails as fast
        return read_form(*arguments, **named)

    for page in reader.pages:
        # The only place before a form that leaves pypdf's faster reading on; so the method is assigned.
        page.extract_xform_text = partial(in_time, page.extract_xform_text)  # type: ignore[method-assign]
        text = page.extract_text()
        check_time()
        yield text


def _pdf_headings(reader: PdfReader) -> dict[int, tuple[str, ...]]:
    """The headings of each page, by the outline: the first that begins on the page, else the last before it."""
    try:
        entries = list(_outline(reader, reader.outline, _Path(), 1))
    except Exception:  # noqa: BLE001 - an outline is often damaged, and the text is there without it
        return {}
    begins, last = dict(reversed(entries)), dict(entries)
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
