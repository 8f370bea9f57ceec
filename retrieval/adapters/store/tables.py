"""The tables as defined in the SQL files: columns for statements, and the doctor's expectations.

In ``sql/<subject>/tables.sql`` each column is on a separate line that begins with its name; keys and indexes are named.
Tables have no schema, because every transaction sets its search path.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from pgvector.sqlalchemy import HALFVEC, SPARSEVEC
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, REAL

from retrieval.adapters.store.installed_sql import directory

_TYPES: Final[dict[str, Any]] = {
    "bigint": sa.BigInteger(),
    "boolean": sa.Boolean(),
    "bytea": sa.LargeBinary(),
    "date": sa.Date(),
    "double precision": sa.Double(),
    "halfvec": HALFVEC(),
    "integer": sa.Integer(),
    "jsonb": JSONB(),
    "real": REAL(),
    "smallint": sa.SmallInteger(),
    "sparsevec": SPARSEVEC(),
    "text": sa.Text(),
    'text COLLATE "C"': sa.Text(collation="C"),
    "timestamptz": sa.DateTime(timezone=True),
    "uuid": sa.Uuid(),
}

_CREATE_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r'^ {4}([a-z]\w*) (double precision|text COLLATE "C"|[a-z]+)(?:\(\d+\))?(\[\])?', re.MULTILINE)
_KEY = re.compile(r"CONSTRAINT (\w+) PRIMARY KEY \(([^)]+)\)")
_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+)\s+ON (\w+) [^;]+;", re.MULTILINE)


class Key(NamedTuple):
    """A primary key."""

    table: str
    columns: tuple[str, ...]


class IndexDefinition(NamedTuple):
    """An index."""

    table: str
    statement: str
    """The statement that makes it, without a schema for the index and its table."""


def _texts() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(directory("sql").glob("*/tables.sql"))]


def _table(name: str, body: str) -> sa.Table:
    columns = [
        sa.Column(column, ARRAY(_TYPES[kind]) if is_array else _TYPES[kind])
        for column, kind, is_array in _COLUMN.findall(body)
    ]
    return sa.Table(name, sa.MetaData(), *columns)


TABLES: Final = {name: _table(name, body) for text in _texts() for name, body in _CREATE_TABLE.findall(text)}
"""The tables by name, without those made later for spaces, months and pg_textsearch."""

arms, collections, retrievals = TABLES["arms"], TABLES["collections"], TABLES["retrievals"]
items, item_tags, item_terms = TABLES["items"], TABLES["item_tags"], TABLES["item_terms"]
memories, memory_links = TABLES["memories"], TABLES["memory_links"]
attribute_values = TABLES["attribute_values"]

is_searchable: Final[sa.ColumnElement[bool]] = items.c.status != sa.literal_column("'archived'")
"""Whether searches find the item."""


def primary_keys() -> dict[str, Key]:
    """The primary keys that the tables are made with, by name."""
    tables = [(name, body) for text in _texts() for name, body in _CREATE_TABLE.findall(text)]
    return {
        key: Key(table, tuple(columns.split(", "))) for table, body in tables for key, columns in _KEY.findall(body)
    }


def indexes() -> dict[str, IndexDefinition]:
    """The indexes that the tables are made with, by name."""
    matches = [match for text in _texts() for match in _INDEX.finditer(text)]
    return {match[1]: IndexDefinition(match[2], " ".join(match[0].split())) for match in matches}


def literal(number: int) -> sa.ColumnElement[int]:
    """The number of a collection or a space as a part of the text, for partial indexes and the planner's estimates."""
    return sa.literal_column(str(int(number)), sa.BigInteger)


@lru_cache(maxsize=256)
def embeddings_table(space_id: int, dimensions: int) -> sa.Table:
    """The table of one embedding space (made by ``sql/search/vectors.sql``)."""
    return sa.Table(
        f"embeddings_{space_id}",
        sa.MetaData(),
        sa.Column("collection_id", sa.BigInteger),
        sa.Column("item_id", sa.Text(collation="C")),
        sa.Column("vector", HALFVEC(dimensions)),
        sa.Column("content_hash", sa.LargeBinary),
        sa.Column("facets", ARRAY(sa.Uuid)),
    )
