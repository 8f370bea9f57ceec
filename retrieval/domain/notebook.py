"""Values as a notebook shows them: small tables in HTML, with a bar for each part of a score. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from retrieval.domain.checks import clean_text

MAX_TEXT = 240

_BAR = (
    '<div style="display:inline-block;width:10em;background:rgba(128,128,128,.2)">'
    '<div style="width:{share:.1f}%;height:.7em;background:{colour}"></div></div>'
)
_GAIN, _LOSS = "#4c72b0", "#c44e52"


def facts_html(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """Names and values under a title; None and empty values are left out."""
    known = [(escape(name), text_html(str(value))) for name, value in facts if value not in (None, "", {}, ())]
    return f"<b>{text_html(title)}</b>{table_html(known)}"


def table_html(rows: Iterable[Sequence[str]], columns: Sequence[str] = ()) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = ["<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in row) + "</tr>" for row in rows]
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if columns else ''}<tbody>{''.join(lines)}</tbody></table>"


def bar(value: float, largest: float) -> str:
    """A bar as long as the value's share of the largest; negative contributions have another colour."""
    share = 100 * min(abs(value) / largest, 1) if largest > 0 else 0.0
    return _BAR.format(share=share, colour=_GAIN if value >= 0 else _LOSS)


def text_html(text: str) -> str:
    """The beginning of a text, escaped, without hidden or misleading characters."""
    shown = clean_text(text[: 2 * MAX_TEXT])
    return escape(shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 1]}…")
