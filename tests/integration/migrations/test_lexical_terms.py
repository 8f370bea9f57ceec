"""Revision 0004 on a database that holds items already."""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql

from retrieval import Settings, connect
from retrieval.adapters.store.schema import downgrade, upgrade
from tests.support.database import opened

TEXTS = {"1": "interesting words", "2": "図書館", "3": "words \uff8a\uff9d"}


async def test_items_that_were_indexed_before_are_found_by_prefixes_and_single_characters(
    new_database: Callable[..., str], settings: Settings
) -> None:
    """The upgrade spells out the known terms of every tenant and indexes scripts without spaces again."""
    url = new_database()
    tenants = [settings.changed(tenant=name) for name in ("one", "two")]
    for one in tenants:
        async with connect(url, settings=one) as platform:
            collection = await platform.collection("docs")
            await collection.add([{"_id": key, "text": text} for key, text in TEXTS.items()])
    schema = settings.database_schema
    downgrade(url, schema, "0003")
    with opened(url) as connection:
        # What the former index_terms would have written.
        connection.execute(sql.SQL("DELETE FROM {}.item_terms WHERE item_id <> '1'").format(sql.Identifier(schema)))
    upgrade(url, schema)
    for one in tenants:
        async with connect(url, settings=one) as platform:
            collection = await platform.collection("docs")
            for query, wanted in (("interesti*", "1"), ("館", "2"), ("書", "2"), ("ハン", "3")):
                assert [hit.item_id for hit in await collection.search(query)] == [wanted]
