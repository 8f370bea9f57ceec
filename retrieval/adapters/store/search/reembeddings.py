"""A collection's re-embedding: the move from one embedding space to another, stored as one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from enum import StrEnum
from typing import Any, LiteralString
from uuid import UUID

from psycopg import sql

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection
from retrieval.adapters.store.items.items import hold_writers
from retrieval.adapters.store.search.vectors import StoredSpace, for_table
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.serialization import Serializable


class ReembeddingState(StrEnum):
    """The state of a re-embedding."""

    FILLING = "filling"
    """Items wait for their vector in the target space."""
    READY = "ready"
    """The target space is complete, has its index, and was compared with the space in use."""
    SWITCHED = "switched"
    """Searches use the target space; the former one is kept up to date, for an immediate return."""
    REMOVING = "removing"
    """The vectors of the space that is not in use are being removed."""
    DONE = "done"
    ABORTED = "aborted"
    """It ended without a switch; stored as done, without a time of the switch."""

    @property
    def is_over(self) -> bool:
        """Whether no work is left, so that another re-embedding may begin."""
        return self in {ReembeddingState.DONE, ReembeddingState.ABORTED}


PAUSED = "paused"
"""The note of a paused re-embedding."""

REMOVING = "a worker, or the action run, removes the vectors of the space that is not used"
"""The note of a re-embedding that was just finished or aborted."""


class Switching(StrEnum):
    """The time when the collection switches to the target space."""

    WHEN_ASKED = "when asked"
    BY_ITSELF = "by itself"
    """When it is ready, if the comparison is good."""
    NOW = "now"
    """On request, as soon as the target space is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembeddingProgress(Serializable):
    """The state of a re-embedding, and the options with which it began."""

    state: ReembeddingState
    is_paused: bool
    switching: Switching
    batch_texts: int
    tokens_a_minute: int | None
    tokens_a_day: int | None
    paid_tokens: int
    paid_texts: int
    """Texts that an embedder embedded; cached texts do not count."""
    comparison: Mapping[str, Any] | None
    """See ``SpaceComparison``; None: not compared yet."""
    note: str
    """The reason why it does not proceed; empty: it does."""
    started_at: datetime
    switched_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReembedding(ReembeddingProgress):
    """A re-embedding as it is stored."""

    former: StoredSpace
    target: StoredSpace
    keep_seconds: int
    spent_on: date | None
    spent_tokens: int

    @property
    def spare(self) -> StoredSpace:
        """The space that is kept without being searched: the target, and the former space after the switch."""
        return self.target if self.switched_at is None else self.former

    def spent(self, today: date) -> int:
        """The number of tokens reserved on that day."""
        return self.spent_tokens if self.spent_on == today else 0


_COLUMNS = tuple(each.name for each in fields(StoredReembedding) if each.name not in {"former", "target"})
_FIND = Compiled(f"""
    SELECT m.former_id, to_jsonb(f) - 'space_id' - 'created_at', m.target_id, to_jsonb(t) - 'space_id' - 'created_at',
        {", ".join(f"m.{name}" for name in _COLUMNS)}
    FROM reembeddings AS m
    JOIN embedding_spaces AS f ON f.space_id = m.former_id
    JOIN embedding_spaces AS t ON t.space_id = m.target_id
    WHERE m.collection_id = %(collection_id)s
""")  # noqa: S608 - of the names above


async def find_reembedding(at: CollectionPlace) -> StoredReembedding | None:
    """The collection's last re-embedding; None: there was none."""
    rows = await at.read(_FIND)
    if not rows:
        return None
    former_id, former, target_id, target, *values = rows[0]
    columns: dict[str, Any] = dict(zip(_COLUMNS, values, strict=True))
    is_aborted = columns["state"] == ReembeddingState.DONE and columns["switched_at"] is None
    columns["state"] = ReembeddingState.ABORTED if is_aborted else ReembeddingState(columns["state"])
    columns["switching"] = Switching(columns["switching"])
    return StoredReembedding(
        former=StoredSpace(former_id, EmbeddingSpace(**former)),
        target=StoredSpace(target_id, EmbeddingSpace(**target)),
        **columns,
    )


