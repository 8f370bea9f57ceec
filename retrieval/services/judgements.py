"""Judged queries: the questions, the relevant items, and the filters of a query for its own search.

Files are BEIR's (``queries.jsonl`` with ``_id``, ``text``, ``metadata``; ``qrels.tsv`` with a header line),
TREC's four-column judgements, or one CSV with the columns ``query`` and ``expected_id``; all plain or gzipped.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from retrieval.adapters.readers.lines import MAX_LINE_BYTES, decoded, read_lines, too_long_reason
from retrieval.domain.checks import JSONSyntaxError, JSONTextError, is_whole, json_of, written
from retrieval.domain.errors import BadLineError, InvalidRequestError
from retrieval.domain.frozen import Frozen
from retrieval.domain.search.filters import Filter

Qrels = Mapping[str, Mapping[str, int]]
"""Relevance by query id and item id: above 0 is relevant, more is better, 0 and below is judged not relevant."""

MAX_RELEVANCE = 1_000
"""The highest relevance a judgement may have: the metrics' arithmetic counts the grades one by one."""

_HEADER = ("query-id", "corpus-id", "score")
_RELEVANCE = re.compile(r"([+-]?[0-9]{1,9})(?:\.0*)?")
_WHERE_FROM = re.compile(r"\s*metadata\.([^<>=]*[^<>=\s])\s*(<=|>=|=|<|>)\s*([^<>=]*[^<>=\s])\s*")
_DROP_SELF = re.compile(r"\s*metadata\.([^<>=]*[^<>=\s])\s*")

_ITEM_OPERATOR = {">=": "lte", "<=": "gte", ">": "lt", "<": "gt"}
"""A comparison has the query's value on the left and a filter the item's field, so each operator is mirrored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuery:
    """One question of a test set."""

    query_id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=Frozen)
    """JSON values by name."""
    where: dict[str, Any] | Filter | None = None
    """The filter of its search; None: there is none."""


def read_queries(path: str | Path) -> list[JudgedQuery]:
    """The queries of a JSON Lines file, in its order; blank lines are skipped.

    Raises ``BadLineError`` for a line that is not a query or repeats an ``_id``, ``InvalidRequestError`` for a
    file that cannot be read or is empty.
    """
    queries: dict[str, JudgedQuery] = {}

    def read(line: str) -> None:
        query = _query(line)
        if queries.setdefault(query.query_id, query) is not query:
            raise ValueError(f"id {query.query_id!r} occurs twice; keep one")

    _read_lines(path, read)
    if not queries:
        raise InvalidRequestError(f"{path}: no queries; write one JSON object with 'id' and 'text' a line")
    return list(queries.values())


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Relevance judgements by query id and item id.

    Takes three columns (query, item, score; with or without BEIR's header line) or TREC's four (query,
    iteration, item, relevance); columns are separated by tabs, or by spaces where a line has no tab. Raises
    ``BadLineError`` for a line that is not a judgement or contradicts an earlier one, ``InvalidRequestError`` for a
    file that cannot be read or is empty.
    """
    qrels: dict[str, dict[str, int]] = {}

    def read(line: str) -> None:
        columns = [column.strip() for column in line.split("\t")] if "\t" in line else line.split()
        if not qrels and tuple(column.lower().replace("_", "-") for column in columns) == _HEADER:
            return
        query_id, item_id, relevance = _judgement(columns)
        if qrels.setdefault(query_id, {}).setdefault(item_id, relevance) != relevance:
            raise ValueError(f"query {query_id!r} and item {item_id!r} were judged differently before")

    _read_lines(path, read)
    if not qrels:
        raise InvalidRequestError(f"{path}: no judgements; write 'query-id<tab>corpus-id<tab>score' lines")
    return qrels


def read_judged(
    queries: str | Path,
    qrels: str | Path | None = None,
    *,
    where_from: Sequence[str] = (),
    drop_self: str | None = None,
    limit: int | None = None,
) -> tuple[list[JudgedQuery], Qrels]:
    """The queries and their judgements: of two files, or without ``qrels`` of one CSV (``read_pairs``).

    ``limit``: only the first judged queries. Raises what ``read_queries``, ``read_qrels`` and ``with_filters`` raise.
    """
    read, judgements = read_pairs(queries) if qrels is None else (read_queries(queries), read_qrels(qrels))
    filtered = with_filters(read, judgements, where_from=where_from, drop_self=drop_self)
    return filtered if limit is None else judged(filtered, judgements)[:limit], judgements


