"""Several statements in one round trip and one implicit transaction, their answers in binary.

The driver's own pipeline and cursors do the same with more ceremony, which cost more than a search in the index does:
this speaks to libpq's pipeline directly, through the parts of psycopg that turn values into parameters and back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import abc, errors, generators, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.json import Jsonb

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled

Row = tuple[Any, ...]

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered to a statement; its rows are still to be read."""

    transformer: abc.Transformer
    result: pq.abc.PGresult

    def rows(self) -> list[Row]:
        """The rows as Python's values."""
        self.transformer.set_pgresult(self.result)
        rows: list[Row] = self.transformer.load_rows(0, self.result.ntuples, tuple)
        return rows


async def rows_of(answers: Sequence[Answer]) -> list[list[Row]]:
    """The rows of each answer; many are read aside."""
    many = sum(answer.result.ntuples for answer in answers) >= LONG
    return await aside(lambda: [answer.rows() for answer in answers], is_long=many)


@dataclass(frozen=True, slots=True)
class _Written:
    """A parameter as it goes over the wire, with the number of its type."""

    data: abc.Buffer | None
    oid: int
    format: pq.Format


async def written(statements: Sequence[Compiled]) -> Sequence[Compiled]:
    """The same statements, their long lists written down aside, before they get a connection, which others want."""
    if not any(_is_long(value) for one in statements for value in one.parameters.values()):
        return statements
    return await aside(lambda: _with_lists_written(statements), is_long=True)


def _with_lists_written(statements: Sequence[Compiled]) -> list[Compiled]:
    known: dict[int, object] = {}  # the same list may stand in many statements
    written_ones = []
    for one in statements:
        long = {name: value for name, value in one.parameters.items() if _is_long(value)}
        for value in long.values():
            if id(value) not in known:
                known[id(value)] = _as_written(value)
        written_ones.append(one.bind(**{name: known[id(value)] for name, value in long.items()}))
    return written_ones


def _is_long(value: object) -> bool:
    if isinstance(value, Jsonb):
        value = value.obj
    return isinstance(value, list) and len(value) >= LONG


def _as_written(value: object) -> object:
    transformer = Transformer()
    try:
        [data] = transformer.dump_sequence([value], [PyFormat.AUTO])
    except psycopg.ProgrammingError:
        return value  # of an extension's type, which connections alone know
    [oid], [how] = transformer.types or (0,), transformer.formats or (pq.Format.TEXT,)
    return _Written(data, oid, how)


async def run_together(connection: psycopg.AsyncConnection[Any], statements: Sequence[Compiled]) -> list[Answer]:
    """What the server answers to each statement. The first error ends them all and is raised.

    Who is cancelled meanwhile takes the statements along: the server ends them. If it does not do so at once, the
    connection keeps its pipeline open: who finds it so must close it.
    """
    server = connection.pgconn
    encoding = connection.info.encoding
    async with connection.lock:
        transformers = [_sent(connection, statement, first=not place) for place, statement in enumerate(statements)]
        server.pipeline_sync()
        try:
            answers = await connection.wait(_exchanged(server, len(statements)))
        except asyncio.CancelledError:
            # The driver has had the statements cancelled, and read what the server said to that.
            with suppress(psycopg.Error):
                server.exit_pipeline_mode()
            raise
        server.exit_pipeline_mode()
    for answer in answers:
        if answer[-1].status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer[-1], encoding=encoding)
    return [Answer(transformer, answer[-1]) for transformer, answer in zip(transformers, answers, strict=False)]


def _exchanged(server: pq.abc.PGconn, statements: int) -> abc.PQGen[list[list[pq.abc.PGresult]]]:
    """Send what is in the pipeline and give every answer: the loop is asked to wait for all of it once."""
    yield from generators.send(server)
    answers = []
    for _ in range(statements + 1):  # one answer a statement, and one to the end of the pipeline
        answers.append((yield from generators.fetch_many(server)))  # noqa: PERF401 - no comprehension may yield
    if answers[-1][-1].status != pq.ExecStatus.PIPELINE_SYNC:
        # The transaction ends with the pipeline, and could not be committed: the end comes after the error.
        answers.append((yield from generators.fetch_many(server)))
    return answers


def _sent(connection: psycopg.AsyncConnection[Any], statement: Compiled, *, first: bool) -> abc.Transformer:
    """Put the statement into libpq's pipeline, which the first one opens; gives what will read its answer."""
    text, names = _numbered(statement.text)
    transformer = Transformer(connection)
    given = [statement.parameters[name] for name in names]
    long = {place: value for place, value in enumerate(given) if isinstance(value, _Written)}
    values = list(
        transformer.dump_sequence(
            [None if place in long else value for place, value in enumerate(given)], [PyFormat.AUTO] * len(names)
        )
    )
    types, formats = list(transformer.types or ()), list(transformer.formats or ())
    for place, one in long.items():
        values[place], types[place], formats[place] = one.data, one.oid, one.format
    if first:
        connection.pgconn.enter_pipeline_mode()
    connection.pgconn.send_query_params(
        text, values, param_types=types, param_formats=formats, result_format=pq.Format.BINARY
    )
    return transformer


@lru_cache(maxsize=1024)
def _numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    """The text with ``$1`` for ``%(name)s``, as the server reads it, and the names in order of their numbers."""
    numbers: dict[str, int] = {}

    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    numbered = _PLACEHOLDER.sub(replaced, text)
    return numbered.encode(), tuple(numbers)
