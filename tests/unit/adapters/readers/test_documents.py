"""Documents of every format, and the errors of unreadable ones."""

from __future__ import annotations

import io
import time
import zipfile
from typing import Any

import pytest

from retrieval.adapters.readers import documents
from retrieval.adapters.readers.documents import RawDocument, format_of, read_document
from retrieval.domain.errors import InvalidItemError, MissingExtraError
from retrieval.domain.items.chunking import Block, Document
from tests.support.documents import docx, pdf, pdf_of_shared_content


def read(data: bytes | str, form: str, **more: Any) -> Document:
    """The document that these bytes are."""
    raw = RawDocument(
        document_id="some/file", data=data if isinstance(data, bytes) else data.encode(), format=form, **more
    )
    return read_document(raw)[0]


def texts_of(document: Document) -> list[tuple[str, tuple[str, ...]]]:
    """Its texts with their headings."""
    return [(block.text, block.headings) for block in document.blocks]


def test_markdown_has_headings_of_both_kinds_and_none_in_code() -> None:
    """A heading is named without its markup, and ends those of its level."""
    text = "# One *big*\n\nText\nmore\n\n```sh\n# no heading\n```\n\nTwo [link](http://x)\n---\n\n- a\n- b\n\n# Last\n"

    document = read(text, "markdown")

    assert texts_of(document) == [
        ("# One *big*", ("One big",)),
        ("Text\nmore", ("One big",)),
        ("```sh\n# no heading\n```", ("One big",)),
        ("Two [link](http://x)\n---", ("One big", "Two link")),
        ("- a\n- b", ("One big", "Two link")),
        ("# Last", ("Last",)),
    ]
    assert document.title == "One big"
    assert [block.is_lines for block in document.blocks] == [False, False, True, False, True, False]


@pytest.mark.parametrize(
    "front",
    [
        'tags: x\ntitle: "A title"',
        "# A note\n\ntags:\n- x\n- y\ntitle: >-\n  A\n  title",
        "title: |\n A title\nog:x: {\n}",
    ],
)
def test_the_front_matter_of_markdown_names_the_title(front: str) -> None:
    """The front matter is not part of the text."""
    document = read(f"---\n{front}\n---\n# One\n\ntext", "markdown")

    assert (document.title, texts_of(document)[0][0]) == ("A title", "# One")


@pytest.mark.parametrize("between", ["\nOne, two.\n", "To all: one\nTwo, three.\n", "# One\n\n- two\n", "http://x/y\n"])
def test_text_between_two_rules_is_no_front_matter(between: str) -> None:
    """A page may begin with a line across it."""
    texts = [text for text, _ in texts_of(read(f"---\n{between}\n---\n\nThe rest", "markdown"))]

    assert " ".join(texts).split() == [*between.split(), "The", "rest"]


@pytest.mark.parametrize(
    ("heading", "named"),
    [
        ("*A* `b` <i>c</i>", "A b c"),
        ("A [link](http://x/(y)) and ![image](z)", "A link and image"),
        ("A  {#anchor} ", "A"),
        ("x < y [1]", "x < y [1]"),
    ],
)
def test_a_heading_is_named_without_its_markup(heading: str, named: str) -> None:
    """Signs that are no markup stay."""
    assert texts_of(read(f"# {heading}\n\ntext", "markdown"))[1] == ("text", (named,))


