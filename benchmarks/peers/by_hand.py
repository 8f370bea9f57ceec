"""psycopg and pgvector by hand: the floor. One table, one statement a search, vectors sent binary.

``halfvec`` and ``STORAGE PLAIN`` because they make comparing all rows cheap, a B-tree index for each attribute, and
hybrid search as in pgvector's documentation: both legs and reciprocal rank fusion in one statement.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import psycopg
from corpora import Corpus, Vectors, Where
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg import sql

from peers.contract import EFFORTS, TUNINGS

_COLUMNS = "id, body, category, region"
_ANY_WORD = "replace(plainto_tsquery('english', %(text)s)::text, '&', '|')::tsquery"
ALL_WORDS = "plainto_tsquery('english', %(text)s)"
_DEPTH = 100


def _dense(condition: str) -> str:
    return f"SELECT {_COLUMNS} FROM documents {condition} ORDER BY vector <#> %(vector)s LIMIT %(k)s"  # noqa: S608


def _exact(condition: str) -> str:
    """Adding nothing to the distance keeps the HNSW index out of it."""
    return (
        f"WITH f AS MATERIALIZED (SELECT {_COLUMNS}, vector FROM documents {condition}) "  # noqa: S608
        f"SELECT {_COLUMNS} FROM f ORDER BY (vector <#> %(vector)s) + 0 LIMIT %(k)s"
    )


def hybrid(words: str, depth: int = _DEPTH) -> str:
    """Both legs, ``depth`` candidates of each, fused by reciprocal ranks; ``words`` is the query of the text search."""
    return f"""
        WITH query AS (SELECT {words} AS words),
        dense AS MATERIALIZED (
            SELECT id, rank() OVER (ORDER BY distance) AS rank FROM (
                SELECT id, vector <#> %(vector)s AS distance FROM documents
                ORDER BY vector <#> %(vector)s LIMIT {depth}
            ) AS nearest),
        lexical AS MATERIALIZED (
            SELECT id, rank() OVER (ORDER BY score DESC) AS rank FROM (
                SELECT id, ts_rank_cd(lexemes, words) AS score FROM documents, query
                WHERE lexemes @@ words ORDER BY score DESC LIMIT {depth}
            ) AS best),
        fused AS (
            SELECT id, sum(1.0 / (60 + rank)) AS score
            FROM (SELECT * FROM dense UNION ALL SELECT * FROM lexical) AS legs
            GROUP BY id ORDER BY score DESC, id LIMIT %(k)s)
        SELECT {_COLUMNS} FROM fused JOIN documents USING (id) ORDER BY fused.score DESC, id
    """  # noqa: S608


class ByHand:
    """A connection for each variant, its settings made once."""

    plain = (*EFFORTS, "exact")
    filtered = ("default", "strict", "relaxed", "relaxed, wide", "exact")
    fusions = ("all words", "any word")

    def __init__(self) -> None:
        self._url = ""
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        self._hybrid = {"all words": hybrid(ALL_WORDS), "any word": hybrid(_ANY_WORD)}

    async def load(self, url: str, corpus: Corpus) -> Mapping[str, float]:
        """Binary COPY, then the indexes."""
        self._url = url
        marks = [time.perf_counter()]
        with psycopg.connect(url, autocommit=True) as connection:
            _make_table(connection, corpus)
            _copy(connection, corpus)
            marks.append(time.perf_counter())
            connection.execute("CREATE INDEX ON documents USING hnsw (vector halfvec_ip_ops)")
            marks.append(time.perf_counter())
            connection.execute("CREATE INDEX ON documents USING gin (lexemes)")
            marks.append(time.perf_counter())
        return dict(zip(("copy", "hnsw", "gin"), (b - a for a, b in pairwise(marks)), strict=True))

    async def open(self) -> None:
        """One connection a variant; HNSW variants sort by nothing else, whatever the planner would like."""
        for variant in {*self.plain, *self.filtered, *self.fusions}:
            self._connections[variant] = _connected(self._url, _settings(variant))

    async def dense(self, variant: str, vector: Vectors, k: int, where: Where) -> list[str]:
        """One statement."""
        condition = "WHERE " + " AND ".join(f"{name} = %({name})s" for name in where) if where else ""
        text = _exact(condition) if variant == "exact" else _dense(condition)
        return self._ids(variant, text, {"vector": HalfVector(vector), "k": k, **where})

    async def hybrid(self, variant: str, text: str, vector: Vectors, k: int) -> list[str]:
        """One statement."""
        return self._ids(variant, self._hybrid[variant], {"vector": HalfVector(vector), "k": k, "text": text})

    def _ids(self, variant: str, text: str, parameters: Mapping[str, Any]) -> list[str]:
        # Statements consist of constants and names of columns; values are parameters.
        cursor = self._connections[variant].execute(text, parameters, binary=True)
        return [row[0] for row in cursor]

    async def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def _settings(variant: str) -> dict[str, str]:
    if variant not in TUNINGS:  # a hybrid search, which needs as many neighbours as the depth of its legs
        return {"hnsw.ef_search": str(_DEPTH)}
    tuning = TUNINGS[variant]
    forced = {"enable_sort": "off"} if tuning.iterative_scan != "off" else {}
    return {**tuning.settings(), **forced}


def _connected(url: str, settings: Mapping[str, str]) -> psycopg.Connection[Any]:
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    # Plans depend on the values: a generic plan would not know how rare a category is.
    connection = psycopg.connect(url, autocommit=True, prepare_threshold=None, options=options)
    register_vector(connection)
    return connection


def _make_table(connection: psycopg.Connection[Any], corpus: Corpus) -> None:
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    connection.execute(
        sql.SQL(
            "CREATE TABLE documents (id text PRIMARY KEY, body text, category text, region text, "
            "vector halfvec({}) NOT NULL, "
            "lexemes tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED)"
        ).format(corpus.dimensions)
    )
    connection.execute("ALTER TABLE documents ALTER vector SET STORAGE PLAIN")
    register_vector(connection)


def _copy(connection: psycopg.Connection[Any], corpus: Corpus) -> None:
    statement = f"COPY documents ({_COLUMNS}, vector) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(["text", "text", "text", "text", "halfvec"])
        for key, text, attributes, vector in zip(
            corpus.ids, corpus.texts, corpus.attributes, corpus.vectors, strict=True
        ):
            row = (key, text, attributes.get("category"), attributes.get("region"), HalfVector(vector))
            copy.write_row(row)
    connection.execute("CREATE INDEX ON documents (category)")
    connection.execute("CREATE INDEX ON documents (region)")