_AS_PAIRS = "without a file of judgements the queries come as CSV with the columns query,expected_id"


def read_pairs(path: str | Path) -> tuple[list[JudgedQuery], Qrels]:
    """Queries with the items expected of each, from a CSV with the columns ``query`` and ``expected_id``, in any case.

    A query in several rows expects several items; other columns are ignored. Queries are numbered in the order of the
    file. Raises ``BadLineError`` for a row that lacks one of the two values, ``InvalidRequestError`` for a file that
    cannot be read, has no rows, or lacks one of these columns.
    """
    lines: list[str] = []
    _read_lines(path, lambda line: lines.append(line + "\n"))
    header = lines[0] if lines else ""
    reader = csv.DictReader(lines, delimiter=max(",;\t", key=header.count), strict=True)
    expected: dict[str, dict[str, int]] = {}
    try:
        reader.fieldnames = [name.strip().casefold() for name in reader.fieldnames or ()]
        if missing := {"query", "expected_id"} - set(reader.fieldnames):
            raise InvalidRequestError(
                f"{path}: no column {' and '.join(sorted(missing))} in its first line; {_AS_PAIRS}"
            )
        for row in reader:
            text, item_id = ((row[name] or "").strip() for name in ("query", "expected_id"))
            if not text or not item_id:
                raise BadLineError(str(path), reader.line_num, "a row needs a query and an expected_id")
            expected.setdefault(text, {})[item_id] = 1
    except csv.Error as error:
        raise BadLineError(str(path), max(reader.line_num, 1), f"not CSV: {error}; {_AS_PAIRS}") from None
    if not expected:
        raise InvalidRequestError(f"{path}: no rows; write a query and an expected_id in each")
    queries = [JudgedQuery(query_id=str(number), text=text) for number, text in enumerate(expected, 1)]
    return queries, {query.query_id: expected[query.text] for query in queries}


async def missing_items(
    get: Callable[[Sequence[str]], Awaitable[Mapping[str, object]]], queries: Sequence[JudgedQuery], qrels: Qrels
) -> str | None:
    """A note on relevant items that the collection does not have; None: it has all of them.

    ``get``: ``Collection.get``. Raises ``InvalidRequestError`` where the collection has none of the items.
    """
    graded = chain.from_iterable(qrels.get(query.query_id, {}).items() for query in queries)
    relevant = sorted({item_id for item_id, score in graded if score > 0})
    missing = set(relevant) - set(await get(relevant))
    if not missing:
        return None
    example = min(missing)
    if len(missing) == len(relevant):
        raise InvalidRequestError(
            f"no judged item is in the collection, such as {written(example, 60)}; "
            "give the judgements of its items, by their ids"
        )
    share = f"{len(missing)} of {len(relevant)} relevant items {'is' if len(missing) == 1 else 'are'}"
    return f"{share} not in the collection, such as {written(example, 60)}"


def judged(queries: Sequence[JudgedQuery], qrels: Qrels) -> list[JudgedQuery]:
    """The queries that have at least one relevant item (a score above 0), in their order.

    Raises ``InvalidRequestError`` when there is none: nothing could be measured.
    """
    with_relevant = [query for query in queries if any(score > 0 for score in qrels.get(query.query_id, {}).values())]
    if with_relevant:
        return with_relevant
    if not queries or not qrels:
        raise InvalidRequestError("nothing to measure: give at least one query and one judgement")
    if any(query.query_id in qrels for query in queries):
        raise InvalidRequestError("no query has a relevant item: judge at least one with a score above 0")
    raise InvalidRequestError(
        f"no query is judged: the queries have ids such as {queries[0].query_id!r}, "
        f"the judgements such as {next(iter(qrels))!r}; give two files of the same set"
    )


