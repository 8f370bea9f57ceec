"""Fuzzing the parsers: each input gives a result or a one-line error of the product, in time."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrieval import Platform, read_items
from retrieval.adapters.readers.documents import DOCUMENT_FORMATS, RawDocument, read_document
from retrieval.apps.principles.startup.project import headings, keywords, parse_toml, tags_of_files, tags_of_manifest
from retrieval.domain.errors import RetrievalError
from retrieval.domain.search.filters import as_mapping, parse_where
from retrieval.domain.search.query import parse_query

SECONDS = 20.0
"""A search of a handful of items that takes longer hangs."""

TEXTS = st.text(max_size=60) | st.text("\"'-*+:%_()[]{}\\ \n\t\u0000ab\ud800\u200f", max_size=60)
NAMES = st.sampled_from(
    [
        "kind",
        "tags",
        "title",
        "occurred_at",
        "attributes.n",
        "n",
        "$and",
        "$or",
        "$not",
        "and",
        "or",
        "not",
        "",
        "a.b.c",
    ]
)
OPERATORS = st.sampled_from(
    ["$eq", "$in", "$gt", "$lt", "$between", "$exists", "$type", "$all", "eq", "in", "gt", "exists", "between", "$no"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
WHERES = st.recursive(
    st.dictionaries(NAMES | TEXTS, SCALARS, max_size=3),
    lambda inner: st.dictionaries(
        NAMES, inner | st.lists(inner | SCALARS, max_size=3) | st.dictionaries(OPERATORS, inner | SCALARS, max_size=2)
    ),
    max_leaves=6,
)
BYTES = st.binary(max_size=300) | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass"))


def is_one_line(error: RetrievalError) -> None:
    """The error is one line that says something."""
    assert str(error).strip()
    assert "\n" not in str(error)


@given(WHERES)
def test_filters(where: dict[str, Any]) -> None:
    """A filter that is read says the same when it is written and read again."""
    try:
        condition = parse_where(where)
    except RetrievalError as error:
        is_one_line(error)
        return
    if condition is not None:
        assert parse_where(as_mapping(condition)) == condition


@given(TEXTS)
def test_queries(text: str) -> None:
    """Any text is a query, or only says what to leave out."""
    try:
        parse_query(text)
    except RetrievalError as error:
        is_one_line(error)


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv", "jsonl.gz"])
@given(
    data=st.lists(BYTES, max_size=4).map(b"\n".join)
    | st.lists(st.dictionaries(NAMES, SCALARS)).map(lambda lines: "\n".join(map(json.dumps, lines)).encode())
)
@example(data=b"\x1f\x8b\x08")
@example(data=b'"')
@example(data=b"[" * 100_000)
def test_files_of_items(ending: str, data: bytes) -> None:
    """Each line is an item or an error; a file that cannot be read says so."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"items.{ending}"
        path.write_bytes(data)
        try:
            for line in read_items(path):
                assert line.item is not None or line.error
        except RetrievalError as error:
            is_one_line(error)


@pytest.mark.parametrize("kind", [name for name in DOCUMENT_FORMATS if name not in {"pdf", "docx"}])
@given(
    data=BYTES
    | st.lists(st.sampled_from([b"# ", b"```", b"<p>", b"</", b"<!--", b"\n", b"|-", b"&#x", b"> ", b"x"])).map(
        b"".join
    )
)
@example(data=b"<div>" * 5_000)
@example(data=b"> " * 5_000)
def test_documents(kind: str, data: bytes) -> None:
    """A document is read, or refused."""
    try:
        read_document(RawDocument(document_id="given", data=data, format=kind))
    except RetrievalError as error:
        is_one_line(error)


@given(TEXTS, st.lists(TEXTS, max_size=3))
@example("[" * 5_000, [])
@example("a = " + "[" * 5_000, [])
@example('{"dependencies": ' + "[" * 5_000, [])
def test_a_session_starts_in_any_project(text: str, paths: list[str]) -> None:
    """Project files are somebody else's: what cannot be read says nothing, and nothing is raised."""
    names = (
        "package.json",
        "composer.json",
        "pyproject.toml",
        "requirements.txt",
        "Cargo.toml",
        "go.mod",
        "Dockerfile",
    )
    for name in names:
        assert isinstance(tags_of_manifest(name, text), list)
    with suppress(ValueError):
        assert isinstance(parse_toml(text), dict)
    assert isinstance(keywords([text, *headings(text)]), tuple)
    assert isinstance(tags_of_files(paths), tuple)


async def test_no_search_hangs(platform: Platform) -> None:
    """Searches for any text under any filter end; refusals are one line."""
    docs = await platform.collection("docs")
    await docs.add([{"_id": str(n), "text": f"ab {n} '\"", "tags": ["a"], "n": n} for n in range(20)])

    @given(TEXTS, WHERES)
    def search(text: str, where: dict[str, Any]) -> None:
        tried.append((text, where))

    tried: list[tuple[str, dict[str, Any]]] = []
    search()
    for text, where in tried:
        for condition in (None, where):
            try:
                async with asyncio.timeout(SECONDS):
                    await docs.search(text, where=condition, limit=3)
            except RetrievalError as error:
                is_one_line(error)
