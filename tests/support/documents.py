"""Small documents, made by hand: PDF and DOCX."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pypdf import PdfReader, PdfWriter

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)


def pdf(
    pages: Sequence[str], *, title: str = "", outline: Mapping[str, int] | None = None, password: str | None = None
) -> bytes:
    """A PDF with a line of text on each page; ``outline`` has the page of each entry, from 1."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(_plain_pdf(pages))))
    if title:
        writer.add_metadata({"/Title": title})
    for name, page in (outline or {}).items():
        writer.add_outline_item(title=name, page_number=page - 1)
    if password is not None:
        writer.encrypt(password, owner_password="owner", algorithm="AES-256")  # noqa: S106 - of a test's file
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _plain_pdf(pages: Sequence[str]) -> bytes:
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        content = f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET" if text else ""
        attributes = f"/MediaBox [0 0 600 200] /Contents {5 + 2 * at} 0 R /Resources << /Font << /F1 3 0 R >> >>"
        objects += [
            f"<< /Type /Page /Parent 2 0 R {attributes} >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    return _pdf_file(objects)


def pdf_of_shared_content(content: str, *, form: str, pages: int) -> bytes:
    """A PDF whose pages all have the same content, which may draw the form by ``/X Do``."""
    attributes = "/Contents 3 0 R /Resources << /Font << >> /XObject << /X 4 0 R >> >>"
    kids = " ".join(f"{5 + at} 0 R" for at in range(pages))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} /MediaBox [0 0 600 200] >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        f"<< /Subtype /Form /Resources << /Font << >> >> /Length {len(form)} >>\nstream\n{form}\nendstream",
    ]
    return _pdf_file([*objects, *[f"<< /Type /Page /Parent 2 0 R {attributes} >>"] * pages])


def _pdf_file(objects: Sequence[str]) -> bytes:
    body, places = b"%PDF-1.4\n", []
    for number, definition in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{definition}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(body)}\n"
    )
    return body + f"{end}%%EOF\n".encode()


def docx(paragraphs: Sequence[tuple[str, str]], *, before: str = "", extra: bytes = b"") -> bytes:
    """A DOCX of paragraphs, each with its style: ``Title``, ``Heading 1`` or none.

    ``before`` stands before the document's element, such as a definition of entities; ``extra``: another file in it.
    """
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style.replace(" ", "")}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{style.replace(" ", "")}"><w:name w:val="{style}"/></w:style>'
        for style in {style for style, _ in paragraphs if style}
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("[Content_Types].xml", _TYPES)
        packed.writestr("_rels/.rels", _RELATIONS)
        packed.writestr(
            "word/document.xml", f'{before}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
        )
        packed.writestr("word/styles.xml", f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>')
        if extra:
            packed.writestr("word/extra.bin", extra)
    return buffer.getvalue()


def write_handbook(folder: Path) -> Path:
    """A folder of documents of every format, and of others; gives it."""
    (folder / "team" / ".git").mkdir(parents=True)
    files: dict[str, str | bytes] = {
        "backups.md": "# Backups\n\nBackups are kept for 30 days.\n\n## Restore\n\nAsk Ann for a restore.\n",
        "page.html": "<title>Leave</title><nav>Menu</nav><h1>Holidays</h1><p>Everybody has 30 days of leave.</p>",
        "policy.pdf": pdf(["Travel is paid by train.", "Flights need a permit."], title="Travel", outline={"Air": 2}),
        "note.docx": docx([("Title", "Parking"), ("Heading 1", "Bicycles"), ("", "They stand in the cellar.")]),
        "team/rota.py": "class Rota:\n    def on_call(self):\n        return 'heron'\n",
        "team/plain.txt": "The coffee machine is cleaned on Fridays.",
        "team/empty.md": "",
        "team/.git/config": "hidden",
        "picture.png": b"\x89PNG",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