# Writers depend on the existing spaces, so the change waits for them, but not for searches.
_ALONE = Compiled("SELECT pg_advisory_xact_lock(writers_lock(%(collection_id)s))")
_BEGIN = Compiled("""
    INSERT INTO reembeddings AS known (
        collection_id, former_id, target_id, state, switching, batch_texts, tokens_a_minute, tokens_a_day, keep_seconds
    )
    SELECT
        c.collection_id, c.space_id, %(target)s, 'filling', %(switching)s, %(batch_texts)s, %(tokens_a_minute)s,
        %(tokens_a_day)s, %(keep_seconds)s
    FROM collections AS c WHERE c.collection_id = %(collection_id)s AND c.space_id <> %(target)s
    ON CONFLICT (collection_id) DO UPDATE SET
        former_id = excluded.former_id, target_id = excluded.target_id, state = excluded.state, is_paused = false,
        switching = excluded.switching, batch_texts = excluded.batch_texts, tokens_a_minute = excluded.tokens_a_minute,
        tokens_a_day = excluded.tokens_a_day, keep_seconds = excluded.keep_seconds,
        paid_tokens = 0, paid_texts = 0, comparison = NULL, note = '', started_at = excluded.started_at,
        switched_at = NULL
    WHERE known.state = 'done'
    RETURNING known.collection_id
""")


async def begin_reembedding(at: CollectionPlace, target: StoredSpace, options: Mapping[str, Any]) -> bool:
    """Begin a re-embedding; False: another one is under way, or the collection is in that space already.

    Tokens spent of the day's budget stay spent. ``options``: the columns of its options.
    """
    begin = _BEGIN.bind(collection_id=at.collection_id, target=target.space_id, **options)
    _, begun = await at.database.write_each(at.tenant_id, [_ALONE.bind(collection_id=at.collection_id), begin])
    return bool(begun)


async def change_reembedding(
    at: CollectionPlace, states: Sequence[ReembeddingState], changes: Mapping[str, Any]
) -> bool:
    """Change columns of the re-embedding if it is in one of the states."""
    settings = [sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in changes]
    statement = sql.SQL(
        "UPDATE reembeddings SET {} WHERE collection_id = %(of)s AND state = ANY(%(states)s) RETURNING 1"
    ).format(sql.SQL(", ").join(settings))
    change = Compiled(statement.as_string(), {**changes, "of": at.collection_id, "states": list(states)})
    first = [_ALONE.bind(collection_id=at.collection_id)] if "state" in changes else []
    *_, changed = await at.database.write_each(at.tenant_id, [*first, change])
    return bool(changed)


_NOTE = Compiled("""
    UPDATE reembeddings SET note = %(note)s
    WHERE collection_id = %(collection_id)s AND NOT is_paused AND state = ANY(%(states)s)
""")


async def note_reembedding(at: CollectionPlace, note: str, states: Sequence[ReembeddingState]) -> None:
    """Store why it does not progress in one of the states, unless it is paused, which has a note of its own."""
    await at.write(_NOTE, note=note, states=list(states))


_RESERVE = Compiled("""
    UPDATE reembeddings SET
        spent_tokens = greatest(CASE WHEN spent_on = %(today)s THEN spent_tokens ELSE 0 END + %(tokens)s, 0),
        spent_on = %(today)s,
        paid_tokens = greatest(paid_tokens + %(tokens)s, 0), paid_texts = greatest(paid_texts + %(texts)s, 0)
    WHERE collection_id = %(collection_id)s AND (%(texts)s < 0 OR (
        NOT is_paused AND kept_id IS NOT NULL
        AND CASE WHEN spent_on = %(today)s THEN spent_tokens ELSE 0 END + %(tokens)s
            <= coalesce(tokens_a_day, 9223372036854775807)
    ))
    RETURNING 1
""")