def with_filters(
    queries: Sequence[JudgedQuery], qrels: Qrels, *, where_from: Sequence[str] = (), drop_self: str | None = None
) -> list[JudgedQuery]:
    """The queries, the judged ones with filters by their own metadata.

    - ``where_from``: ``metadata.NAME=FIELD`` (equal) or a comparison such as ``metadata.as_of>=occurred_at``, which
      reads as written: the query's value is at least the item's field.
    - ``drop_self``: ``metadata.NAME``, where a query names the item that it was made of; the search ranks as if that
      item did not exist.

    Raises ``InvalidRequestError`` for another form, for a query without the value or with a list or an object there,
    and for a ``drop_self`` that no judged query has.
    """
    sources = [_source(text) for text in where_from]
    own = None
    if drop_self is not None:
        if (match := _DROP_SELF.fullmatch(drop_self)) is None:
            raise InvalidRequestError(f"cannot read {drop_self!r}: write a name such as 'metadata.self_id'")
        own = match[1]
        if all(query.metadata.get(own) is None for query in queries if query.query_id in qrels):
            raise InvalidRequestError(f"no query has metadata.{own}; check the name given to drop-self")
    return [
        replace(query, where=_where(query, sources, own)) if query.query_id in qrels else query for query in queries
    ]


def _source(text: str) -> tuple[str, str, str]:
    """The name in the query's metadata, the operator, and the item's field."""
    match = _WHERE_FROM.fullmatch(text)
    if match is None:
        raise InvalidRequestError(
            f"cannot read {text!r}: write 'metadata.conversation=conversation' "
            "or a comparison such as 'metadata.as_of>=occurred_at'"
        )
    return match[1], match[2], match[3]


def _where(query: JudgedQuery, sources: Sequence[tuple[str, str, str]], own: str | None) -> dict[str, Any] | None:
    conditions: list[dict[str, Any]] = []
    for name, operator, item_field in sources:
        value = query.metadata.get(name)
        if not isinstance(value, str | int | float):
            raise InvalidRequestError(
                f"query {query.query_id!r} has no metadata.{name} that is a text, a number or a boolean; "
                "add it, or leave that filter out"
            )
        conditions.append({item_field: value if operator == "=" else {_ITEM_OPERATOR[operator]: value}})
    if own is not None and (item_id := query.metadata.get(own)) is not None:
        conditions.append({"item_id": {"ne": str(item_id)}})
    if len(conditions) > 1:
        return {"and": conditions}
    return conditions[0] if conditions else None


def _read_lines(path: str | Path, read: Callable[[str], None]) -> None:
    """Give ``read`` each line that is not blank, without its line end.

    Raises the errors of ``read_lines``, and ``BadLineError``, also for a ``ValueError`` of ``read``.
    """
    for line in read_lines(str(path)):
        text, fault = decoded(line.data.strip(b"\r\n"))
        try:
            if fault or line.too_long:
                raise ValueError(fault or too_long_reason(MAX_LINE_BYTES))  # noqa: TRY301 - one place makes errors of lines
            if text.strip():
                read(text)
        except ValueError as error:
            raise BadLineError(str(path), line.number, str(error)) from None


def _query(line: str) -> JudgedQuery:
    try:
        record = json_of(line)
    except JSONSyntaxError:
        raise ValueError(
            "not JSON; write one object a line with id and text (a CSV of query,expected_id goes without judgements)"
        ) from None
    except JSONTextError as error:
        raise ValueError(f"not JSON that is read: {error}") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object; write {'id': ..., 'text': ...}")
    query_id, text, metadata = record.get("_id", record.get("id")), record.get("text"), record.get("metadata")
    if is_whole(query_id):
        query_id = str(query_id)
    if not isinstance(query_id, str) or not query_id:
        raise ValueError("'id' must be a non-empty text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("'text' must be a text that is not blank")
    if metadata is not None and not isinstance(metadata, dict):
        raise ValueError("'metadata' must be an object")
    return JudgedQuery(query_id=query_id, text=text, metadata=Frozen(metadata or {}))


def _judgement(columns: Sequence[str]) -> tuple[str, str, int]:
    """Query id, item id and relevance."""
    if len(columns) not in (3, 4):
        raise ValueError(
            f"the number of columns is {len(columns)}; write query, item and score, or TREC's four columns"
        )
    query_id, item_id, score = columns[0], columns[-2], columns[-1]
    if not query_id or not item_id:
        raise ValueError("the query's or the item's id is empty")
    match = _RELEVANCE.fullmatch(score)
    if match is None:
        raise ValueError(f"score {written(score)} is not a whole number of at most 9 digits")
    relevance = int(match[1])
    if relevance > MAX_RELEVANCE:
        raise ValueError(f"score {score} is above {MAX_RELEVANCE}; use a few grades, such as 0 to 3")
    return query_id, item_id, relevance
