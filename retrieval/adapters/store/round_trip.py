"""Several statements in one round trip and one implicit transaction, their answers in binary.

The driver's own pipeline and cursors do the same with more ceremony, which cost more than a search in the index does:
this speaks to libpq's pipeline directly, through the parts of psycopg that turn values into parameters and back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import abc, errors, generators, pq
from psycopg.adapt import PyFormat, Transformer

from retrieval.adapters.store.compiled import Compiled

Row = tuple[Any, ...]

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


async def run_together(connection: psycopg.AsyncConnection[Any], statements: Sequence[Compiled]) -> list[list[Row]]:
    """Each statement's rows. The first error ends them all and is raised.

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
    return [_rows(transformer, answer[-1]) for transformer, answer in zip(transformers, answers, strict=False)]


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
    values = transformer.dump_sequence([statement.parameters[name] for name in names], [PyFormat.AUTO] * len(names))
    if first:
        connection.pgconn.enter_pipeline_mode()
    connection.pgconn.send_query_params(
        text, values, param_types=transformer.types, param_formats=transformer.formats, result_format=pq.Format.BINARY
    )
    return transformer


def _rows(transformer: abc.Transformer, result: pq.abc.PGresult) -> list[Row]:
    transformer.set_pgresult(result)
    rows: list[Row] = transformer.load_rows(0, result.ntuples, tuple)
    return rows


@lru_cache(maxsize=1024)
def _numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    """The text with ``$1`` for ``%(name)s``, as the server reads it, and the names in order of their numbers."""
    numbers: dict[str, int] = {}

    def replaced(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    numbered = _PLACEHOLDER.sub(replaced, text)
    return numbered.encode(), tuple(numbers)
