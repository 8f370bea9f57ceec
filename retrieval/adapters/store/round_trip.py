"""Several statements in one round trip and one implicit transaction, their answers in binary.

The driver's own pipeline and cursors do the same with more ceremony, which cost more than a search in the index does:
this speaks to libpq's pipeline directly, through the parts of psycopg that turn values into parameters and back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, errors, generators, pq
from psycopg.adapt import PyFormat, Transformer

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.session import SessionConnection

Row = tuple[Any, ...]

_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


async def run_together(
    connection: SessionConnection, statements: Sequence[Compiled], plan: Hashable | None = None
) -> list[list[Row]]:
    """Each statement's rows. The first error ends them all and is raised.

    ``plan``: what plans depend on beside the statements; None: no plan is kept.

    Who is cancelled meanwhile takes the statements along: the server ends them. If it does not do so at once, the
    connection keeps its pipeline open: who finds it so must close it.
    """
    server = connection.pgconn
    encoding = connection.info.encoding
    async with connection.lock:
        server.enter_pipeline_mode()
        sent = [_sent(connection, statement, plan) for statement in statements]
        server.pipeline_sync()
        try:
            answers = await connection.wait(_exchanged(server, sum(each.messages for each in sent)))
        except asyncio.CancelledError:
            # The driver has had the statements cancelled, and read what the server said to that.
            with suppress(psycopg.Error):
                server.exit_pipeline_mode()
            raise
        server.exit_pipeline_mode()
    for answer in answers:
        if answer[-1].status == pq.ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(answer[-1], encoding=encoding)
    places = accumulate(each.messages for each in sent)
    return [_rows(each.reader, answers[place - 1][-1]) for each, place in zip(sent, places, strict=True)]


def _exchanged(server: pq.abc.PGconn, messages: int) -> abc.PQGen[list[list[pq.abc.PGresult]]]:
    """Send what is in the pipeline and give every answer: the loop is asked to wait for all of it once."""
    yield from generators.send(server)
    answers = []
    for _ in range(messages + 1):  # one answer a message, and one to the end of the pipeline
        answers.append((yield from generators.fetch_many(server)))  # noqa: PERF401 - no comprehension may yield
    if answers[-1][-1].status != pq.ExecStatus.PIPELINE_SYNC:
        # The transaction ends with the pipeline, and could not be committed: the end comes after the error.
        answers.append((yield from generators.fetch_many(server)))
    return answers


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
    values = reader.dump_sequence([statement.parameters[name] for name in names], [PyFormat.AUTO] * len(names))
    types, formats = reader.types, reader.formats
    if plan is None or statement.keep is None:
        server.send_query_params(text, values, param_types=types, param_formats=formats, result_format=pq.Format.BINARY)
        return _Sent(reader, 1)
    kept = connection.session.keep((text, types, statement.keep, plan))
    if kept.dropped:
        server.send_query_params(b"DEALLOCATE " + kept.dropped, None)
    if kept.is_new:
        server.send_prepare(kept.name, text, param_types=types)
    server.send_query_prepared(kept.name, values, param_formats=formats, result_format=pq.Format.BINARY)
    return _Sent(reader, 1 + kept.is_new + bool(kept.dropped))


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
