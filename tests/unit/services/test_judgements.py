"""Reading judged queries, and the filters that they bring along."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.domain.errors import BadLineError, InvalidRequestError
from retrieval.services.judgements import (
    MAX_RELEVANCE,
    JudgedQuery,
    judged,
    read_judged,
    read_qrels,
    read_queries,
    with_filters,
)


def a_query(query_id: str = "q1", **metadata: object) -> JudgedQuery:
    """A query with that metadata."""
    return JudgedQuery(query_id=query_id, text="what is it", metadata=metadata)


def filtered(query: JudgedQuery, *where_from: str) -> Any:
    """The filter of the query."""
    return with_filters([query], {query.query_id: {}}, where_from=where_from)[0].where


def write_file(folder: Path, text: str | bytes, name: str = "file") -> Path:
    """A new file of that content."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_queries_keep_their_order_and_metadata(tmp_path: Path) -> None:
    """Each line becomes a query; blank lines count as lines and are skipped."""
    path = write_file(
        tmp_path, '{"_id": "b", "text": "one", "metadata": {"as_of": "2022"}}\n\n{"_id": 7, "text": "two"}\n'
    )

    assert read_queries(path) == [
        JudgedQuery(query_id="b", text="one", metadata={"as_of": "2022"}),
        JudgedQuery(query_id="7", text="two"),
    ]


def test_line_separators_inside_a_text_do_not_end_the_line(tmp_path: Path) -> None:
    """U+2028 and form feeds belong to the text; only newlines part queries."""
    path = write_file(tmp_path, '{"_id": "q", "text": "a\u2028b\u0085c"}\r\n')

    assert [query.text for query in read_queries(path)] == ["a\u2028b\u0085c"]


@pytest.mark.parametrize("name", ["queries.jsonl.gz", "queries.jsonl"])
def test_gzip_is_read_whatever_the_file_is_called(tmp_path: Path, name: str) -> None:
    """The content decides."""
    path = write_file(tmp_path, gzip.compress(b'{"_id": "q", "text": "t"}\n'), name)

    assert [query.query_id for query in read_queries(path)] == ["q"]


def test_a_query_has_an_id_by_either_name(tmp_path: Path) -> None:
    """As an item has."""
    path = write_file(tmp_path, b'{"_id": "q", "text": "t"}\n{"id": 7, "text": "t"}\n')

    assert [query.query_id for query in read_queries(path)] == ["q", "7"]


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    """Files saved on Windows may begin with one."""
    path = write_file(tmp_path, b'\xef\xbb\xbf{"_id": "q", "text": "t"}\n')

    assert [query.query_id for query in read_queries(path)] == ["q"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("query,expected_id", "a CSV of query,expected_id goes without judgements"),
        ("[" * 100_000, "not JSON"),
        ('["q"]', "not a JSON object"),
        ('{"text": "t"}', "'id'"),
        ('{"_id": "", "text": "t"}', "'id'"),
        ('{"_id": true, "text": "t"}', "'id'"),
        ('{"_id": "x"}', "'text'"),
        ('{"_id": "x", "text": "  "}', "'text'"),
        ('{"_id": "x", "text": "t", "metadata": []}', "'metadata'"),
        ('{"_id": "q", "text": "again"}', "twice"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_bad_query_is_named_by_file_and_line(tmp_path: Path, line: str | bytes, reason: str) -> None:
    """The error carries the file, the line from 1, and what is wrong with it."""
    bad = line if isinstance(line, bytes) else line.encode()
    path = write_file(tmp_path, b'{"_id": "q", "text": "t"}\n\n' + bad + b"\n")

    with pytest.raises(BadLineError, match=reason) as caught:
        read_queries(path)

    assert (caught.value.file, caught.value.line) == (str(path), 3)


def test_a_damaged_gzip_stream_is_refused(tmp_path: Path) -> None:
    """A download that broke off says so instead of giving half of the queries."""
    whole = gzip.compress(b"".join(b'{"_id": "%d", "text": "t"}\n' % number for number in range(1000)))
    path = write_file(tmp_path, whole[:-20])

    with pytest.raises(InvalidRequestError, match="the file was cut off, copy it again"):
        read_queries(path)


@pytest.mark.parametrize("reader", [read_queries, read_qrels])
def test_a_file_that_cannot_be_read_is_the_callers_mistake(tmp_path: Path, reader: Any) -> None:
    """A missing file, a folder and an empty file each give a readable error."""
    for path in (tmp_path / "missing", tmp_path, write_file(tmp_path, "\n\n", "empty")):
        with pytest.raises(InvalidRequestError, match=path.name):
            reader(path)


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nq 1\td1\t2\nq 1\td2\t0\nq2\td1\t1\n",
        "query_id\tcorpus_id\tscore\r\nq 1\td1\t2\r\nq 1\td2\t0.0\r\nq2\td1\t1.0\r\n",
        "q 1\td1\t2\nq 1\td2\t0\nq2\td1\t1\nq2\td1\t1\n",
        "q 1\t0\td1\t2\nq 1\t0\td2\t0\n\nq2\tQ0\td1\t1",
    ],
)
def test_judgements_of_three_and_four_columns_are_distinguished(tmp_path: Path, text: str) -> None:
    """BEIR's columns with and without a header, and TREC's, give the same judgements."""
    assert read_qrels(write_file(tmp_path, text)) == {"q 1": {"d1": 2, "d2": 0}, "q2": {"d1": 1}}


