"""Text keys beside whole numbers: the tables of a search, keyed both ways, in one database and asked in turn.

    .venv/bin/python benchmarks/keys.py --items 20000

``text``: every table has the application's key, as the platform does. ``number``: the application's key stands once, in
``items``, and all other tables refer to it by a number. All else is the same: columns, indexes, plans, connection.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import psycopg
from corpora import Corpus, QuestionCorpus, clustered
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg import sql
from server import running, settle

DIMENSIONS, QUESTIONS, LIMIT = 384, 200, 10
LAYOUTS: Mapping[str, sql.SQL] = {"text": sql.SQL('text COLLATE "C"'), "number": sql.SQL("bigint")}

_TABLES = sql.SQL("""
    CREATE TABLE {items} (
        collection_id bigint, key {key}, item_id text COLLATE "C", body text NOT NULL,
        PRIMARY KEY (collection_id, key)
    );
    CREATE TABLE {vectors} (
        collection_id bigint, key {key}, vector halfvec({dimensions}) NOT NULL, tags text[] NOT NULL,
        PRIMARY KEY (collection_id, key)
    );
    ALTER TABLE {vectors} ALTER COLUMN vector SET STORAGE PLAIN;
    CREATE TABLE {terms} (
        collection_id bigint, key {key}, lexemes tsvector NOT NULL, PRIMARY KEY (collection_id, key)
    );
""")
_UNIQUE = sql.SQL("CREATE UNIQUE INDEX ON {items} (collection_id, item_id)")
"""The additional index of a table keyed by numbers: the application's key is unique, and writers look it up."""

_INDEXES = sql.SQL("""
    CREATE INDEX ON {vectors} USING hnsw (vector halfvec_ip_ops) WHERE collection_id = 1;
    CREATE INDEX ON {vectors} USING gin (tags);
    CREATE INDEX ON {terms} USING gin (lexemes);
""")

_DENSE = sql.SQL("""
    SELECT near.score, item.item_id, item.body
    FROM (
        SELECT key, vector <#> %(vector)s AS score FROM {vectors} WHERE collection_id = 1
        ORDER BY vector <#> %(vector)s LIMIT %(limit)s
    ) AS near
    JOIN {items} AS item ON item.collection_id = 1 AND item.key = near.key
    ORDER BY near.score
""")
_FILTERED = sql.SQL("""
    SELECT near.score, item.item_id, item.body
    FROM (
        SELECT key, (vector <#> %(vector)s) + 0 AS score FROM {vectors} WHERE collection_id = 1 AND tags && %(tags)s
        ORDER BY 2 LIMIT %(limit)s
    ) AS near
    JOIN {items} AS item ON item.collection_id = 1 AND item.key = near.key
    ORDER BY near.score
""")
_POOL = sql.SQL("""
    SELECT near.score, item.item_id
    FROM (
        SELECT key, vector <#> %(vector)s AS score FROM {vectors} WHERE collection_id = 1
        ORDER BY vector <#> %(vector)s LIMIT 50
    ) AS near
    JOIN {items} AS item ON item.collection_id = 1 AND item.key = near.key
""")
_POOL_OF_TEXT = sql.SQL("""
    SELECT near.score, near.key FROM (
        SELECT key, vector <#> %(vector)s AS score FROM {vectors} WHERE collection_id = 1
        ORDER BY vector <#> %(vector)s LIMIT 50
    ) AS near
""")
_WRITE = sql.SQL("""
    WITH item AS (INSERT INTO {items} VALUES (1, %(key)s, %(item_id)s, %(body)s)),
    vector AS (INSERT INTO {vectors} VALUES (1, %(key)s, %(vector)s, %(tags)s))
    INSERT INTO {terms} VALUES (1, %(key)s, to_tsvector('english', %(body)s))
""")