async def set_tokens_aside(at: CollectionPlace, *, tokens: int, texts: int, today: date) -> bool:
    """Count the tokens as spent before calling the embedder; negative numbers release tokens that it did not use.

    False: they exceed the day's budget, or the re-embedding is paused or was aborted; tokens are released all the same.
    """
    return bool(await at.write(_RESERVE, tokens=tokens, texts=texts, today=today))


_SWITCH_OVER = """
    UPDATE reembeddings SET state = 'switched', switched_at = %(now)s, switching = 'when asked', note = ''
    WHERE collection_id = %(collection_id)s AND state IN ('filling', 'ready')
        AND target_id = %(target)s AND NOT is_paused
    RETURNING target_id
"""
_SWITCH_BACK = """
    UPDATE reembeddings SET state = 'ready', switched_at = NULL, switching = 'when asked', note = ''
    WHERE collection_id = %(collection_id)s AND state = 'switched'
    RETURNING former_id
"""
_SWITCH = "UPDATE collections SET space_id = %(space)s WHERE collection_id = %(collection_id)s"


async def switch_over(connection: Connection, collection_id: int, target: StoredSpace, now: datetime) -> bool:
    """Let searches use the target space once this transaction is committed; call ``hold_writers`` first."""
    return await _switch(
        connection, _SWITCH_OVER, {"collection_id": collection_id, "target": target.space_id, "now": now}
    )


async def switch_back(at: CollectionPlace) -> bool:
    """Let searches use the former space again, at once; False: it is no longer kept, or still in use."""
    async with at.database.transaction(at.tenant_id) as connection:
        await hold_writers(connection, at.collection_id)
        return await _switch(connection, _SWITCH_BACK, {"collection_id": at.collection_id})


async def _switch(connection: Connection, update: LiteralString, values: Mapping[str, Any]) -> bool:
    row = await (await connection.execute(update, values)).fetchone()
    if row is not None:
        await connection.execute(_SWITCH, {"collection_id": values["collection_id"], "space": row[0]})
    return row is not None


_COUNT_WITHOUT_TEXT = """
    SELECT count(*) FROM items AS item
    JOIN {former} AS given ON given.collection_id = item.collection_id AND given.item_id = item.item_id
    WHERE item.collection_id = %(collection_id)s AND NOT has_text(item.text_hash) AND NOT EXISTS (
        SELECT FROM {target} AS made WHERE made.collection_id = item.collection_id AND made.item_id = item.item_id
    )
"""


async def count_without_text(at: CollectionPlace, former: StoredSpace, target: StoredSpace) -> int:
    """Count the items without title and text that have a vector in the former space and none in the target."""
    tables = {"former": sql.Identifier(former.table_name), "target": sql.Identifier(target.table_name)}
    statement = Compiled(sql.SQL(_COUNT_WITHOUT_TEXT).format(**tables).as_string(), {"collection_id": at.collection_id})
    return int((await at.database.read(at.tenant_id, statement))[0][0])


# A cluster keeps its number, its items and so its learned data; its centroid in the other space is that of its items.
# A cluster without items has no centroid.
_CARRY_CLUSTERS = """
    WITH means AS (
        SELECT member.cluster, avg(e.vector) AS vector
        FROM item_clusters AS member
        JOIN {table} AS e ON e.collection_id = %(collection_id)s AND e.item_id = member.item_id
        WHERE member.collection_id = %(collection_id)s
        GROUP BY member.cluster
    )
    INSERT INTO cluster_centroids AS known (collection_id, space_id, cluster, centroid, items)
    SELECT %(collection_id)s, %(target)s, k.cluster,
        coalesce(l2_normalize(means.vector), array_fill(0, ARRAY[%(dimensions)s::integer])::real[]::halfvec), k.items
    FROM cluster_centroids AS k LEFT JOIN means ON means.cluster = k.cluster
    WHERE k.collection_id = %(collection_id)s AND k.space_id = %(former)s AND NOT EXISTS (
        SELECT FROM cluster_centroids AS other
        WHERE other.collection_id = %(collection_id)s AND other.space_id = %(target)s AND other.computed_at >= (
            SELECT max(latest.computed_at) FROM cluster_centroids AS latest
            WHERE latest.collection_id = %(collection_id)s AND latest.space_id = %(former)s
        )
    )
    ORDER BY k.cluster
    ON CONFLICT (collection_id, space_id, cluster)
    DO UPDATE SET centroid = excluded.centroid, items = excluded.items, computed_at = excluded.computed_at
"""


