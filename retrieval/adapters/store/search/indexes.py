"""HNSW indexes: built while others read and write, what is known of each, and what the server says about them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.installation.nodes import stored_bytes
from retrieval.adapters.store.installed_sql import qualified, quote_identifier
from retrieval.adapters.store.items.composed import LEAST_COMMON
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search.dense_leg import MAX_EFFORT, is_of_part
from retrieval.adapters.store.search.vectors import for_table, table_of

_log = logging.getLogger(__name__)

BEYOND = MAX_EFFORT + 1
"""The effort of an index whose walks find too little or cost too much: every search compares all vectors."""

_FAILED = """
    SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND starts_with(c.relname::text, %(name)s)
        AND substr(c.relname::text, length(%(name)s) + 1) ~ '^(_bits)?(_[0-9]+_of_[0-9]+)?(_cc(new|old)[0-9]*)?$'
        AND NOT (i.indisvalid AND i.indisready AND i.indislive)
        AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    ORDER BY c.relname
"""

_BUILT_NOW = """
    SELECT count(*) FROM pg_stat_progress_create_index
    WHERE datname = current_database() AND relid = to_regclass(format('%%I.%%I', %(schema)s::text, %(table)s::text))
"""


def build_statement(name: str, schema: str, table: str, definition: str) -> str:
    """The statement that builds an index concurrently, if it is missing. It must run outside a transaction."""
    on = qualified(schema, table)
    return f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {quote_identifier(name)} ON {on} {definition}"


def ef_construction_statement(name: str, schema: str, ef_construction: int) -> str:
    """The statement that sets the effort with which an index is built and later items are inserted."""
    return f"ALTER INDEX {qualified(schema, name)} SET (ef_construction = {int(ef_construction)})"


def rebuild_statement(name: str, schema: str) -> str:
    """The statement that rebuilds an index beside the old one. It must run outside a transaction."""
    return f"REINDEX INDEX CONCURRENTLY {qualified(schema, name)}"


def drop_statement(name: str, schema: str) -> str:
    """The statement that drops an index concurrently. It must run outside a transaction."""
    return f"DROP INDEX CONCURRENTLY IF EXISTS {qualified(schema, name)}"


async def is_built_now(connection: Connection, schema: str, table: str) -> bool:
    """Whether a process of this connection's login builds an index on that table of vectors."""
    return bool(await connection.value(_BUILT_NOW, {"schema": schema, "table": table}))


async def failed_builds(database: Database, name: str) -> list[str]:
    """The invalid indexes that interrupted builds and rebuilds of the index ``name`` left, of whatever form.

    A rebuild goes on beside the index, as ``..._ccnew``, and has the old one as ``..._ccold`` at its end.
    """
    rows = await database.read(None, Compiled(_FAILED, {"schema": database.names.schema, "name": name}))
    return [row[0] for row in rows]


async def drop_failed_builds(connection: Connection, schema: str, name: str) -> None:
    """Drop the indexes of ``failed_builds`` concurrently: PostgreSQL would maintain such an index and never use it.

    The connection must not be in a transaction.
    """
    for (failed,) in await connection.rows(_FAILED, {"schema": schema, "name": name}):
        await connection.execute(drop_statement(failed, schema).encode())
        _log.warning("index %s was dropped: an interrupted build had left it", failed)