def test_trec_judgements_may_be_parted_by_spaces(tmp_path: Path) -> None:
    """TREC's own files use spaces, and grades below 0 for spam."""
    assert read_qrels(write_file(tmp_path, "51 0 FT-1 -2\n51  0  FT-2   1\n")) == {"51": {"FT-1": -2, "FT-2": 1}}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("q1\td1", "the number of columns is 2"),
        ("q1\td2\thigh", "whole number"),
        ("q1\td2\t0.5", "whole number"),
        ("q1\td2\t1_0", "whole number"),
        pytest.param("q1\td2\t" + "9" * 5000, "score '9{77}…' is not a whole number of at most 9 digits", id="huge"),
        (f"q1\td2\t{MAX_RELEVANCE + 1}", "above"),
        ("\td2\t1", "empty"),
        ("q1\t\t1", "empty"),
        ("q1\td1\t0", "differently"),
    ],
)
def test_a_bad_judgement_is_named_by_file_and_line(tmp_path: Path, line: str, reason: str) -> None:
    """The error carries the file, the line from 1, and what is wrong with it."""
    path = write_file(tmp_path, f"query-id\tcorpus-id\tscore\nq1\td1\t1\n{line}\n")

    with pytest.raises(BadLineError, match=reason) as caught:
        read_qrels(path)

    assert (caught.value.file, caught.value.line) == (str(path), 3)


@pytest.mark.parametrize("line", ["q1\td1", "q1 0 d1 1 run", "q1"])
def test_a_first_line_of_another_width_is_a_bad_line(tmp_path: Path, line: str) -> None:
    """Judgements have three or four columns."""
    with pytest.raises(BadLineError, match=r"the number of columns is \d; write query, item and score"):
        read_qrels(write_file(tmp_path, line + "\n"))


def test_a_first_line_with_words_for_a_score_is_not_a_header(tmp_path: Path) -> None:
    """Only BEIR's own header is skipped; another first line must be a judgement."""
    with pytest.raises(BadLineError, match="whole number"):
        read_qrels(write_file(tmp_path, "query\titem\tgrade\nq1\td1\t1\n"))


words = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=8)


@given(st.dictionaries(words, st.dictionaries(words, st.integers(-2, 3), min_size=1), min_size=1))
@settings(deadline=None)
def test_judgements_survive_being_written_and_read(
    tmp_path_factory: pytest.TempPathFactory, qrels: dict[str, dict[str, int]]
) -> None:
    """Any ids and grades come back as they were."""
    lines = [f"{query}\t{item}\t{score}\n" for query, grades in qrels.items() for item, score in grades.items()]
    path = write_file(tmp_path_factory.mktemp("qrels"), "query-id\tcorpus-id\tscore\n" + "".join(lines))

    assert qrels == read_qrels(path)


@given(st.lists(st.tuples(words, words), min_size=1, unique_by=lambda pair: pair[0]))
@settings(deadline=None)
def test_queries_survive_being_written_and_read(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    """Any ids and texts come back as they were."""
    lines = "".join(json.dumps({"_id": key, "text": text}, ensure_ascii=False) + "\n" for key, text in pairs)
    path = write_file(tmp_path_factory.mktemp("queries"), lines)

    assert pairs == [(query.query_id, query.text) for query in read_queries(path)]


def test_only_queries_with_a_relevant_item_are_judged() -> None:
    """A query without judgements, or with irrelevant items alone, measures nothing."""
    queries = [a_query("none"), a_query("yes"), a_query("zero"), a_query("spam")]
    qrels = {"yes": {"d1": 0, "d2": 1}, "zero": {"d1": 0}, "spam": {"d1": -2}, "other": {"d1": 1}}

    assert [query.query_id for query in judged(queries, qrels)] == ["yes"]


def test_files_of_different_sets_are_recognised_by_their_ids() -> None:
    """When no id fits, the error shows one of each side."""
    with pytest.raises(InvalidRequestError, match=r"'scifact-1'.*'PLAIN-2'"):
        judged([a_query("scifact-1")], {"PLAIN-2": {"d1": 1}})


def test_judgements_without_a_relevant_item_are_refused() -> None:
    """When ids fit and nothing is relevant, the error says that."""
    with pytest.raises(InvalidRequestError, match="score above 0"):
        judged([a_query("q1")], {"q1": {"d1": 0}})


@pytest.mark.parametrize(("queries", "qrels"), [([], {"q": {"d": 1}}), ([a_query()], {})])
def test_nothing_at_all_is_refused(queries: list[JudgedQuery], qrels: dict[str, dict[str, int]]) -> None:
    """Without queries or judgements there is nothing to measure."""
    with pytest.raises(InvalidRequestError, match="nothing to measure"):
        judged(queries, qrels)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metadata.conversation=conversation", {"conversation": "c1"}),
        (" metadata.conversation = room ", {"room": "c1"}),
        ("metadata.as_of>=occurred_at", {"occurred_at": {"lte": "2022-08-24"}}),
        ("metadata.as_of>occurred_at", {"occurred_at": {"lt": "2022-08-24"}}),
        ("metadata.as_of<=occurred_at", {"occurred_at": {"gte": "2022-08-24"}}),
        ("metadata.as_of<occurred_at", {"occurred_at": {"gt": "2022-08-24"}}),
        ("metadata.level=level", {"level": 0}),
        ("metadata.open=open", {"open": False}),
    ],
)
def test_a_query_filters_by_a_value_of_its_own(text: str, expected: dict[str, Any]) -> None:
    """The query's value is on the left, so the comparison is mirrored for the item."""
    query = a_query(conversation="c1", as_of="2022-08-24", level=0, open=False)

    assert filtered(query, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "conversation=conversation",
        "metadata.=x",
        "metadata.x=",
        "metadata.x",
        "metadata.x==y",
        "metadata.x= <y",
    ],
)
def test_an_expression_of_another_form_is_refused_with_an_example(text: str) -> None:
    """The error shows how to write one."""
    with pytest.raises(InvalidRequestError, match=r"metadata\.conversation=conversation"):
        filtered(a_query(), text)