@pytest.mark.parametrize(
    ("form", "before", "repeated", "behind"),
    [
        *(("markdown", "# ", sign, "") for sign in ("[", "![", "[](", "[](()", "<", "{#", "`", "*", "{#}  ", "[a](b)")),
        ("markdown", "# a", " ", "b"),
        ("markdown", "---\ntitle: a", " ", "b\n---\n"),
        ("markdown", "---\n", "\n---a", "\n"),
        ("markdown", "", "[", ""),
        ("markdown", "a", " ", "b"),
        *(("html", "text", sign, "") for sign in ("<a b='", "<!--", "</a ", "<![CDATA[", "<?", "<a x=1 ", "&", ".")),
        *(("html", "<ol>", sign, "") for sign in ("<li>x", "<br>", "<ul></ul> ", "<svg></svg>x", "&lt;")),
        ("html", "<i>" * 900, "</b>", ""),
        ("html", "<pre>", " <b></b>", ""),
        ("html", "<p>a", " ", "b"),
        ("html", "<p>a", "&#32;", "b"),
        ("html", "<pre>a", " ", "b"),
        ("text", "a\n", " \t", "b"),
        ("text", "a", "\n", "b"),
        ("text", "a", "\n a", "b"),
        ("code", "def a", " ", "("),
        ("code", "", "public ", "x"),
        ("code", "", "def a(", ""),
    ],
)
def test_a_long_run_of_anything_is_read_in_a_moment(form: str, before: str, repeated: str, behind: str) -> None:
    """No sign costs more the more of it there is: a document comes from anybody."""
    text = before + repeated * (100_000 // len(repeated)) + behind
    start = time.process_time()

    read(text, form)

    assert time.process_time() - start < 2


def test_markdown_loses_no_line() -> None:
    """Lines outside of blocks, such as link definitions, are kept; so are deeply nested blocks."""
    text = f"[a]: http://x\n\ntext\n\n{'>' * 300} deep\n\n[b]: http://y"

    assert [word for block in read(text, "markdown").blocks for word in block.text.split()] == text.split()


def test_html_is_read_as_text_only() -> None:
    """In the encoding that the page declares; lists and tables stay readable."""
    page = (
        "<html><head><meta charset='iso-8859-1'><title>Größe</title><style>p {}</style></head><body><nav>Menu</nav>"
        "<h2>Maße</h2><p>Sie <b>stehen</b> <a href='http://x'>hier</a>.</p><ul><li>eins</ul><script>x()</script>"
        "<table><tr><th>a</th></tr><tr><td>1</td></tr></table><footer>Ende</footer></body></html>"
    )

    document = read(page.encode("latin-1"), "html")

    assert document.title == "Größe"
    assert texts_of(document) == [
        ("## Maße", ("Maße",)),
        ("Sie stehen hier.", ("Maße",)),
        ("* eins", ("Maße",)),
        ("| a |\n| 1 |", ("Maße",)),
    ]


def test_lists_and_code_of_html_are_kept_as_they_are() -> None:
    """Entries are numbered from where the list begins; code keeps its indentation, in a fence that it cannot close."""
    page = "<ol start=4><li>a<ol><li>b<li>c</ol><li><li>d</ol><pre>\n\n  x\n\n    y\n\n</pre><ol><li>e</ol><pre>``` # x"

    assert [text for text, _ in texts_of(read(page, "html"))] == [
        "4. a\n    1. b\n    2. c\n6. d",
        "```\n  x\n\n    y\n```",
        "1. e",
        "````\n``` # x\n````",
    ]


def test_pdf_has_pages_and_the_headings_of_its_outline() -> None:
    """A page belongs to what begins on it, else to what began before."""
    document = read(pdf(["one", "two", "three"], title="Report", outline={"Begin": 1, "End": 3}), "pdf")

    assert document.title == "Report"
    assert [(block.text, block.headings, block.page) for block in document.blocks] == [
        ("one", ("Begin",), 1), ("two", ("Begin",), 2), ("three", ("End",), 3)
    ]  # fmt: skip


def test_pdf_that_anybody_may_open_is_read() -> None:
    """A password for the owner alone does not prevent reading."""
    assert texts_of(read(pdf(["text"], password=""), "pdf")) == [("text", ())]


def test_docx_has_headings() -> None:
    """By the styles of its paragraphs."""
    document = read(docx([("Title", "Book"), ("Heading 1", "One"), ("", "Text")]), "docx")

    assert document.title == "Book"
    assert texts_of(document)[-1] == ("Text", ("One",))


def test_docx_has_nine_levels_of_headings() -> None:
    """HTML, by which it is read, has six."""
    levels = [f"Heading {level}" for level in range(1, 10)]
    document = read(
        docx([*((level, level) for level in levels), ("", "Text"), ("Heading 8", "Next"), ("", "More")]), "docx"
    )

    assert texts_of(document)[-3] == ("Text", tuple(levels))
    assert texts_of(document)[-1] == ("More", (*levels[:7], "Next"))


def test_code_has_its_definitions_as_headings() -> None:
    """They are nested by indentation, with the comments directly above them."""
    code = "import os\n\n\n@final\nclass A:\n    x = 1\n\n    def f(self):\n        return 1\n\n\nY = 2\n"

    assert texts_of(read(code, "code")) == [
        ("import os", ()),
        ("@final\nclass A:\n    x = 1", ("class A",)),
        ("    def f(self):\n        return 1", ("class A", "def f(self)")),
        ("Y = 2", ()),
    ]


def test_a_path_has_the_outermost_headings() -> None:
    """Code may be nested as deeply as its file is large."""
    code = "".join(f"{' ' * depth}class A{depth}:\n" for depth in range(400))

    assert read(code, "code").blocks[-1].headings == tuple(f"class A{depth}" for depth in range(16))


def test_plain_text_has_paragraphs() -> None:
    """With whatever line ends, in UTF-8 or marked as UTF-16."""
    assert texts_of(read("one\r\ntwo\r\n \r\n\r\nthree", "text")) == [("one\ntwo", ()), ("three", ())]
    assert texts_of(read("Grüße".encode("utf-16"), "text")) == [("Grüße", ())]
    assert texts_of(read(b"\xef\xbb\xbfx", "text")) == [("x", ())]


def test_a_title_that_is_given_goes_first_and_a_name_last() -> None:
    """Between them goes the one of the document."""
    assert read("# A\n", "markdown", title="Given").title == "Given"
    assert read("text", "text").title == "file"


def test_refused_characters_are_removed_and_counted() -> None:
    """A soft hyphen does not leave a document out."""
    document, is_cleaned = read_document(RawDocument(document_id="x", data="a\u00adb".encode(), format="text"))

    assert (document.blocks, is_cleaned) == ((Block("ab"),), True)


def with_entities(definition: str) -> bytes:
    """A DOCX whose text is an entity."""
    return docx([("", "&e;")], before=f'<?xml version="1.0"?><!DOCTYPE d [{definition}]>')


EXPLODING = '<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdfghi", "bcdfghie", strict=True)
)