def main() -> None:
    """Print the medians of both layouts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    arguments = parser.parse_args()
    corpus = clustered(arguments.items, DIMENSIONS, QUESTIONS)
    with running() as server:
        url = server.database("keys")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            register_vector(connection)
            connection.execute("SET enable_sort = on; SET jit = off; SET plan_cache_mode = force_generic_plan")
            seconds = {name: _load(connection, name, corpus.corpus) for name in LAYOUTS}
            settle(url)
            print(f"{'':28}" + "".join(f"{name:>12}" for name in LAYOUTS) + f"{'ratio':>10}")
            _tell("load, s", seconds)
            _tell("bytes an item", {name: _bytes(connection, name) / len(corpus.corpus) for name in LAYOUTS})
            for title, call in _searches(connection, corpus).items():
                _tell(title, _in_turn(call, QUESTIONS))
            _tell("one item, durable, ms", _in_turn(_writer(connection, corpus), QUESTIONS))


def _names(layout: str) -> dict[str, sql.Composable]:
    tables = {table: sql.Identifier(f"{table}_{layout}") for table in ("items", "vectors", "terms")}
    return {**tables, "key": LAYOUTS[layout], "dimensions": sql.Literal(DIMENSIONS)}


def _key(layout: str, place: int, item_id: str) -> object:
    return item_id if layout == "text" else place


def _load(connection: psycopg.Connection[Any], layout: str, corpus: Corpus) -> float:
    names, started = _names(layout), time.perf_counter()
    connection.execute(_TABLES.format(**names))
    if layout == "number":
        connection.execute(_UNIQUE.format(**names))
    rows: dict[str, list[tuple[object, ...]]] = {"items": [], "vectors": [], "terms": []}
    for place, (item_id, text, vector) in enumerate(zip(corpus.ids, corpus.texts, corpus.vectors, strict=True)):
        key = _key(layout, place, item_id)
        rows["items"].append((1, key, item_id, text))
        rows["vectors"].append((1, key, HalfVector(vector), list(corpus.attributes[place].values())))
    with connection.cursor() as cursor:
        for table in ("items", "vectors"):
            with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(names[table])) as copy:
                for row in rows[table]:
                    copy.write_row(row)
    words = sql.SQL("INSERT INTO {terms} SELECT collection_id, key, to_tsvector('english', body) FROM {items}")
    connection.execute(words.format(**names))
    connection.execute(_INDEXES.format(**names))
    return time.perf_counter() - started


def _bytes(connection: psycopg.Connection[Any], layout: str) -> float:
    tables = [f"{table}_{layout}" for table in ("items", "vectors", "terms")]
    row = connection.execute(
        "SELECT sum(pg_total_relation_size(one::regclass)) FROM unnest(%s::text[]) AS one", (tables,)
    )
    [total] = row.fetchone() or (0,)
    return float(total)


def _searches(connection: psycopg.Connection[Any], corpus: QuestionCorpus) -> dict[str, Callable[[str, int], None]]:
    tag = corpus.corpus.attributes[0]["region"]

    def asking(statements: Mapping[str, sql.SQL]) -> Callable[[str, int], None]:
        texts = {layout: statements[layout].format(**_names(layout)) for layout in LAYOUTS}

        def ask(layout: str, number: int) -> None:
            values = {"vector": HalfVector(corpus.questions[number].vector), "limit": LIMIT, "tags": [tag]}
            connection.execute(texts[layout], values, prepare=True, binary=True).fetchall()

        return ask

    same = dict.fromkeys(LAYOUTS, _DENSE)
    return {
        "dense with texts, ms": asking(same),
        "2 % filter with texts, ms": asking(dict.fromkeys(LAYOUTS, _FILTERED)),
        "50 candidates, ms": asking({"text": _POOL_OF_TEXT, "number": _POOL}),
    }


def _writer(connection: psycopg.Connection[Any], made: QuestionCorpus) -> Callable[[str, int], None]:
    corpus, texts = made.corpus, {layout: _WRITE.format(**_names(layout)) for layout in LAYOUTS}

    def write(layout: str, number: int) -> None:
        item_id = f"new-{number:07d}"
        values = {
            "key": _key(layout, len(corpus) + number, item_id),
            "item_id": item_id,
            "body": corpus.texts[number],
            "vector": HalfVector(corpus.vectors[number]),
            "tags": list(corpus.attributes[number].values()),
        }
        connection.execute(texts[layout], values, prepare=True)

    return write


def _in_turn(call: Callable[[str, int], None], times: int) -> dict[str, float]:
    """The median of each layout in milliseconds; the first tenth is not counted."""
    taken: dict[str, list[float]] = {layout: [] for layout in LAYOUTS}
    for number in range(times):
        for layout in sorted(LAYOUTS, reverse=bool(number % 2)):
            started = time.perf_counter()
            call(layout, number)
            taken[layout].append((time.perf_counter() - started) * 1e3)
    return {layout: float(np.median(some[times // 10 :])) for layout, some in taken.items()}


def _tell(title: str, figures: Mapping[str, float]) -> None:
    ratio = figures["number"] / figures["text"]
    print(f"{title:28}" + "".join(f"{figures[name]:12.3f}" for name in LAYOUTS) + f"{ratio:10.3f}")


if __name__ == "__main__":
    main()
