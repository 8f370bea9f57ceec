"""Several statements in one round trip and one implicit transaction, their answers in binary.

The driver's own pipeline and cursors do the same with more ceremony, which cost more than a search in the index does:
this speaks to libpq's pipeline directly, through the parts of psycopg that turn values into parameters and back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, errors, generators, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.json import Jsonb

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.session import SessionConnection

Row = tuple[Any, ...]

_LISTS = (list, Jsonb)

MANY_PARAMETERS = 100
"""From so many parameters of a statement on, writing them takes milliseconds."""

SENT_AT_ONCE = 8
"""Statements that libpq may hold before it has sent them: with each, it moves all that it holds."""

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
class Written:
    """A parameter as it goes over the wire, with the number of its type (0: the statement says it)."""

    data: abc.Buffer | None
    oid: int = 0
    format: pq.Format = pq.Format.BINARY


async def written(statements: Sequence[Compiled]) -> Sequence[Compiled]:
    """The same statements, their long lists written down aside, before they get a connection, which others want.

    Where a statement has many parameters, all its lists are written so.
    """
    if not any(map(_lists_to_write, statements)):
        return statements
    return await aside(lambda: _with_lists_written(statements), is_long=True)


def _lists_to_write(statement: Compiled) -> dict[str, object]:
    lists = [(name, value) for name, value in statement.parameters.items() if type(value) in _LISTS]
    least = 0 if len(statement.parameters) >= MANY_PARAMETERS else LONG
    return {name: value for name, value in lists if _size(value) >= least}


def _with_lists_written(statements: Sequence[Compiled]) -> list[Compiled]:
    known: dict[int, object] = {}  # the same list may stand in many statements
    written_ones = []
    for one in statements:
        long = _lists_to_write(one)
        for value in long.values():
            if id(value) not in known:
                known[id(value)] = _as_written(value)
        written_ones.append(one.bind(**{name: known[id(value)] for name, value in long.items()}))
    return written_ones


def _size(value: Any) -> int:
    """Elements of a list; -1 for JSON that is none."""
    inner = value.obj if isinstance(value, Jsonb) else value
    return len(inner) if isinstance(inner, list) else -1


def _as_written(value: object) -> object:
    transformer = Transformer()
    try:
        [data] = transformer.dump_sequence([value], [PyFormat.AUTO])
    except psycopg.ProgrammingError:
        return value  # of an extension's type, which connections alone know
    [oid], [how] = transformer.types or (0,), transformer.formats or (pq.Format.TEXT,)
    return Written(data, oid, how)


async def run_together(
    connection: SessionConnection, statements: Sequence[Compiled], plan: Hashable | None = None
) -> list[Answer]:
    """What the server answers to each statement. The first error ends them all and is raised.

    ``plan``: what plans depend on beside the statements; None: no plan is kept.

    Who is cancelled meanwhile takes the statements along: the server ends them. If it does not do so at once, the
    connection keeps its pipeline open: who finds it so must close it.
    """
    server = connection.pgconn
    async with connection.lock:
        server.enter_pipeline_mode()
        try:
            sent, answers = await connection.wait(_exchanged(connection, statements, plan))
        except asyncio.CancelledError:
            # The driver has had the statements cancelled, and read what the server said to that.
            with suppress(psycopg.Error):
                server.exit_pipeline_mode()
            raise
        server.exit_pipeline_mode()
    for answer in answers:
        if answer[-1].status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer[-1], encoding=connection.info.encoding)
    places = accumulate(each.messages for each in sent)
    return [Answer(each.reader, answers[place - 1][-1]) for each, place in zip(sent, places, strict=True)]


def _exchanged(
    connection: SessionConnection, statements: Sequence[Compiled], plan: Hashable | None
) -> abc.PQGen[tuple[list[_Sent], list[list[pq.abc.PGresult]]]]:
    """Send the statements and give every answer."""
    server = connection.pgconn
    sent = []
    for place, statement in enumerate(statements, 1):
        sent.append(_sent(connection, statement, plan))
        if place % SENT_AT_ONCE == 0:
            yield from generators.send(server)
    server.pipeline_sync()
    yield from generators.send(server)
    answers = []
    for _ in range(sum(each.messages for each in sent) + 1):  # one a message, and one to the end of the pipeline
        answers.append((yield from generators.fetch_many(server)))  # noqa: PERF401 - no comprehension may yield
    if answers[-1][-1].status != pq.ExecStatus.PIPELINE_SYNC:
        # The transaction ends with the pipeline, and could not be committed: the end comes after the error.
        answers.append((yield from generators.fetch_many(server)))
    return sent, answers


class _Sent(NamedTuple):
    """A statement in the pipeline."""

    reader: abc.Transformer
    """Reads its answer."""
    messages: int
    """How many messages it took, each of which is answered; the last one's answer is the statement's."""


def _sent(connection: SessionConnection, statement: Compiled, plan: Hashable | None) -> _Sent:
    """Put the statement into libpq's pipeline."""
    server = connection.pgconn
    text, names = _numbered(statement.text)
    reader = Transformer(connection)
    given = [statement.parameters[name] for name in names]
    ready = {place: value for place, value in enumerate(given) if type(value) is Written}
    for place in ready:
        given[place] = None
    values = list(reader.dump_sequence(given, [PyFormat.AUTO] * len(names)))
    types, formats = list(reader.types or ()), list(reader.formats or ())
    for place, one in ready.items():
        values[place], types[place], formats[place] = one.data, one.oid, one.format
    if plan is None or statement.keep is None:
        server.send_query_params(text, values, param_types=types, param_formats=formats, result_format=pq.Format.BINARY)
        return _Sent(reader, 1)
    kept = connection.session.keep((text, tuple(types), statement.keep, plan))
    if kept.dropped:
        server.send_query_params(b"DEALLOCATE " + kept.dropped, None)
    if kept.is_new:
        server.send_prepare(kept.name, text, param_types=types)
    server.send_query_prepared(kept.name, values, param_formats=formats, result_format=pq.Format.BINARY)
    return _Sent(reader, 1 + kept.is_new + bool(kept.dropped))


@lru_cache(maxsize=1024)
def _numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    """The text with ``$1`` for ``%(name)s``, as the server reads it, and the names in order of their numbers."""
    numbers: dict[str, int] = {}

    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    numbered = _PLACEHOLDER.sub(replaced, text)
    return numbered.encode(), tuple(numbers)