class IndexForm(NamedTuple):
    """The form of a collection's HNSW index: full or quantised, and its number of parts."""

    is_quantised: bool = False
    """Whether it has one bit a dimension."""
    parts: int = 1
    """More than 1: an index for each part, of the items whose keys have the same hash."""

    def names(self, space_id: int, collection_id: int) -> list[str]:
        """The name of the index of each part, in order."""
        name = hnsw_name(space_id, collection_id) + ("_bits" if self.is_quantised else "")
        return [name] if self.parts == 1 else [f"{name}_{part}_of_{self.parts}" for part in range(1, self.parts + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnIndex:
    """A valid HNSW index of one collection in one space, as it was measured on the collection's own vectors."""

    rows: int = 0
    """Vectors when it was measured; 0: it is not measured, and the other numbers are typical values."""
    index_bytes: int = 0
    """Its size then."""
    effort_10: int = 100
    """``hnsw.ef_search`` that finds 99 % of the 10 nearest; more than 1000: none does."""
    effort_100: int = 250
    """The same for the 100 nearest."""
    effort_200: int = 400
    """The same for the 200 nearest: a filtered walk has to rank many more than it keeps."""
    recall: float = 1.0
    """The measured recall of the 10 nearest with that effort."""
    is_quantised: bool = False
    """Whether it has one bit a dimension, and an effort is also the number of rows that are compared."""
    parts: int = 1
    """The number of indexes that it consists of; each is walked with that effort."""
    exact_row_us: float = 1.5
    """Microseconds that comparing one vector takes, looked up by its key."""
    walk_row_us: float = 6.0
    """Microseconds that one more row of a filtered walk takes, with its look-up."""
    common_facets: Mapping[str, float] = field(default_factory=dict, hash=False)
    """The share of the items that have a facet, by facet. Rare facets are missing."""

    @property
    def is_measured(self) -> bool:
        """Whether the numbers were measured on this index."""
        return self.rows > 0

    @property
    def form(self) -> IndexForm:
        """The form of the index."""
        return IndexForm(self.is_quantised, self.parts)


def hnsw_name(space_id: int, collection_id: int) -> str:
    """The beginning of the names of a collection's HNSW indexes in a space, and the whole name of a usual one."""
    return f"embeddings_{space_id}_{collection_id}_hnsw"


def stem_of(index: str) -> str:
    """The beginning of the name of an HNSW index, whatever its form; another index's name as it is."""
    found = _HNSW.match(index)
    return found[0] if found else index


_HNSW = re.compile(r"embeddings_\d+_\d+_hnsw")


def hnsw_definition(
    collection_id: int,
    vector_schema: str,
    ef_construction: int,
    bits: int | None = None,
    *,
    part: int = 1,
    parts: int = 1,
) -> str:
    """The index's kind and rows, as SQL: a large collection's vectors, or their ``bits``.

    ``ef_construction``: the effort with which it is built. ``part``: the part, counted from 1, that it is for.
    """
    of = quote_identifier(vector_schema)
    if bits is None:
        key = f"(vector {of}.halfvec_ip_ops)"
    else:
        key = f"(({of}.binary_quantize(vector)::bit({int(bits)})) {of}.bit_hamming_ops)"
    of_part = "" if parts == 1 else f" AND {is_of_part(part, parts)}"
    options = f"WITH (ef_construction = {int(ef_construction)})"
    return f"USING hnsw {key} {options} WHERE collection_id = {int(collection_id)}{of_part}"


_MEASURED = tuple(each.name for each in fields(AnnIndex) if each.name != "common_facets")
_KEEP = f"""
    INSERT INTO ann_indexes AS known (collection_id, space_id, {", ".join(_MEASURED)})
    VALUES (%(collection_id)s, %(space_id)s, {", ".join(f"%({name})s" for name in _MEASURED)})
    ON CONFLICT (collection_id, space_id) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in (*_MEASURED, "measured_at"))}
"""  # noqa: S608 - of the names above
_KEEP_FACETS = """
    WITH sampled AS MATERIALIZED (
        SELECT item_id FROM {table} WHERE collection_id = %(collection_id)s
        ORDER BY hashtextextended(item_id, 0) LIMIT 1000
    ),
    often AS (
        SELECT facet, round(count(*)::numeric / (SELECT count(*) FROM sampled), 3) AS share
        FROM sampled
        -- Rows are wide: the key alone says which are taken, and only those are read.
        CROSS JOIN LATERAL (
            SELECT facets FROM {table} AS known
            WHERE known.collection_id = %(collection_id)s AND known.item_id = sampled.item_id LIMIT 1
        ) AS row
        CROSS JOIN unnest(row.facets) AS facet
        GROUP BY facet
    )
    UPDATE ann_indexes SET common_facets = coalesce(
        (SELECT jsonb_object_agg(often.facet, often.share) FROM often WHERE often.share >= %(least)s), '{{}}'
    )
    WHERE collection_id = %(collection_id)s AND space_id = %(space_id)s
"""
_FORGET = Compiled("DELETE FROM ann_indexes WHERE collection_id = %(collection_id)s AND space_id = %(space_id)s")


async def keep_measured(connection: Connection, collection_id: int, space_id: int, index: AnnIndex) -> None:
    """Store the measured numbers."""
    values = {name: getattr(index, name) for name in _MEASURED}
    await connection.execute(_KEEP.encode(), {**values, "collection_id": collection_id, "space_id": space_id})


async def keep_common_facets(at: CollectionPlace, space_id: int) -> None:
    """Count facets in a sample of the items, and store the common ones. Does nothing where no index was measured."""
    statement = for_table(_KEEP_FACETS, table_of(space_id))
    await at.write(statement, space_id=space_id, least=LEAST_COMMON)


async def forget_measured(at: CollectionPlace, space_id: int) -> None:
    """Delete the measured numbers of an index that was dropped."""
    await at.write(_FORGET, space_id=space_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """An HNSW index, whether it can be used or not."""

    name: str
    valid: bool
    bytes: int
    rows: int
    """Rows when PostgreSQL last counted them; -1: it has not yet, or the nodes of a cluster have."""


def all_parts(names: Sequence[str], existing: Mapping[str, IndexStatus]) -> IndexStatus | None:
    """The indexes of these names as one; None where one is missing."""
    if not set(names) <= existing.keys():
        return None
    parts = [existing[name] for name in names]
    return replace(parts[0], bytes=sum(part.bytes for part in parts), valid=all(part.valid for part in parts))


_FIND = """
    SELECT named.id, k.relname::text, i.indisvalid, {bytes}, {rows}
    FROM pg_index i JOIN pg_class k ON k.oid = i.indexrelid JOIN pg_namespace n ON n.oid = k.relnamespace
    CROSS JOIN LATERAL (
        SELECT (regexp_match(k.relname::text, '^embeddings_[0-9]+_([0-9]+)_hnsw'))[1]::bigint
    ) AS named (id)
    WHERE n.nspname = current_schema() AND named.id = ANY(%(ids)s)
    ORDER BY named.id, k.relname
"""


def indexes_statement(collection_ids: Sequence[int], *, is_distributed: bool) -> Compiled:
    """The statement that reads the HNSW indexes of collections, in whichever space, by collection and name.

    Its rows are the collection's number and the fields of ``IndexStatus``.
    """
    # The coordinator of a cluster counts only its own empty index.
    rows = "-1::bigint" if is_distributed else "k.reltuples::bigint"
    text = _FIND.format(bytes=stored_bytes("k.oid", is_distributed=is_distributed), rows=rows)
    return Compiled(text, {"ids": list(collection_ids)})


async def collection_indexes(at: CollectionPlace) -> list[IndexStatus]:
    """The HNSW indexes of a collection, in whichever space, by name."""
    statement = indexes_statement([at.collection_id], is_distributed=at.database.facts.is_distributed)
    return [index_status(row[1:]) for row in await at.database.read(at.tenant_id, statement)]


async def hnsw_indexes(database: Database, space_id: int, collection_id: int) -> dict[str, IndexStatus]:
    """A collection's HNSW indexes in a space, of every form, by name; without the remains of rebuilds."""
    rows = await database.read(None, indexes_statement([collection_id], is_distributed=database.facts.is_distributed))
    form = re.compile(hnsw_name(space_id, collection_id) + r"(_bits)?(_\d+_of_\d+)?")
    return {status.name: status for row in rows if form.fullmatch((status := index_status(row[1:])).name)}


def index_status(row: Row) -> IndexStatus:
    """The index of a row of ``indexes_statement``, without the collection's number."""
    return IndexStatus(**dict(zip(IndexStatus.__slots__, row, strict=True)))