@pytest.mark.parametrize("metadata", [{}, {"room": None}, {"room": {"lte": 3}}, {"room": ["a"]}])
def test_a_query_without_the_value_is_named(metadata: dict[str, object]) -> None:
    """Searched without its filter it would measure something else, and an object must not become operators."""
    with pytest.raises(InvalidRequestError, match=r"'q9' has no metadata\.room that is a text"):
        filtered(a_query("q9", **metadata), "metadata.room=room")


def test_several_filters_all_apply() -> None:
    """Several expressions make one filter; none make none."""
    query = a_query(room="r1", as_of="2022")

    both = {"and": [{"room": "r1"}, {"occurred_at": {"lte": "2022"}}]}
    assert filtered(query, "metadata.room=room", "metadata.as_of>=occurred_at") == both
    assert filtered(query) is None


def test_a_query_that_is_not_judged_needs_no_value() -> None:
    """It is not searched."""
    query = a_query()
    assert with_filters([query], {}, where_from=["metadata.room=room"]) == [query]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({"self_id": "d7"}, {"item_id": {"ne": "d7"}}), ({"self_id": 7}, {"item_id": {"ne": "7"}}), ({}, None)],
)
def test_a_query_names_the_item_that_it_was(metadata: dict[str, Any], expected: Any) -> None:
    """The item itself is left out; a query without an item leaves nothing out."""
    queries = [a_query(**metadata), a_query("q2", self_id="x")]
    assert with_filters(queries, {"q1": {}, "q2": {}}, drop_self="metadata.self_id")[0].where == expected


def test_a_name_that_no_query_has_is_refused() -> None:
    """A slip of the pen would otherwise change nothing but the figures."""
    with pytest.raises(InvalidRequestError, match=r"no query has metadata\.nope"):
        with_filters([a_query()], {"q1": {}}, drop_self="metadata.nope")


@pytest.mark.parametrize("text", ["self_id", "metadata.", "metadata.a=b", ""])
def test_where_the_own_item_stands_must_be_metadata(text: str) -> None:
    """The error shows how to write it."""
    with pytest.raises(InvalidRequestError, match=r"metadata\.self_id"):
        with_filters([a_query()], {"q1": {}}, drop_self=text)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_brings_queries_with_what_is_expected(tmp_path: Path, separator: str) -> None:
    """A query in two rows expects two items; other columns are ignored."""
    rows = [
        ("Query", "by", "Expected_ID"),
        ("why, so", "me", "a"),
        ("where", "", "b"),
        ("why, so", "me", "c"),
    ]
    path = write_file(tmp_path, "\n".join(separator.join(f'"{cell}"' for cell in row) for row in rows), "pairs.csv")

    queries, qrels = read_judged(path)
    assert [query.text for query in queries] == ["why, so", "where"]
    assert [qrels[query.query_id] for query in queries] == [{"a": 1, "c": 1}, {"b": 1}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column expected_id and query in its first line"),
        ("question,answer\na,b\n", "no column expected_id and query"),
        ('{"id": "1", "text": "a"}\n', "no column expected_id and query"),
        ("query,expected_id\n", "no rows"),
        ("query,expected_id\na,\n", "a row needs a query and an expected_id"),
        ("query,expected_id\na\n", "a row needs a query and an expected_id"),
        ('query,expected_id\n"a,b\n', "not CSV"),
        ('"query"s,expected_id\na,b\n', "not CSV"),
        ('{"_id": "q", "text": "t"}\n', "without a file of judgements the queries come as CSV"),
        ('{"_id":"q","text":"t"}\n', ":1: not CSV: .*; without a file of judgements the queries come as CSV"),
    ],
)
def test_an_invalid_csv_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With what to write instead."""
    with pytest.raises(InvalidRequestError, match=message):
        read_judged(write_file(tmp_path, text))
