"""Collections of many memories, written straight into the tables: what a test of plans needs, and no words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from retrieval import Collection, Platform
from tests.support.tagged_items import fill

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = ("items", "attribute_values", "memories", "memory_links")

_FILL = """
    WITH given AS MATERIALIZED (
        SELECT n, lpad(n::text, 6, '0') AS item_id, %(now)s::timestamptz - n * interval '1 minute' AS happened_at
        FROM generate_series(0, %(size)s - 1) AS n
    ),
    stored AS (
        INSERT INTO items (collection_id, item_id, kind, title, body, tags, attributes, status, source, occurred_at,
                           content_hash, text_hash)
        SELECT %(id)s, item_id, 'chat', '', '', '{}', jsonb_build_object('project_id', 'p' || n %% %(projects)s),
            CASE WHEN n %% 100 = 99 THEN 'archived' ELSE 'active' END, '', happened_at, '', ''
        FROM given
    ),
    named AS (
        INSERT INTO attribute_values (collection_id, name, as_text, item_id, listed, place)
        SELECT %(id)s, 'project_id', 'p' || n %% %(projects)s, item_id, false, 1 FROM given WHERE n %% 100 <> 99
    ),
    remembered AS (
        INSERT INTO memories (collection_id, item_id, happened_at, base_relevance, accesses)
        SELECT %(id)s, item_id, happened_at, (n / 7 * 7919 %% 1000) / 1000.0, n / 7 * 1049 %% 50 FROM given
    ),
    linked AS (
        INSERT INTO memory_links (collection_id, entity_type, entity_id, item_id, happened_at)
        SELECT %(id)s, 'questions', 'q' || n %% 500, item_id, happened_at FROM given
        UNION ALL SELECT %(id)s, 'users', 'everybody', item_id, happened_at FROM given
    )
    INSERT INTO collection_statistics (collection_id, documents, total_length) VALUES (%(id)s, %(size)s, 0)
"""


@dataclass(frozen=True)
class Memory:
    """The memory of that number, computed again in Python."""

    number: int
    projects: int

    @property
    def item_id(self) -> str:
        """The memory's key."""
        return f"{self.number:06}"

    @property
    def project(self) -> str:
        """The memory's project."""
        return f"p{self.number % self.projects}"

    @property
    def is_archived(self) -> bool:
        """One in a hundred is."""
        return self.number % 100 == 99

    @property
    def happened_at(self) -> datetime:
        """One a minute, the first one last."""
        return NOW - timedelta(minutes=self.number)

    @property
    def base_relevance(self) -> float:
        """A thousand different ones."""
        return self.number // 7 * 7919 % 1000 / 1000

    @property
    def accesses(self) -> int:
        """0 to 49."""
        return self.number // 7 * 1049 % 50

    @property
    def question(self) -> str:
        """The question that it is linked to; to the user ``everybody`` all are."""
        return f"q{self.number % 500}"


async def filled(platform: Platform, name: str, size: int, projects: int) -> Collection:
    """A collection of that many memories, divided among the projects."""
    collection = await platform.collection(name, filterable={"project_id": "text"})
    collection_id = (await collection.refresh()).collection_id
    values: dict[str, Any] = {"id": collection_id, "now": NOW, "size": size, "projects": projects}
    await fill(platform, _FILL, values, TABLES)
    await collection.refresh()
    return collection