async def carry_clusters(at: CollectionPlace, *, former: StoredSpace, target: StoredSpace) -> None:
    """Copy clusters from one space to another that has older clusters or none."""
    spaces = {"former": former.space_id, "target": target.space_id, "dimensions": target.space.dimensions}
    await at.write(for_table(_CARRY_CLUSTERS, target.table_name), **spaces)


_REMOVE = """
    WITH gone AS (
        DELETE FROM {table} AS e
        WHERE e.collection_id = %(collection_id)s AND e.item_id = ANY (ARRAY(
            SELECT v.item_id FROM {table} AS v WHERE v.collection_id = %(collection_id)s
            ORDER BY v.item_id LIMIT %(most)s
        ))
        RETURNING 1
    )
    SELECT count(*) FROM gone
"""
_FORGET = [
    Compiled(f"DELETE FROM {table} WHERE collection_id = %(collection_id)s AND space_id = %(space)s")  # noqa: S608 - of these names
    for table in ("own_vectors", "cluster_centroids", "ann_indexes", "query_samples", "recall_measurements")
]


async def remove_next_vectors(at: CollectionPlace, space: StoredSpace, most: int) -> int:
    """Remove up to ``most`` of the collection's vectors in its former space; returns their number."""
    return int((await at.write(for_table(_REMOVE, space.table_name), most=most))[0][0])


async def forget_space(at: CollectionPlace, space: StoredSpace) -> None:
    """Delete the measurements and learned data of the collection in that space."""
    known = {"collection_id": at.collection_id, "space": space.space_id}
    await at.database.write_each(at.tenant_id, [statement.bind(**known) for statement in _FORGET])


# The latest search of each question, those with a verdict first; without searches by the caller's own vector.
_RECORDED = Compiled("""
    SELECT search.retrieval_id FROM (
        SELECT DISTINCT ON (r.query) r.retrieval_id, r.retrieved_at, EXISTS (
            SELECT FROM feedback AS f
            WHERE f.collection_id = %(collection_id)s AND f.retrieval_id = r.retrieval_id AND f.superseded_at IS NULL
                AND f.weight > 0
        ) AS is_judged
        FROM (
            SELECT * FROM retrievals AS latest
            WHERE latest.collection_id = %(collection_id)s AND latest.query <> '' AND latest.vector IS NULL
            ORDER BY latest.retrieved_at DESC LIMIT 5000
        ) AS r
        ORDER BY r.query, is_judged DESC, r.retrieved_at DESC
    ) AS search
    ORDER BY search.is_judged DESC, search.retrieved_at DESC LIMIT %(most)s
""")
_VERDICTS = Compiled("""
    SELECT f.retrieval_id, f.item_id, sum(f.weight * f.reward) / sum(f.weight) FROM feedback AS f
    WHERE f.collection_id = %(collection_id)s AND f.retrieval_id = ANY(%(ids)s) AND f.superseded_at IS NULL
        AND f.weight > 0
    GROUP BY f.retrieval_id, f.item_id
""")


async def recorded_questions(at: CollectionPlace, most: int) -> list[UUID]:
    """The ids of the latest recorded searches, one per question, at most ``most``."""
    return [row[0] for row in await at.read(_RECORDED, most=most)]


async def verdicts_on(at: CollectionPlace, ids: Sequence[UUID]) -> dict[UUID, dict[str, float]]:
    """The mean reward of the items with a verdict, by search and item id."""
    rewards: dict[UUID, dict[str, float]] = {}
    for search, item_id, reward in await at.read(_VERDICTS, ids=list(ids)):
        rewards.setdefault(search, {})[item_id] = float(reward)
    return rewards
