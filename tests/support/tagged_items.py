"""Collections of many items with tags and verdicts, written straight into the tables: what a test of plans needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from retrieval import Collection, Platform

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = ("items", "attribute_values", "item_tags", "arms")

_FILL = """
    WITH given AS MATERIALIZED (
        SELECT n, lpad(n::text, 6, '0') AS item_id,
            ARRAY['all', 't' || n %% 500] || CASE WHEN n %% 11 = 0 THEN '{eleven}'::text[] ELSE '{}' END AS tags
        FROM generate_series(0, %(size)s - 1) AS n
    ),
    stored AS (
        INSERT INTO items (collection_id, item_id, kind, title, body, tags, attributes, status, source, created_at,
                           content_hash, text_hash)
        SELECT %(id)s, item_id, '', '', '', tags, jsonb_build_object('group', 'g' || n %% 10),
            CASE WHEN n %% 100 = 99 THEN 'archived' ELSE 'active' END, '',
            %(now)s::timestamptz - n * interval '1 minute', '', ''
        FROM given
    ),
    grouped AS (
        INSERT INTO attribute_values (collection_id, name, as_text, item_id, listed, place)
        SELECT %(id)s, 'group', 'g' || n %% 10, item_id, false, 1 FROM given WHERE n %% 100 <> 99
    ),
    tagged AS (
        INSERT INTO item_tags (collection_id, tag, item_id, created_at)
        SELECT %(id)s, tag, item_id, %(now)s::timestamptz - n * interval '1 minute'
        FROM given, unnest(tags) AS tag WHERE n %% 100 <> 99
    ),
    judged AS (
        INSERT INTO arms (collection_id, item_id, context, successes, failures, uses, raw_successes)
        SELECT %(id)s, item_id, context, 0, 0, n %% 7 + 1, n / 7 * 7919 %% (n %% 7 + 2)
        FROM given, unnest('{"", domain=x}'::text[]) AS context
        WHERE n %% 3 = 0 AND n >= %(judged_from)s
    )
    INSERT INTO collection_statistics (collection_id, documents, total_length) VALUES (%(id)s, %(size)s, 0)
"""


@dataclass(frozen=True)
class Tagged:
    """The item of that number, computed again in Python."""

    number: int
    judged_from: int = 0

    @property
    def item_id(self) -> str:
        """The item's key."""
        return f"{self.number:06}"

    @property
    def group(self) -> str:
        """One of ten."""
        return f"g{self.number % 10}"

    @property
    def tags(self) -> set[str]:
        """One that all have, one of five hundred, and one that every eleventh has."""
        return {"all", f"t{self.number % 500}"} | ({"eleven"} if self.number % 11 == 0 else set())

    @property
    def is_archived(self) -> bool:
        """One in a hundred is. The greater the number, the longer ago it was stored."""
        return self.number % 100 == 99

    @property
    def uses(self) -> int:
        """Every third has verdicts, up to seven."""
        return self.number % 7 + 1 if self.number % 3 == 0 and self.number >= self.judged_from else 0

    @property
    def rating(self) -> float:
        """(good + 1) / (verdicts + 2)."""
        good = self.number // 7 * 7919 % (self.number % 7 + 2) if self.uses else 0
        return (good + 1) / (self.uses + 2)


async def filled(platform: Platform, name: str, size: int, *, judged_from: int = 0) -> Collection:
    """A collection of that many items; those below ``judged_from`` have no verdicts."""
    collection = await platform.collection(name, filterable={"group": "text"})
    collection_id = (await collection.refresh()).collection_id
    values: dict[str, Any] = {"id": collection_id, "now": NOW, "size": size, "judged_from": judged_from}
    await fill(platform, _FILL, values, TABLES)
    await collection.refresh()
    return collection


async def fill(platform: Platform, statement: str, values: dict[str, Any], tables: tuple[str, ...]) -> None:
    """Run the statement that fills the tables, without checks, and have them analyzed."""
    async with platform.database.maintenance() as connection:
        # Checks of foreign keys would take most of the time.
        await connection.execute("SET session_replication_role = replica")
        await connection.execute("SELECT set_config('search_path', %s, false)", (platform.database.search_path,))
        await connection.execute(statement.encode(), values)
        for table in tables:
            await connection.execute(f"VACUUM (ANALYZE) {platform.database.names.schema}.{table}".encode())