@pytest.mark.parametrize(
    ("form", "data", "reason"),
    [
        ("text", b"a\x00b", "is not a text: it holds NUL bytes"),
        ("html", b"a\x00b", "is not a text: it holds NUL bytes"),
        ("markdown", "Grüße".encode("latin-1"), "byte 3 .* is not UTF-8"),
        ("text", b"\xff\xfea", "begins like UTF-16 and is not"),
        ("html", b"<div>" * 20_000, "nested too deeply"),
        ("pdf", b"%PDF-1.4\nnothing", "cannot be read as pdf"),
        ("pdf", pdf(["text"])[:300], "cannot be read as pdf"),
        ("pdf", pdf(["text"], password="secret"), "is encrypted"),  # noqa: S106 - of a test's file
        ("docx", b"PK\x03\x04", "is not a DOCX"),
        ("docx", with_entities(EXPLODING), "cannot be read as docx"),
        ("jpeg", b"", "format 'jpeg' is not known; use one of markdown, html, pdf, docx, text, code"),
    ],
)
def test_an_unreadable_document_is_refused_with_a_reason(form: str, data: bytes, reason: str) -> None:
    """This covers every kind of damage."""
    with pytest.raises(InvalidItemError, match=reason):
        read(data, form)


@pytest.mark.parametrize("start", [b"<", b" ", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_docx_with_much_xml_is_refused(monkeypatch: pytest.MonkeyPatch, start: bytes) -> None:
    """However small it is packed, and whatever the names in it: a parser takes many times its bytes."""
    monkeypatch.setattr(documents, "MAX_XML_BYTES", 100_000)

    with pytest.raises(InvalidItemError, match=r"bytes of XML; at most 100,000 are read"):
        read(docx([("", "text")], extra=start.ljust(100_000)), "docx")


def test_pictures_of_a_docx_have_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not read."""
    monkeypatch.setattr(documents, "MAX_XML_BYTES", 100_000)

    assert texts_of(read(docx([("", "text")], extra=b"\x89PNG".ljust(100_000)), "docx")) == [("text", ())]


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        (
            "<details><summary>Install</summary>Run pip</details><header>Alpha</header>Beta",
            ["Install", "Run pip", "Alpha", "Beta"],
        ),
        ("<ul><li>Alpha<ul><li>Beta</li></ul>Gamma</li></ul>", ["* Alpha\n    * Beta\n    Gamma"]),
        ("<table><tr><td><h3>Eps</h3>Zeta</td><td>Eta<td>A</table>", ["| Eps Zeta | Eta | A |"]),
        ("<dialog>Alpha</dialog>B<b>et</b>a<x-card>Gamma</x-card>", ["Alpha", "Beta", "Gamma"]),
        ("<h2><div>A</div><div>B</div></h2>C<br>D<br><br>E<label>F</label><input>", ["## A B", "C\nD", "E F"]),
    ],
)
def test_neighbouring_elements_of_a_page_have_words_of_their_own(page: str, texts: list[str]) -> None:
    """A word that was joined to another would not be found."""
    assert [block.text for block in read(page, "html").blocks] == texts


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<h1>Menu</h1><main><p>One</main>", ["One"]),
        ("<main> </main><p>outside</p>", ["outside"]),
        ("<main>One</main><p>outside</p><main>Two</main>", ["One", "Two"]),
    ],
)
def test_the_main_parts_of_a_page_are_read_alone_if_they_have_text(page: str, texts: list[str]) -> None:
    """The surrounding parts are the same on every page, and so are their headings."""
    assert texts_of(read(page, "html")) == [(text, ()) for text in texts]


def test_docx_opens_no_other_file() -> None:
    """An entity for a file is ignored."""
    document = read(with_entities('<!ENTITY e SYSTEM "file:///etc/passwd">'), "docx")

    assert "root" not in "".join(block.text for block in document.blocks)


def test_docx_without_a_document_is_refused() -> None:
    """Any other packed file has that ending too."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("hello.txt", "hello")

    with pytest.raises(InvalidItemError, match="cannot be read as docx"):
        read(buffer.getvalue(), "docx")


def test_more_pages_than_are_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting them off would lose text in silence."""
    monkeypatch.setattr(documents, "MAX_PAGES", 2)

    with pytest.raises(InvalidItemError, match="has 3 pages; at most 2 are read"):
        read(pdf(["a", "b", "c"]), "pdf")


@pytest.mark.parametrize(
    ("content", "pages"),
    [("BT (word) Tj ET\n" * 500, 500), ("/X Do\n", 500), ("/X Do\n" * 500, 1)],
    ids=["the same content", "a form", "a form many times"],
)
def test_a_pdf_is_read_in_bounded_time(monkeypatch: pytest.MonkeyPatch, content: str, pages: int) -> None:
    """A few bytes more would otherwise take any time, because what is drawn can be shared."""
    monkeypatch.setattr(documents, "PDF_SECONDS", 0.1)
    shared = pdf_of_shared_content(content, form="BT (word) Tj ET\n" * 500, pages=pages)
    begin = time.thread_time()

    with pytest.raises(InvalidItemError, match="takes more than 0 s to read"):
        read(shared, "pdf")

    assert time.thread_time() - begin < 1


@pytest.mark.parametrize("form", ["html", "pdf", "docx"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """With the command that installs it; the other formats need none."""
    monkeypatch.setattr("retrieval.adapters.extras.find_spec", lambda _name: None)

    with pytest.raises(MissingExtraError, match=r"pip install 'retrieval-platform\[documents\]'"):
        read(b"x", form)
    assert read("# A\n\ntext", "markdown").title == "A"


@pytest.mark.parametrize(
    ("name", "form"), [("a/B.MD", "markdown"), ("x.py", "code"), ("x.csv", None), ("x", None), (".md", None)]
)
def test_the_ending_determines_the_format(name: str, form: str | None) -> None:
    """In any case of letters."""
    assert format_of(name) == form
